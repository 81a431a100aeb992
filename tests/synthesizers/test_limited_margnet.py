"""Fits that a time limit ends: never below the tree model, and said so (R19)."""

import math
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import frame, small

from tabsynth import MargNet, Schema
from tabsynth.encoding.table import TableEncoder
from tabsynth.errors import ConvergenceWarning
from tabsynth.privacy.noise.counts import Measured, by_value, count_rows
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet import estimation
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimation import MargNetFit
from tabsynth.synthesizers.margnet.selection import Measurements, Resolution
from tabsynth.training.loop import TrainingMonitor

torch.set_num_threads(1)

NAMES, SIZE, ROWS = "abcdef", 4, 4000
SCHEMA = Schema(
    Column(name=name, kind="ordinal", dtype="int64", categories=tuple(range(SIZE)))
    for name in NAMES
)
CONFIG = MargNetConfig(components=60, latent_dim=8, hidden=(32,), steps=400)
NO_TIME = 1e-9


def classes(rows: int = ROWS, seed: int = 0) -> np.ndarray:
    """Codes of columns that all follow a hidden class: all pairs depend on each other, and no tree has them all."""
    random = np.random.default_rng(seed)
    hidden = random.choice(3, rows, p=[0.5, 0.3, 0.2])
    follows = random.random((rows, len(NAMES))) < 0.7
    return np.where(follows, hidden[:, None], random.integers(0, SIZE, follows.shape))


def table(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    return pd.DataFrame(classes(rows, seed), columns=list(NAMES))


def margnet(**changes: Any) -> MargNet:
    return MargNet(SCHEMA, **{"epsilon": 4.0, "config": CONFIG, "random_state": 0, **changes})


def limited(**changes: Any) -> MargNet:
    with pytest.warns(ConvergenceWarning):
        return margnet(time_limit=NO_TIME, **changes).fit(table())


def training(model: MargNet) -> dict[str, Any]:
    return dict(model.certificate()["training"])


def sets(columns: int = len(NAMES)) -> list[tuple[int, ...]]:
    return [c for k in (1, 2) for c in combinations(range(columns), k)]


def error_of(joint: np.ndarray, counts: list[Measured], rows: float) -> float:
    """The mean squared error of the counts of a joint distribution, in variances of their noise."""
    errors = []
    for m in counts:
        others = tuple({*range(joint.ndim)} - {*m.columns})
        errors.append(((rows * joint.sum(axis=others) - m.counts) / m.std).ravel())
    return float(np.square(np.concatenate(errors)).mean())


@pytest.mark.parametrize("seed", range(2))
def test_no_time_limit_ends_a_fit_below_the_tree_model(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the joint distribution of the tree, which has all its cells here; independent columns are farther, and so is the start near it."""
    monkeypatch.setattr(MargNetFit, "_nearer", lambda *_: False)  # than the factor model
    random, std = np.random.default_rng(seed), 12.0
    codes, everyone = classes(seed=seed), by_value((SIZE,) * len(NAMES))
    counts = []
    for columns in sets():
        exact = count_rows(codes, columns, everyone)
        counts.append(Measured(columns, exact + random.normal(0, std, exact.shape), std))
    measured = Measurements(counts, float(ROWS), Resolution.by_value((SIZE,) * len(NAMES)))
    layout = TableEncoder(SCHEMA).layout
    fit = MargNetFit(layout, CONFIG, measured, torch.Generator().manual_seed(seed))
    assert fit.tree is not None
    shares = fit.tree.shares
    independent = np.ones((1,) * len(NAMES))
    for j, share in enumerate(shares):
        independent = independent * share.reshape([-1 if i == j else 1 for i in range(len(NAMES))])
    joint = independent.copy()
    for (a, b), pair in fit.tree.joints.items():
        lift = pair / np.outer(shares[a], shares[b])
        joint = joint * lift.reshape([SIZE if i in (a, b) else 1 for i in range(len(NAMES))])
    tree = error_of(joint, counts, ROWS)
    assert tree < 0.6 * error_of(independent, counts, ROWS)
    assert fit.error() > tree
    monitor = TrainingMonitor(deadline=0.0)
    fit.fit(monitor)
    assert monitor.stopped == "time limit"
    assert 0 < len(fit.errors) < estimation.MOST_WAITED
    assert (
        fit.error() <= tree * 1.05
    )  # as a mixture of many components the tree has about this error


def test_a_limited_fit_gives_its_best_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the last step made the error larger, the state before it."""
    model = limited()
    monkeypatch.setattr(estimation, "MOST_WAITED", 30)
    monkeypatch.setattr(MargNetFit, "_tree_error", -math.inf)
    descend = MargNetFit._descend

    def worse(fit: MargNetFit, *args: Any) -> None:
        descend(fit, *args)
        if len(fit.errors) == 30:
            with torch.no_grad():
                fit.network.body[-1].bias.add_(torch.linspace(-3, 3, fit.layout.width))

    monkeypatch.setattr(MargNetFit, "_descend", worse)
    monkeypatch.setattr(MargNetFit, "_at_noise", lambda *_: False)
    assert training(limited())["distance"] < training(model)["distance"]


def test_the_distance_is_that_of_the_counts() -> None:
    """As the certificate states it: of the counts that the mixture expects from the noisy counts that the model holds."""
    model = limited().model_
    p, measured = model.generator.matrix(), model.measured
    blocks = np.split(p, np.cumsum(model.encoder.layout.sizes)[:-1], axis=1)
    errors = []
    for m in measured.counts:
        letters = "xyz"[: len(m.columns)]
        groups = measured.resolution.of(m.columns)
        parts = [blocks[j] @ np.eye(groups[j].max() + 1)[groups[j]] for j in m.columns]
        expected = np.einsum(",".join(f"k{x}" for x in letters) + "->" + letters, *parts) * (
            measured.rows / len(p)
        )
        errors.append(((expected - m.counts) / m.std).ravel())
    distance = math.sqrt(np.square(np.concatenate(errors)).mean())
    assert model.certificate()["training"]["distance"] == pytest.approx(distance, rel=1e-3)
    assert distance > 1.2


def test_python_says_that_a_time_limit_ended_a_fit() -> None:
    """With the distance and the way on, at the line of the caller; of a GAN that it was not done; nothing of a fit that was."""
    with pytest.warns(
        ConvergenceWarning, match=r"is \d+\.\d\d times their noise.*a checkpoint lets it go on"
    ) as said:
        model = margnet(time_limit=NO_TIME).fit(table())
    assert issubclass(ConvergenceWarning, UserWarning) and said[0].filename == __file__
    assert f"{training(model)['distance']:.2f} times" in str(said[0].message)
    with pytest.warns(ConvergenceWarning, match=r"^Stopped early: time limit\. 0 of 8 steps"):
        small(time_limit=NO_TIME).fit(frame())
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        margnet().fit(table())


def test_a_fit_that_left_the_network_goes_on_with_its_components() -> None:
    """With the very mixture, and a time limit waits for nothing; before that, with a network that is near it."""
    model = limited().model_
    p = model.generator.matrix()
    for taken, exact in ((MargNetFit.network_steps, True), (MargNetFit.network_steps - 1, False)):
        fit = MargNetFit(
            model.encoder.layout, CONFIG, model.measured, torch.Generator().manual_seed(0),
            start=p, taken=taken,
        )  # fmt: skip
        assert (fit.error() == pytest.approx(model.distance**2, rel=1e-3)) == exact
        monitor = TrainingMonitor(deadline=0.0)
        fit.fit(monitor)
        assert monitor.stopped == "time limit" and (len(fit.errors) == 1 or not exact)
