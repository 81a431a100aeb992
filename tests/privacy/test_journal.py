"""R7: the ledger on disk. Whatever kills the writer, a reader finds at least what was used."""

import fcntl
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from journals import FULL, on, released

from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
    NoisyVote,
    NoPrivacy,
    SubsampledGaussian,
)
from tabsynth.privacy.ledger import journal as locked_file
from tabsynth.privacy.ledger.ledger import BLOCK


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def kinds(path: Path) -> list[str]:
    return [line["record"] for line in lines(path)]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "l"
    ledger = on(path)
    sampled = SubsampledGaussian(noise_multiplier=5 / 3, sampling_rate=0.0123)
    mechanisms = (FULL, sampled, NoisyVote(noise=20 / 3, teachers=50), FULL)
    for i, mechanism in enumerate(mechanisms):
        account = ledger.open(f"p{i}", mechanism, 4, {"unit": "counts"})
        for _ in range(i):
            ledger.spend(account)
    released(ledger)
    second = on(path)
    assert [(a.purpose, a.mechanism, a.granted, a.spent, a.details) for a in second.accounts] == [
        (f"p{i}", m, 4, i, {"unit": "counts"}) for i, m in enumerate(mechanisms)
    ]
    assert second.to_list() == ledger.to_list() and second.spent == ledger.spent > 0
    released(second)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_infinite_limit(tmp_path: Path) -> None:
    ledger = on(tmp_path / "l", epsilon=math.inf)
    ledger.spend(ledger.open("p", NoPrivacy(), 3))
    released(ledger)
    second = on(tmp_path / "l", epsilon=math.inf)
    assert second.spent == math.inf
    released(second)


def test_a_use_is_on_disk_before_it_is_granted(tmp_path: Path) -> None:
    """R7: after every use, what a reader would find now is at least what is used; blocks are small."""
    path = tmp_path / "l"
    ledger = on(path)
    small, large = ledger.open("small", FULL, 7), ledger.open("large", FULL, 5000)
    for account, block in ((small, 1), (large, BLOCK)):
        for used in range(1, 6 if account is small else 100):
            ledger.spend(account)
            written = [x for x in lines(path) if x["record"] == "reserve"]
            results = [x["spent"] for x in written if x["account"] == account.number]
            assert used <= results[-1] < used + block
            assert sorted(results) == results
    assert kinds(path).count("reserve") == 5 + 4


def test_an_interrupted_reservation_is_in_neither_file_nor_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while a line is synced: no use was granted, and a reader finds what the process says."""
    path = tmp_path / "l"
    ledger = on(path)
    account = ledger.open("p", FULL, 5000)
    ledger.spend(account, BLOCK)

    def interrupt(fd: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ledger.spend(account)
    assert account.spent == BLOCK
    ledger.close(resumable=True)
    released(ledger)
    assert [a.spent for a in on(path).accounts] == [BLOCK]


def test_several_uses_are_on_disk_before_they_are_granted(tmp_path: Path) -> None:
    ledger = on(tmp_path / "j")
    account = ledger.open("votes", FULL, 100)
    for uses, total in ((40, 40), (1, 41), (59, 100)):
        ledger.spend(account, uses)
        assert ledger.journal is not None and account.number is not None
        assert ledger.journal.entries[account.number].spent >= account.spent == total
    released(ledger)
    second = on(tmp_path / "j")
    assert [a.spent for a in second.accounts] == [100]
    released(second)


def test_nothing_is_used_if_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "l"
    ledger = on(path)
    account = ledger.open("p", FULL, 7)
    ledger.spend(account)
    before = path.read_bytes()

    def full(fd: int, data: bytes, at: int) -> int:
        if at > len(before) + 10:
            raise OSError(28, "No space left on device")
        return pwrite(fd, data[:7], at)

    with monkeypatch.context() as patch:
        pwrite = os.pwrite
        patch.setattr(os, "pwrite", full)
        with pytest.raises(InputError, match="No space left on device; nothing was read"):
            ledger.spend(account)
    assert account.spent == 1
    assert path.read_bytes().startswith(before) and path.read_bytes() != before  # a torn line
    ledger.spend(account)  # there is space again: the torn line is written over
    released(ledger)
    second = on(path)
    assert second.accounts[0].spent == 2
    released(second)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "l"
    ledger = on(path)
    with pytest.raises(InputError, match="in use by another fit"):
        on(path)
    with open(path, "rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    released(ledger)
    released(on(path))


def test_a_run_opens_its_own_accounts_again(tmp_path: Path) -> None:
    """R7: what a crash left reserved is spent; the same plan goes on with what is left of it."""
    path = tmp_path / "l"
    ledger = on(path)
    account = ledger.open("critic", FULL, 640)
    for _ in range(3):
        ledger.spend(account)
    released(ledger)  # no close: a crash
    second = on(path)
    (kept,) = second.accounts
    assert (kept.spent, kept.granted, kept.waiting) == (10, 640, True)
    assert second.open("critic", FULL, 640) is kept and not kept.waiting
    for _ in range(630):
        second.spend(kept)
    with pytest.raises(BudgetError, match="all 640 uses are spent"):
        second.spend(kept)
    # It was given once: asked for again, it is another account.
    assert second.open("critic", FULL, 640) is not kept
    released(second)


@pytest.mark.parametrize("resumable", [True, False])
def test_close_gives_back_what_was_not_used(tmp_path: Path, resumable: bool) -> None:
    path = tmp_path / "l"
    ledger = on(path)
    account = ledger.open("critic", FULL, 640)
    for _ in range(3):
        ledger.spend(account)
    ledger.close(resumable=resumable)
    with pytest.raises(BudgetError):
        ledger.spend(account)
    released(ledger)
    second = on(path)
    (kept,) = second.accounts
    assert (kept.spent, kept.granted, kept.waiting) == (3, 640 if resumable else 3, resumable)
    released(second)


def test_the_fits_of_one_file_compose(tmp_path: Path) -> None:
    """R7: what another run was granted and did not give back is not there for this one."""
    path = tmp_path / "l"
    first = on(path, "a")
    half = Gaussian(noise_multiplier=1.0)
    first.open("critic", half, 1)
    with pytest.raises(BudgetError):
        first.open("critic", half, 1)
    released(first)
    second = on(path, "b")
    assert not second.accounts[0].waiting
    with pytest.raises(BudgetError, match="above the budget"):
        second.open("critic", half, 1)
    assert second.journal is not None
    second.journal.close_all(but=("b",))
    released(second)
    third = on(path, "b")
    third.spend(third.open("critic", half, 1))
    assert third.of_run("b") == third.to_list() and third.of_run("a") == []
    released(third)


def test_an_interrupt_in_the_middle_of_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the file and what the process remembers of it: the file stays whole."""
    path = tmp_path / "l"
    ledger = on(path)
    account = ledger.open("p", FULL, 7)
    for name in ("fsync", "pwrite"):
        real = getattr(os, name)

        def struck(*args: Any, real: Any = real) -> Any:
            real(*args)
            raise KeyboardInterrupt

        for act in (lambda: ledger.spend(account), lambda: ledger.open("q", FULL, 1)):
            with monkeypatch.context() as patch:
                patch.setattr(os, name, struck)
                with pytest.raises(KeyboardInterrupt):
                    act()
            ledger.spend(account)
    ledger.close(resumable=True)
    released(ledger)
    second = on(path)
    assert [(a.purpose, a.spent) for a in second.accounts] == [("p", 4)]
    released(second)


def test_without_file_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locked_file, "fcntl", None)
    with pytest.raises(InputError, match="file locks"):
        on(tmp_path / "l")
