"""The paper's settings A, B and C: which rows a classifier is trained on, and which it is tested on.

Jordon et al. 2019, section 5.1. A: real and real. B: synthetic and real. C: synthetic and synthetic. The
prediction is whether a person's income is in the upper five deciles, in the bundled census table.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import permutations

import census_rows
import numpy as np
from prediction import features
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

LABEL, YES = "PINCP_DECILE", (5, 6, 7, 8, 9)  # category codes: deciles; no income counts as no
TRAIN, TEST = 4000, 2000  # rows
SEED = 0
# The paper's twelve, but for XGBoost, with scikit-learn's defaults where no number is given.
CLASSIFIERS = {
    "logistic regression": LogisticRegression(max_iter=300),
    "random forest": RandomForestClassifier(100, random_state=SEED),
    "Gaussian naive Bayes": GaussianNB(),
    "Bernoulli naive Bayes": BernoulliNB(),
    "linear SVM": LinearSVC(random_state=SEED),
    "decision tree": DecisionTreeClassifier(random_state=SEED),
    "linear discriminant analysis": LinearDiscriminantAnalysis(),
    "AdaBoost": AdaBoostClassifier(random_state=SEED),
    "bagging": BaggingClassifier(random_state=SEED),
    "gradient boosting": GradientBoostingClassifier(random_state=SEED),
    "multilayer perceptron": MLPClassifier(early_stopping=True, random_state=SEED),
}
Scores = dict[str, dict[str, float]]  # of each classifier: AUROC and AUPRC


def _split(index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    schema = census_rows.frame()[1]
    x = features(schema, LABEL, index).toarray()
    return x, np.isin(index[:, schema.names.index(LABEL)], YES)


def scores(train: np.ndarray, tests: Mapping[str, np.ndarray]) -> dict[str, Scores]:
    """AUROC and AUPRC of every classifier, by the test rows' name.

    Where the training rows have one class alone, a classifier knows nothing: AUROC is 0.5, and AUPRC the
    share of the yes rows. Where the test rows have one class alone, both are so too.

    Parameters
    ----------
    train : ndarray, shape (rows, columns)
        Category codes.
    tests : mapping of ndarray, shape (rows, columns)
    """
    x, yes = _split(train)
    holdout = {name: _split(index) for name, index in tests.items()}
    results: dict[str, Scores] = {name: {} for name in tests}
    for title, classifier in CLASSIFIERS.items():
        fitted = clone(classifier).fit(x, yes) if len({*yes}) == 2 else None
        for name, (rows, truth) in holdout.items():
            if fitted is None or len({*truth}) < 2:
                pair = (0.5, float(truth.mean()))
            else:
                score = _score(fitted, rows)
                pair = (roc_auc_score(truth, score), average_precision_score(truth, score))
            results[name][title] = {
                key: round(float(value), 4)
                for key, value in zip(("auroc", "auprc"), pair, strict=True)
            }
    return results


def _score(classifier: object, rows: np.ndarray) -> np.ndarray:
    if hasattr(classifier, "decision_function"):
        return classifier.decision_function(rows)
    return classifier.predict_proba(rows)[:, 1]  # type: ignore[attr-defined]


@lru_cache(maxsize=1)
def real() -> tuple[np.ndarray, np.ndarray]:
    """Category codes of private rows to train on, and of test rows that no fit has seen."""
    return census_rows.codes()[:TRAIN], census_rows.held_out(TEST)


def setting_a() -> Scores:
    train, test = real()
    return scores(train, {"A": test})["A"]


def settings_b_and_c(synthetic: np.ndarray) -> dict[str, Scores]:
    """Of a synthetic table: its first rows train, the next are the test of setting C."""
    return scores(synthetic[:TRAIN], {"B": real()[1], "C": synthetic[TRAIN : TRAIN + TEST]})


def mean(by_test: Scores, figure: str) -> float:
    return float(np.mean([score[figure] for score in by_test.values()]))


def agreement(one: Scores, other: Scores) -> float:
    """Synthetic ranking agreement: the share of pairs of classifiers that two settings rank alike, by AUROC.

    1 is best, 0.5 is a random order. A tie in either setting counts as disagreement, as in the paper.
    """
    pairs = list(permutations(one, 2))
    alike = [
        (one[a]["auroc"] - one[b]["auroc"]) * (other[a]["auroc"] - other[b]["auroc"]) > 0
        for a, b in pairs
    ]
    return float(np.mean(alike))
