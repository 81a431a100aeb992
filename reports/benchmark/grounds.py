"""MargNet on the peers' own benchmarks: parities, codes of patients, a class that seven numbers decide, and tables of the papers of AIM and JAM.

    TABSYNTH_DATA=FOLDER python reports/benchmark/grounds.py                   # measures what is missing, then writes grounds.md
    TABSYNTH_DATA=FOLDER python reports/benchmark/grounds.py --only parity
    TABSYNTH_DATA=FOLDER python reports/benchmark/grounds.py --only fire --again

Parities and codes are drawn. The other tables are benchmark files of data/README.md, which says which command brings them; a ground
whose files are absent is left out, and so is that of the characters where ``xgboost`` is not installed. Nothing is downloaded.
Every fit is a process of its own with one thread.
"""

import importlib.util
import itertools
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "data")]
os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from benchmark_data import data_file, missing  # noqa: E402
from harness import Study, fill, mean_sd, table  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402

from tabsynth import MargNet, Schema  # noqa: E402
from tabsynth.schema import Column  # noqa: E402

SEEDS = range(3)
ROWS, BESIDE = 10_000, 5  # of a parity: its rows, and its other columns
# Patients of each of two halves, one to fit and one to test; causes of their codes, and what these weigh; codes that are predicted.
PATIENTS, CAUSES, WEIGHT, PREDICTED = 20_000, 12, 1.3, 20
CHARACTERS = [f"artificial-characters_{part}.csv" for part in ("train", "test", "val")]
NUMBERS = {f"V{i}": 1.0 if i < 6 else 0.01 for i in range(1, 8)}  # the steps of the characters


@dataclass(frozen=True)
class Ground:
    """A table, a privacy budget, and the figure that its makers state.

    Attributes
    ----------
    name : str
        "parity", "codes", "characters", or a table whose triples are compared.
    bits : int
        Of a parity: how many columns it takes; of codes: their number.
    beside : int
        Of a parity: how many other columns there are.
    public : bool
        Whether the public part of the table is given, too.
    """

    name: str
    epsilon: float
    seed: int
    bits: int = 0
    beside: int = 0
    public: bool = False

    @property
    def title(self) -> str:
        """The title of the line of this ground, the same for all seeds."""
        if self.name == "parity":
            beside = f", {self.beside} other columns beside" if self.beside else ""
            return f"parity of {self.bits} bits{beside}"
        if self.name == "codes":
            return f"{self.bits} codes of {PATIENTS:,} patients, ε = {self.epsilon:g}"
        return f"{self.name}{' with its public part' if self.public else ''}, ε = {self.epsilon:g}"

    @property
    def key(self) -> str:
        """The key of the row."""
        what = f"-{self.bits}{'-beside' if self.beside else ''}" if self.bits else ""
        public = "-public" if self.public else ""
        return f"{self.name}{what}{public}-eps{self.epsilon:g}-seed{self.seed}"


# What each was to reach before it was measured, by the first word of its title or the whole.
GOALS = {
    "parity": "≥ 0.95",
    f"400 codes of {PATIENTS:,} patients, ε = 1": "≥ 0.925 in 60 CPU s",
    "characters, ε = 1": "≥ 0.50",
    "adult, ε = 1": "≤ 0.125",
    "adult, ε = 0.316": "≤ 0.17",
    "fire, ε = 1": "20% below peers",
    "salary, ε = 1": "20% below peers",
}

GROUNDS = [
    *(
        Ground("parity", 1.0, seed, bits, beside)
        for beside, bits, seed in itertools.product((0, BESIDE), (2, 3, 4, 7), SEEDS)
    ),
    *(Ground("codes", 1.0, seed, bits=400) for seed in SEEDS),
    *(Ground("characters", 1.0, seed) for seed in SEEDS),
    *(Ground("adult", epsilon, seed) for epsilon in (1.0, 0.316) for seed in SEEDS),
    *(
        Ground(name, epsilon, seed, public=public)
        for name in ("fire", "salary")
        for epsilon, public in ((1.0, False), (1.0, True), (0.7, True))
        for seed in SEEDS
    ),
]


def categories(sizes: Mapping[str, int]) -> Schema:
    """Return the schema of columns of category codes, as text."""
    return Schema(
        [
            Column(
                name=name,
                kind="categorical",
                dtype="str",
                categories=tuple(map(str, range(size))),
                source="the published domain",
            )
            for name, size in sizes.items()
        ]
    )


def draw_parity(bits: int, beside: int, seed: int) -> tuple[Schema, pd.DataFrame]:
    """Return fair bits whose sum is even, any of them but one independent, and other columns of one common factor."""
    rng = np.random.default_rng(100 + seed)
    codes = rng.integers(0, 2, (ROWS, bits))
    codes[:, -1] = codes[:, :-1].sum(axis=1) % 2
    columns = {f"b{j}": codes[:, j] for j in range(bits)}
    factor = rng.normal(size=ROWS)
    for j in range(beside):
        scores = 1.5 * (0.7 * factor + rng.normal(size=ROWS)) + 4
        columns[f"x{j}"] = np.clip(scores, 0, 7).astype(int)
    sizes = {name: 2 if name[0] == "b" else 8 for name in columns}
    return categories(sizes), pd.DataFrame(columns).astype(str)


def kept_parity(rows: pd.DataFrame) -> float:
    """Return the share of rows whose bits have an even sum."""
    bits = rows[[name for name in rows if name[0] == "b"]].astype(int)
    return float((bits.sum(axis=1) % 2 == 0).mean())


def draw_codes(codes: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return codes of patients to fit and to test, 0 or 1, which 1 to 40% have: logistic regressions on common normal causes."""
    rng = np.random.default_rng(200 + seed)
    weights = WEIGHT * rng.normal(size=(CAUSES, codes))
    scores = rng.normal(size=(2 * PATIENTS, CAUSES)) @ weights
    scores += rng.logistic(size=scores.shape)
    shares = rng.uniform(0.01, 0.4, codes)
    limits = [np.quantile(of, 1 - share) for of, share in zip(scores.T, shares, strict=True)]
    rows = pd.DataFrame((scores > limits).astype(int), columns=[f"c{j}" for j in range(codes)])
    return rows[:PATIENTS], rows[PATIENTS:]


def area(train: pd.DataFrame, test: pd.DataFrame) -> float:
    """Return the mean area under the ROC curve of the commonest codes of the test rows, predicted from the codes that are not among these."""
    commonest = test.mean().nlargest(PREDICTED).index
    others = [name for name in test if name not in commonest]
    areas = []
    for name in commonest:
        model = LogisticRegression(C=0.1, max_iter=300).fit(train[others], train[name])
        areas.append(roc_auc_score(test[name], model.decision_function(test[others])))
    return float(np.mean(areas))


def distance_of_triples(first: np.ndarray, second: np.ndarray, sizes: list[int]) -> float:
    """Return the mean L1 distance of the shares of all triples of columns, from category codes."""
    distances = []
    for triple in itertools.combinations(range(len(sizes)), 3):
        shape = [sizes[j] for j in triple]
        shares = [
            np.bincount(np.ravel_multi_index(codes[:, triple].T, shape), minlength=math.prod(shape))
            / len(codes)
            for codes in (first, second)
        ]
        distances.append(np.abs(shares[0] - shares[1]).sum())
    return float(np.mean(distances))


def characters_schema(parts: list[pd.DataFrame]) -> Schema:
    """Return the schema of the characters: the bounds of all their parts, which are public here, and ten classes."""
    rows = pd.concat(parts)
    columns = [
        Column(
            name=name,
            kind="numeric",
            dtype="int64" if step == 1 else "float64",
            low=float(rows[name].min()),
            high=float(rows[name].max()),
            resolution=step,
            clip=True,
            source="OpenML",
        )
        for name, step in NUMBERS.items()
    ]
    classes = tuple(map(str, sorted(rows["Class"].unique())))
    target = Column(
        name="Class", kind="categorical", dtype="str", categories=classes, source="OpenML"
    )
    return Schema([*columns, target])


def accuracy(train: pd.DataFrame, test: pd.DataFrame) -> float:
    """Return the share of test rows whose class XGBoost with its defaults predicts, from the training rows."""
    import xgboost

    classes, targets = np.unique(train["Class"].astype(int), return_inverse=True)
    model = xgboost.XGBClassifier(n_jobs=1).fit(train[list(NUMBERS)].astype(float), targets)
    predicted = classes[model.predict(test[list(NUMBERS)].astype(float))]
    return float((predicted == test["Class"].astype(int)).mean())


def fit_and_sample(
    schema: Schema, rows: pd.DataFrame, ground: Ground, delta: float, **hints: Any
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return as many synthetic rows as were fitted, the CPU seconds of the fit and of the sample, and the code."""
    started = time.process_time()
    model = MargNet(
        schema, epsilon=ground.epsilon, delta=delta, random_state=ground.seed, **hints
    ).fit(rows)
    fitted = time.process_time()
    synthetic = model.sample(len(rows))
    costs = {"cpu_seconds": fitted - started, "sample_seconds": time.process_time() - fitted}
    return synthetic, costs | {"code": model.certificate()["code"]["sha256"][:12]}


def measure_parity(ground: Ground) -> dict[str, Any]:
    """Return the share of synthetic rows that keep a parity."""
    schema, rows = draw_parity(ground.bits, ground.beside, ground.seed)
    synthetic, costs = fit_and_sample(schema, rows, ground, 1e-5)
    return {"figure": kept_parity(synthetic), **costs}


def measure_codes(ground: Ground) -> dict[str, Any]:
    """Return the area under the ROC curve of classifiers that have seen synthetic patients alone."""
    rows, test = draw_codes(ground.bits, ground.seed)
    schema = categories(dict.fromkeys(rows, 2))
    synthetic, costs = fit_and_sample(schema, rows.astype(str), ground, 1e-5)
    return {"figure": area(synthetic.astype(int), test), **costs}


def measure_characters(ground: Ground) -> dict[str, Any] | None:
    """Return the accuracy on the test rows of a classifier that has seen synthetic rows alone."""
    message = missing(*CHARACTERS)
    if not message and importlib.util.find_spec("xgboost") is None:
        message = "This needs xgboost: pip install xgboost."
    if message:
        return skip(ground, message)
    train, test, _ = parts = [pd.read_csv(data_file(name)) for name in CHARACTERS]
    rows = train.astype({"Class": str})
    delta = 1 / (len(rows) * math.log(len(rows)))
    synthetic, costs = fit_and_sample(characters_schema(parts), rows, ground, delta, target="Class")
    return {"figure": accuracy(synthetic, test), **costs}


def measure_triples(ground: Ground) -> dict[str, Any] | None:
    """Return the mean distance of all triples of a table from the synthetic one."""
    name = ground.name
    files = ["adult.csv", "adult_domain.json"]
    if name != "adult":
        files = [f"{name}/priv.csv", f"{name}/{name}-domain.json", f"{name}/pub.csv"]
    if message := missing(*files):
        return skip(ground, message)
    sizes = json.loads(data_file(files[1]).read_text("utf-8"))
    rows, *public = (pd.read_csv(data_file(file))[list(sizes)] for file in files[::2])
    source = "JAM_AiStats, the public part of its authors' split"
    hints = {"public": public[0].astype(str), "public_source": source} if ground.public else {}
    synthetic, costs = fit_and_sample(categories(sizes), rows.astype(str), ground, 1e-9, **hints)
    codes = [part.astype(int).to_numpy() for part in (rows, synthetic)]
    return {"figure": distance_of_triples(*codes, list(sizes.values())), **costs}


def skip(ground: Ground, message: str) -> None:
    """Say why a ground is left out."""
    print(f"{ground.key} is left out. {message}", file=sys.stderr)


MEASURES: dict[str, Callable[[Ground], dict[str, Any] | None]] = {
    "parity": measure_parity,
    "codes": measure_codes,
    "characters": measure_characters,
}


def measure(ground: Ground) -> dict[str, Any] | None:
    """Return the row of a ground; None where it cannot be measured here."""
    return MEASURES.get(ground.name, measure_triples)(ground)


def page(rows: dict[str, dict[str, Any]]) -> str:
    """Return the page of all rows: ours, and those of peers, whose key names the system first."""
    lines = []
    for title in dict.fromkeys(ground.title for ground in GROUNDS):
        alike = [ground for ground in GROUNDS if ground.title == title]
        mine = [rows[ground.key] for ground in alike if ground.key in rows]
        stem = alike[0].key.rpartition("-seed")[0]
        goal = GOALS.get(title) or GOALS.get(alike[0].name, "–")
        lines.append([title, *cells(mine), goal, theirs(rows, stem)])
    head = ("benchmark", "MargNet", "CPU s of fit, sample", "goal", "peers")
    return fill(HERE / "grounds_template.md", {"GROUNDS": table(head, lines)})


def cells(rows: list[dict[str, Any]]) -> list[str]:
    """Return the figure and the cost of some runs, their number beside where it is not that of the seeds."""
    if not rows:
        return ["not measured yet", "–"]
    costs = (
        statistics.mean(row[name] for row in rows) for name in ("cpu_seconds", "sample_seconds")
    )
    count = "" if len(rows) == len(SEEDS) else f" ({len(rows)})"
    return [mean_sd([row["figure"] for row in rows]) + count, ", ".join(f"{c:.0f}" for c in costs)]


def theirs(rows: dict[str, dict[str, Any]], stem: str) -> str:
    """Return the figures of the peers on a ground, with their cost, or where they were stopped."""
    found: dict[str, list[dict[str, Any]]] = {}
    for key, row in rows.items():
        if key.partition(":")[2].rpartition("-seed")[0] == stem:
            found.setdefault(row["system"], []).append(row)
    texts = []
    for system, runs in found.items():
        ended = [run for run in runs if "stopped" not in run]
        if ended:
            cpu = statistics.mean(run["cpu_seconds"] for run in ended)
            figure = mean_sd([run["figure"] for run in ended])
            texts.append(
                f"{system} {figure} ({len(ended)} seed{'s' * (len(ended) > 1)}, {cpu:,.0f} CPU s)"
            )
        else:
            texts.append(f"{system}: {runs[0]['stopped']}")
    return "; ".join(texts) or "–"


STUDY = Study(
    script=Path(__file__),
    settings={ground.key: ground for ground in GROUNDS},
    measure=measure,
    page=page,
    apart=True,
)

if __name__ == "__main__":
    STUDY.main()
