"""Noisy numbers of rows, units or identifiers that tell what a fit changes, or what its unit of privacy should be."""

import logging
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tabsynth._random import Randomness
from tabsynth._validate import one_of, quote
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import names_of
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable, exact
from tabsynth.privacy.noise import samplers
from tabsynth.privacy.noise.counts import interval, stated_count
from tabsynth.schema.conforming import conform
from tabsynth.schema.schema import Schema

SHARE = 0.01  # of the budget, in μ², of each number
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CountedRows:
    """Rows whose noisy number a fit may release.

    Attributes
    ----------
    purpose : str
        Of the account, and in messages.
    which : callable
        From an encoder and a table that it takes to the rows that count, bool, shape (n,): a row decides for itself.
    needs : callable
        From a schema and the table's columns to why there can be no such row, a clause; None where there can.
    stream : int
        Number of the stream of noise, of a seeded fit.
    once : bool
        Whether of each unit only one row counts, so that units are counted.
    warning : str, optional
        What to say where the noisy number is above twice its noise.
    """

    purpose: str
    which: Callable[[TableEncoder, pd.DataFrame], np.ndarray]
    needs: Callable[[Schema, Collection[str]], str | None]
    stream: int
    once: bool = False
    warning: str | None = None


def _without_rules(schema: Schema, names: Collection[str]) -> str | None:
    return (
        None
        if schema.row_rules
        else "The schema has no rules between columns, so that no row breaks one"
    )


def _without_weight(schema: Schema, names: Collection[str]) -> str | None:
    return (
        None if schema.weight else "The schema declares no survey weight, so that none is clipped"
    )


def _without_unit(schema: Schema, names: Collection[str]) -> str | None:
    return None if schema.unit else "The schema declares no unit, so that none has too many rows"


def _next_rows(encoder: TableEncoder, rows: pd.DataFrame) -> np.ndarray:
    """Return of each unit with more rows than its bound the first row beyond it."""
    design = encoder.whole.design
    units = pd.Series(names_of(rows[design.unit]))
    return units.groupby(pd.factorize(units)[0]).cumcount().to_numpy() == design.rows


def _without_identifier(schema: Schema, names: Collection[str]) -> str | None:
    if schema.unit is not None:
        return "The schema declares a unit, whose rows may be several"
    if not schema.identifiers:
        return "The schema declares no identifier, so that none has several rows"
    name = schema.identifiers[0]
    return None if name in names else f"The table lacks the identifier, column {quote(name)}"


def _second_rows(encoder: TableEncoder, rows: pd.DataFrame) -> np.ndarray:
    """Return of each value of the first identifier that several rows have the second row."""
    values = rows[encoder.whole.identifiers[0]]
    places = values.groupby(pd.factorize(names_of(values))[0]).cumcount().to_numpy()
    return (places == 1) & values.notna().to_numpy()


COUNTED = {
    "violations": CountedRows(
        purpose="rows that break a rule",
        which=lambda encoder, rows: encoder.violations(rows),
        needs=_without_rules,
        stream=0,
    ),
    "clipped": CountedRows(
        purpose="rows with a weight above the cap",
        which=lambda encoder, rows: encoder.whole.design.above_cap(rows, encoder.whole.decimal),
        needs=_without_weight,
        stream=1,
    ),
    "bounded": CountedRows(
        purpose="units with more rows than the bound",
        which=_next_rows,
        needs=_without_unit,
        stream=2,
        once=True,
    ),
    "repeated": CountedRows(  # a record more or less changes whether one identifier has several
        purpose="identifiers with several rows",
        which=_second_rows,
        needs=_without_identifier,
        stream=3,
        warning="the guarantee for whoever has several rows is weaker; declare the identifier as the unit of the schema",
    ),
}


def check_count(count: Collection[str]) -> list[str]:
    """Return the names of the numbers to release in the order of ``COUNTED``, or raise InputError for another name."""
    if isinstance(count, str):
        raise InputError(f"Expected count to be a list of names, got {quote(count)}.")
    for option in count:
        one_of("count", option, COUNTED)
    return [option for option in COUNTED if option in count]


def check_counted(
    option: str,
    schema: Schema | None,
    columns: Collection[str] | None,
    *,
    in_place: bool,
    on_disk: bool,
) -> None:
    """Raise an InputError unless a fit can release the number that the option asks for. Nothing is read.

    Parameters
    ----------
    option : str
        A name in ``COUNTED``.
    schema : Schema or None
        None of a fit that drafts one.
    columns : collection of str or None
        Of the table; None before it is read.
    in_place : bool
        Whether the table counts its own rows.
    on_disk : bool
        Whether the fit has a checkpoint or a project ledger.
    """
    counted, leave_out = COUNTED[option], f"leave out count=[{option!r}]."
    if on_disk:
        raise InputError(
            f"A fit that counts {counted.purpose} takes no checkpoint and no project ledger; {leave_out}"
        )
    if in_place:
        raise InputError(f"Counts do not show {counted.purpose}; fit a DataFrame, or {leave_out}")
    if schema is None:
        return
    reason = counted.needs(schema, schema.identifiers if columns is None else columns)
    if reason is not None:
        raise InputError(f"{reason}; {leave_out}")


def release_number(
    option: str, table: object, encoder: TableEncoder, ledger: Ledger, seed: int | None
) -> int:
    """Return the noisy number of rows that an option asks for, charged to a ledger, whose account keeps it.

    Parameters
    ----------
    option : str
        A name in ``COUNTED``, which :func:`check_counted` has taken.
    table : DataFrame
        One that the encoder takes.
    encoder : TableEncoder
    ledger : Ledger
        Of the fit's whole budget; a hundredth of it (in μ²) is spent.
    seed : int or None
        Of the fit.

    Formal guarantees
    -----------------
    Of each unit at most ``max_rows_per_unit`` rows count, or one where units are counted, whatever other units have, so
    that a unit adds at most that.
    """
    counted, schema = COUNTED[option], encoder.whole
    private, bound = math.isfinite(ledger.epsilon), 1 if counted.once else schema.design.rows
    multiplier = (
        1 / (math.sqrt(SHARE) * gaussian_mu(ledger.epsilon, ledger.delta)) if private else 0.0
    )
    mechanism = Gaussian(noise_multiplier=multiplier) if private else NoPrivacy()
    details = {"l2_sensitivity": float(bound), "unit": "units" if counted.once else "rows"}
    account, noise = ledger.open(counted.purpose, mechanism, 1, details), multiplier * bound
    rows = PrivateTable(conform(table, schema), ledger).read(account)
    which = counted.which(encoder, rows)
    if schema.unit is not None:
        units = pd.factorize(names_of(rows[schema.unit]))[0]
        which = pd.Series(which).groupby(units).sum().clip(upper=bound).to_numpy()
    (number,) = exact(account, [np.array([float(which.sum())])], [noise])
    # A stream of its own: the noise must not repeat that of the fit.
    bits = Randomness(
        None if seed is None else int(seed) + (1 << 96) + (counted.stream << 100)
    ).noise()
    noisy = int(samplers.noisy(number, noise, bits, whole=True)[0])
    ends = interval(noisy, noise, rounded=True)
    account.details |= {"noisy_number": noisy, "interval": list(ends)}
    stated = stated_count(noisy, ends)
    logger.info("%s %s of the schema", stated, counted.purpose)
    if counted.warning is not None and noisy > 2 * noise:
        logger.warning("%s %s: %s", stated, counted.purpose, counted.warning)
    return noisy
