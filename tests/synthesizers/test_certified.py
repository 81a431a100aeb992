"""Certificates of all methods are of the schema, verify, and say where everything is from."""

import json
import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from fitted_tables import SCHEMA, frame, small, small_acgan, small_dpgan, small_pate
from systems import SYSTEMS

from tabsynth import MargNet
from tabsynth.errors import FileFormatError
from tabsynth.methods import METHODS as REGISTERED
from tabsynth.privacy.certificate.certificate import beside, read_certificate, schema
from tabsynth.privacy.certificate.verification import verify
from tabsynth.report.certificates import privacy_panel
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers import METHODS, load
from tabsynth.synthesizers.adversarial import critic as adversarial
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.pate.estimator import TEACHERS
from tabsynth.synthesizers.session import STATED, noise_facts
from tabsynth.training.clipping import BOUNDS, GROUPINGS
from tabsynth.training.private_step import STEP_RULES


def margnet(schema=None, **changes):
    return MargNet(schema or SCHEMA, epsilon=3.0, time_limit=1.0, **changes)


MAKERS = {
    name: partial(METHODS[name], SCHEMA, epsilon=3.0, **SYSTEMS[name].full_batches(SCHEMA))
    for name, registered in REGISTERED.items()
    if registered.audit_fixture
}


def test_all_methods_are_here():
    assert sorted(MAKERS) == sorted(METHODS)


@pytest.mark.parametrize("method", ["margnet", "dp-wgan", "pate-gan"])
def test_a_table_of_one_column_and_one_computed_from_it(tmp_path, method):
    """No pair is counted; the certificate does not miss one."""
    (column,) = (column for column in SCHEMA.columns if column.name == "k")
    texts = [str(text) for text in column.categories]
    rule = {"derive": "copy", "from": ["k"], "table": [[text, text] for text in texts]}
    written = Schema((column, replace(column, name="copy"))).to_dict()
    schema = Schema.from_dict({**written, "constraints": [rule]})
    options = {} if method == "margnet" else {"autoencoder": "counts"}
    model = METHODS[method](schema, epsilon=3.0, time_limit=5.0, device="cpu", **options)
    rows = frame()[["k"]]
    model.fit(rows.assign(copy=rows["k"]))
    assert "joint counts" not in {item["purpose"] for item in model.certificate()["mechanisms"]}
    model.sample_to(tmp_path / "table.csv", 20)
    assert verify(tmp_path / "table.csv").consistent


@pytest.mark.parametrize("method", sorted(MAKERS))
def test_certificates_of_every_method(tmp_path, method):
    model = MAKERS[method](rows=60, device="cpu").fit(frame())
    model.save(tmp_path / "model")
    path = tmp_path / "table.csv"
    load(tmp_path / "model").sample_to(path, 20)
    data = read_certificate(beside(path))  # checks the schema
    assert data["method"] == method and data["code"]["files"] > 100
    assert {"python", "torch", "opacus"} <= data["versions"].keys()
    assert set(data["public"]["sources"]) == set(data["public"]["declared"])
    for item in data["mechanisms"]:
        assert item["sensitivity"]["value"] > 0 and item["sensitivity"]["unit"] != "not stated"
        assert item["noise_added"]["standard_deviation"] > 0
    verification = verify(path)
    assert verification.consistent and verification.notes == () and data["noise"]["exact"] is True
    assert verification.accountants[0].name != verification.accountants[1].name


@pytest.mark.slow
def test_noise_of_a_gpu_is_called_so(monkeypatch):
    """Where gradients are summed there."""
    first, counts = (make(rows=60, device="cpu").fit(frame()) for make in (small, margnet))
    monkeypatch.setattr("tabsynth.synthesizers.estimator.device_of", lambda _: torch.device("cuda"))
    first.model_.facts["noise"] = noise_facts(first.make_method(first.schema), first.ledger_)
    assert first.model_.facts["noise"]["exact"] is False
    assert noise_facts(counts.make_method(counts.schema), counts.ledger_)["exact"] is True


PUBLIC: dict[str, Any] = {"public": frame(30, seed=4), "public_source": "a made-up table"}
TABLE = "rows of the public table"
BOTH = ["autoencoder_config", "config"]
SETTINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "margnet": (margnet, {"own_configuration": []}),
    "margnet, configured": (
        lambda: margnet(config=MargNetConfig(steps=5)),
        {"own_configuration": ["config"]},
    ),
    "dp-wgan": (
        small,
        {
            **{"preset": "default", "autoencoder": "dp-sgd", "weight_clip": 0.03},
            "own_configuration": BOTH,
        },
    ),
    "dp-wgan, source, public": (
        lambda: small(preset="source", **PUBLIC),
        {
            **{"preset": "source", "autoencoder": TABLE, "weight_clip": 0.03},
            "own_configuration": BOTH,
        },
    ),
    "dp-wgan, no noise": (
        lambda: small(epsilon=math.inf),
        {
            **{"preset": "default", "autoencoder": "no-noise", "weight_clip": 0.03},
            "own_configuration": BOTH,
        },
    ),
    "dp-gan": (
        lambda: small_dpgan(variant="basic"),
        {
            **{"variant": "basic", "autoencoder": None},
            "own_configuration": ["autoencoder_config", "config"],
        },
    ),
    "pate-gan": (
        lambda: small_pate(teachers="networks"),
        {
            **{"autoencoder": None, "teachers": "networks"},
            "own_configuration": ["autoencoder_config", "config"],
        },
    ),
    "pate-acgan": (
        lambda: small_acgan(),
        {
            **{"class_column": "k", "mode": "C", "autoencoder": None, "teachers": "marginals"},
            "own_configuration": ["autoencoder_config", "config"],
        },
    ),
    # The mode follows from the teachers; it then requires votes on classes.
    "pate-acgan, networks": (
        lambda: small_acgan(teachers="networks"),
        {"mode": "B", "teachers": "networks"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("option", SETTINGS)
def test_settings_are_those_of_the_fit(option, tmp_path):
    """Of this fit, whatever parameters change and wherever the model goes; no others are taken in."""
    make, wanted = SETTINGS[option]
    model = make().fit(frame())
    model.save(tmp_path / "model")
    expected = {name: "changed" for name in STATED if hasattr(model, name)}
    model.set_params(**expected)
    for one in (model, load(tmp_path / "model")):
        created = one.certificate()["settings"]
        # What another preset would be asked for is more than this test knows.
        assert {name: created[name] for name in wanted} == wanted
    path = tmp_path / "t.csv"
    load(tmp_path / "model").sample_to(path, 9)
    assert verify(path).consistent
    data = read_certificate(beside(path))
    shown = dict(privacy_panel(data, 9, "").facts)
    for value in wanted.values():
        assert value is None or isinstance(value, list) or f"{value}" in shown["Settings"]
    for settings in ({**created, "surprise": 1}, {}, {**created, "weight_clip": -1}, "default"):
        beside(path).write_text(json.dumps({**data, "settings": settings}))
        with pytest.raises(FileFormatError, match="settings"):
            verify(path)
    del data["settings"]  # a model of before
    beside(path).write_text(json.dumps(data))
    assert verify(path).consistent


def test_the_schema_lists_what_there_is():
    fields = schema()["properties"]
    details = fields["mechanisms"]["items"]["properties"]["details"]["properties"]
    for listed, expected in (
        (details["bound"], [*BOUNDS, "quantile"]),  # which version 0.2 had
        (details["grouping"], [*GROUPINGS, "clusters"]),  # the same
        (details["step_rule"], STEP_RULES),
        (fields["settings"]["properties"]["mode"], ["A", "B", "C"]),
        (fields["settings"]["properties"]["teachers"], TEACHERS),
    ):
        assert sorted(listed["enum"]) == sorted(expected)
    assert set(STATED) <= set(fields["settings"]["properties"])


@pytest.mark.slow
@pytest.mark.parametrize("warm_steps", [0, 4])
@pytest.mark.parametrize("source", ["generated rows", TABLE])
def test_public_and_generated_rows_are_told_apart(source, warm_steps, monkeypatch):
    """What private steps go by: of the model itself, or of a table that a person declared public."""
    given, seen = PUBLIC if source == TABLE else {}, []
    real = adversarial._draw_rows

    def draw_rows(rows, *args):
        seen.append(rows)
        return real(rows, *args)

    monkeypatch.setattr(adversarial, "_draw_rows", draw_rows)
    model = small_dpgan(rows=60, config={"warm_start_steps": warm_steps}, **given)
    certificate = model.fit(frame()).certificate()
    (critic,) = (item for item in certificate["mechanisms"] if item["purpose"] == "critic")
    used = (
        source if warm_steps else "generated rows"
    )  # not warmed up on it, the critic never sees it
    assert bool(seen) == (used != "generated rows")
    if seen:
        assert len(seen[0]) == 30
    assert critic["details"]["stand_ins"] == used
    assert (
        critic["details"]["unit"] == f"median gradient norm of {used} at each step, group by group"
    )
    public = certificate["public"]
    assert (public["public_table"] is not None) == (source == TABLE)
    if source == TABLE:
        assert public["public_table"]["provenance"] == "a made-up table"


@pytest.mark.parametrize(
    ("rule", "radius"), [("dp-sgd", None), ("dp-sat", 0.03), ("bam", 0.01), (None, 0.2)]
)
def test_rule_radius_and_bound_are_stated(rule, radius):
    config = {
        "step__rule": "bam",
        "step__radius": 0.2,
        "clipping__bound": "fixed",
        "clipping__centred": False,
    }
    model = small_dpgan(rows=60, step_rule=rule, config=config, autoencoder="dp-sgd")
    items = model.fit(frame()).certificate()["mechanisms"]
    results = {item["purpose"]: item["details"] for item in items}
    critic, coder = results["critic"], results["autoencoder"]
    assert critic["step_rule"] == (rule or "bam") and critic.get("radius") == radius
    assert coder["step_rule"] == (rule or "dp-sgd")
    assert coder.get("radius") == (radius if rule else None)
    assert (critic["bound"], critic["max_norm"], critic["unit"]) == ("fixed", 0.5, "gradient norm")
    assert "stand_ins" not in critic  # it goes by none
    assert coder["l2_sensitivity"] == coder["max_norm"] == 1.0 and coder["groups"] == 1
