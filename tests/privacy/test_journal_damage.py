"""R7: a ledger on disk that was cut short says what was used; one that was damaged says nothing."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import FULL, on, released

from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.ledger import journal as module


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    """However much of the last line came to the disk, it was never acted upon."""
    path, copy = tmp_path / "l", tmp_path / "copy"
    ledger = on(path)
    account = ledger.open("p", FULL, 7)
    ledger.spend(account)
    whole = path.read_bytes()
    ledger.spend(account)
    released(ledger)
    data = path.read_bytes()
    for cut in range(len(whole), len(data), 6):
        copy.write_bytes(data[:cut])
        second = on(copy)
        assert second.accounts[0].spent == 1
        assert second.open("p", FULL, 7) is second.accounts[0]
        second.spend(second.accounts[0])
        released(second)
        assert copy.read_bytes() == data
    for cut in range(0, data.index(b"\n") + 1, 6):  # nothing was ever granted
        copy.write_bytes(data[:cut])
        second = on(copy)
        assert second.accounts == []
        released(second)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damage_anywhere_else_is_refused(tmp_path_factory: Any, data: st.DataObject) -> None:
    """A changed byte, a lost line, a line twice, lines in another order."""
    folder = tmp_path_factory.mktemp("damage")
    path = folder / "l"
    ledger = on(path)
    account = ledger.open("p", FULL, 9)
    for _ in range(3):
        ledger.spend(account)
    ledger.close()
    released(ledger)
    good = path.read_bytes()
    rows = good.splitlines(keepends=True)
    what = data.draw(st.sampled_from(["byte", "lose", "twice", "swap"]))
    i = data.draw(st.integers(0, len(rows) - 2))
    if what == "byte":
        at = data.draw(st.integers(0, len(good) - 2))
        bad = bytearray(good)
        bad[at] = (bad[at] + data.draw(st.integers(1, 255))) % 256
    elif what == "lose":
        bad = bytearray(b"".join(rows[:i] + rows[i + 1 :]))
    elif what == "twice":
        bad = bytearray(b"".join([*rows[: i + 1], *rows[i:]]))
    else:
        rows[i], rows[i + 1] = rows[i + 1], rows[i]
        bad = bytearray(b"".join(rows))
    path.write_bytes(bad)
    with pytest.raises(FileFormatError) as error:
        on(path)
    assert "\n" not in str(error.value) and path.name in str(error.value)
    path.write_bytes(good)
    released(on(path))  # and the lock was let go


def forged(path: Path, *records: dict[str, Any]) -> None:
    """A file whose chain is right and whose records are what they are."""
    chain, text = "", ""
    for record in records:
        chain = module._chain_hash(chain, record)
        text += module._line(record, chain).decode()
    path.write_text(text)


HEAD = {"record": "ledger", "format": module.FORMAT, "epsilon": 5.0, "delta": 1e-5}
OPEN = {
    **{"record": "open", "account": 0, "run": "a", "purpose": "p", "granted": 5, "details": {}},
    **{"mechanism": "gaussian", "noise_multiplier": 30.0, "sampling_rate": 1.0},
}
NONSENSE: list[list[Any]] = [
    [OPEN],
    [HEAD, HEAD],
    [HEAD, 5],
    [HEAD, {**OPEN, "granted": -1}],
    [HEAD, {**OPEN, "granted": True}],
    [HEAD, {**OPEN, "noise_multiplier": 0}],
    [HEAD, {**OPEN, "mechanism": "laplace"}],
    [HEAD, {**OPEN, "details": 3}],
    [HEAD, OPEN, OPEN],
    [HEAD, {"record": "reserve", "account": 0, "spent": 1}],
    [HEAD, OPEN, {"record": "reserve", "account": 0, "spent": 6}],
    [HEAD, OPEN, {"record": "reserve", "account": [0], "spent": 1}],
    [HEAD, OPEN, {"record": "settle", "account": 0, "spent": 1}],
    [HEAD, OPEN, {"record": "close", "account": 0, "spent": 1}],
    [HEAD, OPEN, {"record": "refund", "account": 0, "spent": 0}],
    [HEAD, OPEN, *({"record": "reserve", "account": 0, "spent": s} for s in (3, 2))],
    [HEAD, OPEN, *({"record": k, "account": 0, "spent": 0} for k in ("close", "reserve"))],
]


@pytest.mark.parametrize("records", NONSENSE, ids=range(len(NONSENSE)))
def test_records_that_make_no_sense(records: list[Any], tmp_path: Path) -> None:
    records = [r if isinstance(r, dict) else {"record": r} for r in records]
    forged(tmp_path / "l", *records)
    with pytest.raises(FileFormatError, match="damaged at line"):
        on(tmp_path / "l")
    forged(tmp_path / "good", HEAD, OPEN, {"record": "reserve", "account": 0, "spent": 5})
    ledger = on(tmp_path / "good")
    assert ledger.accounts[0].spent == 5
    released(ledger)


def test_another_limit_or_another_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "l"
    released(on(path))
    with pytest.raises(FileFormatError, match=r"epsilon=5\.0, not 6\.0"):
        on(path, epsilon=6.0)
    forged(path, {**HEAD, "format": "tabsynth-ledger/9"})
    with pytest.raises(FileFormatError, match="tabsynth-ledger/9"):
        on(path)
    with pytest.raises(InputError, match="Cannot open ledger"):
        on(tmp_path / "no" / "such" / "l")
    with pytest.raises(InputError, match="Cannot open ledger"):
        on(tmp_path)


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 10**6), uses=st.lists(st.integers(0, 2), max_size=60))
def test_no_crash_forgets(tmp_path_factory: Any, cut: int, uses: list[int]) -> None:
    """R7, by brute force: at every length the file ever had, it said at least what was used by then."""
    path = tmp_path_factory.mktemp("crash") / "l"
    ledger = on(path)
    accounts = [ledger.open(f"p{i}", FULL, 200 * (i + 1)) for i in range(3)]
    expected = [(path.stat().st_size, [0, 0, 0])]
    for use in uses:
        ledger.spend(accounts[use])
        expected.append((path.stat().st_size, [a.spent for a in accounts]))
    released(ledger)
    at = cut % (path.stat().st_size + 1)
    if at < expected[0][0]:
        return
    path.write_bytes(path.read_bytes()[:at])
    second = on(path)
    # A use returned only once the file had its full length.
    used = [used for size, used in expected if size <= at][-1]
    assert all(a.spent >= u for a, u in zip(second.accounts, used, strict=True))
    released(second)
