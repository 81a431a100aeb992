"""Replays with neighbours that differ in a whole unit: what is used of a unit, and how much noise hides it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from record_replay import KINDS, neighbours, record_contents, replay
from record_replay.neighbours import EXCESS
from record_replay.units import as_unit
from replay_readers import COUNTED, FORMS, READ_SCHEMA, read_table_of
from replayed_tables import EPSILON, SCHEMA, checked, frame
from systems import make_tiny_model
from systems.form import with_unit

from tabsynth.auditing.canary_counts import audit_counts
from tabsynth.auditing.outcomes import NOT_REFUTED, REFUTED
from tabsynth.auditing.replay import ReplayResult
from tabsynth.auditing.request import AuditRequest
from tabsynth.auditing.run_trace import RecordRandomness
from tabsynth.design import Design
from tabsynth.encoding import TableEncoder, rows
from tabsynth.synthesizers.margnet import measurement
from tabsynth.tables.frames import to_pandas

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
NAME = "margnet, unit"
UNITS = with_unit(SCHEMA, 3)
Patch = pytest.MonkeyPatch


def test_each_kind_of_neighbour_is_a_unit_beyond_its_bound() -> None:
    """All its rows are new, and all others are as they were; its name is of another type in some."""
    listed = neighbours(frame(60), UNITS, seed=2)
    assert [(n.kind, n.change) for n in listed] == [
        (k, c) for k in KINDS for c in ("added", "removed")
    ]
    types = set()
    for pair in listed[::2]:
        names = rows.names_of(pair.neighbour["unit"])
        (new,) = set(names) - set(rows.names_of(pair.table["unit"]))
        assert (names == new).sum() == 3 + EXCESS
        rest = pair.neighbour[names != new].reset_index(drop=True)
        assert rows.names_of(rest["unit"]).tolist() == rows.names_of(pair.table["unit"]).tolist()
        columns = list(SCHEMA.names)
        encoder = TableEncoder(SCHEMA)
        assert (encoder.to_index(rest[columns]) == encoder.to_index(pair.table[columns])).all()
        types.add(str(pair.neighbour["unit"].dtype))
    assert types == {"int64", "float64", "object"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "change"), [("outlier", "added"), ("null", "removed"), ("extreme", "added")]
)
def test_a_unit_more_or_less_changes_releases_alone(kind: str, change: str) -> None:
    """Those of the systems are in ``test_replay_systems``, all kinds of them in reports/audits."""
    listed = neighbours(frame(60), UNITS, seed=KINDS.index(kind))
    (pair,) = (n for n in listed if (n.kind, n.change) == (kind, change))
    checked(NAME, pair, 2 if change == "added" else None)


@pytest.mark.slow
def test_an_empty_table_and_one_unit() -> None:
    one = frame(4).assign(unit=7)
    for table, neighbour in ((one[:0], one), (one, one[:0])):
        result = replay(make_tiny_model(NAME, SCHEMA, epsilon=EPSILON), table, neighbour, seed=2)
        assert result.passes, result.first_difference
        assert 0.5 < result.worst_move <= 1 + 1e-9


def test_a_unit_that_changes_is_two() -> None:
    """One record more of a unit may change which of its rows are used, as removing and adding the unit does."""
    table = frame(40).assign(unit=np.arange(40) // 4)
    more = pd.concat([table, frame(1, seed=9).assign(unit=3)], ignore_index=True)
    result = replay(make_tiny_model(NAME, SCHEMA, epsilon=EPSILON), table, more, seed=1)
    assert result.passes and result.worst_move <= 2 + 1e-9


def test_records_of_a_trace_are_units() -> None:
    """Wherever their rows stand among others; a unit with another row is another record."""
    encoder, key = TableEncoder(UNITS), bytes(16)
    table = frame(30).assign(unit=np.arange(30) % 10)
    order = np.argsort(np.random.default_rng(0).random(10))[table["unit"]] * 3 + np.arange(30) // 10
    shuffled = table.iloc[np.argsort(order, kind="stable")]
    changed = table.assign(b=table["b"] ^ (table["unit"] == 4))
    one, other, third = (
        record_contents(encoder.to_rows(t, key)) for t in (table, shuffled, changed)
    )
    same = RecordRandomness(one, other, seed=1)
    assert same.count == 10 and same.most == 0
    assert torch.equal(*same.records)
    assert RecordRandomness(one, third, seed=1).most == 2


# Mistakes, as patches.


def replayed() -> ReplayResult:
    (pair,) = (
        n for n in neighbours(frame(40), UNITS) if (n.kind, n.change) == ("outlier", "added")
    )
    model = make_tiny_model(NAME, SCHEMA, epsilon=EPSILON)
    return replay(model, pair.table, pair.neighbour, seed=1)


def noise_of_a_row(patch: Patch) -> None:
    right = measurement.NoisyCounts

    def counts(*args: Any, **options: Any) -> Any:
        return right(*args, **{**options, "bound": 1.0})

    patch.setattr(measurement, "NoisyCounts", counts)


def bound_from_the_data(patch: Patch) -> None:
    def most(names: np.ndarray, most: int, key: bytes) -> np.ndarray:
        return np.ones(len(names), dtype=bool)

    patch.setattr(rows, "rows_within_bound", most)


def chosen_among_all(patch: Patch) -> None:
    """Rows are numbered among all rows, so that those of one unit decide which are used of others."""
    right = rows.rows_within_bound

    def rows_within_bound(names: np.ndarray, most: int, key: bytes) -> np.ndarray:
        shift = int(pd.Series(names).value_counts().max())
        return right(names, most, bytes((byte + shift) % 128 for byte in key))

    patch.setattr(rows, "rows_within_bound", rows_within_bound)


def named_by_the_column(patch: Patch) -> None:
    """A float in the column makes others' names floats."""
    patch.setattr(rows, "names_of", lambda units: units.astype(object).map(str).to_numpy(object))


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [noise_of_a_row, bound_from_the_data, chosen_among_all])
def test_mistakes_are_found(mistake: Any, monkeypatch: Patch) -> None:
    mistake(monkeypatch)
    assert "its input moved by" in (replayed().first_difference or "")


@pytest.mark.slow
def test_a_name_that_follows_from_the_column_is_found(monkeypatch: Patch) -> None:
    named_by_the_column(monkeypatch)
    (pair,) = (n for n in neighbours(frame(60), UNITS) if (n.kind, n.change) == ("null", "added"))
    model = make_tiny_model(NAME, SCHEMA, epsilon=EPSILON)
    result = replay(model, pair.table, pair.neighbour, seed=1)
    assert "its input moved by" in (result.first_difference or "")


def test_the_bound_of_a_design_is_that_of_weights_and_rows() -> None:
    design = Design(weight="w", max_weight=30.0, unit="u", max_rows_per_unit=4)
    assert design.bound == 120.0 and design.rows == 4
    assert Design(unit="u", max_rows_per_unit=4).bound == 4.0 and Design().bound == 1.0


# Canaries.


class QuietMarginals(measurement.PrivateMarginals):
    """Noise of a row, where a unit has three."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.counts.bound = 1.0


@pytest.mark.slow(cases=0)
def test_a_canary_of_a_unit_shows_what_the_theory_says() -> None:
    """μ̂ of a unit of five rows, of which three are used, is near the μ that is accounted for."""
    result = {
        r.part: r
        for r in audit_counts(
            AuditRequest(method="margnet", epsilon=8.0, runs=200, datasets=as_unit(3))
        )
    }
    whole = result["whole fit"]
    assert whole.verdict == NOT_REFUTED and whole.epsilon_claimed == pytest.approx(8.0)
    assert abs(whole.mu_estimate - whole.mu_claimed) < 0.42
    assert whole.mu_lower <= whole.mu_claimed


@pytest.mark.slow
def test_noise_of_a_row_is_refuted_by_a_unit() -> None:
    result = {
        r.part: r
        for r in audit_counts(
            AuditRequest(method="margnet", epsilon=8.0, runs=150, datasets=as_unit(3)),
            measuring=QuietMarginals,
        )
    }
    assert result["whole fit"].verdict == REFUTED


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_reader_gives_units_the_same_names(form: str, tmp_path: Any) -> None:
    """R22: a unit with another type of name changes no other's; of text files, units are the texts that are there."""
    for library in {"polars": ["polars"], "Excel": ["openpyxl"]}.get(form, []):
        pytest.importorskip(library, reason=f"{library} is not installed")
    if form in COUNTED:
        pytest.skip("counts do not show units, and a fit refuses them")
    schema = with_unit(READ_SCHEMA, 2)
    table = read_table_of(20, 0).assign(unit=np.arange(20) // 4)
    names = []
    for number, last in enumerate((7, 2**53 + 1, -3)):
        given = table.assign(unit=[*table["unit"][:-1], last])
        (tmp_path / str(number)).mkdir()
        read = to_pandas(FORMS[form](given, schema, tmp_path / str(number)))
        names.append(rows.names_of(read["unit"]).tolist())
        assert names[-1][-1] == str(last) or form == "Excel"
    assert names[0][:-1] == names[1][:-1] == names[2][:-1] == [str(i // 4) for i in range(19)]
