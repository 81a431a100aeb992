"""A made-up OMOP database for tests: seven tables of the CDM 5.4 and a vocabulary, as data frames or as a folder.

    python tests/omop_database.py FOLDER [PERSONS] [SEED]

It is made from public figures alone, rounded. Nobody is in it.

- Shares of chronic conditions among adults: Ward, Schiller 2013, "Prevalence of multiple chronic conditions among US
  adults" (National Health Interview Survey, doi:10.5888/pcd10.120203); Boersma, Black, Ward 2020 (doi:10.5888/pcd17.200130).
- Readmission in 30 days by diagnosis: Elixhauser, Steiner 2013, HCUP Statistical Brief 153.
- Mortality by age, which doubles every eight years of age from 30 on: Arias, Xu 2022, "United States Life Tables, 2019".

Codes of conditions are the categories of ICD-10 in the package's catalogue; their concept ids, and those of drugs, procedures
and measurements, are local ones, above 2,000,000,000 as the CDM asks. What follows what is built in: obesity and hypertension
come before diabetes and kidney disease, smoking before COPD, coronary disease before heart failure. Readmission and death
depend on age and on these diagnoses.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from tabsynth.drafting.catalogue import catalogue

LOCAL = 2_000_000_000
CODES = {"condition": 0, "drug": 10_000_000, "procedure": 20_000_000, "measurement": 30_000_000}
FEMALE, MALE = 8532, 8507
RACES = {8527: 0.72, 8516: 0.13, 8515: 0.06, 0: 0.09}
HISPANIC, NOT_HISPANIC = 38003563, 38003564
INPATIENT, OUTPATIENT, EMERGENCY = 9201, 9202, 9203
RECORD = 32817  # the type of all records: EHR
PRIMARY, SECONDARY = 32902, 32908
UNITS = {8876: "mmHg", 8840: "mg/dL", 8554: "%", 9529: "kg"}
FIRST, DAYS = np.datetime64("2019-01-01"), 1_461
# Chronic conditions: the share of adults of 50, the logarithm of the odds for ten years of age, and what comes before.
CHRONIC = {
    "E66": (0.30, 0.05, ()), "F17": (0.14, -0.10, ()), "I10": (0.30, 0.60, ("E66",)), "E78": (0.25, 0.50, ("I10",)),
    "E11": (0.09, 0.40, ("E66", "I10")), "N18": (0.03, 0.60, ("I10", "E11")), "I25": (0.04, 0.70, ("E78", "I10")),
    "I48": (0.012, 0.85, ("I10",)), "I50": (0.012, 0.75, ("I25", "N18")), "I63": (0.018, 0.65, ("I48", "I10")),
    "J44": (0.035, 0.50, ("F17",)), "J45": (0.08, -0.05, ()), "M19": (0.20, 0.60, ("E66",)), "F32": (0.09, -0.05, ()),
    "F41": (0.11, -0.10, ("F32",)), "K21": (0.12, 0.20, ("E66",)), "E03": (0.05, 0.30, ()), "C50": (0.015, 0.45, ()),
    "C34": (0.004, 0.70, ("J44",)), "F03": (0.002, 1.30, ("I63",)), "D64": (0.03, 0.40, ("N18",)), "G47": (0.08, 0.15, ("E66",)),
    "M81": (0.03, 0.70, ()), "H25": (0.05, 0.90, ()),
}  # fmt: skip
ACUTE = {
    "Z00": 12.0, "J06": 8.0, "M54": 6.0, "N39": 4.0, "I20": 3.0, "K58": 3.0, "J20": 3.0, "L30": 2.5, "M25": 4.0, "J40": 2.5,
    "H10": 1.5, "H66": 1.5, "J02": 2.5, "J01": 2.5, "B34": 2.0, "K52": 2.0, "S93": 1.5, "G44": 2.0, "H81": 1.5, "Z23": 5.0,
}  # fmt: skip
SEVERE = {
    "J18": 4.0, "A41": 4.0, "N17": 3.0, "I21": 2.0, "K92": 2.0, "S72": 1.5, "K35": 1.0, "I26": 1.0
}  # fmt: skip
READMITTED = {"I50": 0.8, "J44": 0.6, "N18": 0.6, "C34": 1.1, "C50": 0.3, "E11": 0.3}
HAZARD = {
    "I50": 0.9,
    "J44": 0.6,
    "N18": 0.6,
    "C34": 1.8,
    "C50": 0.5,
    "F03": 0.9,
    "I25": 0.3,
    "I63": 0.5,
}
# Local drugs and procedures: of a condition, or of none.
DRUGS = [*CHRONIC, *ACUTE, *SEVERE, *(f"drug {n}" for n in range(40))]
PROCEDURES = [*SEVERE, *list(CHRONIC)[:16], *(f"procedure {n}" for n in range(40))]
# Measurements: unit, mean, standard deviation, and what a condition adds.
MEASURED = {
    "systolic pressure": (8876, 122, 12, {"I10": 18}), "HbA1c": (8554, 5.4, 0.4, {"E11": 1.8}),
    "creatinine": (8840, 0.9, 0.2, {"N18": 1.1, "N17": 1.5}), "weight": (9529, 74, 12, {"E66": 28}),
    "cholesterol": (8840, 185, 30, {"E78": 40}), "glucose": (8840, 96, 10, {"E11": 60}),
    "haemoglobin": (8840, 14, 1.2, {"D64": -3}), "diastolic pressure": (8876, 76, 8, {"I10": 8}),
}  # fmt: skip


def chance(log_odds):
    """Return the probability of log-odds."""
    return 1 / (1 + np.exp(-log_odds))


def concept(kind, code):
    """Return the local concept id of a code."""
    listed = {"condition": _conditions(), "drug": DRUGS, "procedure": PROCEDURES}
    return LOCAL + CODES[kind] + [*listed.get(kind, MEASURED)].index(code)


def _conditions():
    return catalogue().codes_of("ICD-10")


def vocabulary():
    """Return the tables CONCEPT and CONCEPT_ANCESTOR: standard concepts, and ICD-10's letters above its categories."""
    rows = [
        (FEMALE, "FEMALE", "Gender"), (MALE, "MALE", "Gender"), (8527, "White", "Race"), (8516, "Black", "Race"),
        (8515, "Asian", "Race"), (HISPANIC, "Hispanic or Latino", "Ethnicity"),
        (NOT_HISPANIC, "Not Hispanic or Latino", "Ethnicity"), (INPATIENT, "Inpatient Visit", "Visit"),
        (OUTPATIENT, "Outpatient Visit", "Visit"), (EMERGENCY, "Emergency Room Visit", "Visit"),
        (RECORD, "EHR", "Type Concept"), (PRIMARY, "Primary diagnosis", "Condition Status"),
        (SECONDARY, "Secondary diagnosis", "Condition Status"), *((u, name, "Unit") for u, name in UNITS.items()),
    ]  # fmt: skip
    rows = [(*row, "OMOP", "S", str(row[0])) for row in rows]
    letters = sorted({code[0] for code in _conditions()})
    top = {letter: LOCAL + 900_000 + n for n, letter in enumerate(letters)}
    rows += [(top[x], f"ICD-10 {x}", "Condition", "Local", "C", x) for x in letters]
    ancestors = []
    for n, code in enumerate(_conditions()):
        rows.append((LOCAL + n, f"ICD-10 {code}", "Condition", "Local", "S", code))
        ancestors += [(top[code[0]], LOCAL + n, 1, 1), (LOCAL + n, LOCAL + n, 0, 0)]
    for kind, codes in (("drug", DRUGS), ("procedure", PROCEDURES), ("measurement", MEASURED)):
        for n, code in enumerate(codes):
            text = f"for {code}" if code in _conditions() else code
            rows.append(
                (LOCAL + CODES[kind] + n, text, kind.capitalize(), "Local", "S", f"{kind[0]}{n}")
            )
    names = ["concept_id", "concept_name", "domain_id", "vocabulary_id", "standard_concept", "concept_code"]  # fmt: skip
    concepts = pd.DataFrame(rows, columns=names)
    concepts.insert(4, "concept_class_id", "Test")
    concepts["valid_start_date"], concepts["valid_end_date"] = "1970-01-01", "2099-12-31"
    concepts["invalid_reason"] = None
    separation = ["min_levels_of_separation", "max_levels_of_separation"]
    names = ["ancestor_concept_id", "descendant_concept_id", *separation]
    return {"CONCEPT": concepts, "CONCEPT_ANCESTOR": pd.DataFrame(ancestors, columns=names)}


class _Person:
    """The course of one person: conditions, visits with their records, and death."""

    def __init__(self, rng, weights):
        self.rng, self.weights = rng, weights
        self.age = float(
            np.clip(rng.choice([rng.uniform(0, 20), rng.normal(45, 17), rng.normal(70, 9)],
                               p=[0.2, 0.5, 0.3]), 0, 98)
        )  # fmt: skip
        self.female = rng.random() < 0.51
        self.frailty = rng.normal()
        self.known, self.pending = [], []
        if self.age >= 18:
            for code in CHRONIC:
                if rng.random() < self.odds(code):
                    self.pending.append(code)

    def odds(self, code, more=0.0):
        """Return the probability of a chronic condition, given those before it."""
        share, by_age, causes = CHRONIC[code]
        has = sum(cause in self.known or cause in self.pending for cause in causes)
        at = np.log(share / (1 - share)) + by_age * (self.age - 50) / 10 + 0.4 * self.frailty
        return chance(at + (0.9 * has - 0.4 if causes else 0.0) + more)

    def risk(self, factors):
        """Return the sum of the factors of known conditions."""
        return sum(factors.get(code, 0.0) for code in self.known)

    def pick(self, codes):
        """Return one of the codes by their weights."""
        names, weights = zip(*codes.items(), strict=True)
        return names[self.rng.choice(len(names), p=np.array(weights) / sum(weights))]

    def visits(self):
        """Yield visits: kind, first and last day, conditions; at the end the day of death or None."""
        rng, day, last, readmitted = self.rng, int(self.rng.exponential(180)), None, False
        while True:
            if last is not None and (died := self.death(last, day)) is not None:
                return died
            if day >= DAYS:
                return self.death(last or 0, DAYS)
            self.learn()
            sick = self.risk(READMITTED)
            stay = -3.4 + 0.022 * (self.age - 50) + 0.7 * sick + 0.3 * self.frailty
            kind = INPATIENT if readmitted or rng.random() < chance(stay) else OUTPATIENT
            if kind == OUTPATIENT and rng.random() < 0.12:
                kind = EMERGENCY
            length = int(rng.geometric(0.2)) if kind == INPATIENT else 0
            last, self.after_stay = min(day + length, DAYS - 1), kind == INPATIENT
            yield kind, day, last, self.conditions(kind)
            rate = 0.9 + self.age / 45 + 0.35 * len(self.known) + 0.2 * self.frailty
            gap = int(rng.exponential(365 / max(rate, 0.4))) + 1
            again = -2.6 + 0.02 * (self.age - 60) + sick
            readmitted = kind == INPATIENT and rng.random() < chance(again)
            day = last + (int(rng.exponential(11)) + 1 if readmitted else gap)

    def learn(self):
        """Let pending conditions be diagnosed, those that come before others first, and new ones follow."""
        order = [c for c in CHRONIC if c in self.pending]
        for code in order[: 1 + int(self.rng.random() < 0.4)]:
            if self.rng.random() < 0.6:
                self.known.append(code)
                self.pending.remove(code)
        for code in CHRONIC:
            known = code in self.known or code in self.pending
            if not known and self.age >= 18 and self.rng.random() < 0.03 * self.odds(code):
                self.pending.append(code)

    def conditions(self, kind):
        """Return the conditions of a visit, the first its reason."""
        rng = self.rng
        share = 0.75 if kind == INPATIENT else 0.3
        chronic = [c for c in self.known if rng.random() < share]
        if chronic and rng.random() < (0.35 if kind == INPATIENT else 0.6):
            return chronic[::-1][:8]
        reason = self.pick(SEVERE if kind == INPATIENT else ACUTE)
        if rng.random() < 0.3:
            reason = self.weights[0][rng.choice(len(self.weights[0]), p=self.weights[1])]
        return list(dict.fromkeys([reason, *chronic[::-1]]))[:8]

    def death(self, start, end):
        """Return the day of death between two days, or None."""
        hazard = 0.0008 * 2 ** ((self.age - 30) / 8) * np.exp(0.8 * self.risk(HAZARD) - 0.3)
        hazard *= 3.0 if getattr(self, "after_stay", False) else 0.7
        day = start + int(self.rng.exponential(365 / hazard))
        return day if day < end else None


def database(persons=1_000, seed=0):
    """Return the seven tables by name, with the columns that hospitals have and identifiers among them."""
    rng = np.random.default_rng(seed)
    rare = [c for c in _conditions() if c not in CHRONIC | ACUTE | SEVERE]
    order = np.random.default_rng(1).permutation(len(rare))
    weights = [rare[i] for i in order], (w := 1 / (np.arange(len(rare)) + 5.0)) / w.sum()
    rows = {name: [] for name in ("person", "visit", "condition", "drug", "procedure", "measurement", "death")}  # fmt: skip
    ids = {f"{kind} {c}": concept(kind, c) for kind, codes in
           (("drug", DRUGS), ("procedure", PROCEDURES), ("measurement", MEASURED)) for c in codes}  # fmt: skip
    ids |= {f"condition {c}": LOCAL + n for n, c in enumerate(_conditions())}
    for person in range(1, persons + 1):
        each = _Person(rng, weights)
        number = 10_000 + person
        hispanic = HISPANIC if rng.random() < 0.18 else NOT_HISPANIC
        race = rng.choice(list(RACES), p=list(RACES.values()))
        sex = FEMALE if each.female else MALE
        rows["person"].append((number, sex, 2019 - int(each.age) - 1, race, hispanic))
        course = each.visits()
        while True:
            try:
                kind, first, last, conditions = next(course)
            except StopIteration as end:
                if end.value is not None:
                    rows["death"].append((number, end.value))
                break
            visit = len(rows["visit"]) + 500_000
            rows["visit"].append((visit, number, kind, first, last))
            spans = range(last - first + 1)

            def within(spans=spans, first=first):
                return first + (int(rng.integers(len(spans))) if rng.random() < 0.4 else 0)

            for n, code in enumerate(conditions):
                status = SECONDARY if n else PRIMARY
                day = first if n == 0 else within()
                rows["condition"].append((number, visit, ids[f"condition {code}"], day, status))
                if f"drug {code}" in ids and rng.random() < 0.7:
                    rows["drug"].append((number, visit, ids[f"drug {code}"], within(), int(rng.choice([7, 30, 90]))))  # fmt: skip
                if f"procedure {code}" in ids and rng.random() < 0.25:
                    rows["procedure"].append((number, visit, ids[f"procedure {code}"], within()))
            for _ in range(rng.poisson(1.2 if kind == INPATIENT else 0.15)):
                code = f"procedure procedure {rng.integers(40)}"
                rows["procedure"].append((number, visit, ids[code], within()))
                if rng.random() < 0.5:
                    code = f"drug drug {rng.integers(40)}"
                    rows["drug"].append((number, visit, ids[code], within(), 7))
            for name, (unit, mean, sd, adds) in MEASURED.items():
                if rng.random() < (0.6 if kind == INPATIENT else 0.2):
                    more = sum(adds.get(c, 0) for c in {*each.known, *conditions})
                    value = round(float(rng.normal(mean + more, sd)), 1)
                    rows["measurement"].append(
                        (number, visit, ids[f"measurement {name}"], within(), value, unit)
                    )
    return _tables(rows)


def _tables(rows):
    names = {
        "person": ["person_id", "gender_concept_id", "year_of_birth", "race_concept_id", "ethnicity_concept_id"],
        "visit": ["visit_occurrence_id", "person_id", "visit_concept_id", "visit_start_date", "visit_end_date"],
        "condition": ["person_id", "visit_occurrence_id", "condition_concept_id", "condition_start_date",
                      "condition_status_concept_id"],
        "drug": ["person_id", "visit_occurrence_id", "drug_concept_id", "drug_exposure_start_date", "days_supply"],
        "procedure": ["person_id", "visit_occurrence_id", "procedure_concept_id", "procedure_date"],
        "measurement": ["person_id", "visit_occurrence_id", "measurement_concept_id", "measurement_date",
                        "value_as_number", "unit_concept_id"],
        "death": ["person_id", "death_date"],
    }  # fmt: skip
    out = {name: pd.DataFrame(rows[name], columns=columns) for name, columns in names.items()}
    for table in out.values():
        for column in table.columns:
            if column.endswith("_date"):
                table[column] = (FIRST + table[column].to_numpy(dtype="timedelta64[D]")).astype("datetime64[D]").astype(str)  # fmt: skip
    out["person"]["person_source_value"] = [f"MRN{n:07d}" for n in out["person"]["person_id"]]
    drug = out["drug"]
    drug["drug_exposure_end_date"] = drug["drug_exposure_start_date"]
    drug["sig"] = "take as told"
    for name, table in out.items():
        if name not in ("person", "death"):
            table[f"{'drug' if name == 'drug' else name}_type_concept_id"] = RECORD
        if name not in ("person", "visit", "death"):
            key = {"drug": "drug_exposure_id", "measurement": "measurement_id"}
            table.insert(0, key.get(name, f"{name}_occurrence_id"), np.arange(1, len(table) + 1))
    full = {"visit": "visit_occurrence", "condition": "condition_occurrence", "drug": "drug_exposure",
            "procedure": "procedure_occurrence"}  # fmt: skip
    return {full.get(name, name): table for name, table in out.items()}


def write(folder, persons=1_000, seed=0, *, with_vocabulary=True):
    """Write the database, and by default its vocabulary, as a folder of CSV files; return the tables."""
    tables = database(persons, seed)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, table in (tables | (vocabulary() if with_vocabulary else {})).items():
        tabs = name.isupper()  # as Athena writes them
        table.to_csv(Path(folder) / f"{name}.csv", index=False, sep="\t" if tabs else ",")
    return tables


if __name__ == "__main__":
    folder, *numbers = sys.argv[1:]
    for name, table in write(folder, *map(int, numbers)).items():
        print(f"{name}: {len(table):,} rows")
