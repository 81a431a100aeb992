"""The file of a project's ledger: a journal with the project's limit, never made by a slip in its name."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any, ClassVar

from tabsynth._validate import between, positive, shown
from tabsynth.errors import BudgetError, FileFormatError, InputError
from tabsynth.privacy.accounting import Spend, gaussian_epsilon
from tabsynth.privacy.filters import COMPOSITIONS, RENYI, PrivacyFilter, check_order
from tabsynth.privacy.journal import Journal
from tabsynth.privacy.ledger import past
from tabsynth.privacy.locked_file import open_locked

FORMAT, BEFORE = "tabsynth-project-ledger/2", "tabsynth-project-ledger/1"
ALONE = "whole budget"  # of a run's line: see :class:`SharedJournal`
LEAST_LEFT = 1e-3  # of epsilon: below it nothing is left


class SharedJournal(Journal):
    """The file; ``new`` is the first line of one that does not exist yet.

    Attributes
    ----------
    filter : PrivacyFilter
        Of the budget that the first line has, with the order that was fixed there.

    Formal guarantees
    -----------------
    All that is written off in the file by runs that :meth:`check_admitted` let pass is (ε, δ)-DP together,
    whatever later plans took from earlier outputs. *Proof.* Two cases, told apart by the plan of the first run
    that reads a row, before there is an output. It fits the filter: then all that is ever admitted does, and
    the filter's theorem applies. It does not, but its own (ε, δ) by the accountant of fixed lists is within
    the limit: its line says so, nothing else is ever admitted, and it alone is (ε, δ)-DP. ∎
    """

    filter: PrivacyFilter

    shared: ClassVar[bool] = True

    def __init__(
        self, path: Path, new: Mapping[str, Any] | None = None, *, locked: bool = True
    ) -> None:
        self._new = new
        self.project, self.table = "", ""
        self._start(path, _opened(path, new is not None, locked))

    def _header(self) -> dict[str, Any]:
        if self._new is None:
            raise FileFormatError(
                f"{self.path} holds no ledger. If one was there, restore it from a copy: a new one"
                " forgets what is spent. Else name another file."
            )
        return {"record": "ledger", "format": FORMAT, **self._new}

    def spends(self, but: str | None = None) -> list[Spend]:
        """All that is written off, but for one run."""
        entries = self.entries.values()
        return [(e.mechanism, e.spent) for e in entries if e.spent and e.run != but]

    def taken(self, but: str | None = None) -> bool:
        """Whether a first run, other than ``but``, took the whole budget for itself."""
        spent = {e.run for e in self.entries.values() if e.spent and e.run != but}
        return any(self.runs.get(run, {}).get(ALONE) is True for run in spent)

    def fits_alone(self, spends: Sequence[Spend], run: str) -> bool:
        """Whether a run may have the whole budget: nothing was read before, and its plan's own ε is within."""
        if self.filter.composition != RENYI or self.spends(but=run):
            return False
        return past(*self.limit, spends) is None

    def left(self, but: str | None = None) -> float:
        """ε of one more fit that spends by Gaussians on the whole table, as margnet does; rounded down."""
        epsilon, delta = self.limit
        spends = self.spends(but)
        if math.isinf(epsilon) or not spends:
            return epsilon
        mu = 0.0 if self.taken(but) else self.filter.mu_left(spends)
        found = gaussian_epsilon(mu, delta) if mu > 0 else 0.0
        return math.floor(found * 1e3) / 1e3

    def check_admitted(
        self,
        run: str,
        spends: Sequence[Spend],
        what: str = "the plan",
        *,
        alone: bool | None = None,
    ) -> None:
        """Refuse ``spends``, all of one run, if the budget does not cover them with those of other runs.

        Parameters
        ----------
        alone : bool, optional
            Whether the run may have the whole budget as the first; by default, what its line says.

        Raises
        ------
        BudgetError
        """
        epsilon, delta = self.limit
        others, head = self.spends(but=run), f"Ledger {self.path.name}:"
        try:
            if not self.taken(but=run) and self.filter.admits([*others, *spends]):
                return
            needed = self.filter.share(spends)
        except BudgetError as error:
            raise BudgetError(f"{head} {error} Nothing was read.") from None
        if alone is None:
            alone = self.runs.get(run, {}).get(ALONE) is True
        if alone and self.fits_alone(spends, run):
            return
        used = 1.0 if self.taken(but=run) else self.filter.share(others)
        left = self.left(but=run)
        remedy = f"about {left:.4g} is left for another fit: ask for less (--epsilon)"
        if left < LEAST_LEFT:
            remedy = "nothing is left for another fit: the project is at its end"
        raise BudgetError(
            f"{head} {what} would pass its limit of {epsilon:g} (delta={delta:g}): {used:.1%} of the budget is"
            f" used, and {needed:.1%} is needed; {remedy}. Nothing was read."
        )

    def _check_limit(self, record: dict[str, Any]) -> None:
        if record.get("format") == BEFORE:
            raise FileFormatError(
                f"{self.path} is of format {BEFORE!r}, which is no privacy filter; make a new ledger for the"
                " part of the budget that is left."
            )
        if record.get("format") != FORMAT:
            raise FileFormatError(
                f"{self.path}: expected format {FORMAT!r}, got {shown(record.get('format'))}."
            )
        epsilon = math.inf if record["epsilon"] == "inf" else record["epsilon"]
        positive("epsilon", epsilon, finite=False)
        between("delta", record["delta"], 0, 1, low_open=True, high_open=True)
        self.limit = (float(epsilon), float(record["delta"]))
        if record["composition"] not in COMPOSITIONS:
            raise FileFormatError(
                f"{self.path}: unknown composition {shown(record['composition'])}."
            )
        order = record["order"]
        self.filter = PrivacyFilter(
            epsilon=self.limit[0],
            delta=self.limit[1],
            composition=record["composition"],
            order=check_order(order, epsilon) if record["composition"] == RENYI else None,
        )
        self.project, self.table = str(record["project"]), str(record["table"])


def _opened(path: Path, new: bool, locked: bool) -> int:
    if new and path.exists():
        raise InputError(f"{path} exists already; a ledger is never made anew in its place.")
    if not new and not path.exists():
        raise InputError(f"There is no ledger {path}; {_how_to_make(path)}")
    if locked:
        wait = "it keeps the ledger until it ends: wait for it"
        fd = open_locked(path, os.O_CREAT | os.O_EXCL if new else 0, wait)
    else:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise InputError(f"Cannot open ledger {path}: {error.strerror}.") from None
    if not S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise InputError(f"Cannot open ledger {path}: not a file.")
    return fd


def _how_to_make(path: Path) -> str:
    return f"make one: tabsynth ledger create {path} --epsilon E"
