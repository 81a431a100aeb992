"""Rules between columns: declared, held in every row of every synthesizer, and refused where they contradict."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import (
    DPWGAN,
    PATEGAN,
    Categorical,
    Date,
    MargNet,
    Numeric,
    Ordinal,
    Schema,
    evaluate,
    load,
)
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.holding import CodeRules
from tabsynth.errors import InputError
from tabsynth.schema.expressions import Expression
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.margnet import estimation
from tabsynth.synthesizers.mixture import disjoint_boxes

pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
COLUMNS = [
    Categorical(name="industry", dtype="str", categories=("farm", "mine", "shop"), nulls=True),
    Categorical(name="sector", dtype="str", categories=("first", "third"), nulls=True),
    Numeric(name="dbp", dtype="int64", low=30, high=160),
    Numeric(name="sbp", dtype="int64", low=60, high=240),
    Categorical(name="sex", dtype="str", categories=("f", "m")),
    Categorical(name="pregnant", dtype="str", categories=("no", "yes")),
    Date(name="birth", dtype="str", low="1930-01-01", high="2005-12-31"),
    Date(name="admit", dtype="str", low="2019-01-01", high="2020-12-31"),
    Date(name="discharge", dtype="str", low="2019-01-01", high="2021-12-31"),
    Numeric(name="age", dtype="int64", low=0, high=110),
    Ordinal(name="children", dtype="int64", categories=tuple(range(8))),
    Ordinal(name="persons", dtype="int64", categories=tuple(range(1, 12))),
]
RULES = [
    {
        "derive": "sector",
        "from": "industry",
        "table": {"farm": "first", "mine": "first", "shop": "third"},
    },
    {"order": ["dbp", "sbp"], "strict": True},
    {"if": {"pregnant": ["yes"]}, "then": {"sex": ["f"]}},
    {"order": ["admit", "discharge"], "difference": {"high": 60}},
    {"derive": "age", "expression": "years(birth, admit)"},
    {"order": ["children", "persons"], "strict": True},
]
SCHEMA = Schema(COLUMNS, constraints=RULES, impossible=[{"sex": ["m"], "children": [7]}])


def real(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    admit = pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 600, rows), "D")
    discharge = admit + pd.to_timedelta(rng.poisson(4, rows), "D")
    birth = pd.Timestamp("1935-01-01") + pd.to_timedelta(rng.integers(0, 24_000, rows), "D")
    sex, industry = rng.choice(["f", "m"], rows), rng.choice(["farm", "mine", "shop", None], rows)
    before = (admit.month < birth.month) | ((admit.month == birth.month) & (admit.day < birth.day))
    children = rng.poisson(1, rows).clip(0, 6)
    sbp = rng.normal(125, 15, rows).round().clip(80, 220).astype(int)
    return pd.DataFrame(
        {
            "industry": industry,
            "sector": pd.Series(industry).map({"farm": "first", "mine": "first", "shop": "third"}),
            "dbp": (sbp - rng.integers(10, 60, rows)).clip(30, 150),
            "sbp": sbp,
            "sex": sex,
            "pregnant": np.where((sex == "f") & (rng.random(rows) < 0.1), "yes", "no"),
            "birth": birth.strftime("%Y-%m-%d"),
            "admit": admit.strftime("%Y-%m-%d"),
            "discharge": discharge.strftime("%Y-%m-%d"),
            "age": (admit.year - birth.year - before).astype("int64"),
            "children": children,
            "persons": (children + 1 + rng.poisson(1, rows)).clip(1, 11),
        }
    )


def broken_by_hand(table: pd.DataFrame) -> int:
    """Rows that break a rule, counted without the library."""
    sector = table.industry.map({"farm": "first", "mine": "first", "shop": "third"})
    admit, birth = pd.to_datetime(table.admit), pd.to_datetime(table.birth)
    later = (admit.dt.month, admit.dt.day), (birth.dt.month, birth.dt.day)
    before = (later[0][0] < later[1][0]) | (
        (later[0][0] == later[1][0]) & (later[0][1] < later[1][1])
    )
    wrong = sector.fillna("-") != table.sector.fillna("-")
    wrong |= table.dbp >= table.sbp
    wrong |= (table.pregnant == "yes") & (table.sex != "f")
    wrong |= table.admit > table.discharge
    wrong |= table.age != admit.dt.year - birth.dt.year - before
    wrong |= table.children >= table.persons
    wrong |= (table.sex == "m") & (table.children == 7)
    return int(wrong.sum())


def test_the_real_table_satisfies_the_rules() -> None:
    table = real(500)
    assert broken_by_hand(table) == 0
    assert not any(rule.violations(table).any() for rule in SCHEMA.rules)


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize(
    "make",
    [
        lambda schema: MargNet(schema, epsilon=1, config=MargNetConfig(steps=100)),
        lambda schema: DPWGAN(schema, epsilon=1, rows=800, time_limit=0.5, autoencoder=None),
        lambda schema: PATEGAN(schema, epsilon=1, rows=800, time_limit=1),
    ],
    ids=["margnet", "dp-wgan", "pate-gan"],
)
def test_every_row_satisfies_the_rules_and_no_dtype_changes(make, tmp_path) -> None:
    table = real(800)
    model = make(SCHEMA).fit(table)
    for rows in (3, 1_000):
        made = model.sample(rows)
        assert broken_by_hand(made) == 0 and len(made) == rows
    pd.testing.assert_series_equal(made.dtypes, table[list(SCHEMA.names)].dtypes)
    model.save(tmp_path / "model")
    assert broken_by_hand(load(tmp_path / "model").sample(500)) == 0


def test_derived_columns_are_not_modelled() -> None:
    assert set(SCHEMA.names) - set(SCHEMA.learned.names) == {"sector", "age", "discharge"}
    assert "discharge - admit" in SCHEMA.learned.names


def test_conditions_keep_the_rules() -> None:
    schema = Schema(COLUMNS, constraints=[r for r in RULES if "difference" not in r])
    few = MargNetConfig(steps=50)
    model = MargNet(schema, epsilon=2, config=few).fit(real(800))
    made = model.sample(400, where={"sector": ["first"], "sex": "f"})
    assert set(made.sector) == {"first"} and set(made.industry) == {"farm", "mine"}
    assert not any(rule.violations(made).any() for rule in schema.rules)
    assert set(model.sample(5, where={"age": 30}).age) == {30}


def test_differences_keep_the_length_of_stays() -> None:
    stay = [
        (pd.to_datetime(t.discharge) - pd.to_datetime(t.admit)).dt.days
        for t in (
            real(3_000),
            MargNet(SCHEMA, epsilon=8, config=MargNetConfig(steps=300))
            .fit(real(3_000))
            .sample(3_000),
        )
    ]
    # Without the difference cells of 17 days would spread stays over weeks.
    assert abs(stay[0].median() - stay[1].median()) <= 1


def test_one_way_counts_are_those_without_rules() -> None:
    """Exchanges within a sample leave every one-way count as it is."""
    rng = np.random.default_rng(0)
    encoder = TableEncoder(SCHEMA)
    index = np.stack([rng.integers(0, s, 4_000) for s in encoder.schema.sizes], axis=1)
    held = encoder.rules.hold(index, np.random.default_rng(1))
    assert not encoder.rules.violations(held).any()
    for j, size in enumerate(encoder.schema.sizes):
        before, after = (np.bincount(x[:, j], minlength=size) / len(x) for x in (index, held))
        # Of uniform codes a quarter of all rows break a rule; few need a donor.
        assert np.abs(before - after).sum() / 2 < 0.05


def test_violations_are_found_in_a_report() -> None:
    table, names = real(200), ["sex", "pregnant", "dbp", "sbp"]
    wrong = table.copy()
    wrong.loc[:49, "pregnant"], wrong.loc[:49, "sex"] = "yes", "m"
    report = evaluate(table[names], wrong[names], schema=SCHEMA.select(names))
    metric = report.evaluation["violations"]
    assert metric.synthetic.value == pytest.approx(0.25)
    assert metric.parts[0].name == "if pregnant is yes then sex is f"


@pytest.mark.parametrize("policy", ["refuse", "drop", "repair"])
def test_real_rows_that_break_a_rule(policy: str) -> None:
    table = real(50)
    table.loc[3, ["dbp", "sbp"]] = [120, 90]
    table.loc[4, "age"] = 3
    table.loc[5, ["pregnant", "sex"]] = ["yes", "m"]
    encoder = TableEncoder(Schema(COLUMNS, constraints=RULES, violations=policy))
    if policy == "refuse":
        with pytest.raises(
            InputError, match=r"dbp='120', sbp='90', which breaks the rule 'dbp < sbp'"
        ):
            encoder.to_index(table)
        return
    index = encoder.to_index(table)
    assert len(index) == {"drop": 47, "repair": 49}[policy]
    if policy == "repair":
        row = dict(zip(encoder.schema.names, index[3], strict=True))
        assert encoder.whole["dbp"].label(row["dbp"]).startswith("89")  # 90, the smaller one


@pytest.mark.parametrize("policy", ["drop", "repair"])
def test_what_becomes_of_a_row_depends_on_no_other(policy: str) -> None:
    encoder = TableEncoder(Schema(COLUMNS, constraints=RULES, violations=policy))
    table = real(60)
    table.loc[::3, "dbp"], table.loc[::3, "sbp"] = 150, 100
    table.loc[1::7, ["pregnant", "sex"]] = ["yes", "m"]
    whole = encoder.to_index(table)
    parts = [encoder.to_index(table.iloc[[i]]) for i in range(len(table))]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (
            [{"derive": "sector", "from": "industry", "table": {"farm": "first"}}],
            "says nothing for industry=mine",
        ),
        (
            [
                {
                    "derive": "sector",
                    "from": ["industry"],
                    "table": [["farm", "first"], ["farm", "third"]],
                }
            ],
            "gives 'farm' two values, first and third",
        ),
        ([{"derive": "age", "expression": "years(birth"}], "is no expression"),
        ([{"derive": "age", "expression": "__import__('os')"}], "has a part that is not supported"),
        ([{"derive": "age", "expression": "industry + 1"}], "holds no numbers"),
        ([{"derive": "age", "expression": "nothing + 1"}], "has no column 'nothing'"),
        ([{"order": ["dbp"]}], "two or more different columns"),
        ([{"order": ["birth", "dbp"]}], "different kinds or units"),
        ([{"order": ["industry", "dbp"]}], "holds no numbers"),
        ([{"if": {"sex": ["x"]}, "then": {"pregnant": ["no"]}}], "has no value 'x'"),
        ([{"whenever": 1}], "expected derive"),
        ([{"sum": ["dbp"], "at_most": "dbp"}], "list different columns"),
        ([{"sum": ["birth"], "at_most": "admit"}], "have no sum"),
        ([{"order": ["admit", "birth"]}], "allow no values with admit <= birth"),
        (
            [
                {
                    "if": {"admit": {"low": "2019-02-30", "high": "2019-03-01"}},
                    "then": {"sex": ["f"]},
                }
            ],
            "2019-02-30",
        ),
        (
            [
                {
                    "if": {"admit": {"low": "1990-01-01", "high": "2019-03-01"}},
                    "then": {"sex": ["f"]},
                }
            ],
            "1990-01-01",
        ),
        (
            [
                {"derive": "age", "expression": "dbp + 1"},
                {"derive": "dbp", "expression": "age - 1"},
            ],
            "derive column 'age' from itself",
        ),
        (
            [{"derive": "age", "expression": "dbp + 1"}, {"derive": "age", "expression": "sbp"}],
            "Two constraints derive column 'age'",
        ),
        ([{"if": {"age": {"low": 5}}, "then": {"sex": ["f"]}}], "column 'age': expected a range"),
        ([{"if": {"sex": ["f"]}, "then": {"age": {"high": 5}}}], "got {'high': 5}; give both ends"),
        ([{"if": {"sex": {}}, "then": {"age": [5]}}], "expected a range with low and high"),
        (
            [{"order": ["dbp", "sbp"], "difference": {"high": 60, "low": "a"}}],
            "expected low of the difference to be a number, got 'a'",
        ),
        (
            [{"order": ["dbp", "sbp"], "difference": {"high": 60, "breaks": 5}}],
            "expected breaks of the difference to be a list, got 5",
        ),
        ([{"order": ["dbp", "sbp"], "difference": [60]}], "expected difference to be a dict"),
        ([{"derive": "sector", "from": 5, "table": []}], "expected from to be a column or a list"),
    ],
)
def test_rules_that_cannot_be_are_refused_in_one_line(rules: list, says: str) -> None:
    with pytest.raises(InputError) as error:
        Schema(COLUMNS, constraints=rules)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_contradictory_rules_say_so() -> None:
    schema = Schema(
        COLUMNS[2:6],
        constraints=[
            {"if": {"sex": ["f", "m"]}, "then": {"pregnant": ["yes"]}},
            {"if": {"sex": ["f", "m"]}, "then": {"pregnant": ["no"]}},
        ],
        violations="drop",
    )
    with pytest.raises(InputError, match="contradict each other") as error:
        MargNet(schema, epsilon=1).plan(estimate_time=False)
    assert "\n" not in str(error.value)


def test_rules_about_computed_columns_are_refused() -> None:
    schema = Schema(
        COLUMNS,
        constraints=[*RULES, {"if": {"age": {"low": 0, "high": 9}}, "then": {"sex": ["f"]}}],
    )
    with pytest.raises(InputError, match="which is computed from others"):
        MargNet(schema, epsilon=1).plan(estimate_time=False)


def test_schema_files_keep_the_rules(tmp_path) -> None:
    SCHEMA.save(tmp_path / "schema.json")
    loaded = Schema.load(tmp_path / "schema.json")
    assert loaded.fingerprint() == SCHEMA.fingerprint() and len(loaded.rules) == len(RULES)
    facts = json.loads((tmp_path / "schema.json").read_text())
    assert facts["constraints"] == RULES
    assert [r.text for r in SCHEMA.select(["dbp", "sbp", "sex"]).rules] == ["dbp < sbp"]


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from([None, 5, 7]),
    st.sampled_from([1.0, 0.5, None]),
)
def test_orders_hold_to_the_value(
    seed: int, strict: bool, bins: int | None, step: float | None
) -> None:
    rng = np.random.default_rng(seed)
    columns = [
        Numeric(name=n, dtype="Float64", low=0, high=20, bins=bins, resolution=step, nulls=True)
        for n in "abc"
    ]
    schema = Schema(columns, constraints=[{"order": ["a", "b", "c"], "strict": strict}])
    encoder = TableEncoder(schema)
    index = np.stack([rng.integers(0, s, 300) for s in encoder.schema.sizes], axis=1)
    table = encoder.from_index(CodeRules(schema).hold(index, rng), rng)
    for left, right in (("a", "b"), ("b", "c"), ("a", "c")):
        both = table[[left, right]].dropna().astype(float)
        assert ((both[left] < both[right]) if strict else (both[left] <= both[right])).all()
    encoder.to_index(table)


@given(
    st.lists(st.dates(min_value=pd.Timestamp("1900-01-01").date()), min_size=2, max_size=2).map(
        sorted
    )
)
def test_years_are_counted_as_ages_are(days: list) -> None:
    birth, now = days
    if now.year > 2200:
        return
    wanted = now.year - birth.year - ((now.month, now.day) < (birth.month, birth.day))
    numbers = {
        n: np.array([(d - pd.Timestamp(0).date()).days], float)
        for n, d in zip("ab", days, strict=True)
    }
    assert Expression("years(a, b)", "test")(numbers)[0] == wanted


def test_expressions_agree_with_python() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=50), rng.normal(size=50)
    text = "where(a > b, floor(a * 3) // 2, max(a, -b) % 2) + round(abs(b)) / 4"
    wanted = [
        (np.floor(x * 3) // 2 if x > y else max(x, -y) % 2) + np.round(abs(y)) / 4
        for x, y in zip(a, b, strict=True)
    ]
    np.testing.assert_allclose(Expression(text, "test")({"a": a, "b": b}), wanted)
    assert np.isnan(Expression("a / 0", "test")({"a": np.array([1.0])}))[0]
    assert Expression('col("a b") + 1', "test").names == ("a b",)


def _unrelated(columns: int, size: int) -> tuple[Schema, list[Categorical]]:
    """Every two columns of twelve may not both have the same of some values: too many for boxes."""
    cells = [
        Categorical(name=f"c{j}", dtype="int64", categories=tuple(range(size)))
        for j in range(columns)
    ]
    zeros = [
        {f"c{i}": [k], f"c{j}": [k]}
        for i in range(columns)
        for j in range(i)
        for k in range(size - 1)
    ]
    return Schema(cells, impossible=zeros, violations="drop"), cells


@pytest.mark.slow
@pytest.mark.parametrize("method", [MargNet, DPWGAN])
def test_combinations_in_any_number_are_held(method: type) -> None:
    schema, _ = _unrelated(8, 12)
    assert len(schema.impossible) == 308
    rng = np.random.default_rng(0)
    table = pd.DataFrame([rng.permutation(12)[:8] for _ in range(600)], columns=list(schema.names))
    more = {"time_limit": 2, "rows": 600} if method is DPWGAN else {}
    more |= {"config": MargNetConfig(steps=50)} if method is MargNet else {}
    made = method(schema, epsilon=1, **more).fit(table).sample(2_000)
    assert not any(rule.violations(made).any() for rule in schema.row_rules)


def test_thousands_of_combinations_are_few_tables() -> None:
    schema, cells = _unrelated(12, 40)
    assert len(schema.impossible) == 66 * 39
    rules, rng = CodeRules(schema), np.random.default_rng(0)
    assert len(rules.merged_rules) == 66
    index = np.stack([rng.integers(0, c.size, 5_000) for c in cells], axis=1)
    held = rules.hold(index, rng)
    assert rules.violations(index).mean() > 0.3 and not rules.violations(held).any()
    for j in range(12):  # exchanges alone
        np.testing.assert_array_equal(np.bincount(held[:, j]), np.bincount(index[:, j]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_rules_of_every_form_hold_and_keep_single_columns(seed: int) -> None:
    """Random implications, combinations and an order over random columns."""
    rng = np.random.default_rng(seed)
    columns = [
        Categorical(name=f"c{j}", dtype="Int64", categories=tuple(range(6)), nulls=True)
        for j in range(4)
    ]
    columns += [
        Ordinal(name="x", dtype="int64", categories=tuple(range(6))),
        Ordinal(name="y", dtype="int64", categories=tuple(range(9))),
    ]

    def some() -> list:
        return [None if v == 6 else int(v) for v in rng.permutation(7)[:2]]

    rules: list = [{"order": ["x", "y"]}]
    rules += [{"if": {"c0": some()}, "then": {"c1": [None, *range(5)]}}]
    rules += [{"if": {"c1": some(), "x": [0, 1]}, "then": {"c2": [None, *range(4)]}}]
    schema = Schema(columns, constraints=rules, impossible=[{"c2": some(), "c3": some()}])
    code_rules = CodeRules(schema)
    index = np.stack([rng.integers(0, c.size, 3_000) for c in columns], axis=1)
    held = code_rules.hold(index, rng)
    made = TableEncoder(schema).from_index(held, rng)
    assert not any(rule.violations(made).any() for rule in schema.row_rules)
    for j in range(len(columns)):
        before, after = (np.bincount(x[:, j], minlength=9) / 3_000 for x in (index, held))
        # Of uniform codes most rows break a rule; few of them need a copy in place of an exchange.
        assert np.abs(before - after).sum() / 2 < 0.04


FLAGS = [
    Categorical(name="owner", dtype="int64", categories=(0, 1)),
    Categorical(name="tenant", dtype="Int64", categories=(0, 1), nulls=True),
    Numeric(name="lodger", dtype="int64", low=0, high=2, bins=3),
]


def test_a_fixed_sum_holds_in_rows_of_codes_and_in_tables() -> None:
    schema = Schema(FLAGS, constraints=[{"sum": ["owner", "tenant", "lodger"], "equals": 1}])
    (rule,) = schema.rules
    assert rule.text == "owner + tenant + lodger = 1"
    table = pd.DataFrame(
        {"owner": [1, 1, 0, 0], "tenant": [0, 1, None, None], "lodger": [0, 0, 1, 2]}
    )
    table["tenant"] = table["tenant"].astype("Int64")
    assert rule.violations(table).tolist() == [False, True, False, True]
    encoder = TableEncoder(schema)
    with pytest.raises(InputError, match="breaks the rule 'owner \\+ tenant \\+ lodger = 1'"):
        encoder.to_index(table)
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, c.size, 3_000) for c in FLAGS], axis=1)
    held = encoder.from_index(encoder.rules.hold(codes, rng), rng)
    assert not rule.violations(held).any() and set(held["lodger"]) == {0, 1}


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"sum": ["owner", "lodger"], "equals": 4}, "allow no values with owner + lodger = 4"),
        ({"sum": ["owner", "lodger"], "equals": "1"}, "equals to be a number"),
        ({"sum": ["owner", "age"], "equals": 1}, "column 'age' has cells of several numbers"),
        ({"sum": ["owner"], "equals": 1}, "list different columns"),
    ],
)
def test_a_fixed_sum_that_cannot_be_is_refused(rule: dict, says: str) -> None:
    age = Numeric(name="age", dtype="int64", low=0, high=99, bins=10)
    with pytest.raises(InputError) as error:
        Schema([*FLAGS, age], constraints=[rule])
    assert says in str(error.value)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 0.5, None]), st.booleans())
def test_sums_hold_to_the_value(seed: int, step: float | None, nulls: bool) -> None:
    rng = np.random.default_rng(seed)
    columns = [
        Numeric(name=n, dtype="Float64", low=0, high=high, bins=8, resolution=step, nulls=nulls)
        for n, high in (("wages", 20), ("rent", 10), ("total", 40))
    ]
    rules: list = [
        {"sum": ["wages", "rent"], "at_most": "total"},
        {"order": ["rent", "wages"]},
    ]
    schema = Schema(columns, constraints=rules)
    encoder = TableEncoder(schema)
    index = np.stack([rng.integers(0, c.size, 400) for c in columns], axis=1)
    table = encoder.from_index(encoder.rules.hold(index, rng), rng)
    numbers = table.astype(float)
    given = numbers.total.notna()
    parts = numbers[["wages", "rent"]].fillna(0).sum(axis=1)
    assert (parts <= numbers.total + 1e-4)[given].all()
    both = numbers[["wages", "rent"]].dropna()
    assert (both.rent <= both.wages + 1e-9).all()
    encoder.to_index(table)


def test_a_row_whose_parts_exceed_the_total_is_refused_or_left_out() -> None:
    columns = [Numeric(name=n, dtype="int64", low=0, high=99) for n in ("a", "b", "total")]
    table = pd.DataFrame({"a": [1, 50], "b": [2, 50], "total": [3, 99]})
    rules = [{"sum": ["a", "b"], "at_most": "total"}]
    with pytest.raises(InputError, match=r"breaks the rule 'a \+ b <= total'"):
        TableEncoder(Schema(columns, constraints=rules)).to_index(table)
    kept = TableEncoder(Schema(columns, constraints=rules, violations="drop")).to_index(table)
    assert len(kept) == 1


def test_combinations_do_not_move_single_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty combinations of one column and another: leaving out impossible rows would move its null share."""
    columns = [
        Categorical(name="industry", dtype="Int64", categories=tuple(range(20)), nulls=True),
        Categorical(name="sector", dtype="int64", categories=tuple(range(20))),
    ]
    zeros = [{"industry": [j], "sector": [k for k in range(20) if k != j]} for j in range(20)]
    rng = np.random.default_rng(0)
    given = rng.random(4_000) < 0.6
    sector = rng.integers(0, 20, 4_000)
    table = pd.DataFrame(
        {"industry": pd.array(np.where(given, sector, -1), "Int64"), "sector": sector}
    )
    table.loc[~given, "industry"] = pd.NA
    schema = Schema(columns, impossible=zeros)
    # A fit of few steps, so that impossible rows have a large part of the distribution.
    monkeypatch.setattr(estimation, "ZERO_STEPS", 1)
    config = MargNetConfig(steps=1)
    model = MargNet(schema, epsilon=1, config=config).fit(table)
    made = model.sample(4_000)
    assert not any(rule.violations(made).any() for rule in schema.row_rules)
    mixture = model.model_.generator
    boxes = disjoint_boxes(model.model_.encoder.zeros)
    assert mixture.log_probability(boxes) < np.log(0.85)
    learned = float(mixture.probabilities.mean(0)[20])
    assert abs(made.industry.isna().mean() - learned) < 0.02
