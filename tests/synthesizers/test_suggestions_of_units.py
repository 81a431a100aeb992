"""Suggested rules under a unit of privacy: which rows are read, and how much noise hides a unit."""

import math

import numpy as np
import pandas as pd
import pytest

from tabsynth import Categorical, InputError, MargNet, Numeric, Schema
from tabsynth.drafting import suggestions
from tabsynth.drafting.relations import RANGE
from tabsynth.drafting.suggestions import selection_noise, suggest_constraints
from tabsynth.privacy.accounting.accountants import epsilon_of
from tabsynth.privacy.accounting.mechanisms import mechanism_from
from tabsynth.synthesizers import MargNetConfig

WARDS = {"a1": "A", "a2": "A", "b1": "B", "c1": "C"}
COLUMNS = [
    Categorical(name="ward", dtype="str", categories=tuple(WARDS)),
    Categorical(name="house", dtype="str", categories=("A", "B", "C")),
    Numeric(name="age", dtype="int64", low=0, high=99, bins=20),
    Categorical(name="married", dtype="str", categories=("no", "yes"), nulls=True),
]
UNIT, MOST = "patient", 3
SCHEMA = Schema(COLUMNS, unit=UNIT, max_rows_per_unit=MOST)


def stays(patients: int = 4_000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(patients), rng.integers(1, 6, patients))
    rows = len(who)
    ward, age = rng.choice(list(WARDS), rows), rng.integers(0, 100, rows)
    return pd.DataFrame(
        {
            UNIT: who,
            "ward": ward,
            "house": [WARDS[w] for w in ward],
            "age": age,
            "married": np.where(age < 20, None, rng.choice(["no", "yes"], rows)),
        }
    )


def test_rules_are_found_within_the_budget() -> None:
    suggested = suggest_constraints(stays(), SCHEMA, 2.0)
    assert "house follows from ward" in [rule.text for rule in suggested.suggested_rules]
    released = suggested.released
    assert released is not None and released["unit"] == UNIT and not released["seeded"]
    spends = [(mechanism_from(item), item["count"]) for item in released["mechanisms"]]
    assert 1.99 < epsilon_of(spends, 1e-5) <= 2.0
    sensitivities = [item["details"].get("l2_sensitivity") for item in released["mechanisms"]]
    assert sensitivities[0] == MOST * 2.0  # √4 columns
    model = MargNet(suggested, epsilon=3.0, config=MargNetConfig(steps=5)).fit(stays(300))
    assert "all records of one 'patient'" in model.certificate()["statement"]
    with pytest.raises(InputError, match="privacy costs do not add up"):
        Schema(COLUMNS, released=released, suggested=suggested.suggested)


def test_noise_and_selection_are_of_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts have the noise of as many rows as the bound; a selection is as flat as their scores ask for."""
    added: dict[float, list[np.ndarray]] = {}
    sharp = []
    noisy, drawn = suggestions.samplers.noisy, suggestions._Suggestions._draw

    def seen(values, std, bits, **options):
        out = noisy(values, std, bits, **options)
        added.setdefault(round(std, 6), []).append(np.ravel(out - values))
        return out

    def noted(self, candidates, scores, sharpness):
        sharp.append(sharpness)
        return drawn(self, candidates, scores, sharpness)

    monkeypatch.setattr(suggestions.samplers, "noisy", seen)
    monkeypatch.setattr(suggestions._Suggestions, "_draw", noted)
    released = suggest_constraints(stays(), SCHEMA, 2.0).released
    assert released is not None
    columns, selection, *rules = released["mechanisms"]
    assert len(rules) == 2
    for item in (columns, *rules):
        number = item["details"].get("rules", len(COLUMNS))
        std = MOST * item["noise_multiplier"] * math.sqrt(number)
        noise = np.concatenate(added[round(std, 6)])
        assert noise.std() == pytest.approx(std, rel=0.3)
    assert sharp[0] == selection_noise(1 / selection["noise_multiplier"]) / (RANGE * MOST)


def test_only_so_many_rows_of_a_unit_are_read() -> None:
    """A unit of ten thousand rows makes no rule, and breaks none."""
    table = stays(300)
    one = pd.DataFrame(
        {UNIT: -1, "ward": "a1", "house": "C", "age": 5, "married": "yes"}, range(10_000)
    )
    rows = []
    real = suggestions.PrivateTable

    def kept(index, ledger):
        rows.append(index)
        return real(index, ledger)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suggestions, "PrivateTable", kept)
        suggest_constraints(pd.concat([table, one]), SCHEMA, math.inf)
    bounded = table[UNIT].value_counts().clip(upper=MOST).sum()
    assert len(rows[0]) == bounded + MOST


def test_units_that_cannot_be_used_are_refused() -> None:
    table = stays(20)
    with pytest.raises(InputError, match="lacks column 'patient', the unit of the schema"):
        suggest_constraints(table.drop(columns=UNIT), SCHEMA, 1.0)
    with pytest.raises(InputError, match="Column 'patient' has a null"):
        suggest_constraints(table.assign(patient=[None] * len(table)), SCHEMA, 1.0)
