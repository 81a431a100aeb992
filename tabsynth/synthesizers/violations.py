"""The noisy number of rows that break a rule of the schema, released as a part of a fit."""

import logging
import math
from typing import Any

import numpy as np

from tabsynth._random import Randomness
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable, exact
from tabsynth.privacy.noise import samplers
from tabsynth.schema.conforming import conformed
from tabsynth.tables.counter import RowCounter

PURPOSE = "rows that break a rule"
SHARE = 0.01  # of the budget, in μ²
logger = logging.getLogger(__name__)


def release_violations(table: Any, encoder: TableEncoder, ledger: Ledger, seed: int | None) -> int:
    """The noisy number of rows that break a rule, charged to a ledger, whose account keeps it.

    Parameters
    ----------
    table : DataFrame
        One that the encoder takes.
    encoder : TableEncoder
    ledger : Ledger
        Of the fit's whole budget; a hundredth of it (in μ²) is spent.
    seed : int or None
        Of the fit.

    Raises
    ------
    InputError
        For a schema without rules, and for counts, which have no rows. Nothing is charged.
    """
    if isinstance(table, RowCounter):
        raise InputError("Counts do not show which rows break a rule; fit a DataFrame.")
    schema = encoder.whole
    if not schema.row_rules:
        raise InputError(
            "The schema has no rules between columns, so that no row breaks one; leave count_violations out."
        )
    private = math.isfinite(ledger.epsilon)
    noise = 1 / (math.sqrt(SHARE) * gaussian_mu(ledger.epsilon, ledger.delta)) if private else 0.0
    mechanism = Gaussian(noise_multiplier=noise) if private else NoPrivacy()
    account = ledger.open(PURPOSE, mechanism, 1, {"l2_sensitivity": 1.0, "unit": "rows"})
    rows = PrivateTable(conformed(table, schema), ledger).read(account)
    (number,) = exact(account, [np.array([float(encoder.broken(rows).sum())])], [noise])
    # A stream of its own: the noise must not repeat that of the fit.
    bits = Randomness(None if seed is None else int(seed) + (1 << 96)).noise()
    noisy = int(samplers.noisy(number, noise, bits, whole=True)[0])
    account.details["noisy_number"] = noisy
    logger.info("about %d rows break a rule of the schema; the noise is %.0f rows", noisy, noise)
    return noisy
