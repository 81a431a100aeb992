"""Certificates of all methods are of the schema, verify, and say where everything is from."""

import pytest
import torch
from fitted_tables import frame, small, small_acgan, small_dpgan, small_pate
from typer.testing import CliRunner

from tabsynth import MargNet
from tabsynth.cli import app
from tabsynth.privacy.certificate import beside, read_certificate
from tabsynth.privacy.signing import make_keys
from tabsynth.privacy.verification import verify
from tabsynth.synthesizers import METHODS, load


def margnet(schema=None, **changes):
    from fitted_tables import SCHEMA

    return MargNet(schema or SCHEMA, epsilon=3.0, time_limit=1.0, **changes)


MAKERS = {
    "dp-gan": small_dpgan,
    "dp-wgan": small,
    "margnet": margnet,
    "pate-acgan": lambda **k: small_acgan(mode="B", **k),
    "pate-gan": small_pate,
}


def test_all_methods_are_here():
    assert sorted(MAKERS) == sorted(METHODS)


@pytest.mark.parametrize("method", sorted(MAKERS))
def test_certificates_of_every_method(tmp_path, method):
    model = MAKERS[method](rows=60).fit(frame())
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
    found = verify(path)
    assert found.consistent and found.notes == () and data["noise"]["exact"] is True
    assert found.opinions[0].name != found.opinions[1].name


def test_noise_of_a_gpu_is_called_so(monkeypatch):
    """Where gradients are summed there, now or in the fit that this one starts from."""
    monkeypatch.setattr("tabsynth.synthesizers.facts.device_of", lambda _: torch.device("cuda"))
    first, counts = (make(rows=60).fit(frame()) for make in (small, margnet))
    assert first.facts_["noise"]["exact"] is False and counts.facts_["noise"]["exact"] is True
    monkeypatch.undo()
    warm = small_dpgan(rows=60, epsilon=6.0, warm_start=first).fit(frame())
    assert warm.facts_["noise"]["exact"] is False
    del first.facts_["noise"]  # a model file of before
    assert small_dpgan(rows=60, epsilon=6.0, warm_start=first).fit(frame()).facts_["noise"] is None


def test_sample_signs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small(rows=60).fit(frame()).save("model")
    public, _ = make_keys("key")
    words = ["sample", "model", "-n", "9", "-o", "t.csv", "--sign"]
    done = CliRunner().invoke(app, [*words, "nowhere"])
    assert done.exit_code == 2 and not beside("t.csv").exists()
    assert CliRunner().invoke(app, [*words, "key"]).exit_code == 0
    assert verify("t.csv", public).signature.endswith("the key given")
