"""R1 of evaluations that claim to be private: the charged report."""

import re

import pandas as pd
import pytest
import torch
from record_replay import neighbours
from replay_published import replay_published
from replayed_tables import EPSILON, SCHEMA, frame
from systems import make_tiny_model

from tabsynth.evaluation import charged
from tabsynth.evaluation.charged import uses

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
        assert result.passes, result.first_difference


def test_a_charged_report_that_tells_more_is_caught(
    made: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times what is accounted; and a figure that passes no mechanism."""
    pair = neighbours(frame(60), SCHEMA)[0]
    real = charged.total_gap

    monkeypatch.setattr(charged, "total_gap", lambda *given: 10 * real(*given))
    result = replay_published(pair.table, pair.neighbour, made, SCHEMA, epsilon=1.0)
    assert result.first_difference is not None
    assert re.match(r"mechanism \d \(report\): its input moved by ", result.first_difference)
    monkeypatch.undo()
    monkeypatch.setattr(charged, "exact", lambda account, values, stds: values)
    result = replay_published(pair.table, pair.neighbour, made, SCHEMA, epsilon=1.0)
    assert result.first_difference == (
        "report: rows were read, and no mechanism was called before report"
    )
