"""The tester is tested: known mistakes of every kind are caught, and named."""

import json
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from record_replay import neighbours, replay, replay_on_neighbours
from replayed_tables import EPSILON, SCHEMA, frame
from systems import make_tiny_model

from tabsynth import DPWGAN, PATEACGAN, MargNet, Schema
from tabsynth.auditing.replay import ReplayResult
from tabsynth.errors import InputError
from tabsynth.privacy.noise import counts
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial import method as counting
from tabsynth.synthesizers.adversarial.critic import CRITIC, Adversarial
from tabsynth.synthesizers.adversarial.generator import TrainingContext
from tabsynth.synthesizers.adversarial.method import NetworksMethod
from tabsynth.training import clipping, private_step
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.private_step import PrivateStep

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
WGAN = "dp-wgan, no autoencoder"
Patch = pytest.MonkeyPatch


def pair(kind: str = "outlier", change: str = "added") -> tuple[pd.DataFrame, pd.DataFrame]:
    listed = neighbours(frame(40), SCHEMA)
    result = next(n for n in listed if (n.kind, n.change) == (kind, change))
    return result.table, result.neighbour


def replayed(name: str = WGAN, kind: str = "outlier", **changes: Any) -> ReplayResult:
    model = make_tiny_model(name, SCHEMA, epsilon=EPSILON).set_params(**changes)
    return replay(model, *pair(kind), seed=1)


def of(kind: type, name: str = WGAN) -> Any:
    """A tiny model of another class."""
    return kind(**make_tiny_model(name, SCHEMA, epsilon=EPSILON).get_params(deep=False))


# Mistakes of the library, as patches; each with what the message must say.


def bypassed(patch: Patch) -> None:
    def raw(table: Any, account: Any, sizes: Any, *_: Any) -> list[np.ndarray]:
        rows = table.read(account)
        return [np.bincount(rows[:, j], minlength=s).astype(float) for j, s in enumerate(sizes)]

    patch.setattr(counting, "noisy_marginals", raw)


def uncharged(patch: Patch) -> None:
    """The same account pays for two releases by one read."""
    real = counting.noisy_marginals

    def twice(table: Any, account: Any, *rest: Any) -> Any:
        result = real(table, account, *rest)
        counts.passed(account, result, [1.0] * len(result))
        return result

    patch.setattr(counting, "noisy_marginals", twice)


def unclipped(patch: Patch) -> None:
    real = PerExampleClipper.clipped_sum
    patch.setattr(
        PerExampleClipper,
        "clipped_sum",
        lambda self, losses, rows, bounds, *rest: real(self, losses, rows, 1e6 * bounds, *rest),
    )


def too_little_noise(patch: Patch) -> None:
    real = clipping.Bounds.noise_scales
    patch.setattr(clipping.Bounds, "noise_scales", lambda self: real(self) / 2)


def noise_by_rows(patch: Patch) -> None:
    """The noise follows the largest count."""
    real = counts.marginal_noise
    seen: list[int] = []

    def read(table: Any, account: Any, sizes: Any, rng: Any, *_: Any) -> Any:
        rows = table.read(account)
        seen.append(len(rows))
        std = real(account, len(sizes)) * seen[-1] / 40
        exact = [np.bincount(rows[:, j], minlength=s).astype(float) for j, s in enumerate(sizes)]
        exact = counts.passed(account, exact, [std] * len(exact))
        return [counts.noise.noisy(c, std, rng, whole=True) for c in exact]

    patch.setattr(counting, "noisy_marginals", read)


def realised_divisor(patch: Patch) -> None:
    real = PrivateStep._layout

    def layout(self: PrivateStep, rows: int) -> torch.Tensor:
        result = real(self, rows)
        self.expected_batch = max(1, int((result >= 0).sum()))
        return result

    patch.setattr(PrivateStep, "_layout", layout)


def steps_by_rows(patch: Patch) -> None:
    """An epoch more where there are more rows."""
    real = Adversarial.fit

    def fit(self: Any, context: TrainingContext) -> int:
        rows = context.table._PrivateTable__rows  # type: ignore[attr-defined]
        context.accounts[CRITIC].granted -= len(rows) - 40
        return real(self, context)

    patch.setattr(Adversarial, "fit", fit)


def generator_sees_rows(patch: Patch) -> None:
    real = PrivateStep.gradient

    def gradient(self: PrivateStep, *args: Any, **given: Any) -> None:
        real(self, *args, **given)
        self.clipper.parameters[0].grad[0] += self.table._PrivateTable__rows[:][:, 0].mean()

    patch.setattr(PrivateStep, "gradient", gradient)


def noise_drawn_by_rows(patch: Patch) -> None:
    """A number is drawn for each row of the batch from the stream that the noise comes from."""
    real = private_step.PrivateStep.clipped_sums

    def sums(self: PrivateStep, losses: Any, batch: Any, keep: Any, *rest: Any) -> Any:
        self.noise.bits.bytes(8 * int(keep.sum()))
        return real(self, losses, batch, keep, *rest)

    patch.setattr(PrivateStep, "clipped_sums", sums)


MISTAKES: dict[str, tuple[Callable[[Patch], None], str]] = {
    "bypassed": (
        bypassed,
        "one-way counts: rows were read, and no mechanism was called before state-0.safetensors",
    ),
    "uncharged": (uncharged, "mechanism 2 (one-way counts): released without a charged read"),
    "unclipped": (unclipped, "mechanism 2 (critic): its input moved by"),
    "too little noise": (too_little_noise, "mechanism 2 (critic): its input moved by 1.9"),
    "noise by rows": (noise_by_rows, "mechanism 1 (one-way counts): noise[0] is "),
    "realised divisor": (realised_divisor, "critic, step 1: critic."),
    "steps by rows": (steps_by_rows, "progress: [2] is 7, not 8"),
    "generator sees rows": (generator_sees_rows, "critic, step 1: critic.0.weight is"),
    "noise drawn by rows": (noise_drawn_by_rows, "critic, step 1: critic.0.weight is"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_the_library_is_named(mistake: str, monkeypatch: Patch) -> None:
    wrong, message = MISTAKES[mistake]
    wrong(monkeypatch)
    result = replayed()
    assert not result.passes and result.first_difference is not None
    assert result.first_difference.startswith(message), result.first_difference
    assert "\n" not in result.first_difference and len(result.first_difference) < 250


def test_groups_that_are_charged_once_are_named(monkeypatch: Patch) -> None:
    """R10: noise without √G on three groups, each of which a record moves by its bound."""
    monkeypatch.setattr(
        clipping.Bounds, "noise_scales", lambda self: self.noise_multiplier * self.now
    )
    result = replayed("dp-gan")
    said = result.first_difference or ""
    assert said.startswith("mechanism 2 (critic): its input moved by 1.")
    # Three bounds, less what is set aside for rounding: √3 · 0.9 or more.
    assert 1.55 < float(said.split(" sensitivities")[0].split()[-1]) <= 3**0.5


def test_the_right_ones_pass() -> None:
    for name in (WGAN, "margnet", "pate-acgan"):
        assert replayed(name).passes


# Mistakes of an estimator, as subclasses.


def of_the_table(kind: type, before: Any = None, after: Any = None) -> Any:
    """An estimator that does something with the table before its fit, or after it."""

    class Wrong(kind):  # type: ignore[misc]
        def fit(self, table: Any, *args: Any, **given: Any) -> Any:
            if before is not None:
                before(self, table)
            super().fit(table, *args, **given)
            if after is not None:
                after(self, table)
            return self

    return Wrong


def take_bounds(model: Any, table: Any) -> None:
    columns = list(model.schema.columns)
    low, high = (float(f(table["r"])) for f in (min, max))
    columns[2] = Column(name="r", kind="numeric", dtype="float64", low=low, high=high, bins=8)
    model.schema = Schema(columns)


def take_shares(model: Any, table: Any) -> None:
    model.class_shares = table[model.class_column].value_counts(normalize=True).to_dict()


def log_rows(_: Any, table: Any) -> None:
    logging.getLogger("tabsynth.somewhere").debug("%d rows", len(table))


def keep_rows(model: Any, table: Any) -> None:
    model.rows_seen_ = len(table)


class Certified(MargNet):
    """Certifies the number of rows."""

    def fit(self, table: Any, *args: Any, **given: Any) -> Any:
        self._told = lambda: len(table)  # a fit with a checkpoint makes the certificate itself
        return super().fit(table, *args, **given)

    def certificate(self) -> dict[str, Any]:
        return {**super().certificate(), "rows": self._told()}


class Sampling(MargNet):
    """Samples a row of the table."""

    def fit(self, table: Any, *args: Any, **given: Any) -> Any:
        super().fit(table, *args, **given)
        self._one = lambda: float(table["r"].max())
        return self

    def sample(self, n: int, **given: Any) -> pd.DataFrame:
        return super().sample(n, **given).assign(r=self._one())


class RefusingMethod(NetworksMethod):
    """Refuses an odd table."""

    def train(self, rows: np.ndarray, *args: Any) -> Any:
        if len(rows) == 41:
            raise InputError("41 rows are too many.")
        return super().train(rows, *args)


class Refusing(DPWGAN):
    """Refuses an odd table."""

    def make_method(self, schema: Any) -> NetworksMethod:
        return RefusingMethod(**vars(super().make_method(schema)))


OF_ESTIMATORS: dict[str, tuple[type, str, str]] = {
    "bounds": (of_the_table(MargNet, take_bounds), "margnet", "checkpoint.json: fit.schema is"),
    "shares": (
        of_the_table(PATEACGAN, take_shares),
        "pate-acgan",
        "checkpoint.json: fit.config.class_shares[0] is",
    ),
    "log": (
        of_the_table(MargNet, log_rows),
        "margnet",
        "log record of tabsynth.somewhere: [1] is '41 rows', not '40 rows'",
    ),
    "attribute": (
        of_the_table(MargNet, after=keep_rows),
        "margnet",
        "model: rows_seen_ is 41, not 40",
    ),
    "certificate": (Certified, "margnet", "certificate: rows is 41, not 40"),
    "sample": (Sampling, "margnet", "sample: r is"),
    "refusal": (Refusing, WGAN, "InputError: 41 rows are too many."),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", OF_ESTIMATORS)
def test_a_mistake_of_an_estimator_is_named(mistake: str) -> None:
    kind, name, message = OF_ESTIMATORS[mistake]
    result = replay(of(kind, name), *pair(), seed=1)
    assert result.first_difference is not None
    assert result.first_difference.startswith(message), result.first_difference


def test_what_cannot_be_replayed_is_refused() -> None:
    model = make_tiny_model("margnet", SCHEMA, epsilon=EPSILON)
    for changes in ({"epsilon": float("inf")}, {"time_limit": 5.0}):
        with pytest.raises(InputError, match="replay needs"):
            replay(of(MargNet, "margnet").set_params(**changes), *pair())
    with pytest.raises(InputError, match="replay needs"):
        replay(of(DPWGAN, "dp-wgan").set_params(time_budget=5.0), *pair())
    assert not hasattr(model, "model_")


@pytest.mark.slow
def test_the_lines_of_an_audit() -> None:
    """Each kind of neighbour, added and removed, once a seed; JSON-ready, with what differs."""
    reports: list[tuple[str, int, int]] = []
    model = make_tiny_model("margnet", SCHEMA, epsilon=EPSILON)
    pairs = neighbours(frame(30), SCHEMA, seed=5)[::6]
    lines = replay_on_neighbours("margnet", model, pairs, 5, progress=lambda *t: reports.append(t))
    assert reports == [("replay", done, 3) for done in (1, 2, 3)]
    assert [line.kind for line in lines] == [n.kind for n in pairs]
    assert all(line.result.passes and line.result.worst_move > 0.9 for line in lines)
    facts = lines[0].to_dict()
    assert facts["method"] == "margnet" and facts["seed"] == 5 and facts["mechanisms"] == 3
    assert facts["passed"] is True and json.loads(json.dumps(facts)) == facts
