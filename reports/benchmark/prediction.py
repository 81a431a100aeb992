"""Train on synthetic, test on real: three classifiers, their scores averaged."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.preprocessing import OneHotEncoder

from tabsynth import Schema

NAMES = {"tstr_auroc": "AUROC", "tstr_auprc": "AUPRC", "tstr_f1": "F1"}  # key of a row to title


def features(schema: Schema, target: str, index: np.ndarray) -> Any:
    """One-hot codes of value numbers; ordered columns have their rank, too."""
    kept = [j for j, name in enumerate(schema.names) if name != target]
    sizes = [schema.sizes[j] for j in kept]
    encoder = OneHotEncoder(categories=[np.arange(size) for size in sizes], dtype=np.float32)
    ordered = [j for j in kept if schema.columns[j].ordered]
    ranks = index[:, ordered] / np.maximum(1, [schema.sizes[j] - 1 for j in ordered])
    return sparse.hstack([encoder.fit_transform(index[:, kept]), ranks.astype(np.float32)]).tocsr()


def scores(
    schema: Schema, target: str, positive: list[int], synthetic: np.ndarray, test: np.ndarray
) -> dict[str, float]:
    """Means over the classifiers, fitted on synthetic rows and tested on real ones.

    F1 is of the class "yes", called where its chance is past its share in the rows trained on.

    Parameters
    ----------
    target : str
        The column to predict.
    positive : list of int
        Value numbers of the target that count as yes.
    synthetic, test : ndarray, shape (rows, columns)
        Value numbers.

    Returns
    -------
    dict
        By the keys of NAMES; where either table has one class alone, the scores of a coin.
    """
    number = schema.names.index(target)
    trained, truth = (np.isin(part[:, number], positive) for part in (synthetic, test))
    share = float(truth.mean())
    if len({*trained}) < 2 or len({*truth}) < 2:
        coin = (0.5, share, 2 * share / (1 + share))
        return {name: round(value, 4) for name, value in zip(NAMES, coin, strict=True)}
    x, holdout = (features(schema, target, part) for part in (synthetic, test))
    values = []
    for classifier in (
        LogisticRegression(C=0.1, max_iter=300),
        RandomForestClassifier(100, min_samples_leaf=5, random_state=0),
        MultinomialNB(),
    ):
        chance = classifier.fit(x, trained).predict_proba(holdout)[:, 1]
        called = chance > np.quantile(chance, 1 - trained.mean())
        values.append(
            (
                roc_auc_score(truth, chance),
                average_precision_score(truth, chance),
                f1_score(truth, called),
            )
        )
    means = np.mean(values, axis=0)
    return {name: round(float(value), 4) for name, value in zip(NAMES, means, strict=True)}
