"""The public estimators: fit a DataFrame under a budget, sample DataFrames, save, load."""

import hashlib
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Tensor

from tabsynth._files import check_writable
from tabsynth._progress import progress_bar
from tabsynth._random import Randomness
from tabsynth._validate import between, integer, one_of, positive, shown
from tabsynth.encoding import TableEncoder
from tabsynth.errors import BudgetError, InputError
from tabsynth.model_file import write_model
from tabsynth.plan import Plan, PlannedSpend, duration, planned_epsilon
from tabsynth.privacy.certificate import beside, make_certificate, number, write_beside
from tabsynth.privacy.ledger import Ledger
from tabsynth.schema import Schema
from tabsynth.tables import suffix, to_pandas, write_table
from tabsynth.training.loop import INTERRUPTED, Progress, Watch

logger = logging.getLogger(__name__)

NOMINAL_ROWS = 20_000  # what times are estimated for where the caller declares no number of rows
TRIAL_STEPS = 11
TRIAL_ROWS = 100_000
MAX_ROWS = 10**12
MAX_CELLS = 2 * 10**9  # of one sampled table: past it, memory is what fails
MAX_EPSILON = 10_000.0  # past it "private" is an empty word
WEAK_EPSILON, WEAK_DELTA = 20.0, 1e-3


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What training leaves: a sampler of value numbers, its weights, and public diagnostics."""

    generator: Any
    curves: dict[str, dict[str, list[float]]]

    def weights(self) -> dict[str, Tensor]:
        """Everything that sampling needs."""
        return dict(self.generator.state_dict())


class Synthesizer(BaseEstimator):
    """What all synthesizers share. scikit-learn conventions: the constructor only stores.

    Subclasses say what they will spend (``_spends``), train on value numbers (``_train``), and build
    an untrained generator (``_empty``).
    """

    method: ClassVar[str]

    schema: Schema
    epsilon: float
    delta: float
    random_state: int | None
    device: str
    verbose: bool
    rows: int | None
    time_limit: float | None
    accept_drafted_domain: bool
    encoding: str | Mapping[str, str]

    # What subclasses provide.

    def _check(self) -> None:
        """Check the parameters of the subclass."""

    def _spends(self, earlier: Ledger) -> list[PlannedSpend]:
        raise NotImplementedError

    def _train(
        self,
        index: np.ndarray,
        spends: list[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        watch: Watch,
        most: int | None = None,
    ) -> Trained:
        """Train on value numbers; ``most`` caps the steps that cost nothing (of a trial)."""
        raise NotImplementedError

    def _free_steps(self) -> dict[str, int]:
        """Steps of stages that read no private row, by stage."""
        return {}

    def _public_index(self, encoder: TableEncoder) -> np.ndarray | None:
        """Value numbers of the public table that training uses, if any."""
        return None

    def _check_public(self, encoder: TableEncoder, index: np.ndarray) -> None:
        """Refuse the private table itself as the public one."""
        public = self._public_index(encoder)
        if public is not None and np.array_equal(public, index):
            raise InputError(
                "The public table is the table to fit itself; give one that is public, or use"
                " autoencoder='dp-sgd'."
            )

    def _public_facts(self) -> dict[str, Any] | None:
        """What a certificate says of the public table: its rows, and a hash of its value numbers."""
        public = self._public_index(TableEncoder(self.schema, self.encoding))
        if public is None:
            return None
        found = hashlib.sha256(np.ascontiguousarray(public, dtype="<i8").tobytes()).hexdigest()
        return {"rows": len(public), "sha256_of_value_numbers": found}

    def _config(self) -> dict[str, Any]:
        """What rebuilds an untrained generator, JSON-ready."""
        raise NotImplementedError

    @classmethod
    def _from_config(cls, schema: Schema, config: Mapping[str, Any], **shared: Any) -> Self:
        """Inverse of :meth:`_config`."""
        raise NotImplementedError

    def _size(self) -> int:
        """Number of weights of the generator that the configuration describes."""
        raise NotImplementedError

    def _empty(self) -> Any:
        """An untrained generator, for the weights of a file."""
        raise NotImplementedError

    # The public face.

    def plan(self, *, estimate_time: bool = True) -> Plan:
        """What :meth:`fit` will spend, before a private row is touched.

        Times are measured on made-up rows: as many as ``rows`` declares, else 20,000.
        """
        self._check_parameters()
        earlier = self._earlier()
        spends = self._spends(earlier)
        rows = self.rows or NOMINAL_ROWS
        seconds = self._estimated_seconds(spends, rows) if estimate_time else None
        notes = []
        if WEAK_EPSILON < self.epsilon < math.inf:
            notes.append(
                f"note: epsilon above {WEAK_EPSILON:g} promises little to anyone in the table"
            )
        if self.delta > WEAK_DELTA:
            notes.append(
                f"note: delta above {WEAK_DELTA:g} lets whole records leak with that chance"
            )
        if seconds is not None and self.time_limit is not None and seconds > self.time_limit:
            notes.append(
                f"the time limit of {duration(self.time_limit)} will stop it early, with fewer steps"
                " and a smaller epsilon"
            )
        return Plan(
            method=self.method,
            spends=tuple(spends),
            epsilon=planned_epsilon(spends, earlier.spends(), self.delta),
            delta=self.delta,
            rows=rows,
            rows_declared=self.rows is not None,
            device=str(self._device()),
            seconds=seconds,
            notes=tuple(notes),
        )

    def fit(
        self,
        table: Any,
        y: None = None,
        *,
        progress: Progress | None = None,
        announce: bool = True,
    ) -> Self:
        """Fit the table under the budget. The plan is told first (see :meth:`tell`).

        Parameters
        ----------
        table : DataFrame
            pandas, or any that narwhals reads (polars, pyarrow, …); columns as the schema declares.
        progress : callable, optional
            ``progress(stage, done, total)``.
        announce : bool
            False where the caller has shown the plan already.

        Raises
        ------
        InputError
            If the table or a parameter is not usable; nothing was learned from the table.
        BudgetError
            If the budget does not allow it.
        KeyboardInterrupt
            After Ctrl-C; the synthesizer is then fitted as far as it came, and its ledger says what
            that cost.
        """
        started = time.monotonic()
        self._check_parameters()
        self.check_domain()
        if announce:
            self.tell(self.plan(estimate_time=self.verbose))
        ledger = self._earlier()
        spends = self._spends(ledger)
        encoder = TableEncoder(self.schema, self.encoding)
        index = encoder.to_index(to_pandas(table))
        self._check_public(encoder, index)
        self.ledger_ = ledger
        deadline = None if self.time_limit is None else started + self.time_limit
        with progress_bar(self.verbose, progress) as shown_progress:
            watch = Watch(progress=shown_progress, deadline=deadline)
            try:
                trained = self._train(index, spends, ledger, Randomness(self.random_state), watch)
            finally:
                ledger.close()
        # What a later save or sample needs, as it was for this fit, whatever parameters change.
        self.seeded_ = self.random_state is not None or getattr(self, "seeded_", False)
        self.facts_ = self._facts(watch, trained)
        self.config_ = self._config()
        self.encoder_ = encoder
        self.trained_ = trained
        if watch.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        return self

    def tell(self, plan: Plan) -> None:
        """Log the plan; with ``verbose``, show it on stderr too."""
        logger.info("%s", plan)
        if self.verbose:
            console = Console(stderr=True)
            console.print(str(plan), markup=False, highlight=False, soft_wrap=True)

    def check_domain(self) -> None:
        """Refuse a private fit on a schema that was drafted from a table, unless confirmed (R12)."""
        if math.isfinite(self.epsilon) and self.schema.drafted and not self.accept_drafted_domain:
            raise InputError(
                f"The schema's column {shown(self.schema.drafted[0])} was drafted from a table, so it"
                " may hold private facts; declare it from a public source, or confirm with"
                " accept_drafted_domain=True (--accept-drafted-domain)."
            )

    def sample(self, n: int, *, random_state: int | None = None) -> pd.DataFrame:
        """Draw ``n`` synthetic rows: the schema's columns, order, dtypes and nulls.

        Costs no privacy. ``random_state`` (default: the synthesizer's own) makes the draw
        reproducible; ``table.attrs["certificate"]`` holds the certificate.
        """
        self._check_fitted()
        integer("n", n)
        cells = n * len(self.encoder_.schema.columns)
        if cells > MAX_CELLS:
            raise InputError(
                f"Expected n of at most {MAX_CELLS // len(self.encoder_.schema.columns):,} rows at a"
                f" time, got n={n:,}; sample in parts."
            )
        if random_state is not None:
            integer("random_state", random_state, least=0)
        seed = self.random_state if random_state is None else random_state
        # A stream of its own: the draws must not repeat those of the fit.
        randomness = Randomness(None if seed is None else int(seed) + 2**64)
        device = next(iter(self.trained_.weights().values())).device
        index = self.trained_.generator.sample(n, randomness.torch(device))
        table = self.encoder_.from_index(index, randomness.numpy())
        table.attrs["certificate"] = self.certificate()
        return table

    def sample_to(
        self, path: str | Path, n: int, *, random_state: int | None = None, formulas: bool = False
    ) -> Path:
        """Write ``n`` synthetic rows to a CSV or Parquet file and the certificate beside it.

        Returns the path of the certificate.
        """
        suffix(path)
        for output in (path, beside(path)):  # a table must not be left without its certificate
            check_writable(output)
        table = self.sample(n, random_state=random_state)
        write_table(table, path, formulas=formulas)
        return write_beside(self.certificate(), path, len(table))

    def certificate(self) -> dict[str, Any]:
        """What is claimed about every table sampled: a JSON-ready dict."""
        self._check_fitted()
        return make_certificate(
            self.ledger_,
            method=self.method,
            epsilon_asked=self.ledger_.epsilon,
            seeded=self.seeded_,
            **self.facts_,
        )

    def save(self, path: str | Path) -> None:
        """Write the model to one file: weights as safetensors, the rest as JSON. No seed, no row."""
        self._check_fitted()
        encoding = self.encoder_.encoding
        facts = {
            "method": self.method,
            "schema": self.encoder_.schema.to_dict(),
            "epsilon": number(self.ledger_.epsilon),
            "delta": self.ledger_.delta,
            "encoding": encoding if isinstance(encoding, str) else dict(encoding),
            "config": self.config_,
            "ledger": self.ledger_.to_list(),
            "seeded": self.seeded_,
            "facts": self.facts_,
        }
        write_model(path, facts, self.trained_.weights())

    # Shared machinery.

    def _check_parameters(self) -> None:
        if not isinstance(self.schema, Schema):
            raise InputError(f"Expected schema to be a Schema, got {type(self.schema).__name__}.")
        positive("epsilon", self.epsilon, finite=False)
        if MAX_EPSILON < self.epsilon < math.inf:
            raise InputError(
                f"Expected epsilon of at most {MAX_EPSILON:g}, got epsilon={self.epsilon:g}; for a run"
                " without privacy say so: epsilon=inf."
            )
        between("delta", self.delta, 0, 1, low_open=True, high_open=True)
        if self.rows is not None:
            integer("rows", self.rows)
            between("rows", self.rows, 1, MAX_ROWS)
        if self.time_limit is not None:
            positive("time_limit", self.time_limit)
        if self.random_state is not None:
            integer("random_state", self.random_state, least=0)
        self._device()
        self._check()

    def _check_fitted(self) -> None:
        if not hasattr(self, "trained_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _device(self) -> torch.device:
        one_of("device", str(self.device).split(":")[0], ("auto", "cpu", "cuda"))
        cuda = torch.cuda.is_available()
        if self.device == "auto":
            return torch.device("cuda" if cuda else "cpu")
        if str(self.device).startswith("cuda") and not cuda:
            raise InputError(
                "device='cuda' was asked for, but torch finds no CUDA here; use 'auto'."
            )
        try:
            return torch.device(self.device)
        except RuntimeError:
            raise InputError(f"torch knows no device={shown(self.device)}; use 'auto'.") from None

    def _earlier(self) -> Ledger:
        """A ledger for the next fit on which earlier fits of this object are already spent (R7)."""
        items = self.ledger_.to_list() if hasattr(self, "ledger_") else []
        ledger = Ledger.from_list(self.epsilon, self.delta, items)
        if math.isfinite(self.epsilon) and ledger.spent >= self.epsilon * (1 - 0.02):
            raise BudgetError(
                f"This synthesizer has already spent epsilon={ledger.spent:.4g} of {self.epsilon:g};"
                " another fit of the same rows adds to it: raise epsilon to pay for both, or fit a"
                " sklearn.base.clone of it and count both budgets."
            )
        return ledger

    def _facts(self, watch: Watch, trained: Trained) -> dict[str, Any]:
        """What a certificate says besides the ledger."""
        drafted = self.schema.drafted
        return {
            "public": {
                "schema_sha256": self.schema.fingerprint(),
                "declared": [n for n in self.schema.names if n not in drafted],
                "drafted": list(drafted),
                "accepted_drafted_domain": bool(drafted) and self.accept_drafted_domain,
                "rows": None if self.rows is None else int(self.rows),
                "public_table": self._public_facts(),
            },
            "versions": {name: version(name) for name in ("tabsynth", "torch", "opacus", "numpy")},
            "training": {"stopped": watch.stopped, "curves": trained.curves},
        }

    def _estimated_seconds(self, spends: list[PlannedSpend], rows: int) -> float:
        """Time a few steps of each stage on made-up rows, and scale up."""
        sizes, made_up = self.schema.sizes, min(rows, TRIAL_ROWS)
        rng = np.random.default_rng(0)
        index = np.stack([rng.integers(0, size, made_up) for size in sizes], axis=1)
        few = [replace(s, count=min(s.count, TRIAL_STEPS)) for s in spends]
        times: dict[str, list[float]] = {}
        watch = Watch(
            progress=lambda stage, *_: times.setdefault(stage, []).append(time.monotonic())
        )
        started = time.monotonic()
        ledger = Ledger(math.inf, self.delta)
        self._train(index, few, ledger, Randomness(0), watch, most=TRIAL_STEPS)
        total = time.monotonic() - started
        for stage, steps in {**{s.purpose: s.count for s in spends}, **self._free_steps()}.items():
            stamps = times.get(stage, [])
            if len(stamps) >= TRIAL_STEPS:
                # The first steps warm up (imports, allocators): they say nothing of the others.
                total += (steps - TRIAL_STEPS) * (stamps[-1] - stamps[2]) / (len(stamps) - 3)
        return total * rows / made_up
