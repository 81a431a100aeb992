"""A shadow-model attack on one person, to tell whether the synthesizer was fitted with this row.

Stadler, Oprisanu & Troncoso 2022, "Synthetic data: anonymisation groundhog day", USENIX Security. The
attacker has a synthesizer of the same make and people like those of the training table. It fits many
shadow tables with the person and without, and learns to tell the synthetic tables apart by their
features: means and variances of numbers, shares of values, correlations. It costs one fit for every
shadow table, so nothing runs it unasked: ``evaluate(..., shadow=...)`` does.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

from tabsynth._validate import integer, quote
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.evaluation.attacks.membership import area, area_definition
from tabsynth.evaluation.config import EvaluationConfig
from tabsynth.evaluation.inputs import indexed_synthetic
from tabsynth.evaluation.metric import Metric, Part
from tabsynth.schema.schema import Schema

TREES = 100
TARGETS = 2  # people who are attacked: the most unusual ones, who have most to lose
ROWS = 1000  # of a shadow's training table, at most: as in Stadler et al. 2022

Make = Callable[[np.ndarray], np.ndarray]
Shadow = Callable[[pd.DataFrame], Any]
SHADOW = area_definition(
    name="Membership by shadow models",
    keys=("shadow_membership",),
    meaning="The attacker can run the synthesizer, and fits it many times with and without one person. A random forest"
    " learns from these tables. The figure is its area under the ROC curve on further tables.",
    formula="P(score of a table with the person > score of one without) + ½ P(equal)",
    interval="The drawing of the fits that are tried (DeLong)",
    caveat="Two people, the most unusual, on tables of at most 1,000 rows. It is about the synthesizer and not about the one"
    " table that you publish.",
    source="Stadler et al. 2022, USENIX Security; DeLong et al. 1988",
)


def shadow_membership(
    make: Make,
    population: np.ndarray,
    targets: np.ndarray,
    sizes: Sequence[int],
    *,
    rows: int,
    shadows: int = 20,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Metric:
    """Measure how well an attacker tells synthetic tables fitted with a person from those fitted without.

    The figure is the area under the attacker's ROC curve over fresh tables, all targets together:
    0.5 is guessing. A synthesizer that is (ε, δ)-DP allows at most (e^ε − 1 + 2δ)/(e^ε + 1) of
    advantage.

    Parameters
    ----------
    make : callable
        Fits a synthesizer to a table of category codes and returns a synthetic one.
    population : ndarray, shape (people, columns), int64
        People that training tables are drawn from; those who are targets should not be in it.
    targets : ndarray, shape (targets, columns)
        The people who are attacked, e.g. outliers.
    rows : int
        Of a training table, the target included.
    shadows : int
        Tables that the attacker learns from, and as many that it is tried on, for each target; half of them
        with the target.
    progress : callable, optional
        Called with the finished share of the fits, in [0, 1], after each.
    """
    integer("rows", rows, least=2)
    if integer("shadows", shadows, least=4) % 2:
        raise InputError(f"Expected shadows to be even, got {shadows}: half hold the target.")
    if len(population) < rows:
        raise InputError(f"The population has {len(population)} rows; give at least rows={rows}.")
    rng = np.random.default_rng(seed)
    scores, truths, parts = [], [], []
    for i, target in enumerate(targets):
        present = np.tile([True, False], shadows)
        features = []
        for done, with_target in enumerate(present, start=1):
            shadow_table = make(_draw_table(population, target, rows, with_target, rng))
            features.append(_features(shadow_table, sizes))
            if progress is not None:
                progress((i + done / len(present)) / len(targets))
        tables = np.stack(features)
        model = RandomForestClassifier(TREES, random_state=int(rng.integers(2**31)))
        model.fit(tables[:shadows], present[:shadows])
        chance = model.predict_proba(tables[shadows:])[:, 1]
        truth = present[shadows:]
        scores.append(chance)
        truths.append(truth)
        parts.append(Part(f"target {i + 1}", area(chance[truth], chance[~truth]).value, n=shadows))
    score, truth = np.concatenate(scores), np.concatenate(truths)
    return Metric(
        SHADOW,
        area(score[truth], score[~truth]),
        parts=tuple(sorted(parts, key=lambda part: -part.value)),
        title="Membership by shadow models (groundhog)",
    )


def _draw_table(
    population: np.ndarray, target: np.ndarray, rows: int, present: bool, rng: np.random.Generator
) -> np.ndarray:
    """Return a training table: ``rows`` − 1 people, and the target if present (add or remove one record)."""
    table = population[rng.choice(len(population), rows - 1, replace=False)]
    return np.concatenate([table, target[None]]) if present else table


def _features(table: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return naive, histogram and correlation features of a table of category codes, one vector."""
    numbers = table.astype(float)
    naive = [numbers.mean(axis=0), np.median(numbers, axis=0), numbers.var(axis=0)]
    shares = [np.bincount(table[:, j], minlength=s) / len(table) for j, s in enumerate(sizes)]
    centred = numbers - numbers.mean(axis=0)
    scale = centred.std(axis=0)
    scaled = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
    correlation = (scaled.T @ scaled / len(table))[np.triu_indices(len(sizes), 1)]
    return np.concatenate([*naive, *shares, correlation])


def shadow_attack(
    schema: Schema, train: np.ndarray, holdout: np.ndarray | None, config: EvaluationConfig
) -> Metric:
    """Return the metric of :func:`shadow_membership` for a callable or an estimator.

    Training tables are drawn from all other real rows: at most 1,000, and at most half of them, so that
    the attacker does not know who is in one.

    Raises
    ------
    InputError
        If the fits cannot be halved twice for each target, or there are too few other rows.
    """
    make = _maker(config.shadow)
    encoder = TableEncoder(schema)
    sizes = schema.sizes
    targets = unusual(train, sizes, TARGETS)
    people = train if holdout is None else np.concatenate([train, holdout])
    population = people[~(people[:, None] == targets[None]).all(axis=2).any(axis=1)]
    fits, rows = config.shadow_fits, min(ROWS, len(population) // 2)
    if integer("shadow_fits", fits, least=8 * TARGETS) % (4 * TARGETS):
        raise InputError(
            f"Expected shadow_fits to be a multiple of {4 * TARGETS}, got {fits}: for each of"
            f" {TARGETS} people, half to learn from and half to be tried on, half of either with the person."
        )
    if rows < 2:
        raise InputError(
            f"shadow needs 4 real rows or more that differ from those attacked, got {len(population)}."
        )
    draws = np.random.default_rng([config.random_state, 2])

    def synthetic_index(table: np.ndarray) -> np.ndarray:
        return indexed_synthetic(schema, make(encoder.from_index(table, draws))).index

    return shadow_membership(
        synthetic_index,
        population,
        targets,
        sizes,
        rows=rows,
        shadows=fits // (2 * TARGETS),
        seed=config.random_state,
        progress=config.stage("shadow models"),
    )


def unusual(table: np.ndarray, sizes: tuple[int, ...], count: int) -> np.ndarray:
    """Return different rows whose values are rarest together, as if columns were independent; shape (at most count, columns)."""
    counts = [np.bincount(table[:, j], minlength=size) for j, size in enumerate(sizes)]
    rarity = np.sum([np.log(each[table[:, j]]) for j, each in enumerate(counts)], axis=0)
    rows, first = np.unique(table, axis=0, return_index=True)
    return rows[np.argsort(rarity[first], kind="stable")[:count]]


def _maker(shadow: Any) -> Shadow:
    """Return a function that fits a synthesizer to a table and draws as many synthetic rows."""
    if callable(shadow):
        return shadow
    if not (callable(getattr(shadow, "fit", None)) and callable(getattr(shadow, "sample", None))):
        raise InputError(
            "Expected shadow to be a function from a DataFrame to a synthetic one, or a synthesizer"
            f" to be fitted, got {quote(shadow)}."
        )

    def make(table: pd.DataFrame) -> Any:
        # A copy for every fit: the user's own stays as it is.
        return copy.deepcopy(shadow).fit(table).sample(len(table))

    return make
