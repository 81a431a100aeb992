"""Train on synthetic, test on real: three classifiers, their scores averaged."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.preprocessing import OneHotEncoder

from tabsynth import Schema
from tabsynth.encoding import TableEncoder

NAMES = ("AUROC", "AUPRC", "F1")


def features(schema: Schema, label: str, index: np.ndarray) -> Any:
    """One-hot codes of value numbers; ordered columns have their rank, too."""
    kept = [j for j, name in enumerate(schema.names) if name != label]
    sizes = [schema.sizes[j] for j in kept]
    encoder = OneHotEncoder(categories=[np.arange(size) for size in sizes], dtype=np.float32)
    ordered = [j for j in kept if schema.columns[j].kind != "categorical"]
    ranks = index[:, ordered] / np.maximum(1, [schema.sizes[j] - 1 for j in ordered])
    return sparse.hstack([encoder.fit_transform(index[:, kept]), ranks.astype(np.float32)]).tocsr()


def scores(
    schema: Schema, label: str, yes: tuple, synthetic: pd.DataFrame, test: pd.DataFrame
) -> dict[str, float]:
    """Means over the classifiers; a table without both classes has the scores of a coin.

    F1 is of the class "yes", called where its chance is past its share in the rows trained on.
    """
    encoder = TableEncoder(schema)
    number = schema.names.index(label)
    column = schema.columns[number]
    positive = [column.categories.index(value) for value in yes]
    index = [encoder.to_index(part) for part in (synthetic, test)]
    trained, truth = (np.isin(part[:, number], positive) for part in index)
    share = float(truth.mean())
    if trained.all() or not trained.any():
        return {"AUROC": 0.5, "AUPRC": share, "F1": 2 * share / (1 + share)}
    x, held = (features(schema, label, part) for part in index)
    found = []
    for classifier in (
        LogisticRegression(C=0.1, max_iter=300),
        RandomForestClassifier(100, min_samples_leaf=5, random_state=0),
        MultinomialNB(),
    ):
        chance = classifier.fit(x, trained).predict_proba(held)[:, 1]
        called = chance > np.quantile(chance, 1 - trained.mean())
        found.append(
            (
                roc_auc_score(truth, chance),
                average_precision_score(truth, chance),
                f1_score(truth, called),
            )
        )
    means = np.mean(found, axis=0)
    return {name: round(float(value), 4) for name, value in zip(NAMES, means, strict=True)}
