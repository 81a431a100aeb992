"""Files that a stranger might send: small, and meant to take all memory, all time, or another file.

``read_all`` reads each under a limit of address space, and returns how it ended and how long it took. Every
one must be refused.
"""

import json
import os
import resource
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabsynth import TabsynthError

MEMORY = 500 * 2**20  # address space above that of the imports
COLUMN = {"name": "a", "kind": "categorical", "dtype": "str", "categories": ["x", "y"]}
NUMBER = {"name": "n", "kind": "numeric", "dtype": "float64", "low": 0, "high": 1}


def schema(**changes: Any) -> bytes:
    base = {"format": "tabsynth-schema/1", "null_values": [], "columns": [COLUMN]}
    return json.dumps({**base, **changes}).encode()


def many(count: int, **changes: Any) -> list[dict[str, Any]]:
    return [{**NUMBER, **changes, "name": f"n{i}"} for i in range(count)]


def texts(count: int, length: int = 1) -> list[str]:
    return [str(i).zfill(length) for i in range(count)]


def two(values: list[str]) -> list[dict[str, Any]]:
    return [{**COLUMN, "name": name, "categories": values} for name in "ab"]


SCHEMAS: dict[str, Callable[[], bytes]] = {
    "lists": lambda: b"[" + b"[]," * 5_000_000 + b"[]]",
    "objects": lambda: b"[" + b"{}," * 5_000_000 + b"{}]",
    "keys": lambda: b"{" + b",".join(b'"%d":1' % i for i in range(1_200_000)) + b"}",
    "one long text": lambda: b'["' + b"x" * (17 * 2**20) + b'"]',
    "deep lists": lambda: b"[" * 900 + b"]" * 900,
    "deep objects": lambda: b'{"a":' * 8_000_000,
    "long number": lambda: schema(columns=[{**NUMBER, "high": 7}]).replace(b"7", b"7" * 4_000),
    "a key twice": lambda: schema().replace(b'"format"', b'"null_values": ["x"], "format"', 1),
    "1e9 bins": lambda: schema(columns=[{**NUMBER, "bins": 10**9}]),
    "1e9 steps": lambda: schema(columns=[{**NUMBER, "resolution": 1e-300}]),
    "100,001 categories": lambda: schema(columns=[{**COLUMN, "categories": texts(100_001)}]),
    "a category of 10 MB": lambda: schema(columns=[{**COLUMN, "categories": ["x" * 10**7]}]),
    "20,000 columns": lambda: schema(columns=many(20_000)),
    "1e9 cells": lambda: schema(columns=many(10_000, bins=100_000)),
    "500,000 combinations": lambda: schema(
        columns=two(["x"]), impossible=[{"a": ["x"], "b": ["x"]}] * 500_000
    ),
    "wide combinations": lambda: schema(
        columns=two(texts(100_000)), impossible=[{"a": ["0"], "b": ["1"]}] * 900
    ),
    "a combination of 900 columns": lambda: schema(
        columns=many(900), impossible=[{f"n{i}": {"low": 0, "high": 1} for i in range(900)}]
    ),
    "values not declared": lambda: schema(
        columns=two(texts(30_000)), impossible=[{"a": texts(30_000), "b": [*texts(30_000), "?"]}]
    ),
}

MECHANISM = {"mechanism": "subsampled-gaussian", "noise_multiplier": 1.0, "sampling_rate": 0.01}
VOTE = {"mechanism": "noisy-vote", "noise": 1.0, "teachers": 100_000, "accounting": "exact-binary"}


def certificate(mechanisms: list[dict[str, Any]]) -> bytes:
    """A certificate of the right form, with other mechanisms."""
    stored = Path(__file__).parents[1] / "privacy" / "certificates_of_0_2.json"
    base = json.loads(stored.read_text("utf-8"))["pate-gan"]["certificate"]
    (votes,) = (item for item in base["mechanisms"] if item["purpose"] == "votes")
    listed = [{**votes, "count": 10, **item} for item in mechanisms]
    return json.dumps({**base, "mechanisms": listed}).encode()


CERTIFICATES: dict[str, Callable[[], bytes]] = {
    "1,000 mechanisms": lambda: certificate(
        [{**MECHANISM, "noise_multiplier": 1 + i / 999} for i in range(1_000)]
    ),
    "votes of 5,000,000 teachers": lambda: certificate(
        [{**VOTE, "noise": 1 + i} for i in range(50)]
    ),
    "1e9 teachers": lambda: certificate([{**VOTE, "teachers": 10**9}]),
    "1e18 uses": lambda: certificate([{**MECHANISM, "count": 10**18}]),
}

TABLES: dict[str, Callable[[], bytes]] = {
    "20,000,000 columns": lambda: b"," * 20_000_000,
    "one row of quoted lines": lambda: b'"\n",' * 5_000_000,
    "one long line": lambda: b"a,b\n" + b"x" * (17 * 2**20),
    "a cell of 1 MB": lambda: b"a,b\n" + b"x" * 10**6 + b",1\n",
    "20,000 columns": lambda: b",".join(b"%d" % i for i in range(20_000)) + b"\n",
    "an open quote": lambda: b'a,b\n"' + b"x,1\n" * 5_000_000,
    "NULs": lambda: b"a,b\n" + b"\0" * 10**6,
}


def parquet(name: str, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if name == "11,000,000 equal rows":
        columns = {"a": pa.array([0], pa.int8()).take(pa.nulls(11_000_000, pa.int8()).fill_null(0))}
    elif name == "a text of 1 MB in 100,000 rows":
        codes = pa.nulls(100_000, pa.int32()).fill_null(0)
        columns = {"a": pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 10**6]))}
    elif name == "260 MB of one letter":
        columns = {"a": pa.array(["x" * 2**20] * 260)}
    elif name == "10,001 columns":
        columns = {f"c{i}": pa.array([1]) for i in range(10_001)}
    else:
        columns = {"a": pa.array([[[1]]])}
    pq.write_table(pa.table(columns), path, compression="zstd", write_statistics=False)


PARQUETS = (
    *("11,000,000 equal rows", "a text of 1 MB in 100,000 rows", "260 MB of one letter"),
    *("10,001 columns", "lists of lists"),
)


def model(facts: dict[str, Any], tensors: dict[str, Any], data: bytes) -> bytes:
    """A safetensors file as its header says, whether or not it is one."""
    header = {"__metadata__": {"tabsynth": json.dumps(facts)}, **tensors}
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


NOTHING = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
MODEL = {"format": "tabsynth-model/1"}
MODELS: dict[str, Callable[[], bytes]] = {
    "a header of 2^62 bytes": lambda: struct.pack("<Q", 2**62) + b"{}",
    "a header of 33 MiB": lambda: struct.pack("<Q", 33 * 2**20) + b" " * (33 * 2**20),
    "20,000 tensors": lambda: model(MODEL, {f"t{i}": NOTHING for i in range(20_000)}, b""),
    "a tensor of 2^126": lambda: model(MODEL, {"t": {**NOTHING, "shape": [2**63, 2**63]}}, b""),
    "a tensor past the end": lambda: model(
        MODEL, {"t": {"dtype": "F32", "shape": [10**9], "data_offsets": [0, 4 * 10**9]}}, b"1234"
    ),
    "facts of 3,000,000 values": lambda: model(
        {**MODEL, "x": [0] * 3_000_000}, {"t": NOTHING}, b""
    ),
    "bfloat16": lambda: model(
        MODEL, {"t": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}, b"12"
    ),
}


def make(folder: Path) -> None:
    """All of them, as files."""
    for kind, files in (
        *(("schema.json", SCHEMAS), ("csv.certificate.json", CERTIFICATES)),
        *(("csv", TABLES), ("model", MODELS)),
    ):
        for number, data in enumerate(files.values()):
            (folder / f"{number}.{kind}").write_bytes(data())
    for number, name in enumerate(PARQUETS):
        parquet(name, folder / f"{number}.parquet")
    for kind in ("schema.json", "model", "csv", "parquet"):
        os.mkfifo(folder / f"pipe.{kind}")
        (folder / f"zero.{kind}").symlink_to("/dev/zero")
        with open(folder / f"sparse.{kind}", "wb") as file:
            file.truncate(2**40)


def apart(read: Callable[[], object]) -> tuple[str, str, float]:
    """How a call ends in a process of its own, which has ``MEMORY`` and no more."""
    near, far = os.pipe()
    child = os.fork()
    if child:
        os.close(far)
        with open(near) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        word, said, seconds = json.loads(text or '["died", "", 0]')
        return word, said, seconds
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    started = time.process_time()
    try:
        read()
        ended = ["accepted", ""]
    except TabsynthError as error:
        ended = ["refused", str(error)]
    except BaseException as error:
        ended = [type(error).__name__, str(error)[:300]]
    os.write(far, json.dumps([*ended, time.process_time() - started]).encode())
    os._exit(0)


def read_all(folder: Path) -> dict[str, tuple[str, str, float]]:
    """How each file ended: the error's name, what it said, seconds of CPU."""
    from tabsynth import Schema, load
    from tabsynth.drafting.drafts import draft_schema
    from tabsynth.privacy.certificate.verification import verify
    from tabsynth.tables.files import read_any

    readers: dict[str, Callable[[Path], object]] = {
        ".schema.json": Schema.load,
        ".certificate.json": lambda path: verify(
            path.with_name(path.name[: -len(".certificate.json")])
        ),
        ".csv": lambda path: draft_schema(read_any(path)),
        ".parquet": lambda path: draft_schema(read_any(path)),
        ".model": load,
    }
    results = {}
    for path in sorted(folder.iterdir()):
        read = next((r for end, r in readers.items() if path.name.endswith(end)), None)
        if read is None:
            continue
        results[path.name] = apart(lambda read=read, path=path: read(path))  # type: ignore[misc]
    return results
