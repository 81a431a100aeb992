"""A file from a stranger takes neither memory nor time, nor changes another file; limits are as documented."""

import importlib
import json
import os
import re
from pathlib import Path
from typing import Any

import forked
import hostile
import pytest
import torch

from tabsynth import InputError, MargNet, Schema, TabsynthError, load
from tabsynth._files import parse_json
from tabsynth.cli.console import say
from tabsynth.errors import FileFormatError
from tabsynth.privacy.accounting.accountants import epsilon_of, rdp_epsilon
from tabsynth.privacy.accounting.mechanisms import SubsampledGaussian
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger.journal import Journal
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.method import read_model, write_model
from tabsynth.training.checkpoint import INDEX, Checkpoint, write_index

SECONDS = 3.0  # of CPU, on a slow machine under load; most take hundredths
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str, float]]:
    folder = tmp_path_factory.mktemp("hostile")
    hostile.make(folder)
    with forked.CONTEXT.Pool(1) as pool:  # whose memory may be limited
        result = pool.apply(hostile.read_all, (folder,))
    for file in folder.iterdir():
        file.unlink()
    return dict(result)


@pytest.mark.slow
def test_hostile_files_are_refused_in_time_and_memory(
    ends: dict[str, tuple[str, str, float]],
) -> None:
    kinds = (
        hostile.SCHEMAS,
        hostile.CERTIFICATES,
        hostile.TABLES,
        hostile.MODELS,
        hostile.PARQUETS,
    )
    assert len(ends) == sum(map(len, kinds)) + 3 * 4
    for name, (word, said, seconds) in ends.items():
        assert word == "refused" and "\n" not in said and len(said) < 600, (name, word, said)
        assert seconds < SECONDS, (name, seconds)


def a_model(path: Path) -> Path:
    base: dict[str, Any] = {"kind": "categorical", "dtype": "str"}
    schema = Schema.from_dict(
        {
            "format": "tabsynth-schema/1",
            "columns": [{"name": "a", "categories": ["x", "y"], **base}],
        }
    )
    import pandas as pd

    table = pd.DataFrame({"a": pd.Series(["x", "y"] * 5, dtype="str")})
    config = MargNetConfig(components=3, steps=1)
    MargNet(schema, epsilon=1.0, config=config).fit(table).save(path)
    return path


@pytest.mark.slow
def test_a_model_whose_schema_is_small_and_whose_codes_are_not(tmp_path: Path) -> None:
    """12 one-hot columns of some 4,000 values: 200 kB of weights, and 800 MB of codebooks."""
    facts, _ = read_model(a_model(tmp_path / "m"))
    facts.pop("format")
    columns = [
        {
            "name": f"n{i}",
            "kind": "numeric",
            "dtype": "float64",
            "low": 0,
            "high": 1,
            "bins": 4_000 + i,
        }
        for i in range(12)
    ]
    facts["schema"]["columns"] = columns
    facts["config"]["components"] = 1
    width = sum(int(str(column["bins"])) for column in columns)
    fingerprint = Schema.from_dict(facts["schema"]).fingerprint()
    facts["facts"]["public"]["schema_sha256"] = fingerprint
    write_model(
        tmp_path / "m", facts, {"probabilities": torch.full((1, width), 1 / 4_000)}, overwrite=True
    )
    with pytest.raises(TabsynthError, match="codebooks of all columns take too much memory"):
        load(tmp_path / "m")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([[-0.5, 1.5]] * 3, "not probabilities"),
        ([[0.0, 0.0]] * 3, "not probabilities"),
        ([[1e30, 1.0]] * 3, "not probabilities"),
    ],
)
def test_weights_that_are_no_probabilities(values: Any, says: str, tmp_path: Path) -> None:
    facts, weights = read_model(a_model(tmp_path / "m"))
    facts.pop("format")
    write_model(tmp_path / "m", facts, {"probabilities": torch.tensor(values)}, overwrite=True)
    with pytest.raises(FileFormatError, match=says):
        load(tmp_path / "m")
    counts = {"measured.counts", "measured.pairs", "measured.triples"}
    assert set(weights) == {"probabilities", *counts}


def test_a_checkpoint_removes_and_writes_nothing_outside(tmp_path: Path) -> None:
    """A list of files, and links, that point elsewhere."""
    outside = tmp_path / "precious"
    outside.write_text("mine")

    def opened() -> Checkpoint:
        return Checkpoint(tmp_path / "c", epsilon=5.0, delta=1e-5, fit={"method": "m"})

    first = opened()
    first.once("counts", lambda: {"a": torch.zeros(2).numpy()})
    first.release()
    index_file = tmp_path / "c" / INDEX
    good = index_file.read_text()
    for name in (
        "../precious",
        str(outside),
        "..",
        "state-1",
        "state-1.safetensors/../../precious",
    ):
        index = json.loads(good)
        index.pop("sha256")
        index["kept"][0]["file"] = name
        write_index(index_file, index)
        with pytest.raises(FileFormatError, match="not what it should be"):
            opened()
    index_file.write_text(good)
    for name in ("checkpoint.json.tmp", "state-9.safetensors", "model.tabsynth"):
        (tmp_path / "c" / name).symlink_to(outside)
        with pytest.raises(FileFormatError, match="holds a symbolic link"):
            opened()
        (tmp_path / "c" / name).unlink()
    opened().release()
    assert outside.read_text() == "mine"


@pytest.mark.parametrize(
    "text",
    [
        *('{"a": 1, "a": 2}', '{"b": {"a": 1, "\\u0061": 2}}', "[NaN]", "[Infinity]", "[1e999]"),
        *("[" + "1" * 309 + "]", "[" * 65 + "]" * 65, '["\\ud800"]', '{"\\udfff": 1}', "[1", ""),
    ],
)
def test_json_that_other_readers_would_take_otherwise(text: str) -> None:
    with pytest.raises(FileFormatError, match="f is not a thing: "):
        parse_json(text, "f", "thing")


def test_json_that_is_sound_is_what_json_loads_says() -> None:
    for text in (
        *('{"a": [1, -0.0, 1e300, null, true, "\\ud83d\\ude00"]}', "[" * 64 + "]" * 64),
        *("[" + "1" * 308 + "]", '"[,,,{"', " 5 "),
    ):
        assert parse_json(text, "f", "thing") == json.loads(text)


def test_accounting_of_a_huge_count_takes_no_memory() -> None:
    """A grid of 10^12 points, as PRV would have it, is not made; RDP is never below what is said."""
    spends = [(SubsampledGaussian(noise_multiplier=1e20, sampling_rate=0.01), 10**15)]
    assert 0 <= epsilon_of(spends, 1e-5) <= rdp_epsilon(spends, 1e-5)


def test_no_escape_sequence_reaches_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[31mred\x9b0m\x00\x07 b c é")
    assert capsys.readouterr().out == "a�[31mred�0m�� b c é\n"


def test_a_limit_is_what_the_page_says() -> None:
    """docs/reference/security.md lists every limit by the name of its constant."""
    page = (ROOT / "docs" / "reference" / "security.md").read_text("utf-8")
    rows = re.findall(r"^\| .* \| ([\d,]+) ?(\w*) \| `([\w.]+)\.(\w+)` \|$", page, re.MULTILINE)
    assert len(rows) >= 20
    units = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    for number, unit, module, name in rows:
        holdout = getattr(importlib.import_module(f"tabsynth.{module}"), name)
        assert holdout == int(number.replace(",", "")) * units[unit], name
    listed = {name for *_, name in rows}
    for module in [
        "_files",
        "tables.limits",
        "_validate",
        "_tensors",
        "synthesizers.method",
        "schema.schema",
    ]:
        result = vars(importlib.import_module(f"tabsynth.{module}"))
        for name, value in result.items():
            if re.match(r"(MAX|FREE)_|\w+_PER_BYTE", name) and isinstance(value, int):
                assert name in listed, f"docs/reference/security.md lacks {module}.{name}"


def test_links_and_pipes_are_made_here(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "s.json")
    with pytest.raises(FileFormatError, match="not a regular file"):
        Schema.load(tmp_path / "s.json")
    with pytest.raises(InputError):
        Schema.from_dict({"format": "tabsynth-schema/1", "columns": []})


@pytest.mark.parametrize("content", [b"my only copy", b"\0" * 9, b'{"chain": "x'])
def test_a_file_that_is_no_ledger_is_not_written_over(content: bytes, tmp_path: Path) -> None:
    """A last line without its end is dropped; a file of nothing else must be the beginning of a ledger."""
    (tmp_path / "notes").write_bytes(content)
    with pytest.raises(FileFormatError, match="is not a ledger"):
        Journal(tmp_path / "notes", 1.0, 1e-5)
    assert (tmp_path / "notes").read_bytes() == content


def test_bounds_past_64_bits(tmp_path: Path) -> None:
    """Found by fuzzing: whole numbers for which numpy has no dtype."""
    column = {"name": "a", "kind": "numeric", "dtype": "float64", "low": -(2**70), "high": 2**80}
    (tmp_path / "s.json").write_bytes(hostile.schema(columns=[column]))
    schema = Schema.load(tmp_path / "s.json")
    assert schema["a"].low == -(2.0**70) and schema.sizes == (64,)
    assert Schema.from_dict(json.loads(schema.to_json())) == schema


@pytest.mark.parametrize("drafted", [5, True, 0.5, {"a": 1}, "text"])
def test_a_certificate_whose_drafted_columns_are_no_list(drafted: Any, tmp_path: Path) -> None:
    """Found by fuzzing: of a model, and so of what is written beside its tables."""
    facts, weights = read_model(a_model(tmp_path / "m"))
    facts.pop("format")
    facts["facts"]["public"]["drafted"] = drafted
    write_model(tmp_path / "m", facts, weights, overwrite=True)
    load(tmp_path / "m").sample_to(tmp_path / "t.csv", 3)
    with pytest.raises(FileFormatError, match=r"public\.drafted"):
        verify(tmp_path / "t.csv")
