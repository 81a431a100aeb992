"""Small certified tables, made without a fit, for the tests of dossiers."""

import math

import numpy as np
import pandas as pd
import yaml

from tabsynth import (
    Categorical,
    Date,
    Identifier,
    LinkedSchema,
    Numeric,
    Ordinal,
    Schema,
    write_table,
)
from tabsynth.evaluation.charged import DISTANCE
from tabsynth.evaluation.metric import Metric
from tabsynth.evaluation.publishing import PrivateEvaluation
from tabsynth.evaluation.results import Estimate
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy, SubsampledGaussian
from tabsynth.privacy.certificate.certificate import (
    EXACT,
    code,
    make_certificate,
    read_certificate,
    versions,
    write_beside,
)
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.report import Report

SCHEMA = Schema(
    [
        Categorical(name="sex", dtype="str", categories=("f", "m"), labels={"f": "female"}),
        Numeric(name="age", dtype="int64", low=0, high=99, source="codebook", description="Years."),
        Ordinal(name="job level", dtype="Int64", nulls=True, categories=(1, 2, 3)),
        Numeric(name="income", dtype="float64", low=0, high=9, resolution=0.5, nulls=True),
        Date(name="seen", dtype="str", low="2019-01-01", high="2020-12-31"),
        Numeric(name="score", dtype="int64", low=0, high=9, missing={"-8": "refused"}),
        Categorical(name="odd", dtype="str", categories=("a|b", "(c)", "d.*", "é & <x>")),
        Categorical(name="flag", dtype="bool", categories=(True, False)),
        Identifier(name="mrn", dtype="str", pattern="M-{6 digits}"),
    ],
    null_values=("NA",),
)
ANSWERS = {
    "name": "Example: table & figures",
    "description": "Made-up persons.",
    "curators": ["Office A", "Office <B>"],
    "use": "Teaching.",
    "region": "Nowhere",
    "published": "2026-11-25",
    "license": "https://creativecommons.org/licenses/by/4.0/",
    "population": "Persons of a made-up town, 2019",
    "unit": "a person",
    "justification": "The board chose epsilon before the fit.",
    "preparation": "nothing",
    "access": "Two people.",
    "schema": "schema.json",
}


def frame(n=30, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(0, 100, n),
            "job level": pd.array(rng.choice([1, 2, 3], n), dtype="Int64"),
            "income": rng.choice([0.5, 1.0, np.nan], n),
            "seen": rng.choice(["2019-02-03", "2020-01-31"], n),
            "score": rng.choice([-8, 3, 7], n),
            "odd": rng.choice(["a|b", "(c)", "d.*", "é & <x>"], n),
            "flag": rng.choice([True, False], n),
            "mrn": [f"M-{i:06}" for i in range(n)],
        }
    )


def ledger(sigma=4.0, *, sampled=False, earlier=False, noise=True):
    """Of a fit of margnet, or of dp-wgan where batches were sampled."""
    out = Ledger(8.0 if noise else math.inf, 1e-5)
    parts = [("one-way counts", Gaussian(noise_multiplier=sigma), 1)]
    if sampled:
        parts.append(("critic", SubsampledGaussian(noise_multiplier=1.0, sampling_rate=0.01), 200))
    else:
        parts.append(("joint counts", Gaussian(noise_multiplier=sigma), 1))
    if not noise:
        parts.append(("autoencoder", NoPrivacy(), 1))
    for purpose, mechanism, count in parts:
        account = out.open(purpose, mechanism, count)
        out.spend(account, count)
    if earlier:
        items = [{**item, "earlier": i == 0} for i, item in enumerate(out.to_list())]
        out = Ledger.from_list(out.epsilon, out.delta, items)
    return out


def claim(schema, *, seeded=False, public=None, method="margnet", names=None, **spent):
    names = [c.name for c in schema.columns] if names is None else names
    out = ledger(**spent)
    return make_certificate(
        out,
        facts(
            {
                "schema_sha256": schema.fingerprint(),
                "declared": names,
                "drafted": [],
                "left_out": [],
                "sources": {},
                "rows": None,
                **(public or {}),
            },
        ),
        method=method,
        seeded=seeded,
    )


def facts(public):
    """Return what a fit of version 0.2.0, which stated no plan, states for its certificate."""
    return {
        "public": public,
        "versions": {**versions(), "tabsynth": "0.2.0"},
        "training": {"stopped": None, "curves": {}},
        "code": code(),
        "noise": EXACT,
        "settings": {"own_configuration": []},
    }


def certified(folder, name="synthetic.csv", *, key=None, answers=None, **facts):
    """A table, its certificate, schema and answers in a folder."""
    folder.mkdir(exist_ok=True)
    table = frame()
    write_table(table, folder / name)
    certificate = claim(SCHEMA, **{"names": [*table.columns], **facts})
    write_beside(certificate, folder / name, len(table), key)
    SCHEMA.save(folder / "schema.json")
    write_answers(folder, **(answers or {}))
    return folder / name


def write_answers(folder, name="release.yaml", **changes):
    data = {k: v for k, v in {**ANSWERS, **changes}.items() if v is not None}
    path = folder / name
    path.write_text(yaml.safe_dump(data, allow_unicode=True), "utf-8")
    return path


def linked(folder, *, key=None):
    """Two linked tables with their certificates."""
    people = Schema([Categorical(name="sex", dtype="str", categories=("f", "m"))])
    visits = Schema([Numeric(name="day", dtype="int64", low=0, high=99)])
    keys = {
        "people": {"key": "person"},
        "visits": {"key": "visit", "parent": "people", "parent_key": "person", "max_children": 3},
    }
    schema = LinkedSchema({"people": people, "visits": visits}, keys=keys)
    folder.mkdir()
    tables = {
        "people": pd.DataFrame({"person": [1, 2], "sex": ["f", "m"]}),
        "visits": pd.DataFrame({"visit": [1, 2, 3], "person": [1, 1, 2], "day": [4, 7, 9]}),
    }
    out = ledger()
    accounts = [(a.purpose, a.mechanism) for a in out.accounts]
    made = Ledger(8.0, 1e-5)
    for table in ("people", "visits"):
        for purpose, mechanism in accounts:
            made.spend(made.open(f"{table}: {purpose}", mechanism, 1))
    certificate = make_certificate(
        made,
        facts(
            {
                "schema_sha256": schema.fingerprint(),
                "declared": ["people.sex", "visits.day"],
                "drafted": [],
                "left_out": [],
                "sources": {},
                "accepted_drafted_domain": False,
                "rows": None,
                "public_table": None,
                "design": schema.design.statement(),
                "tables": {name: k.to_dict() for name, k in schema.keys.items()},
            },
        ),
        method="linked-margnet",
        seeded=False,
    )
    for name, table in tables.items():
        write_table(table, folder / f"{name}.csv")
        write_beside(certificate, folder / f"{name}.csv", len(table), key)
    schema.save(folder.parent / "linked.json")
    write_answers(folder.parent, schema="linked.json")
    return folder


def published(folder, certificate, *, sigma=10.0, epsilon=None):
    """A published report of a table, in a folder of its own."""
    made = Ledger(2.0, 1e-6)
    made.spend(made.open("report", Gaussian(noise_multiplier=sigma), 2), 2)
    estimate = Estimate(0.1, 0.05, 0.2, 30)
    metric = Metric(DISTANCE, estimate, baseline=estimate, key="k", title="Distance <of> columns")
    report = Report(
        PrivateEvaluation(
            label="synthetic",
            metrics=(metric,),
            epsilon=made.spent if epsilon is None else epsilon,
            delta=1e-6,
            mechanisms=tuple(made.to_list()),
            certificate=certificate,
            schema_sha256=SCHEMA.fingerprint(),
        )
    )
    folder.mkdir()
    report.to_json(folder / "metrics.json")
    (folder / "report.html").write_text("a confidential page that somebody left here", "utf-8")
    return report


def reported(folder):
    """A table in a folder with a published report of it; return table, certificate and report."""
    table = certified(folder / "made", answers={"report": "report"})
    certificate = read_certificate(f"{table}.certificate.json")
    return table, certificate, published(folder / "made" / "report", certificate)
