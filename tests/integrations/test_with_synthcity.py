"""The plug-in of synthcity against synthcity itself, tabsynth in a process of its own: ``make test-plugins``."""

import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from integrations.plugin_tables import patients

synthcity = pytest.importorskip(
    "synthcity", reason="needs synthcity in an environment of its own: make test-plugins"
)
pytestmark = pytest.mark.plugins
COMMAND = os.environ.get("TABSYNTH_PLUGIN_COMMAND", "")


@pytest.fixture(scope="module")
def generators():
    from synthcity.plugins import Plugins

    from tabsynth.integrations.synthcity import TabsynthPlugin

    print(
        sys.version.split()[0], {n: version(n) for n in ("synthcity", "numpy", "pandas", "torch")}
    )
    if not shutil.which(COMMAND):
        pytest.skip("needs the tabsynth command of another environment: environments.py names one")
    result = Plugins(categories=["privacy"])
    result.add("tabsynth", TabsynthPlugin)
    assert "tabsynth" in result.list()
    return result


@pytest.fixture(scope="module")
def fitted(generators, tmp_path_factory):
    from synthcity.plugins.core.dataloader import GenericDataLoader

    table = patients().drop(columns=["patient_id", "admitted"]).fillna({"income": 0.0})
    plugin = generators.get(
        "tabsynth",
        epsilon=4.0,
        command=[COMMAND],
        options=["--time-limit", "20s"],
        workspace=tmp_path_factory.mktemp("workspace"),
    )
    plugin.fit(GenericDataLoader(table, target_column="died"))
    return plugin, table


def test_it_generates_a_loader_of_synthcity_with_the_types_of_the_table(fitted):
    plugin, table = fitted
    made = plugin.generate(300)
    assert made.type() == "generic" and made.target_column == "died"
    frame = made.dataframe()
    assert len(frame) == 300 and set(frame.columns) == set(table.columns)
    assert all(frame[name].dtype == table[name].dtype for name in table.columns)
    assert abs(len(plugin.generate().dataframe()) - len(table)) < 100  # the noisy number


def test_constraints_of_synthcity_hold(fitted):
    from synthcity.plugins.core.constraints import Constraints

    plugin, _ = fitted
    rows = plugin.generate(50, constraints=Constraints(rules=[("age", ">=", 60)])).dataframe()
    assert len(rows) == 50 and (rows["age"] >= 60).all()


def test_the_metrics_of_synthcity_take_its_rows(fitted):
    from synthcity.metrics.eval import Metrics
    from synthcity.plugins.core.dataloader import GenericDataLoader

    plugin, table = fitted
    real = GenericDataLoader(table, target_column="died")
    scores = Metrics.evaluate(
        real,
        plugin.generate(len(table)),
        metrics={"stats": ["jensenshannon_dist"], "sanity": ["data_mismatch"]},
    )
    print(scores.to_string())
    assert len(scores)


def test_a_saved_plugin_holds_no_row_and_comes_back(fitted):
    from synthcity.utils.serialization import load, save

    plugin, _ = fitted
    saved = save(plugin)
    again = load(saved)
    assert (
        again.generate(20, random_state=1)
        .dataframe()
        .equals(plugin.generate(20, random_state=1).dataframe())
    )
    assert again.data_info["len"] is None


def test_a_table_that_the_schema_refuses_is_one_line(generators, tmp_path):
    from tabsynth import Categorical, InputError, Schema

    schema = Schema([Categorical(name="sex", dtype="str", categories=("F", "X"))])
    plugin = generators.get("tabsynth", schema=schema, command=[COMMAND], workspace=tmp_path)
    with pytest.raises(InputError, match="sex") as error:
        plugin.fit(patients())
    assert "\n" not in str(error.value)


def test_tables_of_synthcity_are_written_for_evaluation(generators, tmp_path):
    folder = os.environ.get("TABSYNTH_PLUGIN_TABLES")
    if not folder:
        pytest.skip("no folder for tables: environments.py names one")
    table = patients()
    table["income"] = table["income"].fillna(table["income"].median())
    made = generators.get("privbayes", epsilon=5.0, workspace=tmp_path).fit(
        table.drop(columns="patient_id")
    )
    rows = made.generate(400).dataframe()
    rows.insert(0, "patient_id", "x")
    rows.to_csv(Path(folder) / "synthcity.csv", index=False)
