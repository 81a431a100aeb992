"""Rules that noisy counts suggest: found where they hold, charged, and not suggested where they do not hold."""

import math

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run
from scipy.stats import norm

from tabsynth import Categorical, MargNet, Numeric, Ordinal, Schema
from tabsynth.drafting import suggestions
from tabsynth.drafting.relations import Candidate, Candidates, CodedRows
from tabsynth.drafting.suggestions import COLUMNS as COLUMNS_STAGE
from tabsynth.drafting.suggestions import COUNTS as RULES_STAGE
from tabsynth.drafting.suggestions import (
    FORMS,
    MOST_CELLS,
    TABLES,
    selection_noise,
    suggest_constraints,
)
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import epsilon_of
from tabsynth.privacy.accounting.mechanisms import mechanism_from
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


def texts(schema: Schema) -> list[str]:
    return [rule.text for rule in schema.suggested_rules]


def test_rules_that_hold_are_found_and_no_others() -> None:
    table = patients(20_000)
    suggested = suggest_constraints(table, SCHEMA, 1.0)
    found = texts(suggested)
    assert "house follows from ward" in found and "dbp <= sbp" in found
    assert any("if age is 0 to 1" in text and "married is null" in text for text in found)
    assert not any("score" in text for text in found)
    for item, rule in zip(suggested.suggested, suggested.suggested_rules, strict=True):
        assert rule.violations(table).mean() < 0.01 and item["share"] < 0.02
    table_of = next(i["rule"]["table"] for i in suggested.suggested if "derive" in i["rule"])
    assert dict(table_of) == WARDS


def test_nothing_is_suggested_of_unrelated_columns() -> None:
    rng = np.random.default_rng(1)
    table = patients(5_000).apply(lambda column: rng.permutation(column))
    assert texts(suggest_constraints(table[list(SCHEMA.names)], SCHEMA, 1.0)) == []


def test_the_whole_budget_is_charged_and_no_more() -> None:
    for epsilon in (0.1, 2.0):
        released = suggest_constraints(patients(500), SCHEMA, epsilon).released
        spends = [(mechanism_from(i), i["count"]) for i in released["mechanisms"]]
        assert epsilon * 0.999 < epsilon_of(spends, 1e-5) <= epsilon
        assert not released["seeded"]


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
    flags = [Categorical(name=f"flag{j}", dtype="int64", categories=(0, 1)) for j in range(3)]
    columns = [*COLUMNS, *flags]
    candidates = Candidates(columns, (), MOST_CELLS)

    def table(rows: int) -> pd.DataFrame:
        values = {c.name: rng.integers(0, 2, rows) for c in flags}
        return patients(rows, int(rng.integers(99))).assign(**values)

    def scores(rows: pd.DataFrame) -> np.ndarray:
        coded = CodedRows.of(rows, columns)
        return np.concatenate([s for _, s in candidates.scores(FORMS, coded, [0.3] * len(columns))])

    before = table(60)
    for _ in range(20):
        moved = scores(pd.concat([before, table(1)])) - scores(before)
        assert moved.min() >= -2 - 1e-9 and moved.max() <= 1 + 1e-9


def test_selections_are_as_random_as_they_are_charged() -> None:
    """Of two candidates the better one is drawn with the probability of the exponential mechanism."""
    candidates, ledger = Candidates(COLUMNS, (), MOST_CELLS), Ledger(1.0, 1e-5)
    rows = PrivateTable(CodedRows.of(patients(5), COLUMNS), ledger)
    parts = suggestions._Suggestions(candidates, rows, ledger, 0.3, 1, 0)
    parts._most = 1
    both = [Candidate("null", (0, 1)), Candidate("null", (1, 0))]
    drawn = [parts._draw(both, np.array([0.0, 4.0]), 0.25)[0].columns[0] for _ in range(2_000)]
    wanted = 1 / (1 + math.exp(-1))
    assert abs(np.mean(drawn) - wanted) < 4 * math.sqrt(wanted * (1 - wanted) / 2_000)


def test_every_count_has_the_noise_of_its_stage(monkeypatch) -> None:
    """What a release adds to the counts of columns and of rules, seen from outside."""
    added: list[tuple[float, np.ndarray]] = []
    noisy = suggestions.samplers.noisy

    def seen(values, std, bits, **options):
        out = noisy(values, std, bits, **options)
        added.append((std, np.ravel(out - values)))
        return out

    monkeypatch.setattr(suggestions.samplers, "noisy", seen)
    suggested = suggest_constraints(patients(20_000), SCHEMA, 1.0)
    listed = {i["purpose"]: i for i in suggested.released["mechanisms"]}
    for stage, sets in ((COLUMNS_STAGE, "columns"), (TABLES, "rules"), (RULES_STAGE, "rules")):
        item = listed[f"suggestions: {stage}"]
        number = item["details"][sets]
        std = item["noise_multiplier"] * math.sqrt(number)
        noise = [values for s, values in added if math.isclose(s, std)]
        assert len(noise) == number
        assert np.concatenate(noise).std() == pytest.approx(std, rel=0.3)


def test_a_fit_counts_the_suggestions_and_does_not_hold_them() -> None:
    suggested = suggest_constraints(patients(3_000), SCHEMA, 0.5)
    model = MargNet(suggested, epsilon=1)
    plan = model.plan(estimate_time=False)
    without = MargNet(SCHEMA, epsilon=1).plan(estimate_time=False)
    noise = [p.spends[-1].mechanism.noise_multiplier for p in (plan, without)]
    assert plan.epsilon <= 1 and noise[0] > noise[1]
    assert suggested.suggested and not suggested.has_rules


@pytest.mark.parametrize("rows", [0, 1])
def test_small_tables_give_no_suggestion(rows: int) -> None:
    assert not suggest_constraints(patients(5).head(rows), SCHEMA, 0.5).suggested


def test_what_cannot_be_suggested_is_refused() -> None:
    with pytest.raises(InputError, match="need two columns"):
        suggest_constraints(patients(5)[["ward"]], Schema(COLUMNS[:1]), 1.0)
    with pytest.raises(InputError, match="does not know"):
        suggest_constraints(patients(5).assign(more=1), SCHEMA, 1.0)
    with pytest.raises(InputError, match="epsilon"):
        suggest_constraints(patients(5), SCHEMA, -1.0)


def test_the_command_writes_suggestions(tmp_path) -> None:
    patients(6_000).to_csv(tmp_path / "t.csv", index=False)
    SCHEMA.save(tmp_path / "s.json")
    words = ("schema", "suggest", "t.csv", "s.json")
    said = run(*words, "--epsilon", 1, "-o", "t.json", cwd=tmp_path)
    assert "house follows from ward" in said.stdout + said.stderr
    assert "counts in every fit" in said.stdout + said.stderr
    assert Schema.load(tmp_path / "t.json").suggested
    words = ("fit", "t.csv", "--schema", "t.json", "--epsilon", 0.9, "-o", "m")
    refused(*words, cwd=tmp_path, says="raise --epsilon")
