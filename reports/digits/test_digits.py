"""reports/digits: its page is that of its results, and the dp-GAN document's own step is not private."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from tabsynth.privacy.accounting.accountants import gaussian_delta, gaussian_epsilon
from tabsynth.training.clipping import PerExampleClipper

torch.set_num_threads(1)
FOLDER = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def digits(modules_of: Callable) -> Iterator[SimpleNamespace]:
    """The report's modules."""
    with modules_of("digits") as modules:
        yield SimpleNamespace(**modules)


def test_the_page_is_of_its_results(digits: SimpleNamespace) -> None:
    results = json.loads((FOLDER / "results.json").read_text("utf-8"))
    page = digits.writing.page(results, FOLDER)
    assert page == (FOLDER / "README.md").read_text("utf-8")
    assert "<!--" not in page
    for number, runs in digits.writing.tests_of(results).items():
        assert [run["seed"] for run in runs] == [0, 1, 2]
        for run in runs:
            assert (run["provable"] == "inf") == digits.document.TESTS[number].pretrained


def test_the_papers_page_has_the_reports_figures(digits: SimpleNamespace) -> None:
    results = json.loads((FOLDER / "results.json").read_text("utf-8"))
    page = (FOLDER.parents[1] / "docs" / "explanation" / "papers" / "dp-gan.md").read_text("utf-8")
    for number, runs in digits.writing.tests_of(results).items():
        *_, row = [r for r in digits.writing.tests_table(results) if r.startswith(f"| {number} |")]
        cells = row.replace("ours, 8 × 8 digits", "ours").split(" | ")[:-1]
        assert " | ".join(cells) + " |" in page
        assert f"| {runs[0]['claimed']:.1f} | " in page
    for line in digits.writing.accuracy_table(results):
        if line.startswith(("| `basic` |", "| `advanced`, with", "| no privacy |")):
            name, epsilon, accuracy = line.split(" | ")[:3]
            assert f"{name} | {epsilon.removesuffix(', seeded')} | {accuracy} |" in page


def test_widths_are_those_of_the_authors_rule(digits: SimpleNamespace) -> None:
    """784 pixels have the document's 89, 10 and 89 units; the report's 64 have 25, 10 and 25."""
    assert digits.document.widths(784) == (89, 10, 89)
    layers = [m for m in digits.document.generator() if isinstance(m, nn.Linear)]
    assert [m.out_features for m in layers] == [25, 10, 25, 64]


@pytest.mark.parametrize("frozen", [True, False])
def test_convolutions_learn_unless_they_are_frozen(digits: SimpleNamespace, frozen: bool) -> None:
    document = digits.document
    torch.manual_seed(0)
    created, judge = document.generator(), document.discriminator(document.critic(), frozen)
    before = [p.clone() for p in judge.parameters()]
    rng = torch.Generator().manual_seed(0)
    costs = document.train(created, judge, torch.rand(99, 64), document.TESTS[2], rng, epochs=1)
    assert len(costs["critic"]) == 4 and len(costs["generator"]) == 1
    moved = [bool((p != b).any()) for p, b in zip(judge.parameters(), before, strict=True)]
    assert moved == [not frozen] * 6 + [True] * 6
    assert judge(torch.rand(5, 64)).shape == (5, 1)


def test_the_critics_loss_is_that_of_the_box(digits: SimpleNamespace) -> None:
    """D(x) = x·w has the slope w everywhere."""
    weight = torch.full((64, 1), 0.25)  # of norm 2
    real, fake, share = torch.rand(7, 64), torch.rand(7, 64), torch.rand(7, 1)
    result = digits.document.critic_loss(lambda rows: rows @ weight, real, fake, share)
    expected = (fake - real).sum(1).mean() * 0.25 + 10 * (2 - 1) ** 2
    assert float(result) == pytest.approx(float(expected), abs=1e-4)


def test_s_plus_of_the_report_is_the_documents(digits: SimpleNamespace) -> None:
    """A critic that takes the test rows for likelier than the generated ones has the larger D for them."""
    results = json.loads((FOLDER / "results.json").read_text("utf-8"))
    for run in results["document"].values():
        real, noise, generated = run["s_plus"]
        assert -1 <= real <= 0 <= min(noise, generated) <= max(noise, generated) <= 1
    for run in results["runs"].values():
        if run.get("s_plus"):
            assert run["s_plus"][2] == pytest.approx(0.5, abs=0.1)  # the midpoint is theirs


def test_an_inception_score_is_of_what_the_classifier_sees(digits: SimpleNamespace) -> None:
    _, _, test = digits.tables.handwritten()
    one = test.iloc[[0] * 20]
    assert digits.tables.inception_score(one) == pytest.approx(1)
    everything = digits.tables.inception_score(test)
    noise = digits.tables.inception_score(digits.tables.random_rows(500, 0))
    assert 1 < noise < everything < 10


# Why a clipped batch mean is no private step (docs/explanation/papers/dp-gan.md has the proof).

BATCH, BOUND = 64, 1.0


def _outlier() -> tuple[torch.Tensor, torch.Tensor]:
    """Two batches that differ in one row; for D(x) = w·x the gradient of a row's loss −D(x) is −x."""
    rows = torch.zeros(BATCH, 3)
    rows[:, 0] = -BOUND
    other = rows.clone()
    other[-1, 0] = 2 * BATCH * BOUND
    return rows, other


def _mean_gradient(rows: torch.Tensor) -> torch.Tensor:
    layer = nn.Linear(3, 1, bias=False)
    (gradient,) = torch.autograd.grad(-layer(rows).mean(), layer.weight)
    return gradient


def test_one_row_turns_a_clipped_batch_mean_around(digits: SimpleNamespace) -> None:
    """It moves by 2C, where the mean of clipped rows moves by 2C / batch."""
    rng = torch.Generator()
    one, other = (
        digits.document.clipped_and_noised(_mean_gradient(rows), BOUND, 0.0, rng)
        for rows in _outlier()
    )
    assert float((one - other).norm()) == pytest.approx(2 * BOUND)
    clipper = PerExampleClipper(nn.Linear(3, 1, bias=False))
    sums = [clipper.clipped_sum(lambda m, x: -m(x)[:, 0], rows, BOUND)[0][0] for rows in _outlier()]
    moved = float((sums[0] - sums[1]).norm())
    assert moved <= 2 * BOUND  # of the sum, and so 2C / batch of the mean
    assert moved == pytest.approx(2 * BOUND, rel=0.01)


@pytest.mark.slow
def test_the_epsilon_of_its_sigma_does_not_hold(digits: SimpleNamespace) -> None:
    """20,000 steps on each of two batches that differ in one row, with σ = 1.

    Under (ε, δ) no event is more likely than e^ε times its likelihood on the other batch, plus δ. The ε
    of a multiplier of 1 is 4.4 at δ = 1e-5. A change of 2C under noise of σC is a multiplier of σ / 2.
    """
    claimed, rng = gaussian_epsilon(1.0, 1e-5), torch.Generator().manual_seed(0)
    low, high = (
        np.array(
            [
                float(digits.document.clipped_and_noised(mean, BOUND, 1.0, rng)[0, 0])
                for _ in range(20_000)
            ]
        )
        for mean in sorted(map(_mean_gradient, _outlier()), key=lambda mean: float(mean[0, 0]))
    )
    assert low.mean() == pytest.approx(-BOUND, abs=0.05)
    assert high.mean() == pytest.approx(BOUND, abs=0.05)
    least = claimed / 2  # beyond it exp(2x), the ratio of N(1, 1) to N(−1, 1), exceeds e^ε
    excess = (high > least).mean() - math.exp(claimed) * (low > least).mean()
    assert excess == pytest.approx(gaussian_delta(2.0, claimed), abs=0.05)
    assert excess > 1000 * 1e-5


def test_the_mean_of_gaussians_is_no_gaussian_of_the_same_size() -> None:
    """The document's remark: the mean of 64 draws of ξ is N(0, s² / 64), and goes to 0, not to ξ."""
    draws = np.random.default_rng(0).normal(size=(20_000, BATCH)).mean(1)
    assert draws.std() == pytest.approx(1 / math.sqrt(BATCH), rel=0.03)
