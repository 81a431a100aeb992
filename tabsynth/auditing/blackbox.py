"""Black-box audits: many small fits on two neighbouring datasets, distinguished by synthetic rows only.

The declared number of rows and the number of synthetic rows are the same for both datasets, so an attack cannot use
them. (The harness of Ganev et al. 2024 fixes neither in its worst case.) Each run is written to a file when it ends,
so an interrupted audit can be resumed.
"""

import itertools
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tabsynth._files import writing
from tabsynth._random import Randomness
from tabsynth._typing import JsonObject
from tabsynth._validate import integer, one_of
from tabsynth.auditing.fixtures import find_fixture
from tabsynth.auditing.linked_datasets import LinkedDatasets, many_datasets
from tabsynth.auditing.lower_bounds import CONFIDENCE, estimate_bounds, estimate_mu, largest_bound
from tabsynth.auditing.neighbouring_datasets import (
    NeighbouringDatasets,
    census_neighbouring_datasets,
)
from tabsynth.auditing.outcomes import REFUTED, AuditResult, decide_verdict
from tabsynth.auditing.request import BLACK_BOX, MIN_RUNS
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.accounting.accountants import gaussian_epsilon, gaussian_mu
from tabsynth.privacy.certificate.certificate import code
from tabsynth.synthesizers.estimator import LINKED, METHODS, Synthesizer
from tabsynth.training.loop import Progress

FORMAT = "tabsynth-audit-runs/2"
Codes = (
    np.ndarray | Mapping[str, np.ndarray]
)  # of rows; of linked tables those of each table's records
Fit = Callable[[object], Codes]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The settings that all runs of one audit share.

    For a method of linked tables, ``rows`` are those of the root, and the canary is a row of the root with its other
    records.
    """

    method: str
    epsilon: float
    delta: float
    rows: int = 100

    def __post_init__(self) -> None:
        """Check the fields."""
        one_of("method", self.method, (*METHODS, *LINKED))
        integer("rows", self.rows, least=10)

    @property
    def is_linked(self) -> bool:
        """True if the method is one of linked tables."""
        return self.method in LINKED

    def datasets(self) -> NeighbouringDatasets | LinkedDatasets:
        """Return the neighbouring datasets."""
        if self.is_linked:
            return many_datasets(self.rows)
        return census_neighbouring_datasets(self.rows)


class RunStore:
    """The features of every run, by dataset, and the file that stores them.

    Parameters
    ----------
    path : path
        Lines are only appended. An incomplete last line is dropped.
    setting : Setting

    Raises
    ------
    InputError
        If the file is of another audit or of another version of the code.
    FileFormatError
        If it is not a file of runs.
    """

    def __init__(self, path: str | Path, setting: Setting) -> None:
        self.path = Path(path)
        self.features: tuple[list[list[float]], list[list[float]]] = ([], [])
        self._head = {"format": FORMAT, **asdict(setting), "code": code()["sha256"]}
        if self.path.exists() and self.path.stat().st_size:
            self._read()
        else:
            self._append(self._head)

    def _read(self) -> None:
        text = self.path.read_bytes()
        complete_lines = text[: text.rfind(b"\n") + 1]
        try:
            head, *runs = [json.loads(line) for line in complete_lines.splitlines()]
            if not isinstance(head, dict) or head.get("format") != FORMAT:
                raise ValueError
            for run in runs:
                self.features[run["dataset"]].append([float(x) for x in run["features"]])
            if len({len(run) for dataset in self.features for run in dataset}) > 1:
                raise ValueError
        except (ValueError, KeyError, IndexError, TypeError):
            raise FileFormatError(
                f"{self.path} is not a file of audit runs, or is damaged; remove it to start again."
            ) from None
        if {**head, "code": self._head["code"]} != self._head:
            raise InputError(
                f"{self.path} holds runs of another audit ({head.get('method')}, epsilon"
                f" {head.get('epsilon')}); name another folder."
            )
        if head.get("code") != self._head["code"]:
            raise InputError(
                f"{self.path} holds runs of another version of the code; remove it to start again, or resume"
                " with that version."
            )
        if len(complete_lines) < len(text):
            os.truncate(self.path, len(complete_lines))

    def add(self, dataset: int, features: np.ndarray) -> None:
        """Store one run."""
        values = [float(x) for x in features]
        self._append({"dataset": dataset, "features": values})
        self.features[dataset].append(values)

    def _append(self, line: JsonObject) -> None:
        file: IO[str]
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def next_dataset(self) -> int:
        """Return the dataset with fewer runs: 0 without the canary, 1 with it."""
        return int(len(self.features[1]) < len(self.features[0]))

    def __len__(self) -> int:
        """Return the number of stored runs."""
        return sum(map(len, self.features))


def audit_black_box(
    setting: Setting,
    path: str | Path,
    *,
    runs: int = 500,
    datasets: NeighbouringDatasets | None = None,
    fit: Fit | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Fit until there are ``runs`` on each dataset, and bound ε by the attack's errors.

    Parameters
    ----------
    setting : Setting
    path : path
        The file that stores the runs. Runs that it contains already are used.
    datasets : NeighbouringDatasets, optional
        In place of those of the setting.
    fit : callable, optional
        From a table to category codes of synthetic rows; default: the method with small networks.
    """
    if integer("runs", runs) < MIN_RUNS:
        raise InputError(f"Expected runs of at least {MIN_RUNS}, got {runs}.")
    store, of_setting = RunStore(path, setting), datasets or setting.datasets()
    canary = of_setting.canary_codes()
    make = fit or make_small_fit(setting, of_setting)
    started = time.monotonic()
    while len(store) < 2 * runs:
        dataset = store.next_dataset()
        store.add(dataset, extract_features(make(of_setting.table(dataset == 1)), canary))
        if progress is not None:
            progress(f"{BLACK_BOX} {setting.method}", len(store), 2 * runs)
    features = np.array(store.features[0][:runs]), np.array(store.features[1][:runs])
    return distinguish(setting, features, time.monotonic() - started)


def extract_features(rows: Codes, canary: Codes) -> np.ndarray:
    """Extract the attack's features: how often values, pairs of values and rows equal the canary's.

    Parameters
    ----------
    rows : int array, shape (m, columns), or dict of them
    canary : int array, shape (columns,), or dict of them
        By table: then the features of all tables, of which one without rows agrees with nothing.

    Returns
    -------
    ndarray
        Shares of rows that agree in each column, in each pair of columns, and in all columns; the largest and the
        mean number of columns in which a row agrees.
    """
    if isinstance(rows, Mapping):
        assert isinstance(canary, Mapping)
        return np.concatenate([extract_features(rows[name], canary[name]) for name in canary])
    same = rows == canary if len(rows) else np.zeros((1, len(canary)), dtype=bool)
    pairs = [
        (same[:, a] & same[:, b]).mean() for a, b in itertools.combinations(range(same.shape[1]), 2)
    ]
    agree = same.sum(1)
    return np.array(
        [*same.mean(0), *pairs, same.all(1).mean(), agree.max(), agree.mean()], dtype=float
    )


def distinguish(
    setting: Setting,
    features: tuple[np.ndarray, np.ndarray],
    seconds: float,
) -> AuditResult:
    """Train a classifier of the dataset on the first half of the runs and count errors on the other half."""
    half = len(features[0]) // 2
    attack = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    attack.fit(np.concatenate([f[:half] for f in features]), np.repeat([0, 1], half))
    scores = [attack.decision_function(f) for f in features]
    bound = estimate_bounds(scores[0], scores[1], setting.delta)
    by_mu = gaussian_epsilon(bound.mu, setting.delta) if bound.mu > 0 else 0.0
    gaussian = find_fixture(setting.method).gaussian
    mu = gaussian_mu(setting.epsilon, setting.delta) if gaussian else None
    verdict = decide_verdict(bound.epsilon, setting.epsilon, bound.mu, mu)
    counted = bound.errors.runs_without
    wrong = bound.errors.false_positives + bound.errors.false_negatives
    finding = "Refuted" if verdict == REFUTED else "No evidence against the claim"
    largest = largest_bound(counted, setting.delta)
    return AuditResult(
        kind=BLACK_BOX,
        method=setting.method,
        part="synthetic rows",
        verdict=verdict,
        sentence=(
            f"{finding}: from synthetic rows the attack is correct in {1 - wrong / (2 * counted):.1%} of the runs"
            f" (guessing: 50%), which gives ε ≥ {bound.epsilon:.3g}; the claim is ε = {setting.epsilon:g}."
        ),
        epsilon_claimed=setting.epsilon,
        delta=setting.delta,
        epsilon_lower=bound.epsilon,
        mu_claimed=mu,
        mu_estimate=estimate_mu(scores[0][half:], scores[1][half:]),
        mu_lower=bound.mu,
        confidence=CONFIDENCE,
        runs=counted,
        power=(
            f"With this number of runs, no lower bound above ε = {largest:.2f} is possible. Other attacks may be"
            " stronger."
        ),
        details={
            "epsilon_by_mu": by_mu,
            "false_positives": bound.errors.false_positives,
            "false_negatives": bound.errors.false_negatives,
            "rows": setting.rows,
            "seconds": round(seconds, 1),
        },
    )


def make_small_fit(setting: Setting, datasets: NeighbouringDatasets | LinkedDatasets) -> Fit:
    """Return a function that fits the method with small networks and draws the declared number of rows."""
    parameters = find_fixture(setting.method).small(datasets.schema, setting.rows)
    parameters_of_fit: JsonObject = {"epsilon": setting.epsilon, "delta": setting.delta}
    parameters_of_fit |= {"rows": setting.rows, "device": "cpu", **parameters}
    estimator = (LINKED if setting.is_linked else METHODS)[setting.method]

    def fit(table: object) -> Codes:
        model: Synthesizer = estimator(datasets.schema, **parameters_of_fit)
        model.fit(table)
        drawn = model.model_.generator.sample(setting.rows, Randomness().torch())
        if isinstance(datasets, LinkedDatasets):
            records = LinkedEncoder(datasets.schema).to_rows(drawn)
            return {name: rows.codes for name, rows in records.items()}
        return np.asarray(drawn)

    return fit
