"""A project's ledger: all fits and reports of one table share a file, a limit and an accountant (R7).

The file is a journal (:mod:`tabsynth.privacy.journal`) whose first line has the project's limit. A fit under
it has its own budget, and all that it reserves is in this file before a row is read. It holds the file's
lock from its beginning to its end, so that what the others have spent stands still meanwhile. A fit
that was killed keeps what it had reserved on the ledger, and no claim on the rest of its plan: whether the
rest still fits is asked again when it goes on.

What no file can know: whether the table is the same in all fits, and whether every fit of it was made
under this ledger. That is the steward's promise. And whoever puts an older copy in its place makes it
forget; but a certificate names the ``chain`` of its moment, which an older copy lacks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tabsynth._validate import between, positive, shown
from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy.accounting import Spend, epsilon_of, gaussian_epsilon, gaussian_mu
from tabsynth.privacy.calibration import calibrate
from tabsynth.privacy.certificate import number
from tabsynth.privacy.ledger import Ledger, past
from tabsynth.privacy.mechanisms import Gaussian, of_sum
from tabsynth.privacy.recording import new_name, now
from tabsynth.privacy.shared import SharedJournal

LONGEST = 200  # characters of the table's label
LEAST_LEFT = 1e-3  # of epsilon: below it nothing is left


@dataclass(frozen=True, kw_only=True)
class Entered:
    """A fit or a report on the ledger.

    Attributes
    ----------
    run : str
    what : str
        The synthesizer's method, or ``report``.
    when : str
        UTC, ISO 8601: when it began.
    epsilon : float
        What it alone has spent, at the project's delta.
    so_far : float
        What it and all before it have spent together.
    ended : bool
        False while it runs, and if it was killed.
    """

    run: str
    what: str
    when: str
    epsilon: float
    so_far: float
    ended: bool


class ProjectLedger:
    """A project's ledger, held by this process until it is released, or read once.

    Parameters
    ----------
    path : path
        Made by :meth:`create`; a missing one is refused, for a slip in a name must not make a new budget.
    locked : bool
        False reads what is there now, and writes nothing.

    Formal guarantees
    -----------------
    For all fits and reports of one table that were made under it: what they have spent composes to at most
    its (epsilon, delta), adaptively, for adding or removing one record. A fit whose plan would pass it is
    refused before it reads a row.

    Raises
    ------
    InputError
        If there is none, or another fit has it.
    FileFormatError
        If it is damaged, or not a project's ledger.
    """

    def __init__(self, path: str | Path, *, locked: bool = True) -> None:
        self.journal = SharedJournal(Path(path), locked=locked)

    @classmethod
    def create(
        cls, path: str | Path, *, epsilon: float, delta: float = 1e-5, table: str = ""
    ) -> None:
        """Make a new one, for the owner's eyes only (mode 0600).

        Parameters
        ----------
        epsilon, delta : float
            The limit of all fits together; ``math.inf`` counts, and refuses nothing.
        table : str
            What the table is called, for people; certificates repeat it.
        """
        positive("epsilon", epsilon, finite=False)
        between("delta", delta, 0, 1, low_open=True, high_open=True)
        if not isinstance(table, str) or len(table) > LONGEST or not table.isprintable():
            raise InputError(
                f"Expected table to be one line of at most {LONGEST} characters, got {shown(table)}."
            )
        header = {"epsilon": number(float(epsilon)), "delta": float(delta), "table": table}
        SharedJournal(Path(path), {**header, "project": new_name()}).release()

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """What is there now, also while a fit holds it."""
        ledger = cls(path, locked=False)
        ledger.release()
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let others have it."""
        self.journal.release()

    # What it says.

    @property
    def name(self) -> str:
        """Of the file, without its folders."""
        return self.journal.path.name

    @property
    def project(self) -> str:
        """Drawn when it was made: tells two ledgers of one name apart."""
        return self.journal.project

    @property
    def table(self) -> str:
        """What its maker called the table."""
        return self.journal.table

    @property
    def epsilon(self) -> float:
        """The limit."""
        return self.journal.limit[0]

    @property
    def delta(self) -> float:
        """At which all is composed."""
        return self.journal.limit[1]

    @property
    def spent(self) -> float:
        """ε of all fits together, by one accountant; what is reserved is spent."""
        return epsilon_of(self._spends(), self.delta)

    def left(self) -> float:
        """ε of one more fit that spends by full-batch Gaussians, as margnet does.

        Rounded down; of fits with other mechanisms it is an estimate, for they compose a little otherwise.
        """
        spends = self._spends()
        if math.isinf(self.epsilon) or not spends:
            return self.epsilon
        mu = _mu_left(spends, self.epsilon, self.delta)
        found = gaussian_epsilon(mu, self.delta) if mu > 0 else 0.0
        return math.floor(found * 1e3) / 1e3

    def entered(self) -> list[Entered]:
        """All that was entered, in order."""
        found, before = [], list[Spend]()
        for run, about in self.journal.runs.items():
            entries = [e for e in self.journal.entries.values() if e.run == run]
            own = [(e.mechanism, e.spent) for e in entries]
            before += own
            found.append(
                Entered(
                    run=run,
                    what=str(about.get("what")),
                    when=str(about.get("when")),
                    epsilon=epsilon_of(own, self.delta),
                    so_far=epsilon_of(before, self.delta),
                    ended=bool(entries) and all(e.closed for e in entries),
                )
            )
        return found

    def _spends(self, but: str | None = None) -> list[Spend]:
        entries = self.journal.entries.values()
        return [(e.mechanism, e.spent) for e in entries if e.spent and e.run != but]

    # A fit under it.

    def ledger(
        self,
        epsilon: float,
        delta: float,
        *,
        earlier: Sequence[Mapping[str, Any]] = (),
    ) -> Ledger:
        """The ledger of a new run, kept in this file; ``earlier`` counts against its own budget too."""
        run = new_name()
        return Ledger.from_list(epsilon, delta, earlier, journal=self.journal, run=run)

    def check(self, run: str, plan: Sequence[Spend]) -> None:
        """Refuse a run whose whole plan would pass the limit; nothing of it was read yet.

        Raises
        ------
        BudgetError
        """
        total = past(self.epsilon, self.delta, [*self._spends(but=run), *plan])
        if total is None:
            return
        left = self.left()
        remedy = f"about {left:.4g} is left for another fit: ask for less (--epsilon)"
        if left < LEAST_LEFT:
            remedy = "nothing is left for another fit: the project is at its end"
        raise BudgetError(
            f"Ledger {self.name}: would bring the project's epsilon to {total:.4g}, past its limit of"
            f" {self.epsilon:g} (delta={self.delta:g}); {remedy}. Nothing was read."
        )

    def check_on_it(self, what: str, project: Any, run: Any) -> None:
        """Refuse to build on what was made outside of this ledger, for it counts on it too."""
        if project != self.project or run not in self.journal.runs:
            raise InputError(
                f"{what} was not made under ledger {self.name}, so what it spent is not on it; make it"
                " under the same ledger."
            )

    def begin(self, run: str, what: str) -> None:
        """Note what a run is, before its first account."""
        self.journal.begin(run, {"what": what, "when": now()})

    def statement(self, run: str) -> dict[str, Any]:
        """What a certificate says of it: no path, no row, only what was spent together so far."""
        return {
            "ledger": self.name,
            "project": self.project,
            "table": self.table,
            "run": run,
            "epsilon": number(self.spent),
            "delta": self.delta,
            "limit": number(self.epsilon),
            "chain": self.journal.chain,
        }


def _mu_left(spends: Sequence[Spend], epsilon: float, delta: float) -> float:
    """1/σ of the largest Gaussian that still fits."""
    if all(isinstance(mechanism, Gaussian) for mechanism, _ in spends):  # their squares add up
        used = sum(n / of_sum(mechanism).noise_multiplier ** 2 for mechanism, n in spends)
        return math.sqrt(max(0.0, gaussian_mu(epsilon, delta) ** 2 - used))
    try:
        return 1 / calibrate(lambda s: [*spends, (Gaussian(noise_multiplier=s), 1)], epsilon, delta)
    except BudgetError:
        return 0.0
