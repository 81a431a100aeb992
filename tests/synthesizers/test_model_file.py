"""Model files: what is saved comes back; what is not a model is refused, quickly and in one line."""

import json
import math
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabsynth import DPWGAN, InputError, Schema, TabsynthError, load
from tabsynth.errors import FileFormatError
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.adversarial.critic import CriticConfig, WGANConfig
from tabsynth.synthesizers.adversarial.generator import GeneratorConfig
from tabsynth.synthesizers.method import read_model, write_model
from tabsynth.training.private_step import StepConfig

torch.set_num_threads(1)
SCHEMA = Schema(
    [
        Column(name="k", kind="categorical", dtype="str", categories=("x", "y", "é"), nulls=True),
        Column(name="v", kind="numeric", dtype="int64", low=0, high=9),
    ]
)
CONFIG = WGANConfig(
    generator=GeneratorConfig(latent_dim=3, hidden=(4,)),
    critic=CriticConfig(hidden=(4,)),
    step=StepConfig(count=4, sampling_rate=1.0),
)
CODER = AutoencoderConfig(hidden=(4,), latent_dim=3, step=StepConfig(count=3, sampling_rate=1.0))


def fitted(**changes: Any) -> DPWGAN:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"k": rng.choice(["x", "y"], 20), "v": rng.integers(0, 10, 20)},
    ).astype({"k": "str"})
    parameters = {"epsilon": 3.0, "config": CONFIG, "autoencoder_config": CODER}
    return DPWGAN(SCHEMA, **{**parameters, **changes}).fit(table)


@pytest.fixture(scope="module")
def model() -> DPWGAN:
    return fitted()


@pytest.fixture(scope="module")
def held(model: DPWGAN, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    model.save(path)
    return path.read_bytes()


def refused(path: Path, kind: type[TabsynthError] = TabsynthError) -> str:
    started = time.process_time()
    with pytest.raises(kind) as error:
        load(path)
    assert time.process_time() - started < 3
    text = str(error.value)
    assert "\n" not in text and len(text) < 400
    return text


def rewritten(held: bytes, path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The file with its facts changed, weights as they were."""
    path.write_bytes(held)
    facts, weights = read_model(path)
    change(facts)
    facts.pop("format", None)
    write_model(path, facts, weights, overwrite=True)
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"autoencoder": None},
        {"network_encoding": "binary"},
        {"network_encoding": {"v": "ordinal"}},
        {"epsilon": math.inf},
        {"preset": "source", "rows": 20},
        {"random_state": 4},
    ],
    ids=repr,
)
def test_what_is_saved_comes_back(changes: dict[str, Any], tmp_path: Path) -> None:
    model, path = fitted(**changes), tmp_path / "m"
    model.save(path)
    loaded = load(path)
    pd.testing.assert_frame_equal(
        model.sample(50, random_state=1), loaded.sample(50, random_state=1)
    )
    one, other = model.certificate(), loaded.certificate()
    del one["created"], other["created"]
    assert one == other and loaded.schema == model.schema
    loaded.save(tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == path.read_bytes()
    assert "é" in set(SCHEMA["k"].categories)


def test_the_file_is_safetensors_and_json(held: bytes) -> None:
    """No pickle; the keys of the facts are known, one by one (R18)."""
    size = struct.unpack("<Q", held[:8])[0]
    header = json.loads(held[8 : 8 + size])
    facts = json.loads(header["__metadata__"]["tabsynth"])
    assert set(facts) == {
        *("format", "method", "schema", "epsilon", "delta", "encoding", "config", "ledger"),
        *("seeded", "facts", "rows", "table", "sha256"),
    }
    assert set(facts["facts"]) == {
        *("settings", "plan", "public", "versions", "training", "code", "noise")
    }
    assert set(facts["facts"]["training"]) == {"stopped", "curves"}
    assert facts["seeded"] is False
    assert b"random_state" not in held and b"pickle" not in held and b"critic.0" not in held


def test_missing_truncated_and_other_files(held: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    assert "Cannot read" in refused(path, FileFormatError)
    refused(tmp_path, FileFormatError)
    for cut in (0, 1, 7, 8, 9, 100, len(held) // 2, len(held) - 1):
        path.write_bytes(held[:cut])
        refused(path, FileFormatError)
    rng = np.random.default_rng(0)
    for data in (rng.bytes(3000), b"\0" * 3000, b"\xff" * 3000, held + b"more", b"PK\3\4" * 99):
        path.write_bytes(data)
        refused(path, FileFormatError)
    path.write_bytes(struct.pack("<Q", 2**62) + held[8:])
    refused(path, FileFormatError)
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, path)
    assert "not a tabsynth model" in refused(path, FileFormatError)
    for text in ("", "{", "[]", "5", "null", "[" * 100_000, json.dumps({"format": "other/9"})):
        save_file({"a": torch.zeros(2)}, path, metadata={"tabsynth": text})
        refused(path, FileFormatError)


def test_another_version_is_named(held: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(held.replace(b"tabsynth-model/1", b"tabsynth-model/2"))
    text = refused(path, FileFormatError)
    assert "tabsynth-model/2" in text and "tabsynth-model/1" in text


@pytest.mark.parametrize(
    "key",
    ["method", "schema", "epsilon", "delta", "encoding", "config", "ledger", "seeded", "facts"],
)
def test_missing_and_wrong_facts(key: str, held: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    refused(rewritten(held, path, lambda facts: facts.pop(key)))
    for value in (None, [], "?", -1, [5], {"a": 1}, 10**400):
        if key == "seeded" or (key == "ledger" and value in ([], "")):
            continue
        refused(rewritten(held, path, lambda facts, value=value: facts.update({key: value})))


@pytest.mark.parametrize("part", ["public", "versions", "training"])
def test_facts_of_the_certificate_are_checked_at_once(
    part: str, held: bytes, tmp_path: Path
) -> None:
    """What is missing must not surface after the sampling."""
    refused(rewritten(held, tmp_path / "m", lambda f: f["facts"].pop(part)))
    refused(rewritten(held, tmp_path / "m", lambda f: f["facts"].update({part: 5})))
    rewritten(held, tmp_path / "m", lambda f: f["facts"].update(method="mine", seeded=False))
    assert load(tmp_path / "m").certificate()["method"] == "dp-wgan"


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f["config"]["config"]["generator"].update(hidden=[10**9]),
        lambda f: f["config"]["config"]["generator"].update(hidden=[10**5] * 50),
        lambda f: f["config"]["config"]["generator"].update(latent_dim=10**12),
        lambda f: f["config"]["config"]["generator"].update(hidden=[-4]),
        lambda f: f["config"]["config"]["generator"].update(latent_dim=True),
        lambda f: f["config"]["config"].update(unknown=1),
        lambda f: f["config"]["autoencoder_config"].update(hidden=[10**9, 10**9]),
        lambda f: f["config"]["autoencoder_config"].update(latent_dim=10**9),
        lambda f: f["config"].update(autoencoder_config=None),
        lambda f: f["config"].update(autoencoder=None),
        lambda f: f["config"].pop("preset"),
        lambda f: f["config"].update(config=[1]),
        lambda f: f["schema"]["columns"].pop(),
        lambda f: f["schema"]["columns"][0]["categories"].append("more"),
        lambda f: f["schema"]["columns"][1].update(bins=100_000, low=0, high=10**6, resolution=1),
        lambda f: f["schema"]["columns"].extend(
            {**f["schema"]["columns"][1], "name": str(i), "high": 1e6, "bins": 10**5}
            for i in range(50)
        ),
        lambda f: f["ledger"][0].update(count=-1),
        lambda f: f["ledger"][0].update(count=10**400),
        lambda f: f["ledger"][0].update(noise_multiplier=0),
        lambda f: f["ledger"][0].update(noise_multiplier=1e-300),
        lambda f: f["ledger"][0].update(details="text"),
        lambda f: f["ledger"][0].update(mechanism="magic"),
        lambda f: f["ledger"].append(5),
        lambda f: f.update(epsilon="nan"),
        lambda f: f.update(epsilon=0),
        lambda f: f.update(delta=2),
        lambda f: f.update(encoding="base-0"),
    ],
)
def test_facts_that_do_not_fit_the_weights(
    change: Callable[[dict[str, Any]], None], held: bytes, tmp_path: Path
) -> None:
    """Networks and codebooks are not built before their size is known to be in the file."""
    refused(rewritten(held, tmp_path / "m", change))


@pytest.mark.parametrize("bad", ["nan", "inf", "shape", "missing", "extra", "empty", "none"])
def test_weights_that_do_not_fit(bad: str, held: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(held)
    facts, weights = read_model(path)
    facts.pop("format")
    name = "body.0.weight"
    if bad in ("nan", "inf"):
        raw = bytearray(held)
        raw[-4:] = struct.pack("<f", float(bad))
        path.write_bytes(bytes(raw))
        assert "checksum" in refused(path, FileFormatError)
        weights[name][0, 0] = float(bad)
        with pytest.raises(InputError, match="not finite"):
            write_model(tmp_path / "n", facts, weights, overwrite=True)
        assert not (tmp_path / "n").exists()
        return
    if bad == "shape":
        weights[name] = weights[name].T
    elif bad == "missing":
        del weights[name]
    elif bad == "extra":
        weights["extra"] = torch.zeros(3)
    elif bad == "empty":
        weights[name] = torch.zeros(0)
    else:
        weights = {}
    write_model(path, facts, weights, overwrite=True)
    refused(path, FileFormatError)


@pytest.mark.slow
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_flipped_bytes(data: st.DataObject, held: bytes, tmp_path: Path) -> None:
    """Any damage is a TabsynthError, or changed nothing that is read."""
    raw = bytearray(held)
    size = struct.unpack("<Q", held[:8])[0] + 8
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.integers(0, size - 1) | st.integers(0, len(held) - 1))
        raw[where] = data.draw(st.integers(0, 255) | st.sampled_from(b'0123456789"[]{},.-eE'))
    path = tmp_path / "m"
    path.write_bytes(bytes(raw))
    try:
        model = load(path)
        device = next(iter(model.model_.weights().values())).device
        synthetic = model.model_.generator.sample(5, torch.Generator(device).manual_seed(0))
        table = model.model_.encoder.from_index(synthetic, np.random.default_rng(0))
    except TabsynthError as error:
        assert "\n" not in str(error)
        return
    assert len(table) == 5
    model.schema.check_columns(table)


def test_writing_is_whole_or_not_at_all(tmp_path: Path, model: DPWGAN) -> None:
    with pytest.raises(InputError):
        model.save(tmp_path / "no" / "m")
    with pytest.raises(InputError):
        model.save(tmp_path)
    (tmp_path / "m").write_text("before")
    with pytest.raises(TypeError):
        write_model(tmp_path / "m", {"a": object()}, {})
    assert (tmp_path / "m").read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
