"""Black-box audits: many small fits on two neighbours, told apart by nothing but synthetic rows.

The number of rows is declared, the same in both worlds, and so is the number of synthetic rows: an attack
that merely counts learns nothing. (The harness of Ganev et al. 2024 fixes neither in its worst case.)
Runs are kept in a file as they end, one line each, so that an audit can be stopped and goes on.
"""

import itertools
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tabsynth._random import Randomness
from tabsynth._validate import integer, one_of
from tabsynth.auditing.lower_bounds import CONFIDENCE, bounded, ceiling, separation
from tabsynth.auditing.outcomes import REFUTED, AuditResult, judged
from tabsynth.auditing.worlds import CASES, Worlds, census_worlds
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.accounting.accountants import gaussian_epsilon, gaussian_mu
from tabsynth.privacy.certificate.certificate import code
from tabsynth.synthesizers import METHODS, Synthesizer
from tabsynth.synthesizers.gan.dpgan import VARIANTS
from tabsynth.synthesizers.gan.dpwgan import WGANConfig
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.pate.config import PATEConfig
from tabsynth.training.loop import Progress

KIND, FORMAT = "black-box", "tabsynth-audit-runs/1"
LEAST_RUNS = 20  # in each world: with fewer there is nothing to learn from
Fit = Callable[[pd.DataFrame], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all runs of one audit have in common."""

    method: str
    epsilon: float
    delta: float
    case: str = "average"
    rows: int = 100

    def __post_init__(self) -> None:
        one_of("method", self.method, METHODS)
        one_of("case", self.case, CASES)
        integer("rows", self.rows, least=10)

    def worlds(self) -> Worlds:
        """The neighbours."""
        return census_worlds(self.rows, self.case)


class Runs:
    """The features of every run, by world, and the file that keeps them.

    Parameters
    ----------
    path : path
        Written to at its end only. A line that a crash left half is dropped.
    setting : Setting

    Raises
    ------
    InputError
        If the file is of another audit, or of other code: after a change, older runs say nothing.
    FileFormatError
        If it is no file of runs.
    """

    def __init__(self, path: str | Path, setting: Setting) -> None:
        self.path = Path(path)
        self.found: tuple[list[list[float]], list[list[float]]] = ([], [])
        self._head = {"format": FORMAT, **asdict(setting), "code": code()["sha256"]}
        if self.path.exists() and self.path.stat().st_size:
            self._read()
        else:
            self._append(self._head)

    def _read(self) -> None:
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        try:
            head, *runs = [json.loads(line) for line in whole.splitlines()]
            if not isinstance(head, dict) or head.get("format") != FORMAT:
                raise ValueError
            for run in runs:
                self.found[run["world"]].append([float(x) for x in run["features"]])
            if len({len(run) for world in self.found for run in world}) > 1:
                raise ValueError
        except (ValueError, KeyError, IndexError, TypeError):
            raise FileFormatError(
                f"{self.path} is not a file of audit runs, or is damaged; remove it to begin anew."
            ) from None
        if {**head, "code": self._head["code"]} != self._head:
            raise InputError(
                f"{self.path} holds runs of another audit ({head.get('method')}, epsilon"
                f" {head.get('epsilon')}, {head.get('case')} case); name another folder."
            )
        if head.get("code") != self._head["code"]:
            raise InputError(
                f"{self.path} holds runs of other code than this; remove it to begin anew, or go on with the"
                " code that made them."
            )
        if len(whole) < len(text):
            os.truncate(self.path, len(whole))

    def add(self, world: int, features: np.ndarray) -> None:
        """Keep one run."""
        values = [float(x) for x in features]
        self._append({"world": world, "features": values})
        self.found[world].append(values)

    def _append(self, line: dict[str, Any]) -> None:
        try:
            file: IO[str]
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise InputError(f"Cannot write {self.path}: {error.strerror}.") from None

    def next_world(self) -> int:
        """The world that has fewer runs."""
        return int(len(self.found[1]) < len(self.found[0]))

    def __len__(self) -> int:
        return sum(map(len, self.found))


def audit_black_box(
    setting: Setting,
    path: str | Path,
    *,
    runs: int = 500,
    fit: Fit | None = None,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
) -> AuditResult:
    """Fit until there are ``runs`` in each world, and bound ε by how well they are told apart.

    Parameters
    ----------
    setting : Setting
    path : path
        The file that keeps the runs; those in it count.
    fit : callable, optional
        From a table to value numbers of synthetic rows; by default the method, in small.
    """
    if integer("runs", runs) < LEAST_RUNS:
        raise InputError(f"Expected runs of at least {LEAST_RUNS}, got {runs}.")
    kept, worlds = Runs(path, setting), setting.worlds()
    canary = worlds.index(worlds.canary)[0]
    make = fit or small_fit(setting, worlds)
    started = time.monotonic()
    while len(kept) < 2 * runs:
        world = kept.next_world()
        kept.add(world, features(make(worlds.table(world == 1)), canary))
        if progress is not None:
            progress(f"{KIND} {setting.method}", len(kept), 2 * runs)
    found = np.array(kept.found[0][:runs]), np.array(kept.found[1][:runs])
    return told_apart(setting, found, time.monotonic() - started, confidence)


def features(rows: np.ndarray, canary: np.ndarray) -> np.ndarray:
    """What an attack looks at: how many values, pairs of values and rows are the canary's.

    Parameters
    ----------
    rows : int array, shape (m, columns)
    canary : int array, shape (columns,)

    Returns
    -------
    ndarray
        Shares of rows that agree in each column, in each pair of columns, and in all; the most columns
        that any row agrees in, and the mean.
    """
    same = rows == canary
    pairs = [
        (same[:, a] & same[:, b]).mean() for a, b in itertools.combinations(range(same.shape[1]), 2)
    ]
    agree = same.sum(1)
    return np.array(
        [*same.mean(0), *pairs, same.all(1).mean(), agree.max(), agree.mean()], dtype=float
    )


def told_apart(
    setting: Setting,
    found: tuple[np.ndarray, np.ndarray],
    seconds: float,
    confidence: float = CONFIDENCE,
) -> AuditResult:
    """Learn to tell the worlds apart from the first half of the runs, and count errors on the other."""
    half = len(found[0]) // 2
    attack = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    attack.fit(np.concatenate([f[:half] for f in found]), np.repeat([0, 1], half))
    scores = [attack.decision_function(f) for f in found]
    bound = bounded(scores[0], scores[1], setting.delta, confidence)
    by_mu = gaussian_epsilon(bound.mu, setting.delta) if bound.mu > 0 else 0.0
    # Only MargNet's claim is one of a Gaussian mechanism, exactly.
    mu = gaussian_mu(setting.epsilon, setting.delta) if setting.method == "margnet" else None
    verdict = judged(bound.epsilon, setting.epsilon, bound.mu, mu)
    counted = bound.errors.without
    wrong = bound.errors.false_positives + bound.errors.false_negatives
    said = "Refuted" if verdict == REFUTED else "Not refuted"
    return AuditResult(
        kind=KIND,
        method=setting.method,
        part=f"synthetic rows, {setting.case} case",
        verdict=verdict,
        sentence=(
            f"{said}: from synthetic rows alone the attack was right {1 - wrong / (2 * counted):.1%} of the"
            f" time (chance: 50%), so ε is at least {bound.epsilon:.3g}, of {setting.epsilon:g} claimed."
        ),
        epsilon_claimed=setting.epsilon,
        delta=setting.delta,
        epsilon_lower=bound.epsilon,
        mu_claimed=mu,
        mu_estimate=separation(scores[0][half:], scores[1][half:]),
        mu_lower=bound.mu,
        confidence=confidence,
        runs=counted,
        power=(
            f"No bound above ε = {ceiling(counted, setting.delta, confidence):.2f} can come of so many"
            " runs; and another attack may see more."
        ),
        details={
            "epsilon_by_mu": by_mu,
            "false_positives": bound.errors.false_positives,
            "false_negatives": bound.errors.false_negatives,
            "rows": setting.rows,
            "seconds": round(seconds, 1),
        },
    )


def small_fit(setting: Setting, worlds: Worlds) -> Fit:
    """The method in small, as a user would call it: fit, and as many synthetic rows as were declared."""
    given: dict[str, Any] = {"epsilon": setting.epsilon, "delta": setting.delta}
    given |= {"rows": setting.rows, "device": "cpu", **_small(setting)}

    def fit(table: pd.DataFrame) -> np.ndarray:
        model: Synthesizer = METHODS[setting.method](worlds.schema, **given)
        model.fit(table)
        draw = model.trained_.generator.sample
        return np.asarray(draw(setting.rows, Randomness().torch()))

    return fit


def _small(setting: Setting) -> dict[str, Any]:
    """Configurations that a fit of a hundred rows needs no more than."""
    networks: dict[str, Any] = {"latent_dim": 8, "generator_hidden": (32,)}
    few = {"critic_steps": 50, "critic_hidden": (32,), "sampling_rate": 1.0, **networks}
    votes: dict[str, Any] = {
        "teachers": max(2, setting.rows // 10),
        "config": PATEConfig(labels=100, rounds=1, round_steps=20, features=60, **networks),
    }
    settings: dict[str, dict[str, Any]] = {
        "margnet": {"config": MargNetConfig(components=50, steps=100, latent_dim=16, hidden=(32,))},
        "dp-wgan": {"config": WGANConfig(**few)},
        "dp-gan": {"config": _replaced(VARIANTS["advanced"], few)},
        "pate-gan": votes,
        "pate-acgan": {**votes, "label": worlds_label(setting)},
    }
    return settings.get(setting.method, {})


def _replaced(config: Any, changes: dict[str, Any]) -> Any:
    return type(config)(**{**asdict(config), **changes})


def worlds_label(setting: Setting) -> str:
    """The class of PATE-ACGAN: the last column."""
    return setting.worlds().schema.columns[-1].name
