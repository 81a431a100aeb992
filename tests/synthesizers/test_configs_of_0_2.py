"""Model files of version 0.2.0, whose configurations had no parts, are read as what they were.

``configs_of_0_2.json`` has the configurations that the code of that version wrote of the small fits below.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fitted_tables import frame, small, small_acgan, small_dpgan, small_pate

from tabsynth import load
from tabsynth.errors import TabsynthError
from tabsynth.synthesizers.method import read_model, write_model

CONFIGS = json.loads(Path(__file__).with_name("configs_of_0_2.json").read_text("utf-8"))
MODELS: dict[str, Any] = {
    "dp-wgan": lambda: small(rows=60),
    "dp-gan": lambda: small_dpgan(config={"generator__anchor": 1.0}),  # the default of that version
    "pate-gan": lambda: small_pate(autoencoder=None),
    "pate-gan, paper": lambda: small_pate(teachers="networks", config={"start_from_counts": False}),
    "pate-acgan": lambda: small_acgan(class_shares={"x": 0.5, "y": 0.5}, autoencoder=None),
}


def test_values_that_are_no_more_are_read(tmp_path: Path) -> None:
    """Fitted by settings that were removed, which a sample does not depend on."""
    model, path = small_dpgan().fit(frame()), tmp_path / "m"
    model.save(path)
    facts, weights = read_model(path)
    former = {"critic_per_generator": "adaptive", "bound": "quantile", "grouping": "clusters"}
    config = {
        **CONFIGS["dp-gan"],
        "variant": "advanced-clusters",
        "config": {**CONFIGS["dp-gan"]["config"], **former},
    }
    write_model(path, {**facts, "config": config}, weights, overwrite=True)
    loaded = load(path)
    pd.testing.assert_frame_equal(loaded.sample(9, random_state=1), model.sample(9, random_state=1))
    assert loaded.config.clipping.bound == "public" and loaded.config.critic.per_generator == 4
    assert loaded.variant == "advanced"


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_of_0_2_is_read(name: str, tmp_path: Path) -> None:
    model, path = MODELS[name]().fit(frame()), tmp_path / "m"
    model.save(path)
    facts, weights = read_model(path)
    of_fit = facts["config"]
    write_model(path, {**facts, "config": CONFIGS[name]}, weights, overwrite=True)
    loaded = load(path)
    pd.testing.assert_frame_equal(loaded.sample(9, random_state=1), model.sample(9, random_state=1))
    # The same as a fit of the loaded model would state.
    assert json.loads(json.dumps(loaded.make_method(loaded.schema).configuration())) == of_fit
    if name == "pate-acgan":
        # By the column that was ``label``.
        assert set(loaded.sample(9, where={"k": "y"}, max_draws=9)["k"]) == {"y"}
    config = {**CONFIGS[name]["config"], "unheard": 1}
    write_model(
        path, {**facts, "config": {**CONFIGS[name], "config": config}}, weights, overwrite=True
    )
    with pytest.raises(TabsynthError, match="unheard"):
        load(path)
