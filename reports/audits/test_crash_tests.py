"""R7: kill -9 at a few random points of a fit; reports/audits/crash_tests.py tries 320."""

import json
from collections import Counter
from pathlib import Path

import crash_tests as kills
import pytest
from systems import SYSTEMS

from tabsynth.methods import LINKED, METHODS

# Spends of a whole fit of each method that has systems, so that no fit has to be made to count them.
SPENDS = {
    subject: SYSTEMS[method].charges
    for subject, method in kills.SUBJECTS.items()
    if method in SYSTEMS and subject != "pate-gan with units"
}


@pytest.mark.parametrize("method", SPENDS)
@pytest.mark.parametrize("way", [kills.LEDGER, kills.BOTH])
def test_a_random_point_is_sound(method: str, way: str, tmp_path: Path) -> None:
    result = kills.point(tmp_path, method, way, kills.BY_SPEND, {"spends": SPENDS[method]})
    assert result.outcome in (kills.RESUMED, kills.PLANNED_AGAIN, kills.REFUSED, kills.AGAIN)
    assert 0 <= result.killed_after <= 241 and 0 <= result.lost <= 40


def test_a_ledger_that_says_too_little_is_seen(tmp_path: Path) -> None:
    """The judge itself: a use that is on the log and not on the ledger."""
    folder = kills.prepare_folder(tmp_path / "x", "dp-wgan", kills.LEDGER)
    (folder / "used").write_text(json.dumps(["run", "critic", 1]) + "\n")
    with pytest.raises(AssertionError, match="1 used, 0 spent"):
        kills.judge(folder, "dp-wgan", kills.LEDGER, kills.BY_SPEND)


def test_every_method_is_killed() -> None:
    """All points that a run deals out are spread over all methods, and so are those of this file."""
    assert set(SPENDS) >= {*METHODS, *LINKED} and set(kills.SUBJECTS) > set(SPENDS)
    dealt: Counter[str] = Counter()
    for (method, _), kinds in kills.dealt().items():
        dealt[method] += len(kinds)
    assert dealt.total() == kills.POINTS
    assert set(dealt) == set(kills.SUBJECTS) and max(dealt.values()) - min(dealt.values()) <= 3
