"""Our schemas as metadata of SDV, and the reports of SDMetrics that take it: ``make test-plugins``."""

import os
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import pytest
from integrations.plugin_tables import METADATA, patients

REASON = "needs SDV and SDMetrics in an environment of their own: make test-plugins"
pytest.importorskip("sdmetrics", reason=REASON)
pytest.importorskip("sdv", reason=REASON)
pytestmark = pytest.mark.plugins


@pytest.fixture(scope="module", params=["census", "hospital"])
def bundled(request):
    """A bundled table, a sample of a model of it, and its schema."""
    from tabsynth import MargNet, load_census
    from tabsynth.datasets import load_hospital

    names = ("sdv", "sdmetrics", "numpy", "pandas", "torch")
    print(sys.version.split()[0], {name: version(name) for name in names})
    table, schema = {"census": load_census, "hospital": load_hospital}[request.param]()
    schema = schema.select(list(schema.names[:8]))
    table = table[list(schema.names)][:3000]
    return table, MargNet(schema, epsilon=5.0, time_limit=20).fit(table).sample(1000), schema


@pytest.mark.parametrize("spec", ["V1", "V2"])
def test_sdv_accepts_the_metadata_and_the_tables(bundled, spec):
    from sdv.metadata import Metadata

    from tabsynth.schema.exporters import to_sdv

    table, synthetic, schema = bundled
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metadata = Metadata.load_from_dict(to_sdv(schema, spec))
    metadata.validate()
    metadata.validate_data({"table": table})
    metadata.validate_data({"table": synthetic})


@pytest.mark.parametrize("spec", ["V1", "V2"])
def test_both_kinds_of_reports_of_sdmetrics_take_it(bundled, spec):
    from sdmetrics.reports import DiagnosticReport, QualityReport
    from sdmetrics.reports.single_table import QualityReport as SingleTable

    from tabsynth.schema.exporters import to_sdv

    table, synthetic, schema = bundled
    metadata = to_sdv(schema, spec)
    whole, one = {"table": table}, metadata["tables"]["table"]
    for report, real, made, given in (
        (QualityReport(), whole, {"table": synthetic}, metadata),
        (DiagnosticReport(), whole, {"table": synthetic}, metadata),
        (SingleTable(), table, synthetic, one),
    ):
        report.generate(real, made, given, verbose=False)
        score = report.get_score()
        print(spec, type(report).__name__, score)
        assert 0.7 < score <= 1.0
    single = SingleTable()
    single.generate(table, synthetic, one, verbose=False)
    details = single.get_details("Column Shapes")
    assert set(details["Column"]) == set(schema.names)
    assert "Error" not in details or details["Error"].isna().all()


def test_our_importer_reads_what_sdv_2_detects(tmp_path):
    from sdv.metadata import Metadata

    from tabsynth.schema.importers import import_schema

    found = Metadata.detect_from_dataframes({"patients": patients()})
    found.save_to_json(str(tmp_path / "metadata.json"))
    schema = import_schema(tmp_path / "metadata.json")
    assert {"age", "sex", "died"} <= set(schema.drafted)  # detected in the rows, hence not public
    assert schema["age"].to_dict()["high"] == patients()["age"].max()
    assert schema["patient_id"].kind == "identifier"


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
