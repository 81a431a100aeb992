"""Project ledgers: all fits and reports of one table share a file, a limit and a privacy filter.

The file is a journal (:mod:`tabsynth.privacy.ledger.journal`) whose first line has the project's limit and the
filter that keeps it (:mod:`tabsynth.privacy.accounting.accountants`): later fits are chosen by people who saw earlier results.
A fit under it has its own budget, and all that it reserves is in this file before a row is read. It holds the
file's lock from its beginning to its end, so that what the others have spent stands still meanwhile. A fit
that was killed keeps what it had reserved on the ledger, and no claim on the rest of its plan: whether the
rest still fits is asked again when it goes on.

What may be claimed of all fits together is the limit, from the first fit on. No smaller ε is stated for what
they have spent so far, since it follows from their outputs: only the share of the filter's budget is.

A file cannot verify that all fits use the same table, or that every fit of it was made under this ledger. You are
responsible for both. If an older copy replaces the file, later charges are lost; a certificate contains the ``chain``
hash of its time, which an older copy lacks.
"""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import ClassVar, Self

from tabsynth._shown import Shown, wrapped
from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import in_range, positive, quote
from tabsynth.design import neighbour_of
from tabsynth.errors import BudgetError, FileFormatError, InputError
from tabsynth.privacy.accounting.accountants import (
    COMPOSITIONS,
    RENYI,
    PrivacyFilter,
    Spend,
    check_order,
    epsilon_of,
    gaussian_epsilon,
)
from tabsynth.privacy.accounting.mechanisms import (
    THRESHOLD_SHARE,
    Mechanism,
    NoPrivacy,
    ThresholdedGaussian,
    thresholds_of,
)
from tabsynth.privacy.certificate.certificate import epsilon_to_json
from tabsynth.privacy.ledger.journal import Journal, open_locked
from tabsynth.privacy.ledger.ledger import SLACK, Ledger, as_earlier, new_name, now, past

FORMAT, BEFORE = "tabsynth-project-ledger/2", "tabsynth-project-ledger/1"
ALONE = "whole budget"  # of a run's line: see :class:`ProjectLedger`
DRAFT = "schema"  # what a run is that drafts a schema
LEAST_LEFT = 1e-3  # of epsilon: below it nothing is left


LONGEST = 200  # characters of the table's label


@dataclass(frozen=True, kw_only=True)
class LedgerRun(Shown):
    """A fit or a report on a project ledger.

    Attributes
    ----------
    run : str
    what : str
        The synthesizer's method, ``report``, or ``schema`` of a draft.
    when : str
        UTC, ISO 8601: when it began.
    epsilon : float
        Of all that was granted to it, by itself, at the project's delta: the plan was fixed before it began.
    share : float
        The part of the filter's budget that it has used; 1 is all.
    ended : bool
        False while it runs, and if it was killed.
    """

    run: str
    what: str
    when: str
    epsilon: float
    share: float
    ended: bool


class ProjectLedger(Journal, Shown):
    """A project's ledger: a journal that all runs of one table share, held by this process until it is released, or read once.

    Parameters
    ----------
    path : path
        Made by :meth:`create`; a missing one is refused, for a slip in a name must not make a new budget.
    locked : bool
        False reads what is there now, and writes nothing.
    new : mapping, optional
        The first line of a ledger that does not exist yet.

    Attributes
    ----------
    filter : PrivacyFilter
        The filter that admits fits and reports: of the budget that the first line has, with the order that was fixed there,
        at δ less ``threshold_delta``.
    threshold_delta : float
        The part of δ that the first line sets aside for the thresholds of drafts of schemas.
    project : str
        Drawn when it was made: tells two ledgers of one name apart.
    table : str
        The table's name, as its maker gave it.
    unit : str or None
        The column whose values are the units of privacy, of all runs; None: a record is.

    Formal guarantees
    -----------------
    All fits and reports of one table that were made under it are (epsilon, delta)-DP together, for adding or
    removing one record, or all records of one unit of a ledger that has a unit, also where what was fitted next, and with what
    budget, was chosen by earlier results. A fit whose plan would pass that is refused before it reads a row.

    *Proof.* All that is charged in the file is of runs that :meth:`check_admitted` let pass. Two cases, distinguished by
    the plan of the first run that reads a row, before there is an output. It fits the filter: then all that is ever admitted
    does. Let θ be ``threshold_delta``. The filter's theorem gives (ε, δ − θ) of the mechanisms with plain Gaussians in place of
    those with thresholds. Whatever was chosen, these differ from what ran with probability of at most θ
    (:class:`tabsynth.privacy.accounting.mechanisms.ThresholdedGaussian`). It does not, but its own (ε, δ) by the
    accountant of fixed lists is within the limit: its line says so, nothing else is ever admitted, and it alone is
    (ε, δ)-DP. ∎

    Raises
    ------
    InputError
        If there is none, or another fit has it.
    FileFormatError
        If it is damaged, or not a project's ledger.
    """

    filter: PrivacyFilter
    threshold_delta: float
    unit: str | None

    shared: ClassVar[bool] = True

    def __init__(
        self, path: str | Path, *, locked: bool = True, new: JsonMapping | None = None
    ) -> None:
        self._new = new
        self._alone: set[str] = set()  # first runs that may have the whole budget for themselves
        self.project, self.table, self.unit = "", "", None
        self._start(Path(path), _open_file(Path(path), new is not None, locked))

    def _header(self) -> JsonObject:
        if self._new is None:
            raise FileFormatError(
                f"{self.path} contains no ledger. If it had one, restore a copy: a new ledger does not know"
                " earlier charges. Otherwise name another file."
            )
        return {"record": "ledger", "format": FORMAT, **self._new}

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        epsilon: float,
        delta: float = 1e-5,
        table: str = "",
        composition: str = RENYI,
        unit: str | None = None,
    ) -> Self:
        """Make a new ledger file, which only its owner may read (mode 0600), and return the ledger as it is then.

        Parameters
        ----------
        epsilon, delta : float
            The limit of all fits together; ``math.inf`` counts, and refuses nothing.
        table : str
            What the table is called, for people; certificates repeat it.
        composition : {"renyi", "gaussian"}
            The privacy filter. ``"renyi"`` takes every method. Of mechanisms that are all Gaussian noise on the
            whole table it needs 5 to 10% more noise than ``"gaussian"``, which takes only these: margnet, drafts of
            schemas, and published reports.
        unit : str, optional
            The column that says which unit a row is of, such as a person. The ledger then takes fits of schemas with
            this unit, whatever their bounds are, and nothing else. Default: a unit is a record.

        Notes
        -----
        A tenth of δ is set aside for the thresholds of drafts of schemas (:func:`tabsynth.draft_private`). Where
        there is none, this costs less than 1% of ε.
        """
        positive("epsilon", epsilon, finite=False)
        in_range("delta", delta, 0, 1, low_open=True, high_open=True)
        if not isinstance(table, str) or len(table) > LONGEST or not table.isprintable():
            raise InputError(
                f"Expected table to be one line of at most {LONGEST} characters, got {quote(table)}."
            )
        if unit is not None and not (isinstance(unit, str) and unit):
            raise InputError(f"Expected unit to be the name of a column, got {quote(unit)}.")
        aside = THRESHOLD_SHARE * float(delta)
        privacy_filter = PrivacyFilter.of(float(epsilon), float(delta) - aside, composition)
        header: JsonObject = {
            "epsilon": epsilon_to_json(float(epsilon)),
            "delta": float(delta),
            "threshold_delta": aside,
            "table": table,
            **({} if unit is None else {"unit": unit}),
        }
        header |= {"composition": privacy_filter.composition, "order": privacy_filter.order}
        cls(path, new={**header, "project": new_name()}).release()
        return cls.read(path)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read what is there now, also while a fit holds it."""
        ledger = cls(path, locked=False)
        ledger.release()
        return ledger

    def __enter__(self) -> Self:
        """Return the ledger."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.release()

    # What it says.

    @property
    def name(self) -> str:
        """The name of the file, without its folders."""
        return self.path.name

    def __fspath__(self) -> str:
        """Return the path, so that a ledger stands where a path of one is expected."""
        return str(self.path)

    def in_words(self) -> str:
        """Return the limit, its used share and what is left, when the file was read."""
        kind = self.filter.to_dict()
        order = "" if kind["order"] is None else f" of order {kind['order']:.4g}"
        return (
            f"Ledger {self.name}: all fits and reports together satisfy ({self.epsilon:g}, {self.delta:g})-"
            f"differential privacy by a {kind['name']}{order}. Used: {self.share:.1%} of the budget. Remaining for one"
            f" more fit: about ε = {self.epsilon_left():.4g}."
        )

    def _repr_lines(self) -> list[str]:
        return wrapped([self.in_words()], "ProjectLedger.read(path) reads the file again.")

    def check_unit(self, unit: str | None) -> None:
        """Refuse a run that protects other units than the ledger: their privacy costs do not add up.

        NOTE: removing one record of a unit changes which of its rows are used, as removing the unit and adding another
        does. So the epsilon of a unit is not one of records, and neither kind of run can be on a ledger of the other.

        Raises
        ------
        InputError
        """
        if unit != self.unit:
            option = "without a unit" if unit is None else f"with unit={unit}"
            raise InputError(
                f"Ledger {self.name} protects {neighbour_of(self.unit)}, and this run {neighbour_of(unit)}; their privacy"
                f" costs do not add up. Give a ledger that was made {option}."
            )

    @property
    def epsilon(self) -> float:
        """The limit."""
        return self.limit[0]

    @property
    def delta(self) -> float:
        """At which all is composed."""
        return self.limit[1]

    @property
    def share(self) -> float:
        """The part of the filter's budget that is used, what is reserved included; 1 is all. Not an ε."""
        return 1.0 if self.is_taken() else self.filter.share(self.spends())

    def runs(self) -> list[LedgerRun]:
        """Return all fits and reports on the ledger, in order."""
        runs = []
        for run, about in self.run_facts.items():
            entries = [e for e in self.entries.values() if e.run == run]
            spent = [(e.mechanism, e.spent) for e in entries if e.spent]
            took_all = about.get(ALONE) is True and bool(spent)
            runs.append(
                LedgerRun(
                    run=run,
                    what=str(about.get("what")),
                    when=str(about.get("when")),
                    epsilon=epsilon_of([(e.mechanism, e.granted) for e in entries], self.delta),
                    share=1.0 if took_all else self.filter.share(spent),
                    ended=bool(entries) and all(e.closed for e in entries),
                )
            )
        return runs

    # What it admits.

    def spends(self, but: str | None = None) -> list[Spend]:
        """Return all that is charged, but for one run."""
        entries = self.entries.values()
        return [(e.mechanism, e.spent) for e in entries if e.spent and e.run != but]

    def is_taken(self, but: str | None = None) -> bool:
        """Return True if a first run, other than ``but``, took the whole budget for itself."""
        spent = {e.run for e in self.entries.values() if e.spent and e.run != but}
        return any(self.run_facts.get(run, {}).get(ALONE) is True for run in spent)

    def fits_alone(self, spends: Sequence[Spend], run: str) -> bool:
        """Return True if a run may have the whole budget: nothing was read before, and its plan's own ε is within."""
        if self.spends(but=run):
            return False
        return past(*self.limit, spends) is None

    def thresholds_left(self, but: str | None = None) -> float:
        """Return what is left of ``threshold_delta``."""
        return max(0.0, self.threshold_delta - thresholds_of(self.spends(but)))

    def epsilon_left(self, but: str | None = None) -> float:
        """Return ε of one more fit that spends by Gaussians on the whole table, as margnet does.

        Rounded down; of fits with other mechanisms it is an estimate, for they compose a little otherwise.
        """
        epsilon, delta = self.limit
        spends = self.spends(but)
        if math.isinf(epsilon) or not spends:
            return epsilon
        mu = 0.0 if self.is_taken(but) else self.filter.mu_left(spends)
        unrounded = gaussian_epsilon(mu, delta) if mu > 0 else 0.0
        return math.floor(unrounded * 1e3) / 1e3

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
        other_spends, head = self.spends(but=run), f"Ledger {self.path.name}:"
        thresholds, thresholds_left = thresholds_of(spends), self.thresholds_left(but=run)
        if thresholds > thresholds_left * (1 + SLACK):
            raise BudgetError(
                f"{head} {what} would take delta={thresholds:.2g} for the threshold of a draft, of which"
                f" {thresholds_left:.2g} is left; fit with a schema that was drafted before, or make a new ledger."
                " Nothing was read."
            )
        try:
            if not self.is_taken(but=run) and self.filter.admits([*other_spends, *spends]):
                return
            needed = self.filter.share(spends)
        except BudgetError as error:
            raise BudgetError(f"{head} {error} Nothing was read.") from None
        if alone is None:
            alone = self.run_facts.get(run, {}).get(ALONE) is True
        if alone and self.fits_alone(spends, run):
            return
        used = 1.0 if self.is_taken(but=run) else self.filter.share(other_spends)
        epsilon_left = self.epsilon_left(but=run)
        remedy = f"about {epsilon_left:.4g} is left for another fit: ask for less (epsilon=)"
        if epsilon_left < LEAST_LEFT:
            remedy = "nothing is left for another fit"
        raise BudgetError(
            f"{head} {what} would exceed its limit of {epsilon:g} (delta={delta:g}): {used:.1%} of the budget is"
            f" used, and {needed:.1%} is needed; {remedy}. Nothing was read."
        )

    def _check_limit(self, record: JsonObject) -> None:
        if record.get("format") == BEFORE:
            raise FileFormatError(
                f"{self.path} is of format {BEFORE!r}, which is no privacy filter; make a new ledger for the"
                " part of the budget that is left."
            )
        if record.get("format") != FORMAT:
            raise FileFormatError(
                f"{self.path}: expected format {FORMAT!r}, got {quote(record.get('format'))}."
            )
        epsilon = math.inf if record["epsilon"] == "inf" else record["epsilon"]
        positive("epsilon", epsilon, finite=False)
        in_range("delta", record["delta"], 0, 1, low_open=True, high_open=True)
        self.limit = (float(epsilon), float(record["delta"]))
        if record["composition"] not in COMPOSITIONS:
            raise FileFormatError(
                f"{self.path}: unknown composition {quote(record['composition'])}."
            )
        order = record["order"]
        # Ledgers that were made before drafts could be charged set nothing aside.
        aside = record.get("threshold_delta", 0.0)
        in_range("threshold_delta", aside, 0, self.limit[1], high_open=True)
        self.threshold_delta = float(aside)
        self.filter = PrivacyFilter(
            epsilon=self.limit[0],
            delta=self.limit[1] - self.threshold_delta,
            composition=record["composition"],
            order=check_order(order, epsilon) if record["composition"] == RENYI else None,
        )
        self.project, self.table = str(record["project"]), str(record["table"])
        unit = record.get("unit")  # ledgers of records have none
        if unit is not None and not (isinstance(unit, str) and unit):
            raise FileFormatError(f"{self.path}: expected a column as unit, got {quote(unit)}.")
        self.unit = unit

    # A fit under it.

    def ledger(
        self,
        epsilon: float,
        delta: float,
        *,
        earlier: Sequence[JsonMapping] = (),
    ) -> Ledger:
        """Return the ledger of a new run, kept in this file; ``earlier`` counts against its own budget too."""
        before = as_earlier(earlier)
        return Ledger.from_list(epsilon, delta, before, journal=self, run=new_name())

    def check(self, run: str, plan: Sequence[Spend]) -> None:
        """Refuse a run whose whole plan would pass the limit; nothing of it was read yet.

        Raises
        ------
        BudgetError
        """
        self._alone.discard(run)
        has_begun = run in self.run_facts
        self.check_admitted(run, plan, alone=None if has_begun else True)
        if not has_begun and not self.filter.admits([*self.spends(but=run), *plan]):
            self._alone.add(run)

    def admit_draft(
        self,
        ledger: Ledger,
        mu: float,
        composition: str = RENYI,
        after: Callable[[Ledger], Sequence[Spend]] | None = None,
    ) -> None:
        """Admit the draft of a schema as a run of its own, or refuse it before it reads a row.

        Parameters
        ----------
        ledger : Ledger
            Of the draft.
        mu : float
            Of the Gaussians of the draft together; infinite for a draft without noise.
        composition : {"renyi", "gaussian"}
            The filter that composes draft and fit in the fit's own budget.
        after : callable, optional
            From a ledger that has the draft on it to the plan of the fit that follows. It must fit too, so that a draft
            is not charged for a fit that is then refused.

        Raises
        ------
        BudgetError
        """
        draft: Mechanism = NoPrivacy()
        if math.isfinite(mu):
            draft = ThresholdedGaussian(
                noise_multiplier=1 / mu, threshold_delta=ledger.threshold_delta
            )
        plan: list[Spend] = [(draft, 1)]
        if after is not None:
            item = {"purpose": DRAFT, **draft.to_dict(), "count": 1}
            item["details"] = {"composition": composition}
            before = as_earlier([*ledger.to_list(), item])
            plan += after(Ledger.from_list(ledger.epsilon, ledger.delta, before))
        self.check_admitted(ledger.run, plan, "the draft and the fit", alone=False)
        self.note_run(ledger.run, {"what": DRAFT, "when": now()})

    def refuse_seed(self, what: str) -> None:
        """Refuse a run with a seed, which a project's ledger cannot count."""
        raise InputError(
            f"{what} is not private, so ledger {self.name} cannot count it; leave out the seed, or the ledger."
        )

    def check_on_it(self, what: str, project: object, run: object) -> None:
        """Refuse to build on what was made outside of this ledger, for it counts on it too."""
        if project != self.project or run not in self.run_facts:
            raise InputError(
                f"{what} was not made under ledger {self.name}, so what it spent is not on it; make it"
                " under the same ledger."
            )

    def begin(self, run: str, what: str) -> None:
        """Note what a run is, before its first account."""
        alone = {ALONE: True} if run in self._alone else {}
        self.note_run(run, {"what": what, "when": now(), **alone})

    def statement(self, run: str) -> JsonObject:
        """Return what a certificate says of it: no path, no row; the limit, its filter, and the share that is used."""
        return {
            "ledger": self.name,
            "project": self.project,
            "table": self.table,
            **({} if self.unit is None else {"unit": self.unit}),
            "run": run,
            "limit": epsilon_to_json(self.epsilon),
            "delta": self.delta,
            "threshold_delta": self.threshold_delta,
            "composition": self.filter.to_dict(),
            "share": self.share,
            "chain": self.chain,
        }


def _open_file(path: Path, new: bool, locked: bool) -> int:
    if new and path.exists():
        raise InputError(f"{path} already exists and will not be overwritten; name another file.")
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


def check_same_ledger(
    what: str, project_id: object, run: object, project: ProjectLedger | None, this: str = "fit"
) -> None:
    """Refuse to build on what another ledger counts than ``project``, or none; with None, on what any ledger counts.

    Raises
    ------
    InputError
    """
    if project is not None:
        project.check_on_it(what, project_id, run)
    elif project_id:
        raise InputError(
            f"{what} is on a project's ledger; give that as ledger, so that this {this} is counted there too."
        )
