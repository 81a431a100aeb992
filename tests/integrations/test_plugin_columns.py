"""What plug-ins do with the tables of other programs; none of these programs is needed here."""

import sys
import types
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from command_lines import run
from integrations.plugin_tables import METADATA, patients

from tabsynth import BudgetError, Categorical, InputError, Numeric, Schema
from tabsynth.integrations.columns import Columns
from tabsynth.integrations.sdgym import create_synthesizer, trained
from tabsynth.synthesizers.margnet.config import MargNetConfig

DECLARED = ["age", "sex", "died"]
SCHEMA = Schema(
    [
        Numeric(name="age", dtype="int64", low=0, high=99, breaks=(20, 40, 60, 80)),
        Categorical(name="sex", dtype="str", categories=("F", "M")),
        Categorical(name="died", dtype="int64", categories=(0, 1)),
    ]
)
FEW = {"config": MargNetConfig(steps=20), "device": "cpu"}


def test_a_sample_has_the_columns_and_types_of_the_table_and_new_keys():
    table = patients(20)
    columns = Columns.of(table.astype({"sex": "category"}), ["patient_id", "no column"])
    assert columns.learned == [name for name in table.columns if name != "patient_id"]
    sample = table[["died", "age"]].astype("Int64").assign(sex="F", income=1.0)
    sample.loc[0, "age"] = pd.NA
    made = columns.complete(sample)
    assert [*made.columns] == [*table.columns]
    assert made["patient_id"].is_unique and not set(made["patient_id"]) & set(table["patient_id"])
    assert str(made["died"].dtype) == "int64" and str(made["age"].dtype) == "Int64"
    assert made["smoker"].isna().all() and "M" not in str(columns)


def test_whole_numbers_as_keys_are_numbered_anew():
    table = pd.DataFrame({"key": [7, 9, 11], "a": [1, 1, 2]})
    made = Columns.of(table, ["key"]).complete(table[["a"]])
    assert made["key"].tolist() == [0, 1, 2]


def test_tables_that_are_none_are_refused():
    for wrong in ([1, 2], pd.DataFrame({0: [1, 2]})):
        with pytest.raises(InputError):
            Columns.of(wrong)


@pytest.mark.slow
def test_sdgym_fits_with_a_private_draft_and_leaves_keys_alone():
    data = {"patients": patients()[["patient_id", *DECLARED]]}
    result = trained(data, METADATA, "margnet", epsilon=5.0, **FEW)
    made = result.sample(30)
    assert [*made.columns] == ["patient_id", *DECLARED] and len(made) == 30
    assert made["patient_id"].str.startswith("synthetic-").all()
    certificate = result.synthesizer.certificate()
    assert certificate["private"] and not certificate["conditional"]
    assert "patient_id" not in result.synthesizer.schema_.names


def test_sdgym_takes_a_declared_schema_and_a_ledger(tmp_path):
    from tabsynth import ProjectLedger

    ledger = tmp_path / "project.ledger"
    ProjectLedger.create(ledger, epsilon=2.0, delta=1e-5, table="patients")
    for given in (SCHEMA, SCHEMA.to_dict()):
        result = trained(
            patients(), METADATA, "margnet", schema=given, epsilon=0.5, ledger=ledger, **FEW
        )
    assert set(result.sample(5).dropna(axis=1).columns) >= {*DECLARED, "patient_id"}
    with pytest.raises(BudgetError):
        trained(patients(), METADATA, "margnet", schema=SCHEMA, epsilon=1.9, ledger=ledger, **FEW)


@pytest.mark.parametrize(
    ("data", "options", "says"),
    [
        (patients(50).assign(sex="other"), {}, "sex"),
        (patients(50).assign(sex="other", died=7), {}, "sex"),
        (patients(50).drop(columns="age"), {}, "age"),
        ({"a": patients(5), "b": patients(5)}, {}, "one table"),
        (patients(50), {"steps": 3}, "steps"),
        (patients(50), {"schema": None, "metadata": "no.json"}, "dict"),
    ],
)
def test_sdgym_with_data_that_the_schema_refuses_is_one_line(data, options, says):
    options = {"schema": SCHEMA, "metadata": METADATA, "epsilon": 1.0, **FEW, **options}
    metadata = options.pop("metadata")
    with pytest.raises(InputError, match=says) as error:
        trained(data, metadata, "margnet", **options)
    assert "\n" not in str(error.value)


def test_sdgym_gets_a_class_by_its_own_function():
    made = mock.Mock(return_value=type("Custom", (), {}))
    module = types.ModuleType("sdgym")
    module.create_single_table_synthesizer = made
    with mock.patch.dict(sys.modules, {"sdgym": module}):
        assert create_synthesizer("margnet", epsilon=1.0).__name__ == "Custom"
        for wrong in ({"method": "ctgan", "epsilon": 1.0}, {"epsilon": 0.0}):
            with pytest.raises(InputError):
                create_synthesizer(**wrong)
    assert made.call_args[0][0] == "tabsynth-margnet"


class Loader:
    """As much of synthcity's data loader as the plug-in uses."""

    def __init__(self, data, kind="generic"):
        self.data, self.kind = data, kind

    def dataframe(self):
        return self.data

    def type(self):
        return self.kind

    def info(self):
        return {"data_type": self.kind, "len": len(self.data), "target_column": None}


class Base:
    def __init__(self, sampling_patience=10, **settings):
        self.fitted, self.sampling_patience = False, sampling_patience


@pytest.fixture(scope="module")
def plugin_class():
    """The plug-in on a stand-in of synthcity, with the command line in this process."""
    names = ["synthcity", "synthcity.plugins", "synthcity.plugins.core"]
    modules = {name: types.ModuleType(name) for name in names}
    loaders = types.ModuleType("synthcity.plugins.core.dataloader")
    loaders.DataLoader, loaders.GenericDataLoader = Loader, Loader
    loaders.create_from_info = lambda data, info: (data, info)
    base = types.ModuleType("synthcity.plugins.core.plugin")
    base.Plugin = Base
    modules |= {loaders.__name__: loaders, base.__name__: base}
    name = "tabsynth.integrations.synthcity"
    before = sys.modules.pop(name, None)
    with mock.patch.dict(sys.modules, modules):
        from tabsynth.integrations.synthcity import TabsynthPlugin
    sys.modules.pop(name, None)
    if before is not None:
        sys.modules[name] = before
    return TabsynthPlugin


@pytest.fixture
def in_process(plugin_class, monkeypatch):
    monkeypatch.setattr(plugin_class, "_run", lambda self, words, folder: run(*words, cwd=folder))
    return plugin_class


@pytest.mark.slow
def test_synthcity_gets_rows_and_neither_the_number_of_rows_nor_a_histogram(in_process):
    plugin = in_process(epsilon=4.0, schema=SCHEMA, options=["--time-limit", "4s"])
    with pytest.raises(InputError, match="fit first"):
        plugin.generate(3)
    assert plugin.fit(Loader(patients()[["patient_id", *DECLARED]])) is plugin
    made, info = plugin.generate(25, random_state=1)
    assert [*made.columns] == ["patient_id", *DECLARED] and len(made) == 25
    assert made.equals(plugin.generate(25, random_state=1)[0])
    assert info["len"] is None and info["data_type"] == "generic"
    assert plugin.certificate()["epsilon"] <= 4.0
    women = types.SimpleNamespace(match=lambda rows: rows[rows["sex"] == "F"])
    assert set(plugin.generate(20, women)[0]["sex"]) == {"F"}
    nobody = types.SimpleNamespace(match=lambda rows: rows[rows["age"] > 999])
    for call, says in (
        (lambda: plugin.generate(5, nobody), "0 of 5 rows"),
        (lambda: plugin.generate(5, cond=[1]), "condition"),
        (plugin.schema, "histogram"),
    ):
        with pytest.raises(InputError, match=says) as error:
            call()
        assert "\n" not in str(error.value)


def test_synthcity_refuses_what_is_no_table_of_records(in_process):
    plugin = in_process()
    for wrong, options in ((Loader(patients(5), "time_series"), {}), (patients(5), {"cond": [1]})):
        with pytest.raises(InputError) as error:
            plugin.fit(wrong, **options)
        assert "\n" not in str(error.value) and not plugin.fitted


def test_an_error_of_the_command_line_is_one_line_and_leaves_no_file(plugin_class, tmp_path):
    script = tmp_path / "tabsynth"
    script.write_text(
        "#!/bin/sh\necho 'error: table.parquet has 2 problems:' >&2\necho '- a: x' >&2\nexit 2\n"
    )
    script.chmod(0o755)
    folders = set(Path("/tmp").glob("tabsynth-*"))
    cases = {
        str(script): "table.parquet has 2 problems: a: x",
        str(tmp_path / "missing"): "cannot be run",
        "false": "false failed: it wrote no error",
    }
    for command, says in cases.items():
        with pytest.raises(InputError, match=says) as error:
            plugin_class(command=[command]).fit(patients(5))
        assert "\n" not in str(error.value)
    assert set(Path("/tmp").glob("tabsynth-*")) == folders
