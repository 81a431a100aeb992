"""Fits that a time limit ends: never below the tree model, and said so; they go on from the noisy counts at no cost (R7)."""

import json
import math
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import linked_tables
import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import frame, small

from tabsynth import InputError, LinkedMargNet, MargNet, Schema, load, verify
from tabsynth.encoding.table import TableEncoder
from tabsynth.errors import ConvergenceWarning
from tabsynth.privacy import ProjectLedger
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
        ConvergenceWarning, match=r"is \d+\.\d\d times their noise.*: refine\(\)\."
    ) as said:
        model = margnet(time_limit=NO_TIME).fit(table())
    assert issubclass(ConvergenceWarning, UserWarning) and said[0].filename == __file__
    assert f"{training(model)['distance']:.2f} times" in str(said[0].message)
    with pytest.warns(ConvergenceWarning) as said:
        model.refine(time_limit=NO_TIME)
    assert said[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match=r"^Stopped early: time limit\. 0 of 8 steps"):
        small(time_limit=NO_TIME).fit(frame())
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.refine()
        margnet().fit(table())


def test_a_refined_model_is_as_good_as_one_without_a_limit(tmp_path: Path) -> None:
    """Also from a file; what it claims is what it claimed, and its table verifies."""
    whole = margnet(random_state=None).fit(table())
    model = limited(random_state=None)
    before = model.certificate()
    assert before["training"]["stopped"] == "time limit"
    assert before["training"]["distance"] > 1.2 > training(whole)["distance"]
    model.save(tmp_path / "model")
    for refined in (model, load(tmp_path / "model")):
        assert refined.refine() is refined
        after = refined.certificate()
        assert after["training"]["stopped"] is None
        assert after["training"]["distance"] == pytest.approx(training(whole)["distance"], abs=0.1)
        unlike = {name for name in before if before[name] != after[name]} - {"created"}
        assert unlike == {"training"}
        refined.save(tmp_path / "refined", overwrite=True)
        load(tmp_path / "refined").sample_to(tmp_path / "t.csv", 500, overwrite=True)
        result = verify(tmp_path / "t.csv")
        assert result.consistent and result.notes == ()
        with pytest.raises(InputError, match="is done; there is nothing to refine"):
            refined.refine()


def test_refining_charges_no_project(tmp_path: Path) -> None:
    ledger = tmp_path / "project.ledger"
    ProjectLedger.create(ledger, epsilon=10.0)
    with pytest.warns(ConvergenceWarning):
        model = margnet(time_limit=NO_TIME, random_state=None).fit(table(), ledger=ledger)
    charged, spends = ledger.read_bytes(), model.ledger_.to_list()
    model.refine()
    assert ledger.read_bytes() == charged and model.ledger_.to_list() == spends
    assert model.certificate()["mechanisms"] and model.model_.ledger.to_list() == spends
    model.sample_to(tmp_path / "t.csv", 100)
    assert verify(tmp_path / "t.csv").consistent


def test_a_short_refinement_never_makes_a_model_worse() -> None:
    """Of a model near its counts, from which the first steps lead away; the mixture then stays as it is."""
    model = limited()
    with pytest.warns(ConvergenceWarning):
        model.refine(time_limit=NO_TIME)
    distances = [training(model)["distance"]]

    def press(stage: str, done: int, total: int) -> None:
        if done == 150:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.refine(progress=press)
    distances.append(training(model)["distance"])
    assert distances[1] < 0.8 * distances[0] and training(model)["stopped"] == "time limit"
    kept = model.model_.generator.matrix()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.refine(time_limit=NO_TIME)
    assert training(model)["distance"] <= distances[1] * (1 + 1e-6)
    assert np.array_equal(model.model_.generator.matrix(), kept)


def test_a_fit_that_a_person_ended_goes_on_and_claims_its_whole_plan(tmp_path: Path) -> None:
    def press(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    model = margnet(random_state=None)
    with pytest.raises(KeyboardInterrupt):
        model.fit(table(), progress=press)
    before = model.certificate()
    assert before["training"]["stopped"] == "interrupted"
    model.refine()
    after = model.certificate()
    assert after["training"]["stopped"] == "interrupted"
    assert after["training"]["distance"] < 0.8 * before["training"]["distance"]
    assert after["epsilon"] == before["epsilon"]
    model.sample_to(tmp_path / "t.csv", 100)
    result = verify(tmp_path / "t.csv")
    assert result.consistent and "its fit was interrupted" in result.notes[0]
    with pytest.raises(InputError, match="is done"):
        model.refine()


def test_declared_tables_and_structural_zeros_are_kept() -> None:
    zeros = Schema(SCHEMA.columns, impossible=[{"a": [0], "b": [3]}])
    tables = [("a", "c")]
    with pytest.warns(ConvergenceWarning):
        model = MargNet(
            zeros, epsilon=4.0, config=CONFIG, random_state=0, tables=tables, time_limit=NO_TIME
        ).fit(table()[lambda t: ~((t.a == 0) & (t.b == 3))])
    before = model.fitted_tables()[0]["count"].to_numpy()
    model.refine()
    synthetic = model.sample(2000)
    assert not (synthetic.a.eq(0) & synthetic.b.eq(3)).any()
    counts = model.fitted_tables()[0]["count"].to_numpy()
    assert np.abs(counts - before).sum() < 0.2 * before.sum()
    by_cell = (
        synthetic.groupby(["a", "c"]).size().reindex(pd.MultiIndex.from_product([range(4)] * 2))
    )
    expected = counts * 2000 / counts.sum()
    assert np.abs(by_cell.fillna(0).to_numpy() - expected).max() < 3


def test_models_that_cannot_go_on_say_why(tmp_path: Path) -> None:
    """One line each: another method, linked tables, survey weights or a unit, and a public table."""
    weighted = table().assign(w=1.0, who=np.arange(ROWS).astype(str))
    unit = {"unit": "who", "max_rows_per_unit": 1}
    weight = {"weight": "w", "max_weight": 2.0}
    fits = {
        "dp-wgan keeps no noisy counts": lambda: small(time_limit=NO_TIME).fit(frame()),
        "linked-margnet keeps no noisy counts": lambda: LinkedMargNet(
            linked_tables.schema(), epsilon=4.0, config=linked_tables.TINY, time_limit=NO_TIME
        ).fit(linked_tables.tables()),
        "survey weights or a unit": lambda: MargNet(
            Schema(SCHEMA.columns, **weight), epsilon=4.0, config=CONFIG, time_limit=NO_TIME
        ).fit(weighted.drop(columns="who")),
        "or a unit, its file": lambda: MargNet(
            Schema(SCHEMA.columns, **unit), epsilon=4.0, config=CONFIG, time_limit=NO_TIME
        ).fit(weighted.drop(columns="w")),
        "of a public table": lambda: margnet(
            public=table(seed=5), public_source="made up", time_limit=NO_TIME
        ).fit(table()),
    }
    for says, fit in fits.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model: Any = fit()
        before = json.dumps(model.certificate()["training"])
        with pytest.raises(InputError, match=says) as refusal:
            model.refine()
        assert "\n" not in str(refusal.value) and str(refusal.value).startswith("The fit cannot go")
        assert json.dumps(model.certificate()["training"]) == before
    with pytest.raises(InputError, match="Expected time_limit > 0"):
        limited().refine(time_limit=0)
    with pytest.raises(Exception, match="is not fitted yet"):
        margnet().refine()


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
