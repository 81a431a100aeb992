"""The figures of synthetic tables, in a process of their own.

    python score.py CONFIG TABLE FOLDER SYNTHETIC ...

FOLDER holds train.csv and test.csv as category codes. Marginals and dimension-wise prediction are by the
independent evaluation protocol (data/README.md), where that is; the others by tabsynth.evaluation.
"""

import importlib.util
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import config as configs
import numpy as np
import pandas as pd
from benchmark_data import PROTOCOL, data_file, missing  # on the path through config

from tabsynth import Schema
from tabsynth.evaluation.attacks.nearest import draw_rows
from tabsynth.evaluation.utility.marginals import distance, marginal_sets, percentile_bins, to_bins
from tabsynth.evaluation.utility.prediction import fold_rare
from tabsynth.evaluation.utility.propensity import MAX_ROWS, tree
from tabsynth.evaluation.utility.target import MAX_FIT, MAX_TEST, auroc, logistic, probabilities

ATTACKED = 300  # rows that the protocol draws for its disclosure
KEPT = ("tvd1", "tvd2", "tvd3", "dwpre_macro_mean", "dwpre_weighted_mean")


def by_protocol(folder: Path, table: Path) -> dict[str, Any]:
    """Return the figures of the evaluation protocol; of a small table, distances alone."""
    if missing(PROTOCOL):
        return {}
    spec = importlib.util.spec_from_file_location("evaluation_protocol", data_file(PROTOCOL))
    protocol = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(protocol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of predictors that have not converged
        small = min(len(codes(folder / f"{part}.csv")) for part in ("train", "test")) < ATTACKED
        result = protocol.score(folder, table, quick=small)
    figures = {
        k: v for k, v in result.items() if k in KEPT or k.startswith(("disclose", "control"))
    }
    return figures | {name: result.get(name, {}) for name in ("dwpre", "dwpre_weighted")}


def by_evaluation(
    schema: Schema, target: str | None, train: np.ndarray, test: np.ndarray, synthetic: np.ndarray
) -> dict[str, float]:
    """Return the k-marginal score, the pMSE ratio of a tree and the AUROC of the target; the draws are the same for all."""
    names, sizes = schema.names, schema.sizes
    bins = percentile_bins(train, sizes, [column.scores() for column in schema.columns])
    groups = [int(group.max()) + 1 for group in bins]
    sets = marginal_sets(names)
    away = distance(to_bins(train, bins), to_bins(synthetic, bins), sets, names, groups)
    results = {"k_marginal": 1000 * (1 - away.mean.value)}
    rng = np.random.default_rng(0)
    rows = [draw_rows(part, MAX_ROWS, rng) for part in (train, synthetic)]
    ratio = tree(*rows, rng).value
    results |= {"pmse_tree": ratio} if np.isfinite(ratio) else {}
    if target is not None:
        j = names.index(target)
        rng = np.random.default_rng(1)
        tables = [train, draw_rows(synthetic, MAX_FIT, rng), draw_rows(test, MAX_TEST, rng)]
        (_, fit, holdout), folded = fold_rare(tables, sizes)
        chances = probabilities(logistic, fit, holdout, j, folded)
        results["target_auroc"] = auroc(chances, holdout[:, j])
    return {name: round(float(value), 4) for name, value in results.items()}


def main(path: str, table: str, folder: str, *synthetic: str) -> dict[str, Any]:
    """Return the figures of each synthetic table."""
    chosen = configs.load(Path(path)).tables[table]
    schema = chosen.schema()
    train, test = (codes(Path(folder, f"{part}.csv")) for part in ("train", "test"))
    results = []
    for each in map(Path, synthetic):
        rows = codes(each)
        ours = by_evaluation(schema, chosen.target, train, test, rows)
        results.append(by_protocol(Path(folder), each) | ours)
    return {"scores": results}


def codes(path: Path) -> np.ndarray:
    """Read category codes, shape (rows, columns)."""
    return pd.read_csv(path).to_numpy(np.int64)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
