"""A canary that is a unit of several rows, in whole fits of a GAN: it is as visible as the accounted μ says."""

import math

import pytest
import torch
from record_replay.units import as_unit

from tabsynth.auditing import canaries
from tabsynth.auditing.canaries import audit_gan
from tabsynth.auditing.outcomes import NOT_REFUTED, REFUTED
from tabsynth.auditing.request import AuditRequest
from tabsynth.methods import AUTOENCODER, CRITIC, ONE_WAY
from tabsynth.training.clipping import PerExampleClipper

torch.set_num_threads(1)
RUNS = 400


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canaries, "STEPS", 4)
    monkeypatch.setattr(canaries, "HIDDEN", (8,))


@pytest.mark.slow
def test_a_canary_of_a_unit_shows_what_the_theory_says() -> None:
    """One of five equal rows, of which three are used: in counts, autoencoder, critic and the whole fit."""
    result = {
        r.part: r
        for r in audit_gan(
            AuditRequest(method="dp-wgan", epsilon=8.0, runs=RUNS, datasets=as_unit(3)), fits=2
        )
    }
    assert set(result) == {"whole fit", ONE_WAY, AUTOENCODER, CRITIC}
    for part in result.values():
        assert part.verdict == NOT_REFUTED, part
        slack = 4.5 * math.sqrt(2 / RUNS)
        assert 0.9 * part.mu_claimed - slack < part.mu_estimate < part.mu_claimed + slack, part
        assert part.mu_lower <= part.mu_claimed
    assert result["whole fit"].epsilon_claimed == pytest.approx(8.0, rel=0.01)


@pytest.mark.slow
def test_rows_that_are_clipped_apart_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """R20: each of three rows at the bound of the unit."""
    right = PerExampleClipper.clipped_sum

    def apart(self: PerExampleClipper, *args: object) -> object:
        return right(self, *args[:-1])  # type: ignore[arg-type]

    monkeypatch.setattr(PerExampleClipper, "clipped_sum", apart)
    result = {
        r.part: r
        for r in audit_gan(
            AuditRequest(method="dp-wgan", epsilon=8.0, runs=RUNS, datasets=as_unit(3)), fits=2
        )
    }
    assert result[CRITIC].verdict == REFUTED and result[ONE_WAY].verdict == NOT_REFUTED
