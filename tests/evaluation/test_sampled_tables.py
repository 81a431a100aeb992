"""Tables larger than memory are compared on uniform samples, with the standard error by sampling."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command_lines import make_people, make_schema
from typer.testing import CliRunner

from tabsynth import InputError, Schema, evaluate, read_table
from tabsynth.cli import app
from tabsynth.evaluation import Columns, EvaluationConfig
from tabsynth.evaluation.evaluating import checked_totals, sampled_distances
from tabsynth.evaluation.utility.marginals import distances
from tabsynth.schema import Column
from tabsynth.tables import batch_counter, read_sample

SCHEMA = Schema([Column(name="x", kind="numeric", dtype="int64", low=0, high=999)])


def folder_of(table: pd.DataFrame, folder: Path, files: int = 3) -> Path:
    folder.mkdir()
    for i, part in enumerate(np.array_split(np.arange(len(table)), files)):
        table.iloc[part].to_parquet(folder / f"{i}.parquet", index=False, row_group_size=70)
    return folder


@pytest.mark.slow
def test_every_row_is_drawn_as_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over files and batches: without replacement, by the seed, and each row with the same chance."""
    monkeypatch.setattr(batch_counter, "BATCH_ROWS", 40)
    folder = folder_of(pd.DataFrame({"x": np.arange(200)}), tmp_path / "t")
    drawn = np.zeros(200)
    for seed in range(50):
        table, total = read_sample(folder, SCHEMA, 50, random_state=seed)
        assert total == 200 and table["x"].is_unique and table["x"].is_monotonic_increasing
        drawn[table["x"]] += 1
    # Binomial of 50 draws at 1/4: variance 9.375; chi-square of 199 degrees of freedom.
    assert drawn.sum() == 50 * 50 and 130 < ((drawn - 12.5) ** 2 / 9.375).sum() < 280
    again, _ = read_sample(folder, SCHEMA, 50, random_state=49)
    pd.testing.assert_frame_equal(again, table)


def test_a_sample_of_all_rows_is_the_table(tmp_path: Path) -> None:
    table, schema = make_people(150), make_schema()
    folder = folder_of(table, tmp_path / "t", files=1)
    sample, total = read_sample(folder, schema, 1000)
    assert total == 150
    pd.testing.assert_frame_equal(sample, read_table(folder / "0.parquet", schema))
    with pytest.raises(InputError, match="Expected rows"):
        read_sample(folder, schema, 0)
    pd.DataFrame({"x": [5000]}).to_parquet(tmp_path / "wrong.parquet")
    with pytest.raises(InputError, match=r"wrong\.parquet has 4 problems"):
        read_sample(tmp_path / "wrong.parquet", Schema([*SCHEMA.columns, *schema.columns]), 5)


def test_standard_errors_are_those_of_repeated_samples() -> None:
    """And what equal tables have by chance is what samples of one table have."""
    rng, sizes, n, m = np.random.default_rng(0), (4, 5, 3), 900, 600
    whole = np.stack([rng.integers(0, s, 50_000) for s in sizes], axis=1)
    whole[:, 1] = np.where(rng.random(len(whole)) < 0.5, whole[:, 0], whole[:, 1])
    other = np.stack([np.minimum(whole[:, 0] + 1, 3), whole[:, 1], whole[:, 2]], axis=1)
    names, found, equal = ("a", "b", "c"), [], []
    columns = Columns(names=names, sizes=sizes)
    for i in range(60):
        train, one, same = (
            t[rng.integers(0, len(t), k)] for t, k in ((whole, n), (other, m), (whole, m))
        )
        orders = [
            distances(train, (one, one, None), order, names=names, sizes=sizes) for order in (1, 2)
        ]
        evaluation = SimpleNamespace(rows={"train": n, "synthetic": m}, distances=orders)
        sampled = sampled_distances(evaluation, {"train": (n, 50_000)}, train, columns, seed=i)
        found.append([(d.value, d.standard_error, d.by_chance) for d in sampled.distances])
        equal.append(
            [
                distances(
                    train, (same, same, None), order, names=names, sizes=sizes
                ).synthetic.mean.value
                for order in (1, 2)
            ]
        )
    values, errors, by_chance = np.moveaxis(np.array(found), 2, 0)
    # Of columns that are equal in both tables the influence of a row is estimated too large, not too small.
    ratio = errors.mean(axis=0) / values.std(axis=0, ddof=1)
    assert (ratio > 0.8).all() and (ratio < 1.7).all()
    assert np.allclose(by_chance.mean(axis=0), np.mean(equal, axis=0), rtol=0.2)


def test_totals_that_there_cannot_be() -> None:
    assert checked_totals({"train": 10**9, "holdout": 7}, [10, 5]) == {"train": (10, 10**9)}
    with pytest.raises(InputError, match="has 9 rows for train, of which 10 were given"):
        checked_totals({"train": 9}, [10, 5])
    with pytest.raises(InputError, match="Expected a table of sampled_from"):
        checked_totals({"real": 90}, [10, 5])


@pytest.mark.slow
def test_a_report_states_what_was_sampled(tmp_path: Path) -> None:
    table, schema = make_people(900), make_schema()
    schema.save(tmp_path / "s.json")
    folder = folder_of(table, tmp_path / "real")
    make_people(700, seed=1).to_parquet(tmp_path / "made.parquet", index=False)
    words = ["evaluate", "--real", folder, "--synthetic", tmp_path / "made.parquet"]
    words += ["--schema", tmp_path / "s.json", "-o", tmp_path / "out"]
    done = CliRunner().invoke(app, [*map(str, words), "--sample-rows", "300"])
    assert done.exit_code == 0, done.output
    assert (
        "300 of 900 rows of the training table, 300 of 700 rows of the synthetic table"
        in done.output
    )
    measured = json.loads((tmp_path / "out" / "metrics.json").read_text())["evaluation"]
    assert measured["sampled"]["rows"] == {"train": [300, 900], "synthetic": [300, 700]}
    assert all(0 < d["standard_error"] < 0.1 for d in measured["sampled"]["distances"])
    assert "300 of 900 rows" in (tmp_path / "out" / "report.html").read_text()
    done = CliRunner().invoke(app, [*map(str, words), "--epsilon", "1", "--overwrite"])
    assert done.exit_code == 2 and "--epsilon is of whole tables" in done.stderr
    few = EvaluationConfig(m=5, k=(1,))
    whole = evaluate(table, make_people(700, seed=1), schema=schema, config=few)
    assert whole.evaluation.sampled is None
