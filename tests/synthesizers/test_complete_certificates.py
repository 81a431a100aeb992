"""R27: what a certificate must list is what fits of every method and option charge: no honest one is refused.

Those of the systems of replays are in ``test_forged_certificates``.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from fitted_tables import SCHEMA, frame, small, small_acgan, small_dpgan, small_pate
from typer.testing import CliRunner

from tabsynth import InputError, MargNet
from tabsynth.cli import app
from tabsynth.privacy.certificate.attached import find_attached
from tabsynth.privacy.certificate.completeness import find_missing_mechanisms
from tabsynth.privacy.certificate.signing import make_keys
from tabsynth.privacy.certificate.verification import verify
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.margnet.config import MargNetConfig

torch.set_num_threads(1)
PUBLIC: dict[str, Any] = {"public": frame(30, seed=4), "public_source": "made up"}
NETWORKS: dict[str, Any] = {"teachers": "networks"}
PAPER = {**NETWORKS, "config": {"start_from_counts": False}}


def margnet(schema: Any = SCHEMA, **changes: Any) -> MargNet:
    config = {"components": 20, "steps": 5, "hidden": (8,), **changes.pop("config", {})}
    return MargNet(schema, **{"epsilon": 3.0, "config": MargNetConfig(**config), **changes})


def fitted(model: Synthesizer) -> Synthesizer:
    return model.fit(frame())


def twice(model: Synthesizer) -> Synthesizer:
    fitted(model)
    return fitted(model.set_params(epsilon=6.0))


OPTIONS: dict[str, Callable[[], Synthesizer]] = {
    "margnet, one column": lambda: margnet(SCHEMA.select(["k"])),
    "margnet, two columns": lambda: margnet(SCHEMA.select(["k", "v"])),
    "margnet, no time": lambda: margnet(time_limit=1e-6),
    "margnet, again": lambda: twice(margnet()),
    "margnet, no noise": lambda: margnet(epsilon=math.inf),
    "dp-wgan, source, rows": lambda: small(preset="source", autoencoder=None, rows=60),
    "dp-wgan, no noise": lambda: small(epsilon=math.inf, autoencoder="no-noise"),
    "dp-wgan, no time": lambda: small(time_limit=1e-6, autoencoder=None),
    "dp-wgan, again": lambda: twice(small(autoencoder=None)),
    "dp-gan, basic, rows": lambda: small_dpgan(variant="basic", rows=60),
    "dp-gan, part of the rows": lambda: small_dpgan(rate=0.3),
    "pate-gan, paper, coder": lambda: small_pate(autoencoder="dp-sgd", **PAPER),
    "pate-gan, networks": lambda: small_pate(**NETWORKS),
    "pate-gan, no time": lambda: small_pate(time_limit=1e-6),
    "pate-gan, no noise": lambda: small_pate(epsilon=math.inf),
    "pate-acgan, rows": lambda: small_acgan(rows=60),
    "pate-acgan, shares": lambda: small_acgan(class_shares={"x": 0.5, "y": 0.5}),
}


@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
def test_no_honest_certificate_is_refused(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = OPTIONS[option]()
    columns = list(model.schema.names)
    if not hasattr(model, "model_"):
        model.fit(frame()[columns])
    certificate = model.certificate()
    assert find_missing_mechanisms(certificate) == []
    # Something of the list is required, and missed where it is not there.
    left = []
    for purpose in {item["purpose"] for item in certificate["mechanisms"]}:
        kept = [item for item in certificate["mechanisms"] if item["purpose"] != purpose]
        left += find_missing_mechanisms({**certificate, "mechanisms": kept})
    assert left


def test_sampled_tables_are_bound_and_samples_of_a_condition_too() -> None:
    model = fitted(margnet())
    plain, given = model.sample(40), model.sample(40, where={"k": "x"})
    acgan = fitted(small_acgan()).sample(40, where={"k": "y"})
    for table in (plain, given, acgan):
        assert find_attached(table) is table.attrs["certificate"]
        assert find_attached(table.head(39)) is None
    assert given.attrs["certificate"]["condition"] == {"k": ["x"]}


def test_an_epsilon_past_finite_odds_states_no_bounds_on_an_attacker(tmp_path: Any) -> None:
    """e^ε is no finite number, and JSON has no other: before, the table could not be written."""
    odds = []
    for epsilon in (650.0, 1200.0):
        model = fitted(margnet(epsilon=epsilon))
        model.sample_to(tmp_path / "t.csv", 9, overwrite=True)
        assert not verify(tmp_path / "t.csv").problems
        odds.append(model.certificate().get("attacker", {}).get("odds"))
    assert odds[0] > 1e200 and odds[1] is None


def test_a_model_whose_list_is_empty_is_not_signed(tmp_path: Any, monkeypatch: Any) -> None:
    """A model file is data of whoever made it: its rows are drawn, but a signature vouches for its list."""
    monkeypatch.chdir(tmp_path)
    model = fitted(margnet())
    model.ledger_.accounts.clear()
    model.save("forged")
    make_keys("key")
    words = ["sample", "forged", "-n", "9", "-o", "t.csv"]
    done = CliRunner().invoke(app, [*words, "--sign", "key"])
    assert done.exit_code == 2 and "cannot be signed" in done.stderr
    assert not (tmp_path / "t.csv").exists()
    assert CliRunner().invoke(app, words).exit_code == 0
    assert "no mechanism" in verify("t.csv").problems[0]
    with pytest.raises(InputError, match="no mechanism"):
        from tabsynth.privacy.certificate.certificate import certify
        from tabsynth.privacy.certificate.signing import read_private

        certify("t.csv", key=read_private("key"))
