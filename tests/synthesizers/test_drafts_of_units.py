"""Private drafts of schemas under a unit of privacy: what a unit adds, what is released, what is charged and named."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from tabsynth import InputError, MargNet, Schema
from tabsynth.design import Design
from tabsynth.drafting import private_schema
from tabsynth.drafting.budget import DraftBudget
from tabsynth.drafting.private_schema import draft_private
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.privacy.ledger.project import ProjectLedger
from tabsynth.synthesizers import MargNetConfig

SMALL = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=12)
UNIT = "patient"
KEY = bytes(16)
OPTIONS: dict[str, Any] = {"unit": UNIT, "max_rows_per_unit": 3}
DESIGN = Design(**OPTIONS)


def stays(patients: int = 600, seed: int = 0) -> pd.DataFrame:
    """Patients with one to six stays, in random order, as a text file gives them."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(patients), rng.integers(1, 7, patients))
    rng.shuffle(who)
    n = len(who)
    days = rng.integers(1, 31, n)
    ward = rng.choice(["a", "b", "c"], n, p=[0.5, 0.4, 0.1])
    table = pd.DataFrame({UNIT: who, "ward": ward, "days": days, "bmi": rng.normal(27, 4, n)})
    return table.round({"bmi": 1}).astype(str)


def draft_of(table: pd.DataFrame, mu: float = 2.0) -> private_schema._Draft:
    ledger = Ledger(math.inf if math.isinf(mu) else 9.0, 1e-5)
    return private_schema._Draft(table, DESIGN, ledger, mu, (), 0, "renyi", None)


def exact_sums(table: pd.DataFrame, drafts: dict, number: int) -> dict:
    """What a round adds up, by column, kind of question and answer."""

    def ask(columns):
        return [q for name, d in drafts.items() for q in d.questions(columns[name], number)]

    out = {}
    for question, sums in draft_of(table, math.inf)._release("sums", NoPrivacy(), ask)[0]:
        answers = range(question.size) if question.values is None else question.values
        for answer, total in zip(answers, sums.tolist(), strict=True):
            out[question.column, question.about, question.values is None, answer] = total
    return out


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("rows", [1, 2, 9])
def test_a_unit_adds_at_most_one_to_the_sums_of_a_round(number: int, rows: int) -> None:
    """In L2 norm, however many rows it has and whatever these hold; equal rows add one."""
    rng, table = np.random.default_rng(number), stays(200)
    draft = draft_of(table)
    drafts = draft._formats()
    for earlier in range(1, number):
        draft._round(drafts, earlier)
    for column in drafts.values():
        column.begin(number)
    cells = ["rare", "7", "77777", "1.25", "2031-01-01", *(f"new {i}" for i in range(9))]
    more = pd.DataFrame({name: rng.choice(cells, rows) for name in table})
    equal = pd.concat([table.head(1)] * rows, ignore_index=True)
    before = exact_sums(table, drafts, number)
    for new in (more, equal):
        new[UNIT] = "somebody"
        after = exact_sums(pd.concat([table, new], ignore_index=True), drafts, number)
        moved = [after.get(key, 0.0) - before.get(key, 0.0) for key in before | after]
        assert math.hypot(*moved) <= 1 + 1e-9
    if number == 1:
        assert math.hypot(*moved) > 0.98


@pytest.mark.parametrize("most", [1, 2, 5, 40])
@pytest.mark.parametrize("std", [0.5, 9.0, 60.0])
def test_new_values_of_one_unit_pass_with_the_probability_that_is_charged(
    most: int, std: float
) -> None:
    """For equal rows, rows that share no value, groups of equal rows, and rows that share some values at random."""
    questions, chance = 8, 1e-7
    budget = DraftBudget(mu=1.0, threshold_delta=chance, max_rows=most)
    threshold = budget.threshold(std, chance, questions)
    worst = 0.0

    def chance_of(weights: np.ndarray) -> float:
        return -math.expm1(norm.logcdf((threshold - weights) / std).sum())

    for rows in range(1, most + 1):
        for values in range(1, questions + 1):
            for equal in (1, rows, *([rows // 2] if rows % 2 == 0 else [])):  # rows in a group
                groups = rows // equal
                weights = np.full(groups * values, equal / rows / math.sqrt(values))
                worst = max(worst, chance_of(weights))
    rng = np.random.default_rng(0)
    for _ in range(50):
        weights = np.zeros(questions * 3)
        for _ in range(most):
            held = rng.choice(len(weights), rng.integers(1, questions + 1), replace=False)
            weights[held] += 1 / most / math.sqrt(len(held))
        assert chance_of(weights[weights > 0]) <= chance
    assert 0.9 * chance <= worst <= chance


def test_what_one_unit_alone_holds_is_not_released() -> None:
    """Ten thousand rows of one person are no category and no reason for missing; the same rows of many people are both."""
    table = stays(900)
    many = pd.DataFrame({UNIT: "p", "ward": "rare", "days": "9000", "bmi": "1.5"}, range(10_000))
    one = draft_private(pd.concat([table, many]), 3.0, design=DESIGN)
    assert "rare" not in one["ward"].categories
    assert one["days"].bounds[1] < 100 and not one["days"].missing
    many[UNIT] = [f"p{i}" for i in range(10_000)]
    all_of_them = draft_private(pd.concat([table, many]), 3.0, design=DESIGN)
    assert "rare" in all_of_them["ward"].categories and "9000" in all_of_them["days"].missing


def test_a_draft_states_its_unit_and_leaves_it_out(tmp_path: Any) -> None:
    design = Design(weight="days", max_weight=20.0, **OPTIONS)
    schema = draft_private(stays(), 2.0, design=design)
    assert schema.names == ("ward", "bmi") and schema.left_out == ()
    assert schema.design == design
    assert schema.released is not None and schema.released["unit"] == UNIT
    for item in schema.released["mechanisms"]:
        assert item["details"]["l2_sensitivity"] == 1.0
        assert "with weights of L2 norm 1" in item["details"]["unit"]
    schema.save(tmp_path / "s.json")
    assert Schema.load(tmp_path / "s.json") == schema
    assert "'unit': 'patient'" not in str(draft_private(stays()[["ward"]], 2.0).released)


def test_other_units_change_nothing_for_a_unit() -> None:
    """Of a unit the same rows are used, and share the same weight, whoever else is there."""
    table = stays(60)
    kept, shared = private_schema._of_units(table, DESIGN, KEY)
    assert set(shared) == {1, 2, 3} and len(kept) == len(shared)
    for unit in ("3", "11", "42"):
        others = table[table[UNIT] != unit]
        fewer, of_fewer = private_schema._of_units(others, DESIGN, KEY)
        same = kept.index.isin(others.index)
        pd.testing.assert_frame_equal(fewer, kept[same])
        assert (of_fewer == shared[same]).all()


def test_a_fit_that_drafts_protects_the_unit(tmp_path: Any) -> None:
    """One certificate names the unit of the draft and of the fit, and both are on the project's ledger of that unit."""
    for name, unit in (("rows", None), ("patients", UNIT)):
        ProjectLedger.create(tmp_path / name, epsilon=2.0, unit=unit)
    model = MargNet(epsilon=1.0, draft_options=OPTIONS, config=SMALL)
    with pytest.raises(InputError, match="Ledger rows protects one record, and this run all"):
        model.fit(stays(), ledger=tmp_path / "rows")
    with pytest.raises(InputError, match="Ledger rows protects one record, and this run all"):
        draft_private(stays(), 1.0, ledger=tmp_path / "rows", design=DESIGN)
    model.fit(stays(), ledger=tmp_path / "patients")
    certificate = model.certificate()
    assert certificate["epsilon"] <= 1.0 and certificate["project"]["unit"] == UNIT
    assert "for adding or removing all records of one 'patient'" in certificate["statement"]
    assert "at most 3 of them were used" in certificate["privacy_unit"]
    counts = next(i for i in certificate["mechanisms"] if i["purpose"] == "one-way counts")
    assert counts["details"]["l2_sensitivity"] == 3.0
    model.sample_to(tmp_path / "t.csv", 50)
    assert verify(tmp_path / "t.csv").consistent
    # Its schema counts the draft again, under the same unit alone.
    again = MargNet(model.schema_, epsilon=0.9, config=SMALL)
    with pytest.raises(InputError, match="is on a project's ledger"):
        again.fit(stays())
    again.fit(stays(), ledger=tmp_path / "patients")
    assert again.certificate()["mechanisms"][0]["purpose"] == "schema: formats of columns"


@pytest.mark.slow
def test_an_interrupted_fit_has_the_draft_and_its_unit(tmp_path: Any) -> None:
    def stop(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    def make(most: int = 3) -> MargNet:
        options = {**OPTIONS, "max_rows_per_unit": most}
        return MargNet(epsilon=1.0, draft_options=options, config=SMALL)

    first = make()
    with pytest.raises(KeyboardInterrupt):
        first.fit(stays(), checkpoint=tmp_path / "c", progress=stop)
    assert first.ledger_.unit == UNIT
    with pytest.raises(InputError, match="another fit"):
        make(2).fit(stays(), checkpoint=tmp_path / "c")
    resumed = make().fit(stays(), checkpoint=tmp_path / "c")
    assert resumed.certificate()["epsilon"] <= 1.0 and resumed.schema_.design == DESIGN


def test_what_cannot_be_used_is_refused_before_anything_is_charged() -> None:
    table = stays(50)
    null = table.assign(**{UNIT: table[UNIT].where(table.index != 4, None)})
    for given, options, message in (
        (table.drop(columns=UNIT), OPTIONS, "lacks column 'patient', the unit of the schema"),
        (null, OPTIONS, "Column 'patient' has a null"),
        (table.assign(w="-1"), {"weight": "w", "max_weight": 2.0}, "has weight '-1'"),
        (table, {"unit": UNIT}, "unit= goes with max_rows_per_unit="),
        (table, {**OPTIONS, "bound": 3}, "draft_options has 'bound'"),
    ):
        model = MargNet(epsilon=1.0, draft_options=options, config=SMALL)
        with pytest.raises(InputError, match=message):
            model.fit(given)
        assert not hasattr(model, "ledger_")
    with pytest.raises(InputError, match="has a null"):
        draft_private(null, 1.0, design=DESIGN)
    schema = draft_private(table[["ward"]], 5.0)
    model = MargNet(schema, epsilon=9.0, draft_options=OPTIONS)
    with pytest.raises(InputError, match="draft_options has unit='patient', and the schema unit"):
        model.fit(table)


def test_a_refit_that_drafts_keeps_its_unit_and_its_bound() -> None:
    model = MargNet(epsilon=0.5, draft_options=OPTIONS, config=SMALL).fit(stays())
    for options, message in (
        ({**OPTIONS, "max_rows_per_unit": 2}, "other bounds of a unit"),
        (None, "protects all records of one 'patient', and this fit one record"),
    ):
        model.set_params(draft_options=options, epsilon=9.0)
        with pytest.raises(InputError, match=message):
            model.fit(stays())
