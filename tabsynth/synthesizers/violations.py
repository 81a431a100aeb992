"""Noisy numbers of rows that a fit changes or leaves out: those that break a rule, those whose weight is clipped."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._random import Randomness
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable, exact
from tabsynth.privacy.noise import samplers
from tabsynth.schema.conforming import conformed
from tabsynth.schema.schema import Schema
from tabsynth.tables.counter import RowCounter

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
        From a schema to why there can be no such row, a clause; None where there can.
    stream : int
        Number of the stream of noise, of a seeded fit.
    """

    purpose: str
    which: Callable[[TableEncoder, pd.DataFrame], np.ndarray]
    needs: Callable[[Schema], str | None]
    stream: int


def _without_rules(schema: Schema) -> str | None:
    return (
        None
        if schema.row_rules
        else "The schema has no rules between columns, so that no row breaks one"
    )


def _without_weight(schema: Schema) -> str | None:
    return (
        None if schema.weight else "The schema declares no survey weight, so that none is clipped"
    )


COUNTED = {
    "count_violations": CountedRows(
        purpose="rows that break a rule",
        which=lambda encoder, rows: encoder.broken(rows),
        needs=_without_rules,
        stream=0,
    ),
    "count_clipped": CountedRows(
        purpose="rows with a weight above the cap",
        which=lambda encoder, rows: encoder.whole.design.clipped(rows, encoder.whole.decimal),
        needs=_without_weight,
        stream=1,
    ),
}


def check_counted(option: str, schema: Schema, table: Any, *, on_disk: bool) -> None:
    """InputError unless a fit of the table can release the number that the option asks for. Nothing is read."""
    counted, leave_out = (
        COUNTED[option],
        f"leave {option} (--{option.replace('_', '-')}) out.",
    )
    if on_disk:
        raise InputError(
            f"A fit that counts {counted.purpose} takes no checkpoint and no project ledger; {leave_out}"
        )
    if isinstance(table, RowCounter):
        raise InputError(f"Counts do not show {counted.purpose}; fit a DataFrame, or {leave_out}")
    lacking = counted.needs(schema)
    if lacking is not None:
        raise InputError(f"{lacking}; {leave_out}")


def release_number(
    option: str, table: Any, encoder: TableEncoder, ledger: Ledger, seed: int | None
) -> int:
    """The noisy number of rows that an option asks for, charged to a ledger, whose account keeps it.

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
    Of each unit at most ``max_rows_per_unit`` rows count, whatever other units have, so that a unit adds at most that.
    """
    counted, schema = COUNTED[option], encoder.whole
    private, most = math.isfinite(ledger.epsilon), schema.design.rows
    multiplier = (
        1 / (math.sqrt(SHARE) * gaussian_mu(ledger.epsilon, ledger.delta)) if private else 0.0
    )
    mechanism = Gaussian(noise_multiplier=multiplier) if private else NoPrivacy()
    details = {"l2_sensitivity": float(most), "unit": "rows"}
    account, noise = ledger.open(counted.purpose, mechanism, 1, details), multiplier * most
    rows = PrivateTable(conformed(table, schema), ledger).read(account)
    which = counted.which(encoder, rows)
    if schema.unit is not None:
        units = rows[schema.unit].astype(object).map(str).to_numpy()
        which = pd.Series(which).groupby(units).sum().clip(upper=most)
    (number,) = exact(account, [np.array([float(which.sum())])], [noise])
    # A stream of its own: the noise must not repeat that of the fit.
    bits = Randomness(
        None if seed is None else int(seed) + (1 << 96) + (counted.stream << 100)
    ).noise()
    noisy = int(samplers.noisy(number, noise, bits, whole=True)[0])
    account.details["noisy_number"] = noisy
    logger.info("about %d %s of the schema; the noise is %.0f rows", noisy, counted.purpose, noise)
    return noisy
