"""The program of the documentation for SDGym, against SDGym itself: ``make test-plugins``."""

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from integrations.plugin_tables import METADATA, patients

sdgym = pytest.importorskip(
    "sdgym", reason="needs SDGym in an environment of its own: make test-plugins"
)
pytestmark = pytest.mark.plugins


PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "other-packages.md"


@pytest.fixture(scope="module")
def synthesizer():
    names = ("sdgym", "sdv", "sdmetrics", "numpy", "pandas", "torch")
    print(sys.version.split()[0], {name: version(name) for name in names})
    (program,) = re.findall(r"```python\n(from sdgym.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    *lines, last = program.strip().splitlines()
    assert last.startswith("benchmark_single_table(")
    variables: dict[str, Any] = {}
    exec("\n".join(lines), variables)
    return variables["synthesizer"]


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
    ours = scores[scores["Synthesizer"].str.contains("MargNet")].iloc[0]
    uniform = scores[scores["Synthesizer"].str.contains("Uniform")].iloc[0]
    assert "Error" not in scores.columns or scores["Error"].isna().all()
    assert ours["Diagnostic_Score"] > 0.95
    assert ours["Quality_Score"] > uniform["Quality_Score"]


def test_tables_of_sdv_1_are_written_for_evaluation():
    folder = os.environ.get("TABSYNTH_PLUGIN_TABLES")
    if not folder:
        pytest.skip("no folder for tables: environments.py names one")
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    model = GaussianCopulaSynthesizer(Metadata.load_from_dict(METADATA))
    model.fit(patients())
    model.sample(400).to_csv(Path(folder) / "sdv1.csv", index=False)
