"""Survey weights on the national census excerpt: weighted fits beside fits of self-weighting samples.

``python reports/units/weights.py`` runs what is missing, and writes results-weights.json and weights.md; ``--only KEY``
runs the keys that begin with it, and ``--page`` writes the page alone. It needs the census file of the benchmark's data.
"""

import itertools
import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "benchmark")]

from tables import CENSUS, data_file, parsed  # noqa: E402

from tabsynth import DPWGAN, MargNet  # noqa: E402
from tabsynth.encoding import TableEncoder  # noqa: E402
from tabsynth.privacy.certificate.certificate import code  # noqa: E402
from tabsynth.synthesizers import MargNetConfig  # noqa: E402
from tabsynth.synthesizers.base import Synthesizer  # noqa: E402
from tabsynth.synthesizers.margnet import weighting  # noqa: E402

RESULTS, PAGE = HERE / "results-weights.json", HERE / "weights.md"
WEIGHT, FILE = "PWGTP", "census_national_2019.csv"
CAPS, SEEDS, EPSILON = (300, 500, 1000, 2000), (0, 1, 2, 3, 4, 5), 1.0
COMMON = 0.01  # share of the population that a category needs for its total to be compared
TARGET = 1.25
ABLATED = 1000  # the cap of fits with other settings
SETTINGS: dict[str, tuple[float, ...]] = {
    "weights_importance": (5.0, 50.0),
    "weight_groups": (3, 8),
    "weighted_one_way_share": (0.08, 0.25),
}
CONSTANTS = {"CLASSES": (20, 80), "SWEEPS": (5,)}  # of tabsynth/synthesizers/margnet/weighting.py
WAYS = {
    **{f"weighted, cap {cap}": f"weighted MargNet, `max_weight={cap}`" for cap in CAPS},
    "self-weighting": "unweighted MargNet on a self-weighting sample of as many rows",
    "ignored": "unweighted MargNet on the rows as they are",
    "sample": "the self-weighting sample itself, without privacy",
    "dp-wgan, cap 300": "weighted DPWGAN, `max_weight=300`",
    "dp-wgan, self-weighting": "unweighted DPWGAN on a self-weighting sample of as many rows",
}
OPTIONS = {**SETTINGS, **CONSTANTS}
WITH = [f"{name}={value}" for name, values in OPTIONS.items() for value in values]
RUNS = [
    *((way, seed) for way in WAYS for seed in SEEDS if not way.startswith("dp-wgan")),
    *((way, seed) for way in WITH for seed in SEEDS),
    *((way, seed) for way in WAYS for seed in SEEDS[:3] if way.startswith("dp-wgan")),
]


def rows() -> pd.DataFrame:
    """The benchmark's ten columns of the census file, and the weights."""
    raw = pd.read_csv(data_file(FILE), dtype=str, keep_default_na=False)
    table = parsed(raw[list(CENSUS.names)], CENSUS)
    return table.assign(**{WEIGHT: raw[WEIGHT].astype(float)})


def self_weighting(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """As many rows, drawn with replacement in proportion to their weights."""
    rng, weights = np.random.default_rng(1000 + seed), table[WEIGHT].to_numpy()
    drawn = rng.choice(len(table), len(table), p=weights / weights.sum())
    return table.iloc[drawn].drop(columns=WEIGHT).reset_index(drop=True)


def errors(real: pd.DataFrame, made: pd.DataFrame, weights: np.ndarray) -> dict[str, float]:
    """Errors of weighted tables: distances of shares, from 0 to 1, and relative errors of totals.

    Parameters
    ----------
    real : DataFrame
        With its weights.
    made : DataFrame
    weights : ndarray, shape (n,)
        People that each of its rows stands for.
    """
    encoder, columns = TableEncoder(CENSUS), list(CENSUS.names)
    one, other = (encoder.to_index(table[columns]) for table in (real, made))
    truth, sizes = real[WEIGHT].to_numpy(), CENSUS.sizes

    def counts(names: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        shape = [sizes[j] for j in names]
        out = []
        for index, w in ((one, truth), (other, weights)):
            cells = np.ravel_multi_index(index[:, names].T, shape)
            out.append(np.bincount(cells, w, int(np.prod(shape))))
        return out[0], out[1]

    def distance(names: tuple[int, ...]) -> float:
        a, b = counts(names)
        return float(np.abs(a / a.sum() - b / b.sum()).sum() / 2)

    single = [(j,) for j in range(len(sizes))]
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    relative = []
    for names in single:
        a, b = counts(names)
        common = a >= COMMON * a.sum()
        relative += list(np.abs(b - a)[common] / a[common])
    return {
        "one_way": float(np.mean([distance(names) for names in single])),
        "two_way": float(np.mean([distance(names) for names in pairs])),
        "totals": float(np.mean(relative)),
        "population": float(abs(weights.sum() - truth.sum()) / truth.sum()),
    }


def run(way: str, seed: int, real: pd.DataFrame) -> dict[str, Any]:
    """One fit and its errors. Fits are seeded, so that they can be repeated."""
    started, n, people = time.process_time(), len(real), float(real[WEIGHT].sum())
    kind: type[Synthesizer] = DPWGAN if way.startswith("dp-wgan") else MargNet
    options: dict[str, Any] = {"epsilon": EPSILON, "rows": n, "random_state": seed}
    if way == "sample":
        return errors(real, self_weighting(real, seed), np.full(n, people / n))
    cap = ABLATED if way in WITH else None
    if way in WITH:
        name, value = way.split("=")
        if name in SETTINGS:
            options["config"] = MargNetConfig(**{name: type(SETTINGS[name][0])(float(value))})
    elif "cap" in way:
        cap = int(way.rsplit(" ", 1)[1])
    if cap is not None:
        schema = replace(CENSUS, weight=WEIGHT, max_weight=float(cap))
        made = kind(schema, **options).fit(real).sample(n, weights="population")
        found = errors(real, made, made[WEIGHT].to_numpy())
    else:
        given = real.drop(columns=WEIGHT) if way == "ignored" else self_weighting(real, seed)
        made = kind(CENSUS, **options).fit(given).sample(n)
        found = errors(real, made, np.full(n, people / n))
    return {**found, "cpu_seconds": round(time.process_time() - started, 1)}


@contextmanager
def constants(way: str) -> Iterator[None]:
    """The package's constants as that way has them."""
    name, _, value = way.partition("=")
    if name not in CONSTANTS:
        yield
        return
    with (
        patch.object(weighting, name, int(value)),
        patch.object(weighting.WeightClasses, "size", weighting.CLASSES + 1),
    ):
        yield


def _cell(results: dict[str, Any], way: str, name: str) -> str:
    values = [results[key][name] for key in results if key.rsplit(":", 1)[0] == way]
    if not values or values[0] is None:
        return "–"
    spread = f" ± {np.std(values):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{spread}"


def page(results: dict[str, Any], real: pd.DataFrame) -> str:
    """The page, of all that was measured."""
    weights = real[WEIGHT].to_numpy()
    lines = [
        "# Survey weights",
        "",
        "`python reports/units/weights.py` writes this page. It needs [benchmark files](../../data/README.md#benchmark-files). It compares weighted fits with fits of self-weighting samples",
        "of the same size, on the ten benchmark columns of the national census excerpt.",
        "",
        f"All fits have ε = 1 and δ = 1e-5. Each row has up to {len(SEEDS)} seeds, as mean and standard deviation, or one.",
        "The truth has the weights as they are, above the cap too. Lower is better in all columns.",
        "",
        "- **one-way, two-way**: mean total variation distance of weighted tables of shares, from 0 to 1.",
        "- **totals**: mean relative error of the number of people in each category of at least 1% of the population.",
        "- **population**: relative error of the size of the population. Without weights it is taken as known.",
        "",
        "| fit | one-way | two-way | totals | population |",
        "|---|---|---|---|---|",
    ]
    names = ("one_way", "two_way", "totals", "population")
    for way, title in WAYS.items():
        if any(key.rsplit(":", 1)[0] == way for key in results):
            cells = " | ".join(_cell(results, way, name) for name in names)
            lines.append(f"| {title} | {cells} |")
    lines += ["", "Error of a weighted fit over that of the fit of a self-weighting sample:", ""]
    lines += ["| cap | one-way | two-way | totals | within 1.25 in all |", "|---|---|---|---|---|"]

    def mean(way: str, name: str) -> float:
        values = [results[key][name] for key in results if key.rsplit(":", 1)[0] == way]
        return float(np.mean(values)) if values else float("nan")

    for cap in CAPS:
        ratios = [mean(f"weighted, cap {cap}", n) / mean("self-weighting", n) for n in names[:3]]
        if math.isnan(ratios[0]):
            continue  # not measured
        met = "yes" if max(ratios) <= TARGET else "no"
        lines.append(f"| {cap} | {' | '.join(f'{r:.2f}' for r in ratios)} | {met} |")
    lines += [
        "",
        f"MargNet with other settings, at `max_weight={ABLATED}`; the first row has the defaults:",
        "",
        "| settings | one-way | two-way | totals | population |",
        "|---|---|---|---|---|",
    ]
    for way in (f"weighted, cap {ABLATED}", *WITH):
        if any(key.rsplit(":", 1)[0] == way for key in results):
            cells = " | ".join(_cell(results, way, name) for name in names)
            lines.append(f"| {f'`{way}`' if way in WITH else 'defaults'} | {cells} |")
    lines += [
        "",
        "What a cap costs in this table: what clipping takes away, and the noise of a count by weight, as GANs have it,",
        "relative to the population and beside that of rows that count once. MargNet counts classes of weights, and pays no",
        "noise for the cap. What is clipped is of the private rows; here they are public.",
        "",
        "| cap | noise, times that of rows that count once | people that clipping takes away | rows clipped |",
        "|---|---|---|---|",
    ]
    for cap in CAPS:
        kept = np.minimum(weights, cap)
        noise = cap * len(weights) / kept.sum()
        lost, cut = 1 - kept.sum() / weights.sum(), float((weights > cap).mean())
        lines.append(f"| {cap} | {noise:.2f} | {lost:.2%} | {cut:.2%} |")
    hashes = sorted({result["code"] for result in results.values()})
    lines += ["", f"Code: {', '.join(hashes)}.", ""]
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and write the page."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    real = rows()
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    for way, seed in RUNS:
        key = f"{way}:{seed}"
        if "--page" in sys.argv or key in results or not key.startswith(only):
            continue
        with constants(way):
            results[key] = {**run(way, seed, real), "code": code()["sha256"][:12]}
        print(key, results[key], flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(page(results, real))


if __name__ == "__main__":
    main()
