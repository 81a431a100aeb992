"""Linked tables of public files: households with persons, patients with visits, and patients with stays and diagnoses.

The files are benchmark files of data/README.md. Every rule here is public: it follows from the files' documentation.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[2] / "data"))
from benchmark_data import data_file

from tabsynth import Categorical, Numeric, Ordinal, Schema
from tabsynth.schema import Column
from tabsynth.schema.linked import LinkedSchema, TableKeys

NIST = "NIST Diverse Communities Data Excerpts, data dictionary (ACS 2018-2019)"
UCI = "UCI Diabetes 130-US Hospitals, Strack et al. 2014, tables 1 and 2"
HOUSEHOLD = ["PUMA", "WGTP", "NPF", "NOC", "OWN_RENT"]  # what the members of a household share
CHILD = 15  # years: the excerpts list younger persons after all others
TRAIN = 0.8  # of the roots
# Upper ends of ICD-9-CM's chapters of three-digit codes; V and E codes are two more.
CHAPTERS = {
    139: "infections", 239: "neoplasms", 279: "endocrine", 289: "blood", 319: "mental", 389: "nervous system",
    459: "circulatory", 519: "respiratory", 579: "digestive", 629: "genitourinary", 679: "pregnancy", 709: "skin",
    739: "musculoskeletal", 759: "congenital", 779: "perinatal", 799: "symptoms", 999: "injury",
}  # fmt: skip
DIAGNOSES = ("diabetes", *CHAPTERS.values(), "external causes", "other contacts", "unknown")


@dataclass(frozen=True)
class LinkedTables:
    """Linked tables with keys, their schema, and the tables of other roots as a hold-out."""

    title: str
    schema: LinkedSchema
    train: dict[str, pd.DataFrame]
    holdout: dict[str, pd.DataFrame]


def _of_texts(name: str, values: object, source: str, *, ordered: bool = False) -> Column:
    kind = Ordinal if ordered else Categorical
    return kind(name=name, dtype="str", categories=tuple(map(str, values)), source=source)


# ---------------------------------------------------------------- households
def household_schemas() -> dict[str, Schema]:
    """Columns of households and of persons, from the data dictionary."""
    pumas = [
        "01-01301",
        "06-07502",
        "06-08507",
        "08-00803",
        "13-04600",
        "17-03529",
        "17-03531",
        "19-01700",
        "24-01004",
        "26-02702",
        "28-01100",
        "29-01901",
        "30-00600",
        "32-00405",
        "36-03710",
        "36-04010",
        "38-00100",
        "40-00200",
        "51-01301",
        "51-51255",
    ]
    households = [
        _of_texts("PUMA", pumas, NIST),
        _of_texts("TYPE", TYPES, NIST),
        _of_texts("NPF", ["none", *range(2, 8), "8 or more"], NIST, ordered=True),
        _of_texts("OWN_RENT", ["own", "rent"], NIST),
    ]
    persons = [
        Numeric(name="AGEP", dtype="int64", low=0, high=99, bins=20, resolution=1, source=NIST),
        _of_texts("SEX", ["male", "female"], NIST),
        _of_texts("MSP", ["under 15", *MARITAL.values()], NIST),
        _of_texts("RAC1P", range(1, 10), NIST),
        _of_texts("EDU", ["under 3", *range(1, 13)], NIST, ordered=True),
    ]
    return {"households": Schema(households), "persons": Schema(persons)}


TYPES = ("married couple", "male householder", "female householder", "alone", "not a family")
MARITAL = {
    1: "married, spouse present", 2: "married, spouse absent", 3: "widowed", 4: "divorced", 5: "separated", 6: "never married",
}  # fmt: skip


def household_numbers(people: pd.DataFrame) -> np.ndarray:
    """The household of each person of an excerpt, shape (rows,); -1 in group quarters.

    The excerpts keep the order of the survey's files, but list persons under 15 after all others. Members of a
    household share what ``HOUSEHOLD`` names. So consecutive persons of 15 or more who share it are a household. Runs of
    children are in the order of households within a PUMA. A run belongs to the first household after that of the
    previous run that shares all of ``HOUSEHOLD``; one with its ratio of income to poverty, and one whose family is then
    complete, come first. The search ends at the next household that only one run of children can belong to.
    """
    housed = people["HOUSING_TYPE"].to_numpy() == 1
    child = people["AGEP"].to_numpy() < CHILD
    shared = people[HOUSEHOLD].fillna(-1)
    out = np.full(len(people), -1)
    adults, children = shared[housed & ~child], shared[housed & child]
    out[housed & ~child] = _runs(adults)
    first = adults.groupby(out[housed & ~child]).head(1)
    numbers = dict(zip(first.index, out[first.index], strict=True))
    poverty = people["POVPIP"].fillna(-1).to_numpy()
    size = pd.Series(out[housed & ~child]).value_counts()
    at: dict[tuple, list[int]] = {}  # rows of the first members, by what is shared
    for row, values in zip(first.index, first.itertuples(index=False, name=None), strict=True):
        at.setdefault(values, []).append(row)
    runs = [rows for _, rows in children.groupby(_runs(children)).groups.items()]
    keys = [tuple(children.loc[rows[0]]) for rows in runs]
    alone = [at[key][0] if len(at[key]) == 1 else None for key in keys]
    last: dict[str, int] = {}
    for i, (rows, key) in enumerate(zip(runs, keys, strict=True)):
        row = alone[i]
        if row is None:
            following = (
                a
                for k, a in zip(keys[i:], alone[i:], strict=True)
                if k[0] == key[0] and a is not None
            )
            end = next(following, len(people))
            found = [r for r in at[key] if last.get(key[0], -1) < r < end] or at[key]
            row = min(
                found,
                key=lambda r: (
                    poverty[r] != poverty[rows[0]],
                    size[numbers[r]] + len(rows) != key[2],
                    r,
                ),
            )
        last[key[0]] = row
        out[rows] = numbers[row]
    return out


def _runs(rows: pd.DataFrame) -> np.ndarray:
    """A number for each run of equal rows, shape (rows,)."""
    return (rows != rows.shift()).any(axis=1).cumsum().to_numpy()


def households(year: int) -> dict[str, pd.DataFrame]:
    """Households and persons of the national excerpt of a year.

    The household's type follows from NPF and from the first member, whom the survey lists first as the householder.
    """
    file = data_file(f"census_national_{year}.csv")
    people = pd.read_csv(file, na_values="N", keep_default_na=False)
    people["household"] = household_numbers(people)
    people = people[people["household"] >= 0].sort_values("household", kind="stable")
    numbers = people.groupby("household")
    head = numbers.head(1).set_index("household")
    size = numbers.size()
    family = head["NPF"].notna()
    married, male = head["MSP"] == 1, head["SEX"] == 1
    kind = np.select(
        [family & married, family & male, family, size == 1],
        TYPES[:4],
        TYPES[4],
    )
    roots = pd.DataFrame(
        {
            "household": head.index,
            "PUMA": head["PUMA"].astype(str).to_numpy(),
            "TYPE": kind,
            "NPF": head["NPF"].map(_family_size).to_numpy(),
            "OWN_RENT": head["OWN_RENT"].map({1: "own", 2: "rent"}).to_numpy(),
        }
    )
    persons = pd.DataFrame(
        {
            "household": people["household"],
            "person": numbers.cumcount() + 1,
            "AGEP": people["AGEP"].clip(0, 99),
            "SEX": people["SEX"].map({1: "male", 2: "female"}),
            "MSP": people["MSP"].map(MARITAL).fillna("under 15"),
            "RAC1P": people["RAC1P"].astype(str),
            "EDU": people["EDU"].map(lambda v: "under 3" if pd.isna(v) else str(int(v))),
        }
    )
    return {"households": roots, "persons": persons.reset_index(drop=True)}


def _family_size(size: float) -> str:
    return "none" if pd.isna(size) else str(int(size)) if size < 8 else "8 or more"


def census() -> LinkedTables:
    """Households and persons of 2019; a random part of the households is the hold-out."""
    tables = households(2019)
    kept = tables["households"]["household"]
    kept = kept[_drawn(len(kept))]
    parts = [
        {
            name: table[table["household"].isin(kept) == inside].reset_index(drop=True)
            for name, table in tables.items()
        }
        for inside in (True, False)
    ]
    return LinkedTables(
        "households and persons, national census excerpt 2019",
        LinkedSchema(
            household_schemas(),
            {
                "households": TableKeys(key="household"),
                "persons": TableKeys(
                    parent="households", parent_key="household", order="person", max_children=8
                ),
            },
        ),
        *parts,
    )


def _drawn(count: int) -> np.ndarray:
    """Which of so many roots are fitted, at random; bool (count,)."""
    return np.random.default_rng(0).permutation(count) < TRAIN * count


# ---------------------------------------------------------------- patients
def chapter(code: str) -> str:
    """The chapter of ICD-9-CM of a diagnosis; diabetes (250) is apart, since all patients have it."""
    if code.startswith("250"):
        return "diabetes"
    if code.startswith("E"):
        return "external causes"
    if code.startswith("V"):
        return "other contacts"
    number = re.match(r"\d+", code)
    if number is None:
        return "unknown"
    return next(name for end, name in CHAPTERS.items() if int(number[0]) <= end)


def encounters() -> pd.DataFrame:
    """All rows of the file, in the order of encounter_id, which is that of time; texts."""
    file = data_file("diabetes_hospital_5000.csv")
    rows = pd.read_csv(file, dtype=str, keep_default_na=False)
    rows["encounter_id"] = rows["encounter_id"].astype(int)
    return rows.sort_values("encounter_id", ignore_index=True)


def patient_tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Patients and visits; a patient's race, gender and age are those of the first visit."""
    first = rows.groupby("patient_nbr", sort=False).head(1)
    patients = pd.DataFrame(
        {
            "patient": first["patient_nbr"],
            "race": first["race"].replace("?", "unknown"),
            "gender": first["gender"],
            "age": first["age"],
        }
    )
    visits = pd.DataFrame(
        {
            "patient": rows["patient_nbr"],
            "visit": rows.groupby("patient_nbr").cumcount() + 1,
            "admission": rows["admission_type_id"].map(ADMISSIONS).fillna("other or unknown"),
            "days": rows["time_in_hospital"].astype(int),
            "inpatient": rows["number_inpatient"].astype(int).clip(upper=5),
            "diagnosis": rows["diag_1"].map(chapter),
            "readmitted": rows["readmitted"],
        }
    )
    return {"patients": patients.reset_index(drop=True), "visits": visits}


def stay_tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Patients, stays, and the one to three diagnoses of each stay in the order of the file."""
    two = patient_tables(rows)
    stays = two["visits"].drop(columns="diagnosis").rename(columns={"visit": "number"})
    stays.insert(1, "stay", rows["encounter_id"].to_numpy())
    listed = rows.set_index("encounter_id")[["diag_1", "diag_2", "diag_3"]].stack()
    listed = listed[listed != "?"].reset_index()
    listed.columns = ["stay", "position", "code"]
    events = pd.DataFrame(
        {
            "stay": listed["stay"],
            "position": listed.groupby("stay").cumcount() + 1,
            "diagnosis": listed["code"].map(chapter),
        }
    )
    return {"patients": two["patients"], "stays": stays, "events": events}


ADMISSIONS = {"1": "emergency", "2": "urgent", "3": "elective"}


def _patient_columns() -> Schema:
    ages = [f"[{low}-{low + 10})" for low in range(0, 100, 10)]
    races = ["Caucasian", "AfricanAmerican", "Hispanic", "Asian", "Other", "unknown"]
    return Schema(
        [
            _of_texts("race", races, UCI),
            _of_texts("gender", ["Female", "Male"], UCI),
            _of_texts("age", ages, UCI, ordered=True),
        ]
    )


def _visit_columns(*, diagnosis: bool) -> Schema:
    columns = [
        _of_texts("admission", [*ADMISSIONS.values(), "other or unknown"], UCI),
        Numeric(name="days", dtype="int64", low=1, high=14, resolution=1, source=UCI),
        Numeric(name="inpatient", dtype="int64", low=0, high=5, resolution=1, source=UCI),
        _of_texts("readmitted", ["NO", ">30", "<30"], UCI),
    ]
    if diagnosis:
        columns.insert(3, _of_texts("diagnosis", DIAGNOSES, UCI))
    return Schema(columns)


def _split(
    make: Callable[[pd.DataFrame], dict[str, pd.DataFrame]],
) -> list[dict[str, pd.DataFrame]]:
    """Training tables and hold-out: a random part of the patients each."""
    rows = encounters()
    patients = rows["patient_nbr"].unique()
    kept = rows["patient_nbr"].isin(patients[_drawn(len(patients))])
    return [make(rows[mask].reset_index(drop=True)) for mask in (kept, ~kept)]


def visits() -> LinkedTables:
    """Patients and their visits; at most five visits of a patient are used."""
    train, holdout = _split(patient_tables)
    return LinkedTables(
        "patients and visits, diabetes encounters",
        LinkedSchema(
            {"patients": _patient_columns(), "visits": _visit_columns(diagnosis=True)},
            {
                "patients": TableKeys(key="patient"),
                "visits": TableKeys(
                    parent="patients", parent_key="patient", order="visit", max_children=5
                ),
            },
        ),
        train,
        holdout,
    )


def stays() -> LinkedTables:
    """Patients, their stays, and the diagnoses of a stay."""
    train, holdout = _split(stay_tables)
    return LinkedTables(
        "patients, stays and diagnoses, diabetes encounters",
        LinkedSchema(
            {
                "patients": _patient_columns(),
                "stays": _visit_columns(diagnosis=False),
                "events": Schema([_of_texts("diagnosis", DIAGNOSES, UCI)]),
            },
            {
                "patients": TableKeys(key="patient"),
                "stays": TableKeys(
                    key="stay",
                    parent="patients",
                    parent_key="patient",
                    order="number",
                    max_children=5,
                ),
                "events": TableKeys(
                    parent="stays", parent_key="stay", order="position", max_children=3
                ),
            },
        ),
        train,
        holdout,
    )


TABLES = {"census": census, "visits": visits, "stays": stays}
