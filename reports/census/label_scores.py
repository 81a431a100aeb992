"""Scores of label columns by a classifier that was trained on real rows: the document's future work.

The inception score of a column y is exp(E KL(p(y | rest) ‖ p(y))): a classifier that knows the real
rows should be sure of each synthetic row's label, and the labels should be diverse. Here both scores
are in nats, before the exponential:

``inception``
    H(mean of p(y | rest)) − mean of H(p(y | rest)). It never looks at the label that the row has.
``agreement``
    H(p) + mean of log p(label | rest), with p the label's distribution in the real rows: what the rest
    of a row tells of its own label. 0 for labels that are independent of the rest and of that
    distribution; below 0 where the label contradicts the rest.
"""

import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

LEAST = 1e-6  # probability of a label that the classifier never saw


@lru_cache(maxsize=2)
def _classifiers(train: Path) -> dict[str, tuple[OneHotEncoder, LogisticRegression, float]]:
    """For each column: an encoder of the others, a classifier, and the entropy of the column."""
    real = _texts(train)
    results = {}
    for name in real.columns:
        rest = real.drop(columns=name)
        encoder = OneHotEncoder(handle_unknown="ignore").fit(rest)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # 60 iterations, as in the evaluation protocol, may not converge
            model = LogisticRegression(max_iter=60, tol=1e-3)
            model.fit(encoder.transform(rest), real[name])
        results[name] = encoder, model, _entropy(real[name].value_counts(normalize=True).to_numpy())
    return results


def label_scores(train: Path, table: Path) -> dict[str, dict[str, float]]:
    """Both scores of each column of a table, in nats, by classifiers fitted to ``train``."""
    rows = _texts(table)
    scores = {}
    for name, (encoder, model, entropy) in _classifiers(train).items():
        p = model.predict_proba(
            encoder.transform(rows.drop(columns=name)[encoder.feature_names_in_])
        )
        place = pd.Index(model.classes_).get_indexer(rows[name])
        of_label = np.where(place < 0, LEAST, p[np.arange(len(p)), place])
        scores[name] = {
            "inception": round(_entropy(p.mean(axis=0)) - float(np.mean([*map(_entropy, p)])), 4),
            "agreement": round(entropy + float(np.log(np.maximum(of_label, LEAST)).mean()), 4),
        }
    return scores


def _entropy(p: np.ndarray) -> float:
    """In nats."""
    return float(-(p * np.log(np.maximum(p, 1e-300))).sum())


def _texts(path: Path) -> pd.DataFrame:
    """Cells as text, a null as the empty one; whole numbers alike with and without a point."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table.replace("N", "").apply(lambda column: column.str.replace(r"\.0$", "", regex=True))
