"""The plug-in of SDGym against SDGym itself: ``make test-plugins``."""

import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from integrations.plugin_tables import METADATA, patients

sdgym = pytest.importorskip(
    "sdgym", reason="needs SDGym in an environment of its own: make test-plugins"
)
pytestmark = pytest.mark.plugins


@pytest.fixture(scope="module")
def synthesizer():
    from tabsynth.integrations.sdgym import create_synthesizer

    names = ("sdgym", "sdv", "sdmetrics", "numpy", "pandas", "torch")
    print(sys.version.split()[0], {name: version(name) for name in names})
    return create_synthesizer("margnet", epsilon=3.0, time_limit=20)


def test_the_class_is_one_of_sdgym(synthesizer):
    from sdgym.synthesizers.base import BaselineSynthesizer

    assert issubclass(synthesizer, BaselineSynthesizer)
    assert synthesizer.__name__ == "Custom:tabsynth-margnet"


def test_the_benchmark_of_sdgym_scores_it(synthesizer, tmp_path, monkeypatch):
    import json
    import zipfile

    table = patients()
    folder = tmp_path / "datasets" / "single_table" / "patients"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("patients.csv", table.to_csv(index=False))
    metadata = json.loads(json.dumps(METADATA))
    columns = metadata["tables"]["table"]["columns"]
    columns["admitted"]["datetime_format"] = "%Y-%m-%d"
    metadata["tables"] = {"patients": metadata["tables"]["table"]}
    (folder / "metadata.json").write_text(json.dumps(metadata))
    # SDGym 0.15.1 looks for a folder of the dataset's name where it runs, before it asks the network.
    monkeypatch.chdir(folder.parent)
    scores = sdgym.benchmark_single_table(
        synthesizers=["UniformSynthesizer"],
        custom_synthesizers=[synthesizer],
        sdv_datasets=None,
        additional_datasets_folder=str(tmp_path / "datasets"),
        compute_privacy_score=False,
    )
    print(scores.T.to_string())
    ours = scores[scores["Synthesizer"].str.contains("tabsynth")].iloc[0]
    uniform = scores[scores["Synthesizer"].str.contains("Uniform")].iloc[0]
    assert "Error" not in scores.columns or scores["Error"].isna().all()
    assert ours["Diagnostic_Score"] > 0.95
    assert ours["Quality_Score"] > uniform["Quality_Score"]


def test_a_table_that_the_schema_refuses_is_one_line_in_sdgym():
    from tabsynth import Categorical, InputError, Schema
    from tabsynth.integrations.sdgym import create_synthesizer

    schema = Schema([Categorical(name="sex", dtype="str", categories=("F", "X"))])
    created = create_synthesizer("margnet", epsilon=1.0, schema=schema)
    with pytest.raises(InputError, match="sex") as error:
        created().get_trained_synthesizer(patients(), METADATA)
    assert "\n" not in str(error.value)


def test_tables_of_sdv_1_are_written_for_evaluation():
    folder = os.environ.get("TABSYNTH_PLUGIN_TABLES")
    if not folder:
        pytest.skip("no folder for tables: environments.py names one")
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    model = GaussianCopulaSynthesizer(Metadata.load_from_dict(METADATA))
    model.fit(patients())
    model.sample(400).to_csv(Path(folder) / "sdv1.csv", index=False)
