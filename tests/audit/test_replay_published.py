"""R1 of evaluations that claim to be private: the charged report, and the over-estimation score."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from replay_published import replay_published
from replayed_tables import EPSILON, SCHEMA, frame
from systems import make_tiny_model

from tabsynth.auditing.replay import replay_run
from tabsynth.auditing.replay_neighbours import neighbours
from tabsynth.evaluation import charged
from tabsynth.evaluation.charged import uses
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.training.diagnostics import overestimation

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def made() -> pd.DataFrame:
    model = make_tiny_model("margnet", SCHEMA, epsilon=EPSILON).set_params(random_state=0)
    table = model.fit(frame(60)).sample(50)
    table.attrs["certificate"] |= {"private": True, "seeded": False}  # as of a release
    return table


@pytest.mark.slow
def test_the_charged_report(made: pd.DataFrame) -> None:
    """The same report of every neighbour, each figure's input within its sensitivity."""
    for pair in neighbours(frame(60), SCHEMA):
        result = replay_published(pair.table, pair.neighbour, made, SCHEMA, epsilon=1.0, seed=2)
        assert result.first_difference is None, (pair.kind, result.first_difference)
        assert [m.purpose for m in result.mechanisms] == ["report"] * uses(4)
        moves = [m.move for m in result.mechanisms]
        assert moves[0] == pytest.approx(1) and 0.1 < max(moves[1:]) <= 1 + 1e-9


def test_the_charged_report_of_an_empty_table(made: pd.DataFrame) -> None:
    """R25: it is released as that of its neighbour of one row."""
    for table, neighbour in ((frame(0), frame(1)), (frame(1), frame(0))):
        result = replay_published(table, neighbour, made, SCHEMA, epsilon=1.0, seed=2)
        assert result.passed, result.first_difference


def test_a_charged_report_that_tells_more_is_caught(
    made: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times what is accounted; and a figure that passes no mechanism."""
    pair = neighbours(frame(60), SCHEMA)[0]
    real = charged.total_gap

    monkeypatch.setattr(charged, "total_gap", lambda *given: 10 * real(*given))
    result = replay_published(pair.table, pair.neighbour, made, SCHEMA, epsilon=1.0)
    assert result.first_difference is not None
    assert result.first_difference.startswith("mechanism 2 (report): its input moved by ")
    monkeypatch.undo()
    monkeypatch.setattr(charged, "exact", lambda account, values, stds: values)
    result = replay_published(pair.table, pair.neighbour, made, SCHEMA, epsilon=1.0)
    assert result.first_difference == (
        "report: rows were read, and no mechanism was called before report"
    )


def test_the_overestimation_score() -> None:
    """A private score: half a record's worth of noise, for half a record's worth of a sum."""

    def run(scores: torch.Tensor, note: Callable[[str, Any], None]) -> None:
        ledger = Ledger(10.0, 1e-5)
        account = ledger.open("score", Gaussian(noise_multiplier=2.0), 1)
        result = overestimation(
            PrivateTable(scores, ledger),
            torch.rand(9, generator=torch.Generator().manual_seed(0)),
            torch.full((5,), 0.4),
            account=account,
            rows=20.0,
            generator=torch.Generator().manual_seed(1),
        )
        note("score", result)
        note("ledger", ledger)

    scores = torch.from_numpy(np.random.default_rng(0).random(20))
    for extreme in (0.0, 1.0, 1e9, float("nan")):
        more = torch.cat([scores, torch.tensor([extreme])])
        for tables in ((scores, more), (more, scores)):
            result = replay_run(run, *tables)
            assert result.passed, result.first_difference
            assert result.worst_move == pytest.approx(0.0 if extreme != extreme else 1.0)
