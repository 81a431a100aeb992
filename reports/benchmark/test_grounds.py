"""The peers' own benchmarks: their tables, their figures, and the page."""

import importlib.util
import itertools
import json

import grounds
import harness
import numpy as np
import pandas as pd
import pytest
from benchmark_data import VARIABLE
from grounds import GROUNDS, Ground

STORED = harness.load_rows(grounds.HERE / "grounds.json")


def test_a_parity_is_kept_by_all_rows_and_shown_by_no_smaller_set():
    schema, rows = grounds.draw_parity(4, 5, 0)
    assert list(rows) == list(schema.names) and len(rows) == grounds.ROWS
    assert list(schema.sizes) == [2] * 4 + [8] * 5
    assert grounds.kept_parity(rows) == 1.0
    bits = rows[[f"b{j}" for j in range(4)]].astype(int).to_numpy()
    for three in itertools.combinations(range(4), 3):
        counts = np.bincount(bits[:, three] @ [4, 2, 1], minlength=8)
        assert np.abs(counts - 1250).max() < 5 * np.sqrt(1250)
    rng = np.random.default_rng(0)
    shuffled = rows.apply(lambda column: rng.permutation(column.to_numpy()))
    assert grounds.kept_parity(shuffled) == pytest.approx(0.5, abs=0.025)  # five deviations
    beside = rows[[f"x{j}" for j in range(5)]].astype(int)
    assert set(np.unique(beside)) == set(range(8)) and beside.corr().to_numpy().min() > 0.2
    assert not grounds.draw_parity(4, 5, 1)[1].equals(rows)


def test_codes_follow_from_common_causes(monkeypatch):
    """Each has the share of the patients that was drawn for it, and the others tell it, where chance is 0.5."""
    monkeypatch.setattr(grounds, "PATIENTS", 3000)
    rows, test = grounds.draw_codes(60, 0)
    assert rows.shape == test.shape == (3000, 60) and set(np.unique(rows)) == {0, 1}
    both = pd.concat([rows, test]).mean()
    assert 0.005 < both.min() < 0.05 and 0.35 < both.max() < 0.4
    rng = np.random.default_rng(0)
    shuffled = rows.apply(lambda column: rng.permutation(column.to_numpy()))
    assert 0.8 < grounds.area(rows, test) < 0.97
    assert grounds.area(shuffled, test) == pytest.approx(0.5, abs=0.1)


def test_the_distance_of_triples_is_that_of_tables_of_pandas():
    rng, sizes = np.random.default_rng(0), [2, 3, 4, 2]
    first, second = (
        np.stack([rng.integers(0, size, n) for size in sizes], axis=1) for n in (50, 70)
    )
    expected = []
    for triple in itertools.combinations(range(4), 3):
        shares = [pd.DataFrame(x[:, triple]).value_counts(normalize=True) for x in (first, second)]
        expected.append(shares[0].sub(shares[1], fill_value=0).abs().sum())
    assert grounds.distance_of_triples(first, second, sizes) == pytest.approx(np.mean(expected))
    assert grounds.distance_of_triples(first, first, sizes) == 0
    apart = grounds.distance_of_triples(np.zeros((5, 3), int), np.ones((9, 3), int), [2, 2, 2])
    assert apart == pytest.approx(2)  # no cell in common


def test_every_ground_has_a_key_of_its_own_and_a_line_for_its_seeds():
    keys = [ground.key for ground in GROUNDS]
    assert len(set(keys)) == len(keys)
    titles = {ground.title for ground in GROUNDS}
    assert len(titles) * len(grounds.SEEDS) == len(GROUNDS)
    assert {ground.bits for ground in GROUNDS} == {0, 2, 3, 4, 7, 400}
    assert Ground("parity", 1.0, 2, 7, 5).key == "parity-7-beside-eps1-seed2"
    assert Ground("fire", 0.7, 0, public=True).key == "fire-public-eps0.7-seed0"


@pytest.mark.parametrize("name", ["characters", "adult", "fire", "salary"])
def test_a_ground_without_its_files_is_left_out_with_a_word(name, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert grounds.measure(Ground(name, 1.0, 0)) is None
    said = capsys.readouterr().err
    assert said.startswith(f"{name}-eps1-seed0 is left out. This needs ") and VARIABLE in said


def test_characters_are_left_out_without_xgboost(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    for name in grounds.CHARACTERS:
        (tmp_path / name).write_text("V1\n")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert grounds.measure(Ground("characters", 1.0, 0)) is None
    assert "pip install xgboost" in capsys.readouterr().err


def test_the_bounds_of_the_characters_are_those_of_all_parts():
    def part(value: float, klass: int) -> pd.DataFrame:
        return pd.DataFrame([dict.fromkeys(grounds.NUMBERS, value) | {"Class": klass}])

    schema = grounds.characters_schema([part(3, 2), part(1, 10), part(7, 1)])
    assert {(c.low, c.high, c.resolution) for c in schema.columns[:5]} == {(1, 7, 1)}
    assert {(c.low, c.high, c.resolution) for c in schema.columns[5:7]} == {(1, 7, 0.01)}
    assert schema.columns[7].categories == ("1", "2", "10")


@pytest.mark.parametrize("public", [False, True])
def test_the_triples_of_a_table_of_files_are_measured(public, monkeypatch, tmp_path):
    """Twenty public copies of a private row: the model is far nearer to it than uniform columns are."""
    folder = tmp_path / "fire"
    folder.mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    (folder / "fire-domain.json").write_text(json.dumps({"a": 2, "b": 3, "c": 2}))
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 2000)
    rows = pd.DataFrame({"c": a, "a": a, "b": rng.integers(0, 3, 2000)})  # in another order
    rows.to_csv(folder / "priv.csv", index=False)
    rows[:200].to_csv(folder / "pub.csv", index=False)
    row = grounds.measure(Ground("fire", 8.0, 0, public=public))
    assert 0 < row["figure"] < 0.2 < 1.0 and row["cpu_seconds"] > 0


def test_a_parity_of_two_bits_is_kept(monkeypatch):
    monkeypatch.setattr(grounds, "ROWS", 2000)
    row = grounds.measure(Ground("parity", 1.0, 0, 2))
    assert 0.95 < row["figure"] <= 1 and row["sample_seconds"] >= 0


def test_the_page_has_our_figures_beside_those_of_peers_and_says_who_was_stopped():
    cost = {"cpu_seconds": 20.4, "sample_seconds": 3.0}
    rows = {f"adult-eps1-seed{seed}": cost | {"figure": 0.1 + 0.01 * seed} for seed in range(3)}
    rows["adult-eps0.316-seed1"] = cost | {"figure": 0.2}
    peer = {"system": "AIM", "cpu_seconds": 1234.0}
    rows["aim:adult-eps0.316-seed0"] = peer | {"figure": 0.25}
    rows["aim:adult-eps0.316-seed1"] = peer | {"figure": 0.27}
    rows["aim:adult-eps1-seed0"] = {"system": "AIM", "stopped": "not done in 1,800 CPU s"}
    page = grounds.page(rows)
    assert (
        "| adult, ε = 1 | 0.110 ± 0.010 | 20, 3 | ≤ 0.125 | AIM: not done in 1,800 CPU s |" in page
    )
    assert (
        "| adult, ε = 0.316 | 0.200 (1) | 20, 3 | ≤ 0.17 | AIM 0.260 ± 0.014 (2 seeds, 1,234 CPU s) |"
        in page
    )
    assert "| parity of 7 bits | not measured yet | – | ≥ 0.95 | – |" in page


def test_the_stored_rows_are_of_the_grounds():
    stems = {ground.key.rpartition("-seed")[0] for ground in GROUNDS}
    for key, row in STORED.items():
        assert key.rpartition(":")[2].rpartition("-seed")[0] in stems
        assert (":" in key) == ("system" in row)
        if "stopped" not in row:
            assert (
                0
                < row["figure"]
                < (
                    1 + 1e-9
                    if any(name in key for name in ("parity", "codes", "characters"))
                    else 2
                )
            )
