"""A schema drafted from private rows under a budget: its facts are released with noise, and charged.

Public by statement are the names and the order of the columns, and of a table that tabsynth read from a file the types
that the file declares. Of any other DataFrame it is only which columns are numeric, text or time, and the categories of
ordered ones: pandas infers dtypes from the rows, and one row decides whether a column has whole numbers, truth values or
reals. Everything else is a release: which formats the values of a column have, and with it its kind, dtype and precision;
whether it has nulls; its categories; its bounds and cells; common values, multiples and heaping; how many different values
it has, where that tells numbers of records from amounts. Columns that identify people are left out.

One round releases noisy counts of formats. Then rounds of growing budgets release values, in each of which a row counts for
those of its values only that no earlier round has released: iterative partition selection (Swanberg, Desfontaines, Haney
2023, "DP-SIPS"; Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin 2020, "Differentially private set union" for the weights).
In a table of many columns most values of a row are common, and are released in the first rounds at little cost; the later
rounds are then as accurate for what is left as they would be in a table of few columns.

NOTE[DIFF] DP-SIPS releases one set. Here every column has one of its own. What is known without the rows, such as texts of the
catalogue and the cells of a partition of numbers or dates (:mod:`tabsynth.drafting.partition`), needs no threshold of δ.

Under a unit of privacy at most a public number of rows of each unit is used, and these share the weights of one row. So a
unit adds what a row adds without one, the noise is the same, and sums count units in place of rows. Rows of full weight,
under noise for as many rows as the bound says, would count no unit more than this relative to the noise.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from tabsynth._random import Randomness
from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import check_text, in_range, integer, positive, quote
from tabsynth.design import NO_DESIGN, Design
from tabsynth.drafting.budget import (
    DIFFERENT_SHARE,
    FORMATS_SHARE,
    REST_SHARE,
    ROUNDS,
    DraftBudget,
    Noise,
)
from tabsynth.drafting.catalogue import catalogue
from tabsynth.drafting.code_lists import FORMS_OF_CODES, CodesDraft, forms_of, list_of
from tabsynth.drafting.formats import (
    FORMAT_NAMES,
    NULL,
    NUMBER,
    Distinct,
    decimal_of,
    declared_categories,
    distinct,
    format_codes,
    if_clear,
    public_dtype,
    without_marks,
)
from tabsynth.drafting.identifiers import reason_of_name
from tabsynth.drafting.released_columns import (
    CLEAR,
    DECLARED_ROWS,
    FORMAT,
    LIMIT,
    TOO_FEW_VALUES,
    ColumnDraft,
    OrderedDraft,
    Question,
    Rest,
    TextDraft,
)
from tabsynth.drafting.released_numbers import draft_of
from tabsynth.drafting.summary import group_reasons, summarize
from tabsynth.encoding.rows import key_of, names_of, rows_within_bound
from tabsynth.errors import DraftWarning, InputError
from tabsynth.methods import DIFFERENT
from tabsynth.privacy.accounting.accountants import RENYI, gaussian_mu
from tabsynth.privacy.accounting.mechanisms import THRESHOLD_SHARE, NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable, exact_of, new_name, note_passed
from tabsynth.privacy.ledger.project import ProjectLedger
from tabsynth.privacy.noise import samplers
from tabsynth.privacy.noise.counts import share_interval
from tabsynth.schema.cells import base_dtype
from tabsynth.schema.column import Column, is_supported
from tabsynth.schema.schema import DEFAULT_NULL_VALUES, Schema, duplicates
from tabsynth.tables.frames import declared_types, to_pandas

FORMATS = "formats of columns"
RELATIONS = "relations"
OPTIONS = ("null_values", "decimal", RELATIONS)  # of the draft of a fit, besides the design
TYPES, KINDS = "types that the file declares", "which columns are numeric, text or time"  # public
ORDERED = (
    "which columns are ordered categories, and their categories where not in alphabetical order"
)
INFERRED = (
    "The draft takes as public which columns of this DataFrame are numeric, text or time, and the categories of"
    " ordered ones unless they are in alphabetical order. Where pandas inferred that from the rows, one row may have decided it."
    " tabsynth.read_table reads a file without such inference."
)
LEAST_CLEAR = 0.5  # rows: a format with more is clear where there is no noise
LIKELY_FORMAT = 2.5  # standard deviations of noise, above which the most common format may be that of a declared number of rows


def draft_private(
    table: object,
    epsilon: float,
    delta: float = 1e-5,
    *,
    null_values: Sequence[str] = DEFAULT_NULL_VALUES,
    random_state: int | None = None,
    ledger: str | Path | None = None,
    decimal: str | None = None,
    design: Design = NO_DESIGN,
    rows: int | None = None,
) -> Schema:
    """Return a schema of private rows, with (epsilon, delta)-differential privacy for adding or removing one record.

    With a unit in ``design``, privacy is for adding or removing all records of one unit.

    Parameters
    ----------
    table : DataFrame
        Texts that are numbers, dates or truth values in most rows become columns of these. Of a DataFrame only this is
        public: its columns, in their order, and whether each is numeric, text or time (dates with their time zone, lengths
        of time, or periods); and whether categories are ordered, and which they are. In alphabetical order they may be those
        of the rows, and are released. A UserWarning says so, because pandas may have inferred it from the rows.
        :func:`tabsynth.read_table` reads a file without inference, and the types that the file declares are then public.
    epsilon, delta : float
        The budget of the draft. It counts in every fit that takes the schema.
    null_values : sequence of str
        Texts that mean null.
    random_state : int, optional
        For tests; a seeded draft is not private.
    ledger : path, optional
        A project's ledger (:class:`tabsynth.privacy.ProjectLedger`), to which the draft is charged before rows are read. Fits
        that take the schema must be made under it, and it counts the draft once.
    decimal : {".", ","}, optional
        The decimal mark of texts that are numbers, if it is public. By default noisy counts decide.
    design : Design
        The columns of survey weights and units with their limits (:class:`tabsynth.schema.Design`): public, and declared in
        the schema. These columns are not drafted. The draft counts rows without weights. A project's ledger must have the
        same unit.
    rows : int, optional
        The number of rows, if it is public. It costs nothing, and the draft of a small table then keeps more columns: the
        most common format of a column is recognised by fewer rows.

    Returns
    -------
    Schema
        Its columns have the provenance ``released``; those that are left out are listed with the reason.

    Raises
    ------
    InputError
        If a weight or a unit of a row cannot be used; nothing is charged. If nothing could be released at this budget. It
        is spent all the same.
    BudgetError
        If the draft would exceed the limit of the project; nothing is read.
    """
    positive("epsilon", epsilon, finite=False)
    if rows is not None:
        integer("rows", rows)
    frame = to_pandas(table)
    check_design(frame, design, decimal)
    mu = math.inf
    if math.isfinite(epsilon):
        in_range("delta", delta, 0, 1, low_open=True, high_open=True)
        mu = gaussian_mu(epsilon, delta * (1 - THRESHOLD_SHARE))
    with nullcontext() if ledger is None else ProjectLedger(ledger) as project:
        seeded = None if random_state is None else "A seeded draft"
        charges = open_ledger(project, epsilon, delta, design.unit, seeded)
        if project is not None:
            project.admit_draft(charges, mu)
        return draft_on_ledger(
            frame, mu, charges, null_values, random_state, decimal=decimal, design=design, rows=rows
        )


def open_ledger(
    project: ProjectLedger | None,
    epsilon: float,
    delta: float,
    unit: str | None,
    seeded: str | None,
) -> Ledger:
    """Return a ledger for one budget: of a run of the project, if there is one.

    Raises
    ------
    BudgetError, InputError
        If the project protects another unit, or what is to be charged is ``seeded``: it names that.
    """
    if project is None:
        return Ledger(epsilon, delta)
    if seeded is not None:
        project.refuse_seed(seeded)
    project.check_unit(unit)
    return project.ledger(epsilon, delta)


def check_design(table: pd.DataFrame, design: Design, decimal: str | None = None) -> None:
    """Refuse a table whose weights or units cannot be used, row by row, before a draft is charged.

    Raises
    ------
    InputError
    """
    wrong = design.problems(table, decimal, needed=True)
    if wrong:
        raise InputError(" ".join(message for *_, message in wrong))


def draft_on_ledger(
    table: object,
    mu: float,
    ledger: Ledger,
    null_values: Sequence[str] = DEFAULT_NULL_VALUES,
    random_state: int | None = None,
    composition: str = RENYI,
    decimal: str | None = None,
    design: Design = NO_DESIGN,
    *,
    saves: bool = False,
    rows: int | None = None,
) -> Schema:
    """See :func:`draft_private`, by Gaussian mechanisms of ``mu`` together at most, charged to a ledger.

    With ``saves``, less is spent on tables of many rows, by their noisy number.
    ``composition`` is the filter that composes the draft with later mechanisms, whose parameters may follow from it:
    ``"gaussian"`` only where all of these are Gaussian mechanisms on the whole table.
    """
    frame = to_pandas(table)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    for name in duplicates(list(frame.columns)):
        raise InputError(f"The table has column {quote(name)} twice; rename or drop one.")
    for name in frame.columns:
        check_text("The table's names of columns", name)
        if not name:
            raise InputError("The table has a column whose name is empty; rename it.")
    ledger.unit = design.unit
    draft = _Draft(frame, design, ledger, mu, null_values, random_state, composition, decimal)
    draft.public += [] if rows is None else [DECLARED_ROWS]
    if draft.inferred:
        warnings.warn(INFERRED, stacklevel=3)
    try:
        columns, left_out = draft.columns(rows, saves)
    finally:
        ledger.close()
    released: JsonObject = {
        "mechanisms": ledger.to_list(),
        "seeded": random_state is not None,
        "public": ["names of columns", "order of columns", *draft.public],
        "facts": draft.sources,  # by column: the mechanisms that released them
    }
    if draft.notes:
        released |= {"notes": draft.notes}  # by column: which rows are not represented
    if (hidden := round(draft.hidden, 2)) > 0:
        released |= {"hidden": hidden}  # the largest share of such rows of the other columns
    if design.unit is not None:
        released |= {"unit": design.unit, "max_rows_per_unit": design.rows}  # what it protects
    if random_state is None:  # tells it from another draft of the same outcome
        released |= {"release": new_name()}
    if ledger.project is not None:  # which counts it already
        released |= {"project": ledger.project, "run": ledger.run}
    if not columns:
        reasons = "; ".join(group_reasons(left_out))
        needed = f"at this budget a column needs about {math.ceil(draft.rows_needed):,}"
        lacking = f" The table has no rows, or too few: {needed}." * (TOO_FEW_VALUES in reasons)
        raise InputError(
            f"The private draft could release no column ({reasons}).{lacking} Declare a schema, or raise epsilon=."
        )
    schema = Schema(
        columns,
        null_values,
        left_out=left_out,
        released=released,
        decimal=draft.decimal,
        **design.parameters(),
    )
    if left_out or draft.notes or hidden:
        lines = summarize(schema, ledger.epsilon, ledger.delta)
        warnings.warn("\n".join(lines), DraftWarning, stacklevel=3)
    return schema


def release_name(released: JsonMapping) -> str:
    """Return the name of what ``released`` of a schema is of, for errors."""
    return f"The {'draft' if 'facts' in released else 'run of suggestions'} of the schema"


def _of_units(frame: pd.DataFrame, design: Design, key: bytes) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the rows that are used, without weights and units, and how many rows of its unit are used beside each; shape (n,)."""
    columns = frame[[name for name in frame.columns if name not in design.names]]
    if design.unit is None:
        return columns, np.ones(len(columns), dtype=np.int64)
    names = names_of(frame[design.unit])
    used = rows_within_bound(names, design.rows, key)
    units = pd.Series(names[used])
    return columns[used], units.groupby(units).transform("size").to_numpy(dtype=np.int64)


class _Draft:
    """The releases of a draft, and what follows from them."""

    def __init__(
        self,
        table: pd.DataFrame,
        design: Design,
        ledger: Ledger,
        mu: float,
        null_values: Sequence[str],
        seed: int | None,
        composition: str,
        decimal: str | None,
    ) -> None:
        self.decimal = decimal  # else decided by the noisy counts of formats
        self.sources: dict[str, dict[str, list[str]]] = {}
        self.notes: dict[str, JsonObject] = {}
        self.hidden = 0.0  # largest share of rows that a column without a note may not represent
        self.rows_needed = 0.0  # of a format, to be recognised
        self._ledger, self._composition = ledger, composition
        chance = 0.0 if math.isinf(mu) else ledger.threshold_delta
        self._budget = DraftBudget(mu=mu, threshold_delta=chance, max_rows=design.rows)
        self._nulls = tuple(dict.fromkeys(("", *null_values)))
        self._bits = Randomness(seed).noise()
        frame, shared = _of_units(table, design, key_of(seed))
        kinds = {name: public_dtype(str(frame.dtypes[name])) for name in frame.columns}
        self._ordered = {
            name: categories
            for name in frame.columns
            if (categories := declared_categories(frame[name], self._nulls)) is not None
        }
        declared = {
            name: dtype
            for name, dtype in declared_types(frame).items()
            if name in kinds.keys() - self._ordered.keys() and public_dtype(dtype) == kinds[name]
        }
        self.inferred = len(declared) < len(kinds)
        self.public = [TYPES] * bool(declared) + [KINDS] * self.inferred
        self.public += [ORDERED] * bool(self._ordered)
        self._dtypes = kinds | declared
        self._left = {
            name: reason for name in self._dtypes if (reason := reason_of_name(name)) is not None
        }
        self._left |= {
            name: f"its dtype {dtype} is not supported"
            for name, dtype in self._dtypes.items()
            if name not in self._left and dtype != NUMBER and not is_supported(dtype)
        }
        names = [name for name in self._dtypes if name not in self._left]
        columns = {name: distinct(frame[name]) for name in names}
        self._table = PrivateTable((columns, shared), ledger)
        self._names = names

    def columns(self, rows: int | None, saves: bool) -> tuple[list[Column], list[dict[str, str]]]:
        """Return the columns in their order, and those that are left out; ``rows`` is their declared number.

        With ``saves``, releases after the first spend less on tables of many rows.
        """
        drafts: dict[str, ColumnDraft] = {}
        if self._names:
            drafts = self._formats(rows)
            if saves:
                noisy_rows = max((draft.rows for draft in drafts.values()), default=0.0)
                self._budget = self._budget.for_rows(rows or noisy_rows)
            for number in range(1, len(ROUNDS)):
                self._round(drafts, number)
            counted = self._different(drafts)
            self._round(drafts, len(ROUNDS), 0.0 if counted else DIFFERENT_SHARE)
            for draft in drafts.values():
                draft.end_rounds()
            self._rest(drafts)
        columns = []
        for name, draft in drafts.items():
            column = draft.finish()
            if isinstance(column, str):
                self._left[name] = column
                continue
            columns.append(column)
            self.sources[name] = draft.sources
            if (note := draft.note(column)) is not None:
                self.notes[name] = note
            else:
                self.hidden = max(self.hidden, draft.hidden)
        left_out = [{"name": n, "reason": self._left[n]} for n in self._dtypes if n in self._left]
        return columns, left_out

    def _formats(self, declared_rows: int | None = None) -> dict[str, ColumnDraft]:
        """Return noisy numbers of rows by format, for each column, and what is asked of its values then.

        Where no more than one format is clear of noise, and the number of rows is declared, the most common one is taken for
        that of all rows if more than half seem to have it.
        """
        mechanism = self._budget.mechanism(FORMATS_SHARE)

        of_codes = [
            name
            for name in self._names
            if base_dtype(self._dtypes[name]) == "text" and catalogue().names_diagnosis(name)
        ]

        def questions(columns: Mapping[str, Distinct]) -> list[Question]:
            asked = [
                Question(name, format_codes(column, name, self._nulls), len(FORMAT_NAMES))
                for name, column in columns.items()
            ]
            forms = {name: forms_of(columns[name]) for name in of_codes}
            return asked + [Question(name, keys, FORMS_OF_CODES) for name, keys in forms.items()]

        purpose = f"schema: {FORMATS}"
        counts, std = self._release(purpose, mechanism, questions)
        # A row has one answer to each question, so all its weights are 1 / √questions.
        rows = math.sqrt(len(counts))
        clear = max(LEAST_CLEAR, FORMAT * std * rows)
        formats = {
            question.column: dict(zip(FORMAT_NAMES, (noisy * rows).tolist(), strict=True))
            for question, noisy in counts[: len(self._names)]
        }
        forms = {question.column: noisy * rows for question, noisy in counts[len(self._names) :]}
        if self.decimal is None:
            self.decimal = decimal_of(formats, clear)
        drafts = {}
        most_rows = math.inf if declared_rows is None else float(declared_rows)
        likely = max(LIKELY_FORMAT * std * rows, most_rows / 2)
        self.rows_needed = min(clear, likely)
        for name, counted in formats.items():
            limit, most = clear, max(counted, key=counted.__getitem__)
            if counted[most] > likely and sum(n > clear for n in counted.values()) <= 1:
                counted_most = max(counted[most], min(most_rows, clear))
                counted, limit = dict.fromkeys(counted, 0.0) | {most: counted_most}, LEAST_CLEAR
            numbers = without_marks(counted, self.decimal, limit)
            categories = self._ordered.get(name)
            present = sum(if_clear(n, limit) for form, n in numbers.items() if form != NULL)
            has_codes = name in forms and present > 0
            code_list = list_of(forms[name], present, limit) if has_codes else None
            draft: ColumnDraft | str
            if code_list is not None:
                draft = CodesDraft(
                    name=name,
                    dtype="str",
                    nulls=counted[NULL] > limit,
                    null_values=self._nulls,
                    reason="",
                    code_list=code_list,
                )
            elif categories:
                draft = OrderedDraft(
                    name=name,
                    dtype="category",
                    nulls=counted[NULL] > limit,
                    null_values=self._nulls,
                    categories=categories,
                )
            else:
                dtype = self._dtypes[name]
                draft = draft_of(name, dtype, numbers, limit, self._nulls, self.decimal)
            if isinstance(draft, str):
                self._left[name] = draft
                continue
            if isinstance(draft, TextDraft):
                draft.ordered = categories is not None
            draft.rows = present
            clear_formats = sum(n > limit for form, n in counted.items() if form != NULL)
            draft.noise = std * rows * math.sqrt(clear_formats)
            for fact in ("nulls",) if categories else ("kind", "dtype", "nulls"):
                draft.source(fact, purpose)
            drafts[name] = draft
        return drafts

    def _round(self, drafts: Mapping[str, ColumnDraft], number: int, spare: float = 0.0) -> None:
        """Release one round of values: of each row those that were not released before.

        ``spare`` is a share of the budget of the draft that was not needed.
        """
        mechanism, chance = self._budget.round_of_values(number, spare)
        for draft in drafts.values():
            draft.begin(number)

        def questions(columns: Mapping[str, Distinct]) -> list[Question]:
            return [
                q for name, draft in drafts.items() for q in draft.questions(columns[name], number)
            ]

        purpose = f"schema: values of columns, round {number}"
        counts, std = self._release(purpose, mechanism, questions)
        threshold = self._budget.threshold(
            std, chance, sum(q.values is not None for q, _ in counts)
        )
        passed: list[list[str | float]] = []
        for question, noisy in counts:
            limit = CLEAR * std if question.values is None else threshold
            clear = noisy > limit
            drafts[question.column].learn(question, noisy, std, clear, purpose)
            if question.values is not None:
                passed.append([question.values[i] for i in np.flatnonzero(clear).tolist()])
        note_passed(purpose, passed)

    def _rest(self, drafts: Mapping[str, ColumnDraft]) -> None:
        """Release noisy numbers of rows whose value was not released, for columns that may have such rows."""

        def questions(columns: Mapping[str, Distinct]) -> list[Question]:
            questions_of_drafts = (draft.rest(columns[name]) for name, draft in drafts.items())
            return [question for question in questions_of_drafts if question is not None]

        mechanism = self._budget.mechanism(REST_SHARE)
        purpose = "schema: values that are not released"
        counts, std = self._release(purpose, mechanism, questions)
        # A row that is in the sums of k columns adds 1/√k to each, and all rows together √k for each row.
        total = sum(float(noisy[0]) for _, noisy in counts)
        divisor = max(1.0, total / max((draft.rows for draft in drafts.values()), default=1.0))
        for question, noisy in counts:
            weight = float(noisy[0])
            upper = math.sqrt(len(counts)) * (max(0.0, weight) + LIMIT * std)
            draft, is_clear = drafts[question.column], weight > CLEAR * std
            share = _share_interval(weight, std, math.sqrt(len(counts)), total, draft)
            draft.learn_rest(Rest(weight * divisor, std * divisor, upper, is_clear, share), purpose)

    def _different(self, drafts: Mapping[str, ColumnDraft]) -> bool:
        """Release how many different values some columns have; return whether there are such columns.

        Formal guarantees
        -----------------
        A row moves each number by at most 1, and the rows of a unit, of which at most R are used, by at most R. With c columns
        each is counted in multiples of ⌊u/(R √c)⌋/u, where 1/u is the unit of weights, so the L2 norm of what one
        record, or one unit, adds is at most 1.
        """
        names = [name for name, draft in drafts.items() if draft.counts_different]
        if not names:
            return False
        weight = float(self._budget.scale // (math.sqrt(len(names)) * self._budget.max_rows))

        def sums(
            columns: Mapping[str, Distinct], _: np.ndarray
        ) -> tuple[list[Question], list[np.ndarray]]:
            # Values without any row do not occur: a column has the distinct values of its own rows.
            questions = [Question(name, np.zeros(0), 1, about="different") for name in names]
            present = [columns[name].values.notna().sum() for name in names]
            return questions, [np.array([number * weight]) for number in present]

        counts, std = self._release_sums(
            DIFFERENT,
            self._budget.mechanism(DIFFERENT_SHARE),
            "numbers of different values, with weights of L2 norm 1 over the columns",
            sums,
        )
        each = weight / self._budget.scale
        for question, noisy in counts:
            draft = drafts[question.column]
            draft.learn(question, noisy / each, std / each, noisy > 0, DIFFERENT)
        return True

    def _release(
        self,
        purpose: str,
        mechanism: Noise,
        ask: Callable[[Mapping[str, Distinct]], list[Question]],
    ) -> tuple[list[tuple[Question, np.ndarray]], float]:
        """Return noisy sums of weights for each question, and the standard deviation of their noise.

        Formal guarantees
        -----------------
        A row has a value of its own, or none, for each question, which follows from the row and from earlier releases. With k
        values it adds ⌊u/√k⌋/u to the sum of each, where 1/u is the unit of weights, so the L2 norm of what one row adds is
        at most 1, and so is the sensitivity. Of a unit with n rows each adds ⌊u/(n √k)⌋/u, so by the triangle
        inequality all of them add at most 1, whatever their number. Sums are of whole multiples of 1/u, without rounding.
        """
        unit = "rows, each with weights of L2 norm 1 over its values"
        if self._budget.max_rows > 1 or self._ledger.unit is not None:
            unit = "units, each with weights of L2 norm 1 that its rows share"

        def sums(
            columns: Mapping[str, Distinct], shared: np.ndarray
        ) -> tuple[list[Question], list[np.ndarray]]:
            questions = ask(columns)
            places = [columns[q.column].codes for q in questions]
            rows, scale = len(next(iter(columns.values())).codes), self._budget.scale
            having = np.zeros(rows, dtype=np.int64)
            for question, codes in zip(questions, places, strict=True):
                having += question.keys[codes] >= 0
            weights = np.floor(scale / (np.sqrt(np.maximum(having, 1)) * shared))
            out = []
            for question, codes in zip(questions, places, strict=True):
                keys = question.keys[codes]
                has_key = keys >= 0
                out.append(np.bincount(keys[has_key], weights[has_key], minlength=question.size))
            return questions, out

        return self._release_sums(purpose, mechanism, unit, sums)

    def _release_sums(
        self,
        purpose: str,
        mechanism: Noise,
        unit: str,
        sums_of: Callable[
            [Mapping[str, Distinct], np.ndarray], tuple[list[Question], list[np.ndarray]]
        ],
    ) -> tuple[list[tuple[Question, np.ndarray]], float]:
        """Return questions with noisy sums, and the standard deviation of their noise.

        ``sums_of`` takes the columns and how many rows of its unit are used beside each row, and returns questions and sums of
        whole multiples of weights, of which a record, or a unit, changes all together by at most 1 in L2 norm.
        """
        details = {"l2_sensitivity": 1.0, "unit": unit, "composition": self._composition}
        account = self._ledger.open(purpose, mechanism, 1, details)
        std = 0.0 if isinstance(mechanism, NoPrivacy) else mechanism.noise_multiplier
        columns, shared = self._table.read(account)
        questions, sums = sums_of(columns, shared)
        scale = self._budget.scale
        stds = [std * scale] * len(sums)
        labels = [q.values for q in questions]
        labels, sums = exact_of(account, labels, sums, stds, [float(scale)] * len(sums))
        questions = [replace(q, values=v) for q, v in zip(questions, labels, strict=True)]
        noisy = [samplers.noisy(s, std * scale, self._bits, whole=True) / scale for s in sums]
        return list(zip(questions, noisy, strict=True)), std


def _share_interval(
    weight: float, std: float, largest_root: float, total: float, draft: ColumnDraft
) -> tuple[float, float]:
    """Return the 95% interval of the share of rows whose value was not released, from the noisy sum of their weights.

    A row that is in the sums of k columns has weight 1/√k, and which k the rows of one column have is not known. Their number is
    at least the sum of their weights. It is at most √k times that for the largest k, and by the inequality of Cauchy and Schwarz
    at most the root of that sum times the ``total`` of all sums, which is the sum of √k over all rows.
    """
    factor = min(largest_root, math.sqrt(max(1.0, total / weight))) if weight > 0 else largest_root
    low, _ = share_interval(weight, std, draft.rows, draft.noise)
    _, high = share_interval(factor * weight, factor * std, draft.rows, draft.noise)
    return low, high
