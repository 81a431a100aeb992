"""Damage to files that knows their structure: bytes, JSON values, CSV cells."""

import copy
import json
import random
from typing import Any

DIGITS = b'0123456789"[]{},:.-+eE\\n\\u \t\r\n\0\x80\xff'
TEXTS = (
    "",
    "\0",
    "\ud800",
    "=1+1",
    "../../x",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "x" * 20_000,
    "é" * 300,
    "\u202e\x1b[31m",
    "nan",
    "inf",
    "1e999",
)
NUMBERS = (0, -0.0, -1, 1, 2, 0.5, 1e-320, 1e300, -1e300, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63))
RAW = ("NaN", "Infinity", "-Infinity", "1e999", "-0", "1" * 50, "1" * 5000, "00", "0x10", "'x'")
OTHERS = (None, True, False, [], {}, [[]], [None], {"": None}, [1] * 200, {"low": 1, "high": 0})
WIDE = 4_000  # most entries of a list that was made long
SLOT = "\u2603slot\u2603"  # stands for raw text in a JSON file


def value(rng: random.Random) -> Any:
    """A value that a reader may not expect."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(TEXTS)
    if kind == 1:
        return rng.choice(NUMBERS)
    if kind == 2:
        return copy.deepcopy(rng.choice(OTHERS))
    if kind == 3:
        return rng.randrange(-(10**6), 10**9)
    if kind == 4:
        return SLOT
    deep: Any = rng.choice(TEXTS[:5])
    for _ in range(rng.choice((3, 70, 150))):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    return deep


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    result, todo = [], [data]
    while todo:
        holdout = todo.pop()
        items = holdout.items() if isinstance(holdout, dict) else enumerate(holdout)
        for key, item in items:
            result.append((holdout, key))
            if isinstance(item, dict | list):
                todo.append(item)
    return result


def changed(data: Any, rng: random.Random) -> Any:
    """A JSON value with some of its parts replaced, removed, doubled, swapped or made long."""
    data = copy.deepcopy(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        expected = places(data)
        if not expected:
            return value(rng)
        holdout, key = rng.choice(expected)
        kind = rng.randrange(8)
        if kind <= 2:
            holdout[key] = value(rng)
        elif kind == 3:
            del holdout[key]
        elif kind == 4:
            other, its = rng.choice(expected)
            holdout[key] = copy.deepcopy(
                other.get(its) if isinstance(other, dict) else other[its:][:1]
            )
        elif kind == 5 and isinstance(holdout, list):
            holdout.insert(rng.randrange(len(holdout) + 1), copy.deepcopy(holdout[key]))
        elif kind == 6 and isinstance(holdout, list) and len(holdout) * 50 < WIDE:
            holdout *= rng.choice((2, 10, 50))
        elif isinstance(holdout[key], int | float):
            holdout[key] = holdout[key] * rng.choice((-1, 0, 2, 10, 10**6, 0.5)) + rng.choice(
                (0, 1, -1)
            )
        else:
            holdout[
                rng.choice(("", "epsilon", "name", "x")) if isinstance(holdout, dict) else key
            ] = value(rng)
    return data


def text(data: Any, rng: random.Random) -> str:
    """JSON of a value, now and then as no writer of ours would write it."""
    out = json.dumps(data, ensure_ascii=rng.random() < 0.5 or "\ud800" in str(data))
    while f'"{SLOT}"' in out:
        out = out.replace(f'"{SLOT}"', rng.choice(RAW), 1)
    if rng.random() < 0.05 and out.startswith("{"):
        out = '{"format": "twice", ' + out[1:]
    if rng.random() < 0.02:
        out = rng.choice(("[" * 5000, '{"a":' * 5000, "\ufeff", " " * 9, "//x\n")) + out
    return out


def damaged(raw: bytes, rng: random.Random, other: bytes = b"", upto: int | None = None) -> bytes:
    """Bytes flipped, cut, repeated, spliced with another file's; the first ``upto`` above all."""
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        most = len(data) if upto is None or rng.random() < 0.2 else min(upto, len(data))
        at, kind = rng.randrange(most + 1), rng.randrange(7)
        if kind <= 2 and at < len(data):
            data[at] = rng.randrange(256) if kind else rng.choice(DIGITS)
        elif kind == 3:
            del data[at : at + rng.choice((1, 2, 8, 64, len(data)))]
        elif kind == 4:
            data[at:at] = bytes(rng.choice(DIGITS) for _ in range(rng.choice((1, 3, 40))))
        elif kind == 5:
            data[at:at] = data[at : at + rng.choice((1, 20, 200))] * rng.choice((1, 2, 30))
        elif other:
            start = rng.randrange(len(other))
            data[at : at + rng.choice((0, 8, 100))] = other[start : start + rng.choice((1, 8, 100))]
    return bytes(data[: 2**18])


CELLS = (
    "",
    "NA",
    "x",
    "=1+1",
    "'=1+1",
    "1",
    "-1",
    "1e999",
    "nan",
    "1_0",
    "9" * 400,
    "0x1",
    "é",
    " ",
)
SIGNS = (",", "\n", "\r\n", "\r", '"', '""', ";", "\t", "\0", "\ufeff", "\u2028", "\ud7ff", '",\n"')


def table(rows: list[list[str]], rng: random.Random) -> bytes:
    """A CSV file with cells, rows and quotes out of place."""
    rows = [list(row) for row in rows[: rng.choice((1, 2, 5, len(rows)))]]
    for _ in range(rng.choice((0, 1, 2, 8))):
        row = rng.choice(rows)
        kind = rng.randrange(6)
        if kind <= 2 and row:
            row[rng.randrange(len(row))] = rng.choice((*CELLS, *TEXTS[3:7], "x" * 9_999))
        elif kind == 3:
            row.insert(rng.randrange(len(row) + 1), rng.choice(CELLS))
        elif kind == 4 and row:
            row.pop()
        else:
            rows.append(list(rng.choice(rows))[:9] * rng.choice((1, 1, 3, 30)))
    out = rng.choice(("\n", "\n", "\r\n", "\r")).join(",".join(row) for row in rows)
    for _ in range(rng.choice((0, 0, 1, 3))):
        at = rng.randrange(len(out) + 1)
        out = out[:at] + rng.choice(SIGNS) + out[at:]
    return out.encode(rng.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16")), "replace")
