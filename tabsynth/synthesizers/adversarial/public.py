"""Tables that cost nothing: public ones, and those that a synthesizer of ours has released already."""

import hashlib
from typing import Any

import numpy as np

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import codes_of
from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy.certificate.certificate import rounded_up
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable, as_earlier
from tabsynth.privacy.ledger.ledger import exact as passed
from tabsynth.privacy.noise import samplers as noise
from tabsynth.privacy.noise.counts import COUNTED_ROWS, probabilities
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.method import WarmStart
from tabsynth.synthesizers.sampling import Request, sample_table

RELEASED_ROWS = 50_000  # drawn from a warm start: its second moments to about half a percent
RELEASED_CODES = 25_000_000  # of those rows in all: fewer rows of a wide table


def check_warm_start(warm: Any, schema: Schema, epsilon: float, delta: float) -> None:
    """Refuse what is not a fitted synthesizer of the same schema that leaves some budget."""
    if not isinstance(warm, Synthesizer) or not hasattr(warm, "model_"):
        raise InputError(f"Expected warm_start to be a fitted synthesizer, got {quote(warm)}.")
    if warm.model_.encoder.schema.fingerprint() != schema.fingerprint():
        raise InputError("warm_start was fitted with another schema; fit both with the same one.")
    spent = Ledger.from_list(epsilon, delta, as_earlier(warm.ledger_.to_list()))
    if spent.used_up:
        raise BudgetError(
            f"warm_start has spent epsilon={rounded_up(warm.ledger_.spent)} of {epsilon:g}: nothing is left for private"
            " steps; raise epsilon=, or fit the warm start with less."
        )


def released_rows(width: int) -> int:
    """Return how many rows to draw from a warm start whose rows have ``width`` codes."""
    return min(RELEASED_ROWS, max(1000, RELEASED_CODES // width))


def fingerprint(warm: WarmStart) -> str:
    """Return the SHA-256 of what a fitted synthesizer samples from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(warm.model_.weights().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def spends_of(warm: WarmStart) -> list[JsonObject]:
    """Return what a warm start has spent, as a ledger takes it; each line says whose it is."""
    origin = {"warm_start": warm.method, "sha256_of_weights": fingerprint(warm)}
    items = warm.ledger_.to_list()
    return as_earlier({**item, "details": {**item["details"], **origin}} for item in items)


def together(warm: WarmStart, spends: list[JsonObject]) -> list[JsonObject]:
    """Return what a warm start has spent, then what this synthesizer has; a warm start counts once."""
    origin = fingerprint(warm)
    if any(item["details"].get("sha256_of_weights") == origin for item in spends):
        return spends
    return [*spends_of(warm), *spends]


def released_index(warm: WarmStart, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return category codes of a sample of a warm start, shape (rows, columns): free post-processing."""
    table = sample_table(warm.model_, int(rng.integers(2**62)), Request(n=rows))
    return TableEncoder(warm.model_.encoder.whole).to_index(table, "warm start's table")


def one_way(index: np.ndarray, sizes: tuple[int, ...]) -> list[np.ndarray]:
    """Return one-way distributions of a released table, strictly positive."""
    counts = [np.bincount(c, minlength=s) for c, s in zip(index.T, sizes, strict=True)]
    return [probabilities(c.astype(float), float(len(index)), 0.0) for c in counts]


def noisy_overlap(
    table: PrivateTable[Any],
    account: Account,
    public: np.ndarray,
    bits: Bits,
    max_rows: int = 1,
) -> float:
    """Return the noisy number of private rows that equal some public row.

    Chance counts too: where few different rows are possible, many are equal.

    Formal guarantees
    -----------------
    Adding or removing one unit of privacy changes the number by at most its ``max_rows`` rows, whatever the public rows
    are: that is the L2 sensitivity. Rows count once, whatever their weight.
    """
    std = account.whole_table_noise * max_rows
    rows = codes_of(table.read(account))
    public_rows = set(map(bytes, np.ascontiguousarray(public, dtype="<i8")))
    equal = sum(
        bytes(row) in public_rows
        for start in range(0, len(rows), COUNTED_ROWS)
        for row in np.ascontiguousarray(rows[start : start + COUNTED_ROWS], dtype="<i8")
    )
    (exact,) = passed(account, [float(equal)], [std])
    return float(noise.noisy(exact, std, bits, whole=True))
