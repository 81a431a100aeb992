"""The audit of private drafts: it finds no evidence against them, and catches drafts that tell too much."""

import math
from typing import Any

import domain_inference
import pytest
from domain_inference import QUESTIONS, audit_draft, drafted
from scipy import stats

from tabsynth.drafting import private_schema
from tabsynth.errors import InputError

Patch = pytest.MonkeyPatch


@pytest.fixture
def quick(monkeypatch: Patch) -> None:
    monkeypatch.setattr(domain_inference, "PILOT", 5)


def without_noise(patch: Patch) -> None:
    """Thresholds and grids of exact counts."""
    real = private_schema.samplers
    fake = type("samplers", (), {"grid": real.grid, "noisy": lambda values, *a, **b: values})
    patch.setattr(private_schema, "samplers", fake)


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_draft_without_noise_is_refuted(question: str, quick: None, monkeypatch: Patch) -> None:
    without_noise(monkeypatch)
    result = audit_draft(question, 4.0, trials=40)
    assert result.is_refuted and result.sentence.startswith(
        "Refuted: the advantage of the guesses is"
    )
    assert result.details["advantage"] == 1.0
    assert result.details["advantage_bounds"][0] > result.details["advantage_allowed"]


@pytest.mark.slow
def test_no_evidence_against_a_draft(quick: None) -> None:
    result = audit_draft("maximum", 4.0, trials=40)
    assert not result.is_refuted and result.runs == 20, result.sentence
    # The most that (ε, δ) allows, by an independent computation, and what μ-Gaussian DP allows is less.
    most = (math.exp(4.0) - 1 + 2e-5) / (math.exp(4.0) + 1)
    details = result.details
    assert details["advantage_allowed_by_epsilon_and_delta"] == pytest.approx(most)
    assert result.mu_claimed is not None
    allowed = 2 * stats.norm.cdf(result.mu_claimed / 2) - 1 + 1e-5
    assert details["advantage_allowed"] == pytest.approx(allowed) and allowed < most
    low, high = details["advantage_bounds"]
    assert low <= details["advantage"] <= high
    for count, end in ((details["false_positives"], low), (details["false_negatives"], high)):
        assert 0 <= count <= 20 and -1 <= end <= 1


@pytest.mark.slow
def test_a_value_of_nobody_else_is_never_told(quick: None) -> None:
    question = QUESTIONS["diagnosis"]
    drafts = [drafted(question.table(1), 4.0, 1e-5) for _ in range(20)]
    assert not any(question.yes(draft) for draft in drafts)
    assert not audit_draft("diagnosis", 4.0, alone=True, trials=20).is_refuted


def test_what_cannot_be_asked_is_refused() -> None:
    wrong: list[dict[str, Any]] = [{"question": "weight"}, {"question": "maximum", "trials": 3}]
    for arguments in wrong:
        with pytest.raises(InputError):
            audit_draft(epsilon=1.0, **arguments)
