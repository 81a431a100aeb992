"""ε follows from the numbers that a certificate prints: by our accountants, by opacus' and by Google's."""

import re
from typing import Any

import dp_accounting as dpa
import pytest
import torch
from dp_accounting import pld
from opacus.accountants import PRVAccountant
from systems import make_tiny_model

from tabsynth.auditing.replay_audit import SCHEMA, make_table
from tabsynth.privacy.accounting.accountants import epsilon_of
from tabsynth.privacy.accounting.mechanisms import Gaussian, SubsampledGaussian
from tabsynth.privacy.certificate.verification import verify

torch.set_num_threads(1)


def by_pld(spends: list[tuple[float, float, int]], delta: float) -> float:
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    for noise, rate, count in spends:
        event: dpa.DpEvent = dpa.GaussianDpEvent(noise)
        if rate < 1:
            event = dpa.PoissonSampledDpEvent(rate, event)
        accountant.compose(dpa.SelfComposedDpEvent(event, count))
    return float(accountant.get_epsilon(delta))


def by_prv(spends: list[tuple[float, float, int]], delta: float) -> float:
    accountant = PRVAccountant()
    accountant.history = [*spends]
    return float(accountant.get_epsilon(delta, eps_error=0.01))


def by_us(spends: list[tuple[float, float, int]], delta: float) -> float:
    mechanisms = [
        (
            Gaussian(noise_multiplier=noise)
            if rate == 1
            else SubsampledGaussian(noise_multiplier=noise, sampling_rate=rate),
            count,
        )
        for noise, rate, count in spends
    ]
    return epsilon_of(mechanisms, delta)


GROUPED = ["dp-gan", "dp-gan, ganobfuscator"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:divide by zero encountered:RuntimeWarning")  # of opacus
@pytest.mark.parametrize("name", [*GROUPED, "dp-wgan", "margnet, rows declared"])
def test_accountants_on_the_printed_numbers(name: str, tmp_path: Any) -> None:
    """Sampling, sensitivity and standard deviation as a reader has them, and nothing else, give ε: by ours, by
    opacus' PRV and by Google's PLD."""
    model = make_tiny_model(name, SCHEMA, epsilon=3.0)
    certificate = model.fit(make_table(0)).certificate()
    spends = []
    for item in certificate["mechanisms"]:
        match = re.fullmatch(r"Poisson, rate (\S+)|none: the whole table", item["sampling"])
        assert match is not None
        noise = item["noise_added"]["standard_deviation"] / item["sensitivity"]["value"]
        spends.append((noise, float(match[1] or 1.0), item["count"]))
    assert len(spends) > 1 and (min(rate for _, rate, _ in spends) < 1) == (name[:2] == "dp")
    results = [by(spends, certificate["delta"]) for by in (by_us, by_prv, by_pld)]
    assert results == pytest.approx([certificate["epsilon"]] * 3, rel=5e-3)
    assert 2.9 < certificate["epsilon"] <= 3.0
    path = tmp_path / "t.csv"
    model.sample_to(path, 9)
    checked = verify(path)
    assert checked.consistent and checked.notes == ()
    assert [o.epsilon for o in checked.accountants] == pytest.approx(
        [certificate["epsilon"]] * 2, rel=5e-3
    )
