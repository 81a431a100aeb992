"""Small tables, a certificate and a report for the report's tests."""

from unittest import mock

import numpy as np
import pandas as pd

from tabsynth import Schema
from tabsynth.evaluation import EvaluationConfig, evaluating
from tabsynth.report import evaluate, one_table
from tabsynth.schema import Column

HOSTILE = "<script>alert(1)</script>"
PATH = "../../x"
MATH = "$\\frac{1}{0$"


def schema():
    return Schema(
        [
            Column(
                name=HOSTILE,
                kind="categorical",
                dtype="str",
                categories=("a", "<img src=x onerror=alert(1)>", MATH),
                nulls=True,
            ),
            Column(name=PATH, kind="ordinal", dtype="int64", categories=(1, 2, 3)),
            Column(name="mean", kind="numeric", dtype="Int64", low=0, high=120, nulls=True),
            Column(
                name="日本",
                kind="categorical",
                dtype="category",
                categories=tuple(f"値{i}" for i in range(40)),
            ),
        ]
    )


def table(rows, seed):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, rows)
    names = np.array([*schema().columns[0].categories, None], dtype=object)
    rank = np.where(rng.random(rows) < 0.7, np.minimum(kind, 2), rng.integers(0, 3, rows)) + 1
    age = pd.array(np.clip(30 * kind + rng.integers(0, 30, rows), 0, 120), dtype="Int64")
    age[rng.random(rows) < 0.1] = pd.NA
    last = np.minimum(kind * 10 + rng.integers(0, 10, rows), 39)
    return pd.DataFrame(
        {
            HOSTILE: pd.Series(names[kind], dtype="str"),
            PATH: rank,
            "mean": age,
            "日本": pd.Categorical.from_codes(last, schema().columns[3].categories),
        }
    )


def certificate(**changes):
    return {
        "format": "tabsynth-certificate/2",
        "method": "dp-wgan",
        "private": True,
        "statement": "Private: (0.997, 1e-05)-differential privacy.",
        "epsilon": 0.997,
        "epsilon_asked": 1.0,
        "delta": 1e-5,
        "adjacency": "add or remove one record",
        "accountant": {"name": "PRV", "library": "opacus", "version": "1.6.0"},
        "mechanisms": [
            {
                "purpose": "critic",
                "mechanism": "subsampled-gaussian",
                "noise_multiplier": 10.33,
                "sampling_rate": 0.05,
                "count": 3000,
                "details": {"clip": 1.0},
            }
        ],
        "public": {
            "schema_sha256": schema().fingerprint(),
            "declared": [HOSTILE, PATH],
            "drafted": [],
            "accepted_drafted_domain": False,
            "rows": None,
            "public_table": {"rows": 500},
        },
        "seeded": False,
        "created": "2026-11-20T10:00:00Z",
        "versions": {"tabsynth": "0.2.0", "torch": "2.9"},
        "training": {
            "stopped": None,
            "curves": {"critic <loss>": {"step": [1, 2, 3], "value": [0.5, 0.2, 0.1]}},
        },
        "table": {"file": "out.csv", "sha256": "ab" * 32, "rows": 150},
        **changes,
    }


MEASURED, DRAWN = {}, {}


def report(holdout=True, synthetic=None, **options):
    """A report on the usual tables, measured once: they give the same figures, whatever certificate they come with."""
    measure = evaluating.measure

    def once(*args, **kwargs):
        if holdout not in MEASURED:
            MEASURED[holdout] = measure(*args, **kwargs)
        return MEASURED[holdout]

    with mock.patch.object(evaluating, "measure", once):
        return evaluate(
            table(200, 0),
            table(150, 1) if synthetic is None else synthetic,
            table(100, 2) if holdout else None,
            schema=schema(),
            config=EvaluationConfig(m=40, k=(1, 5)),
            **options,
        )


def page(report, folder):
    """The page of a report; a picture of a column is drawn once, because it is the same in all of them."""
    draw = one_table.marginal_figure

    def once(item):
        key = str(item.to_dict())
        if key not in DRAWN:
            DRAWN[key] = draw(item)
        return DRAWN[key]

    with mock.patch.object(one_table, "marginal_figure", once):
        report.to_html(folder / "report.html", overwrite=True)
    return (folder / "report.html").read_text("utf-8")
