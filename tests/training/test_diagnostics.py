"""The decomposition of private gradients row by row, and the over-estimation score on both roads."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
    Mechanism,
    NoPrivacy,
    SubsampledGaussian,
)
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.privacy.noise.samplers import grid
from tabsynth.training.bounds import Clipping
from tabsynth.training.diagnostics import StepState, as_probability, gradient_bias, overestimation
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import BAM, DPSAT, DPSGD, Batches, PrivateStep, StepRule

torch.set_num_threads(1)
RULES: list[StepRule] = [DPSGD(), DPSAT(radius=0.3), BAM(radius=0.2)]


def losses(module: nn.Module, rows: Tensor) -> Tensor:
    return (module(rows[:, :-1]).squeeze(1) - rows[:, -1]).square()


def network(inputs: int, hidden: int, seed: int) -> nn.Sequential:
    return mlp([inputs, hidden, 1], torch.Generator().manual_seed(seed), activation="tanh").double()


def of_row(module: nn.Module, row: Tensor, move: Tensor | None = None) -> Tensor:
    """One row's gradient, at the weights moved by ``move``."""
    parameters = list(module.parameters())
    before = nn.utils.parameters_to_vector(parameters).detach().clone()
    if move is not None:
        nn.utils.vector_to_parameters(before + move, parameters)
    grads = torch.autograd.grad(losses(module, row[None]).sum(), parameters)
    nn.utils.vector_to_parameters(before, parameters)
    return torch.cat([g.flatten() for g in grads])


def ruled(module: nn.Module, rule: StepRule, rows: Tensor, previous: Tensor) -> list[Tensor]:
    """The gradients that the rule clips, row by row."""
    out = []
    for row in rows:
        along = of_row(module, row) if isinstance(rule, BAM) else previous
        radius = 0.0 if isinstance(rule, DPSGD) else rule.radius
        out.append(of_row(module, row, radius * along / along.norm()))
    return out


def pieces(vector: Tensor, module: nn.Module) -> list[Tensor]:
    sizes = [p.numel() for p in module.parameters()]
    parts = zip(vector.split(sizes), module.parameters(), strict=True)
    return [part.view_as(p) for part, p in parts]


@settings(max_examples=40, deadline=None)
@given(
    rule=st.sampled_from(RULES),
    batch=st.integers(1, 6),
    inputs=st.integers(1, 4),
    hidden=st.integers(1, 5),
    bound=st.floats(0.01, 10),
    divisor=st.floats(1, 20),
    seed=st.integers(0, 2**31),
)
def test_the_decomposition_is_that_of_the_source_row_by_row(
    rule: StepRule, batch: int, inputs: int, hidden: int, bound: float, divisor: float, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    module = network(inputs, hidden, seed)
    rows = torch.randn(batch, inputs + 1, generator=draw, dtype=torch.float64)
    size = sum(p.numel() for p in module.parameters())
    previous, noise = torch.randn(2, size, generator=draw, dtype=torch.float64)
    bias = gradient_bias(
        module,
        losses,
        rows,
        step=StepState(
            bounds=bound,
            rule=rule,
            previous=pieces(previous, module),
            noise=pieces(noise, module),
        ),
        expected_batch=divisor,
    )

    plain = [of_row(module, row) for row in rows]
    mean = torch.stack(plain).sum(0) / divisor
    moved = ruled(module, rule, rows, previous)
    a, c, clip = 0.0, noise.clone(), torch.zeros_like(mean)
    for g in moved:
        m = max(1.0, float(g.norm()) / bound)
        eta = float(g @ mean) / float(mean @ mean)
        a += eta / m / divisor
        c += (g - eta * mean) / m / divisor
        clip += g / m / divisor
    # Cosines of a mean that cancels to nothing are rounding; none of the draws comes near it.
    near = {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(bias.gradient, mean, **near)
    torch.testing.assert_close(bias.direction, c, **near)
    torch.testing.assert_close(
        bias.magnitude * bias.gradient + bias.direction, clip + noise, **near
    )
    own = torch.stack(moved).sum(0) / divisor
    expected = {
        "magnitude": a,
        "norm": float(mean.norm()),
        "bias": float((clip - mean).norm()),
        "clipping_bias": float((clip - own).norm()),
        "cosine": float(torch.cosine_similarity(clip, mean, dim=0)),
        "clipped": np.mean([float(g.norm()) > bound for g in moved]),
    }
    for name, value in expected.items():
        assert getattr(bias, name) == pytest.approx(value, rel=1e-8, abs=1e-9), name
    cosines = {
        DPSGD: math.nan,
        DPSAT: float(torch.cosine_similarity(previous, mean, dim=0)),
        BAM: np.mean([float(torch.cosine_similarity(g, mean, dim=0)) for g in plain]),
    }
    assert bias.ascent == pytest.approx(cosines[type(rule)], rel=1e-8, abs=1e-9, nan_ok=True)


def test_a_wide_bound_leaves_no_bias_and_the_weights_stay_as_they_were() -> None:
    module, rows = network(3, 4, 0), torch.randn(7, 4, dtype=torch.float64)
    before = [p.detach().clone() for p in module.parameters()]
    bias = gradient_bias(module, losses, rows, step=StepState(bounds=1e6))
    assert bias.magnitude == pytest.approx(1, abs=1e-12)
    assert max(bias.bias, bias.clipping_bias, float(bias.direction.norm())) < 1e-12
    assert bias.clipped == 0 and bias.cosine == pytest.approx(1)
    for rule in RULES[1:]:
        step = StepState(bounds=1e6, rule=rule, previous=before)
        moved = gradient_bias(module, losses, rows, step=step)
        assert moved.bias > 1e-3 and moved.clipping_bias < 1e-12
    assert all(torch.equal(p, b) for p, b in zip(module.parameters(), before, strict=True))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_float32_network_is_measured_as_its_float64_copy_is(rule: StepRule) -> None:
    """The sums are in float64 whatever the network's precision, and a step's own gradients are not.

    In float32 rows are clipped to less than the bound, by what rounding may add: 0.3% here.
    """
    rows = torch.randn(9, 4, generator=torch.Generator().manual_seed(4))
    results = []
    for kind in (torch.float32, torch.float64):
        module = network(3, 4, 0).float().to(kind)
        previous = [p.detach().clone() for p in module.parameters()]
        step = StepState(bounds=0.5, rule=rule, previous=previous, noise=previous)
        own = gradient_bias(module, losses, rows.to(kind), step=step)
        results.append(
            [own.magnitude, own.norm, own.bias, own.clipping_bias, own.cosine, own.ascent]
        )
    assert results[0] == pytest.approx(results[1], rel=5e-3, nan_ok=True)


def test_groups_and_a_public_reference_as_in_the_step() -> None:
    module, draw = network(3, 4, 1), torch.Generator().manual_seed(1)
    rows, public = (torch.randn(n, 4, generator=draw, dtype=torch.float64) for n in (9, 5))
    bounds = torch.tensor([0.3, 0.7], dtype=torch.float64)
    groups = [0, 1, 0, 1]
    step = StepState(bounds=bounds, groups=groups)
    bias = gradient_bias(module, losses, rows, step=step, public=public)
    taken = torch.stack([of_row(module, row) for row in public]).mean(0)
    own = torch.cat(
        [torch.full((p.numel(),), j) for p, j in zip(module.parameters(), groups, strict=True)]
    )
    centred = [of_row(module, row) - taken for row in rows]
    clip = torch.zeros_like(taken)
    for g in centred:
        for j in (0, 1):
            part = g * (own == j)
            clip += part / max(1.0, float(part.norm() / bounds[j])) / len(rows)
    mean = torch.stack(centred).mean(0)
    torch.testing.assert_close(bias.gradient, mean, rtol=1e-9, atol=1e-12)
    assert bias.bias == pytest.approx(float((clip - mean).norm()), rel=1e-9)
    assert bias.magnitude == pytest.approx(float(clip @ mean / (mean @ mean)), rel=1e-9)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_with_the_noise_of_a_step_it_is_the_step_s_gradient(rule: StepRule) -> None:
    """ĝ_priv = aĝ + c for what PrivateStep releases: its noise is that of an empty table's step."""
    rows = torch.randn(30, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    released = []
    for data in (rows, rows[:0]):
        module, ledger = network(3, 4, 2), Ledger(math.inf, 1e-5)
        mechanism = SubsampledGaussian(noise_multiplier=0.7, sampling_rate=1.0)
        step = PrivateStep(
            module,
            table=PrivateTable(data, ledger),
            account=ledger.open("step", mechanism, 2),
            batches=Batches(rate=1.0, expected_batch=30),
            generator=torch.Generator().manual_seed(3),
            rule=rule,
            clipping=Clipping(max_norm=0.5),
        )
        step.gradient(losses)
        previous = [p.grad.clone() for p in module.parameters() if p.grad is not None]
        if not released:
            kept = previous
        step.gradient(losses)
        released.append([p.grad for p in module.parameters()])
    module = network(3, 4, 2)
    state = StepState(bounds=0.5, rule=rule, previous=kept, noise=released[1])
    bias = gradient_bias(module, losses, rows, step=state)
    whole = torch.cat([g.flatten() for g in released[0]])
    torch.testing.assert_close(  # both are rounded to the grid after the noise
        bias.magnitude * bias.gradient + bias.direction, whole, rtol=0, atol=grid(0.7 * 0.5) / 30
    )


def test_an_empty_batch_has_no_direction() -> None:
    rows = torch.zeros(0, 3, dtype=torch.float64)
    bias = gradient_bias(network(2, 2, 0), losses, rows, step=StepState(rule=BAM()))
    assert bias.bias == bias.norm == 0 and not bias.direction.any()
    assert all(math.isnan(x) for x in (bias.magnitude, bias.cosine, bias.ascent, bias.clipped))


def account_of(mechanism: Mechanism, rows: Tensor) -> tuple[PrivateTable[Tensor], Account]:
    ledger = Ledger(math.inf, 1e-5)
    return PrivateTable(rows, ledger), ledger.open("diagnostic", mechanism, 1)


def test_private_rows_are_refused_or_cost_an_infinite_epsilon() -> None:
    module, rows = network(2, 2, 0), torch.randn(5, 3, dtype=torch.float64)
    table, paid = account_of(Gaussian(noise_multiplier=1.0), rows)
    for account in (None, paid):
        with pytest.raises(InputError, match="adds no noise") as error:
            gradient_bias(module, losses, table, account=account)
        assert "\n" not in str(error.value)
    assert table.reads == 0 and paid.spent == 0
    table, free = account_of(NoPrivacy(), rows)
    step = StepState(bounds=0.1)
    bias = gradient_bias(module, losses, table, account=free, step=step)
    assert bias.bias == gradient_bias(module, losses, rows, step=step).bias
    assert table.ledger.spent == math.inf and table.reads == 1
    with pytest.raises(BudgetError):
        gradient_bias(module, losses, table, account=free)


REAL, NOISE, FAKE = (
    torch.linspace(*ends, 11, dtype=torch.float64) for ends in ((0.2, 1), (0, 0.4), (0, 1))
)


def test_the_score_of_public_rows_is_the_mean_of_its_definition() -> None:
    result = overestimation(REAL, NOISE, FAKE)
    assert result.real == pytest.approx(np.mean([x - 1 for x in REAL.tolist()]))
    assert (result.noise, result.generated) == pytest.approx((0.2, 0.5))
    assert result.std == 0


def test_private_scores_are_never_given_without_charge() -> None:
    table, paid = account_of(Gaussian(noise_multiplier=2.0), REAL)
    _, sampled = account_of(SubsampledGaussian(noise_multiplier=2.0, sampling_rate=0.5), REAL)
    draw = torch.Generator().manual_seed(0)
    for wrong in (
        {},
        {"account": sampled, "rows": 11.0, "generator": draw},
        {"account": paid, "rows": 11.0},
        {"account": paid, "generator": draw},
        {"account": paid, "rows": 0.0, "generator": draw},
    ):
        with pytest.raises(InputError) as error:
            overestimation(table, NOISE, FAKE, **wrong)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)
    assert table.reads == 0 and paid.spent == 0
    _, elsewhere = account_of(NoPrivacy(), REAL)
    with pytest.raises(BudgetError, match="not on the ledger"):
        overestimation(table, NOISE, FAKE, account=elsewhere)
    assert table.reads == 0
    overestimation(table, NOISE, FAKE, account=paid, rows=11.0, generator=draw)
    assert table.reads == 1 and 0 < table.ledger.spent < math.inf
    with pytest.raises(BudgetError):
        overestimation(table, NOISE, FAKE, account=paid, rows=11.0, generator=draw)
    assert table.reads == 1


def test_without_privacy_it_is_exact_and_costs_an_infinite_epsilon() -> None:
    table, account = account_of(NoPrivacy(), REAL)
    assert overestimation(table, NOISE, FAKE, account=account).real == pytest.approx(-0.4)
    assert table.ledger.spent == math.inf


@pytest.mark.slow
def test_the_released_score_has_the_noise_that_is_paid_for() -> None:
    """R4: sensitivity 1/2, multiplier 3, 500 rows: standard deviation 0.003."""
    rows, draws, values = torch.rand(500, dtype=torch.float64), torch.Generator().manual_seed(5), []
    ledger = Ledger(math.inf, 1e-5)
    table = PrivateTable(rows, ledger)
    account = ledger.open("score", Gaussian(noise_multiplier=3.0), 4000)
    for _ in range(4000):
        result = overestimation(table, NOISE, FAKE, account=account, rows=500.0, generator=draws)
        values.append(result.real)
    assert result.std == pytest.approx(0.003)
    assert np.mean(values) == pytest.approx(float(rows.mean()) - 1, abs=4 * 0.003 / math.sqrt(4000))
    assert np.std(values) == pytest.approx(0.003, rel=0.05)


@pytest.mark.parametrize("odd", [0.0, 1.0, math.nan, math.inf, -math.inf, 1e38, -1e38])
def test_one_row_moves_the_released_sum_by_half_at_most(odd: float) -> None:
    """R2, R3: the same coins, one row more, whatever its score."""
    base = torch.full((8,), 0.25, dtype=torch.float64)
    sums = []
    for scores in (base, torch.cat([base, torch.tensor([odd], dtype=torch.float64)])):
        table, account = account_of(Gaussian(noise_multiplier=1e-6), scores)
        draw = torch.Generator().manual_seed(1)
        result = overestimation(table, NOISE, FAKE, account=account, rows=20.0, generator=draw)
        sums.append((result.real + 0.5) * 20)
    assert abs(sums[1] - sums[0]) <= 0.5 + 1e-9
    assert math.isfinite(sums[1])


def test_a_table_of_rows_is_scored_inside_and_one_score_a_row() -> None:
    module, rows = network(3, 2, 0), torch.randn(11, 3, dtype=torch.float64)

    def score(given: Tensor) -> Tensor:
        return as_probability(module(given), midpoint=0.2, scale=0.5)

    table, account = account_of(NoPrivacy(), rows)
    result = overestimation(table, NOISE, FAKE, account=account, score=score)
    expected = 1 / (1 + np.exp(-(module(rows).detach().numpy() - 0.2) / 0.5))
    assert result.real == pytest.approx(expected.mean() - 1)
    table, account = account_of(NoPrivacy(), rows)
    with pytest.raises(InputError, match="one score a row"):
        overestimation(table, NOISE, FAKE, account=account)


@pytest.mark.parametrize("wrong", [torch.empty(0), torch.tensor([1.5]), torch.tensor([math.nan])])
def test_scores_that_are_no_probabilities_are_refused(wrong: Tensor) -> None:
    for place in range(3):
        scores = [REAL, NOISE, FAKE]
        scores[place] = wrong
        with pytest.raises(InputError, match=r"in \[0, 1\]"):
            overestimation(*scores)
    with pytest.raises(InputError, match="scale"):
        as_probability(REAL, scale=0.0)
