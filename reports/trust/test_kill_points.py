"""R7: kill -9 at a few random points of a fit; reports/trust/kill_points.py tries 200."""

import json
from collections import Counter
from pathlib import Path

import kill_points as kills
import pytest

from tabsynth.auditing.fixtures import find_fixture
from tabsynth.methods import METHODS

# Spends of a whole fit of each method that has a fixture, so that no fit has to be made to count them.
SPENDS = {name: find_fixture(name).spends for name, m in METHODS.items() if m.audit_fixture}


@pytest.mark.parametrize("method", SPENDS)
@pytest.mark.parametrize("way", [kills.LEDGER, kills.BOTH])
def test_a_random_point_is_sound(method: str, way: str, tmp_path: Path) -> None:
    result = kills.point(tmp_path, method, way, kills.BY_SPEND, {"spends": SPENDS[method]})
    assert result.outcome in (kills.RESUMED, kills.ANEW, kills.REFUSED, kills.AGAIN)
    assert 0 <= result.killed_after <= 241 and 0 <= result.lost <= 40


def test_a_ledger_that_says_too_little_is_seen(tmp_path: Path) -> None:
    """The judge itself: a use that is on the log and not on the ledger."""
    folder = kills.prepared(tmp_path / "x", kills.LEDGER)
    (folder / "used").write_text(json.dumps(["run", "critic", 1]) + "\n")
    with pytest.raises(AssertionError, match="1 used, 0 spent"):
        kills.judge(folder, "dp-wgan", kills.LEDGER, kills.BY_SPEND)


def test_every_method_is_killed() -> None:
    """All points that a run deals out are spread over all methods, and so are those of this file."""
    assert set(SPENDS) == set(kills.METHODS) == set(METHODS)
    dealt = Counter(method for method, _, _ in kills.cells(kills.POINTS))
    assert set(dealt) == set(METHODS) and max(dealt.values()) - min(dealt.values()) <= 3
