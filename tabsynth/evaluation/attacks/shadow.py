"""A shadow-model attack on one person: was the synthesizer fitted with this row or without it?

Stadler, Oprisanu & Troncoso 2022, "Synthetic data: anonymisation groundhog day", USENIX Security. The
attacker has a synthesizer of the same make and people like those of the training table. It fits many
shadow tables with the person and without, and learns to tell the synthetic tables apart by their
features: means and variances of numbers, shares of values, correlations. It costs one fit for every
shadow table, so nothing runs it unasked: ``evaluate(..., shadow=...)`` does.
"""

from collections.abc import Callable, Sequence

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from tabsynth._validate import integer
from tabsynth.errors import InputError
from tabsynth.evaluation.attacks.membership import area
from tabsynth.evaluation.metric import PRIVACY, Metric, Part

CITATION = "Stadler et al. 2022, USENIX Security (groundhog); DeLong et al. 1988"
TREES = 100

Make = Callable[[np.ndarray], np.ndarray]


def shadow_membership(
    make: Make,
    population: np.ndarray,
    targets: np.ndarray,
    sizes: Sequence[int],
    *,
    rows: int,
    shadows: int = 20,
    trials: int = 20,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Metric:
    """How well an attacker tells synthetic tables fitted with a person from those fitted without.

    The figure is the area under the attacker's ROC curve over fresh tables, all targets together:
    0.5 is guessing. A synthesizer that is (ε, δ)-DP allows at most (e^ε − 1 + 2δ)/(e^ε + 1) of
    advantage.

    Parameters
    ----------
    make : callable
        Fits a synthesizer to a table of value numbers and returns a synthetic one.
    population : ndarray, shape (people, columns), int64
        People that training tables are drawn from; those who are targets should not be in it.
    targets : ndarray, shape (targets, columns)
        The people who are attacked, e.g. outliers.
    rows : int
        Of a training table, the target included.
    shadows, trials : int
        Tables that the attacker learns from, and that it is tried on, for each target; half of them
        with the target.
    progress : callable, optional
        Called with the finished share of the fits, in [0, 1], after each.
    """
    integer("rows", rows, least=2)
    for name, value in (("shadows", shadows), ("trials", trials)):
        if integer(name, value, least=4) % 2:
            raise InputError(f"Expected {name} to be even, got {value}: half hold the target.")
    if len(population) < rows:
        raise InputError(f"The population has {len(population)} rows; give at least rows={rows}.")
    rng = np.random.default_rng(seed)
    scores, truths, parts = [], [], []
    for i, target in enumerate(targets):
        present = np.tile([True, False], (shadows + trials) // 2)
        features = []
        for done, with_target in enumerate(present, start=1):
            made = make(_drawn(population, target, rows, with_target, rng))
            features.append(_features(made, sizes))
            if progress is not None:
                progress((i + done / len(present)) / len(targets))
        tables = np.stack(features)
        model = RandomForestClassifier(TREES, random_state=int(rng.integers(2**31)))
        model.fit(tables[:shadows], present[:shadows])
        chance = model.predict_proba(tables[shadows:])[:, 1]
        truth = present[shadows:]
        scores.append(chance)
        truths.append(truth)
        parts.append(Part(f"target {i + 1}", area(chance[truth], chance[~truth]).value, n=trials))
    score, truth = np.concatenate(scores), np.concatenate(truths)
    return Metric(
        "shadow_membership",
        "Membership by shadow models (groundhog)",
        PRIVACY,
        area(score[truth], score[~truth]),
        None,
        None,
        "lower",
        0.5,
        "Chance that an attacker who can run the synthesizer takes a table fitted with the person for"
        " likelier than one fitted without; 0.5 is guessing.",
        CITATION,
        tuple(sorted(parts, key=lambda part: -part.value)),
    )


def _drawn(
    population: np.ndarray, target: np.ndarray, rows: int, present: bool, rng: np.random.Generator
) -> np.ndarray:
    """A training table: ``rows`` − 1 people, and the target if present (add or remove one record)."""
    table = population[rng.choice(len(population), rows - 1, replace=False)]
    return np.concatenate([table, target[None]]) if present else table


def _features(table: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Naive, histogram and correlation features of a table of value numbers, one vector."""
    numbers = table.astype(float)
    naive = [numbers.mean(axis=0), np.median(numbers, axis=0), numbers.var(axis=0)]
    shares = [np.bincount(table[:, j], minlength=s) / len(table) for j, s in enumerate(sizes)]
    centred = numbers - numbers.mean(axis=0)
    scale = centred.std(axis=0)
    scaled = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
    correlation = (scaled.T @ scaled / len(table))[np.triu_indices(len(sizes), 1)]
    return np.concatenate([*naive, *shares, correlation])
