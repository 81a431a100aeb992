"""The user's tables as category codes, what those mean, and what of a synthetic table fits none."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError, TableError
from tabsynth.evaluation.metric import Columns, Metric, Part
from tabsynth.evaluation.results import Overlap
from tabsynth.evaluation.utility.constraints import violations
from tabsynth.privacy.certificate.attached import find_attached, matching
from tabsynth.privacy.certificate.verification import Verification
from tabsynth.schema.column import Column
from tabsynth.schema.conforming import conform
from tabsynth.schema.constraints import Rule
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema, refuse_no_rows, zeros
from tabsynth.tables.frames import to_pandas

REAL, SYNTHETIC, HOLDOUT = TABLES = "training table", "synthetic table", "hold-out table"


@dataclass(frozen=True)
class Synthetic:
    """A synthetic table: the rows that fit the schema, as they are and as category codes, and a metric of the others.

    ``fits``: bool, shape (rows,), of all rows.
    """

    rows: pd.DataFrame
    index: np.ndarray
    violations: Metric
    left_out: int
    fits: np.ndarray


def kept_index(schema: Schema, table: object, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return category codes of the columns that are compared, shape (rows, columns), and the numbers of their rows.

    Values that the schema does not declare are refused. Rows that break a rule are left out or repaired where a fit does so.
    """
    frame = named_by_text(conform(to_pandas(table, what), schema)).reset_index(drop=True)
    coded = schema.comparable
    try:
        if schema.violations != "refuse":
            coded.check_columns(frame, what)
            frame = TableEncoder(schema).keeping_rules(frame, what)
            return _codes(coded, frame, what), frame.index.to_numpy()
        return TableEncoder(coded).kept_index(frame, what)
    except TableError as error:
        first = error.first if what in error.first else f"In the {what}: {error.first}"
        raise TableError(error.what, error.problems, first) from None
    except InputError as error:
        text = str(error)
        # Errors about values name the column; the reader has three tables to look at.
        raise InputError(text if what in text else f"In the {what}: {text}") from None


def _codes(schema: Schema, frame: pd.DataFrame, what: str) -> np.ndarray:
    """Return the category codes of rows that keep all rules, shape (rows, columns)."""
    try:
        return np.stack([column.encode(frame[column.name]) for column in schema.columns], axis=1)
    except InputError as error:
        raise schema.refusal(frame, f"the {what}", error) from None


def named_by_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns are named as the schema names them."""
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def indexed_holdout(
    schema: Schema, table: object, train: np.ndarray, synthetic: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the same for the hold-out as :func:`kept_index`; refuse the rows of one of the other two tables, in whatever order."""
    index, numbers = kept_index(schema, table, HOLDOUT)
    refuse_no_rows(len(index), HOLDOUT)
    for other, what in ((train, "training"), (synthetic, "synthetic")):
        if same_rows(index, other) or (what == "training" and overlap(train, index).all_known):
            raise InputError(
                f"The hold-out holds the rows of the {what} table; give rows that the synthesizer"
                " never saw, or none."
            )
    return index, numbers


def indexed_synthetic(
    schema: Schema, table: object, rules: Sequence[Rule] = (), weights: np.ndarray | None = None
) -> Synthetic:
    """Return category codes of a table that may break the schema, and count its rows that do, with their weights.

    Rows with a value that the schema does not declare have no category code, and are left out of every
    other figure; rows with an impossible combination stay in.

    Raises
    ------
    InputError
        If columns are missing or no row fits.
    """
    frame = to_pandas(table, SYNTHETIC)
    schema.check_columns(frame, SYNTHETIC)
    refuse_no_rows(len(frame), SYNTHETIC)
    named = named_by_text(frame)
    fits = np.ones(len(frame), dtype=bool)
    undeclared: list[Part] = []
    for column in schema.columns:
        try:
            column.encode(named[column.name])
        except InputError as error:
            wrong = _misfits(column, named[column.name])
            if wrong.all() or not wrong.any():
                raise InputError(f"In the {SYNTHETIC}: {error}") from None
            count = int(wrong.sum())
            first = named[column.name][wrong].iloc[0]
            label = f"{column.name}: values not declared, such as {quote(first)}"
            undeclared.append(Part(label, count / len(frame), n=count))
            fits &= ~wrong
    if not fits.any():
        raise InputError(f"No row of the {SYNTHETIC} fits the schema: {undeclared[0].name}.")
    fitting = named[fits]
    index = np.stack([c.encode(fitting[c.name]) for c in schema.columns], axis=1)
    combinations = zeros(schema.columns, schema.impossible)
    impossible = np.zeros((len(index), len(combinations)), dtype=bool)
    for i, zero in enumerate(combinations):
        impossible[:, i] = np.all([mask[index[:, j]] for j, mask in zero.items()], axis=0)
    names = [" and ".join(f"{n} in {_short(v)}" for n, v in c.items()) for c in schema.impossible]
    broken = [rule.violations(fitting) for rule in rules]
    impossible = np.column_stack([impossible, *broken])
    names += [rule.text for rule in rules]
    left_out = len(frame) - len(index)
    metric = violations(impossible, fits, names, undeclared, weights)
    return Synthetic(fitting, index, metric, left_out, fits)


def certificate_with(
    synthetic: object, certificate: Mapping[str, object] | Verification | None
) -> tuple[Mapping[str, Any] | None, bool]:
    """Return the certificate that was given, or that which came with the table, if any, and whether it is authenticated.

    Raises
    ------
    InputError
        If it is no certificate, or a verification that refused it.
    """
    if certificate is None:
        return find_attached(synthetic), False
    if isinstance(certificate, Verification):
        if not certificate.consistent:
            raise InputError(f"The certificate was refused: {'; '.join(certificate.problems)}.")
        return certificate.certificate, certificate.authenticated
    if not isinstance(certificate, Mapping):
        raise InputError(f"Expected certificate to be a dict, got {quote(certificate)}.")
    return matching(synthetic, certificate), False


def rows_sha256(train: np.ndarray, holdout: np.ndarray | None) -> str:
    """Return one digest of the rows of both tables, as category codes of one schema, in whatever order."""
    digest = hashlib.sha256()
    for index in (train, holdout):
        hashed = np.sort(row_hashes(index if index is not None else train[:0]))
        digest.update(f"{len(hashed)} rows;".encode() + hashed.astype("<u8").tobytes())
    return digest.hexdigest()


def _short(values: Any) -> str:
    if isinstance(values, dict):
        return f"{values['low']} to {values['high']}"
    return quote(list(values))


def _misfits(column: Column, values: pd.Series) -> np.ndarray:
    """Return which values the schema does not declare, each distinct one tried by itself; bool (rows,)."""
    numbers, distinct = pd.factorize(values, use_na_sentinel=False)
    wrong = np.zeros(len(distinct), dtype=bool)
    first = pd.Series(np.arange(len(values))).groupby(numbers).first()
    for number, row in first.items():
        try:
            column.encode(values.iloc[[row]])
        except InputError:
            wrong[number] = True
    return wrong[numbers]


def meaning(
    schema: Schema,
    target: str | None = None,
    by: str | Sequence[str] | None = None,
    known: Sequence[str] = (),
) -> Columns:
    """Return what the category codes stand for, with the columns of ``target``, ``by`` and ``known`` by their places."""
    names = [by] if isinstance(by, str) else list(by or ())
    if known and not set(schema.names) - set(known):
        raise InputError(
            "known names every column; leave out one or more, which the attack guesses."
        )
    return Columns(
        names=schema.names,
        sizes=schema.sizes,
        scores=tuple(column.scores() for column in schema.columns),
        labels=tuple(tuple(c.label(i) for i in range(c.size)) for c in schema.columns),
        numbers=tuple(j for j, c in enumerate(schema.columns) if isinstance(c, Numeric)),
        target=None if target is None else _place(schema, target, "target"),
        by=tuple(_place(schema, name, "by") for name in names),
        known=tuple(dict.fromkeys(_place(schema, name, "known") for name in known)),
    )


def _place(schema: Schema, name: str, argument: str) -> int:
    if name not in schema.names:
        raise InputError(
            f"{argument}={quote(name)} is no column of the schema; it has"
            f" {', '.join(map(repr, schema.names[:8]))}{' …' if len(schema.names) > 8 else ''}."
        )
    return schema.names.index(name)


def overlap(train: np.ndarray, holdout: np.ndarray) -> Overlap:
    """Return the overlap of tables of category codes, shape (rows, columns); neither may be empty."""
    training_hashes, holdout_hashes = row_hashes(train), row_hashes(holdout)
    distinct, counts = np.unique(training_hashes, return_counts=True)
    repeated = int(counts[counts > 1].sum())
    return Overlap(
        len(holdout_hashes),
        int(np.isin(holdout_hashes, distinct).sum()),
        len(training_hashes),
        repeated,
    )


def same_rows(table: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two tables hold the same rows, in whatever order."""
    return len(table) == len(other) and bool(
        (np.sort(row_hashes(table)) == np.sort(row_hashes(other))).all()
    )


def row_hashes(index: np.ndarray) -> np.ndarray:
    """Return a number for each row, shape (rows,) uint64; the same on any machine."""
    frame = pd.DataFrame(index).astype("int64")
    return pd.util.hash_pandas_object(frame, index=False).to_numpy()
