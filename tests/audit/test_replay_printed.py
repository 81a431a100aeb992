"""The numbers that a certificate prints are those of the run: by replay, and by the noise itself."""

import math
import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from record_replay import neighbours, replay
from replayed_tables import EPSILON, SCHEMA, frame
from systems import make_tiny_model
from torch import Tensor

from tabsynth.auditing import replay as replays
from tabsynth.auditing.replay import find_misprint
from tabsynth.auditing.run_trace import MechanismCall
from tabsynth.privacy.certificate import certificate as certificates
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.training.clipping import Clipping
from tabsynth.training.private_step import PrivateStep
from tabsynth.training.sums import TensorNoise

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
# Of a critic of two layers: systems, how many groups their parameters make, and how the bound is set.
GROUPED: dict[str, tuple[str, int, str]] = {
    "dp-gan": ("weight-bias", 3, "public"),
    "dp-gan, ganobfuscator": ("flat", 1, "public"),
    "dp-gan, basic": ("flat", 1, "fixed"),
}


def critic_of(certificate: Mapping[str, Any]) -> dict[str, Any]:
    (item,) = (item for item in certificate["mechanisms"] if item["purpose"] == "critic")
    return dict(item)


def unfitted(name: str, epsilon: float = EPSILON, **changes: Any) -> Synthesizer:
    return make_tiny_model(name, SCHEMA, epsilon=epsilon).set_params(random_state=3, **changes)


@pytest.mark.parametrize("name", GROUPED)
def test_the_noise_of_a_step_is_the_one_that_is_printed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No audit looks on here: standard deviations are those that reach the generator of noise."""
    grouping, groups, bound = GROUPED[name]
    used: list[tuple[Tensor, Tensor]] = []
    real, step = TensorNoise.add, PrivateStep.gradient
    engines: list[PrivateStep] = []

    def gradient(self: PrivateStep, *args: Any, **given: Any) -> None:
        engines.append(self)
        step(self, *args, **given)

    def add(self: TensorNoise, sums: Any, stds: Tensor, numbers: Any) -> list[Tensor]:
        if self is engines[-1].noise:
            used.append((stds.clone(), engines[-1].bounds.now.clone()))
        return real(self, sums, stds, numbers)

    monkeypatch.setattr(PrivateStep, "gradient", gradient)
    monkeypatch.setattr(TensorNoise, "add", add)
    model = unfitted(name, autoencoder=None)
    model.fit(frame(60))
    item = critic_of(model.certificate())
    details = item["details"]
    assert (details["grouping"], details["groups"], details["bound"]) == (grouping, groups, bound)
    most = details["max_norm"]
    assert item["sensitivity"]["value"] == pytest.approx(math.sqrt(groups) * most)
    printed = item["noise_added"]["standard_deviation"]
    assert printed == pytest.approx(item["noise_multiplier"] * item["sensitivity"]["value"])
    assert len(used) == item["count"] == 8
    for stds, bounds in used:
        assert len(stds) == groups
        in_units = stds / (bounds / most)  # a bound is so many of its group's units
        torch.testing.assert_close(in_units, torch.full_like(stds, printed), rtol=1e-5, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPED)
def test_a_replay_sees_what_is_printed(name: str) -> None:
    """Every step of the critic, in the certificate's unit; and a record moves some step almost as far as that."""
    _, groups, _ = GROUPED[name]
    model = unfitted(name)
    item = critic_of(unfitted(name).fit(frame(60)).certificate())
    pair = neighbours(frame(60), SCHEMA, seed=1)[0]
    result = replay(model, pair.table, pair.neighbour, seed=3)
    assert result.passes, result.first_difference
    calls = [call for call in result.mechanisms if call.purpose == "critic"]
    assert len(calls) == item["count"]
    sensitivity = item["sensitivity"]["value"]
    for call in calls:
        assert call.deviation == pytest.approx(item["noise_added"]["standard_deviation"], rel=1e-5)
        assert call.distance == pytest.approx(call.move * sensitivity, rel=1e-5)
    # Farther than the bound of one group, so that this alone would not do.
    assert max(call.distance for call in calls) > 0.9 * sensitivity
    assert groups == 1 or sensitivity > 1.7 * item["details"]["max_norm"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["margnet, scored pairs", "dp-wgan", "pate-gan, paper", "pate-acgan, networks"]
)
def test_other_mechanisms_print_what_they_use(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts by shares, distances, Laplace votes, votes on classes: all are compared, each in its unit."""
    seen: list[MechanismCall] = []
    real = replays._compare_with_item

    def compared(item: Any, call: MechanismCall, most: float) -> str | None:
        seen.append(call)
        return real(item, call, most)

    monkeypatch.setattr(replays, "_compare_with_item", compared)
    pair = neighbours(frame(60), SCHEMA, seed=2)[0]
    result = replay(unfitted(name), pair.table, pair.neighbour, seed=3)
    assert result.passes, result.first_difference
    assert [call.purpose for call in seen] == [call.purpose for call in result.mechanisms]
    assert len({call.purpose for call in seen}) > 1 or name == "pate-gan, paper"
    assert all(math.isfinite(call.deviation) and call.deviation > 0 for call in seen)


def replayed(name: str) -> str:
    pair = neighbours(frame(60), SCHEMA, seed=1)[0]
    return replay(unfitted(name), pair.table, pair.neighbour, seed=3).first_difference or ""


@pytest.mark.slow
def test_numbers_of_one_group_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate prints C and σC, where a step of G groups has √G C and √G σC; ε is the same."""
    real = Clipping.facts

    def stated(self: Clipping, *given: Any) -> dict[str, Any]:
        return {**real(self, *given), "l2_sensitivity": self.max_norm}

    monkeypatch.setattr(Clipping, "facts", stated)
    said = replayed("dp-gan")
    assert said.startswith("mechanism 2 (critic): the certificate states a standard deviation of ")
    printed, used = (float(text) for text in re.findall(r"[\d.]+(?:e-?\d+)?(?=, and| was)", said))
    assert used / printed == pytest.approx(math.sqrt(3), rel=1e-4)


def test_a_line_that_is_missing_or_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = certificates.describe_mechanism

    def wrong(item: Any) -> dict[str, Any]:
        result = real(item)
        if item["purpose"] == "one-way counts":
            result["noise_added"]["standard_deviation"] *= 0.99
        return result

    monkeypatch.setattr(certificates, "describe_mechanism", wrong)
    assert replayed("dp-gan").startswith("mechanism 1 (one-way counts): the certificate states a ")
    monkeypatch.undo()
    monkeypatch.setattr(
        certificates, "describe_mechanism", lambda item: {**real(item), "purpose": "other"}
    )
    assert replayed("dp-gan") == "mechanism 1 (one-way counts): the certificate does not list it"


def test_an_input_that_moves_past_the_printed_sensitivity_is_named() -> None:
    """The ratio can be right and the sensitivity too small: what moved is in the same unit."""

    def item(value: float | None, deviation: float | None, **more: Any) -> dict[str, Any]:
        return {
            "purpose": "p",
            "sensitivity": {"value": value, "unit": "rows"},
            "noise_added": {"standard_deviation": deviation},
            **more,
        }

    def call(distance: float, deviation: float) -> MechanismCall:
        return MechanismCall(purpose="p", uses=1, move=0.0, distance=distance, deviation=deviation)

    def said(listed: dict[str, Any], one: MechanismCall, most: float = 1.0) -> str | None:
        return find_misprint({"mechanisms": [listed]}, [one], most)

    assert said(item(1.0, 3.0), call(1.0, 3.0)) is None
    assert "changed by 1.01 (unit: rows)" in (said(item(1.0, 3.0), call(1.01, 3.0)) or "")
    assert said(item(1.0, 3.0), call(1.01, 3.0), most=2.0) is None
    assert "3 was used" in (said(item(1.0, 3.1), call(1.0, 3.0)) or "")
    assert "nan was used" in (said(item(1.0, 3.0), call(1.0, math.nan)) or "")
    assert "no sensitivity" in (said(item(None, None), call(1.0, 3.0)) or "")
    assert "does not list" in (said(item(1.0, 3.0, earlier=True), call(1.0, 3.0)) or "")
    # Laplace on two counts: L1, and the standard deviation of a scale.
    votes = item(2.0, 3.0 * math.sqrt(2), accounting="laplace")
    assert said(votes, call(1.0, 3.0)) is None and said(votes, call(1.1, 3.0)) is not None
