"""The public estimators: fit a DataFrame under a budget, sample DataFrames, save, load."""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from sklearn.exceptions import NotFittedError

from tabsynth._files import check_writable
from tabsynth._progress import progress_bar
from tabsynth.counter import RowCounter
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.steps import Runs
from tabsynth.errors import InputError
from tabsynth.model_file import write_model
from tabsynth.plan import Plan
from tabsynth.privacy.attached import attach
from tabsynth.privacy.certificate import beside, make_certificate, write_beside
from tabsynth.privacy.ledger import Ledger, as_earlier
from tabsynth.synthesizers.facts import certificate_facts, file_facts
from tabsynth.synthesizers.method import Method, Trained
from tabsynth.synthesizers.parameters import (
    check_domain,
    check_parameters,
    check_size,
    device_of,
    streams,
)
from tabsynth.synthesizers.pricing import priced
from tabsynth.synthesizers.resuming import Run, check_left
from tabsynth.tables import suffix, to_pandas, write_table
from tabsynth.training.loop import INTERRUPTED, Progress, Watch

logger = logging.getLogger(__name__)


class Synthesizer(Method):
    """What all synthesizers share: plan, fit, sample, save."""

    def plan(self, *, estimate_time: bool = True) -> Plan:
        """What :meth:`fit` will spend, before a private row is touched.

        Times are measured on made-up rows: as many as ``rows`` declares, else 20,000.
        """
        self._check_parameters()
        earlier = self._earlier()
        return priced(self, self._spends(earlier), earlier, estimate_time)

    def fit(
        self,
        table: Any,
        y: None = None,
        *,
        progress: Progress | None = None,
        announce: bool = True,
        checkpoint: str | Path | None = None,
        ledger: str | Path | None = None,
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
        checkpoint : path, optional
            A folder for :mod:`tabsynth.training.checkpoint`. After a kill, a Ctrl-C or a time limit
            the same call goes on where it was, on the same budget: steps of unknown outcome count as
            spent. A fit that has ended whole gives its model back, and spends nothing.
        ledger : path, optional
            A project's ledger (:class:`tabsynth.ProjectLedger`): what this fit spends composes there with
            all other fits under it, and is written there before it is read. Held until the fit ends.

        Raises
        ------
        InputError
            If the table or a parameter is not usable; nothing was learned from the table. If the
            checkpoint or the ledger is of another fit, or in use.
        BudgetError
            If the budget, or that of the project, does not allow it.
        KeyboardInterrupt
            After Ctrl-C; the synthesizer is then fitted as far as it came. Its certificate claims the ε of
            the whole plan, for when a person stops a fit may depend on what it showed.
        """
        started = time.monotonic()
        self._check_parameters()
        self.check_domain()
        with Run(self, checkpoint, ledger) as run:
            if run.finished:
                run.give_back()
                return self
            if announce:
                self.tell(priced(self, run.spends, run.ledger, self.verbose))
            encoder = TableEncoder(self.schema, self._encoding())
            index = self._rows(encoder, table)
            run.start()
            deadline = None if self.time_limit is None else started + self.time_limit
            with progress_bar(self.verbose, progress) as shown_progress:
                watch = Watch(progress=shown_progress, deadline=deadline)
                trained = run.train(index, watch)
            # What a later save or sample needs, as it was for this fit, whatever parameters change.
            self.seeded_ = run.seeded
            self.facts_ = self._facts(watch, trained) | run.entered()
            self.config_ = self._config()
            self.encoder_ = encoder
            self.trained_ = trained
            if watch.stopped is None and run.checkpoint is not None:
                run.checkpoint.finish(self.save)
        if watch.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        return self

    def _rows(self, encoder: TableEncoder, table: Any) -> np.ndarray:
        """What is trained on: value numbers, shape (n, columns)."""
        if isinstance(table, RowCounter):
            raise InputError(f"Method {self.method} needs rows; only margnet is fitted to counts.")
        return encoder.to_index(to_pandas(table))

    def tell(self, plan: Plan) -> None:
        """Log the plan; with ``verbose``, show it on stderr too."""
        logger.info("%s", plan)
        if self.verbose:
            console = Console(stderr=True)
            console.print(str(plan), markup=False, highlight=False, soft_wrap=True)

    def check_domain(self) -> None:
        """Refuse a fit on drafted columns that identify people, and a private fit on others unless confirmed."""
        check_domain(self)

    def check_ledger(self, ledger: str | Path) -> None:
        """Refuse a new fit that would pass a project's limit, before there is a table."""
        self._check_parameters()
        Run(self, None, ledger).release()

    def sample(self, n: int, *, random_state: int | None = None) -> pd.DataFrame:
        """Draw ``n`` synthetic rows: the schema's columns, order, dtypes and nulls.

        Costs no privacy. ``random_state`` (default: the synthesizer's own) makes the draw
        reproducible; ``table.attrs["certificate"]`` holds the certificate, with a hash of the table's
        content: a table that was edited, filtered or reordered has no certificate any more.
        """
        self._check_fitted()
        return self._table(n, random_state, self.trained_.generator.sample)

    def sample_to(
        self,
        path: str | Path,
        n: int,
        *,
        random_state: int | None = None,
        formulas: str = "refuse",
        **options: Any,
    ) -> Path:
        """Write ``n`` synthetic rows to a CSV or Parquet file and the certificate beside it.

        ``formulas`` as of :func:`tabsynth.write_table`; ``options`` are those of the method's :meth:`sample`. Returns the path of the certificate.
        """
        suffix(path)
        for output in (path, beside(path)):  # a table must not be left without its certificate
            check_writable(output)
        table = self.sample(n, random_state=random_state, **options)
        write_table(table, path, formulas=formulas)
        return write_beside(table.attrs["certificate"], path, len(table))

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
        write_model(path, file_facts(self), self.trained_.weights())

    # Shared machinery.

    def _table(
        self,
        n: int,
        random_state: int | None,
        draw: Callable[[int, torch.Generator], np.ndarray],
        asked: Mapping[str, Runs] | None = None,
    ) -> pd.DataFrame:
        """A table of ``n`` rows with its certificate, from a sampler of value numbers.

        ``asked``: as of :meth:`TableEncoder.from_index`.
        """
        check_size(n, len(self.encoder_.schema.columns))
        for_codes, for_cells = streams(self, random_state)
        table = self.encoder_.from_index(draw(n, for_codes), for_cells, asked)
        attach(table, self.certificate())
        return table

    def _check_parameters(self) -> None:
        check_parameters(self)
        self._check()

    def _check_fitted(self) -> None:
        if not hasattr(self, "trained_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit first.")

    def _device(self) -> torch.device:
        return device_of(self.device)

    def _earlier_spends(self) -> list[dict[str, Any]]:
        """What counts as spent before the next fit begins, as a ledger lists it."""
        return as_earlier(self.ledger_.to_list()) if hasattr(self, "ledger_") else []

    def _seeded(self) -> bool:
        """Whether whoever knows a seed could subtract some of the noise (R17)."""
        return self.random_state is not None or getattr(self, "seeded_", False)

    def _earlier(self) -> Ledger:
        """A ledger for the next fit on which earlier fits of this object are already spent (R7)."""
        ledger = Ledger.from_list(self.epsilon, self.delta, self._earlier_spends())
        check_left(ledger)
        return ledger

    def _facts(self, watch: Watch, trained: Trained) -> dict[str, Any]:
        """What a certificate says besides the ledger."""
        return certificate_facts(self, watch.stopped, trained)
