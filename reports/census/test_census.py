"""The census report: its other tables, its label scores, its shared autoencoder, and that its page is of its results."""

import functools
import json
import math
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tabsynth import InputError, Schema
from tabsynth.encoding import TableEncoder
from tabsynth.schema import Column
from tabsynth.synthesizers.gan import dpwgan

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "synthesizers"))
from fitted_tables import frame, small, wgan  # noqa: E402

PERSONS = """RT,SERIALNO,PUMA,AGEP,SEX,ESR,RAC1P
P,1,00301,41,1,1,1
P,1,00301,9,2,,9
P,3,01004,99,2,6,2
P,4,01004,20,1,3,6
P,5,01007,33,1,3,6
"""
HOUSEHOLDS = """RT,SERIALNO,NP,HHT,HINCP,HUPAC,WIF
H,1,02,1,81000,2,1
H,3,01,6,1200000,4,
H,4,01,,,,
H,5,01,6,-5000,4,
"""


@pytest.fixture
def report(script: Any) -> Any:
    return script("census")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    for kind, text in (("p", PERSONS), ("h", HOUSEHOLDS)):
        with zipfile.ZipFile(tmp_path / f"acs-2019-5-Year-csv_{kind}MD.zip", "w") as archive:
            archive.writestr(f"psam_{kind}24.csv", text)
    return tmp_path


def test_the_documents_own_columns(report: Any, cache: Path) -> None:
    """Ten columns of the areas that are asked for; incomes in brackets, nulls kept, a schema that holds them."""
    table, schema = report.maryland(2019, "5-Year", ["00301", "01004"], cache)
    assert set(schema.names) == set(report.TABLE_1) and len(table) == 4
    assert table["HINCP"].tolist()[:3] == [6, 6, 9] and table["HINCP"].isna().tolist()[3]
    assert TableEncoder(schema, "ordinal").layout.width == 10
    TableEncoder(schema).to_index(table)
    everyone, schema = report.maryland(2019, "5-Year", None, cache)
    assert len(everyone) == 5 and everyone["HINCP"].tolist()[4] == 0
    assert schema["PUMA"].categories == ("00301", "01004", "01007")


def test_an_area_that_is_not_there(report: Any, cache: Path) -> None:
    with pytest.raises(InputError, match="99999"):
        report.maryland(2019, "5-Year", ["00301", "99999"], cache)


@pytest.mark.data("census_ma_2018.csv", "census_ma_2019.csv")
def test_the_nearest_columns(report: Any) -> None:
    table, schema = report.nearest(report.SCHEMA)
    assert list(table) == list(report.NEAREST.values()) == list(schema.names)
    assert len(table) == 7_244 + 7_634 and report.NEAREST.keys() == report.TABLE_1.keys()
    index = TableEncoder(schema).to_index(table)
    income = schema.names.index("POVPIP")
    assert set(np.unique(index[:, income])) == set(range(12))  # eleven groups and null


def test_label_scores(report: Any, tmp_path: Path) -> None:
    """A label that follows from the rest, one that does not, and one that contradicts it."""
    rng = np.random.default_rng(0)
    kind, other = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    paths = {}
    for name, label in (("train", kind), ("same", kind), ("shuffled", rng.permutation(kind))):
        paths[name] = tmp_path / f"{name}.csv"
        pd.DataFrame({"a": kind, "b": label, "c": other}).to_csv(paths[name], index=False)
    same, apart = (report.label_scores(paths["train"], paths[n]) for n in ("same", "shuffled"))
    for score in same["b"].values():
        assert score == pytest.approx(math.log(3), abs=0.06)
    assert all(abs(score) < 0.02 for score in same["c"].values())
    # The inception score does not see whether a row has the label that the rest of it calls for.
    assert apart["b"]["inception"] == pytest.approx(math.log(3), abs=0.06)
    assert apart["b"]["agreement"] < -1
    constant = tmp_path / "constant.csv"
    pd.DataFrame({"a": 0 * kind, "b": 0 * kind, "c": other}).to_csv(constant, index=False)
    assert report.label_scores(paths["train"], constant)["b"]["inception"] < 0.02


def test_variants_share_an_autoencoder_and_nothing_changes(
    report: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights, ε and charges are those of fits that each train their own."""

    def fits() -> list[Any]:
        parts: dict[str, Any] = {"epsilon": 8.0, "preset": "source", "autoencoder": "dp-sgd"}
        variants: list[dict[str, Any]] = [{}, {"bound": "public"}, {"max_norm": 0.1}]
        seeds = [(0, change) for change in variants] + [(1, {})]
        return [
            small(random_state=seed, config=wgan(**change), **parts).fit(frame())
            for seed, change in seeds
        ]

    plain, trained = fits(), []
    train = report.Networks._train_autoencoder

    def counted(*given: Any) -> Any:
        trained.append(1)
        return train(*given)

    monkeypatch.setattr(report.Networks, "_train_autoencoder", counted)
    with report.SharedCoder():
        shared = fits()
    assert len(trained) == 2 and report.Networks._train_autoencoder is counted
    for one, other in zip(plain, shared, strict=True):
        weights = [list(model.trained_.weights().values()) for model in (one, other)]
        assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
        first, second = one.certificate(), other.certificate()
        assert first["mechanisms"] == second["mechanisms"] and first["epsilon"] == second["epsilon"]


@pytest.mark.slow
def test_the_page_is_of_its_results(
    report: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = ROOT / "reports" / "census"
    for name in ("template.md", "paper.md", "results.json", "nearest.json", "maryland.json"):
        if (folder / name).exists():
            (tmp_path / name).write_bytes((folder / name).read_bytes())
    monkeypatch.setattr(report, "HERE", tmp_path)
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results.json")
    paper = report.PAPER.read_text("utf-8")
    monkeypatch.setattr(report, "PAPER", tmp_path / "paper-page.md")
    report.write_readme()
    page = (tmp_path / "README.md").read_text("utf-8")
    assert page == (folder / "README.md").read_text("utf-8") and "<!--" not in page
    assert (tmp_path / "paper-page.md").read_text("utf-8") == paper and "<!--" not in paper
    results = json.loads((folder / "results.json").read_text("utf-8"))
    assert {"default-eps8-seed0", "source-epsinf-seed0"} <= results["runs"].keys()


def test_the_accuracy_that_the_methods_page_quotes_is_in_the_results(report: Any) -> None:
    """The shares of the real F1 beside the document's."""
    results = json.loads((ROOT / "reports" / "census" / "results.json").read_text("utf-8"))
    page = (ROOT / "docs" / "reference" / "methods.md").read_text("utf-8")
    lines = page.split("## Measured accuracy")[1].splitlines()
    real = results["reference"]["real"]["dwpre_weighted_mean"]

    def cells(start: str) -> list[str]:
        """The shares at ε = 1, 8 and ∞."""
        (line,) = (line for line in lines if line.startswith(f"| {start}"))
        return [cell.strip() for cell in line.split("|")[2:5]]

    def share(preset: str, epsilon: float) -> str:
        result = report.runs_of(results, preset, epsilon)
        if not result:
            return "–"
        kept = np.mean([run["yardstick"]["dwpre_weighted_mean"] for run in result])
        return f"{int(100 * kept / real)}%"  # rounded down, as the page does

    epsilons = (1.0, 8.0, math.inf)
    assert cells("`dp-wgan`, preset `default`") == [share("default", e) for e in epsilons]
    assert cells("`dp-wgan`, preset `source`") == [share("source", e) for e in epsilons]
    published = [f"{int(100 * report.PUBLISHED[epsilon])}%" for epsilon in epsilons]
    assert cells("published") == published
    shuffled = results["reference"]["shuffled"]["dwpre_weighted_mean"]
    assert cells("baseline") == [f"{int(100 * shuffled / real + 0.5)}%"] * 3
    rows = json.loads((ROOT / "reports" / "benchmark" / "results.json").read_text("utf-8"))
    margnet = [
        np.mean([rows[f"census-margnet-eps{e:g}-seed{s}"]["dwpre_weighted_mean"] for s in range(3)])
        for e in epsilons[:2]
    ]
    assert cells("`margnet`")[:2] == [f"{int(100 * kept / real)}%" for kept in margnet]


def test_the_split_is_of_the_census_table(report: Any, protocol: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"census_national_2019\.csv: set TABSYNTH_DATA"):
        report.split(tmp_path)
    rows = pd.DataFrame({"SEX": [1, 2] * 5})
    rows.to_csv(protocol / "census_national_2019.csv", index=False)
    report.split(tmp_path)
    assert [len(pd.read_csv(tmp_path / f"{part}.csv")) for part in ("train", "test")] == [7, 3]


def test_source_on_another_table(
    report: Any, protocol: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each run is kept as it ends, none is made twice, and the page shows them beside the document's."""
    for name in ("source_wgan", "source_autoencoder"):
        real = getattr(dpwgan, name)
        steps = "critic_steps" if name == "source_wgan" else "steps"
        short = functools.partial(
            lambda rows, real, steps: replace(real(rows), **{steps: 5}),
            real=real,
            steps=steps,
        )
        monkeypatch.setattr(dpwgan, name, short)
    monkeypatch.setattr(report, "HERE", tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.integers(0, 3, 1100) for name in report.TABLE_1})
    columns = [
        Column(name=name, kind="ordinal", dtype="int64", categories=(0, 1, 2)) for name in table
    ]
    schema = Schema(columns)
    report.run_table("made", table, schema, [8.0], [0])
    first = (tmp_path / "made.json").read_text("utf-8")
    kept = json.loads(first)
    assert kept["rows"] == 1100 and list(kept["runs"]) == ["source-eps8-seed0"]
    assert kept["runs"]["source-eps8-seed0"]["yardstick"]["rows"] == 770
    assert 0 < kept["runs"]["source-eps8-seed0"]["spent"] <= 8
    report.run_table("made", table, schema, [8.0], [0])
    assert (tmp_path / "made.json").read_text("utf-8") == first
    lines = report.other_table("made", {name: name for name in report.TABLE_1}, {"NP": "why"})
    sex = kept["runs"]["source-eps8-seed0"]["yardstick"]["dwpre_weighted"]["SEX"]
    (row,) = (line for line in lines if line.startswith("| SEX"))
    assert row.startswith("| SEX | SEX | 0.541 | 0.503 | 0.498 | 0.448 | 0.490 |")
    assert f"| {sex:.3f} |" in row and lines[-1] == "- NP: why."
    assert any(line.startswith("| mean | | 0.511 | 0.355 | 0.303 |") for line in lines)
    assert report.other_table("absent", {}, {}) == ["Not run."]
