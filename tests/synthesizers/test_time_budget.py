"""The number of private steps that follows from a time budget, the noise that is planned for it, and what a fit says of both."""

import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from fitted_tables import (
    SCHEMA,
    coder,
    dpgan,
    frame,
    small,
    small_acgan,
    small_dpgan,
    small_pate,
    stop_at,
    wgan,
)
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tabsynth import DPGAN, DPWGAN, InputError, load
from tabsynth.errors import ConvergenceWarning
from tabsynth.privacy.certificate.verification import verify
from tabsynth.synthesizers import plan as plans
from tabsynth.synthesizers.adversarial.method import NetworksMethod
from tabsynth.synthesizers.method import NOMINAL_ROWS, Method, PlannedSpend
from tabsynth.synthesizers.plan import Speed

torch.set_num_threads(1)

STEPS, CODER_STEPS = 300, 60


def timed(**changes: Any) -> DPWGAN:
    """A DP-WGAN of full batches, whose noise is Gaussian, with a time budget of 22 s."""
    parameters = {
        "config": wgan(step__count=STEPS),
        "autoencoder_config": coder(step__count=CODER_STEPS),
    }
    return small(**{"time_budget": 22.0, **parameters, **changes})


@contextmanager
def speed(steps: float, other: float = 2.0) -> Iterator[list[int]]:
    """Let a fit seem to take so many seconds for its steps and for all else; yields the numbers of rows that it was measured for."""
    rows_measured: list[int] = []

    def measure(method: Method, spends: list[PlannedSpend], rows: int) -> Speed:
        rows_measured.append(rows)
        return Speed(steps, other)

    with mock.patch.object(plans, "measure_speed", measure):
        yield rows_measured


def spent(model: DPWGAN | DPGAN) -> dict[str, int]:
    """Return the uses of each mechanism that the certificate lists."""
    return {item["purpose"]: item["count"] for item in model.certificate()["mechanisms"]}


def gaussian_epsilon(model: DPWGAN | DPGAN) -> float:
    """Return the ε of Gaussian releases by their noise, from the closed form of their privacy curve (Balle and Wang 2018)."""
    items = model.certificate()["mechanisms"]
    mu = math.sqrt(sum(item["count"] / item["noise_multiplier"] ** 2 for item in items))

    def excess(epsilon: float) -> float:
        delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(
            -mu / 2 - epsilon / mu
        )
        return float(delta) - model.delta

    return float(brentq(excess, 0, 100))


def test_half_of_the_time_takes_half_of_the_steps_and_the_whole_epsilon() -> None:
    with speed(40.0) as rows_measured:
        model = timed()
        planned = model.plan(estimate_time=False)
        model.fit(frame())
    assert rows_measured == [NOMINAL_ROWS]
    assert spent(model) == {"one-way counts": 1, "autoencoder": 30, "critic": 150}
    assert {spend.purpose: spend.count for spend in planned.spends} == spent(model)
    assert gaussian_epsilon(model) == pytest.approx(3.0, rel=0.01)
    assert model.certificate()["epsilon"] == pytest.approx(gaussian_epsilon(model), rel=1e-3)
    assert model.certificate()["settings"]["time_budget"] == 22.0
    assert model.certificate()["training"]["stopped"] is None
    assert "takes 150 of 300 steps of the critic for a time budget of 22 s" in str(planned)
    assert "trial on 20,000 made-up rows; declare rows= for another number" in str(planned)


@pytest.mark.parametrize("variant", ["advanced", "basic"])
def test_a_dp_gan_plans_its_steps_too(variant: str) -> None:
    config = dpgan(variant, step__count=1200)
    model = small_dpgan(variant=variant, time_budget=32.0, rows=60).set_params(config=config)
    with speed(40.0) as rows_measured:
        planned = str(model.plan(estimate_time=False))
        assert "a trial on 60 made-up rows" in planned and "declare rows=" not in planned
        model.fit(frame())
    assert spent(model)["critic"] == 900 and rows_measured == [60]
    assert gaussian_epsilon(model) == pytest.approx(3.0, rel=0.01)


def test_more_time_than_all_steps_take_adds_none() -> None:
    with speed(10.0):
        model = timed().fit(frame())
    assert spent(model)["critic"] == STEPS


def test_a_short_time_takes_the_least_steps_and_the_whole_epsilon() -> None:
    """Fewer may be worse than independent columns; where the settings have fewer, it takes these."""
    with speed(4000.0):
        model = timed()
        assert "takes 100 of 300 steps of the critic" in (plan := str(model.plan()))
        assert "22 s (the least; they take longer)" in plan
        assert spent(model.fit(frame())) == {"one-way counts": 1, "autoencoder": 20, "critic": 100}
        assert gaussian_epsilon(model) == pytest.approx(3.0, rel=0.01)
        gan = small_dpgan(time_budget=1e-3)
        assert "8 of 8" in str(gan.plan())
        gan.set_params(config=dpgan(step__count=900))
        assert "takes 600 of 900 steps" in str(gan.plan())


def test_the_steps_of_a_public_table_follow_the_others() -> None:
    public = frame(15, seed=3)
    config = wgan(step__count=STEPS, warm_start_steps=100)
    model = timed(autoencoder="public", public=public, public_source="made up", config=config)
    with speed(40.0):
        model.fit(frame())
    curves = model.certificate()["training"]["curves"]
    (warm,) = (curve for name, curve in curves.items() if "warm start" in name)
    assert spent(model)["critic"] == 150 and 40 < max(warm["step"]) <= 50


def test_steps_are_chosen_before_a_private_row_is_read() -> None:
    """They are the same for every table, and for every time that it takes to read it."""
    calls: list[str] = []
    encode, steps_in_time = NetworksMethod.encode_rows, plans.steps_in_time

    def reads(method: NetworksMethod, table: Any, key: bytes) -> Any:
        calls.append("read")
        return encode(method, table, key)

    counts = []
    for rows in (60, 90):
        with (
            speed(40.0) as rows_measured,
            mock.patch.object(NetworksMethod, "encode_rows", reads),
            mock.patch(
                "tabsynth.synthesizers.session.steps_in_time",
                lambda *of_fit: calls.append("choose") or steps_in_time(*of_fit),
            ),
        ):
            counts.append(spent(timed().fit(frame(rows))))
        assert rows_measured == [NOMINAL_ROWS]
    assert calls == ["choose", "read"] * 2 and counts[0] == counts[1]


def test_the_speed_is_measured_on_made_up_rows() -> None:
    method = timed().make_method(timed().schema)  # type: ignore[arg-type]
    tables = []
    train = NetworksMethod.train

    def trains(method: NetworksMethod, rows: Any, *others: Any) -> Any:
        tables.append(rows)
        return train(method, rows, *others)

    with mock.patch.object(NetworksMethod, "train", trains):
        measured = plans.measure_speed(
            method, timed(time_budget=None).plan(estimate_time=False).spends, 500
        )
    (table,) = tables
    assert len(table) == 500 and measured.steps > 0
    again = plans.made_up_rows(method.schema.learned.sizes, 500, plans.np.random.default_rng(0))
    assert (table == again).all()


def test_a_plan_is_that_of_the_fit_that_follows() -> None:
    """The speed of the machine changes; the plan that was printed does not. Other parameters are measured again."""
    model = timed()
    with speed(40.0):
        model.check()
        planned = model.plan(estimate_time=False)
    with speed(80.0) as again:
        model.fit(frame())
        assert spent(model)["critic"] == planned.spends[-1].count == 150 and not again
        model = timed(time_budget=42.0)
        assert model.plan(estimate_time=False).spends[-1].count == 150 and again


def test_a_resumed_fit_keeps_its_steps(tmp_path: Path) -> None:
    """On a machine of another speed, from the same command; another time budget is another fit."""
    place = tmp_path / "c"
    with speed(40.0), pytest.raises(RuntimeError, match="stopped"):
        timed().fit(frame(), checkpoint=place, progress=stop_at("critic", 100))
    with speed(400.0) as rows_measured:
        with pytest.raises(InputError, match="time_budget"):
            timed(time_budget=30.0).fit(frame(), checkpoint=place)
        model = timed().fit(frame(), checkpoint=place)
    assert spent(model) == {"one-way counts": 1, "autoencoder": 30, "critic": 150}
    assert gaussian_epsilon(model) == pytest.approx(3.0, rel=0.01)
    assert model.model_.config["config"]["step"]["count"] == 150
    assert not rows_measured


def test_a_model_file_states_the_steps(tmp_path: Path) -> None:
    """From them a seeded fit is repeated on another machine."""
    with speed(40.0):
        model = timed(random_state=3).fit(frame())
    model.save(tmp_path / "m")
    load(tmp_path / "m").sample_to(tmp_path / "s.csv", 50)
    assert not verify(tmp_path / "s.csv").problems
    steps = {"step__count": 150}
    again = timed(time_budget=None, random_state=3).set_params(
        config=wgan(**steps), autoencoder_config=coder(step__count=30)
    )
    assert again.fit(frame()).sample(50).equals(model.sample(50))


def test_a_drafted_schema_takes_a_time_budget() -> None:
    model = timed(schema=None, epsilon=6.0)
    with speed(40.0):
        model.fit(frame(900))
    assert spent(model)["critic"] == 150


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "60s"])
def test_a_time_budget_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="time_budget"):
        timed(time_budget=value).plan()


def test_a_fit_that_a_limit_ends_says_how_many_steps_it_took() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        small_dpgan().fit(frame())  # all steps: no word
    for model in (small(time_limit=1e-9), small_dpgan(time_limit=1e-9)):
        with pytest.warns(ConvergenceWarning) as caught:
            model.fit(frame())
        (warning,) = caught
        said = str(warning.message)
        assert said.startswith("Stopped early: time limit. 0 of 8 steps of the critic were taken")
        assert "noise was planned for all of them" in said and "time_budget=" in said


def test_steps_of_an_earlier_fit_are_not_those_that_a_limit_left() -> None:
    model = small(epsilon=3.0).fit(frame())
    with pytest.warns(ConvergenceWarning, match="0 of 8 steps of the critic were taken"):
        model.set_params(epsilon=6.0, time_limit=1e-9).fit(frame())


def test_a_plan_does_not_make_an_estimator_look_fitted() -> None:
    model = timed()
    with speed(4000.0):
        model.plan()
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    check_is_fitted(small().fit(frame()))


def test_a_limit_below_the_budget_is_said_and_no_budget_is_advised_again() -> None:
    model = timed(time_budget=60.0, time_limit=8.0)
    with speed(4000.0):
        assert "the time limit of 8 s ends the fit before its time budget of 60 s" in str(
            model.plan()
        )
        with pytest.warns(ConvergenceWarning) as caught:
            model.set_params(time_limit=1e-9).fit(frame())
    (said,) = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert "steps of the critic were taken" in said and "time_budget=" not in said


def test_presets_that_are_worse_than_independent_columns_say_so() -> None:
    schema = small().schema
    for worse, better in (
        (DPWGAN(schema, epsilon=1.0, preset="source"), DPWGAN(schema, epsilon=1.0)),
        (DPGAN(schema, epsilon=1.0, variant="basic"), DPGAN(schema, epsilon=1.0)),
    ):
        words = "worse than independent columns"
        assert words in str(worse.plan(estimate_time=False))
        assert words not in str(better.plan(estimate_time=False))


def test_votes_that_a_limit_left_are_counted_too() -> None:
    """No time budget is advised: the number of votes does not follow from one."""
    for model in (small_pate(time_limit=1e-9), small_acgan(time_limit=1e-9)):
        planned = {spend.purpose: spend.count for spend in model.plan().spends}["votes"]
        with pytest.warns(ConvergenceWarning) as caught:
            model.fit(frame())
        (said,) = [str(w.message) for w in caught if w.category is ConvergenceWarning]
        assert f" of {planned:,} votes were taken, and the noise was planned for all" in said
        assert "time_budget" not in said


def test_a_plan_on_a_checkpoint_of_another_fit_is_refused(tmp_path) -> None:
    """Its steps were planned for another budget."""
    small(time_limit=1e-9).fit(frame(), checkpoint=tmp_path / "c")
    assert small(time_limit=1e-9).plan(checkpoint=tmp_path / "c").spends
    with pytest.raises(InputError, match=r"epsilon is 3\.0 there and 4\.0 here"):
        small(epsilon=4.0, time_limit=1e-9).plan(checkpoint=tmp_path / "c")


def test_batches_that_no_memory_holds_are_refused_before_a_trial() -> None:
    config = wgan(step__sampling_rate=1.0)
    for model in (small(config=config, rows=10**9), timed(rows=10**9)):
        message = r"Batches of [\d,]+ codes .*sampling_rate to at most (\S+),"
        with pytest.raises(InputError, match=message) as error:
            model.plan()
    most = 0.9 * float(re.search(message, str(error.value))[1])
    config = wgan(step__sampling_rate=most)
    small(config=config, rows=10**9, autoencoder=None).make_method(SCHEMA).check()
