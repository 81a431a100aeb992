"""Vocabularies as Athena writes them, and columns with more concepts than a schema lists."""

import csv

import numpy as np
import pandas as pd
import pytest
from omop_database import LOCAL, database, vocabulary

from tabsynth import InputError
from tabsynth.omop import schema as of_schema
from tabsynth.omop.database import read_omop
from tabsynth.omop.schema import omop_schema
from tabsynth.omop.vocabulary import Vocabulary
from tabsynth.schema.hierarchical import Hierarchical

HEADER = (
    "concept_id", "concept_name", "domain_id", "vocabulary_id", "concept_class_id", "standard_concept", "concept_code",
    "valid_start_date", "valid_end_date", "invalid_reason",
)  # fmt: skip


def athena(folder, names):
    """Write a CONCEPT file with tabs and without quotes, as Athena does; codes are 1, 2, 3, …"""
    lines = ["\t".join(HEADER)]
    for number, name in enumerate(names, 1):
        lines.append(f"{number}\t{name}\tDrug\tLocal\tClass\tS\t0{number}\t19700101\t20991231\t")
    (folder / "CONCEPT.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Vocabulary.read(folder)


def test_quotes_in_names_are_characters(tmp_path):
    names = ['"Smoker" status', 'Light "chain" assay', '"unbalanced', "a, b; c", "Ångström"]
    read = athena(tmp_path, names)
    assert read.codes("Drug", "c") == (0, 1, 2, 3, 4, 5)
    assert [read.names[code] for code in range(1, 6)] == names


def test_a_file_with_commas_has_quotes(tmp_path):
    rows = [[1, 'a, "b"', "Drug", "Local", "Class", "S", "01", "", "", ""]]
    pd.DataFrame(rows, columns=HEADER).to_csv(tmp_path / "CONCEPT.csv", index=False)
    assert Vocabulary.read(tmp_path).names[1] == 'a, "b"'
    options = {"sep": "\t", "quoting": csv.QUOTE_ALL, "index": False}
    pd.DataFrame(rows, columns=HEADER).to_csv(tmp_path / "CONCEPT.csv", **options)
    assert Vocabulary.read(tmp_path).names[1] == 'a, "b"'


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "CONCEPT.csv").write_text("\t".join(HEADER) + "\n1\tx\n")
    with pytest.raises(
        InputError, match=r"Cannot read .*CONCEPT.csv: .*give the file of an Athena download"
    ):
        Vocabulary.read(tmp_path)


def test_columns_with_more_concepts_than_a_schema_lists_are_selected_privately(monkeypatch):
    """Their values are still of the vocabulary; the threshold is that of concepts which are not known."""
    given = read_omop(database(120, seed=1) | vocabulary())
    monkeypatch.setattr(of_schema, "MAX_CATEGORIES", 500)
    schema = omop_schema(given, 3.0, random_state=0)
    (mechanism,) = schema.released["mechanisms"]
    assert mechanism["threshold_delta"] > 0
    wide = schema.tables["condition_occurrence"]["condition_concept_id"]
    assert {*wide.categories} <= {0, *given.tables["condition_occurrence"]["condition_concept_id"]}
    assert all(label for code, label in wide.labels.items())
    narrow = schema.tables["drug_exposure"]["drug_concept_id"]
    assert isinstance(narrow, Hierarchical)
    own = given.tables["condition_occurrence"].drop_duplicates("visit_occurrence_id")
    given.tables["condition_occurrence"] = own.assign(
        condition_concept_id=LOCAL + np.arange(len(own))
    )
    alone = omop_schema(given, 3.0, random_state=0)
    assert alone.tables["condition_occurrence"]["condition_concept_id"].categories == (0,)
