"""A made-up table of hospital stays with every kind of column; no person in it is real.

``rows`` draws it, ``schema`` declares what a codebook of the hospital would say, and ``write_messy`` writes it as a
clinic's export: semicolons, Windows-1252 or UTF-16, decimal commas, euro signs and days before months.
"""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tabsynth import (
    Categorical,
    Date,
    Datetime,
    Duration,
    Hierarchical,
    Identifier,
    Numeric,
    Ordinal,
    Period,
    Schema,
    Text,
    Time,
)
from tabsynth.schema import Column

ROWS = 5_000
PATIENTS = 0.8  # for each stay
ZONE = "Europe/Berlin"
FIRST, LAST = "2023-01-01", "2024-12-31"  # of admissions
SOURCE = "codebook of the made-up hospital"
IDENTIFYING = ("mrn", "email", "encounter_id", "patient_name", "note")
# Chapters of ICD-10 with how many of their codes the hospital uses, and their share of the stays.
CHAPTERS = {"A": (80, 3), "C": (150, 9), "E": (120, 8), "F": (90, 7), "G": (90, 5), "I": (200, 20), "J": (130, 9),
            "K": (160, 11), "M": (170, 8), "N": (110, 6), "O": (60, 4), "R": (60, 3), "S": (80, 7)}  # fmt: skip
BUILDINGS = {"Altbau": ("A1", "A2", "A3"), "Neubau": ("N1", "N2", "N3", "N4"), "Villa": ("V1",)}
BEDS = 14  # of a ward
TRIAGE = {"1": "immediate", "2": "very urgent", "3": "urgent", "4": "standard", "5": "non-urgent"}
SMOKING = ("never", "former", "current")
REFUSED, CHILD = "-8", "-9"  # reasons for missing


def codes() -> list[str]:
    """The diagnoses of the codebook, 1,500 codes in their order."""
    listed = []
    for chapter, (count, _) in CHAPTERS.items():
        for i in range(count):
            stem = f"{chapter}{i // 3:02}"
            listed.append(stem if i % 3 == 0 else f"{stem}.{i % 3 * 4 - 3}")
    return listed


def beds() -> dict[str, str]:
    """The ward of each bed."""
    wards = [ward for listed in BUILDINGS.values() for ward in listed]
    return {f"{ward}-{i:02}": ward for ward in wards for i in range(1, BEDS + 1)}


def buildings() -> dict[str, str]:
    """The building of each ward."""
    return {ward: building for building, listed in BUILDINGS.items() for ward in listed}


def rows(number: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """The table in its dtypes; the same for the same seed."""
    rng = np.random.default_rng(seed)
    people = _people(max(1, int(PATIENTS * number)), rng)
    table = people.iloc[rng.integers(0, len(people), number)].reset_index(drop=True)
    table.insert(2, "encounter_id", 400_000_000 + rng.choice(10**8, number, replace=False))

    minutes = (pd.Timestamp(LAST) - pd.Timestamp(FIRST)) // pd.Timedelta("1min")
    admit = pd.Timestamp(FIRST, tz="UTC") + pd.to_timedelta(
        rng.integers(0, minutes, number), unit="min"
    )
    admit = admit.as_unit("ns").tz_convert(ZONE)
    age = _years(table["birth"], admit)
    diagnosis = _diagnoses(number, age, (table["sex"] == "f").to_numpy(), rng)
    chapter = np.array([code[0] for code in diagnosis])
    stay = np.round(rng.gamma(1.2, 60 * 24 * np.where(np.isin(chapter, ["C", "F"]), 6, 3))) + 15
    discharge = admit + pd.to_timedelta(np.minimum(stay, 60 * 24 * 60), unit="min")
    table["admit"] = admit
    table["discharge"] = pd.Series(discharge).mask(rng.random(number) < 0.02)
    first_seen = admit + pd.to_timedelta(rng.integers(0, 45, number), unit="min")
    table["triage"] = pd.Series(first_seen.strftime("%H:%M"), dtype="str")
    table["triage_level"] = rng.choice([1, 2, 3, 4, 5], number, p=[0.02, 0.13, 0.35, 0.4, 0.1])
    operated = rng.random(number) < np.where(np.isin(chapter, ["S", "K", "C", "M"]), 0.6, 0.1)
    length = pd.Series(pd.to_timedelta(5 * np.round(rng.gamma(3, 6, number)) + 10, unit="min"))
    table["surgery"] = length.dt.as_unit("ns").where(operated)
    table["month"] = pd.Series(admit.tz_convert("UTC").tz_localize(None).to_period("M"))
    table["age"] = age
    table["diagnosis"] = pd.Series(diagnosis, dtype="str")
    pregnant = np.where(chapter == "O", "yes", np.where(rng.random(number) < 0.01, "yes", "no"))
    pregnant = np.where((age < 14) | (age > 49), "no", pregnant)
    table["pregnant"] = pd.Series(pregnant, dtype="str").where(table["sex"] == "f", None)

    sbp = np.clip(rng.normal(112 + 0.35 * age, 16, number), 70, 240)
    dbp = np.clip(0.55 * sbp + rng.normal(12, 8, number), 35, 140)
    sbp, dbp = _heaped(sbp, (0.75, 0.15), rng), _heaped(dbp, (0.75, 0.15), rng)
    dbp = np.minimum(dbp, sbp - 5)
    unmeasured = rng.random(number) < 0.06
    table["sbp"] = pd.Series(sbp.astype(int), dtype="Int64").mask(unmeasured)
    table["dbp"] = pd.Series(dbp.astype(int), dtype="Int64").mask(unmeasured)
    weight = np.where(age < 16, 8 + 3.2 * age, rng.normal(78, 15, number)) + rng.normal(
        0, 2, number
    )
    weight = np.clip(np.where(rng.random(number) < 0.93, np.round(weight), weight.round(1)), 3, 220)
    table["weight_kg"] = pd.Series(weight).mask(rng.random(number) < 0.1)
    smoking = rng.choice([*SMOKING, REFUSED], number, p=[0.5, 0.22, 0.2, 0.08])
    table["smoking"] = pd.Series(np.where(age < 12, CHILD, smoking), dtype="str").mask(
        rng.random(number) < 0.03
    )

    table["emergency"] = rng.random(number) < np.where(table["triage_level"] <= 2, 0.95, 0.35)
    table["readmitted"] = (
        pd.Series(rng.random(number) < 0.12).astype("boolean").mask(table["discharge"].isna())
    )
    place = beds()
    popular = np.repeat(np.array([3, 3, 2, 5, 5, 4, 3, 1.0]), BEDS)
    bed = rng.choice(list(place), number, p=popular / popular.sum())
    table["bed"] = pd.Series(bed, dtype="str")
    table["ward"] = table["bed"].map(place).astype("str")
    table["building"] = pd.Series(pd.Categorical(table["ward"].map(buildings()), list(BUILDINGS)))
    care = np.round(420 * stay / 1440 + rng.lognormal(6, 0.8, number), 2)
    drugs = np.where(rng.random(number) < 0.3, 0.0, np.round(rng.lognormal(4, 1.2, number), 2))
    table["cost_care"] = np.clip(care, 0, 60_000)
    table["cost_drugs"] = np.clip(drugs, 0, 20_000)
    table["cost_total"] = (table["cost_care"] + table["cost_drugs"]).round(2)
    table["visits"] = rng.poisson(0.8, number).clip(0, 30)
    table["country"] = pd.Series(
        rng.choice(["DE", "AT", "CH"], number, p=[0.997, 0.002, 0.001]), dtype="str"
    )
    table["hospital"] = pd.Series(["H07"] * number, dtype="str")
    table["trial_arm"] = pd.Series([None] * number, dtype="str")
    text = table["diagnosis"].str[:1] + [f" seit {n} Tagen" for n in rng.integers(1, 400, number)]
    table["note"] = pd.Series(text + ", Nachsorge für " + table["patient_name"], dtype="str")
    return table


def _people(number: int, rng: np.random.Generator) -> pd.DataFrame:
    """Columns of persons, a row for each."""
    female = rng.random(number) < 0.53
    first = np.where(female, rng.choice(["Änne", "Maria", "Aylin", "Zoë"], number),
                     rng.choice(["Jörg", "Paul", "Emre", "André"], number))  # fmt: skip
    last = [
        f"{a}{b}"
        for a, b in zip(
            rng.choice(["Müll", "Schäf", "Gröb", "Weiß", "Lang", "Koch"], number),
            rng.choice(["er", "ner", "mann", "inger", "ow", "s"], number),
            strict=True,
        )
    ]
    years = np.clip(rng.normal(55, 24, number), 0.1, 99)
    days = pd.Timestamp("2022-12-31") - pd.to_timedelta(np.round(365.25 * years), unit="D")
    numbers = rng.choice(10**7, number, replace=False)
    return pd.DataFrame(
        {
            "mrn": pd.Series([f"P{n:08}" for n in numbers + 10**7], dtype="str"),
            "email": pd.Series([f"p{n:07}@post.example" for n in numbers], dtype="str"),
            "patient_name": pd.Series(
                [f"{f} {x}" for f, x in zip(first, last, strict=True)], dtype="str"
            ),
            "birth": pd.Series(days).astype("datetime64[s]"),
            "sex": pd.Series(np.where(female, "f", "m"), dtype="str"),
        }
    )


def _years(birth: pd.Series, admit: pd.DatetimeIndex) -> np.ndarray:
    """Whole years at the day of admission in UTC."""
    day = admit.tz_convert("UTC")
    before = (day.month.to_numpy() < birth.dt.month.to_numpy()) | (
        (day.month.to_numpy() == birth.dt.month.to_numpy())
        & (day.day.to_numpy() < birth.dt.day.to_numpy())
    )
    return (day.year.to_numpy() - birth.dt.year.to_numpy() - before).astype("int64")


def _diagnoses(
    number: int, age: np.ndarray, female: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """A code for each stay: within a chapter the i-th code is about 1 / i as common as the first."""
    listed, shares = codes(), []
    for count, share in CHAPTERS.values():
        weights = 1 / np.arange(1, count + 1)
        shares.append(share * weights / weights.sum())
    chance = np.concatenate(shares)
    young = chance * np.array([0.2 if code[0] in "CI" else 1.0 for code in listed])
    mother = np.array([code[0] == "O" for code in listed])
    out = np.empty(number, dtype=object)
    for group, weights in (
        (age < 45, young),
        (age >= 45, chance),
    ):
        for woman in (True, False):
            who = group & (female == woman)
            fits = np.where(mother & (not woman), 0.0, weights)
            out[who] = rng.choice(np.array(listed), who.sum(), p=fits / fits.sum())
    late = (np.array([code[0] for code in out]) == "O") & ((age < 14) | (age > 49))
    out[late] = "R00"
    return out.astype(str)


def _heaped(
    values: np.ndarray, shares: tuple[float, float], rng: np.random.Generator
) -> np.ndarray:
    """Values of which parts were read as multiples of 10 and of 5."""
    draw = rng.random(len(values))
    tens, fives = 10 * np.round(values / 10), 5 * np.round(values / 5)
    return np.where(draw < shares[0], tens, np.where(draw < sum(shares), fives, np.round(values)))


def schema() -> Schema:
    """What the codebook of the hospital says, with its rules."""
    mothers = [code for code in codes() if code[0] == "O"]
    wards = tuple(buildings())
    columns: list[Column] = [
        Identifier(name="mrn", dtype="str", pattern="Q{8 digits}"),
        Identifier(name="email", dtype="str"),
        Identifier(name="encounter_id", dtype="int64", pattern="9{8 digits}"),
        Identifier(name="patient_name", dtype="str"),
        Date(name="birth", dtype="datetime64[s]", low="1920-01-01", high="2022-12-31", bins=103),
        _listed("sex", ("f", "m"), labels={"f": "female", "m": "male"}),
        Datetime(
            name="admit",
            dtype=f"datetime64[ns, {ZONE}]",
            low=f"{FIRST} 00:00",
            high=f"{LAST} 23:59",
            resolution="1min",
            bins=104,
            description="When the patient was admitted",
        ),
        Datetime(
            name="discharge",
            dtype=f"datetime64[ns, {ZONE}]",
            nulls=True,
            low=f"{FIRST} 00:00",
            high="2025-03-31 23:59",
            resolution="1min",
            description="When the patient left; missing while the stay lasts",
        ),
        Time(name="triage", dtype="str", bins=48),
        Ordinal(
            name="triage_level",
            dtype="int64",
            categories=(1, 2, 3, 4, 5),
            labels=TRIAGE,
            description="Manchester triage: how urgent the nurse judged the case at the door",
        ),
        Duration(
            name="surgery",
            dtype="timedelta64[ns]",
            nulls=True,
            low="0min",
            high="12h",
            resolution="5min",
            breaks=("30min", "60min", "90min", "120min", "180min", "240min", "6h"),
            description="Length of the operation; missing where there was none",
        ),
        Period(name="month", dtype="period[M]", low="2023-01", high="2024-12"),
        Numeric(name="age", dtype="int64", low=0, high=105, bins=53),
        Hierarchical(
            name="diagnosis",
            dtype="str",
            codes=tuple(codes()),
            levels=(1, 3),
            description="Main diagnosis, ICD-10",
        ),
        _listed("pregnant", ("no", "yes"), nulls=True),
        *(
            Numeric(
                name=name,
                dtype="Int64",
                nulls=True,
                low=low,
                high=high,
                bins=(high - low) // 5,
                clip=True,
                heaping=(10, 5),
                description=f"{what} blood pressure in mmHg",
            )
            for name, what, low, high in (
                ("sbp", "Systolic", 60, 260),
                ("dbp", "Diastolic", 30, 160),
            )
        ),
        Numeric(
            name="weight_kg",
            dtype="float64",
            nulls=True,
            low=0,
            high=250,
            resolution=0.1,
            bins=50,
            clip=True,
            heaping=(1,),
        ),
        _listed("smoking", SMOKING, nulls=True, missing={REFUSED: "refused", CHILD: "a child"}),
        _listed("emergency", (False, True), dtype="bool"),
        _listed("readmitted", (False, True), dtype="boolean", nulls=True),
        _listed("bed", tuple(beds())),
        _listed("ward", wards),
        _listed("building", tuple(BUILDINGS), dtype="category"),
        *(
            Numeric(
                name=name,
                dtype="float64",
                low=0,
                high=high,
                resolution=0.01,
                clip=True,
                breaks=(0.01, *(b for b in STEPS if b < high)),
                description=f"{what}, in euros",
            )
            for name, what, high in (
                ("cost_care", "Cost of care", 60_000),
                ("cost_drugs", "Cost of drugs", 20_000),
                ("cost_total", "Both costs", 80_000),
            )
        ),
        Numeric(name="visits", dtype="int64", low=0, high=30, clip=True),
        _listed("country", ("DE", "AT", "CH", "other"), other="other"),
        _listed("hospital", ("H07",)),
        _listed("trial_arm", ("A", "B"), nulls=True),
        Text(name="note", dtype="str"),
    ]
    days = "floor(admit / 1440)"
    constraints: list[dict[str, Any]] = [
        {"order": ["admit", "discharge"], "difference": {"high": 86_400, "clip": True, "breaks": DURATIONS}},
        {"derive": "age", "expression": f"years(birth, {days})"},
        {"derive": "month", "expression": f"12 * (year({days}) - 1970) + month({days}) - 1"},
        {"order": ["dbp", "sbp"], "strict": True},
        {"derive": "ward", "from": "bed", "table": beds()},
        {"derive": "building", "from": "ward", "table": buildings()},
        {"derive": "cost_total", "expression": "cost_care + cost_drugs"},
        {"if": {"sex": ["m"]}, "then": {"pregnant": [None]}},
        {"if": {"diagnosis": mothers}, "then": {"pregnant": ["yes"]}},
    ]  # fmt: skip
    return Schema([replace(column, source=SOURCE) for column in columns], constraints=constraints)


STEPS = (5, 10, 20, 50, 100, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 20_000)  # fmt: skip
DURATIONS = (60, 240, 720, *(1440 * n for n in (1, 2, 3, 4, 5, 6, 7, 10, 14, 21, 30)))


def _listed(name: str, categories: tuple[Any, ...], dtype: str = "str", **facts: Any) -> Column:
    return Categorical(name=name, dtype=dtype, categories=categories, **facts)


def write_messy(table: pd.DataFrame, path: Path, encoding: str = "cp1252") -> None:
    """Write the table as a clinic's export: ``;``, decimal commas, euro signs, days first, "?" for missing."""
    written = pd.DataFrame({name: _messy(table[name]) for name in table})
    written.to_csv(path, sep=";", index=False, encoding=encoding, quoting=csv.QUOTE_MINIMAL)


def _messy(values: pd.Series) -> pd.Series:
    """The cells of a column as texts of the export."""

    def text(value: Any) -> str:
        if isinstance(value, bool | np.bool_):
            return "true" if value else "false"
        if isinstance(value, pd.Timedelta):
            return str(value)
        if values.name in ("admit", "discharge"):
            return str(value.tz_localize(None))[:16]
        if isinstance(value, pd.Timestamp):
            return f"{value:%d.%m.%Y}"
        if str(values.name).startswith("cost_"):
            return f"{value:,.2f} €".translate(str.maketrans(",.", ".,"))
        if isinstance(value, float):
            return f"{value:g}".replace(".", ",")
        return str(value)

    return values.astype(object).map(lambda value: "?" if pd.isna(value) else text(value))
