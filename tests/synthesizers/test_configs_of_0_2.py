"""Model files that version 0.2.0 wrote of GANs and PATE are refused: their configurations had no parts.

``configs_of_0_2.json`` has the configurations that the code of that version wrote of small fits.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from command_lines import refused
from fitted_tables import frame, small, small_acgan, small_dpgan, small_pate

from tabsynth.synthesizers.method import read_model, write_model

CONFIGS = json.loads(Path(__file__).with_name("configs_of_0_2.json").read_text("utf-8"))
MODELS: dict[str, Any] = {
    "dp-wgan": small,
    "dp-gan": small_dpgan,
    "pate-gan": lambda: small_pate(autoencoder=None),
    "pate-gan, paper": lambda: small_pate(teachers="networks"),
    "pate-acgan": lambda: small_acgan(class_shares={"x": 0.5, "y": 0.5}, autoencoder=None),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_of_0_2_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    MODELS[name]().fit(frame()).save(path)
    facts, weights = read_model(path)
    write_model(path, {**facts, "config": CONFIGS[name]}, weights, overwrite=True)
    says = "written by tabsynth 0.2.0; sample it with that release (its certificate still verifies)"
    refused("sample", "m", "-n", 5, "-o", "s.csv", cwd=tmp_path, says=says)
