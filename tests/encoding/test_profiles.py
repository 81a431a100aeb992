"""Profiles of rows of the root: what one root adds to the counts, and what they are, by loops over the tables."""

from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_derived import CODES, DEATHS, PEOPLE, tables
from test_derived import schema as derived_schema

from tabsynth import Categorical, LinkedSchema, Schema
from tabsynth.encoding.derived import DerivedEncoder
from tabsynth.encoding.profiles import DOUBT, OUTCOMES, Profiles
from tabsynth.errors import InputError

KINDS = ("home", "hospital")


def encoder_with_events(codes=4):
    """Stays have a kind, of which "hospital" matters; the shares of persons with each code are released."""
    plain = derived_schema()
    kind = Categorical(name="kind", dtype="str", categories=KINDS)
    people = Schema(
        list(PEOPLE.columns),
        released={
            "mechanisms": [{"purpose": "schema: concepts of persons"}],
            "release": "test",
            "std": 0.01,
            "codes.code": {str(code): [0.5 - code / 100, 0.2] for code in range(1, codes + 1)},
        },
    )
    stays = Schema([*plain.tables["stays"].columns, kind])
    of = {"people": people, "stays": stays, "codes": CODES, "deaths": DEATHS}
    keys = {name: of_keys.to_dict() for name, of_keys in plain.keys.items()}
    keys["stays"]["events"] = {"kind": ["hospital"]}
    return DerivedEncoder(LinkedSchema(of, keys))


def drawn(people=30, seed=0):
    given = tables(people, seed)
    kinds = np.random.default_rng(seed).choice(KINDS, len(given["stays"]))
    given["stays"] = given["stays"].assign(kind=kinds)
    return given


def expected(given):
    """Numbers of codes, first codes, outcomes and codes by the first stay in hospital of each person, by loops."""
    stays = given["stays"].assign(n=range(len(given["stays"])))
    stays = stays.sort_values(["start", "n"], kind="stable")
    codes, out = given["codes"].groupby("stay"), {}
    dead = set(given["deaths"]["person"])
    for person in given["people"]["person"]:
        seen, number, events, known = [], 0, 0, None
        for stay in stays[stays["person"] == person][:5].itertuples():
            events += stay.kind == "hospital"
            of = codes.get_group(stay.stay)["code"] if stay.stay in codes.groups else []
            for code in list(of)[:4]:
                number += 1
                seen += [code] if code not in seen else []
            if events == 1 and known is None:
                known = list(seen)
        outcome = 0 if not events else 1 + (events > 1) + 2 * (person in dead)
        out[person] = number, tuple(seen[:3]), outcome, tuple(sorted(known or ()))
    return out


@pytest.mark.parametrize("seed", range(3))
def test_profiles_are_those_of_the_tables(seed):
    encoder, given = encoder_with_events(), drawn(seed=seed)
    profiles, coded = Profiles(encoder), encoder.to_tables(given)
    rows, names = profiles.rows(coded).codes, [column.name for column in profiles.columns]
    items, roots = profiles.items(coded)
    of_root = defaultdict(list)
    for root, (code, outcome) in zip(roots, items.codes, strict=True):
        of_root[root].append((code, outcome))
    by_code = encoder.once["codes"].codes[encoder.once["codes"].shares > 0]
    leading = [int(c) for c in profiles.leading]
    for i, (number, firsts, outcome, known) in enumerate(expected(given).values()):
        starts = profiles.classes["codes"]
        cell = rows[i, names.index("rows of codes")]
        assert starts[cell] <= number and (cell + 1 == len(starts) or number < starts[cell + 1])
        labels = [leading.index(code - 1) for code in firsts]
        labels += [max(profiles.sizes[names.index("code 1")] - 1, 0)] * (3 - len(labels))
        assert rows[i, names.index("code 1") : names.index("code 3") + 1].tolist() == labels
        assert rows[i, names.index("outcome")] == outcome < OUTCOMES
        assert sorted(of_root[i]) == [(by_code.tolist().index(c - 1), outcome - 1) for c in known]


def test_the_time_of_the_last_stay_is_near_its_day():
    """Cells of days and of gaps are added up: of four years in 40 classes the last stay is one class away at most."""
    encoder, given = encoder_with_events(), drawn(200)
    profiles = Profiles(encoder)
    (j,) = [j for j, column in enumerate(profiles.columns) if column.name == "last start"]
    classes = profiles.rows(encoder.to_tables(given)).codes[:, j]
    stays = given["stays"].assign(
        day=(pd.to_datetime(given["stays"]["start"]) - pd.Timestamp("2020-01-01")).dt.days
    )
    stays = stays.sort_values(["person", "day"], kind="stable").groupby("person").head(5)
    last = stays.groupby("person")["day"].max().reindex(given["people"]["person"])
    assert profiles.columns[j].size == 41 and (classes[last.isna().to_numpy()] == 40).all()
    apart = np.abs(classes + 0.5 - last.to_numpy() / 1461 * 40)[last.notna().to_numpy()]
    assert apart.max() <= 2 and apart.mean() < 1


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), person=st.integers(0, 11))
def test_one_person_moves_counts_by_a_norm_of_one(seed, person):
    """R2: each set of columns by one, and the weighted codes by a norm of one at most; other persons change nothing."""
    encoder, whole = encoder_with_events(), drawn(12, seed)
    gone = 100 + person
    stays = whole["stays"]["stay"][whole["stays"]["person"] == gone]
    others = {
        name: table[~(table["person"] == gone) & ~table.get("stay", pd.Series(0, table.index)).isin(stays)]
        for name, table in whole.items()
    }  # fmt: skip
    profiles = Profiles(encoder)
    with_it, without_it = encoder.to_tables(whole), encoder.to_tables(others)
    one, other = profiles.rows(with_it).codes, profiles.rows(without_it).codes
    assert (np.delete(one, person, axis=0) == other).all()

    def sums(coded):
        items = profiles.items(coded)[0]
        assert (items.shares * 2**20 % 1 == 0).all()
        totals = Counter()
        for cell, share in zip(map(tuple, items.codes), items.shares, strict=True):
            totals[cell] += share
        return totals

    more, less = sums(with_it), sums(without_it)
    moves = np.array([more[cell] - less[cell] for cell in more | less])
    assert (moves >= 0).all() and (moves**2).sum() <= 1


def test_the_norm_of_many_codes_is_nearly_one():
    """So noise is not scaled to less than a person adds."""
    codes = Categorical(name="code", dtype="int64", categories=tuple(range(1, 13)))
    encoder = encoder_with_events()
    plain = encoder.declared
    many = Schema([codes, CODES["day"]])
    of = dict(plain.tables) | {"codes": many}
    released = dict(plain.released) | {"codes.code": {str(c): [0.3, 0.1] for c in range(1, 13)}}
    of["people"] = Schema(list(PEOPLE.columns), released=released)
    keys = {name: k.to_dict() for name, k in plain.keys.items()}
    keys["codes"]["max_children"] = 12
    encoder = DerivedEncoder(LinkedSchema(of, keys))
    given = {
        "people": pd.DataFrame({"person": [1], "born": [1950]}),
        "stays": pd.DataFrame({"stay": [5], "person": 1, "start": "2021-05-01", "end": "2021-05-01", "kind": "hospital"}),
        "codes": pd.DataFrame({"stay": 5, "person": 1, "code": range(1, 13), "day": "2021-05-01"}),
        "deaths": pd.DataFrame({"person": [], "died": []}),
    }  # fmt: skip
    shares = Profiles(encoder).items(encoder.to_tables(given))[0].shares
    assert len(shares) == 12 and (shares**2).sum() == pytest.approx(1, abs=1e-4)


def test_features_add_up_to_the_counts():
    encoder, given = encoder_with_events(), drawn(50, 3)
    profiles, coded = Profiles(encoder), encoder.to_tables(given)
    features = profiles.features(coded)
    assert features.shape == (50, profiles.width)
    number = expected(given)
    persons = given["codes"].groupby("code")["person"].nunique()
    has = np.asarray(features.sum(axis=0)).ravel()[-4:]
    used = Counter(c for _, _, _, known in number.values() for c in set(known))
    assert all(has[c - 1] <= persons[c] for c in persons.index) and has.sum() >= sum(used.values())
    sizes = [np.prod([profiles.sizes[j] for j in s]) for s in profiles.sets]
    for start, size in zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True):
        assert features[:, start : start + size].sum() == 50


def test_targets_are_the_counts_and_their_sums_over_outcomes():
    encoder, given = encoder_with_events(), drawn(50, 3)
    profiles, coded = Profiles(encoder), encoder.to_tables(given)
    exact = np.asarray(profiles.features(coded).sum(axis=0)).ravel()
    codes = len(profiles.codes)
    counted = exact[: -codes - len(profiles.released_shares()[0])]
    targets, missed = profiles.targets(counted, np.full(len(counted), 3.0))
    assert targets == pytest.approx(exact[: len(targets)])
    assert len(targets) == profiles.width - len(profiles.released_shares()[0]) == len(missed)
    # Counts are missed by their noise at least, and sums of four outcomes by twice as much.
    assert missed.min() == 3 and missed[-codes:] == pytest.approx(6)
    assert missed[-codes - 1] == pytest.approx(3 * np.sqrt(DOUBT))


def test_two_tables_alone_have_no_profiles():
    """Their records say all of it."""
    plain = derived_schema(stays={"since": None})
    keys = {name: of.to_dict() for name, of in plain.keys.items() if name in ("people", "stays")}
    keys["people"].pop("before")
    of = {name: plain.tables[name] for name in keys}
    assert Profiles(DerivedEncoder(LinkedSchema(of, keys))).sets == []


@pytest.mark.parametrize(
    "damage",
    [
        {"std": float("nan")},
        {"std": "a"},
        {"std": None},
        {"codes.code": [1]},
        {"codes.code": {"1": [0.2]}},
        {"codes.code": {"one": [0.2, 0.1]}},
        {"codes.code": {"1": [-0.2, 0.1]}},
    ],
)
def test_damaged_released_shares_are_refused_in_one_line(damage):
    whole = encoder_with_events().declared
    people = whole.tables["people"]
    released = {k: v for k, v in {**people.released, **damage}.items() if v is not None}
    people = people.replace(released=released)
    keys = {name: of.to_dict() for name, of in whole.keys.items()}
    with pytest.raises(InputError, match=r"released shares of codes\.code are damaged"):
        DerivedEncoder(LinkedSchema({**whole.tables, "people": people}, keys))


@pytest.mark.parametrize("std", ["a", [1], float("nan")])
def test_a_damaged_noise_without_shares_is_refused_in_one_line(std):
    whole = encoder_with_events().declared
    released = {k: v for k, v in whole.released.items() if k != "codes.code"} | {"std": std}
    people = whole.tables["people"].replace(released=released)
    keys = {name: of.to_dict() for name, of in whole.keys.items()}
    with pytest.raises(InputError, match=r"released shares of codes\.code are damaged"):
        DerivedEncoder(LinkedSchema({**whole.tables, "people": people}, keys))


def test_shares_of_zero_are_none():
    """Shares are rounded: of very many roots a rare code may have a share of 0, and all may."""
    whole = encoder_with_events().declared
    people = whole.tables["people"]
    people = people.replace(released={**people.released, "codes.code": {"1": [0.0, 0.1]}})
    keys = {name: of.to_dict() for name, of in whole.keys.items()}
    encoder = DerivedEncoder(LinkedSchema({**whole.tables, "people": people}, keys))
    assert Profiles(encoder).released == [] and encoder.once["codes"].shares is None
