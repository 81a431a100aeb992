"""Tables of SDV, and the reports of SDMetrics: ``make test-plugins``."""

import os
import warnings
from pathlib import Path

import pytest
from integrations.plugin_tables import METADATA, patients

REASON = "needs SDV and SDMetrics in an environment of their own: make test-plugins"
pytest.importorskip("sdmetrics", reason=REASON)
pytest.importorskip("sdv", reason=REASON)
pytestmark = pytest.mark.plugins


def test_tables_of_sdv_2_are_written_for_evaluation():
    folder = os.environ.get("TABSYNTH_PLUGIN_TABLES")
    if not folder:
        pytest.skip("no folder for tables: environments.py names one")
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metadata = Metadata.load_from_dict(METADATA)
    model = GaussianCopulaSynthesizer(metadata)
    model.fit({"table": patients()})
    made = model.sample(400)
    made = made["table"] if isinstance(made, dict) else made
    made.to_csv(Path(folder) / "sdv2.csv", index=False)
    made.to_parquet(Path(folder) / "sdv2.parquet")
