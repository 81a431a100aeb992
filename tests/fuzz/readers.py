"""Every reader of files, with a small sound file of each kind and the ways to damage it."""

import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mutations
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.torch
import torch
import yaml

from tabsynth import DPWGAN, InputError, MargNet, Schema, TabsynthError, load, read_table, release
from tabsynth._tensors import digest
from tabsynth.auditing import linked_datasets
from tabsynth.dossier.answers import read_answers
from tabsynth.dossier.checking import verify_dossier
from tabsynth.dossier.making import SUMS, checksums
from tabsynth.drafting.drafts import draft_schema, review
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.encoding.rows import KEY_BYTES, Rows
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.certificate.certificate import beside
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger import journal
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.report.certificates import privacy_panel
from tabsynth.schema import Column
from tabsynth.schema.editing import differences
from tabsynth.schema.importers import import_schema
from tabsynth.schema.linked import LinkedSchema
from tabsynth.synthesizers.adversarial.critic import WGANConfig
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.method import read_model, with_settings
from tabsynth.tables.files import read_any, read_linked
from tabsynth.training.checkpoint import INDEX, LEDGER, Checkpoint, write_index


def put(path: Path, data: bytes) -> None:
    """Write a new file: to overwrite one takes the disk milliseconds."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


ONE: dict[str, Any] = {"kind": "categorical", "nulls": True}
SCHEMA = Schema(
    [
        Column(name="t", dtype="str", categories=("x", "=1+1", "é"), labels={"x": "ex"}, **ONE),
        Column(name="c", dtype="category", categories=(3, 1, 2), kind="ordinal", other=2),
        Column(name="b", dtype="boolean", categories=(True, False), **ONE),
        Column(name="n", kind="numeric", dtype="Int64", low=0, high=9, nulls=True, breaks=(1, 4)),
        Column(name="f", kind="numeric", dtype="float64", low=-1, high=1, bins=4, clip=True),
    ],
    impossible=[{"t": ["x", None], "n": {"low": 0, "high": 3}}, {"c": [3], "b": [None]}],
)
PLAIN = SCHEMA.select(["t", "n"])
ROWS = [["t", "c", "b", "n", "f"], ["x", "3", "True", "5", "0.5"], ["é", "1", "", "", "-1"]]
ROWS += [["=1+1", "2", "False", "0", "1e-3"], ["", "1", "1", "9", ".1"]]
FIT = {"method": "m", "config": {"steps": 5}}


class Reader(NamedTuple):
    """How to make a damaged file from a random stream, and how to read it."""

    make: Callable[[random.Random], Any]
    read: Callable[[Any], object]


def maker(raw: bytes, base: Any, share: float = 0.3) -> Callable[[random.Random], bytes]:
    """Return what damages the bytes of a file, or changes the facts that it holds as JSON."""

    def make(rng: random.Random) -> bytes:
        if rng.random() < share:
            return mutations.damaged(raw, rng)
        return mutations.text(mutations.changed(base, rng), rng).encode("utf-8", "surrogatepass")

    return make


def table_maker(rows: list[list[str]]) -> Callable[[random.Random], bytes]:
    """Return what damages the bytes of a CSV file, or changes its cells."""
    raw = "\n".join(",".join(row) for row in rows).encode()

    def make(rng: random.Random) -> bytes:
        return mutations.damaged(raw, rng) if rng.random() < 0.3 else mutations.table(rows, rng)

    return make


def sampled_table(path: Path) -> Path:
    """Write rows of a small model, and return the path of their certificate."""
    model = MargNet(PLAIN, epsilon=2.0, config=MargNetConfig(components=5, steps=2))
    frame = pd.DataFrame({"t": ["x", "é"] * 9, "n": pd.array([7, 5] * 9, dtype="Int64")})
    # Noise may make "=1+1" of the schema's categories, which a CSV refuses unasked.
    return Path(model.fit(frame).sample_to(path, 2, formulas="keep"))


def all_of(*calls: Callable[[], object]) -> None:
    """All the calls, whether or not one refuses; refuses if any did."""
    refusal = None
    for call in calls:
        try:
            call()
        except TabsynthError as error:
            refusal = error
    if refusal is not None:
        raise refusal


def schemas(folder: Path) -> Reader:
    path = folder / "schema.json"

    def read(data: bytes) -> None:
        put(path, data)
        schema = Schema.load(path)
        assert Schema.from_dict(json.loads(schema.to_json())) == schema
        review(schema)
        encoder = TableEncoder(schema, "binary")
        index = np.zeros((1, len(schema.columns)), dtype=np.int64)
        table = encoder.from_index(index, np.random.default_rng(0))
        encoder.layout.decode(encoder.layout.encode(index))
        schema.check_columns(table)

    return Reader(maker(SCHEMA.to_json().encode(), SCHEMA.to_dict()), read)


CODEBOOKS = (
    "name,kind,values,low,high,nulls\nc,ordinal,1=a|2=b,,,yes\nn,,,0,9,no\n",
    '<codeBook><var name="n"><valrng><range min="0" max="9"/></valrng></var><var name="c">'
    "<catgry><catValu>1</catValu><labl>a</labl></catgry></var></codeBook>",
)


def codebooks(folder: Path) -> Reader:
    path = folder / "codebook"

    def make(rng: random.Random) -> bytes:
        return mutations.damaged(rng.choice(CODEBOOKS).encode(), rng)

    def read(data: bytes) -> None:
        put(path, data)
        schema = import_schema(path)
        assert Schema.from_dict(json.loads(schema.to_json())) == schema
        assert differences(schema, schema) == []

    return Reader(make, read)


def models(folder: Path) -> Reader:
    path, holdout = folder / "model.tabsynth", []
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"t": pd.Series(rng.choice(["x", "é"], 30), dtype="str")})
    table["n"] = pd.array(rng.integers(4, 10, 30), dtype="Int64")
    tiny = {"generator__latent_dim": 3, "generator__hidden": (4,), "critic__hidden": (4,)}
    wgan = with_settings(WGANConfig(), **tiny, step__sampling_rate=1.0, step__count=2)
    for model in (
        MargNet(PLAIN, epsilon=2.0, config=MargNetConfig(components=5, steps=2)),
        DPWGAN(Schema(PLAIN.columns), epsilon=np.inf, config=wgan, autoencoder=None, rows=30),
    ):
        model.fit(table).save(path)
        facts, weights = read_model(path)
        # Of their own: those that were read lie in the file, which is about to be written over.
        own = {name: tensor.clone() for name, tensor in weights.items()}
        holdout.append((path.read_bytes(), facts, own))

    def make(rng: random.Random) -> bytes:
        raw, facts, weights = rng.choice(holdout)
        if rng.random() < 0.3:
            other = rng.choice(holdout)[0]
            return mutations.damaged(raw, rng, other, int.from_bytes(raw[:8], "little") + 8)
        facts, weights = dict(facts), dict(weights)
        if rng.random() < 0.8:
            facts = mutations.changed(facts, rng)
        if rng.random() < 0.3:
            _damage(weights, rng)
        return _signed(mutations.text(facts, rng), weights, rng)

    def read(data: bytes) -> None:
        put(path, data)
        model = load(path)
        table = model.sample(3, random_state=0)
        model.model_.encoder.schema.check_columns(table)
        json.dumps(table.attrs["certificate"], allow_nan=False).encode()

    return Reader(make, read)


def _damage(weights: dict[str, Any], rng: random.Random) -> None:
    name = rng.choice(sorted(weights))
    holdout = weights[name]
    kind = rng.randrange(7)
    if kind == 0:
        del weights[name]
    elif kind == 1:
        weights[rng.choice(("x", "body.9.weight", "é"))] = holdout.clone()
    elif kind == 2:
        weights[name] = holdout.reshape(-1)[: rng.randrange(holdout.numel() + 1)]
    elif kind == 3:
        kinds = (torch.float64, torch.int64, torch.bfloat16, torch.bool, torch.complex64)
        weights[name] = holdout.to(rng.choice(kinds))
    else:
        number = rng.choice((0.0, -1.0, 1e38, -1e38, 1e-38, float("nan"), float("inf"), 0.5))
        weights[name] = torch.full_like(holdout, number if holdout.is_floating_point() else 7)


def _signed(text: str, weights: dict[str, Any], rng: random.Random) -> bytes:
    """A model file that agrees with its checksum and with its schema's, as far as it can."""
    try:
        facts = json.loads(text)
        if rng.random() < 0.8:
            sha256 = Schema.from_dict(facts["schema"]).fingerprint()
            facts["facts"]["public"]["schema_sha256"] = sha256
        facts.pop("sha256", None)
        body = json.dumps(facts)
        text = json.dumps({**facts, "sha256": digest(body, weights)})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # then it goes out as it is
    return safetensors.torch.save(
        weights, metadata={"tabsynth": text.encode("utf-8", "replace").decode()}
    )


def certificates(folder: Path) -> Reader:
    table = folder / "table.csv"
    raw = sampled_table(table).read_bytes()
    base = json.loads(raw)
    vote = {"mechanism": "noisy-vote", "noise": 5.0, "teachers": 9, "accounting": "exact-binary"}
    steps = {"mechanism": "subsampled-gaussian", "noise_multiplier": 2.0, "sampling_rate": 0.01}
    more = [{**vote, "purpose": "v", "count": 3}, {**steps, "purpose": "s", "count": 10}]

    def make(rng: random.Random) -> bytes:
        if rng.random() < 0.3:
            return mutations.damaged(raw, rng)
        data = mutations.changed(base, rng)
        if isinstance(data, dict) and isinstance(data.get("mechanisms"), list):
            data["mechanisms"] += rng.choice(([], [], [more[0]], [more[1]]))
            data["mechanisms"] = mutations.changed(data["mechanisms"], rng)
        return mutations.text(data, rng).encode("utf-8", "surrogatepass")

    def read(data: bytes) -> None:
        put(beside(table), data)
        verification = verify(table)
        assert all("\n" not in problem for problem in verification.problems)
        ensemble = privacy_panel(verification.certificate, 2, PLAIN.fingerprint())
        json.dumps(verification.certificate, allow_nan=False).encode()
        str(ensemble).encode()

    return Reader(make, read)


def ledgers(folder: Path) -> Reader:
    path = folder / "ledger.jsonl"
    _a_ledger(path)
    raw = path.read_bytes()
    records = [json.loads(line) for line in raw.splitlines()]
    for record in records:
        del record["chain"]

    def make(rng: random.Random) -> bytes:
        if rng.random() < 0.4:
            return mutations.damaged(raw, rng)
        chain, out = "", b""
        result = mutations.changed(records, rng)
        for record in result if isinstance(result, list) else [result]:
            try:  # with a chain that is right
                chain = journal._chain_hash(chain, record)
                out += journal._line(record, chain)
            except (TypeError, ValueError, KeyError):
                out += mutations.text(record, rng).encode("utf-8", "replace") + b"\n"
        return out[: len(out) - rng.choice((0, 0, 0, 1, 9))]

    def read(data: bytes) -> None:
        put(path, data)
        book = journal.Journal(path, 5.0, 1e-5)
        try:
            ledger = Ledger(5.0, 1e-5, journal=book, run="a")
            ledger.to_list()
            book.close_all()
        finally:
            book.release()

    return Reader(make, read)


def _a_ledger(path: Path) -> None:
    book = journal.Journal(path, 5.0, 1e-5)
    ledger = Ledger(5.0, 1e-5, journal=book, run="a")
    for purpose in ("p", "é"):
        account = ledger.open(purpose, Gaussian(noise_multiplier=100.0), 9, {"clip": 1.0})
        ledger.spend(account)
    ledger.close(resumable=True)
    book.release()


def checkpoints(folder: Path) -> Reader:
    base, path, outside = folder / "base", folder / "c", folder / "outside"
    outside.write_text("not yours")
    first = Checkpoint(base, epsilon=5.0, delta=1e-5, fit=FIT, every=1e-9)
    first.begin([{"purpose": "p", "count": 3}], seeded=False)
    first.once("counts", lambda: {"a": np.arange(3.0)})
    layer = torch.nn.Linear(2, 1)
    first.save("stage", 7, layer)
    first.release()
    index = json.loads((base / INDEX).read_text())
    states = sorted(file.name for file in base.glob("state-*"))

    def make(rng: random.Random) -> tuple[str, bytes]:
        name = rng.choice((INDEX, INDEX, INDEX, LEDGER, *states))
        raw = (base / name).read_bytes()
        if name != INDEX or rng.random() < 0.2:
            return name, mutations.damaged(raw, rng)
        result = mutations.changed(index, rng)
        if rng.random() < 0.3 and isinstance(result, dict) and result.get("kept"):
            for item in result["kept"] if isinstance(result["kept"], list) else []:
                if isinstance(item, dict):
                    item["file"] = rng.choice(("../outside", str(outside), "..", "", "state-1"))
        if isinstance(result, dict) and "\ud800" not in str(result):
            result.pop("sha256", None)
            write_index(path.with_name("signed"), result)
            return name, path.with_name("signed").read_bytes()
        return name, mutations.text(result, rng).encode("utf-8", "surrogatepass")

    def read(created: tuple[str, bytes]) -> None:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(base, path)
        (path / created[0]).write_bytes(created[1])
        try:
            checkpoint = Checkpoint(path, epsilon=5.0, delta=1e-5, fit=FIT, every=1e-9)
            try:
                checkpoint.once("counts", lambda: {"a": np.zeros(1)})
                checkpoint.restore("stage", torch.nn.Linear(2, 1))
                checkpoint.is_followed("stage")
                checkpoint.start_over()
                checkpoint.ledger()
            finally:
                checkpoint.release()
        finally:
            assert outside.read_text() == "not yours"

    return Reader(make, read)


def csvs(folder: Path) -> Reader:
    path = folder / "table.csv"

    def read(data: bytes) -> None:
        put(path, data)
        _read_both(path)

    return Reader(table_maker(ROWS), read)


def _read_both(path: Path) -> None:
    """As a table of the schema, and as one of which nothing is known."""
    all_of(
        lambda: TableEncoder(SCHEMA).to_index(read_table(path, SCHEMA)),
        lambda: draft_schema(read_any(path), min_count=1).to_json().encode(),
    )


def parquets(folder: Path) -> Reader:
    path = folder / "table.parquet"
    columns: dict[str, list[Any]] = {
        "t": [
            pa.array(["x", None, "=1+1"]),
            pa.array(["x", "x", "é"]).dictionary_encode(),
            pa.array([b"x", b"\xff", None]),
            pa.array([["x"], [], None]),
            pa.array([{"a": 1}] * 3),
            pa.array([1.5, 2, None]),
        ],
        "c": [pa.array([1, 2, 3], pa.int8()), pa.array([1.0, None, 2]), pa.array([2**40, 1, 1])],
        "b": [pa.array([True, None, False]), pa.array(["True", "x", None]), pa.nulls(3)],
        "n": [
            pa.array([5, None, 9]),
            pa.array([1, 2, 3], pa.timestamp("ns")),
            pa.array([1, 2, 3], pa.duration("s")),
            pa.array([1, 2, 3], pa.time32("s")),
            pa.array([1, 2, 3]).cast(pa.decimal128(21, 2)),
            pa.array([2**64 - 1, 0, 1], pa.uint64()),
        ],
        "f": [
            pa.array([0.5, -1, 1]),
            pa.array([float("nan"), float("inf"), 0]),
            pa.array([0.5, 1, 0], pa.float16()),
        ],
    }
    whole = pa.table({name: arrays[0] for name, arrays in columns.items()})
    raws = []
    for compression in ("snappy", "zstd", "none"):
        buffer = io.BytesIO()
        pq.write_table(whole, buffer, compression=compression)
        raws.append(buffer.getvalue())

    def make(rng: random.Random) -> bytes:
        if rng.random() < 0.85:
            raw = rng.choice(raws)
            if rng.random() < 0.5:  # the footer, which says what all else is
                upto = int.from_bytes(raw[-8:-4], "little") + 8
                return raw[:-upto] + mutations.damaged(raw[-upto:], rng, raw, upto - 8)
            return mutations.damaged(raw, rng, rng.choice(raws))
        names = [rng.choice((name, name, name, "", "x", "t")) for name in columns]
        arrays = [rng.choice(holdout) for holdout in columns.values()]
        buffer = io.BytesIO()
        odd = pa.Table.from_arrays(arrays, names=names)
        if rng.random() < 0.5:
            about = {
                "index_columns": [rng.choice(("t", "z", 5))],
                "columns": [],
                "pandas_version": "1",
            }
            odd = odd.replace_schema_metadata({"pandas": json.dumps(about)})
        pq.write_table(odd, buffer)
        return buffer.getvalue()

    def read(data: bytes) -> None:
        put(path, data)
        _read_both(path)

    return Reader(make, read)


def linked_schemas(folder: Path) -> Reader:
    path, base = folder / "linked.json", linked_datasets.SCHEMA

    def read(data: bytes) -> None:
        put(path, data)
        schema = LinkedSchema.load(path)
        text = schema.to_json()
        assert LinkedSchema.from_dict(json.loads(text)).fingerprint() == schema.fingerprint()
        empty = {name: pd.DataFrame(columns=_given(schema, name)) for name in schema.names}
        LinkedEncoder(schema).to_tables(empty)

    return Reader(maker(base.to_json().encode(), base.to_dict()), read)


def _given(schema: LinkedSchema, name: str) -> list[str]:
    """The columns of a table, its keys among them."""
    keys = schema.keys[name]
    aside = [c for c in (*keys.columns, keys.order) if c is not None]
    return list(dict.fromkeys([*aside, *schema.tables[name].names]))


def linked_tables(folder: Path) -> Reader:
    schema, place = linked_datasets.SCHEMA, folder / "tables"
    place.mkdir()
    sound = linked_datasets.make_tables(0, 4)
    rows = {
        name: [list(table.columns), *table.astype(str).to_numpy().tolist()]
        for name, table in sound.items()
    }
    raw = {name: table.to_csv(index=False).encode() for name, table in sound.items()}
    encoder = LinkedEncoder(schema)

    def make(rng: random.Random) -> tuple[str, bytes]:
        name = rng.choice(schema.names)
        if rng.random() < 0.5:
            return name, mutations.damaged(raw[name], rng)
        return name, mutations.table(rows[name], rng)

    def read(created: tuple[str, bytes]) -> None:
        damaged, data = created
        for name in schema.names:
            put(place / f"{name}.csv", data if name == damaged else raw[name])
        tables = encoder.to_tables(read_linked(place, schema))
        for rows in encoder.to_rows(tables).values():  # no root row adds more than 1
            shares = len(rows) if rows.shares is None else rows.shares.sum()
            assert shares <= len(tables[schema.root].codes) + 1e-9

    return Reader(make, read)


def survey_tables(folder: Path) -> Reader:
    """Tables with weights and units, which are bounded."""
    path, key = folder / "survey.csv", bytes(KEY_BYTES)
    head = [*ROWS[0], "w", "id"]
    rows = [head, *([*row, str(i), str(i // 2)] for i, row in enumerate(ROWS[1:]))]
    facts = {**SCHEMA.to_dict(), "weight": {"column": "w", "max": 2.5}}
    schema = Schema.from_dict({**facts, "unit": {"column": "id", "max_rows": 1}})

    def read(data: bytes) -> None:
        put(path, data)
        kept = TableEncoder(schema).to_rows(read_table(path, schema), key)
        assert isinstance(kept, Rows) and kept.weights is not None and kept.units is not None
        assert ((kept.weights >= 0) & (kept.weights <= 2.5)).all()
        assert len(np.unique(kept.units)) == len(kept)

    return Reader(table_maker(rows), read)


NAMES = "name description use region license population unit justification preparation access"
ANSWERS: dict[str, Any] = dict.fromkeys(NAMES.split(), "é: text # of people")
ANSWERS |= {"curators": ["a", "b"], "published": "2026-11-25", "schema": "schema.json"}


def release_files(folder: Path) -> Reader:
    path, raw = folder / "release.yaml", yaml.safe_dump(ANSWERS, allow_unicode=True).encode()

    def read(data: bytes) -> None:
        put(path, data)
        found = read_answers(path)
        path.write_text(found.to_yaml(), "utf-8")
        assert read_answers(path).name == found.name

    return Reader(maker(raw, ANSWERS, 0.5), read)


def dossiers(folder: Path) -> Reader:
    table, place = folder / "table.csv", folder / "dossier"
    sampled_table(table)
    PLAIN.save(folder / "schema.json")
    (folder / "release.yaml").write_text(yaml.safe_dump(ANSWERS), "utf-8")
    release(table, place)
    whole = {path.name: path.read_bytes() for path in sorted(place.iterdir())}

    def make(rng: random.Random) -> tuple[str, bytes, bool]:
        name = rng.choice([*whole])
        data = whole[name] if rng.random() < 0.2 else mutations.damaged(whole[name], rng)
        return name, data, rng.random() < 0.8

    def read(made: tuple[str, bytes, bool]) -> None:
        name, data, listed = made
        put(place / name, data)
        if listed and name != SUMS:  # by whoever damaged it
            (place / SUMS).write_text(checksums(place), "utf-8")
        try:
            problems = verify_dossier(place).problems
        finally:
            put(place / name, whole[name])
            put(place / SUMS, whole[SUMS])
        assert all("\n" not in problem for problem in problems)
        if problems:
            raise InputError(problems[0])

    return Reader(make, read)


READERS: dict[str, Callable[[Path], Reader]] = {
    "release file": release_files,
    "dossier": dossiers,
    "schema": schemas,
    "codebook": codebooks,
    "model": models,
    "certificate": certificates,
    "checkpoint": checkpoints,
    "ledger": ledgers,
    "csv": csvs,
    "parquet": parquets,
    "linked schema": linked_schemas,
    "linked tables": linked_tables,
    "survey table": survey_tables,
}
