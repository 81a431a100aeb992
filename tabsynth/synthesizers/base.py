"""The base class of the public estimators: fit a DataFrame under a budget, sample DataFrames, save, load."""

import hashlib
import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from torch import Tensor

from tabsynth._files import check_writable, replacing
from tabsynth._progress import progress_bar
from tabsynth._random import Randomness
from tabsynth._validate import between, integer, one_of, positive, shown
from tabsynth.drafting.kinds import identifying
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.holding import MIN_ROWS, CodeRules
from tabsynth.encoding.rows import PrivateRows, key_of
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import RENYI
from tabsynth.privacy.certificate.certificate import (
    MOST_NAMED,
    attach,
    beside,
    make_certificate,
    write_beside,
)
from tabsynth.privacy.ledger.ledger import Ledger, as_earlier
from tabsynth.schema.column import Column
from tabsynth.schema.conforming import conformed
from tabsynth.schema.design import MOST_WEIGHTED, Design
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.conditions import Condition, rows_where
from tabsynth.synthesizers.drafted_fits import FITTED, fit_with_schema
from tabsynth.synthesizers.fitting import (
    Plan,
    PlannedSpend,
    Run,
    check_left,
    check_sources,
    complete_plan,
    stated_facts,
)
from tabsynth.synthesizers.model_file import (
    MAX_ROWS,
    binding,
    file_facts,
    read_model,
    rebuilt,
    write_model,
)
from tabsynth.synthesizers.timing import estimated_seconds
from tabsynth.tables.arrow_files import write_parquet_parts
from tabsynth.tables.counter import RowCounter
from tabsynth.tables.files import suffix, write_table
from tabsynth.tables.formulas import HANDLINGS
from tabsynth.tables.frames import CHOICES, TableKind, in_kind, to_pandas
from tabsynth.training.loop import INTERRUPTED, Progress, TrainingMonitor

MAX_CELLS = 2 * 10**9  # of one sampled table: past it, memory is what fails
STREAMED = 2**19  # rows past which a Parquet file is written in parts, each of at most so many …
STREAMED_CELLS = 2**22  # … and of so many cells
POPULATION = "population"  # weights of a sample that add up to the noisy total
MAX_EPSILON = 10_000.0  # past it "private" is an empty word
T = TypeVar("T")
Sampler = Callable[[int, torch.Generator], np.ndarray]  # from a number to as many rows of codes
logger = logging.getLogger(__name__)
MOST_IMPLICATES = 1_000  # Rubin's rules gain nothing from more
NOMINAL_ROWS = 20_000  # what times are estimated for where the caller declares no number of rows
LEAST_LIMIT = 1e-3  # seconds: of a fit for which the reading of its table has left no time
# Packages whose lazy tables count their own rows; none is imported to find it out.
LAZY = ("duckdb", "polars", "pyspark", "ibis", "daft", "sqlframe", "dask", "narwhals")
SHORT = 60.0  # seconds: under a shorter time limit no time is spent on an estimate


def check_identifiers(schema: Schema) -> None:
    """Refuse drafted columns that identify people or records, all in one message, whatever was accepted."""
    reasons = {c.name: identifying(c) for c in schema.columns if c.provenance == "drafted"}
    named = [f"{shown(name)} ({reason})" for name, reason in reasons.items() if reason]
    if named:
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        raise InputError(
            "The schema has drafted columns that seem to identify people or records:"
            f" {', '.join(named[:MOST_NAMED])}{more}. Draft the schema again, which leaves them out, take"
            " them out of it, or declare them by hand if they may be learned."
        )


def check_size(n: int, columns: int) -> None:
    """Refuse a number of rows to sample that is none, or too many at a time."""
    integer("n", n)
    if n * columns > MAX_CELLS:
        raise InputError(
            f"Expected n of at most {MAX_CELLS // columns:,} rows at a time, got n={n:,}; sample in"
            " parts."
        )


def _number_of_implicates(count: Any) -> int:
    if integer("implicates", count) > MOST_IMPLICATES:
        raise InputError(
            f"Expected implicates to be at most {MOST_IMPLICATES:,}, got {count:,}; 5 to 20 are enough."
        )
    return int(count)


def numbered(path: str | Path, count: int) -> list[Path]:
    """The files of several implicates: ``name-1.csv`` and on beside ``name.csv``."""
    path = Path(path)
    end = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    stem = path.name.removesuffix(end)
    return [path.with_name(f"{stem}-{i + 1}{end}") for i in range(count)]


def state_weights(certificate: dict[str, Any]) -> None:
    """Let the certificate of a table state that it has a column of weights."""
    design = {**certificate["public"]["design"], "weights_in_table": True}
    certificate["public"] = {**certificate["public"], "design": design}


def device_of(name: str) -> torch.device:
    """The device called ``name``; ``auto`` is a GPU where there is one."""
    one_of("device", str(name).split(":")[0], ("auto", "cpu", "cuda"))
    cuda = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if cuda else "cpu")
    if str(name).startswith("cuda") and not cuda:
        raise InputError("device='cuda' was asked for, but torch finds no CUDA here; use 'auto'.")
    try:
        return torch.device(name)
    except RuntimeError:
        raise InputError(f"torch knows no device={shown(name)}; use 'auto'.") from None


def counting(table: Any) -> Any:
    """A table as ``fit`` takes it: a lazy table of an engine as a counter of its rows, any other as it is."""
    library = type(table).__module__.partition(".")[0]
    if library not in LAZY:
        return table
    from tabsynth.tables.engines import EngineCounter, is_lazy

    if is_lazy(table):
        return EngineCounter(table)
    return table


def ahead(parts: Iterator[T]) -> Iterator[T]:
    """What an iterator gives, each made in another thread while the one before it is used."""
    nothing: Any = object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, parts, nothing)
        while (part := coming.result()) is not nothing:
            coming = thread.submit(next, parts, nothing)
            yield part


def public_table(index: np.ndarray) -> dict[str, Any]:
    """Of a public table: its rows, and a hash of its category codes."""
    digest = hashlib.sha256(np.ascontiguousarray(index, dtype="<i8").tobytes()).hexdigest()
    return {"rows": len(index), "sha256_of_value_numbers": digest}


def check_provenance(public: Any, provenance: Any) -> None:
    """Refuse a public table whose source nobody states."""
    if public is not None and not (isinstance(provenance, str) and provenance.strip()):
        raise InputError(
            "A public table needs provenance: say in a line where it comes from and why it is"
            f" public; got provenance={shown(provenance)}."
        )


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The result of training: a sampler of category codes, its weights, and public diagnostics."""

    generator: Any
    curves: dict[str, dict[str, list[float]]]
    notes: dict[str, Any] = field(
        default_factory=dict
    )  # released numbers that a certificate states
    rows: float | None = None  # declared, or released with noise
    population: float | None = None  # the noisy total of the weights, where rows have weights
    population_interval: tuple[float, float] | None = None  # 95%
    likely_steps: dict[str, int] = field(default_factory=dict)  # of a trial, where a fit ends early
    measured: Any = None  # the noisy counts of a fit to counts, for intervals
    tables: Sequence[Any] = ()  # declared tables, with their noisy counts

    def weights(self) -> dict[str, Tensor]:
        """Everything that sampling needs."""
        return dict(self.generator.state_dict())


def _changed(thing: Any, values: Mapping[str, Any]) -> str:
    """A dataclass in one line: its fields, but those that have their default."""
    defaults = {f.name: f.default for f in fields(thing)}
    parts = []
    for name, value in values.items():
        default = defaults.get(name)
        if value is not default and not (type(value) is type(default) and value == default):
            parts.append(f"{name}={_in_short(value)}")
    return f"{type(thing).__name__}({', '.join(parts)})"


def _in_short(value: Any) -> str:
    if isinstance(value, Schema):
        return f"<Schema of {len(value.columns)} columns>"
    if isinstance(value, pd.DataFrame):
        return f"<table of {len(value)} rows>"
    if is_dataclass(value) and not isinstance(value, type | Synthesizer):
        return _changed(value, {f.name: getattr(value, f.name) for f in fields(value)})
    return repr(value) if isinstance(value, Synthesizer) else shown(value, 80)


@dataclass(kw_only=True, eq=False, repr=False)
class Synthesizer(BaseEstimator):
    """What all synthesizers share: plan, fit, sample, save.

    An estimator is a dataclass, whose fields are its parameters; the constructor only stores them, as that of
    any estimator of scikit-learn. Subclasses add fields under the same decorator. They plan their mechanisms
    (``_spends``), train on category codes (``_train``), and build an untrained generator (``_empty``).
    """

    method: ClassVar[str]
    stops_early: ClassVar[bool] = False  # a fit may be done before its last step
    composition: ClassVar[str] = RENYI  # of a draft and the fit that made it
    no_design: ClassVar[tuple[str, ...]] = ("weight", "unit")  # what of a design it does not take
    schema: Schema = field(default=None, kw_only=False)  # type: ignore[assignment]
    epsilon: float
    delta: float = 1e-5
    rows: int | None = None
    time_limit: float | None = None
    accept_drafted_domain: bool = False
    draft_options: Mapping[str, Any] | None = None
    random_state: int | None = None
    device: str = "auto"
    verbose: bool = False

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The class and the parameters that are not the default; ``N_CHAR_MAX`` is scikit-learn's, and not used."""
        return _changed(self, self.get_params(deep=False))

    def __sklearn_tags__(self) -> Tags:
        """A table has texts, categories and missing values; noise is drawn again in each fit without a seed."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        for name in ("string", "categorical", "allow_nan"):
            setattr(tags.input_tags, name, True)
        return tags

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the schema's columns, shape (columns,), of a fitted synthesizer."""
        self._check_fitted()
        return np.array(self.encoder_.whole.names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Their number."""
        return len(self.feature_names_in_)

    def plan(self, *, estimate_time: bool = True) -> Plan:
        """The privacy cost of :meth:`fit`, before a private row is read.

        Times are measured on made-up rows: as many as ``rows`` declares, else 20,000. Under a time limit of less than a
        minute there is no estimate.
        """
        self._check_parameters()
        earlier = self._earlier()
        return self._complete_plan(self._spends(earlier), earlier, estimate_time)

    def fit(
        self,
        table: Any,
        y: None = None,
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        ledger: str | Path | None = None,
        count: Collection[str] = (),
    ) -> Self:
        """Fit the table under the budget. The plan is logged before the table is read.

        Parameters
        ----------
        table : DataFrame
            pandas, or any that narwhals reads (polars, pyarrow, …); columns as the schema declares. Tables that
            outgrow memory are a :class:`tabsynth.tables.ParquetCounter`, a DuckDB relation or a polars LazyFrame; MargNet also
            takes a PySpark DataFrame and any :class:`tabsynth.tables.RowCounter`. A fit without a schema drafts one, as :func:`tabsynth.draft_private` does. Of a DataFrame it
            then takes as public which columns are numeric, text or time, and a UserWarning says so. Of a table that
            :func:`tabsynth.read_table` read, it takes the types that the file declares.
        progress : callable, optional
            ``progress(stage, done, total)``.
        checkpoint : path, optional
            A folder for :mod:`tabsynth.training.checkpoint`. After a kill, a Ctrl-C or a time limit
            the same call resumes the interrupted fit, on the same budget: steps of unknown outcome count as
            spent. If the fit was complete, its model is restored and nothing is charged.
        ledger : path, optional
            A project's ledger (:class:`tabsynth.privacy.ProjectLedger`): the privacy cost of this fit composes there with
            all other fits under it, and is written there before rows are read. Locked until the fit ends.
        count : collection of {"violations", "clipped", "bounded", "repeated"}
            Numbers to release with noise, each for a hundredth of the budget (in μ²): of rows that break a rule of the schema,
            of rows whose survey weight is above its ``max_weight``, of units with more rows than its ``max_rows_per_unit``, and
            of values of its first identifier that several rows have. The certificate lists each with its mechanism. By
            default nothing says how many there are; a warning on identifiers then follows from the schema alone.

        Raises
        ------
        InputError
            If the table or a parameter is not usable; nothing is charged. If the checkpoint or the ledger
            belongs to another fit, or is in use.
        BudgetError
            If the fit would exceed the budget, or that of the project.
        KeyboardInterrupt
            After Ctrl-C; the synthesizer then holds the partly trained model. Its certificate claims the ε of
            the whole plan, because the time at which a person stops a fit may depend on its progress.
        """
        counted: list[str] = []
        if count:  # most fits do without
            from tabsynth.synthesizers.violations import check_count

            counted = check_count(count)
        table = counting(table)
        if not isinstance(self.schema, Schema):
            fit_with_schema(self, table, progress, checkpoint, ledger, counted)
            return self
        started = time.monotonic()
        self._check_parameters()
        self._check_domain()
        self._warn_of_identifiers(counted)
        if counted:
            self._release_numbers(
                counted, table, on_disk=checkpoint is not None or ledger is not None
            )
        with Run(self, checkpoint, ledger) as run:
            if run.finished:
                run.restore_model()
            else:
                columns = {column.name: column for column in self.schema.columns}
                kind = TableKind.of(table).for_columns(columns)
                self._fit_run(run, table, kind, progress, started)
        return self

    def _fit_run(
        self, run: Run, table: Any, kind: TableKind, progress: Progress | None, started: float
    ) -> None:
        """Fit by the plan of a run."""
        if self.verbose or logger.isEnabledFor(logging.INFO):
            self._show(self._complete_plan(run.spends, run.ledger, self.verbose))
        encoder = self._make_encoder()
        index = self._rows(encoder, table)
        run.start()
        deadline = None if self.time_limit is None else started + self.time_limit
        bar = progress_bar(True, progress) if self.verbose else nullcontext(progress)
        with bar as shown_progress:
            monitor = TrainingMonitor(progress=shown_progress, deadline=deadline)
            trained = run.train(index, monitor)
        # What a later save or sample needs, as it was for this fit, even if parameters change later.
        self.seeded_ = run.seeded
        self.facts_ = self._facts(monitor, trained) | run.facts()
        self.config_ = self._config()
        self.encoder_ = encoder
        self.trained_ = trained
        self.table_kind_ = kind
        if monitor.stopped is None and run.checkpoint is not None:
            run.checkpoint.finish(self.save)
        if monitor.stopped == INTERRUPTED:
            raise KeyboardInterrupt

    @property
    def _design(self) -> Design:
        """What rows stand for: as the schema declares it, or the options of its draft."""
        if self.schema is None:
            return Design.among(dict(self.draft_options or {}))
        design: Design = self.schema.design
        return design

    def _release_numbers(self, counted: Sequence[str], table: Any, *, on_disk: bool) -> None:
        """Release noisy numbers of rows that are changed or left out, and put their cost on the ledger of this fit."""
        from tabsynth.synthesizers import violations as numbers

        for option in counted:
            numbers.check_counted(option, self.schema, table, on_disk=on_disk)
        check_sources(self, None)
        encoder = TableEncoder(self.schema, self._encoding())
        self._rows(encoder, table)  # what a fit refuses is refused before anything is charged
        spent = Ledger.from_list(self.epsilon, self.delta, as_earlier(self._earlier().to_list()))
        spent.unit, spent.contributions = self.schema.unit, self.schema.contributions
        self.ledger_ = spent  # what is released is spent, whatever comes of the rest
        for option in counted:
            numbers.release_number(option, table, encoder, spent, self.random_state)

    @property
    def schema_(self) -> Schema:
        """The schema of the fitted model: the given one, or that which the fit has drafted."""
        self._check_fitted()
        return self.encoder_.whole

    @property
    def rows_(self) -> int | None:
        """The declared number of rows, or the noisy one that the fit released; None where it released none."""
        self._check_fitted()
        rows = self.trained_.rows
        return None if rows is None else max(1, round(rows))

    @property
    def population_(self) -> float | None:
        """The noisy total of the survey weights, at least 1; None of a fit that released none."""
        self._check_fitted()
        return self.trained_.population

    @property
    def population_interval_(self) -> tuple[float, float] | None:
        """The 95% interval of the total of the survey weights, each up to the cap; None where a model file states none."""
        self._check_fitted()
        return self.trained_.population_interval

    def sample(
        self,
        n: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        max_draws: int | None = None,
        random_state: int | None = None,
        dataframe: str = "fitted",
        weights: str | None = None,
        implicates: int | None = None,
    ) -> Any:
        """Draw ``n`` synthetic rows, all of which satisfy a condition if one is given.

        The table has the schema's columns, order, dtypes and nulls. Costs no privacy. ``table.attrs["certificate"]``
        of a pandas DataFrame
        holds the certificate, with the condition and a hash of the table's content: a table that was edited, filtered
        or reordered has no certificate any more. For other kinds of tables there is :meth:`certificate`.

        Parameters
        ----------
        n : int, optional
            Default: the declared number of rows, or the noisy one that the fit released (``rows_``). It is never the
            size of the population that weighted rows stand for.
        where : dict, optional
            From columns to a value, a range ``{"low": a, "high": b}`` of an ordered column,
            both ends included, or several of these, any of which will do; None for null. Rows have the
            very numbers that are asked for, but where a column of reals declares no resolution: there
            a number stands for its cell, which the certificate then names, and a range must fill whole
            cells. MargNet draws rows from the fitted mixture given the condition, exactly, by Bayes' rule. PATEACGAN
            does so for its label. All else is rejection: rows are drawn, with the rules of the schema held among
            them, and those that satisfy the condition are kept.
        max_draws : int, optional
            The largest number of rows to draw for a condition. Default: 100 for each row that is asked for, and at
            least 1,000,000.
        random_state : int, optional
            Default: the synthesizer's own. Makes the draw reproducible.
        dataframe : {"fitted", "pandas", "polars", "pyarrow"}
            The kind of table. ``fitted``: that of the table of the fit, with texts stored as there. Other types are those
            that the schema declares. Of an unknown fitted table, pandas.
        weights : {None, "population"}
            Synthetic rows are self-weighting: each stands for as many people as any other. ``population`` adds a last
            column with the name of the schema's weight: the noisy total of the weights (``population_``) over ``n``,
            in each row.
        implicates : int, optional
            Return a list of so many synthetic tables, which differ as much as the noise of MargNet's counts leaves open:
            analyses of them are combined by :func:`tabsynth.inference.pool`. Use the default ``n``. It costs no privacy.

        Raises
        ------
        InputError
            For an unknown column, an undeclared value, or a condition that the schema declares
            impossible, that has probability 0 in the model, or that is too rare for ``max_draws``. If ``n`` is not given and
            the fit released no number of rows. For weights of a model whose fit released no total, or with ``where``.
        """
        self._check_fitted()
        if implicates is not None:
            given: dict[str, Any] = {"where": where, "max_draws": max_draws, "weights": weights}
            return [
                model.sample(n, random_state=seed, dataframe=dataframe, **given)
                for seed, model in self._each_implicate(implicates, random_state)
            ]
        one_of("dataframe", dataframe, CHOICES)
        self._check_weights(weights, where)
        n = self._number_of_rows(n)
        check_size(n, len(self.encoder_.schema.columns))
        if max_draws is not None:
            integer("max_draws", max_draws)
        unconditional = where is None or (isinstance(where, Mapping) and not where)
        condition = None if unconditional else Condition(self.encoder_.whole, where)
        for_codes, for_cells = self._streams(random_state)
        sampler, exact = self._sampler(condition)

        def draw(rows: int) -> np.ndarray:
            return self._holding_rules(lambda more: sampler(more, for_codes), rows, for_cells)

        if condition is None:
            table = self.encoder_.from_index(draw(n), for_cells)
        else:
            table = rows_where(condition, n, max_draws, self.encoder_, draw, for_cells, exact=exact)
        columns: dict[str, Column] = {c.name: c for c in self.encoder_.whole.columns}
        if weights is not None:
            column = self._weight_column(n)
            table[column.name] = self.trained_.population / n
            columns[column.name] = column
        made = in_kind(table, columns, self.table_kind_, dataframe)
        if isinstance(made, pd.DataFrame):
            certificate = self.certificate()
            if weights is not None:
                state_weights(certificate)
            attach(made, certificate)
            if condition is not None:
                made.attrs["certificate"]["condition"] = condition.stated
        return made

    def _each_implicate(
        self, count: int, random_state: int | None
    ) -> Iterator[tuple[int | None, Self]]:
        """Models that differ as much as their noise leaves open, and a seed for a table of each."""
        _number_of_implicates(count)
        if random_state is not None:
            integer("random_state", random_state, least=0)
        seed = self.random_state if random_state is None else random_state
        for i, model in enumerate(self._implicates(count, seed)):
            yield None if seed is None else (seed + 1) * 2**67 + i, model

    def _check_weights(self, weights: str | None, where: Any) -> None:
        """Refuse weights of samples that there cannot be."""
        one_of("weights", weights, (None, POPULATION))
        if weights is None:
            return
        if self.schema_.design.weight is None or self.trained_.population is None:
            raise InputError(
                "This fit released no total of survey weights; leave weights (--weights) out, or fit with a schema that"
                " declares a weight."
            )
        if where:
            raise InputError(
                "Rows under a condition are a part of the population whose size was not released; leave weights"
                " (--weights) or where (--where) out."
            )

    def _weight_column(self, n: int) -> Column:
        """The column of weights of a sample of ``n`` rows."""
        name, most = str(self.schema_.design.weight), self.trained_.population
        return Column(
            name=name, kind="numeric", dtype="float64", low=0.0, high=float(most or 0) / n
        )

    def sample_to(
        self,
        path: str | Path,
        n: int | None = None,
        *,
        random_state: int | None = None,
        formulas: str = "refuse",
        sep: str | None = None,
        decimal: str | None = None,
        implicates: int | None = None,
        **options: Any,
    ) -> Any:
        """Write ``n`` synthetic rows to a file and the certificate beside it.

        ``n`` as of :meth:`sample`; ``formulas``, ``sep`` and ``decimal`` (default: that of the schema) as of
        :func:`tabsynth.write_table`; ``options`` are those of the method's :meth:`sample`. Returns the path of the
        certificate. With ``implicates`` there are so many files, ``name-1.csv`` and on, and a list of certificates.

        A Parquet file of more than 524,288 rows without a condition is written as it is drawn, in parts of constant
        memory. Its rows are others than :meth:`sample` draws from the same ``random_state``, and MargNet draws them
        independently: counts then have the error of a random sample of that size.
        """
        kind = suffix(path, writing=True)
        if implicates is not None:
            paths = numbered(path, _number_of_implicates(implicates))
            for each in paths:
                check_writable(each)
                check_writable(beside(each))
            self._check_fitted()
            given = {"formulas": formulas, "sep": sep, "decimal": decimal, **options}
            return [
                model.sample_to(each, n, random_state=seed, **given)
                for each, (seed, model) in zip(
                    paths, self._each_implicate(implicates, random_state), strict=True
                )
            ]
        for output in (path, beside(path)):  # a table must not be left without its certificate
            check_writable(output)
        self._check_fitted()
        rows = integer("n", self._number_of_rows(n))
        # A label may be False, 0 or null; an empty condition is none.
        others = {
            name
            for name, value in options.items()
            if name != "weights" and value is not None and not (name == "where" and not value)
        }
        if kind == ".parquet" and rows > STREAMED and not others and sep is decimal is None:
            one_of("formulas", formulas, HANDLINGS)
            return self._stream_to(Path(path), rows, random_state, options.get("weights"))
        table = self.sample(n, random_state=random_state, **{**options, "dataframe": "pandas"})
        mark = decimal or self.encoder_.whole.decimal
        write_table(table, path, formulas=formulas, sep=sep, decimal=mark)
        return beside(path)

    def _stream_to(self, path: Path, n: int, random_state: int | None, weights: str | None) -> Path:
        """Write rows to a Parquet file as they are drawn: a part is drawn while the one before it is written."""
        self._check_weights(weights, None)
        most = max(MIN_ROWS, min(STREAMED, STREAMED_CELLS // len(self.encoder_.schema.columns)))
        for_codes, for_cells = self._streams(random_state)
        draw = self._stream_sampler()
        parts = -(-n // most)
        lengths = [n // parts + (i < n % parts) for i in range(parts)]

        def table(rows: np.ndarray) -> pd.DataFrame:
            if self.encoder_.whole.ruled and self.encoder_.rules.broken(rows).any():
                rows = self.encoder_.rules.hold(rows, for_cells)
            made = self.encoder_.from_index(rows, for_cells)
            if weights is not None:
                made[self._weight_column(n).name] = float(self.trained_.population or 0.0) / n
            return made

        certificate = self.certificate()
        with replacing(path, confidential=not certificate["private"]) as temporary:
            write_parquet_parts(
                map(table, ahead(draw(length, for_codes) for length in lengths)), temporary
            )
        if weights is not None:
            state_weights(certificate)
        return write_beside(certificate, path, n)

    def _stream_sampler(self) -> Sampler:
        """A sampler of category codes of a part of a table that is too large to be drawn at once."""
        return self._sampler(None)[0]

    def certificate(self) -> dict[str, Any]:
        """What is claimed about every table sampled: a JSON-ready dict."""
        self._check_fitted()
        return make_certificate(self.ledger_, self.facts_, method=self.method, seeded=self.seeded_)

    def save(self, path: str | Path) -> None:
        """Write the model to one file: weights as safetensors, the rest as JSON. No seed, no row.

        Only its owner may read the file of a model that is not private.
        """
        confidential = not self.certificate()["private"]
        facts, tensors = self._file_facts(), self._file_tensors()
        write_model(path, facts, tensors, confidential=confidential)

    def _show(self, plan: Plan) -> None:
        """Log the plan; with ``verbose``, show it on stderr too."""
        logger.info("%s", plan)
        if self.verbose:
            console = Console(stderr=True)
            console.print(str(plan), markup=False, highlight=False, soft_wrap=True)

    def _check_domain(self) -> None:
        """Refuse a fit on drafted columns that identify people, and a private fit on others unless confirmed.

        Only the schema is read, whoever drafted or edited it.
        """
        check_identifiers(self.schema)
        self._check_confirmed()

    def _check_confirmed(self) -> None:
        """Refuse a private fit on drafted columns that nobody has confirmed."""
        drafted = self.schema.drafted
        if math.isfinite(self.epsilon) and drafted and not self.accept_drafted_domain:
            raise InputError(
                f"The schema's column {shown(drafted[0])} was drafted from a table, so it"
                " may hold private facts; declare it from a public source, or confirm with"
                " accept_drafted_domain=True (--accept-drafted-domain)."
            )

    def _warn_of_identifiers(self, counted: Sequence[str]) -> None:
        """Warn where people may have several rows, as the schema says; the rows are not looked at."""
        names = self.schema.identifiers
        if names and self.schema.unit is None and "repeated" not in counted:
            logger.warning(
                "the schema declares identifier %s and no unit, so the fit protects single rows; if somebody may have several,"
                " declare the unit (this follows from the schema alone; count=['repeated'] or --count repeated counts them with noise)",
                ", ".join(map(shown, names)),
            )

    def _check_project(self, ledger: str | Path) -> None:
        """Refuse a new fit that would pass a project's limit, before there is a table."""
        self._check_parameters()
        Run(self, None, ledger).release()

    # What a method provides.

    def _check(self) -> None:
        """Check the parameters of the subclass."""

    def _implicates(self, count: int, random_state: int | None) -> Iterator[Self]:
        """Fitted models that differ as much as the noise of this one leaves open."""
        raise InputError(
            f"Method {self.method} has no noisy counts that implicates could follow from; leave implicates (--implicates) out,"
            " or fit margnet."
        )

    def _encoding(self) -> str | Mapping[str, str]:
        """The scheme of the codes, or a scheme by column."""
        return "one-hot"

    def _spends(self, earlier: Ledger) -> list[PlannedSpend]:
        raise NotImplementedError

    def _train(
        self,
        index: np.ndarray,
        spends: list[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        monitor: TrainingMonitor,
    ) -> Trained:
        """Train on category codes."""
        raise NotImplementedError

    def _free_steps(self) -> dict[str, int]:
        """Steps of stages that read no private row, by stage."""
        return {}

    def _notes(self, spends: Sequence[PlannedSpend]) -> list[str]:
        """Warnings about a plan of this method, to be read before the fit."""
        return []

    def _public_index(self, encoder: TableEncoder) -> np.ndarray | None:
        """Category codes of the public table that training uses, if any."""
        return None

    def _public_facts(self) -> dict[str, Any] | None:
        """What a certificate says of the public table: its rows, and a hash of its category codes."""
        public = self._public_index(TableEncoder(self.schema, self._encoding()))
        return None if public is None else public_table(public)

    def _stated(self) -> dict[str, Any]:
        """What a certificate says among the settings, besides parameters; JSON-ready and public."""
        return {}

    def _config(self) -> dict[str, Any]:
        """What rebuilds an untrained generator, JSON-ready."""
        raise NotImplementedError

    @classmethod
    def _from_config(cls, schema: Schema, config: Mapping[str, Any], **shared: Any) -> Self:
        """Inverse of :meth:`_config`."""
        raise NotImplementedError

    def _size(self) -> int:
        """Number of weights of the generator that the configuration describes."""
        raise NotImplementedError

    def _empty(self) -> Any:
        """An untrained generator, for the weights of a file."""
        raise NotImplementedError

    # Shared machinery.

    def _make_encoder(self) -> Any:
        """What makes category codes of a table."""
        return TableEncoder(self.schema, self._encoding())

    def _rows(self, encoder: TableEncoder, table: Any) -> PrivateRows:
        """What is trained on: category codes, shape (n, columns), with weights and units where these are declared."""
        if isinstance(table, RowCounter):
            raise InputError(f"Method {self.method} needs rows; only margnet is fitted to counts.")
        drafted = encoder.whole.released is not None
        frame = conformed(table, encoder.whole) if drafted else to_pandas(table)
        return encoder.to_rows(frame, self._key())

    def _key(self) -> bytes:
        """A secret of 16 bytes, which chooses the rows of a unit that are used; of a seeded fit always the same."""
        return key_of(self.random_state)

    def _sampler(self, condition: Condition | None) -> tuple[Sampler, bool]:
        """A sampler of category codes, and whether its rows satisfy a condition as far as codes decide it."""
        sampler: Sampler = self.trained_.generator.sample
        return sampler, False

    def _number_of_rows(self, n: int | None) -> int:
        """The number of rows of a sample: as given, else that of the fit."""
        number = self.rows_ if n is None else n
        if number is None:
            raise InputError(
                "This fit released no number of rows; give n (-n), or declare rows when fitting."
            )
        return number

    def _holding_rules(
        self, draw: Callable[[int], np.ndarray], n: int, rng: np.random.Generator
    ) -> np.ndarray:
        """``n`` rows of codes that satisfy the schema's rules, from a sampler."""
        rows = draw(n)
        if self.encoder_.whole.ruled and self.encoder_.rules.broken(rows).any():
            if n < MIN_ROWS:  # exchanges need rows to exchange with
                rows = np.concatenate([rows, draw(MIN_ROWS - n)])
            rows = self.encoder_.rules.hold(rows, rng)[:n]
        return rows

    def _streams(self, random_state: int | None) -> tuple[torch.Generator, np.random.Generator]:
        """Of one draw from a fitted model: for category codes, on its device, and for numbers in cells."""
        if random_state is not None:
            integer("random_state", random_state, least=0)
        seed = self.random_state if random_state is None else random_state
        # Streams of their own: the draws must not repeat those of the fit.
        randomness = Randomness(None if seed is None else int(seed) + 2**64)
        device = next(iter(self.trained_.weights().values())).device
        return randomness.torch(device), randomness.numpy()

    def _check_parameters(self) -> None:
        """Refuse what no method can use, by the name of the parameter."""
        if not isinstance(self.schema, Schema):
            given = "none" if self.schema is None else type(self.schema).__name__
            raise InputError(f"Expected schema to be a Schema, got {given}; only fit drafts one.")
        self._check_shared()
        declared = self.schema.design.parameters()
        for name, value in dict(self.draft_options or {}).items():
            if value is not None and declared.get(name, value) != value:
                raise InputError(
                    f"draft_options has {name}={shown(value)}, and the schema {name}={shown(declared[name])}; declare it in"
                    " the schema."
                )
        for what in (name for name in self.no_design if getattr(self.schema, name) is not None):
            raise InputError(
                f"Method {self.method} does not take a schema with a {what}; take {shown(getattr(self.schema, what))} out"
                " of it, or fit margnet."
            )
        self._check()
        if self.schema.ruled:
            _ = CodeRules(self.schema).merged  # refuses what cannot be held

    def _check_shared(self) -> None:
        """Refuse wrong values of the parameters that all methods have, but the schema."""
        self._check_budget()
        if self.rows is not None:
            integer("rows", self.rows)
            between("rows", self.rows, 1, MAX_ROWS)
            if self.schema.design.weight is not None and self.rows > MOST_WEIGHTED:
                raise InputError(
                    f"Expected rows of at most {MOST_WEIGHTED:,} with survey weights, whose sums are exact up to there;"
                    f" got {self.rows:,}."
                )
        if self.time_limit is not None:
            positive("time_limit", self.time_limit)
        if self.random_state is not None:
            integer("random_state", self.random_state, least=0)
        device_of(self.device)

    def _check_budget(self) -> None:
        positive("epsilon", self.epsilon, finite=False)
        if MAX_EPSILON < self.epsilon < math.inf:
            raise InputError(
                f"Expected epsilon of at most {MAX_EPSILON:g}, got epsilon={self.epsilon:g}; for a run"
                " without privacy say so: epsilon=inf."
            )
        between("delta", self.delta, 0, 1, low_open=True, high_open=True)

    def _check_fitted(self) -> None:
        if not hasattr(self, "trained_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _device(self) -> torch.device:
        return device_of(self.device)

    def _earlier_spends(self) -> list[dict[str, Any]]:
        """What counts as spent before the next fit begins, as a ledger lists it."""
        if hasattr(self, "ledger_"):
            return as_earlier(self.ledger_.to_list())
        released = getattr(self.schema, "released", None)
        return [] if released is None else as_earlier(released["mechanisms"])

    def _seeded(self) -> bool:
        """Whether this fit or an earlier one is seeded: a known seed allows the noise to be subtracted."""
        released = getattr(self.schema, "released", None) or {}
        seeded = getattr(self, "seeded_", False) or bool(released.get("seeded"))
        return self.random_state is not None or seeded

    def _earlier(self) -> Ledger:
        """A ledger for the next fit on which earlier fits of this object are already charged."""
        ledger = Ledger.from_list(self.epsilon, self.delta, self._earlier_spends())
        check_left(ledger, self)
        return ledger

    def _facts(self, monitor: TrainingMonitor, trained: Trained) -> dict[str, Any]:
        """What a certificate says besides the ledger."""
        return stated_facts(self, monitor, trained)

    def _file_facts(self) -> dict[str, Any]:
        """What a model file says besides the weights."""
        return file_facts(self)

    def _file_tensors(self) -> dict[str, Tensor]:
        """The tensors of a model file."""
        return self.trained_.weights()

    def _binding(self) -> dict[str, Any]:
        """Which fit this is, JSON-ready: a checkpoint of another one is refused. Of public facts only."""
        return binding(self)

    def _complete_plan(
        self, spends: list[PlannedSpend], earlier: Ledger, estimate_time: bool
    ) -> Plan:
        """The plan of a fit: its cost on top of what was spent earlier, its time, what else to know."""
        rows, limit = self.rows or NOMINAL_ROWS, self.time_limit
        estimate_time = estimate_time and (limit is None or limit >= SHORT)
        seconds = estimated_seconds(self, spends, rows) if estimate_time else None
        return complete_plan(self, spends, earlier, rows, seconds)

    def _design_notes(self) -> list[str]:
        """What the plan says of survey weights and of the unit."""
        design, out = self._design, self._weight_notes()
        if design.unit is not None:
            out.append(
                f"protects units, the values of column {shown(design.unit)}: at most {design.rows} rows of each are used,"
                " noise is scaled to that, and rows beyond are left out without being counted (--count bounded)"
            )
        return out

    def _weight_notes(self) -> list[str]:
        """What the plan says of survey weights."""
        design = self._design
        if design.weight is None:
            return []
        return [
            f"weighted by {shown(design.weight)}, clipped at {design.max_weight:g}; samples are of the population"
        ]

    @classmethod
    def _from_file(cls, facts: Mapping[str, Any], weights: dict[str, Tensor], path: Any) -> Self:
        """A fitted synthesizer from the facts and weights of a model file.

        Raises
        ------
        FileFormatError
            If they do not belong together.
        """
        model, generator, rows, (population, ends) = rebuilt(cls, facts, weights, path)
        model.trained_ = Trained(
            generator=generator,
            curves={},
            rows=rows,
            population=population,
            population_interval=ends,
        )
        fitted: Self = model
        return fitted

    def _restore(self, path: Path, ledger: Ledger) -> None:
        """Become the synthesizer of a model file that a fit of this one has left; it spent from ``ledger``."""
        restored = self._from_file(*read_model(path), path)
        for name in FITTED:
            setattr(self, name, getattr(restored, name))
        self.ledger_ = ledger
