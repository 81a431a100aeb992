"""What plug-ins do with the tables of other programs; none of these programs is needed here."""

import sys
import types
from unittest import mock

import pandas as pd
import pytest
from integrations.plugin_tables import METADATA, patients

from tabsynth import BudgetError, Categorical, InputError, Numeric, Schema
from tabsynth.integrations.sdgym import Columns, create_synthesizer, fit_synthesizer
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
    assert columns.learned_columns == [name for name in table.columns if name != "patient_id"]
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
    result = fit_synthesizer(data, METADATA, "margnet", epsilon=5.0, **FEW)
    made = result.sample(30)
    assert [*made.columns] == ["patient_id", *DECLARED] and len(made) == 30
    assert made["patient_id"].str.startswith("synthetic-").all()
    certificate = result.synthesizer.certificate()
    assert certificate["private"] and not certificate["conditional"]
    assert "patient_id" not in result.synthesizer.schema_.names


def test_sdgym_takes_a_declared_schema_and_a_ledger(tmp_path):
    from tabsynth.privacy import ProjectLedger

    ledger = tmp_path / "project.ledger"
    ProjectLedger.create(ledger, epsilon=2.0, delta=1e-5, table="patients")
    for given in (SCHEMA, SCHEMA.to_dict()):
        result = fit_synthesizer(
            patients(), METADATA, "margnet", schema=given, epsilon=0.5, ledger=ledger, **FEW
        )
    assert set(result.sample(5).dropna(axis=1).columns) >= {*DECLARED, "patient_id"}
    with pytest.raises(BudgetError):
        fit_synthesizer(
            patients(), METADATA, "margnet", schema=SCHEMA, epsilon=1.9, ledger=ledger, **FEW
        )


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
        fit_synthesizer(data, metadata, "margnet", **options)
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
