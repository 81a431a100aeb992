"""Private drafts of schemas: what they charge, what they release, and what never leaves."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, norm

from tabsynth import MargNet, Schema, read_table
from tabsynth.design import NO_DESIGN
from tabsynth.drafting import private_schema, released_columns, released_numbers
from tabsynth.drafting.budget import DraftBudget
from tabsynth.drafting.drafts import draft_schema
from tabsynth.drafting.formats import FORMAT_NAMES as FORMATS
from tabsynth.drafting.identifiers import RECORD_NUMBERS
from tabsynth.drafting.partition import Partition, edges_of_numbers, round_numbers
from tabsynth.drafting.private_schema import draft_private
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import epsilon_of, gaussian_epsilon
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
    NoPrivacy,
    ThresholdedGaussian,
    mechanism_from,
)
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.privacy.noise import samplers
from tabsynth.schema.conforming import conform
from tabsynth.schema.numeric import DEFAULT_BINS

ROWS = 4_000
NEAR = dict.fromkeys(FORMATS, 0.0) | {"text": 9.0}  # released formats of a column of texts


def patients(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """A hospital's table as a CSV file gives it: texts alone."""
    rng = np.random.default_rng(seed)
    day = pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.integers(0, 500, rows), "D")
    return pd.DataFrame(
        {
            "mrn": [f"M{i:07}" for i in rng.permutation(rows)],
            "contact": [f"p{i}@mail.example" for i in range(rows)],
            "remark": [f"seen by nurse {i} on ward {i % 7} today" for i in range(rows)],
            "sex": rng.choice(["f", "m"], rows),
            "age": rng.integers(0, 98, rows).astype(str),
            "bmi": rng.normal(27, 4, rows).round(1).astype(str),
            "admitted": day.strftime("%Y-%m-%d"),
            "smoker": rng.choice(["yes", "no", "NA"], rows, p=[0.2, 0.5, 0.3]),
            "diagnosis": rng.choice(
                ["E11", "I10", "J45", "Q99.8"], rows, p=[0.4, 0.4, 0.199, 0.001]
            ),
        }
    ).replace("NA", None)


def test_the_cost_is_that_of_an_independent_computation() -> None:
    """δ of the whole is that of its Gaussians, exactly, plus that of the thresholds."""
    schema = draft_private(patients(), 0.7, 1e-6)
    assert schema.released is not None
    mechanisms = [mechanism_from(item) for item in schema.released["mechanisms"]]
    thresholds = [m for m in mechanisms if isinstance(m, ThresholdedGaussian)]
    assert len(thresholds) == len(private_schema.ROUNDS) and len(mechanisms) in (
        len(thresholds) + 2,
        len(thresholds) + 3,
    )
    mu = math.sqrt(sum(m.noise_multiplier**-2 for m in mechanisms))  # type: ignore[union-attr]
    delta = 1e-6 - sum(m.threshold_delta for m in thresholds)
    # Balle and Wang 2018, Theorem 8, written out.
    spent = norm.cdf(mu / 2 - 0.7 / mu) - math.exp(0.7) * norm.cdf(-mu / 2 - 0.7 / mu)
    assert spent == pytest.approx(delta, rel=1e-3)
    spends = [(m, 1) for m in mechanisms]
    assert epsilon_of(spends, 1e-6) == pytest.approx(0.7, rel=1e-3)
    assert epsilon_of(spends, 1e-6) == pytest.approx(gaussian_epsilon(mu, delta), rel=1e-9)
    assert math.isinf(epsilon_of(spends, 0.999 * (1e-6 - delta)))


def draft_of_rows(
    table: pd.DataFrame, mu: float = 0.3, seed: int | None = 0
) -> private_schema._Draft:
    ledger = Ledger(math.inf if math.isinf(mu) else 9.0, 1e-5)
    return private_schema._Draft(table, NO_DESIGN, ledger, mu, (), seed, "renyi", None)


def exact_sums(table: pd.DataFrame, drafts: dict, number: int) -> dict:
    """What a round adds up, by column, kind of question and answer."""
    draft = draft_of_rows(table, math.inf)

    def ask(columns):
        return [q for name, d in drafts.items() for q in d.questions(columns[name], number)]

    counts, _ = draft._release("sums", NoPrivacy(), ask)
    out = {}
    for question, sums in counts:
        answers = range(question.size) if question.values is None else question.values
        for answer, total in zip(answers, sums.tolist(), strict=True):
            out[question.column, question.about, question.values is None, answer] = total
    return out


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("number", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_a_row_adds_at_most_one_to_the_sums_of_a_round(number: int, seed: int) -> None:
    """In L2 norm, whatever the row holds and whatever earlier rounds released."""
    rng = np.random.default_rng(seed)
    table = patients(1_500, seed).drop(columns=["mrn", "contact", "remark"])
    table["income"] = (rng.lognormal(9, 1, 1_500) // 10 * 10).astype(int).astype(str)
    draft = draft_of_rows(table, 2.0)
    drafts = draft._formats()
    for earlier in range(1, number):
        draft._round(drafts, earlier)
    row = {name: rng.choice(["rare", "7", "77777", "1.25", "2031-01-01", None]) for name in table}
    more = pd.concat([table, pd.DataFrame([row])], ignore_index=True).astype("str")
    before, after = (exact_sums(t, drafts, number) for t in (table, more))
    moved = [after.get(key, 0.0) - before.get(key, 0.0) for key in before | after]
    assert math.sqrt(sum(m * m for m in moved)) <= 1 + 1e-9
    assert drafts and before
    if number == 1:  # nor is the noise for more than that: each column has a value to count
        full = exact_sums(pd.concat([table, table.head(1)], ignore_index=True), drafts, 1)
        assert sum((full[key] - value) ** 2 for key, value in before.items()) > 0.9


@pytest.mark.parametrize("questions", [1, 4, 40])
@pytest.mark.parametrize("std", [0.5, 9.0, 60.0])
def test_new_values_of_one_record_pass_with_the_probability_that_is_charged(
    questions: int, std: float
) -> None:
    chance = 1e-7
    budget = DraftBudget(mu=1.0, threshold_delta=chance)
    threshold = budget.threshold(std, chance, questions)
    worst = 0.0
    for k in range(1, questions + 1):  # values that only this record has, each of weight 1/√k
        pass_one = norm.sf((threshold - 1 / math.sqrt(k)) / std)
        worst = max(worst, -math.expm1(k * math.log1p(-pass_one)))
    assert 0.9 * chance <= worst <= chance


def test_a_filter_has_what_thresholds_leave_of_delta() -> None:
    mechanism = ThresholdedGaussian(noise_multiplier=5.0, threshold_delta=1e-6)
    item = {"purpose": "draft", **mechanism.to_dict(), "count": 1, "earlier": True}
    ledger = Ledger.from_list(1.0, 1e-5, [item])
    assert ledger.filter.delta == pytest.approx(9e-6)


def test_what_is_released_describes_the_table() -> None:
    schema = draft_private(patients(), 2.0)
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "sex": "categorical",
        "age": "numeric",
        "bmi": "numeric",
        "admitted": "date",
        "smoker": "categorical",
        "diagnosis": "hierarchy",
    }
    assert set(schema["sex"].categories) == {"f", "m"}  # all others are not clearly more than none
    age, bmi = schema["age"], schema["bmi"]
    assert abs(age.low) <= 3 and abs(age.high - 97) <= 3 and age.dtype == "int64"  # type: ignore[attr-defined]
    assert bmi.resolution == 0.1 and 10 <= bmi.low <= 20 and 35 <= bmi.high <= 50  # type: ignore[attr-defined]
    days = patients()["admitted"]
    ends = [pd.Timestamp(end) for end in (schema["admitted"].low, schema["admitted"].high)]  # type: ignore[attr-defined]
    for end, real in zip(ends, (days.min(), days.max()), strict=True):
        assert abs(end - pd.Timestamp(real)) < pd.Timedelta("35 days")
    assert schema["smoker"].nulls and not schema["sex"].nulls
    assert "Q99.8" not in schema["diagnosis"].categories  # four rows
    assert schema.names_left_out == ("mrn", "contact", "remark")


def test_no_identifier_leaves() -> None:
    table = patients()
    table["code"] = [f"{i:08x}-aaaa-4bbb-8ccc-{i:012x}" for i in range(ROWS)]
    model = MargNet(epsilon=1).fit(table)
    made = model.sample(ROWS)
    assert not {"mrn", "contact", "remark", "code"} & set(made)
    texts = model.schema_.to_json()
    for value in [*table["mrn"], *table["contact"], *table["code"]]:
        assert value not in texts


def test_towns_are_no_names_of_persons() -> None:
    """Texts that look like names are kept where they repeat; many that do are names of persons all the same."""
    rng = np.random.default_rng(0)
    first, last = (
        ["Ann", "Bea", "Cleo", "Dora", "Eva", "Fay", "Gil", "Hal"],
        ["Lee", "Kim", "Poe", "Orr", "Roy", "May", "Ray", "Day"],
    )
    towns = ["New York", "Los Angeles", "San Diego", "Santa Fe"]
    table = pd.DataFrame(
        {
            "residence": rng.choice(towns, 6_000),
            "answer": rng.choice(["It was of great use to me", "It was of no use to me"], 6_000),
            "doctor": [f"{first[i % 8]} {last[i // 8 % 8]}" for i in range(6_000)],
            "who": [f"{first[i % 8]} {last[i % 7]}{'abcdefghij'[i % 10]}{'klmnopqrst'[i // 10 % 10]}"
                    f"{'uvwxyzabcd'[i // 100 % 10]}{'efghijklmn'[i // 1_000]}" for i in range(6_000)],
        }
    )  # fmt: skip
    schema = draft_private(table, 3.0, random_state=1)
    assert {*schema["residence"].categories} >= {*towns}
    assert len(schema["answer"].categories) >= 2
    left_out = {item["name"]: item["reason"] for item in schema.left_out}
    assert left_out.keys() == {"doctor", "who"}
    assert all("names of persons" in reason for reason in left_out.values())


def test_budgets_are_no_record_numbers_and_numbers_of_patients_are() -> None:
    """By how many different values there are, whatever their length and the name of the column."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"budget": rng.integers(10**6, 9 * 10**6, 4_000).repeat(2)})
    table["pidnum"] = rng.choice(90_000, 8_000, replace=False) + 10_000
    for schema in (draft_private(table, 2.0, random_state=0), draft_schema(table)):
        assert schema.names == ("budget",) and schema["budget"].kind == "numeric"
        assert [*schema.left_out] == [{"name": "pidnum", "reason": RECORD_NUMBERS}]


def test_ten_thousand_rare_values_are_not_released() -> None:
    """Each is held by one person; the thresholds let one out with probability 10⁻⁶ in all."""
    texts = [f"rare {i}" for i in range(10_000)] + ["common"] * 5_000
    (column,), left = draft_of_rows(pd.DataFrame({"x": texts})).columns(None, False)
    assert column.categories == ("common", "other") and not left


def test_the_maximum_is_hidden_as_well_as_epsilon_says() -> None:
    """10,000 trials with and 10,000 without a record that alone has the largest value."""
    delta, trials, std = 1e-5, 10_000, 4.0  # the record has a weight of 1 in this column at most
    epsilon = epsilon_of([(Gaussian(noise_multiplier=std), 1)], delta)
    edges = edges_of_numbers(None)
    usual, place = (int(np.searchsorted(edges, x, side="right")) - 1 for x in (50, 150))
    bits = np.random.default_rng(0)
    found = []
    for extra in (0, 1):
        found.append(0)
        for noisy in samplers.noisy(np.full(trials, extra), std, bits, whole=True):
            partition = Partition(edges, round_numbers(None), lambda low, high: math.inf)
            sums = np.zeros(len(edges) - 1)
            sums[usual], sums[place] = 1_000.0, noisy
            partition.learn(sums, std)
            found[-1] += partition.ends() != (usual, usual)
    false_rate = beta.ppf(0.9995, found[0] + 1, trials - found[0])
    true_rate = beta.ppf(0.0005, max(found[1], 1), trials - found[1] + 1) if found[1] else 0.0
    assert true_rate <= math.exp(epsilon) * false_rate + delta
    assert found[0] < 0.01 * trials


@pytest.mark.parametrize("shuffled", [1, 2])
def test_the_order_of_rows_changes_nothing(shuffled: int) -> None:
    table = patients()
    other = table.sample(frac=1, random_state=shuffled)
    drafts = [draft_private(t, 2.0, random_state=3) for t in (table, other)]
    assert drafts[0] == drafts[1]


def test_rows_conform_one_by_one() -> None:
    table = patients(40)
    schema = draft_private(patients(), 2.0)
    table.loc[0, "age"], table.loc[1, "age"], table.loc[2, "age"] = "old", "-5", None
    table.loc[3, "admitted"], table.loc[4, "sex"], table.loc[5, "bmi"] = "soon", None, "1e99"
    whole = conform(table, schema)
    parts = pd.concat([conform(table.iloc[[i]], schema) for i in range(len(table))])
    pd.testing.assert_frame_equal(whole, parts)
    assert whole["age"][:3].tolist() == [0, 0, 0] and whole["sex"][4] == schema["sex"].other
    # Conformed once or twice is the same.
    pd.testing.assert_frame_equal(conform(whole, schema), whole)


def test_one_budget_covers_draft_and_fit(tmp_path) -> None:
    model = MargNet(epsilon=1).fit(patients())
    certificate = model.certificate()
    assert certificate["epsilon"] == 1 and certificate["private"]
    purposes = [item["purpose"] for item in certificate["mechanisms"]]
    assert purposes[:2] == ["schema: formats of columns", "schema: values of columns, round 1"]
    assert set(certificate["public"]["released"]) == set(model.schema_.names)
    assert "if the names and types of the columns" in certificate["statement"]
    # A later fit with the drafted schema counts the draft again.
    model.schema_.save(tmp_path / "schema.json")
    loaded = Schema.load(tmp_path / "schema.json")
    again = MargNet(loaded, epsilon=2).fit(patients())
    assert [item["purpose"] for item in again.certificate()["mechanisms"]][:2] == purposes[:2]
    with_path = MargNet(str(tmp_path / "schema.json"), epsilon=2).fit(patients())  # type: ignore[arg-type]
    assert with_path.schema_ == loaded


def test_a_failed_fit_has_spent_its_draft() -> None:
    model = MargNet(epsilon=1, time_limit=None)
    table = patients()[["mrn", "contact"]].rename(columns={"contact": "email"})
    with pytest.raises(InputError, match="could release no column"):
        model.fit(table)
    assert model.ledger_.spent == 0  # both are left out by name, before anything is read
    model = MargNet(epsilon=0.001)
    with pytest.raises(
        InputError, match=r"no rows, or too few: .*Declare a schema, or raise epsilon="
    ):
        model.fit(patients(200)[["diagnosis"]])
    assert model.ledger_.spent > 0


def test_seeded_drafts_are_not_private() -> None:
    schema = draft_private(patients(), 1.0, random_state=0)
    assert not MargNet(schema, epsilon=2).fit(patients()).certificate()["private"]


def test_of_the_dtypes_of_a_data_frame_only_numeric_text_and_time_are_kept() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "n": rng.integers(1, 9, ROWS).astype("int32"),
            "m": pd.array(rng.integers(0, 3, ROWS), dtype="Int64"),
            "x": rng.normal(size=ROWS).round(2),
            "t": pd.Timestamp("2019-01-05") + pd.to_timedelta(rng.integers(0, 10**7, ROWS), "s"),
            "d": pd.to_timedelta(rng.integers(0, 5000, ROWS), "s"),
            "p": pd.PeriodIndex.from_ordinals(rng.integers(580, 600, ROWS), freq="M"),
            "b": rng.random(ROWS) < 0.3,
            "constant": "same",
        }
    )
    with pytest.warns(UserWarning, match="numeric, text or time"):
        made = MargNet(epsilon=3).fit(table).sample(500)
    wanted = {
        **{"n": "int64", "m": "int64", "x": "float64", "t": "datetime64[us]"},
        **{"d": "timedelta64[us]", "p": "period[M]", "b": "bool", "constant": "str"},
    }
    assert made.dtypes.map(str).to_dict() == wanted
    assert set(made["constant"]) <= {"same", "other"}


def test_ordered_categories_come_back_ordered() -> None:
    """With all that their list declares, whatever the rows have; a list in alphabetical order may be of the rows."""
    rng = np.random.default_rng(0)
    listed = ["lo", "mid", "NA", "hi", "never"]
    rare = ["mid", "NA"] + [None] * 3
    table = pd.DataFrame(
        {
            "risk": pd.Categorical([*rng.choice(["lo", "hi"], 995), *rare], listed, ordered=True),
            "nulls": pd.Categorical(rng.choice(["lo", None], 1000), listed, ordered=True),
            "grade": pd.Categorical([*rng.choice(["I", "II"], 999), "III"], ordered=True),
            "rank": pd.Categorical(rng.choice([3, 1, 2], 1000), [3, 1, 2], ordered=True),
            "plain": pd.Categorical(rng.choice(["lo", "hi"], 1000), listed),
        }
    )
    with pytest.warns(UserWarning, match="categories of ordered ones"):
        model = MargNet(epsilon=5, random_state=0).fit(table)
    made, schema = model.sample(500), model.schema_
    without_null = ["lo", "mid", "hi", "never"]
    for name in ("risk", "nulls"):
        assert schema[name].categories == (*without_null,) and schema[name].kind == "ordinal"
        assert made[name].dtype == pd.CategoricalDtype(without_null, ordered=True)
        assert schema.released["facts"][name] == {"nulls": ["schema: formats of columns"]}
    assert not schema["risk"].nulls and schema["nulls"].nulls
    assert made["nulls"].isna().mean() == pytest.approx(0.5, abs=0.15)
    assert made["grade"].dtype.ordered and set(made["grade"]) <= {"I", "II", "other"}
    assert schema["rank"].dtype == "int64" and schema["plain"].dtype == "str"
    assert private_schema.ORDERED in schema.released["public"]


def test_a_plan_drafts_nothing() -> None:
    with pytest.raises(InputError, match="only fit drafts one"):
        MargNet(epsilon=1).plan()


@pytest.mark.parametrize(
    ("number", "rows", "value", "known"),
    [
        *((1, 31, "near", ()), (4, 12, "near", ()), (1, 33, "yes", ()), (4, 11, "yes", ())),
        (4, 4, "fair", ("poor", "good")),
    ],
)
def test_selections_are_noisy(number: int, rows: int, value: str, known: tuple[str, ...]) -> None:
    """A value near the threshold is released in some drafts and not in others, in every round; so is one of the catalogue."""
    released = []
    table = pd.DataFrame({"x": [value] * rows})
    for seed in range(40):
        draft = draft_of_rows(table, 1.0, seed)
        text = released_numbers.draft_of("x", "str", NEAR, 1.0, (), None)
        assert isinstance(text, released_columns.TextDraft)
        text.texts = dict.fromkeys(known, 9.0)
        draft._round({"x": text}, number)
        text.end_rounds()
        released.append(value in text.texts)
    assert 4 <= sum(released) <= 36


def test_heaped_blood_pressures_stay_heaped() -> None:
    rng = np.random.default_rng(0)
    sbp = rng.normal(130, 24, 3_500).round()
    sbp = np.where(rng.random(3_500) < 0.6, np.round(sbp / 10) * 10, sbp)
    sbp = np.where(rng.random(3_500) < 0.15, 120, sbp).clip(50, 260).astype(int)
    weight = np.where(rng.random(3_500) < 0.75, rng.normal(76, 14, 3_500).round(), 0)
    weight = np.where(weight == 0, rng.normal(76, 14, 3_500).round(1), weight).clip(35, 190)
    table = pd.DataFrame({"sbp": sbp, "weight": weight, "sex": rng.choice(["f", "m"], 3_500)})
    made = MargNet(epsilon=1, random_state=0).fit(table.astype(str)).sample(3_500)

    def shares(t: pd.DataFrame) -> np.ndarray:
        tenths = np.round(t["weight"].astype(float) * 10)
        return np.array(
            [(t["sbp"] % 10 == 0).mean(), (t["sbp"] == 120).mean(), (tenths % 10 == 0).mean()]
        )

    assert np.abs(shares(made) - shares(table)).max() < 0.05


def test_codes_among_many_numbers_are_listed() -> None:
    """Twenty numbers between 1 and 9,999 are what the column holds; a draft that spreads them is of no use."""
    rng = np.random.default_rng(0)
    codes = rng.choice(np.arange(20) * 487 + 13, 6_000)
    column = draft_private(pd.DataFrame({"industry": codes.astype(str)}), 1.0)["industry"]
    assert column.kind == "ordinal" and set(column.categories) <= set(codes.tolist())
    assert len(column.categories) >= 18


def test_two_whole_numbers_are_codes() -> None:
    """The rarer of two codes must not be taken for the end of a range, which is merged with its neighbour."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.choice(["1", "2"], 5_000, p=[0.05, 0.95])})
    columns = [draft_private(table, 1.0, random_state=seed)["x"] for seed in range(10)]
    of_codes = [c for c in columns if c.kind == "categorical"]  # at times noise adds a neighbour
    assert len(of_codes) >= 8
    column = of_codes[0]
    assert (column.kind, column.categories, column.other) == ("categorical", (1, 2), 2)
    rows = pd.DataFrame({"x": ["1", "2", "3", None, "1.0", "one"]})
    whole = conform(rows, Schema([column], released={"mechanisms": [{"purpose": "x"}]}))
    assert whole["x"].tolist() == [1, 2, 2, 2, 1, 2] and str(whole["x"].dtype) == "int64"


def test_dense_numbers_have_no_cells_of_their_own() -> None:
    """Each of them has rows enough, but cells of several represent them as well, at less noise."""
    rng = np.random.default_rng(0)
    numbers = np.concatenate([rng.integers(300, 330, 20_000), rng.integers(0, 900, 4_000)])
    cells = draft_private(pd.DataFrame({"x": numbers.astype(str)}), 1.0)["x"].cells
    assert cells <= DEFAULT_BINS


def test_what_is_not_released_is_other_only_if_it_is_clearly_of_rows() -> None:
    few = pd.DataFrame({"x": ["a"] * 4_000 + ["b"] * 2_000 + ["c"]})
    many = pd.DataFrame({"x": ["a"] * 4_000 + ["b"] * 2_000 + [f"r{i}" for i in range(800)]})
    one, other = (draft_of_rows(table).columns(None, False)[0][0] for table in (few, many))
    assert one.categories == ("a", "b") and one.other == "a"  # the most common one
    assert other.categories == ("a", "b", "other") and other.other == "other"


def beside_constant(rows: int, share: float) -> pd.DataFrame:
    """Columns of texts and of numbers of which ``share`` of the rows have values that nobody shares, beside twelve others."""
    rng = np.random.default_rng(0)
    rare = rng.permutation(rows) < share * rows
    texts, numbers = np.full(rows, "usual", dtype=object), np.full(rows, 7)
    texts[rare] = [f"rare {i}" for i in range(rare.sum())]
    numbers[rare] = rng.integers(10_000, 10**9, rare.sum())
    table = pd.DataFrame({"text": texts, "number": numbers, "flag": np.where(rare, None, "seen")})
    others = {f"answer{i}": rng.choice(["a", "b", "c"], rows) for i in range(12)}
    return table.assign(**others).astype("str")


def test_a_column_of_which_one_value_alone_is_released_is_left_out_unless_nearly_all_rows_have_it() -> (
    None
):
    few, constant, mixed = (
        draft_private(beside_constant(rows, share), 1.0, random_state=3)
        for rows, share in ((700, 0.08), (12_000, 0.0), (12_000, 0.3))
    )
    reasons = {item["name"]: item["reason"] for item in few.left_out}
    assert reasons["text"].endswith(released_columns.AT_THIS_BUDGET)
    assert (few.released or {})["notes"]["flag"]["note"].startswith("one value is kept")
    assert released_columns.has_one_value(constant["text"]) and "number" in constant.names
    assert "notes" not in (constant.released or {})
    assert set(mixed["text"].categories) == {"usual", "other"}
    notes = (mixed.released or {})["notes"]
    assert (
        notes["text"]["share"] == pytest.approx(0.3, abs=0.05) and "other" in notes["text"]["note"]
    )
    assert "flag" not in notes  # hardly any row has another value, or none


def test_what_a_range_leaves_out_is_told_with_noise() -> None:
    """Shares of rows beyond the released bounds, in columns of which few cells have rows enough."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"lab{i}": rng.lognormal(5, 1.2, 700).astype(int) for i in range(14)})
    told = 0
    for seed in range(3):
        schema = draft_private(table.astype("str"), 1.0, random_state=seed)
        notes = (schema.released or {}).get("notes", {})
        for column in schema.columns:
            outside = (~table[column.name].between(column.low, column.high)).mean()  # type: ignore[attr-defined]
            told += column.name in notes
            if outside > 0.5:
                assert notes[column.name]["share"] == pytest.approx(outside, abs=0.35)
    assert told


def test_whether_one_value_is_kept_is_decided_with_noise() -> None:
    """Rows of which about a sixth have other values: left out in some drafts, and kept in others."""
    table = pd.DataFrame({"x": ["a"] * 310 + [f"rare {i}" for i in range(60)]})
    kept = []
    for seed in range(20):
        draft = draft_of_rows(table, 0.2, seed)
        text = released_numbers.draft_of("x", "str", NEAR, 1.0, (), None)
        assert isinstance(text, released_columns.TextDraft)
        text.texts, text.rows = {"a": 310.0}, 370.0
        draft._rest({"x": text})
        kept.append(isinstance(text.finish(), str))
    assert 2 <= sum(kept) <= 18


def test_a_row_adds_at_most_one_to_the_sums_of_values_that_were_not_released() -> None:
    table = patients(1_500).drop(columns=["mrn", "contact", "remark"])
    draft = draft_of_rows(table, 2.0)
    drafts = draft._formats()
    draft._round(drafts, 1)
    row = dict.fromkeys(table, "77777") | {"sex": "rare", "admitted": "2031-01-01"}
    more = pd.concat([table, pd.DataFrame([row])], ignore_index=True).astype("str")
    sums = []
    for rows in (table, more):
        ask = {name: private_schema.distinct(rows[name]) for name in rows}
        whole = draft_of_rows(rows, math.inf)
        counts, _ = whole._release(
            "sums",
            NoPrivacy(),
            lambda _, ask=ask: [q for n, d in drafts.items() if (q := d.rest(ask[n]))],
        )
        sums.append({question.column: float(noisy[0]) for question, noisy in counts})
    moved = [sums[1][name] - sums[0][name] for name in sums[0]]
    assert len(moved) >= 5 and 0.9 < math.sqrt(sum(m * m for m in moved)) <= 1 + 1e-9


def test_a_schema_states_which_release_each_fact_is_from() -> None:
    schema = draft_private(patients(), 1.0)
    assert schema.released is not None
    assert schema.released["public"][0] == "names of columns"
    purposes = {item["purpose"] for item in schema.released["mechanisms"]}
    facts = schema.released["facts"]
    assert set(facts) == set(schema.names)
    sources = {name: schema[name].source for name in ("sex", "diagnosis", "age")}
    assert sources == {"sex": "catalogue: f, m", "diagnosis": "catalogue: ICD-10", "age": None}
    purposes |= {"catalogue: f, m", "catalogue: no, yes", "catalogue: ICD-10"}
    assert all(set(sources) <= purposes for column in facts.values() for sources in column.values())
    assert "schema: values of columns, round 1" in facts["sex"]["categories"]
    assert facts["age"]["kind"] == ["schema: formats of columns"] and facts["age"]["bounds"]


def test_drafts_of_margnet_compose_as_gaussians() -> None:
    """No budget is lost between draft and fit: μ² of all mechanisms is that of (ε, δ)."""
    model = MargNet(epsilon=1).fit(patients(1_000))
    certificate = model.certificate()
    assert certificate["accountant"]["name"] == "Gaussian filter"
    mechanisms, counts = zip(
        *((mechanism_from(item), item["count"]) for item in certificate["mechanisms"]), strict=True
    )
    mu = math.sqrt(
        np.sum([n / m.noise_multiplier**2 for m, n in zip(mechanisms, counts, strict=True)])
    )
    thresholds = sum(m.threshold_delta for m in mechanisms if isinstance(m, ThresholdedGaussian))
    # Balle and Wang 2018, Theorem 8, written out.
    spent = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    assert 0.98 * 1e-5 <= spent + thresholds <= 1e-5


def test_days_and_lengths_of_time_in_common_forms():
    rng, rows = np.random.default_rng(0), 4_000
    days = pd.Timestamp("2000-01-01") + pd.to_timedelta(rng.integers(0, 3_000, rows), unit="D")
    lengths = pd.Series(pd.to_timedelta(rng.integers(1_000, 9_000, rows), unit="s")).map(str)
    forms = {"dotted": "%d.%m.%Y", "european": "%d/%m/%Y", "american": "%m/%d/%Y"}
    table = pd.DataFrame({name: days.strftime(form) for name, form in forms.items()})
    schema = draft_private(table.assign(length=lengths), 1.0)
    for name, form in forms.items():
        assert schema[name].format == form and schema[name].low[:4] == "2000"  # type: ignore[attr-defined]
    assert schema["length"].kind == "duration"


def test_days_of_few_rows_are_bounded_by_half_decades():
    """A year has 40 rows, too few for this budget, and half a decade enough."""
    days = pd.date_range("1920-01-01", "2019-12-31", periods=4_000).strftime("%Y-%m-%d")
    column = draft_private(pd.DataFrame({"day": days}), 0.1)["day"]
    (low, first), (high, last) = (
        (int(end[:4]), end[5:])
        for end in (column.low, column.high)  # type: ignore[attr-defined]
    )
    assert (low % 5, first, high % 5, last) == (0, "01-01", 4, "12-31")


@pytest.mark.parametrize(("factor", "dtype"), [(1, "int8"), (1000, "int64")])
def test_a_column_that_was_changed_after_reading_keeps_its_values(tmp_path, factor, dtype):
    """The declared type of a file is taken while the released cells have values that it holds."""
    rng = np.random.default_rng(0)
    ages = rng.integers(1, 120, ROWS).astype("int8")
    pd.DataFrame({"age": ages, "job": "a"}).to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    table["age"] = table["age"].astype("Int64") * factor
    column = draft_private(table, 20.0, random_state=0)["age"]
    assert column.dtype == dtype and column.low is not None and column.high is not None
    assert column.low <= factor and 119 * factor <= column.high <= 200 * factor
