"""The evaluation of synthetic linked tables: table by table, and the relations between their rows.

Each table is evaluated by itself, with the metrics of :mod:`tabsynth.evaluation.suite`. Metrics of groups, and of the relations
between a child and the tables above it, are those of :mod:`tabsynth.evaluation.utility.groups`. Attacks have a row of the root with
its other records as their target.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.encoding.keys import plain_tables
from tabsynth.errors import InputError
from tabsynth.evaluation.attacks.roots import MAX_ATTACKED, root_membership
from tabsynth.evaluation.config import EvaluationConfig
from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.evaluating import evaluate_table, versions
from tabsynth.evaluation.grouped import (
    Level,
    LevelColumns,
    Levels,
    effective_roots,
    independent_children,
    of_roots,
    weights_of_roots,
    with_weight,
)
from tabsynth.evaluation.inputs import indexed_synthetic, kept_index, same_rows
from tabsynth.evaluation.metric import (
    Compared,
    Evaluation,
    Measured,
    Metric,
    Part,
    at_equal_rows,
)
from tabsynth.evaluation.results import Estimate, WeightsUsed, reference_scale
from tabsynth.evaluation.utility.groups import group_metrics
from tabsynth.evaluation.weight_columns import weights_beside, weights_of_root
from tabsynth.schema.linked import LinkedSchema, TableKeys
from tabsynth.schema.schema import Schema
from tabsynth.tables.frames import to_pandas

REAL, SYNTHETIC, HOLDOUT = "real tables", "synthetic tables", "hold-out tables"
Frames = dict[str, pd.DataFrame]
KEYS = definition_of("duplicate_keys")


@dataclass(frozen=True, kw_only=True)
class LinkedEvaluation(Measured):
    """The evaluation of synthetic linked tables; its ``metrics`` are of keys, groups, siblings, sequences, levels and attacks.

    Attributes
    ----------
    root : str
        The table whose rows, with their other records, are the unit of attacks.
    rows : dict
        For each table, rows of the ``train``, ``synthetic`` and ``holdout`` tables.
    tables : dict
        The evaluation of each table by itself, of those that have rows.
    left_out : dict
        For each table, synthetic rows with values that are not declared, or whose parent has such values or is missing.
    weights : WeightsUsed or None
        The survey weights of the root; None: all roots count the same.
    """

    root: str
    rows: dict[str, dict[str, int]]
    tables: Mapping[str, Evaluation]
    left_out: Mapping[str, int]
    weights: WeightsUsed | None = None

    @property
    def parts(self) -> Mapping[str, Evaluation]:
        """The evaluation of each table, with the certificate of all tables; empty where only groups were measured."""
        if self.certificate is None:
            return self.tables
        # The certificate's section on its file is that of one table.
        shared = {name: value for name, value in self.certificate.items() if name != "table"}
        facts: dict[str, Any] = {"certificate": shared, "authenticated": self.authenticated}
        facts["schema_sha256"] = self.schema_sha256
        return {name: replace(part, **facts) for name, part in self.tables.items()}


def evaluate_linked(
    tables: Compared[object],
    schema: Schema | LinkedSchema | None,
    weights: str | None,
    config: EvaluationConfig,
    label: str,
) -> LinkedEvaluation:
    """Compare synthetic linked tables with real ones, a hold-out and independent children; see :func:`tabsynth.evaluate`.

    Parameters
    ----------
    tables : Compared
        Tables as users have them; ``baseline`` are the real ones.
    """
    if not isinstance(schema, LinkedSchema):
        raise InputError(f"Expected schema to be a LinkedSchema, got {quote(schema)}.")
    if config.sampled_from:
        raise InputError("Linked tables are evaluated without sampled_from; leave it out.")
    declared = schema
    column = schema.design.weight if weights is None else weights
    # Orphans of synthetic tables are counted.
    tables = Compared(
        plain_tables(schema, tables.synthetic, orphans=True),
        plain_tables(schema, tables.holdout),
        plain_tables(schema, tables.baseline),
    )
    schema = schema.plain
    columns = {name: columns_of(schema, name) for name in schema.names}
    drawn = _frames(tables.synthetic, schema, SYNTHETIC)
    unseen = None if tables.holdout is None else _frames(tables.holdout, schema, HOLDOUT)
    frames = Compared(drawn, unseen, _frames(tables.baseline, schema, REAL))
    of_train = weights_of_root(frames.baseline, schema, column, REAL)
    train, _ = levels_of(frames.baseline, schema, REAL, of_train)
    root_weights = weights_of_root(drawn, schema, column, SYNTHETIC, needed=False)
    created, left_out = levels_of(drawn, schema, SYNTHETIC, root_weights, strict=False)
    controls = None
    if unseen is not None:
        of_controls = weights_of_root(unseen, schema, column, HOLDOUT)
        controls, _ = levels_of(unseen, schema, HOLDOUT, of_controls)
    if not len(train[schema.root]) or not len(created[schema.root]):
        raise InputError(f"Table {quote(schema.root)} of the real or synthetic tables has no rows.")
    levels: Compared[Levels] = Compared(created, controls, train)
    rng = np.random.default_rng(config.random_state)
    counted = levels.map(lambda tables: with_weight(tables, columns))
    if not len(counted.synthetic[schema.root]):
        raise InputError(
            f"The rows of table {quote(schema.root)} of the {SYNTHETIC} that fit the schema have only weights of 0; give"
            " rows that stand for somebody."
        )
    reference, scale = counted.holdout, 1.0
    if controls is not None and reference is not None:
        _refuse_known_holdout(levels, controls, schema)
        scale = reference_scale(*(effective_roots(t) for t in (train, created, controls)))
        roots = rng.permutation(len(reference[schema.root]))[: len(created[schema.root])]
        reference = of_roots(reference, columns, np.sort(roots))
    compared: Compared[Levels] = Compared(
        counted.synthetic, reference, independent_children(counted.baseline, columns, rng)
    )
    metrics = [metric for name in schema.names for metric in _key_metrics(frames, schema, name)]
    for name in schema.names[1:]:
        metrics += group_metrics(counted.baseline, compared, columns, name, rng)
        config.report_progress(f"groups of {name}")
    metrics += root_membership(train, created, controls, columns, rng, config.m or MAX_ATTACKED)
    config.report_progress("attacks on units")
    alone = {}
    for name in schema.names if config.each_table else ():
        if not len(counted.baseline[name]) or not len(counted.synthetic[name]):
            continue  # there is nothing to compare
        unseen_rows = counted.holdout is not None and len(counted.holdout[name]) > 0
        shown = frames if unseen_rows else Compared(frames.synthetic, None, frames.baseline)
        evaluation = _evaluate_alone(shown, schema, column, name, config)
        alone[name] = replace(evaluation, label=f"{label}, {name}")
    return LinkedEvaluation(
        root=schema.root,
        rows={
            name: {
                "train": len(frames.baseline[name]),
                "synthetic": len(drawn[name]),
                "holdout": 0 if unseen is None else len(unseen[name]),
            }
            for name in schema.names
        },
        metrics=tuple(at_equal_rows(metric, scale) for metric in metrics),
        tables=alone,
        left_out=left_out,
        label=label,
        schema_sha256=declared.fingerprint(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
        weights=None if column is None else _weights_used(column, levels),
    )


def _refuse_known_holdout(levels: Compared[Levels], holdout: Levels, schema: LinkedSchema) -> None:
    """Raise InputError if the hold-out has no rows, or those of the real or of the synthetic tables."""
    names, root = schema.names, schema.root
    if len(holdout[root]) < 1:
        raise InputError(
            f"Table {quote(root)} of the {HOLDOUT} has no rows; give some, or no hold-out."
        )
    for tables, what in ((levels.baseline, "real"), (levels.synthetic, "synthetic")):
        if all(same_rows(holdout[name].codes, tables[name].codes) for name in names):
            raise InputError(
                f"The {HOLDOUT} hold the rows of the {what} tables; give roots that the synthesizer never saw, or none."
            )


def _weights_used(column: str, levels: Compared[Levels]) -> WeightsUsed:
    """Return the sums and effective numbers of the weights of the root."""
    weights = weights_of_roots(levels.baseline)
    assert weights is not None
    effective = {
        "train": effective_roots(levels.baseline),
        "synthetic": effective_roots(levels.synthetic),
        "holdout": 0.0 if levels.holdout is None else effective_roots(levels.holdout),
    }
    alike = weights_of_roots(levels.synthetic) is None
    return WeightsUsed(column, float(weights.sum()), effective, alike)


def columns_of(schema: LinkedSchema, name: str) -> LevelColumns:
    """Return the meaning of the category codes of a table."""
    coded, keys = schema.tables[name].comparable.columns, schema.keys[name]
    return LevelColumns(
        names=tuple(column.name for column in coded),
        sizes=tuple(column.size for column in coded),
        scores=tuple(column.scores() for column in coded),
        labels=tuple(tuple(column.label(i) for i in range(column.size)) for column in coded),
        parent=keys.parent,
        ordered=keys.order is not None,
        most=keys.max_children or 1,
    )


def _frames(tables: object, schema: LinkedSchema, what: str) -> Frames:
    """Return a DataFrame for each table of the schema, columns named by text; refuses other tables and missing key columns."""
    if not isinstance(tables, Mapping):
        raise InputError(f"Expected the {what} to be a dict of tables, got {quote(tables)}.")
    if set(tables) != set(schema.names):
        odd = next(iter(sorted(set(schema.names) ^ set(tables), key=str)))
        problem = "is missing" if odd in schema.names else "is not in the schema"
        raise InputError(
            f"Table {quote(odd)} of the {what} {problem}; the schema has {', '.join(schema.names)}."
        )
    out = {}
    for name in schema.names:
        frame = to_pandas(tables[name], f"table {name} of the {what}")
        frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
        frame.attrs = {}  # a certificate is of the whole table, not of parts of it
        for column in schema.keys[name].columns:
            if column not in frame:
                raise InputError(
                    f"Table {quote(name)} of the {what} has no key column {quote(column)}."
                )
        out[name] = _with_numbers(frame.reset_index(drop=True), schema, name)
    return out


def _with_numbers(frame: pd.DataFrame, schema: LinkedSchema, name: str) -> pd.DataFrame:
    """Return the column of the order as numbers, where it is not of the schema and all its texts are numbers, as in a file."""
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
    """Return the tables as category codes, and the number of rows of each that were left out.

    ``weights`` are those of the rows of the root, where they have some. A row is left out if a value is not declared, if its key occurred before, or if its parent is not there or was left
    out. Where ``strict``, these are errors.
    """
    levels: dict[str, Level] = {}
    left_out: dict[str, int] = {}
    place: dict[str, pd.Series] = {}  # of each table with a key: the row of its level, by key
    for name in schema.names:
        frame, keys, table = frames[name], schema.keys[name], schema.tables[name].comparable
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
            fitting = indexed_synthetic(table, values.set_axis(range(len(values))))
            codes, rows = fitting.index, fitting.rows.index.to_numpy()
        if keys.parent is None:
            parent = np.arange(len(rows))
        else:
            above = frame[keys.parent_key].iloc[rows].map(place[keys.parent]).fillna(-1)
            parent = above.to_numpy(dtype=np.int64)
            if strict and (parent < 0).any():
                key = frame[keys.parent_key].iloc[rows[np.argmax(parent < 0)]]
                raise InputError(
                    f"In {where}, {keys.parent_key}={quote(key)} has no row of {keys.parent}; give the parent's row, or"
                    " leave such rows out."
                )
        usable = parent >= 0
        if keys.key is not None:
            repeated = frame[keys.key].iloc[rows].duplicated() | frame[keys.key].iloc[rows].isna()
            if strict and repeated.any():
                key = frame[keys.key].iloc[rows][repeated].iloc[0]
                raise InputError(
                    f"In {where}, the key {keys.key}={quote(key)} is null or repeated; each row needs a key of its own."
                )
            usable &= ~repeated.to_numpy()
        codes, rows, parent = codes[usable], rows[usable], parent[usable]
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


def _key_metrics(frames: Compared[Frames], schema: LinkedSchema, name: str) -> list[Metric]:
    """Return repeated keys of a table, rows without a parent, and the order of rows; ``frames.baseline`` are the real tables."""
    keys, out = schema.keys[name], []

    def add(key: str, title: str, note: str, broken: Callable[[Frames], pd.Series]) -> None:
        """Add a share of rows that should be 0. It is counted, not estimated: the interval is the value."""

        def share(tables: Frames) -> Estimate:
            rows = broken(tables)
            value = float(rows.mean()) if len(rows) else 0.0
            return Estimate(value, value, value, len(rows))

        synthetic, holdout, real = frames.map(share)
        out.append(
            Metric(
                KEYS,
                synthetic,
                holdout,
                parts=(Part("real tables", real.value, n=real.n),),
                key=f"{name}.{key}",
                title=f"{title}, {name}",
                note=f"Here: rows of {name} whose {note}.",
                of_relations=False,
            )
        )

    if keys.key is not None:
        note = "key is null or was that of a row before"

        def repeats(tables: Frames) -> pd.Series:
            of_rows = tables[name][keys.key]
            return of_rows.duplicated() | of_rows.isna()

        add("duplicate_keys", "Duplicate keys", note, repeats)
    if keys.parent is None:
        return out
    parent, above = keys.parent, schema.keys[keys.parent].key
    add(
        "orphans",
        "Orphans",
        f"{keys.parent_key} is that of no row of {parent}",
        lambda tables: ~tables[name][keys.parent_key].isin(tables[parent][above].dropna()),
    )
    if all(keys.order in tables[name] for tables in frames if tables is not None):
        note = f"{keys.order} is below that of the row before of the same parent"
        add("unordered", "Rows out of order", note, lambda tables: _descents(tables[name], keys))
    return out


def _descents(table: pd.DataFrame, keys: TableKeys) -> pd.Series:
    """Return which rows but the first of a group have a lower place in the order than the row before."""
    values = table[keys.order]
    previous = values.groupby(table[keys.parent_key]).shift()
    both_known = previous.notna() & values.notna()
    return values[both_known] < previous[both_known].astype(values.dtype)


def _evaluate_alone(
    frames: Compared[Frames],
    schema: LinkedSchema,
    column: str | None,
    name: str,
    config: EvaluationConfig,
) -> Evaluation:
    """Evaluate one table by itself, keys left out, beside the root's ``column`` of weights."""
    table = schema.tables[name]
    beside = column if column is None or name == schema.root else f"{schema.root}.{column}"

    def values(tables: Frames) -> pd.DataFrame:
        frame = tables[name]
        learned = frame[[text for text in frame.columns if text in table.names]]
        if column is None or beside is None or column not in tables[schema.root].columns:
            return learned
        return learned.assign(**{beside: weights_beside(tables, schema, column, name)})

    rows: Compared[object] = Compared(*frames.map(values))
    return evaluate_table(rows, table, beside, config.of_table(name))
