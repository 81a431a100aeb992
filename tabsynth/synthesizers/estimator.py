"""The base class of the public estimators: fit a DataFrame under a budget, sample DataFrames, save, load; and all estimators."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from torch import Tensor

from tabsynth import methods
from tabsynth._files import check_output
from tabsynth._shown import Shown, wrapped
from tabsynth._typing import JsonObject
from tabsynth._validate import integer, one_of, quote
from tabsynth.design import Design
from tabsynth.errors import ConvergenceWarning, FileFormatError, TabsynthError
from tabsynth.privacy.certificate.attached import attach
from tabsynth.privacy.certificate.certificate import beside
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema.linked import AnySchemaLike, LinkedSchema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.method import DAMAGES, FittedModel, Method, device_of, read_model
from tabsynth.synthesizers.plan import Plan
from tabsynth.synthesizers.sampling import (
    STREAMED,
    Request,
    check_implicates,
    draw_implicates,
    number_of_rows,
    numbered_paths,
    sample_table,
    stream_to_parquet,
)
from tabsynth.synthesizers.session import FitSession
from tabsynth.tables.files import suffix, write_table
from tabsynth.tables.formulas import HANDLINGS
from tabsynth.training.loop import TIME_LIMIT, Progress

if TYPE_CHECKING:
    from sklearn.utils import Tags

# Packages whose lazy tables count their own rows; none is imported to find it out.
LAZY = ("duckdb", "polars", "pyspark", "ibis", "daft", "sqlframe", "dask", "narwhals")


def as_counter(table: object) -> object:
    """Return a lazy table of an engine as a counter of its rows, any other table as it is."""
    library = type(table).__module__.partition(".")[0]
    if library not in LAZY:
        return table
    from tabsynth.tables.engines import EngineCounter, SparkCounter, is_lazy

    if is_lazy(table):
        return SparkCounter(table) if library == "pyspark" else EngineCounter(table)
    return table


class Certificate(Shown, JsonObject):
    """The certificate of a fit: a dict whose ``repr`` is its statement."""

    def _repr_lines(self) -> list[str]:
        return wrapped([f"Certificate: {self.get('statement')}"], "All fields are those of a dict.")


@dataclass(kw_only=True, eq=False)
class Synthesizer(Shown):
    """The parameters of a fit and what it left: plan, fit, sample, save.

    An estimator is a dataclass, whose fields are its parameters; the constructor only stores them, as that of
    any estimator of scikit-learn. It has the methods of one without its base class, whose import takes as long as
    that of torch. A subclass adds fields under the same decorator, makes the method of a schema
    (``make_method``) and reads its parameters from a model file (``parameters_from``).
    """

    method: ClassVar[str]
    schema: AnySchemaLike | None = field(default=None, kw_only=False)
    epsilon: float
    delta: float = 1e-5
    rows: int | None = None
    time_limit: float | None = None
    accept_drafted_domain: bool = False
    draft_options: Mapping[str, Any] | None = None
    random_state: int | None = None
    device: str = "auto"
    verbose: bool = False
    model_: FittedModel[Any] = field(init=False)
    ledger_: Ledger = field(init=False)
    seeded_: bool = field(init=False)
    # Of a time budget, for the fit that the text describes. A name with an underscore at its end would mean a fitted estimator.
    planned_steps: tuple[str, int] = field(init=False)

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the parameters, sorted."""
        return sorted(f.name for f in fields(cls) if f.init)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; no parameter has parameters of its own, which ``deep`` is for in scikit-learn."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name."""
        for name, value in parameters.items():
            setattr(self, one_of("parameter", name, self.parameter_names()), value)
        return self

    def __sklearn_tags__(self) -> "Tags":
        """Return scikit-learn's tags: tables have texts, categories and missing values, and noise is drawn again in each fit."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(string=True, categorical=True, allow_nan=True),
            non_deterministic=self.random_state is None,
        )

    # What a subclass provides.

    def make_method(self, schema: Schema | LinkedSchema) -> Method:
        """Make the method for a schema: a frozen value of the parameters."""
        raise NotImplementedError

    @classmethod
    def schema_from(cls, facts: JsonObject, path: object) -> Any:
        """Return the schema that a model file states."""
        return Schema.from_dict(facts["schema"], str(path))

    @classmethod
    def parameters_from(cls, schema: Any, facts: JsonObject) -> JsonObject:
        """Return the parameters of a fit from the facts of its model file."""
        raise NotImplementedError

    def shared_settings(self) -> JsonObject:
        """Return the settings that all methods have, but the schema."""
        return {
            "name": self.method,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rows": self.rows,
            "device": device_of(self.device),
            "accept_drafted_domain": self.accept_drafted_domain,
        }

    # The fit.

    @property
    def design(self) -> Design:
        """The design of the rows: as the schema declares it, or the options of its draft."""
        return FitSession(self).design

    def check(self, ledger: str | Path | None = None) -> None:
        """Refuse what a fit refuses before it sees a table: parameters, schema, and a project's limit.

        Parameters
        ----------
        ledger : path, optional
            A project's ledger. Nothing is charged to it.
        """
        with FitSession(self, ledger=ledger) as session:
            session.check()

    def plan(self, *, estimate_time: bool = True, checkpoint: str | Path | None = None) -> Plan:
        """Return the privacy cost of :meth:`fit`, before a private row is read.

        Times are measured on made-up rows: as many as ``rows`` declares, else 20,000. Under a time limit of less than a
        minute there is no estimate. The plan of a fit that resumes from ``checkpoint`` has the steps of its first plan.
        """
        return FitSession(self, checkpoint=checkpoint).plan(estimate_time=estimate_time)

    def fit(
        self,
        table: Any,
        y: None = None,
        *,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        ledger: str | Path | None = None,
    ) -> Self:
        """Fit the table under the budget. The plan is logged before the table is read.

        Parameters
        ----------
        table : DataFrame
            pandas, or any that narwhals reads (polars, pyarrow, …); columns as the schema declares. Tables that
            outgrow memory are a :class:`tabsynth.tables.ParquetCounter`, a DuckDB relation or a polars LazyFrame; MargNet also
            takes a PySpark DataFrame and any :class:`tabsynth.tables.RowCounter`. A fit without a schema drafts one, as :func:`tabsynth.draft_private` does. Of a DataFrame it
            then takes as public which columns are numeric, text or time, and the categories of ordered ones, and a UserWarning says so. Of a table that
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
        with FitSession(self, checkpoint=checkpoint, ledger=ledger) as session:
            self.model_ = session.fit(as_counter(table), progress=progress)
        if session.interrupted:
            raise KeyboardInterrupt
        self._warn_if_stopped()
        return self

    def _warn_if_stopped(self) -> None:
        """Warn where a time limit ended a fit before its model came near what it is fitted to."""
        distance, stopped = self.model_.distance, self.model_.facts["training"]["stopped"]
        if stopped == TIME_LIMIT and (distance is None or distance > 1):
            warnings.warn(self.model_.stopped_text(), ConvergenceWarning, stacklevel=3)

    # What a fit leaves.

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the schema's columns, shape (columns,), of a fitted synthesizer."""
        self._check_fitted()
        return np.array(self.model_.encoder.whole.names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Their number."""
        return len(self.feature_names_in_)

    @property
    def schema_(self) -> Schema:
        """The schema of the fitted model: the given one, or that which the fit has drafted."""
        self._check_fitted()
        return self.model_.encoder.whole

    @property
    def rows_(self) -> int | None:
        """The declared number of rows, or the noisy one that the fit released; None where it released none."""
        self._check_fitted()
        return self.model_.row_count

    @property
    def population_(self) -> float | None:
        """The noisy total of the survey weights, at least 1; None of a fit that released none."""
        self._check_fitted()
        return None if self.model_.population is None else self.model_.population.total

    @property
    def population_interval_(self) -> tuple[float, float] | None:
        """The 95% interval of the total of the survey weights, each up to the cap; None where a model file states none."""
        self._check_fitted()
        return None if self.model_.population is None else self.model_.population.interval

    def certificate(self) -> "Certificate":
        """Return the claims about every table that is sampled: a JSON-ready dict."""
        self._check_fitted()
        return Certificate(self.model_.certificate())

    # Samples and files.

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

        The table has the schema's columns, order, dtypes and nulls. Costs no privacy. ``table.attrs["certificate"]`` of a
        pandas DataFrame holds the certificate, with the condition and a hash of the table's content: an edited,
        filtered or reordered table has no certificate any more. For other kinds of tables there is :meth:`certificate`.

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
        request = Request(
            n=n, where=where, max_draws=max_draws, dataframe=dataframe, weights=weights
        )
        seed = self._draw_seed(random_state)
        if implicates is None:
            return sample_table(self.model_, seed, request)
        each = draw_implicates(self.model_, implicates, seed)
        return [sample_table(model, model_seed, request) for model_seed, model in each]

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
        overwrite: bool = False,
        **options: Any,
    ) -> Any:
        """Write ``n`` synthetic rows to a file and the certificate beside it.

        Files that are there already, such as the private table, are refused unless ``overwrite``.

        ``n`` as of :meth:`sample`; ``formulas``, ``sep`` and ``decimal`` (default: that of the schema) as of
        :func:`tabsynth.write_table`; ``options`` are those of the method's :meth:`sample`. Returns the path of the
        certificate. With ``implicates`` there are so many files, ``name-1.csv`` and on, and a list of certificates.

        A Parquet file of more than 524,288 rows without a condition is written as it is drawn, in parts of constant
        memory. Its rows are others than :meth:`sample` draws from the same ``random_state``, and MargNet draws them
        independently: counts then have the error of a random sample of that size.
        """
        seed, kind = self._draw_seed(random_state), suffix(path, writing=True)
        if implicates is not None:
            paths = numbered_paths(path, check_implicates(implicates))
            for each in (*paths, *map(beside, paths)):
                check_output(each, overwrite=overwrite)
            writing = {"formulas": formulas, "sep": sep, "decimal": decimal, **options}
            writing["overwrite"] = overwrite
            models = draw_implicates(self.model_, implicates, seed)
            implicate, certificates = copy(self), []
            for each, (draw, implicate.model_) in zip(paths, models, strict=True):
                certificates.append(implicate.sample_to(each, n, random_state=draw, **writing))
            return certificates
        for output in (path, beside(path)):  # a table must not be left without its certificate
            check_output(output, overwrite=overwrite)
        rows = integer("n", number_of_rows(self.model_, n))
        # A label may be False, 0 or null; an empty condition is none.
        restrictions = {
            name
            for name, value in options.items()
            if name != "weights" and value is not None and not (name == "where" and not value)
        }
        large = kind == ".parquet" and rows > STREAMED
        if large and not restrictions and sep is decimal is None:
            one_of("formulas", formulas, HANDLINGS)
            weights = options.get("weights")
            return stream_to_parquet(
                self.model_, Path(path), rows, seed, weights, overwrite=overwrite
            )
        table = self.sample(n, random_state=random_state, **{**options, "dataframe": "pandas"})
        mark = self.schema_.with_decimal(decimal).decimal
        write_table(table, path, formulas=formulas, sep=sep, decimal=mark, overwrite=overwrite)
        return beside(path)

    def counts(self, by: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Return the tables that MargNet counted with noise: consistent estimates with standard errors and 95% intervals.

        It reads no private row and costs no privacy. Counts are of the rows that the fit used. The result has the certificate in its
        ``attrs``.

        Parameters
        ----------
        by : str or sequence of str, optional
            The columns of one table. Default: all measured tables.

        Returns
        -------
        DataFrame
            A row for each cell. The cells of larger tables are groups of values, as they were counted.

            - Columns of the table by their names; of all tables ``table``, ``column_1``, ``value_1`` and so on. Values are labels.
            - ``noisy``: the measured count.
            - ``noise``: the standard deviation of its noise.
            - ``estimate``: the unbiased estimate from all counts, possibly negative. Tables have the same sums.
            - ``standard_error``, ``low``, ``high``: of the estimate. The interval ends at 0.
            - ``source``: ``"measured"``; ``"measured, by itself"`` of declared tables and tables of cut values, whose estimates use no
              other table; ``"model"`` of a table that was not measured, which has an estimate alone.

        Raises
        ------
        InputError
            For a method other than MargNet, survey weights, and unknown columns.
        """
        self._check_fitted()
        out = self.model_.counts(by)
        attach(out, {**self.model_.certificate(), "counts": True})
        return out

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model to one file: weights as safetensors, the rest as JSON. No seed, no row.

        Only its owner may read the file of a model that is not private.

        Raises
        ------
        InputError
            If ``path`` is there already and is not to be ``overwrite``-n, or if it cannot be written, such as on a full
            disk. A model had a privacy cost: it is then written to a temporary folder, which the error names.
        """
        self._check_fitted()
        self.model_.save(path, overwrite=overwrite)

    @classmethod
    def from_file(cls, facts: JsonObject, tensors: dict[str, Tensor], path: object) -> Self:
        """Rebuild a fitted synthesizer from the facts and tensors of a model file.

        Raises
        ------
        FileFormatError
            If they do not belong together.
        """
        try:
            schema = cls.schema_from(facts, path)
            epsilon = math.inf if facts["epsilon"] == "inf" else float(facts["epsilon"])
            parameters = cls.parameters_from(schema, facts)
            synthesizer = cls(schema, epsilon=epsilon, delta=float(facts["delta"]), **parameters)
            method = synthesizer.make_method(schema)
        except TabsynthError:
            raise
        except DAMAGES:
            damaged = f"{path}: the model's facts are damaged or incomplete."
            raise FileFormatError(damaged) from None
        model = synthesizer.model_ = method.restore(facts, tensors, path)
        synthesizer.ledger_, synthesizer.seeded_ = model.ledger, model.seeded
        return synthesizer

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _draw_seed(self, random_state: int | None) -> int | None:
        """Return the seed of a draw from the fitted model: ``random_state``, else that of the synthesizer."""
        self._check_fitted()
        if random_state is None:
            return self.random_state
        return integer("random_state", random_state, least=0)


class Estimators(Mapping[str, type[Synthesizer]]):
    """The estimator of every registered method by name, imported at the first use."""

    def __init__(self, registered: Mapping[str, methods.Method]) -> None:
        self.registered = registered

    def __getitem__(self, name: str) -> type[Synthesizer]:
        """Return the entry of a name."""
        registered = self.registered[name]
        estimator: type[Synthesizer] = getattr(
            import_module(registered.module), registered.estimator
        )
        return estimator

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of methods."""
        return iter(self.registered)

    def __len__(self) -> int:
        """Return the number of methods."""
        return len(self.registered)


METHODS = Estimators(methods.METHODS)
LINKED = Estimators(methods.LINKED)


def load(path: str | Path) -> Synthesizer:
    """Load a fitted synthesizer from a file that :meth:`Synthesizer.save` wrote.

    Raises
    ------
    FileFormatError
        If the file is damaged, not a model, or of another version of the format.
    """
    facts, weights = read_model(path)
    name = str(facts.get("method"))
    method = METHODS.get(name) or LINKED.get(name)
    if method is None:
        raise FileFormatError(f"{path} is a model of unknown method {quote(facts.get('method'))}.")
    return method.from_file(facts, weights, path)
