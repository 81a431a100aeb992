"""The shadow-model attack of a report: a user's synthesizer, fitted with and without two people."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import integer, shown
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.evaluation import Metric, shadow_membership
from tabsynth.report.inputs import indexed_synthetic

TARGETS = 2  # people who are attacked: the most unusual ones, who have most to lose
ROWS = 1000  # of a shadow's training table, at most: as in Stadler et al. 2022

Shadow = Callable[[pd.DataFrame], Any]


def shadow_attack(
    encoder: TableEncoder,
    train: np.ndarray,
    holdout: np.ndarray | None,
    shadow: Any,
    fits: int,
    seed: int,
    progress: Callable[[str, float], None] | None,
) -> Metric:
    """The metric of :func:`tabsynth.evaluation.shadow_membership` for a callable or an estimator.

    Training tables are drawn from all other real rows: at most 1,000, and at most half of them, so that
    the attacker does not know who is in one.
    """
    make = _maker(shadow)
    if integer("shadow_fits", fits, least=8 * TARGETS) % (4 * TARGETS):
        raise InputError(
            f"Expected shadow_fits to be a multiple of {4 * TARGETS}, got {fits}: for each of"
            f" {TARGETS} people, half to learn from and half to be tried on, half of either with the person."
        )
    sizes = encoder.schema.sizes
    targets = unusual(train, sizes, TARGETS)
    people = train if holdout is None else np.concatenate([train, holdout])
    others = people[~(people[:, None] == targets[None]).all(axis=2).any(axis=1)]
    rows = min(ROWS, len(others) // 2)
    if rows < 2:
        raise InputError(
            f"shadow needs 4 real rows or more that differ from those attacked, got {len(others)}."
        )
    draws = np.random.default_rng([seed, 2])

    def made(table: np.ndarray) -> np.ndarray:
        return indexed_synthetic(encoder, make(encoder.from_index(table, draws))).index

    half = fits // (2 * TARGETS)
    return shadow_membership(
        made,
        others,
        targets,
        sizes,
        rows=rows,
        shadows=half,
        trials=half,
        seed=seed,
        progress=None if progress is None else lambda share: progress("shadow models", share),
    )


def unusual(table: np.ndarray, sizes: tuple[int, ...], count: int) -> np.ndarray:
    """Different rows whose values are rarest together; shape (at most count, columns).

    The rank is the sum over columns of the logarithm of a value's share: likelihood under independence.
    """
    shares = [np.bincount(table[:, j], minlength=size) for j, size in enumerate(sizes)]
    rows = np.unique(table, axis=0)
    likelihood = sum(np.log(share[rows[:, j]]) for j, share in enumerate(shares))
    return rows[np.argsort(likelihood, kind="stable")[:count]]


def _maker(shadow: Any) -> Shadow:
    """What fits a synthesizer to a table and returns as many synthetic rows."""
    if callable(shadow):
        return shadow
    if not (callable(getattr(shadow, "fit", None)) and callable(getattr(shadow, "sample", None))):
        raise InputError(
            "Expected shadow to be a function from a DataFrame to a synthetic one, or a synthesizer"
            f" to be fitted, got {shown(shadow)}."
        )

    def make(table: pd.DataFrame) -> Any:
        # A copy for every fit: the user's own stays as it is.
        return copy.deepcopy(shadow).fit(table).sample(len(table))

    return make
