"""The results show what the documentation says."""

from pathlib import Path

import harness
import made_codes
import numpy as np
import page

RESULTS = harness.load_rows(Path(__file__).with_name("results.json"))


def test_all_engines_gave_the_same_model():
    models = page.models_by_table(RESULTS)
    assert models and all(len(of_table) == 1 for of_table in models.values())


def test_the_requirements_are_met():
    met = {requirement: met for requirement, _, met in page.requirements(RESULTS)}
    assert len(met) == 4 and all(met.values()), met


def test_every_row_has_a_setting(script):
    assert RESULTS.keys() == script("scale").STUDY.settings.keys()


def test_memory_of_reading_does_not_follow_the_rows():
    """From Parquet it does not at all; engines have caches of their own."""
    peaks = {key: row["peak_mib"] for key, row in RESULTS.items() if key.startswith("count-")}
    for engine, factor in (("parquet", 1.15), ("duckdb", 2.0), ("polars", 2.0)):
        of_engine = [peaks[f"count-{engine}-{rows}-10"] for rows in (10**7, 10**8)]
        assert of_engine[1] < factor * of_engine[0], engine


def test_made_up_tables_are_as_described(tmp_path):
    table, schema = made_codes.rows(20_000, 12, 0), made_codes.schema(12)
    for column, values in zip(schema.columns, table.columns, strict=True):
        assert set(values.to_pylist()) <= set(column.categories)
    before, after = (table.column(j).to_numpy() for j in (2, 3))
    assert (after == before * 16 // 10).mean() > made_codes.FOLLOWS
    assert made_codes.rows(50, 3, 1).equals(made_codes.rows(50, 3, 1))
    folder = made_codes.write(tmp_path / "t", 100, 3)
    assert [file.name for file in folder.iterdir()] == ["part-00000.parquet"]
    assert np.array_equal(made_codes.sizes(12), [*made_codes.SIZES, 2, 5])


def test_processes_count_their_own(script):
    processes = script("scale").Processes()
    assert sum(i * i for i in range(300_000)) > 0
    figures = processes.figures()
    assert figures["cpu_seconds"] >= 0 and figures["peak_mib"] > 10
