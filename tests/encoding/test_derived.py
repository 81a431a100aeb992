"""Derived columns of linked tables: inherited keys, dates since others, repeated codes; each follows from its own root alone."""

import numpy as np
import pandas as pd
import pytest

from tabsynth import Categorical, Date, Datetime, InputError, LinkedSchema, Numeric, Schema
from tabsynth.encoding.derived import DerivedEncoder, days_column

DATES = {"dtype": "str", "low": "2020-01-01", "high": "2023-12-31"}
PEOPLE = Schema([Numeric(name="born", dtype="int64", low=1920, high=2023)])
STAYS = Schema([Date(name="start", bins=48, **DATES), Date(name="end", bins=48, **DATES)])
CODES = Schema(
    [Categorical(name="code", dtype="int64", categories=(1, 2, 3, 4)), Date(name="day", **DATES)]
)
DEATHS = Schema([Date(name="died", **DATES)])


def schema(**changed):
    """Persons, their stays, codes of a stay, and deaths."""
    keys = {
        "people": {"key": "person", "before": {"born": ["stays.start", "deaths.died"]}},
        "stays": {
            "key": "stay", "parent": "people", "parent_key": "person", "order": "start", "gaps": ["start"],
            "since": {"end": ["start"]}, "max_children": 5,
        },
        "codes": {
            "parent": "stays", "parent_key": "stay", "inherited": ["person"], "repeats": "code",
            "since": {"day": ["stays.start", "stays.end"]}, "max_children": 4,
        },
        "deaths": {
            "parent": "people", "parent_key": "person", "since": {"died": ["stays.end"]}, "max_children": 1,
        },
    }  # fmt: skip
    for name, facts in changed.items():
        keys[name] = {k: v for k, v in (keys[name] | facts).items() if v is not None}
    tables = {"people": PEOPLE, "stays": STAYS, "codes": CODES, "deaths": DEATHS}
    return LinkedSchema(tables, keys)


def tables(people=40, seed=0):
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(people), rng.integers(0, 5, people))
    start = rng.integers(0, 1200, len(owner))
    end = start + rng.integers(0, 20, len(owner))
    stay = np.repeat(np.arange(len(owner)), rng.integers(0, 4, len(owner)))
    day = start[stay] + np.minimum(rng.integers(0, 20, len(stay)), (end - start)[stay])
    dead = np.flatnonzero(rng.random(people) < 0.3)
    last = pd.Series(end).groupby(owner).max().reindex(dead).fillna(100).to_numpy(dtype=int)

    def texts(days):
        return (np.datetime64("2020-01-01") + np.asarray(days)).astype(str)

    return {
        "people": pd.DataFrame(
            {"person": 100 + np.arange(people), "born": rng.integers(1930, 2020, people)}
        ),
        "stays": pd.DataFrame(
            {"stay": 900 + np.arange(len(owner)), "person": 100 + owner, "start": texts(start), "end": texts(end)}
        ),
        "codes": pd.DataFrame(
            {"stay": 900 + stay, "person": 100 + owner[stay], "code": rng.integers(1, 5, len(stay)), "day": texts(day)}
        ),
        "deaths": pd.DataFrame({"person": 100 + dead, "died": texts(last + 30)}),
    }  # fmt: skip


def places(given):
    """Of each code its person and the day since the start of the stay."""
    stays = given["stays"].set_index("stay")
    start = given["codes"]["stay"].map(stays["start"])
    return (pd.to_datetime(given["codes"]["day"]) - pd.to_datetime(start)).dt.days


def test_days_are_those_between_the_dates():
    encoder, given = DerivedEncoder(schema()), tables()
    coded = encoder.to_tables(given)
    column = encoder.schema.tables["codes"]["day: days since its reference"]
    place = encoder.encoders["codes"].schema.names.index(column.name)
    # Rows of codes are in the order of persons and of their stays.
    stays = given["stays"].assign(row=range(len(given["stays"])))
    order = given["codes"].merge(stays[["stay", "start", "row"]], on="stay")
    order["n"] = range(len(order))
    order = order.assign(p=order["stay"].map(stays.set_index("stay")["person"]))
    order = order.sort_values(["p", "start", "row", "n"], kind="stable")
    expected = column.encode(places(given).iloc[order["n"]].reset_index(drop=True))
    assert (coded["codes"].codes[:, place] == expected).all()


def test_a_code_again_is_one_that_the_person_has_in_an_earlier_row():
    given = {name: t[:0] for name, t in tables().items()}
    given["people"] = pd.DataFrame({"person": [1, 2], "born": [1950, 1951]})
    given["stays"] = pd.DataFrame(
        {"stay": [5, 6, 7], "person": [1, 1, 2], "start": ["2021-05-01", "2020-05-01", "2020-01-01"]}
    )  # fmt: skip
    given["stays"]["end"] = given["stays"]["start"]
    given["codes"] = pd.DataFrame(
        {"stay": [5, 5, 6, 7], "person": [1, 1, 1, 2], "code": [3, 4, 3, 3]}
    )
    given["codes"]["day"] = given["codes"]["stay"].map({5: "2021-05-01", 6: "2020-05-01", 7: "2020-01-01"})  # fmt: skip
    encoder = DerivedEncoder(schema())
    coded = encoder.to_tables(given)["codes"]
    again = encoder.encoders["codes"].schema["code"].cells
    names = encoder.encoders["codes"].schema.names
    # The stay of 2020 comes first: its 3 is new, and that of 2021 is not; the other person's 3 is new again.
    assert coded.codes[:, names.index("code")].tolist() == [2, again, 3, 2]


def test_other_persons_do_not_change_what_a_person_becomes():
    given = tables()
    whole = DerivedEncoder(schema()).to_rows(DerivedEncoder(schema()).to_tables(given))
    person = given["stays"]["person"].iloc[0]
    stays = given["stays"]["stay"][given["stays"]["person"] == person]
    rest = {name: t[t["person"] != person] for name, t in given.items()}
    assert len(rest["codes"]) + given["codes"]["stay"].isin(stays).sum() == len(given["codes"])
    fewer = DerivedEncoder(schema()).to_rows(DerivedEncoder(schema()).to_tables(rest))
    for name, of in whole.items():
        every = {tuple(row) for row in np.unique(of.codes, axis=0)}
        assert {tuple(row) for row in fewer[name].codes} <= every
        counted = pd.Series(list(map(tuple, of.codes))).value_counts()
        left = pd.Series(list(map(tuple, fewer[name].codes))).value_counts()
        apart = counted.sub(left, fill_value=0)
        assert (apart >= 0).all() and apart.sum() <= max(1, len(of.codes) - len(fewer[name].codes))


def test_synthetic_dates_are_in_order_and_keys_are_those_of_the_stays():
    encoder = DerivedEncoder(schema())
    rng = np.random.default_rng(1)
    coded = encoder.to_tables(tables(80))
    for name, of in coded.items():  # any codes that the columns have
        columns = encoder.encoders[name].schema.columns
        sizes = [column.size - ("since the row" in column.name) for column in columns]
        of.codes[:, : len(sizes)] = rng.integers(0, sizes, (len(of.codes), len(sizes)))
    made = encoder.from_tables(coded, rng)
    stays = made["stays"].set_index("stay")
    start, end = (made["codes"]["stay"].map(stays[column]) for column in ("start", "end"))
    assert (stays["start"] <= stays["end"]).all()
    assert ((start <= made["codes"]["day"]) & (made["codes"]["day"] <= end)).all()
    assert (made["codes"]["person"] == made["codes"]["stay"].map(stays["person"])).all()
    last = made["deaths"]["person"].map(made["stays"].groupby("person")["end"].max())
    assert ((made["deaths"]["died"] >= last) | last.isna()).all()
    born = made["stays"]["person"].map(made["people"].set_index("person")["born"])
    assert (born <= made["stays"]["start"].str[:4].astype(int)).all()
    assert made["codes"]["code"].isin([1, 2, 3, 4]).all() and not made["codes"].isna().any().any()
    assert [*made["codes"].columns] == ["stay", "person", "code", "day"]


def test_a_key_that_is_not_that_of_the_stay_is_refused():
    given = tables()
    given["codes"].loc[0, "person"] = 101 if given["codes"]["person"].iloc[0] == 100 else 100
    with pytest.raises(
        InputError, match=r"Table 'codes' has person='10.' in a row of stay='9..', which is of"
    ):
        DerivedEncoder(schema()).to_tables(given)


def test_a_value_that_is_no_date_is_refused_by_its_column():
    given = tables()
    given["codes"].loc[0, "day"] = "soon"
    with pytest.raises(InputError, match="Table 'codes': Column 'day': 'soon' is no date"):
        DerivedEncoder(schema()).to_tables(given)


def test_columns_that_others_are_derived_from_are_named_together():
    given = tables()
    lacking = {"stays": ["end"], "codes": ["person", "code", "day"]}
    for name, columns in lacking.items():
        given[name] = given[name].drop(columns=columns)
    with pytest.raises(InputError) as refusal:
        DerivedEncoder(schema()).to_tables(given)
    for name, columns in lacking.items():
        for column in columns:
            assert f"Table '{name}' lacks column '{column}'; add it." in str(refusal.value)


def test_days_are_of_dates_alone():
    """A moment has other amounts than days."""
    moments = Schema([Datetime(name="start", **DATES), Datetime(name="end", **DATES)])
    keys = {
        "people": {"key": "person"},
        "stays": {"parent": "people", "parent_key": "person", "max_children": 2, "since": {"end": ["start"]}},
    }  # fmt: skip
    with pytest.raises(InputError, match="since names column 'end', which is no date"):
        LinkedSchema({"people": PEOPLE, "stays": moments}, keys)


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_repeated_codes_may_be_short_numbers(dtype):
    codes = Schema(
        [CODES["code"].__class__(name="code", dtype=dtype, categories=(1, 2, 3, 4)), CODES["day"]]
    )
    keys = {n: k.to_dict() for n, k in schema().keys.items()}
    linked = LinkedSchema(
        {"people": PEOPLE, "stays": STAYS, "codes": codes, "deaths": DEATHS}, keys
    )
    encoder = DerivedEncoder(linked)
    drawn = encoder.from_tables(encoder.to_tables(tables()), np.random.default_rng(0))
    assert drawn["codes"]["code"].dtype == dtype


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"codes": {"inherited": ["stay"]}}, "inherited names column 'stay', which is no key of a table above it"),
        ({"codes": {"since": {"day": ["stays.begin"]}}}, "since names column 'stays.begin', which is no date"),
        ({"codes": {"since": {"code": ["stays.start"]}}}, "since names column 'code', which is no date"),
        ({"codes": {"since": "day"}}, "Expected since of keys to be a dict"),
        ({"codes": {"repeats": "day"}}, "repeats names column 'day', which is not one of whole numbers"),
        ({"people": {"repeats": "born"}}, "Keys with repeats need the parent"),
    ],
)  # fmt: skip
def test_declarations_that_cannot_be(changed, says):
    with pytest.raises(InputError, match=says):
        schema(**changed)


def test_the_declarations_survive_a_file(tmp_path):
    schema().save(tmp_path / "linked.json")
    again = LinkedSchema.load(tmp_path / "linked.json")
    assert again.to_dict() == schema().to_dict() and again.fingerprint() == schema().fingerprint()
    assert again.fingerprint() != schema(codes={"repeats": None}).fingerprint()


def test_cells_of_days_are_single_first():
    column = days_column(STAYS["end"])
    assert column.encode(pd.Series(range(9))).tolist() == [*range(9)]
    assert column.size < 60 and column.high == 1460


@pytest.mark.parametrize("seed", range(4))
def test_the_person_with_the_last_stay_changes_no_codes_of_others(seed):
    """Of deaths, whose days are counted from the last stay, and of all other tables."""
    given = tables(seed=seed)
    person = given["stays"].sort_values("end")["person"].iloc[-1]
    rest = {name: t[t["person"] != person] for name, t in given.items()}
    encoder = DerivedEncoder(schema())
    whole, fewer = encoder.to_tables(given), encoder.to_tables(rest)
    gone = given["people"]["person"].tolist().index(person)
    root = np.arange(len(given["people"]))
    for name in ("deaths", "stays"):
        others = root[whole[name].parent] != gone
        assert len(fewer[name].codes) == others.sum() > 0
        assert (whole[name].codes[others] == fewer[name].codes).all()


def test_a_limit_that_is_null_is_none():
    """Days of codes end with the stay; of a stay whose end is not known they are those since its start."""
    end = Date(name="end", bins=48, nulls=True, **DATES)
    stays = Schema([STAYS["start"], end])
    declared = schema()
    keys = {name: of.to_dict() for name, of in declared.keys.items()}
    encoder = DerivedEncoder(LinkedSchema({**declared.tables, "stays": stays}, keys))
    given = tables()
    given["stays"].loc[::2, "end"] = None
    out = encoder.from_tables(encoder.to_tables(given), np.random.default_rng(0))
    assert 0 < out["stays"]["end"].isna().sum() < len(out["stays"])
    stay = out["codes"]["stay"].map(out["stays"].set_index("stay")["start"])
    days = (pd.to_datetime(out["codes"]["day"]) - pd.to_datetime(stay)).dt.days
    assert len(days) == len(given["codes"]) and days.between(0, 24).all()


@pytest.mark.parametrize("name, column", [("stays", "end"), ("deaths", "died")])
def test_dates_with_reasons_for_missing_values_have_no_days(name, column):
    declared = schema()
    date = Date(name=column, missing={"1900-01-01": "unknown"}, **DATES)
    columns = [date if c.name == column else c for c in declared.tables[name].columns]
    keys = {table: of.to_dict() for table, of in declared.keys.items()}
    with pytest.raises(InputError, match=f"names column '.*{column}', which has reasons"):
        LinkedSchema({**declared.tables, name: Schema(columns)}, keys)
