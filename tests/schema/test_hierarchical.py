"""Codes in a hierarchy: by prefixes and by a tree, rare codes, long lists, conditions on nodes."""

import json

import command_lines as cl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import Categorical, Hierarchical, MargNet, Schema
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.schema import hierarchical
from tabsynth.synthesizers.margnet.config import MargNetConfig

RNG = np.random.default_rng(0)
CODES = ("250", "250.0", "250.1", "251", "428.0", "428.1", "V58")
TREE = {"diabetes": None, "heart": None, "250": "diabetes", "251": "diabetes", "428": "heart"}


def column(**facts) -> Hierarchical:
    return Hierarchical(
        **{"name": "diag", "dtype": "str", "codes": CODES, "levels": (1, 3), **facts}
    )


def icd9() -> tuple[str, ...]:
    """Codes of three digits with and without a decimal: 14,190 of them."""
    chapters = [
        *(f"{i:03}" for i in range(1, 1000)),
        *(f"V{i:02}" for i in range(1, 92)),
        *(f"E{i}" for i in range(800, 1000)),
    ]
    return tuple(code + end for code in chapters for end in ("", *(f".{d}" for d in range(10))))


def test_prefixes_pass_over_dots() -> None:
    assert column(levels=(2, 4)).paths[1] == ("25", "250.0")
    assert column(codes=("250.12",), levels=(2, 4)).paths == [("25", "250.1", "250.12")]
    assert column().below("25") == () and column().below("250") == CODES[:3]
    assert column(levels=(2,)).below("25") == CODES[:4]


def test_a_tree_has_its_leaves_as_codes() -> None:
    tree = column(levels=(), codes=(), parents=TREE)
    assert tree.codes == ("250", "251", "428")
    assert tree.below("diabetes") == ("250", "251")
    pairs = column(levels=(), codes=(), parents=[list(pair) for pair in TREE.items()])
    assert pairs == tree and Schema.from_dict(Schema([tree]).to_dict())["diag"] == tree
    naics = Hierarchical(name="n", dtype="int64", codes=(11, 1111, 22), levels=(2,))
    assert naics.below("11") == (11, 1111) and naics.encode(pd.Series([1111, 22])).tolist() == [
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"parents": {"a": "b", "b": "a"}}, "'a' is above itself; parents must be a tree"),
        ({"parents": [["a", None], ["b", None], ["a", "b"]]}, "'a' has two parents, None and 'b'"),
        ({"parents": {"a": "b"}}, "'b', the parent of 'a', is no node"),
        ({"parents": TREE, "codes": ("250", "999")}, "code '999' has no place in parents"),
        ({"parents": [["a"]]}, r"parents has \['a'\] in place of a node and its parent"),
        ({"codes": CODES, "levels": (3, 1)}, "levels must rise"),
        ({"codes": CODES, "levels": (0,)}, "levels of column 'diag' to be a whole number"),
        ({"codes": ()}, "declare codes"),
        ({"codes": ("1", "1")}, "listed twice"),
        ({"codes": CODES, "parents": TREE, "levels": (3,)}, "levels or parents, not both"),
        ({"codes": (1.5,)}, "neither text nor a whole number"),
        ({"codes": CODES, "other": "x"}, "is not among its categories"),
        ({"codes": tuple(f"{i}x" for i in range(100_001))}, "at most 100000 are supported"),
    ],
)
def test_what_is_no_hierarchy_is_refused_in_one_line(facts, says) -> None:
    with pytest.raises(InputError, match=says) as caught:
        Hierarchical(**{"name": "diag", "dtype": "str", **facts})
    assert "\n" not in str(caught.value)


def test_a_schema_file_says_so_at_the_command_line(tmp_path) -> None:
    item = {"name": "d", "kind": "hierarchy", "dtype": "str", "parents": {"a": "b", "b": "a"}}
    (tmp_path / "s.json").write_text(json.dumps({"format": "tabsynth-schema/1", "columns": [item]}))
    (tmp_path / "t.csv").write_text("d\na\n")
    says = "'a' is above itself"
    cl.refused("schema", "check", "t.csv", "s.json", cwd=tmp_path, says=says)


def test_unlisted_codes_become_their_longest_listed_prefix_or_other() -> None:
    values = pd.Series(["250.13", "250.9", "251.22", "999", None])
    with pytest.raises(InputError, match=r"'250\.13' is outside its declared categories"):
        column(nulls=True).encode(values)
    shortened = column(nulls=True, shorten=True, other="V58")
    want = ["250.1", "250", "251", "V58", None]
    assert (
        shortened.decode(shortened.encode(values), RNG)
        .astype(object)
        .where(lambda v: v.notna(), None)
        .tolist()
        == want
    )
    read = shortened.parse(values)
    assert str(read.dtype) == "str" and shortened.encode(read).tolist() == [2, 0, 3, 6, 7]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_what_a_row_becomes_does_not_depend_on_others(data: st.DataObject) -> None:
    texts = st.sampled_from([*CODES, "250.19", "2511", "V581"])
    values = data.draw(st.lists(texts, min_size=1, max_size=8))
    shortened = column(shorten=True)
    alone = [int(shortened.encode(pd.Series([value]))[0]) for value in values]
    assert shortened.encode(pd.Series(values)).tolist() == alone


DTYPES = {"str": CODES, "object": CODES, "category": CODES, "string": CODES, "Int64": (1, 11, 12)}


@pytest.mark.parametrize("most", [2_048, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_code_comes_back_in_its_dtype(dtype: str, most: int, monkeypatch) -> None:
    monkeypatch.setattr(hierarchical, "MODELLED", most)
    codes = DTYPES[dtype]
    made = Hierarchical(name="a", dtype=dtype, nulls=True, codes=codes, levels=(1,))
    schema = Schema([made])
    assert len(schema.learned.columns) == 1 + (len(codes) > most)
    table = pd.DataFrame({"a": made.code_list.decode(np.arange(len(codes) + 1), RNG)})
    encoder = TableEncoder(schema)
    index = encoder.to_index(table)
    pd.testing.assert_frame_equal(encoder.from_index(index, RNG), table)
    assert not encoder.rules.violations(index).any()
    assert (index.max(axis=0) < schema.learned.sizes).all()


def test_rare_codes_are_grouped_below_their_node_and_common_ones_are_not() -> None:
    codes = ("100.1", "100.2", "100.3", "101", "200.1", "200.2", "300")
    made = column(codes=codes, levels=(1, 3))
    shares = np.array([0.3, 0.01, 0.02, 0.03, 0.01, 0.01, 0.62])
    groups = made.groups(shares, 0.05, 1.0)
    assert groups[1] == groups[2] == groups[3] and groups[4] == groups[5]
    assert len({groups[0], groups[1], groups[6]}) == 3
    assert sorted(set(groups)) == list(range(len(set(groups))))
    # With enough rows for the node, its codes are not mixed with those beside it.
    fine = made.groups(shares, 0.025, 1.0)
    assert fine[1] == fine[2] != fine[3]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=8, max_size=8), st.floats(0, 0.5), st.floats(0, 1))
def test_groups_are_numbered_without_a_gap(shares, least, merged) -> None:
    groups = column(nulls=True).groups(np.array(shares), least, merged)
    assert sorted(set(groups.tolist())) == list(range(int(groups.max()) + 1))


def test_fourteen_thousand_codes_are_nodes_and_a_detail() -> None:
    made = column(codes=icd9(), levels=(1, 2, 3), nulls=True)
    assert made.cells == 999 + 91 + 20 and made.detail.size < 200 and made.categories == ()
    values = pd.Series(["250.1", "250", "E801.3", "V58", None])
    codes, details = made.encode(values), made.detail_codes(values)
    assert made.label(codes[0]) == "250" and made.label(codes[2]) == "E80"
    back = made.decode(codes, RNG, details=details)
    assert back.iloc[:4].tolist() == values.iloc[:4].tolist() and back.isna()[4]
    # A detail that the node does not have gives another of its codes.
    wrong = made.decode(codes[:1], RNG, details=details[2:3])
    assert wrong[0] in made.below("250")
    assert made.mask(["250"], "rule").sum() == 1
    with pytest.raises(InputError, match="only a part of the cell 250 is listed"):
        made.mask(["250.1"], "rule")


@pytest.mark.slow
@pytest.mark.parametrize("levels", [(), (1,), (6,)])
def test_long_lists_without_a_useful_level_are_cut_into_runs(levels) -> None:
    codes = tuple(f"c{i:05}" for i in range(100_000))
    made = column(codes=codes, levels=levels, nulls=True)
    assert made.cells <= hierarchical.MODELLED and made.detail.size == 49
    places = np.array([0, 777, 99_999, 100_000])
    values = made.code_list.decode(places, RNG)
    back = made.decode(made.encode(values), RNG, details=made.detail_codes(values))
    pd.testing.assert_series_equal(back, values)
    restriction = made.restriction(["c00777"])
    assert restriction.shares.sum() == restriction.within.sum() == restriction.details.sum() == 1


@pytest.mark.slow
@pytest.mark.parametrize("most", [2_048, 20])
def test_a_fit_keeps_codes_of_nodes_and_conditions_on_both(
    most: int, monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr(hierarchical, "MODELLED", most)
    codes = tuple(f"{c}{e}" for c in range(100, 115) for e in ("", ".0", ".1", ".2"))
    made = Hierarchical(name="diag", dtype="str", codes=codes, levels=(2, 3), shorten=True)
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 4_000)
    node = np.where(sex == "f", "100", rng.choice(["101", "110", "114"], 4_000))
    end = np.where(node == "100", ".1", rng.choice(["", ".0", ".25"], 4_000))
    table = pd.DataFrame({"diag": np.char.add(node, end), "sex": sex})
    schema = Schema([made, Categorical(name="sex", dtype="str", categories=("f", "m"))])
    config = MargNetConfig(steps=300)
    model = MargNet(schema, epsilon=4, config=config, random_state=0).fit(table)
    sample = model.sample(4_000, random_state=1)
    assert sample["diag"].isin(codes).all()
    share = (sample["diag"] == "100.1").mean()
    assert abs(share - (table["diag"] == "100.1").mean()) < 0.06
    assert ((sample["diag"] == "100.1") == (sample["sex"] == "f")).mean() > 0.9
    some = model.sample(100, where={"diag": "100"}, random_state=2)
    assert some["diag"].str.startswith("100").all() and (some["diag"] == "100.1").mean() > 0.8
    exact = model.sample(50, where={"diag": ["110.0", "114.2"]}, random_state=2)
    assert exact["diag"].isin(["110.0", "114.2"]).all()
    table.to_csv(tmp_path / "t.csv", index=False)
    model.save(tmp_path / "m.tabsynth")
    words = ("sample", "m.tabsynth", "-n", 20, "--where", "diag=11", "-o", "s.csv")
    cl.run(*words, cwd=tmp_path)
    read = pd.read_csv(tmp_path / "s.csv", dtype=str)
    assert read["diag"].str.startswith("11").all()
    with pytest.raises(InputError, match="has no value 'x'"):
        model.sample(5, where={"diag": "x"})
