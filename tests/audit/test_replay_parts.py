"""The parts of a replay: leaves of any value, coins of records, neighbours of a table."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from record_replay import KINDS, neighbours, record_contents
from replayed_tables import SCHEMA, frame
from systems.form import draw_rows

from tabsynth import InputError, Schema
from tabsynth.auditing.run_trace import RecordRandomness, difference, leaves
from tabsynth.encoding import TableEncoder
from tabsynth.schema import Column


@dataclass
class Held:
    numbers: Any
    inner: dict[str, Any] = field(default_factory=dict)


VALUES = [
    (1, 2, "the value is 2, not 1"),
    (1, 1.0, "the value is 1.0, not 1"),
    (0.1 + 0.2, 0.3, "the value is 0.3, not 0.30000000000000004"),
    ({"a": [1, 2]}, {"a": [1, 3]}, "a[1] is 3, not 2"),
    ({"a": 1}, {"a": 1, "b": 2}, "b is new"),
    ({"a": 1, "b": 2}, {"a": 1}, "b is missing"),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "b is in the place of a"),
    (torch.zeros(2), torch.zeros(3), "the value is float32 (3,)"),
    (torch.zeros(2), torch.tensor([0.0, -0.0]), "the value is float32 (2,)"),
    (np.zeros(2), np.zeros(2, np.float32), "the value is float32 (2,)"),
    (b"ab", b"ac", "the value is 2 bytes"),
    (Held(1, {"x": np.arange(3)}), Held(1, {"x": np.arange(3)[::-1]}), "inner.x is int64 (3,)"),
    (Held([1]), Held((1,)), None),
    (pd.DataFrame({"a": [1], "b": [None]}), pd.DataFrame({"a": [1], "b": [np.nan]}), "b is"),
    ({"created": 1, "a": 0}, {"created": 2, "a": 0}, None),
    (torch.nn.Linear(1, 1, bias=False).requires_grad_(False), torch.nn.Identity(), "the value is"),
]


@pytest.mark.parametrize(("one", "other", "message"), VALUES)
def test_the_first_difference_has_a_name(one: Any, other: Any, message: str | None) -> None:
    assert difference(leaves(one), leaves(one)) is None
    result = difference(leaves(one), leaves(other))
    assert result is None if message is None else result is not None and result.startswith(message)


def test_a_module_a_generator_and_a_loop() -> None:
    """Weights by their own names; a stream by where it stands; what holds itself ends."""
    network = torch.nn.Sequential(torch.nn.Linear(2, 2))
    before = leaves({"net": network})
    with torch.no_grad():
        network[0].weight[1, 1] += 1
    assert (difference(before, leaves({"net": network})) or "").startswith("net.0.weight is")
    rng = torch.Generator().manual_seed(0)
    before = leaves(rng)
    torch.rand(1, generator=rng)
    assert "generator" in (difference(before, leaves(rng)) or "")
    part = Held(0)
    part.inner["me"] = part
    assert ("inner.me", "itself") in leaves(part)


@given(st.permutations(range(12)), st.lists(st.integers(0, 2), min_size=12, max_size=12))
def test_coins_go_with_the_record(order: list[int], held: list[int]) -> None:
    """Wherever a record stands, and whoever else is there, it tosses the same; equals one by one."""
    index = np.array(held)[:, None]
    shuffled = np.concatenate([index[list(order)], [[7]]])
    randomness = RecordRandomness(*map(record_contents, (index, shuffled)), seed=3)
    one, other = (randomness.uniforms(5, 2)[records] for records in randomness.records)
    for value in {0, 1, 2}:
        ours, theirs = one[index[:, 0] == value], other[shuffled[:, 0] == value]
        assert torch.equal(ours, theirs)  # equal records are in order in both
    assert randomness.unmatched.sum() == 1 and bool(randomness.unmatched[randomness.records[1][-1]])
    assert not torch.equal(randomness.uniforms(5, 2), randomness.uniforms(6, 2))


def test_coins_are_fair() -> None:
    randomness = RecordRandomness(
        *(record_contents(np.arange(n)[:, None]) for n in (500, 501)), seed=0
    )
    drawn = torch.stack([randomness.uniforms(i, 1)[:500, 0] < 0.2 for i in range(200)]).double()
    assert abs(float(drawn.mean()) - 0.2) < 5 * (0.16 / 100_000) ** 0.5
    among = torch.corrcoef(drawn.T).fill_diagonal_(0).abs().mean()
    assert float(among) < 1.3 * (2 / (np.pi * 200)) ** 0.5  # as of independent coins


def test_each_kind_of_neighbour() -> None:
    table, encoder = frame(60), TableEncoder(SCHEMA)
    before = table.copy()
    result = neighbours(table, SCHEMA, seed=1)
    assert [(n.kind, n.change) for n in result] == [
        (kind, change) for kind in KINDS for change in ("added", "removed")
    ]
    pd.testing.assert_frame_equal(table, before)
    records = {}
    for pair in result:
        small, large = (pair.table, pair.neighbour)[:: 1 if pair.change == "added" else -1]
        assert len(large) == len(small) + 1
        assert large.dtypes.equals(table.dtypes) and small.dtypes.equals(table.dtypes)
        rows = [list(map(tuple, encoder.to_index(t))) for t in (small, large)]
        place = next((i for i in range(len(small)) if rows[0][i] != rows[1][i]), len(small))
        assert rows[0][place:] == rows[1][place + 1 :]  # one record more, all others as they were
        records[pair.kind] = large.iloc[place]
        if pair.kind == "unique":
            assert not (small["k"] == records["unique"]["k"]).any()
        if pair.kind == "copy":
            assert rows[1][place] in rows[0]
    assert records["outlier"]["v"] == 0 and records["outlier"]["r"] == 1.0
    assert records["undeclared"]["k"] == "unheard of" and records["undeclared"]["r"] > 1
    assert records["lowest"]["v"] == 0 and records["highest"]["v"] == 20
    assert not records["lowest"]["b"] and records["highest"]["b"]
    assert len(records["extreme"]["k"]) == 5000 and records["extreme"]["v"] == 2**53 + 1
    assert pd.isna(records["null"]["v"]) and records["minority"]["k"] == "y"


def test_neighbours_of_other_schemas() -> None:
    """Kinds that a schema has no room for are left out; impossible rows are not made."""
    plain = Schema([Column(name="a", kind="categorical", dtype="category", categories=("p", "q"))])
    table = pd.DataFrame({"a": pd.Categorical(["p", "q", "p"], categories=["p", "q"])})
    assert {n.kind for n in neighbours(table, plain)} == {"outlier", "unique", "minority", "copy"}
    with pytest.raises(InputError, match="two rows"):
        neighbours(table[:1], plain)
    columns = [
        Column(name=n, kind="ordinal", dtype="int64", categories=(0, 1, 2)) for n in ("a", "b")
    ]
    schema = Schema(columns, impossible=[{"a": [2], "b": [2]}])
    some = pd.DataFrame({"a": [0, 1, 0, 1], "b": [0, 0, 1, 1]})
    for pair in neighbours(some, schema, seed=2):
        TableEncoder(schema).to_index(pair.neighbour)
    assert len(draw_rows(schema, 20, 0)) == 20
