"""Published figures under a unit of privacy: replays with neighbours that differ in a whole unit, and what is stated."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from record_replay import neighbours
from replay_published import replay_published
from replayed_tables import EPSILON, SCHEMA, frame
from systems import make_tiny_model
from systems.form import with_unit

from tabsynth import evaluate_private
from tabsynth.design import NO_DESIGN
from tabsynth.errors import InputError
from tabsynth.evaluation import publishing
from tabsynth.evaluation.charged import charged_metrics, uses
from tabsynth.privacy.ledger.project import ProjectLedger

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
UNITS = with_unit(SCHEMA, 3)


def table(rows: int = 60) -> pd.DataFrame:
    return frame(rows).assign(unit=np.arange(rows) // 4)


def fitted(**options: Any) -> pd.DataFrame:
    model = make_tiny_model("margnet, unit", SCHEMA, epsilon=EPSILON)
    return model.fit(table(), **options).sample(50, random_state=1)


@pytest.fixture(scope="module")
def made() -> pd.DataFrame:
    return fitted()


@pytest.mark.slow
def test_a_unit_more_or_less_changes_releases_alone(made: pd.DataFrame) -> None:
    moves = []
    for pair in neighbours(frame(60), UNITS)[::3]:
        result = replay_published(pair.table, pair.neighbour, made, UNITS, epsilon=1.0, seed=2)
        assert result.first_difference is None, (pair.kind, result.first_difference)
        assert [m.purpose for m in result.mechanisms] == ["report"] * uses(4)
        moves += [m.move for m in result.mechanisms]
    assert 0.9 < max(moves) <= 1 + 1e-9


def noise_of_a_row(*given: Any, **options: Any) -> Any:
    return charged_metrics(*given, **{**options, "design": NO_DESIGN})


def all_rows(codes: Any, given: Any, design: Any, key: bytes, mark: Any) -> Any:
    return codes


@pytest.mark.parametrize(
    ("name", "wrong"), [("charged_metrics", noise_of_a_row), ("rows_of", all_rows)]
)
def test_mistakes_are_found(
    name: str, wrong: Any, made: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, name, wrong)
    pair = neighbours(frame(60), UNITS)[0]
    result = replay_published(pair.table, pair.neighbour, made, UNITS, epsilon=1.0)
    assert (result.first_difference or "").startswith("mechanism 1 (report): its input moved by")


def test_a_report_states_its_unit_and_counts_what_is_used(
    made: pd.DataFrame, tmp_path: Any
) -> None:
    report = evaluate_private(table(), made, schema=UNITS, epsilon=50.0)
    assert "for adding or removing all records of one 'unit'" in report.to_dict()["statement"]
    assert report.to_dict()["unit"] == "unit"
    (rows,) = (m for m in report.evaluation.metrics if m.key == "rows")
    assert abs(rows.synthetic.value - 45) < 12  # 15 units of 4 rows, of which 3 are used
    assert "At most 3 rows of each unit" in rows.reading
    report.to_html(tmp_path / "r.html")
    assert "all records of one" in (tmp_path / "r.html").read_text()
    json.dumps(report.to_dict(), allow_nan=False)


def test_a_report_is_on_a_ledger_of_its_unit(tmp_path: Any) -> None:
    ProjectLedger.create(tmp_path / "rows", epsilon=500.0)
    ProjectLedger.create(tmp_path / "units", epsilon=500.0, unit="unit")
    real, synthetic = table(), fitted(ledger=tmp_path / "units")
    options: dict[str, Any] = {"schema": UNITS, "epsilon": 1.0}
    with pytest.raises(InputError, match="was not made under ledger rows"):
        evaluate_private(real, synthetic, **options, ledger=tmp_path / "rows")
    report = evaluate_private(real, synthetic, **options, ledger=tmp_path / "units")
    assert report.evaluation.project is not None and report.evaluation.project["unit"] == "unit"
    assert len(ProjectLedger.read(tmp_path / "units").runs()) == 2


def test_units_that_cannot_be_used_are_refused(made: pd.DataFrame) -> None:
    options: dict[str, Any] = {"schema": UNITS, "epsilon": 1.0}
    with pytest.raises(InputError, match="lacks column 'unit', the unit of the schema"):
        evaluate_private(table().drop(columns="unit"), made, **options)
    with pytest.raises(InputError, match="Column 'unit' has a null"):
        evaluate_private(table().assign(unit=None), made, **options)
