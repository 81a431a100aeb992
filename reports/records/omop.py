"""An OMOP database of 10,000 made-up persons through ``tabsynth fit --omop`` and ``sample``, at ε = 3.

``python reports/records/omop.py`` is run by the harness. The database is that of ``tests/omop_database.py``, with a hold-out
of as many other persons. Each seed fits in a process of its own; the model and the tables are in build/records.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from harness import Row, Rows, Study, fill, mean_sd, releases, table
from omop_database import INPATIENT, database, vocabulary, write

from tabsynth import Categorical, MargNet, Schema

HERE = Path(__file__).resolve()
BUILD = HERE.parents[2] / "build" / "records"
PERSONS, EPSILON, HOLDOUT = 10_000, 3.0, 77
TOP, FIRST_CODES, FIRSTS = 100, 20, 3
CLASSES = [-1, 0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 30, 45, 70, 110, np.inf]
DATES = {
    "condition_occurrence": "condition_start_date", "drug_exposure": "drug_exposure_start_date",
    "procedure_occurrence": "procedure_date", "measurement": "measurement_date",
}  # fmt: skip
Tables = dict[str, pd.DataFrame]


def tvd(one: pd.Series, other: pd.Series) -> float:
    """Return the total variation distance of two distributions."""
    shares = one.value_counts(normalize=True), other.value_counts(normalize=True)
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def per_person(tables: Tables, name: str) -> pd.Series:
    """Return how many records of a table each person has, in classes."""
    number = tables[name].groupby("person_id").size()
    return pd.cut(number.reindex(tables["person"]["person_id"], fill_value=0), CLASSES).astype(str)


def prevalence(tables: Tables) -> pd.Series:
    """Return the share of persons with each condition, the most common first."""
    of = tables["condition_occurrence"].groupby("condition_concept_id")["person_id"].nunique()
    return of.sort_values(ascending=False) / len(tables["person"])


def first_diagnoses(tables: Tables, codes: list[int]) -> pd.DataFrame:
    """Return the first three different conditions of each person: -1 for other codes, -2 for none."""
    of = tables["condition_occurrence"].sort_values(
        ["person_id", "condition_start_date", "condition_occurrence_id"], kind="stable"
    )
    of = of.drop_duplicates(["person_id", "condition_concept_id"])
    code = of["condition_concept_id"].where(of["condition_concept_id"].isin(codes), -1)
    of = of.assign(code=code, n=of.groupby("person_id").cumcount())
    wide = of[of["n"] < FIRSTS].pivot(index="person_id", columns="n", values="code")
    wide = wide.reindex(index=tables["person"]["person_id"], columns=range(FIRSTS))
    return wide.fillna(-2).astype(int).rename(columns=str).reset_index(drop=True)


def order_error(one: pd.DataFrame, other: pd.DataFrame) -> float:
    """Return the mean distance of pairs of one diagnosis and the next."""
    pairs = [(str(n), str(n + 1)) for n in range(FIRSTS - 1)]
    texts = [[t[a].astype(str) + " " + t[b].astype(str) for a, b in pairs] for t in (one, other)]
    return float(np.mean([tvd(a, b) for a, b in zip(*texts, strict=True)]))


def after_first_stay(tables: Tables, codes: list[int]) -> tuple[pd.DataFrame, dict[str, pd.Series]]:
    """Return what is known at the end of the first inpatient stay, and what came within a year."""
    visits = tables["visit_occurrence"].assign(
        start=lambda t: pd.to_datetime(t["visit_start_date"]),
        end=lambda t: pd.to_datetime(t["visit_end_date"]),
    )
    stays = visits[visits["visit_concept_id"] == INPATIENT].sort_values(["person_id", "start"])
    first = stays.drop_duplicates("person_id").set_index("person_id")
    person = tables["person"].set_index("person_id").loc[first.index]
    known = pd.DataFrame({"age": first["start"].dt.year - person["year_of_birth"]})
    known["stay"] = (first["end"] - first["start"]).dt.days
    known["female"] = (person["gender_concept_id"] == 8532).astype(int)
    of = tables["condition_occurrence"]
    of = of.assign(
        day=pd.to_datetime(of["condition_start_date"]), until=of["person_id"].map(first["end"])
    )
    of = of[of["day"] <= of["until"]]
    for code in codes:
        known[str(code)] = known.index.isin(of["person_id"][of["condition_concept_id"] == code]) * 1
    later = stays[stays["start"] > stays["person_id"].map(first["end"])]
    days = (later["start"] - later["person_id"].map(first["end"])).dt.days
    death = tables["death"].set_index("person_id")["death_date"].reindex(first.index)
    died = (pd.to_datetime(death) - first["end"]).dt.days <= 365
    readmitted = known.index.isin(later["person_id"][days <= 365])
    return known, {"readmission": pd.Series(readmitted, known.index), "mortality": died}


def auroc(train: tuple[Any, Any], test: tuple[Any, Any], outcome: str) -> float:
    """Return the AUROC on real persons of a logistic regression."""
    if train[1][outcome].nunique() < 2:
        return 0.5
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    model.fit(train[0], train[1][outcome])
    return float(roc_auc_score(test[1][outcome], model.predict_proba(test[0])[:, 1]))


def disorder(tables: Tables) -> dict[str, int]:
    """Return the numbers of rows that are not as the CDM says."""
    person, visit = (tables[n].set_index(f"{n}_id") for n in ("person", "visit_occurrence"))
    orphans = int((~visit["person_id"].isin(person.index)).sum())
    wrong = int((visit["visit_end_date"] < visit["visit_start_date"]).sum())
    born = visit["person_id"].map(person["year_of_birth"])
    wrong += int((visit["visit_start_date"].str[:4].astype(int) < born).sum())
    for name, column in DATES.items():
        of = tables[name]["visit_occurrence_id"]
        orphans += int((~of.isin(visit.index)).sum())
        day = tables[name][column]
        inside = (day >= of.map(visit["visit_start_date"])) & (
            day <= of.map(visit["visit_end_date"])
        )
        wrong += int((~inside).sum())
    last = tables["death"]["person_id"].map(visit.groupby("person_id")["visit_end_date"].max())
    wrong += int((tables["death"]["death_date"] < last).sum())
    concepts = vocabulary()["CONCEPT"]
    valid = {0, *concepts["concept_id"][concepts["standard_concept"] == "S"]}
    columns = [t[c] for t in tables.values() for c in t.filter(like="concept_id")]
    return {
        "orphans": orphans,
        "disorder": wrong,
        "invalid": int(sum((~c.isin(valid)).sum() for c in columns)),
    }


def alone(firsts: pd.DataFrame, codes: list[int], seed: int) -> pd.DataFrame:
    """Return first diagnoses of a private fit of their table alone, at the same ε."""
    values = (-2, -1, *sorted(codes))
    columns = [Categorical(name=c, dtype="int64", categories=values) for c in firsts]
    fit = MargNet(Schema(columns), epsilon=EPSILON, random_state=seed).fit(firsts)
    return fit.sample(len(firsts), random_state=seed)


def measure(seed: int) -> Row:
    """Fit the database by the command line, and measure the synthetic tables."""
    folder = BUILD / f"{PERSONS}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    real = write(folder / "omop", PERSONS, seed)
    out, started = folder / "model", time.monotonic()
    words = ["fit", "omop", "--omop", "--epsilon", str(EPSILON), "--seed", str(seed), "-o", "model"]
    command = [sys.executable, "-m", "tabsynth"]
    if not out.exists():
        subprocess.run([*command, *words], cwd=folder, check=True, capture_output=True)
    minutes = (time.monotonic() - started) / 60
    words = ["sample", "model", "-o", "made", "-n", str(PERSONS), "--seed", str(seed)]
    if not (folder / "made").exists():
        subprocess.run([*command, *words], cwd=folder, check=True, capture_output=True)
    made = {name: pd.read_csv(folder / "made" / f"{name}.csv") for name in real}
    holdout = database(PERSONS, HOLDOUT)
    shares = prevalence(real)
    codes = [int(code) for code in shares.index[:FIRST_CODES]]
    apart = (prevalence(made).reindex(shares.index[:TOP], fill_value=0) - shares[:TOP]).abs()
    firsts = first_diagnoses(real, codes)
    test, train, own = (after_first_stay(t, codes) for t in (holdout, real, made))
    return {
        "minutes": minutes,
        **disorder(made),
        "prevalence_max": float(apart.max()),
        "prevalence_mean": float(apart.mean()),
        "within": int((apart <= 0.01).sum()),
        "records": {n: tvd(per_person(real, n), per_person(made, n)) for n in real if n != "person"},
        "records_holdout": {n: tvd(per_person(real, n), per_person(holdout, n)) for n in real if n != "person"},
        "order": order_error(firsts, first_diagnoses(made, codes)),
        "order_alone": order_error(firsts, alone(firsts, codes, seed)),
        "auroc": {n: [auroc(train, test, n), auroc(own, test, n)] for n in test[1]},
    }  # fmt: skip


def page(rows: Rows) -> str:
    """Return the page of all rows."""
    of = [*rows.values()]

    def figure(key: str, digits: int = 3) -> str:
        return mean_sd([row[key] for row in of], digits)

    kept = {n: [(r["auroc"][n][1] - 0.5) / (r["auroc"][n][0] - 0.5) for r in of] for n in of[0]["auroc"]}  # fmt: skip
    facts = [
        ("Rows without their person or visit", "0", f"{sum(r['orphans'] for r in of)}"),
        ("Dates out of order", "0", f"{sum(r['disorder'] for r in of)}"),
        ("Concepts that are not in the vocabulary", "0", f"{sum(r['invalid'] for r in of)}"),
        ("Top-100 prevalences: largest error", "0.01", figure("prevalence_max")),
        ("Top-100 prevalences: mean error", "0.01", figure("prevalence_mean")),
        ("Top-100 prevalences within 0.01", "100", figure("within", 0)),
        *((f"Records per person, {n} (tvd)", "0.03", mean_sd([r["records"][n] for r in of])) for n in of[0]["records"]),
        ("Order of first diagnoses (tvd of pairs)", f"1.5 × {figure('order_alone')}", figure("order")),
        *((f"AUROC of {n} in a year, share of real AUROC − 0.5", "0.9", mean_sd(kept[n], 2)) for n in kept),
        ("Minutes of the fit", "10", figure("minutes", 1)),
    ]  # fmt: skip
    between = mean_sd([max(r["records_holdout"].values()) for r in of])
    parts = {"mean": figure("prevalence_mean"), "largest": figure("prevalence_max"), "release": releases(of)}  # fmt: skip
    parts |= {"seeds": str(len(of)), "between": between, "figures": table(("figure", "aim", "measured"), facts)}  # fmt: skip
    return fill(HERE.with_name("omop.template.md"), parts)


STUDY = Study(
    script=HERE,
    settings={f"{PERSONS} persons, seed {seed}": seed for seed in (1, 2, 3)},
    measure=measure,
    page=page,
)

if __name__ == "__main__":
    STUDY.main()
