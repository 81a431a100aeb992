"""`evaluate_linked`: synthetic linked tables compared with the real ones, table by table and in how they hang together.

Each table is evaluated by itself, and each child beside the columns of the tables above it, with the metrics of
:mod:`tabsynth.evaluation.suite`. Metrics of groups are those of :mod:`tabsynth.evaluation.utility.groups`, and attacks have a
row of the root with all that hangs on it as their target.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import integer, shown
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.evaluation.attacks.roots import MAX_ATTACKED, root_membership, root_shadow
from tabsynth.evaluation.evaluating import evaluate, versions
from tabsynth.evaluation.grouped import (
    Columns,
    Level,
    Levels,
    effective_roots,
    independent_children,
    of_roots,
    weights_of_level,
    weights_of_roots,
    with_ancestors,
    with_weight,
)
from tabsynth.evaluation.inputs import certificate_with, indexed_synthetic, kept_index
from tabsynth.evaluation.metric import (
    UTILITY,
    Compared,
    Evaluation,
    Metric,
    Part,
    Weights,
    at_equal_rows,
)
from tabsynth.evaluation.overlap import same_rows
from tabsynth.evaluation.results import Estimate, Result, WeightsUsed, reference_scale
from tabsynth.evaluation.root_survey import RootSurvey
from tabsynth.evaluation.suite import Columns as SuiteColumns
from tabsynth.evaluation.suite import measure
from tabsynth.evaluation.survey_columns import SurveyNames
from tabsynth.evaluation.utility.groups import group_metrics
from tabsynth.privacy.certificate.verification import Verification
from tabsynth.schema.linked import LinkedSchema
from tabsynth.tables.frames import to_pandas

REAL, SYNTHETIC, HOLDOUT = "real tables", "synthetic tables", "hold-out tables"
Frames = dict[str, pd.DataFrame]


@dataclass(frozen=True)
class LinkedEvaluation(Result):
    """Everything that was measured of synthetic linked tables.

    Attributes
    ----------
    root : str
        The table whose rows, with all that hangs on them, are the unit of attacks.
    rows : dict
        For each table, rows of the ``train``, ``synthetic`` and ``holdout`` tables.
    metrics : tuple of Metric
        Of keys, groups, siblings, sequences and levels, and the attacks on units.
    tables : dict
        The evaluation of each table by itself, of those that have rows.
    joined : dict
        The evaluation of each child beside the columns of all tables above it.
    left_out : dict
        For each table, synthetic rows with values that are not declared, or that hang on such rows or on none.
    label, certificate, authenticated, schema_sha256, created, versions
        As of :class:`tabsynth.evaluation.Evaluation`.
    weights : WeightsUsed or None
        The survey weights of the root; None: all roots count the same.
    """

    root: str
    rows: dict[str, dict[str, int]]
    metrics: tuple[Metric, ...]
    tables: Mapping[str, Evaluation]
    joined: Mapping[str, Evaluation]
    left_out: Mapping[str, int]
    label: str = "synthetic"
    certificate: Mapping[str, Any] | None = None
    authenticated: bool = False
    schema_sha256: str = ""
    created: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    weights: WeightsUsed | None = None

    def __getitem__(self, key: str) -> Metric:
        """The metric of that key, such as ``"persons.group_size"``; KeyError if it was not measured."""
        for metric in self.metrics:
            if metric.key == key:
                return metric
        raise KeyError(key)


def evaluate_linked(
    real: Mapping[str, Any],
    synthetic: Mapping[str, Any],
    holdout: Mapping[str, Any] | None = None,
    *,
    schema: LinkedSchema,
    certificate: Mapping[str, Any] | Verification | None = None,
    weights: str | None = None,
    replicate_weights: str | Sequence[str] | None = None,
    replicate_factor: float | None = None,
    shadow: Callable[[Frames], Mapping[str, Any]] | None = None,
    shadow_fits: int = 40,
    tables: bool = True,
    m: int = MAX_ATTACKED,
    random_state: int = 0,
    progress: Callable[[str, float], None] | None = None,
    label: str = "synthetic",
) -> LinkedEvaluation:
    """Compare synthetic linked tables with the real ones, with a hold-out and with independent children.

    The result is computed from real rows without noise: treat it as confidential.

    Parameters
    ----------
    real, synthetic : mapping of str to DataFrame
        By the names of the schema's tables, with the key columns.
    holdout : mapping of str to DataFrame, optional
        The tables of other roots, that the synthesizer never saw: references and controls of the attacks.
    schema : LinkedSchema
    certificate : dict or Verification, optional
        Of the table of the root, as :func:`tabsynth.evaluate` takes it. Default: the one that came with that table.
    weights : str, optional
        A column of survey weights of the root, of the real tables and the hold-out, and perhaps of the synthetic ones,
        whose roots count the same otherwise. The weight of a root counts for all that hangs on it, in every metric of
        utility. Default: the weight of the schema. Attacks use no weights. Weights are not clipped at the cap.
    replicate_weights : str or sequence of str, optional
        Columns of the root, as of :func:`tabsynth.evaluate`, for intervals of the weighted estimates of each table.
        Without them they follow by Taylor linearisation, where each root is a cluster.
    replicate_factor : float, optional
        As of :func:`tabsynth.evaluate`.
    shadow : callable, optional
        What made the tables: a function from real to synthetic linked tables. The shadow-model attack is then tried on
        the two most unusual roots, with all that hangs on them.
    shadow_fits : int
        Fits of at most 1,000 roots: what they cost together. A multiple of 8, at least 16.
    tables : bool
        Whether each table is evaluated by itself and beside the tables above it, which takes most of the time.
    m : int
        Roots attacked in each group.
    random_state, progress, label
        As of :func:`tabsynth.evaluate`.

    Synthetic rows that hang on no parent, and those with repeated keys, are counted. They are left out of other figures.

    Raises
    ------
    InputError
        Naming the table: one that is missing or has no key column, real keys that are repeated or have no parent, or
        values that the schema does not declare.
    """
    if not isinstance(schema, LinkedSchema):
        raise InputError(f"Expected schema to be a LinkedSchema, got {shown(schema)}.")
    survey = RootSurvey.of(schema, weights, replicate_weights, replicate_factor)
    seed = integer("random_state", random_state, least=0)
    columns = {name: columns_of(schema, name) for name in schema.names}
    drawn = _frames(synthetic, schema, SYNTHETIC)
    came_with, authenticated = certificate_with(synthetic[schema.root], certificate)
    frames = Compared(drawn, None if holdout is None else _frames(holdout, schema, HOLDOUT), {})
    given = _frames(real, schema, REAL)
    weights_in = partial(_weights, survey)
    train, _ = levels_of(given, schema, REAL, weights_in(given, REAL))
    carried = weights_in(drawn, SYNTHETIC, needed=False)
    made, left_out = levels_of(drawn, schema, SYNTHETIC, carried, strict=False)
    others = None
    if frames.holdout is not None:
        of_others = weights_in(frames.holdout, HOLDOUT)
        others, _ = levels_of(frames.holdout, schema, HOLDOUT, of_others)
    if not len(train[schema.root]) or not len(made[schema.root]):
        raise InputError(f"Table {shown(schema.root)} of the real or synthetic tables has no rows.")
    rng = np.random.default_rng(seed)
    counted = Compared(made, others, train).map(lambda levels: with_weight(levels, columns))
    if not len(counted.synthetic[schema.root]):
        raise InputError(
            f"The rows of table {shown(schema.root)} of the {SYNTHETIC} that fit the schema have only weights of 0; give"
            " rows that stand for somebody."
        )
    reference, scale = counted.holdout, 1.0
    if others is not None and reference is not None:
        counts = [len(levels[schema.root]) for levels in (train, made, others)]
        if counts[2] < 1:
            raise InputError(
                f"Table {shown(schema.root)} of the {HOLDOUT} has no rows; give some, or no hold-out."
            )
        for levels, what in ((train, "real"), (made, "synthetic")):
            if all(same_rows(others[name].codes, levels[name].codes) for name in schema.names):
                raise InputError(
                    f"The {HOLDOUT} hold the rows of the {what} tables; give roots that the synthesizer never saw, or none."
                )
        scale = reference_scale(*(effective_roots(t) for t in (train, made, others)))
        chosen = np.sort(rng.permutation(len(reference[schema.root]))[: counts[1]])
        reference = of_roots(reference, columns, chosen)
    compared: Compared[Levels] = Compared(
        counted.synthetic, reference, independent_children(counted.baseline, columns, rng)
    )
    metrics = _of_keys(Compared(drawn, frames.holdout, given), schema)
    for name in schema.names[1:]:
        metrics += group_metrics(counted.baseline, compared, columns, name, rng)
        if progress is not None:
            progress(f"groups of {name}", 1.0)
    metrics += root_membership(train, made, others, columns, rng, integer("m", m))
    if progress is not None:
        progress("attacks on units", 1.0)
    if shadow is not None:
        metrics.append(
            _shadow(
                shadow,
                shadow_fits,
                given,
                frames.holdout,
                train,
                others,
                schema,
                columns,
                seed,
                progress,
            )
        )
    alone, joined = {}, {}
    for name in schema.names if tables else ():
        if not len(counted.baseline[name]) or not len(counted.synthetic[name]):
            continue  # there is nothing to compare
        held = counted.holdout
        known = others if held is not None and len(held[name]) else None
        part = None if known is None else frames.holdout
        alone[name] = _alone(name, given, drawn, part, schema, survey, seed, label, progress)
        if columns[name].parent is not None:
            about = (counted.baseline, counted.synthetic, None if known is None else held)
            joined[name] = _joined(*about, columns, name, seed, progress)
    return LinkedEvaluation(
        root=schema.root,
        rows={
            name: {
                "train": len(given[name]),
                "synthetic": len(drawn[name]),
                "holdout": 0 if frames.holdout is None else len(frames.holdout[name]),
            }
            for name in schema.names
        },
        metrics=tuple(at_equal_rows(metric, scale) for metric in metrics),
        tables=alone,
        joined=joined,
        left_out=left_out,
        label=str(label),
        certificate=came_with,
        authenticated=authenticated,
        schema_sha256=schema.fingerprint(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
        weights=None if survey is None else _weights_used(survey, train, made, others),
    )


def _weights(
    survey: RootSurvey | None, frames: Frames, what: str, *, needed: bool = True
) -> np.ndarray | None:
    return None if survey is None else survey.weights(frames, what, needed=needed)


def _weights_used(
    survey: RootSurvey, train: Levels, made: Levels, others: Levels | None
) -> WeightsUsed:
    """What there is to say about the weights of the root."""
    weights = weights_of_roots(train)
    assert weights is not None
    effective = {
        "train": effective_roots(train),
        "synthetic": effective_roots(made),
        "holdout": 0.0 if others is None else effective_roots(others),
    }
    alike = weights_of_roots(made) is None
    return WeightsUsed(survey.column, float(weights.sum()), effective, alike)


def columns_of(schema: LinkedSchema, name: str) -> Columns:
    """What the category codes of a table mean."""
    coded, keys = schema.tables[name].coded.columns, schema.keys[name]
    return Columns(
        names=tuple(column.name for column in coded),
        sizes=tuple(column.size for column in coded),
        scores=tuple(column.scores() for column in coded),
        labels=tuple(tuple(column.label(i) for i in range(column.size)) for column in coded),
        parent=keys.parent,
        ordered=keys.order is not None,
        most=keys.max_children or 1,
    )


def _frames(tables: Any, schema: LinkedSchema, what: str) -> Frames:
    """A DataFrame for each table of the schema, columns named by text; refuses other tables and missing key columns."""
    if not isinstance(tables, Mapping):
        raise InputError(f"Expected the {what} to be a dict of tables, got {shown(tables)}.")
    if set(tables) != set(schema.names):
        odd = next(iter(sorted(set(schema.names) ^ set(tables), key=str)))
        known = "is missing" if odd in schema.names else "is not in the schema"
        raise InputError(
            f"Table {shown(odd)} of the {what} {known}; the schema has {', '.join(schema.names)}."
        )
    out = {}
    for name in schema.names:
        frame = to_pandas(tables[name], f"table {name} of the {what}")
        frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
        frame.attrs = {}  # a certificate is of the whole table, not of parts of it
        for column in schema.keys[name].columns:
            if column not in frame:
                raise InputError(
                    f"Table {shown(name)} of the {what} has no key column {shown(column)}."
                )
        out[name] = _with_numbers(frame.reset_index(drop=True), schema, name)
    return out


def _with_numbers(frame: pd.DataFrame, schema: LinkedSchema, name: str) -> pd.DataFrame:
    """The column of the order as numbers, where it is not of the schema and all its texts are numbers, as in a file."""
    order = schema.keys[name].order
    if order is None or order in schema.tables[name].names or order not in frame:
        return frame
    with suppress(ValueError, TypeError):
        return frame.assign(**{order: pd.to_numeric(frame[order])})
    return frame


def levels_of(
    frames: Frames,
    schema: LinkedSchema,
    what: str,
    weights: np.ndarray | None = None,
    *,
    strict: bool = True,
) -> tuple[dict[str, Level], dict[str, int]]:
    """The tables as category codes, and the number of rows of each that were left out.

    ``weights`` are those of the rows of the root, where they have some. A row is left out if a value is not declared, if its key occurred before, or if its parent is not there or was left
    out. Where ``strict``, these are errors.
    """
    levels: dict[str, Level] = {}
    left_out: dict[str, int] = {}
    place: dict[str, pd.Series] = {}  # of each table with a key: the row of its level, by key
    for name in schema.names:
        frame, keys, table = frames[name], schema.keys[name], schema.tables[name].coded
        where = f"table {name} of the {what}"
        values = frame[[c for c in frame.columns if c in table.names]]
        codes, rows = np.zeros((0, len(table.names)), dtype=np.int64), np.arange(0)
        if strict and len(values):
            codes, rows = kept_index(schema.tables[name], values, where)
            if len(rows) < len(values):
                raise InputError(
                    f"In {where} a row breaks a rule and cannot be repaired; correct it."
                )
        elif len(values):
            fitting = indexed_synthetic(TableEncoder(table), values.set_axis(range(len(values))))
            codes, rows = fitting.index, fitting.rows.index.to_numpy()
        if keys.parent is None:
            parent = np.arange(len(rows))
        else:
            above = frame[keys.parent_key].iloc[rows].map(place[keys.parent]).fillna(-1)
            parent = above.to_numpy(dtype=np.int64)
            if strict and (parent < 0).any():
                key = frame[keys.parent_key].iloc[rows[np.argmax(parent < 0)]]
                raise InputError(
                    f"In {where}, {keys.parent_key}={shown(key)} has no row of {keys.parent}; give the parent's row, or"
                    " leave such rows out."
                )
        kept = parent >= 0
        if keys.key is not None:
            repeated = frame[keys.key].iloc[rows].duplicated() | frame[keys.key].iloc[rows].isna()
            if strict and repeated.any():
                key = frame[keys.key].iloc[rows][repeated].iloc[0]
                raise InputError(
                    f"In {where}, the key {keys.key}={shown(key)} is null or repeated; each row needs a key of its own."
                )
            kept &= ~repeated.to_numpy()
        codes, rows, parent = codes[kept], rows[kept], parent[kept]
        if keys.parent is not None:
            sequence = rows
            if keys.order is not None and keys.order in frame:
                ranks = frame[keys.order].rank(method="first", na_option="bottom")
                sequence = ranks.to_numpy()[rows]
            order = np.lexsort([rows, sequence, parent])
            codes, rows, parent = codes[order], rows[order], parent[order]
        root = parent if keys.parent is None else levels[keys.parent].root[parent]
        of_rows = None if weights is None or keys.parent is not None else weights[rows]
        levels[name] = Level(codes=codes, parent=parent, root=root, weights=of_rows)
        left_out[name] = len(frame) - len(rows)
        if keys.key is not None:
            place[name] = pd.Series(np.arange(len(rows)), index=frame[keys.key].iloc[rows])
    return levels, left_out


def _of_keys(frames: Compared[Frames], schema: LinkedSchema) -> list[Metric]:
    """Repeated keys, rows without a parent, and the order of rows; ``frames.baseline`` are the real tables."""
    out = []
    for name in schema.names:
        keys = schema.keys[name]
        if keys.key is not None:
            out.append(
                _share_metric(
                    f"{name}.duplicate_keys", f"Duplicate keys, {name}",
                    f"Share of rows of {name} whose key is null or was that of a row before. 0 is best and required.",
                    frames.map(partial(_repeated, name=name, key=keys.key)),
                )
            )  # fmt: skip
        if keys.parent is None:
            continue
        out.append(
            _share_metric(
                f"{name}.orphans", f"Orphans, {name}",
                f"Share of rows of {name} whose {keys.parent_key} is that of no row of {keys.parent}. 0 is best and required.",
                frames.map(partial(_orphans, name=name, schema=schema)),
            )
        )  # fmt: skip
        if keys.order is not None and all(
            keys.order in tables[name] for tables in frames if tables is not None
        ):
            out.append(
                _share_metric(
                    f"{name}.unordered", f"Rows out of order, {name}",
                    f"Share of rows of {name}, as listed, whose {keys.order} is below that of the row before of the same"
                    " parent; first rows do not count. 0 is best. Real tables need not be sorted.",
                    frames.map(partial(_descents, name=name, parent=str(keys.parent_key), order=keys.order)),
                )
            )  # fmt: skip
    return out


def _repeated(tables: Frames, name: str, key: str) -> np.ndarray:
    return (tables[name][key].duplicated() | tables[name][key].isna()).to_numpy()


def _orphans(tables: Frames, name: str, schema: LinkedSchema) -> np.ndarray:
    keys = schema.keys[name]
    assert keys.parent is not None
    known = tables[keys.parent][schema.keys[keys.parent].key].dropna()
    return ~tables[name][keys.parent_key].isin(known).to_numpy()


def _descents(tables: Frames, name: str, parent: str, order: str) -> np.ndarray:
    """For each row but the first of a group, whether its place in the order is below that of the row before."""
    values = tables[name][order]
    previous = values.groupby(tables[name][parent]).shift()
    known = previous.notna() & values.notna()
    return (values[known] < previous[known].astype(values.dtype)).to_numpy()


def _share_metric(
    key: str,
    title: str,
    reading: str,
    broken: Compared[np.ndarray],
) -> Metric:
    """A share of rows that should be 0. It is counted, not estimated: the interval is the value."""

    def share(rows: np.ndarray) -> Estimate:
        value = float(rows.mean()) if len(rows) else 0.0
        return Estimate(value, value, value, len(rows))

    synthetic, holdout, real = broken.map(share)
    part = Part("real tables", real.value, n=real.n)
    return Metric(
        key, title, UTILITY, synthetic, holdout, None, "lower", 0.0, reading, "counted", (part,), of_relations=False,
    )  # fmt: skip


def _alone(
    name: str,
    real: Frames,
    synthetic: Frames,
    holdout: Frames | None,
    schema: LinkedSchema,
    survey: RootSurvey | None,
    seed: int,
    label: str,
    progress: Callable[[str, float], None] | None,
) -> Evaluation:
    """The evaluation of one table by itself, keys left out, beside the survey's columns of the root."""
    table = schema.tables[name]
    named = SurveyNames() if survey is None else survey.named(real, name)

    def values(tables: Frames) -> pd.DataFrame:
        frame = tables[name]
        own = frame[[column for column in frame.columns if column in table.names]]
        if survey is None:
            return own
        beside = survey.beside(tables, name, named).set_axis(own.index)
        return pd.concat([own, beside[beside.columns.difference(own.columns, sort=False)]], axis=1)

    return evaluate(
        values(real),
        values(synthetic),
        None if holdout is None else values(holdout),
        schema=table,
        random_state=seed,
        label=f"{label}, {name}",
        progress=_named(progress, name),
        **vars(named),
    )


def _joined(
    train: Levels,
    synthetic: Levels,
    holdout: Levels | None,
    columns: Mapping[str, Columns],
    name: str,
    seed: int,
    progress: Callable[[str, float], None] | None,
) -> Evaluation:
    """The evaluation of a child beside the columns of all tables above it."""
    _, origin = with_ancestors(train, columns, name)
    codes = Compared(synthetic, holdout, train).map(
        lambda levels: with_ancestors(levels, columns, name)[0]
    )

    def each(pick: Callable[[Columns], Any]) -> tuple:
        return tuple(pick(columns[table])[j] for table, j in origin)

    given = weights_of_level(train, name)
    weights = None
    if given is not None:
        weights = Weights(
            train=given,
            synthetic=weights_of_level(synthetic, name),
            holdout=None if holdout is None else weights_of_level(holdout, name),
        )
    return measure(
        codes.baseline,
        codes.synthetic,
        codes.holdout,
        names=[f"{table}.{columns[table].names[j]}" for table, j in origin],
        sizes=each(lambda about: about.sizes),
        columns=SuiteColumns(
            scores=each(lambda about: about.scores), labels=each(lambda about: about.labels)
        ),
        weights=weights,
        seed=seed,
        progress=_named(progress, f"{name} with parents"),
    )


def _shadow(
    shadow: Callable[[Frames], Mapping[str, Any]],
    fits: int,
    real: Frames,
    holdout: Frames | None,
    train: Levels,
    others: Levels | None,
    schema: LinkedSchema,
    columns: Mapping[str, Columns],
    seed: int,
    progress: Callable[[str, float], None] | None,
) -> Metric:
    if not callable(shadow):
        raise InputError(
            f"Expected shadow to be a function from real to synthetic linked tables, got {shown(shadow)}."
        )
    count = len(train[schema.root])

    def make(roots: np.ndarray) -> Levels:
        parts = [_of_root_rows(real, schema, roots[roots < count], "t")]
        if holdout is not None:
            parts.append(_of_root_rows(holdout, schema, roots[roots >= count] - count, "h"))
        tables = {
            name: pd.concat([part[name] for part in parts], ignore_index=True)
            for name in schema.names
        }
        made = _frames(shadow(tables), schema, SYNTHETIC)
        return levels_of(made, schema, SYNTHETIC, strict=False)[0]

    stage = None if progress is None else lambda share: progress("shadow models", share)
    return root_shadow(make, train, others, columns, fits, seed, stage)


def _of_root_rows(tables: Frames, schema: LinkedSchema, rows: np.ndarray, mark: str) -> Frames:
    """The tables of some rows of the root; ``mark`` is put before keys, so that those of two sets never meet."""
    out: Frames = {}
    for name in schema.names:
        keys, frame = schema.keys[name], tables[name]
        if keys.parent is None:
            part = frame.iloc[rows]
        else:
            above = out[keys.parent][schema.keys[keys.parent].key]
            part = frame[(mark + frame[keys.parent_key].astype(str)).isin(above)]
        part = part.copy()
        for column in keys.columns:
            part[column] = mark + part[column].astype(str)
        out[name] = part
    return out


def _named(
    progress: Callable[[str, float], None] | None, name: str
) -> Callable[[str, float], None] | None:
    if progress is None:
        return None
    return lambda stage, share: progress(f"{name}: {stage}", share)
