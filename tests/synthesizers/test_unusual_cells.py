"""Cells that are no value like the others: texts among numbers and dates, numbers that stand for missing ones, and what is lost."""

import math

import numpy as np
import pandas as pd
import pytest

from tabsynth import MargNet
from tabsynth.design import NO_DESIGN
from tabsynth.drafting import private_schema
from tabsynth.drafting.formats import (
    DECIMALS,
    ELSEWHERE,
    FORMAT_NAMES,
    SHORT,
    WHOLE,
    WORD,
    distinct,
)
from tabsynth.drafting.private_schema import draft_on_ledger
from tabsynth.drafting.released_columns import Question, Rest, TextDraft
from tabsynth.drafting.released_numbers import NumberDraft, draft_of
from tabsynth.drafting.summary import summarize
from tabsynth.errors import InputError
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema.categorical import Categorical
from tabsynth.schema.schema import Schema

ROWS = 4_000
RNG = np.random.default_rng(0)
AGES = RNG.normal(50, 15, ROWS).clip(18, 95).astype(int)


def drafted(table: pd.DataFrame, seed: int = 0, mu: float = 0.5) -> Schema:
    """The draft of a table that a file declares no type of."""
    return draft_on_ledger(
        table.astype(str), mu, Ledger(math.inf if math.isinf(mu) else 9.0, 1e-5), random_state=seed
    )


def with_code(values: np.ndarray, code: object, share: float) -> np.ndarray:
    return np.where(RNG.random(len(values)) < share, str(code), values.astype(str))


@pytest.mark.parametrize("seed", range(3))
def test_texts_among_numbers_and_dates_are_reasons_for_missing(seed: int) -> None:
    days = np.datetime64("2015-01-01") + RNG.integers(0, 2_000, ROWS)
    table = pd.DataFrame(
        {
            "lab": with_code(RNG.normal(50, 10, ROWS).round(1), "k. A.", 0.1),
            "age": with_code(AGES, "unknown", 0.1),
            "titre": with_code(RNG.normal(50, 10, ROWS).round(1), "<5", 0.3),
            "seen": with_code(days, "unknown", 0.15),
        }
    )
    columns = {column.name: column for column in drafted(table, seed).columns}
    codes = {"lab": "k. A.", "age": "unknown", "titre": "<5", "seen": "unknown"}
    assert {name: dict(column.missing) for name, column in columns.items()} == {
        name: {code: WORD} for name, code in codes.items()
    }
    assert [columns[name].kind for name in codes] == ["numeric", "numeric", "numeric", "date"]


def test_texts_come_back_in_their_share() -> None:
    numbers = RNG.normal(50, 10, ROWS).round(1)
    table = pd.DataFrame(
        {"lab": with_code(numbers, "k. A.", 0.2), "g": RNG.choice(["a", "b"], ROWS)}
    )
    made = MargNet(epsilon=3, time_limit=2, random_state=0).fit(table).sample(2_000)["lab"]
    assert (made == "k. A.").mean() == pytest.approx(0.2, abs=0.03)
    values = pd.to_numeric(made[made != "k. A."])
    assert values.between(0, 100).all() and values.mean() == pytest.approx(50, abs=2)


def test_codes_of_letters_and_digits_make_a_column_of_texts() -> None:
    """So do codes with leading zeros, which numbers would lose."""
    table = pd.DataFrame(
        {
            "place": RNG.choice(["01067", "02139", "10001", "94110", "20095"], ROWS),
            "reason": RNG.choice(["250", "401", "428", "V57", "E87"], ROWS),
        }
    )
    for column in drafted(table).columns:
        assert set(column.categories) == set(table[column.name])


@pytest.mark.parametrize(("words", "kind"), [(300.0, NumberDraft), (600.0, TextDraft)])
def test_numbers_are_most_of_the_values(words: float, kind: type) -> None:
    formats = dict.fromkeys(FORMAT_NAMES, 0.0) | {DECIMALS[0]: 500.0, SHORT: words}
    assert isinstance(draft_of("x", "str", formats, 10.0, (), None), kind)


def test_many_different_texts_are_missing_and_said_to_be() -> None:
    texts = [f"see page {'x' * i}" for i in range(ROWS)]
    table = pd.DataFrame({"lab": np.where(RNG.random(ROWS) < 0.25, texts, AGES.astype(str))})
    schema = drafted(table, mu=1.0)
    assert schema["lab"].kind == "numeric" and schema["lab"].nulls
    note = (schema.released or {})["notes"]["lab"]
    low, high = note["interval"]
    assert low <= (pd.to_numeric(table["lab"], errors="coerce")).isna().mean() <= high
    assert "texts in place of values become missing" in "\n".join(summarize(schema))


def test_texts_among_numbers_are_decided_with_noise() -> None:
    """Nearly enough rows with a text: it is released in some drafts, and not in others."""
    released = 0
    for seed in range(40):
        formats = dict.fromkeys(FORMAT_NAMES, 0.0) | {WHOLE: 900.0, SHORT: 100.0}
        number = draft_of("x", "str", formats, 10.0, (), None)
        assert isinstance(number, NumberDraft)
        table = pd.DataFrame({"x": ["k. A."] * 34 + ["7"] * 300})
        ledger = Ledger(9.0, 1e-5)
        draft = private_schema._Draft(table, NO_DESIGN, ledger, 1.0, (), seed, "renyi", None)
        draft._round({"x": number}, 1)
        released += number.codes == {"k. A."}
    assert 4 <= released <= 36


@pytest.mark.parametrize("seed", range(3))
def test_numbers_that_stand_for_missing_ones_are_apart(seed: int) -> None:
    """Also beside ages of which each is common: these are a range, and the code is a value of its own."""
    table = pd.DataFrame(
        {"below": with_code(AGES, -999, 0.1), "above": with_code(AGES, 9999, 0.08)}
    )
    schema = drafted(table, seed, mu=0.8)
    for name, code in (("below", "-999"), ("above", "9999")):
        column = schema[name]
        assert dict(column.missing) == {code: ELSEWHERE}
        assert column.low >= 0 and column.high < 120  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(4))
def test_what_noise_hides_is_said(seed: int) -> None:
    """Of empty cells and values beyond the bounds, once for the table; without noise nothing is hidden."""
    table = pd.DataFrame({"age": with_code(AGES, "NA", 0.02), "sex": RNG.choice(["f", "m"], ROWS)})
    schema = drafted(table, seed, mu=0.25)
    hidden, column = (schema.released or {})["hidden"], schema["age"]
    ages = pd.to_numeric(table["age"], errors="coerce")
    beyond = (ages < column.low) | (ages > column.high)  # type: ignore[attr-defined]
    lost = beyond | (ages.isna() & (not column.nulls))
    assert lost.mean() <= hidden < 0.2
    lines = [line for line in summarize(schema) if "noise hides" in line]
    assert len(lines) == 1 and lines[0].startswith(
        f"In no column more than about {hidden:.0%} of the rows"
    )
    assert "hidden" not in (drafted(table, mu=math.inf).released or {})


def test_values_beside_released_ones_are_not_hidden() -> None:
    """Half of the rows have one of three amounts, and the others amounts of their own, which cells represent."""
    rng = np.random.default_rng(0)
    amounts = rng.uniform(0, 100, 8_000).round(4)
    amounts[:4_000] = rng.choice([12.5, 50.0, 75.25], 4_000)
    table = pd.DataFrame({"amount": amounts, "sex": rng.choice(["f", "m"], 8_000)}).astype("str")
    assert (drafted(table).released or {}).get("hidden", 0.0) < 0.05


def test_texts_that_a_column_of_whole_numbers_cannot_hold_are_said_to_be_missing() -> None:
    """Days of eight digits are numbers, and have no place for a text that was released."""
    days = pd.Series(np.datetime64("2015-01-01") + RNG.integers(0, 2_000, ROWS))
    table = pd.DataFrame(
        {"day": with_code(days.dt.strftime("%Y%m%d").to_numpy(), "not known", 0.1)}
    )
    schema = drafted(table, mu=1.0)
    column = schema["day"]
    assert column.kind == "date" and column.nulls and not column.missing
    note = (schema.released or {})["notes"]["day"]
    assert "texts in place of values become missing" in note["note"]
    assert note["share"] == pytest.approx(0.1, abs=0.03)


def test_a_table_of_many_rare_texts_has_rows_enough() -> None:
    """What its values lack are rows of each, and the error does not say that the table has too few."""
    table = pd.DataFrame({"place": [f"somewhere {'x' * (i % 900)}" for i in range(ROWS)]})
    with pytest.raises(InputError, match="no value has enough rows") as error:
        drafted(table)
    assert "too few" not in str(error.value)


@pytest.mark.parametrize(("may_hide", "kind"), [(400.0, "categorical"), (80.0, "numeric")])
def test_a_zero_that_may_hide_ones_is_a_flag(may_hide: float, kind: str) -> None:
    """A 0/1 column of which only the zeros are clear, with up to so many other values in a thousand rows."""
    formats = dict.fromkeys(FORMAT_NAMES, 0.0) | {WHOLE: 1_000.0}
    draft = draft_of("event5", "int64", formats, 40.0, (), None)
    assert isinstance(draft, NumberDraft)
    draft.rows, draft.unreleased = 1_000.0, Rest(0.0, may_hide / 2, may_hide, False)
    column = draft.between(0.0, 0.0, (), ())
    assert not isinstance(column, str) and column.kind == kind
    assert column.cells == (2 if kind == "categorical" else 1)
    assert (column.source == "catalogue: flag") == (kind == "categorical")


@pytest.mark.parametrize(("rows", "few"), [(300.0, True), (30.0, False)])
def test_values_that_several_rows_share_are_few(rows: float, few: bool) -> None:
    """Of six listed values and about a hundred different ones: 300 other rows share them, 30 do not."""
    formats = dict.fromkeys(FORMAT_NAMES, 0.0) | {WHOLE: 2_700.0}
    draft = draft_of("population", "int64", formats, 40.0, (), None)
    assert isinstance(draft, NumberDraft)
    draft.rows, draft.unreleased = 2_700.0, Rest(rows, 10.0, rows + 20, True)
    draft.covers_all, draft.values = False, {15e3, 25e3, 45e3, 125e3, 175e3, 250e3}
    sums = np.array([110.0])
    draft.learn(Question("population", np.zeros(0), 1, about="different"), sums, 40.0, sums > 0, "")
    assert draft.few == few


@pytest.mark.parametrize(
    ("nulls", "codes", "lost"),
    [
        (False, set(), {"", "500", "k. A.", None}),
        (False, {"k. A."}, {"", "500", None}),
        (True, set(), {"500"}),
    ],
)
def test_texts_that_become_a_number_are_counted(
    nulls: bool, codes: set[str], lost: set[str | None]
) -> None:
    """Where a column has no nulls, a text that was not released becomes the least value, as an empty cell does."""
    formats = dict.fromkeys(FORMAT_NAMES, 0.0) | {WHOLE: 900.0}
    draft = draft_of("age", "str", formats, 10.0, ("",), None)
    assert isinstance(draft, NumberDraft)
    draft.nulls, draft.codes = nulls, codes
    column = distinct(pd.Series(["", "3", "500", "k. A."]))
    rest = draft.rest(column)
    assert rest is not None
    values = [*column.values, None]
    assert {v for v, key in zip(values, rest.keys, strict=True) if key == 0} == lost


def rest_of(rows: float, noise: float = 20.0) -> Rest:
    """Rows with other values, of a thousand."""
    return Rest(rows, noise, rows + 2 * noise, rows > 3.5 * noise, (0.0, 1.0))


@pytest.mark.parametrize(("rows", "other"), [(40.0, "other"), (0.0, "usual")])
def test_rare_texts_have_a_category_of_their_own_if_there_are_likely_any(
    rows: float, other: str
) -> None:
    """Of a catalogue's text that a round releases beside a more common one, the latter is the most common."""
    draft = TextDraft(name="x", dtype="str", nulls=False, null_values=(), reason="", rows=1_000.0)
    known = draft.known_texts.texts
    sums = np.where(np.array(known) == "yes", 300.0, 0.0)
    question = Question("x", np.zeros(0), len(known), about="texts of the catalogue")
    draft.learn(question, sums, 10.0, sums > 100, "round 1")
    several = Question("x", np.zeros(0), 2, values=["usual", "rare"])
    draft.learn(several, np.array([500.0, 1.0]), 10.0, np.array([True, False]), "round 1")
    draft.learn_rest(rest_of(rows), "rest")
    column = draft.column()
    assert isinstance(column, Categorical) and column.other == other
    assert {*column.categories} - {"other"} == {"usual", "yes"}


def test_rows_that_become_other_are_among_the_hidden() -> None:
    draft = TextDraft(name="x", dtype="str", nulls=False, null_values=(), reason="", rows=1_000.0)
    draft.learn_rest(rest_of(150.0), "rest")
    assert draft.hidden == pytest.approx(0.19)


def test_the_unit_that_is_proposed_repeats() -> None:
    """Not a number of the row, which differs in nearly all."""
    table = pd.DataFrame(
        {
            "rownames": range(1, 1_001),
            "id": np.arange(1_000) // 2,
            "record": 7 + 3 * np.arange(1_000),
        }
    )
    table["sex"] = RNG.choice(["f", "m"], 1_000)
    schema = drafted(table, mu=1.0)
    assert {*schema.names_left_out} == {"rownames", "id", "record"}
    assert "unit='id'" in "\n".join(summarize(schema))


@pytest.mark.parametrize(("code", "missing"), [(10**16, {str(10**16)}), (2**63, set())])
def test_whole_numbers_far_from_all_others_are_written_as_such(
    code: int, missing: set[str]
) -> None:
    """Those that no column of whole numbers could hold are no reason for missing."""
    formats = dict.fromkeys(FORMAT_NAMES, 0.0) | {WHOLE: 1_000.0}
    draft = draft_of("age", "int64", formats, 40.0, (), None)
    assert isinstance(draft, NumberDraft)
    draft.rows = 1_000.0
    column = draft.between(0.0, 90.0, (), (float(code),))
    assert not isinstance(column, str) and {*column.missing} == missing


@pytest.mark.parametrize(
    ("values", "few"), [({0.0, 4.5, 14.5, 24.5, 34.5}, True), ({14.5, 999.0}, False)]
)
def test_values_whose_cells_were_set_aside_are_listed(values: set[float], few: bool) -> None:
    """The ends that remain are near each other, but not the values; a code far from these does not count."""
    formats = dict.fromkeys(FORMAT_NAMES, 0.0) | {DECIMALS[0]: 8_000.0}
    draft = draft_of("r5", "float64", formats, 40.0, (), None)
    assert isinstance(draft, NumberDraft)
    draft.rows, draft.unreleased = 8_000.0, rest_of(78.0, 47.0)
    draft.values, draft._bounds = values, (10.0, 20.0)
    sums = np.array([9.0])
    draft.learn(Question("r5", np.zeros(0), 1, about="different"), sums, 40.0, sums > 0, "")
    assert draft.few == few
