"""The package hangs together as CONTRIBUTING.md says."""

import architecture
import pytest

from tabsynth import DPWGAN, MargNet, load_census
from tabsynth.synthesizers.gan.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.gan.dpwgan import WGANConfig
from tabsynth.synthesizers.margnet.config import MargNetConfig


def test_no_import_leads_back():
    assert architecture.cycles() == []


def test_a_cycle_is_found(tmp_path, monkeypatch):
    package = tmp_path / "tabsynth"
    package.mkdir()
    (package / "one.py").write_text("def f():\n    from tabsynth import two\n")
    (package / "two.py").write_text("from tabsynth.three import x\n")
    (package / "three.py").write_text("from tabsynth.one import f\n")
    monkeypatch.setattr(architecture, "ROOT", tmp_path)
    monkeypatch.setattr(architecture, "PACKAGE", package)
    assert architecture.cycles() == [{"tabsynth.one", "tabsynth.two", "tabsynth.three"}]


MODELS = {
    "margnet": (29, lambda schema: MargNet(schema, epsilon=1.0, config=MargNetConfig(steps=20))),
    "dp-wgan": (
        34,
        lambda schema: DPWGAN(
            schema,
            epsilon=1.0,
            config=WGANConfig(critic_steps=4, warm_steps=2, moment_steps=2),
            autoencoder_config=AutoencoderConfig(steps=2),
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", MODELS)
def test_a_fit_runs_through_few_modules(method):
    most, make = MODELS[method]
    table, schema = load_census()
    model = make(schema)
    result = architecture.modules_run(lambda: model.fit(table[:300]).sample(20))
    assert len(result) <= most, sorted(result)
