"""The search for relations by noisy counts: how far a row moves what is read, how much noise hides it, and what is charged."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from tabsynth import Categorical, InputError, Numeric, Ordinal, Schema
from tabsynth.drafting import relation_search
from tabsynth.drafting.relation_search import (
    COUNTS,
    SELECTION,
    TABLES,
    find_relations,
    selection_noise,
)
from tabsynth.drafting.relations import RANGE, Candidate, Candidates, CodedRows
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable

WARDS = {"a1": "A", "a2": "A", "b1": "B", "b2": "B", "c1": "C"}
COLUMNS = [
    Categorical(name="ward", dtype="str", categories=tuple(WARDS)),
    Categorical(name="house", dtype="str", categories=("A", "B", "C")),
    Numeric(name="age", dtype="int64", low=0, high=99, bins=100),
    Categorical(name="married", dtype="str", categories=("no", "yes"), nulls=True),
    Numeric(name="dbp", dtype="int64", low=0, high=199, bins=40),
    Numeric(name="sbp", dtype="int64", low=0, high=199, bins=40),
    Ordinal(name="score", dtype="int64", categories=tuple(range(6))),
]
SCHEMA = Schema(COLUMNS)
UNIT, MOST = "patient", 3
BOUND = {"unit": UNIT, "max_rows_per_unit": MOST}
OF_UNITS = Schema(COLUMNS, released={"mechanisms": [], **BOUND}, **BOUND)
MU = 0.5


def patients(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ward, age = rng.choice(list(WARDS), rows), rng.integers(0, 100, rows)
    sbp = rng.integers(60, 200, rows)
    return pd.DataFrame(
        {
            "ward": ward,
            "house": [WARDS[w] for w in ward],
            "age": age,
            "married": np.where(age < 16, None, rng.choice(["no", "yes"], rows)),
            "dbp": (sbp * rng.uniform(0.2, 0.95, rows)).astype(int),
            "sbp": sbp,
            "score": rng.integers(0, 6, rows),
        }
    )


def stays(units: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), rng.integers(1, 6, units))
    return patients(len(unit), seed).assign(**{UNIT: unit})


def search(table: pd.DataFrame, schema: Schema = SCHEMA, mu: float = MU) -> tuple[Schema, Ledger]:
    ledger = Ledger(50.0, 1e-5)
    ledger.unit = schema.unit
    return find_relations(table, schema, mu, ledger, None), ledger


def test_the_whole_budget_is_charged_and_no_more() -> None:
    for mu in (0.05, 0.5):
        items = search(patients(4_000), mu=mu)[1].to_list()
        spent = sum(item["count"] / item["noise_multiplier"] ** 2 for item in items)
        assert spent <= mu**2 * (1 + 1e-9)
        if len(items) == 3:
            assert math.sqrt(spent) == pytest.approx(mu)


def test_a_selection_is_dominated_by_its_gaussian() -> None:
    """The trade-off curve of every binary mechanism of that range is above that of the Gaussian mechanism."""
    for mu in (0.01, 0.3, 2.0):
        epsilon = selection_noise(mu)
        for low in np.linspace(0, epsilon, 201)[1:-1]:
            smaller = -math.expm1(low - epsilon) / (math.exp(low) - math.exp(low - epsilon))
            larger = math.exp(low) * smaller  # probabilities of one outcome on the two tables
            assert norm.ppf(larger) - norm.ppf(smaller) <= mu * (1 + 1e-6)


def test_one_row_moves_every_score_within_the_range() -> None:
    rng = np.random.default_rng(0)
    candidates = Candidates(COLUMNS)

    def table(rows: int) -> pd.DataFrame:
        return patients(rows, int(rng.integers(99)))

    def scores(rows: pd.DataFrame) -> np.ndarray:
        coded = CodedRows.of(rows, COLUMNS)
        return np.concatenate([gains for _, gains in candidates.scores(coded)])

    before = table(60)
    for _ in range(20):
        moved = scores(pd.concat([before, table(1)])) - scores(before)
        assert moved.min() >= -2 - 1e-9 and moved.max() <= 1 + 1e-9


def test_selections_are_as_random_as_they_are_charged() -> None:
    """Of two candidates the better one is drawn with the probability of the exponential mechanism."""
    candidates, ledger = Candidates(COLUMNS), Ledger(1.0, 1e-5)
    rows = PrivateTable(CodedRows.of(patients(5), COLUMNS), ledger)
    parts = relation_search._Search(candidates, rows, ledger, 0.3, 1, 0)
    parts._most = 1
    both = [Candidate("order", (0, 1)), Candidate("order", (1, 0))]
    drawn = [parts._draw(both, np.array([0.0, 4.0]), 0.25)[0].columns[0] for _ in range(2_000)]
    wanted = 1 / (1 + math.exp(-1))
    assert abs(np.mean(drawn) - wanted) < 4 * math.sqrt(wanted * (1 - wanted) / 2_000)


def added_noise(monkeypatch: pytest.MonkeyPatch) -> dict[float, list[np.ndarray]]:
    """What releases add to counts, by the standard deviation that they state, seen from outside."""
    added: dict[float, list[np.ndarray]] = {}
    noisy = relation_search.samplers.noisy

    def seen(values, std, bits, **options):
        out = noisy(values, std, bits, **options)
        added.setdefault(round(std, 6), []).append(np.ravel(out - values))
        return out

    monkeypatch.setattr(relation_search.samplers, "noisy", seen)
    return added


def test_every_count_has_the_noise_of_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    added = added_noise(monkeypatch)
    found, ledger = search(patients(20_000))
    assert {"house follows from ward", "dbp <= sbp"} <= {rule.text for rule in found.rules}
    listed = {item["purpose"]: item for item in ledger.to_list()}
    for stage in (TABLES, COUNTS):
        item = listed[f"schema: {stage}"]
        number = item["details"]["rules"]
        std = item["noise_multiplier"] * math.sqrt(number)
        noise = added[round(std, 6)]
        assert len(noise) == number > 1
        assert np.concatenate(noise).std() == pytest.approx(std, rel=0.5)


def test_noise_and_selection_are_of_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts have the noise of as many rows as the bound; a selection is as flat as their scores ask for."""
    added, sharp = added_noise(monkeypatch), []
    drawn = relation_search._Search._draw

    def noted(self, candidates, scores, sharpness):
        sharp.append(sharpness)
        return drawn(self, candidates, scores, sharpness)

    monkeypatch.setattr(relation_search._Search, "_draw", noted)
    found, ledger = search(stays(8_000), OF_UNITS, gaussian_mu(4.0, 1e-5))
    assert "house follows from ward" in {rule.text for rule in found.rules}
    selection, *rules = ledger.to_list()
    assert selection["purpose"] == f"schema: {SELECTION}" and len(rules) == 2
    for item in rules:
        number = item["details"]["rules"]
        assert item["details"]["l2_sensitivity"] == MOST * math.sqrt(number)
        std = MOST * item["noise_multiplier"] * math.sqrt(number)
        assert np.concatenate(added[round(std, 6)]).std() == pytest.approx(std, rel=0.5)
    assert sharp[0] == selection_noise(1 / selection["noise_multiplier"]) / (RANGE * MOST)


def test_only_so_many_rows_of_a_unit_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit of ten thousand rows makes no rule, and breaks none."""
    table, rows = stays(300), []
    one = table.head(1).assign(**{UNIT: -1}).loc[[0] * 10_000]
    real = relation_search.PrivateTable

    def kept(index, ledger):
        rows.append(index)
        return real(index, ledger)

    monkeypatch.setattr(relation_search, "PrivateTable", kept)
    search(pd.concat([table, one]), OF_UNITS)
    bounded = table[UNIT].value_counts().clip(upper=MOST).sum()
    assert len(rows[0]) == bounded + MOST


def test_units_that_cannot_be_used_are_refused() -> None:
    table = stays(20)
    with pytest.raises(InputError, match="lacks column 'patient', the unit of the schema"):
        search(table.drop(columns=UNIT), OF_UNITS)
    with pytest.raises(InputError, match="Column 'patient' has a null"):
        search(table.assign(patient=[None] * len(table)), OF_UNITS)
