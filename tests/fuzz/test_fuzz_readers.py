"""Damaged files of every kind, seeded: success or a refusal in one line, in time, and nothing else."""

import random
import warnings
from pathlib import Path
from typing import Any

import fuzzing
import mutations
import pytest
from readers import READERS

from tabsynth import InputError

# 3,000 in all; the closing run is reports/audits/fuzz.py.
INPUTS = {
    **{"schema": 700, "csv": 450, "ledger": 400, "model": 150, "parquet": 150},
    **{"certificate": 80, "checkpoint": 70, "codebook": 600},
    **{"linked schema": 150, "linked tables": 100, "survey table": 150},
    **{"release file": 60, "dossier": 40},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    reader = READERS[name](tmp_path)
    tally = fuzzing.fuzz(name, reader.make, reader.read, INPUTS[name], seed=0)
    assert tally.findings == []
    assert tally.inputs == INPUTS[name] == tally.accepted + tally.refused
    # Neither all sound nor all hopeless: the readers' inner parts are reached.
    assert tally.refused > INPUTS[name] / 4 and tally.accepted > INPUTS[name] / 100


def hang() -> None:
    while True:
        pass


def warn() -> None:
    warnings.warn("x", RuntimeWarning, stacklevel=1)


def refuse_at_length() -> None:
    raise InputError("one line\nand another")


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (lambda: {}["x"], "exception"),
        (warn, "exception"),
        (hang, "hang"),
        (refuse_at_length, "long refusal"),
        (lambda: print("x"), "noise"),
        (lambda: 5, "accepted"),
    ],
)
def test_what_is_wrong_is_found(read: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "SECONDS", 0.05)
    assert fuzzing.outcome(read)[0] == kind


def test_memory_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "MEMORY", -1)
    assert fuzzing.outcome(lambda: 5)[0] == "memory"


def test_inputs_can_be_made_again(tmp_path: Path) -> None:
    base = {"a": [1, 2, {"b": "x"}], "c": None}
    one, other = (
        [mutations.text(mutations.changed(base, rng), rng) for _ in range(50)]
        for rng in (random.Random(3), random.Random(3))
    )
    assert one == other and len(set(one)) > 30
    assert base == {"a": [1, 2, {"b": "x"}], "c": None}
