"""reports/bias: the exact gradient of the bias-aware objective, and a page that its results bear out."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import minus_scores

torch.set_num_threads(1)
FOLDER = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def report(modules_of: Callable) -> Iterator[dict[str, ModuleType]]:
    """The report's modules by name."""
    with modules_of("bias") as modules:
        yield modules


@pytest.fixture
def exact(report: dict[str, ModuleType]) -> ModuleType:
    return report["exact"]


def cross_entropies(module: nn.Module, rows: Tensor) -> Tensor:
    logits = module(rows[:, :-1]).squeeze(1)
    return binary_cross_entropy_with_logits(logits, rows[:, -1], reduction="none")


def network(activation: str, sizes: tuple[int, ...] = (5, 6, 4, 1)) -> nn.Module:
    return mlp(sizes, torch.Generator().manual_seed(0), activation=activation).double()


def labelled(rows: int) -> Tensor:
    result = torch.randn(rows, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    result[:, -1] = (result[:, -1] > 0).double()
    return result


def twice_backward(module: nn.Module, losses, rows: Tensor, radius: float) -> Tensor:
    """∇(L + λ‖∇L‖) of one row after another, by a second backward pass; shape (batch, parameters)."""
    parameters, out = list(module.parameters()), []
    for i in range(len(rows)):
        own = losses(module, rows[i : i + 1]).sum()
        first = torch.autograd.grad(own, parameters, create_graph=True)
        norm = torch.cat([g.flatten() for g in first]).norm()
        both = torch.autograd.grad(own + radius * norm, parameters)
        out.append(torch.cat([g.flatten() for g in both]))
    return torch.stack(out)


def joined(grads: list[Tensor]) -> Tensor:
    return torch.cat([g.flatten(1) for g in grads], dim=1)


@pytest.mark.parametrize("losses", [cross_entropies, minus_scores])
@pytest.mark.parametrize("activation", ["tanh", "relu", "leaky-relu"])
def test_both_implementations_are_the_double_backward(exact, activation, losses) -> None:
    """In float64 to 1e-8: row by row, and clipped sums in closed form."""
    rows = labelled(9) if losses is cross_entropies else labelled(9)[:, :-1]
    module, radius, bound = network(activation), 0.3, 0.4
    wanted = twice_backward(module, losses, rows, radius)
    result = joined(exact.hessian_rows(module, losses, rows, radius))
    torch.testing.assert_close(result, wanted, rtol=1e-8, atol=1e-8)
    plain = joined(exact.plain_rows(module, losses, rows))
    assert float((wanted - plain).norm(dim=1).min()) > 1e-3  # or there would be nothing to tell
    clipped = wanted * (bound / wanted.norm(dim=1)).clamp_max(1)[:, None]
    assert float((wanted - clipped).norm()) > 1e-3
    objective = exact.bias_aware(losses, radius)
    clipper = PerExampleClipper(module)
    for limit, each in ((bound, clipped), (float("inf"), wanted)):
        sums, _ = clipper.clipped_sum(objective, rows, limit)
        one = torch.cat([g.flatten() for g in sums])
        torch.testing.assert_close(one, each.sum(0), rtol=1e-8, atol=1e-8)
    assert clipper.closed_form


def test_the_loss_is_the_bias_aware_objective(exact) -> None:
    rows, module = labelled(9), network("tanh")
    norms = joined(exact.plain_rows(module, cross_entropies, rows)).norm(dim=1)
    wanted = cross_entropies(module, rows) + 0.3 * norms
    torch.testing.assert_close(exact.bias_aware(cross_entropies, 0.3)(module, rows), wanted)


def test_modules_that_the_objective_cannot_have_are_refused(exact) -> None:
    objective, rows = exact.bias_aware(minus_scores, 0.3), labelled(4)[:, :-1]
    for module in (
        nn.Sequential(nn.Linear(5, 1, bias=False)),
        nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 1)),
    ):
        with pytest.raises(TypeError, match="linear layers with biases"):
            objective(module.double(), rows)

    def twice(module: nn.Module, inputs: Tensor) -> Tensor:
        return minus_scores(module, inputs) + minus_scores(module, inputs + 1)

    with pytest.raises(TypeError, match="once"):
        exact.bias_aware(twice, 0.3)(network("tanh"), rows)


def test_a_row_without_gradient_keeps_it(exact) -> None:
    rows, module = labelled(3), network("relu")

    def losses(module: nn.Module, inputs: Tensor) -> Tensor:
        return (
            cross_entropies(module, inputs) * torch.tensor([1.0, 0.0, 1.0]).double()[: len(inputs)]
        )

    sums, whole = PerExampleClipper(module).clipped_sum(exact.bias_aware(losses, 0.3), rows, 0.4)
    assert all(torch.isfinite(g).all() for g in sums) and float(whole[0]) >= 1

    def nothing(module: nn.Module, inputs: Tensor) -> Tensor:
        return 0 * cross_entropies(module, inputs)

    for of in (exact.hessian_rows, exact.moved_rows):
        assert float(joined(of(module, nothing, rows, 0.3)).abs().max()) == 0


def added(exact, activation: str, radius: float) -> tuple[float, float]:
    """Of the mean over rows: BAM's distance from the exact gradient, over λ and over λ²."""
    rows, module = labelled(4000), network(activation)
    bam = joined(exact.moved_rows(module, cross_entropies, rows, radius)).mean(0)
    wanted = joined(exact.hessian_rows(module, cross_entropies, rows, radius)).mean(0)
    error = float((bam - wanted).norm())
    return error / radius, error / radius**2


def test_bam_is_the_exact_gradient_to_first_order_where_the_loss_is_smooth(exact) -> None:
    """The error falls with λ² for tanh. For ReLU it falls with λ only, as what the penalty adds does: rows
    whose move crosses a kink are as many as λ is large, and the Hessian does not see the kink."""
    smooth = [added(exact, "tanh", radius)[1] for radius in (0.02, 0.01)]
    assert smooth[1] == pytest.approx(smooth[0], rel=0.1)
    kinked = [added(exact, "relu", radius)[0] for radius in (0.02, 0.01)]
    assert kinked[1] == pytest.approx(kinked[0], rel=0.25)


def test_bam_by_torch_func_is_the_librarys(exact) -> None:
    rows, module = labelled(9), network("tanh")
    formed = exact.FormedClipper(module, exact.moved_rows, 0.3)
    wanted, _ = PerExampleClipper(module, ascent=0.3).clipped_sum(cross_entropies, rows, 0.4)
    result, _ = formed.clipped_sum(cross_entropies, rows, 0.4)
    torch.testing.assert_close(result, wanted, rtol=1e-8, atol=1e-8)


def test_flatness_is_that_of_the_loss_and_leaves_the_weights_alone(report) -> None:
    rows, module, ends = labelled(200).float(), network("tanh").float(), report["ends"]
    before = nn.utils.parameters_to_vector(module.parameters()).detach().clone()
    result = ends.flatness(module, rows, 0)
    assert torch.equal(nn.utils.parameters_to_vector(module.parameters()), before)
    exact_rows = joined(report["exact"].plain_rows(module, cross_entropies, rows))
    gradient = exact_rows.mean(0)
    assert result["gradient"] == pytest.approx(float(gradient.norm()), rel=1e-3)
    assert result["row gradients"] == pytest.approx(float(exact_rows.norm(dim=1).mean()), rel=1e-3)
    assert result["weights"] == pytest.approx(float(before.norm()), rel=1e-4)
    here = float(cross_entropies(module, rows).mean())
    for r in ends.AROUND:
        nn.utils.vector_to_parameters(before + r * gradient / gradient.norm(), module.parameters())
        rise = float(cross_entropies(module, rows).mean()) - here
        assert result[f"ascent {r:g}"] == pytest.approx(rise, rel=1e-3)
        assert result[f"mean {r:g}"] < result[f"max {r:g}"] < rise


def test_groups_are_scored_apart_and_small_ones_left_out(report) -> None:
    """A classifier that says no to all: right where the label is 0."""
    domain = {"sex": 2, "race": 3, "income>50K": 2}
    codes = torch.tensor([[0, 0, 0]] * 30 + [[1, 0, 1]] * 10 + [[1, 1, 0]] * 30 + [[0, 2, 1]] * 19)
    adult = SimpleNamespace(domain=domain, features=lambda rows: rows.float())
    module = nn.Linear(2, 1)
    nn.init.zeros_(module.weight)
    nn.init.constant_(module.bias, -1.0)
    result = report["ends"].groups(SimpleNamespace(module=module), adult, codes)
    assert set(result) == {"sex 0", "sex 1", "race 0", "race 1"}  # 19 rows are too few
    assert result["sex 1"] == pytest.approx(
        {
            "n": 40,
            "positive": 0.25,
            "accuracy": 0.75,
            "recall": 0.0,
            "loss": math.log1p(math.exp(-1)) + 0.25,
        }
    )
    assert result["race 0"]["accuracy"] == result["sex 1"]["accuracy"]
    assert result["race 1"]["accuracy"] == 1.0 and math.isnan(result["race 1"]["recall"])


def test_the_gap_is_best_less_worst(report) -> None:
    group = {"sex 0": 0.9, "sex 1": 0.8, "race 0": 0.7, "race 1": 0.95, "race 2": 0.4}
    runs = [{"groups": {name: {"accuracy": x} for name, x in group.items()}}]
    assert report["ending"].gap(runs, "sex") == pytest.approx([0.1])
    assert report["ending"].gap(runs, "race") == pytest.approx([0.55])


def test_the_page_is_written_from_its_results(report, tmp_path, monkeypatch) -> None:
    """README.md is what --write makes of results.json and template.md, and no table is missing."""
    writing, run = report["writing"], report["run"]
    for name in ("figure_2", "figure_3", "figure_5", "figure_radii"):
        monkeypatch.setattr(writing, name, lambda *_: None)
    monkeypatch.setattr(writing, "HERE", tmp_path)
    (tmp_path / "template.md").write_text((FOLDER / "template.md").read_text("utf-8"), "utf-8")
    results = run.load_results()
    writing.write_readme(results, report["plans"].chosen(results))
    page = (tmp_path / "README.md").read_text("utf-8")
    assert "<!--" not in page
    assert page == (FOLDER / "README.md").read_text("utf-8")


def test_what_the_page_says_of_the_new_runs_is_in_its_results(report) -> None:
    """Every run has three seeds, and the sentences in words follow from the figures."""
    results, plans, ending = report["run"].load_results(), report["plans"], report["ending"]
    chosen = plans.chosen(results)
    every = ending.at_two(chosen)
    runs = {text: ending.ended(results, plan) for text, plan in every.items()}
    assert all(len(result) == 3 for result in runs.values())

    def mean(text: str, name: str) -> float:
        return float(ending.flat(runs[text], name).mean())

    # Flatness: BAM flattens, the exact gradient less so, DP-SAT not.
    for name in ("gradient", "row gradients", "max 3", "ascent 0.3"):
        assert mean("BAM, 0.003", name) < mean("DP-SGD", name) < mean("DP-SAT, 0.03", name)
        assert mean("BAM, 0.03", name) < 0.4 * mean("DP-SGD", name)
        for radius in ("0.003", "0.03"):
            exact_one = mean(f"exact gradient, {radius}", name)
            assert mean(f"BAM, {radius}", name) < exact_one < mean("DP-SGD", name)
    # Lemma 3: a mean is no longer than the mean of the lengths.
    for result in runs.values():
        assert (ending.flat(result, "gradient") <= ending.flat(result, "row gradients")).all()
    # Groups: the gap of accuracy is the same under every rule, and smaller without privacy.
    gaps = {text: float(ending.gap(result, "sex").mean()) for text, result in runs.items()}
    free = gaps.pop("without privacy")
    assert all(abs(x - gaps["DP-SGD"]) <= 0.001 < x - free for x in gaps.values())
    # The exact gradient lowers the bias by about half of what BAM does, where the bound is tight.
    for family, _, _, *three in ending.exact_pairs(chosen):
        plain, bam, exact_one = (
            float(ending.bias_of_runs(ending.ended(results, plan)).mean()) for plan in three
        )
        if family == "classifier":
            assert 0.35 < (plain - exact_one) / (plain - bam) < 0.65
    # BAM beside the exact gradient: first order with tanh, not with ReLU.
    near = ending.directions(results, chosen)
    for low, high in ((0.003, 0.01), (0.01, 0.03)):
        grown = near["tanh", high]["error"].mean() / near["tanh", low]["error"].mean()
        assert 0.8 * high / low < grown < 1.2 * high / low
    assert near["tanh", 0.03]["turn"].mean() > 0.999 > 0.9 > near["relu", 0.03]["turn"].mean()
    assert near["relu", 0.003]["error"].mean() > near["relu", 0.01]["error"].mean() > 0.5
    # Time: the exact gradient takes a little longer than BAM in closed form, and both far less than formed.
    times = {
        name: [float(x.mean()) for x in by_depth.values()]
        for name, by_depth in ending.depth_ratios(results).items()
    }
    for bam, exact_one, formed in zip(
        times["BAM"],
        times["exact gradient"],
        times["exact gradient, torch.func"],
        strict=True,
    ):
        assert 0.95 < exact_one / bam < 1.35 and formed / exact_one > 5
