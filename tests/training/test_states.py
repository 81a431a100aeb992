"""States as files: everything comes back as it was, and nothing else is taken."""

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth.training.checkpoint import read_state, write_state

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(value=values)
def test_plain_states_come_back_as_they_were(value: Any, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("s") / "s"
    loaded = read_state(path, write_state(path, value))
    assert loaded == value and repr(loaded) == repr(value)


def test_tensors_come_back_as_they_were(tmp_path: Path) -> None:
    base = torch.arange(6, dtype=torch.float64).reshape(2, 3)
    state = {
        "views": [base, base.T, base[0]],  # share memory
        "empty": torch.zeros(0, 4),
        "zero-dimensional": torch.tensor(3, dtype=torch.int64),
        "bool": torch.tensor([True, False]),
        "not finite": torch.tensor([float("nan"), float("inf")]),
        3: (np.float32(1.5), np.arange(3, dtype=np.int32)),
    }
    loaded = read_state(tmp_path / "s", write_state(tmp_path / "s", state))
    assert list(loaded) == list(state)
    for one, other in zip(loaded["views"], state["views"], strict=True):
        assert torch.equal(one, other) and one.dtype == torch.float64
    for name in ("empty", "zero-dimensional", "bool"):
        assert loaded[name].shape == state[name].shape and torch.equal(loaded[name], state[name])
    assert torch.equal(loaded["not finite"].isnan(), torch.tensor([True, False]))
    assert loaded[3][0] == 1.5 and loaded[3][1].tolist() == [0, 1, 2]
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["s"]
    for bad in ({"x": object()}, {"x": {1.5: 2}}):
        with pytest.raises(TypeError):
            write_state(tmp_path / "s", bad)
