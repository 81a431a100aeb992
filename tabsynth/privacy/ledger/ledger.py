"""The ledger: every read of private rows is charged before the rows are read.

An audit can record the exact value of each mechanism just before its noise and replace it in a replay; see
:mod:`tabsynth.auditing.replay`. An ordinary fit has no recorder, and values are returned unchanged.
"""

import math
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from tabsynth._shown import Shown, wrapped
from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import in_range, integer, positive, quote
from tabsynth.errors import BudgetError, FileFormatError
from tabsynth.privacy.accounting.accountants import (
    GAUSSIAN_FILTER,
    RENYI,
    PrivacyFilter,
    Spend,
    accountant_of,
    epsilon_of,
    rdp_epsilon,
)
from tabsynth.privacy.accounting.attackers import AttackBounds, attack_bounds
from tabsynth.privacy.accounting.mechanisms import (
    THRESHOLD_SHARE,
    Mechanism,
    is_private,
    mechanism_from,
    of_sum,
    thresholds_of,
)
from tabsynth.privacy.ledger.journal import MOST_USES, Journal

if TYPE_CHECKING:
    import torch
    from torch import Tensor


# What is asked for may be exceeded by rounding of floats, and by nothing else.
SLACK = 1e-9
EARLIER = "earlier"  # the run of what was spent before the fit
# Uses are written to a journal in blocks: a crash loses this many at most, or a 64th of the account.
BLOCK, BLOCKS = 32, 64
USED_UP = 0.96  # of a filter's budget: with less left another fit is mostly noise


@dataclass
class Account(Shown):
    """The account of a purpose: ``granted`` uses of ``mechanism``, of which ``spent`` are gone.

    With a journal, ``number`` is the account's there, and ``reserved`` uses are charged in it: never
    fewer than are spent. ``waiting`` is one that a crash left behind, until its fit opens it again.
    ``earlier`` marks what was spent before the plan of this fit was made, so that the plan may depend on what
    it released. ``process`` is the number of the process that may use it.
    """

    purpose: str
    mechanism: Mechanism
    granted: int
    spent: int = 0
    details: JsonObject = field(default_factory=dict)
    number: int | None = None
    reserved: int = 0
    waiting: bool = False
    earlier: bool = False
    process: int = field(default_factory=os.getpid, compare=False, repr=False)

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier of a sum that a use pays for; BudgetError if it pays for votes."""
        return of_sum(self.mechanism).noise_multiplier

    @property
    def whole_table_noise(self) -> float:
        """The noise multiplier, if a use pays for a sum over all rows; BudgetError for one over a batch."""
        mechanism = of_sum(self.mechanism)
        if mechanism.sampling_rate != 1:
            raise BudgetError(
                f"{self.purpose}: pays for a batch, not for a sum over the whole table."
            )
        return mechanism.noise_multiplier

    def to_dict(self) -> JsonObject:
        """Return a line of the certificate: what was spent, not what was granted."""
        return {
            "purpose": self.purpose,
            **self.mechanism.to_dict(),
            "count": self.spent,
            "details": dict(self.details),
            **({EARLIER: True} if self.earlier else {}),
        }

    def check_process(self) -> None:
        """See :func:`check_process`, for what this account pays for."""
        check_process(self.process, self.purpose)


class Ledger(Shown):
    """The budget (ε, δ) of a table, and every account that draws on it.

    Parameters
    ----------
    epsilon : float
        The limit; ``math.inf`` allows reads without noise.
    delta : float
    journal : Journal, optional
        Keeps the accounts on disk. What it holds already is on this ledger too: uses that were
        reserved count as spent, whether or not they took place.
    run : str
        Which accounts of the journal are this fit's own, to be opened again; others only add up.
    given_up : collection of str
        Earlier runs of this fit, whose plans were given up. In a journal that other fits share
        (:mod:`tabsynth.privacy.ledger.project`) their accounts count against (ε, δ) too; those of other fits
        count against the journal's own limit only, with what is reserved: nobody else uses the file now.

    Formal guarantees
    -----------------
    The composition of all that is *granted* never exceeds (ε, δ), by the accountant of
    :mod:`tabsynth.privacy.accounting.accountants`; a use beyond what was granted raises before the data is read.
    That accountant is for a list of mechanisms that was fixed before the first of them ran, as the plan of a fit
    is. Where accounts are marked as earlier, the plan may depend on what they released: then all are composed
    by a Rényi filter at the order that (ε, δ) fixes (:mod:`tabsynth.privacy.accounting.accountants`), or by a Gaussian
    filter if the first account states so, and the claim is ε itself.
    It holds if (ε, δ) was chosen before the first of all these outputs was seen.
    Nothing is ever un-spent: a use counts from the moment it is asked for, and with a journal it is on
    the disk by then. In a shared journal, the filter of the project admits what all fits have spent and
    this one is granted. Only the process that made the ledger may spend on it.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        journal: Journal | None = None,
        run: str = "",
        given_up: Collection[str] = (),
    ) -> None:
        self.epsilon = positive("epsilon", epsilon, finite=False)
        self.delta = in_range("delta", delta, 0, 1, low_open=True, high_open=True)
        self.journal, self.run = journal, run
        self._process = os.getpid()
        self.accounts: list[Account] = []
        self.unit: str | None = None  # the column of the units that it protects; None: records
        self.drafts = (
            1  # of schemas that share what is set aside for their thresholds: those to come
        )
        self.contributions: Any = (
            None  # what of a unit is used, as the schema has it; None: not known
        )
        self.project: str | None = getattr(
            journal, "project", None
        )  # whose ledger has all of this on it
        for entry in journal.entries.values() if journal is not None else ():
            shared = journal is not None and journal.shared
            if shared and entry.run not in (run, *given_up):
                continue
            over = entry.closed or (shared and entry.run != run)
            self.accounts.append(
                Account(
                    entry.purpose,
                    entry.mechanism,
                    entry.spent if over else entry.granted,
                    entry.spent,
                    dict(entry.details),
                    number=entry.number,
                    reserved=entry.spent,
                    waiting=entry.run == run and not entry.closed,
                    earlier=entry.run != run,
                )
            )

    def _repr_lines(self) -> list[str]:
        accounts = [f"{a.purpose}: {a.spent:,} of {a.granted:,} uses" for a in self.accounts]
        return wrapped([f"Ledger of ε = {self.epsilon:g}, δ = {self.delta:g}", *accounts])

    @property
    def filter(self) -> PrivacyFilter:
        """Composes this fit with what was spent before its plan was made.

        Where there were drafts of schemas, what is set aside for their thresholds is not there for it, nor what they
        took beyond that: both follow from parameters that were fixed before the first output. The first account states
        the composition, which is fixed with it: by a Gaussian filter where all that follows will be Gaussian, else by a
        Rényi filter.
        """
        threshold_part = thresholds_of((a.mechanism, a.spent) for a in self.accounts)
        if threshold_part:
            threshold_part = max(threshold_part, THRESHOLD_SHARE * self.delta)
        if threshold_part >= self.delta:
            raise BudgetError(
                f"The draft of the schema takes all of delta={self.delta:g}; draft it with a smaller delta."
            )
        gaussian = self.accounts and self.accounts[0].details.get("composition") == GAUSSIAN_FILTER
        composition = GAUSSIAN_FILTER if gaussian else RENYI
        return PrivacyFilter.of(self.epsilon, self.delta - threshold_part, composition)

    @property
    def threshold_delta(self) -> float:
        """The part of δ that the thresholds of one more draft of a schema may take.

        Without a journal all that is set aside and not taken; with one half of that, since a crash may lose the draft,
        and others may need one. So there is always some left.

        Raises
        ------
        BudgetError
            If there is none.
        """
        available = THRESHOLD_SHARE * self.delta
        available -= thresholds_of((a.mechanism, a.granted) for a in self.accounts)
        if self.journal is not None:
            available = min(available, self.journal.thresholds_left()) / 2
        available /= self.drafts
        if available <= 0:
            raise BudgetError(
                "No part of delta is left for the draft of a schema; fit with a schema that was drafted before"
                " (schema=), or make a new project ledger. Nothing was read."
            )
        return available

    @property
    def adaptive(self) -> bool:
        """True if the plan may depend on what was released before: then the filter composes."""
        return any(account.earlier and account.spent for account in self.accounts)

    @property
    def used_up(self) -> bool:
        """True if the filter of (ε, δ) leaves nothing, or nearly nothing, for another fit."""
        spends = self.spends()
        return bool(spends) and math.isfinite(self.epsilon) and self.filter.share(spends) > USED_UP

    def claim(self, spends: Iterable[Spend]) -> float:
        """Return the ε at ``delta`` that may be claimed of ``spends``, those of before among them."""
        listed = list(spends)
        return self.filter.claim(listed) if self.adaptive else epsilon_of(listed, self.delta)

    def accountant(self) -> JsonObject:
        """Return what gives :attr:`spent`: its name, library and version, and the order of a filter."""
        if self.adaptive and math.isfinite(self.spent):
            return self.filter.accountant()
        return accountant_of(self.spends(), self.delta)

    def attack_bounds(self, inexact: float = 0.0) -> AttackBounds | None:
        """Return what :attr:`spent` means for somebody who attacks one unit of privacy; None where it is infinite.

        ``inexact``: as of :func:`tabsynth.privacy.accounting.attackers.attack_bounds`.
        """
        spends = self.spends()
        kept_by = self.filter if self.adaptive and math.isfinite(self.spent) else None
        return attack_bounds(spends, self.spent, self.delta, kept_by, inexact)

    def open(
        self,
        purpose: str,
        mechanism: Mechanism,
        count: int,
        details: JsonObject | None = None,
    ) -> Account:
        """Grant ``count`` uses of a mechanism, or refuse.

        What this run opened before a crash is given as it was, with what was spent of it.

        Raises
        ------
        BudgetError
            If everything granted so far and this together would pass ε.
        """
        integer("count", count, least=0)
        check_process(self._process, purpose)
        for entry in self.accounts:
            same_request = (entry.purpose, entry.mechanism, entry.granted) == (
                purpose,
                mechanism,
                count,
            )
            if entry.waiting and same_request:
                if self.project is not None:  # others may have spent while this fit was away
                    self._check(purpose, [])
                entry.waiting = False
                return entry
        if count:
            self._check(purpose, [(mechanism, count)])
        account = Account(purpose, mechanism, count, details=dict(details or {}))
        if self.journal is not None:
            about = mechanism.to_dict()
            account.number = self.journal.open(self.run, purpose, about, count, account.details)
        self.accounts.append(account)
        return account

    def _check(self, purpose: str, requested: list[Spend]) -> None:
        """Refuse what would pass the budget, or the limit of a shared journal."""
        granted = [*((a.mechanism, a.granted) for a in self.accounts), *requested]
        if self.adaptive:
            total = None if self.filter.admits(granted) else self.filter.claim(granted)
        else:
            total = past(self.epsilon, self.delta, granted)
        if total is not None:
            raise BudgetError(
                f"{purpose}: would bring epsilon to {total:.4g}, above the budget of"
                f" {self.epsilon:g} (delta={self.delta:g}); nothing was read."
            )
        journal = self.journal
        if journal is None:
            return
        # What was spent before this fit is on the same journal, as that of another run.
        entries = journal.entries
        fit_spends = [
            (a.mechanism, a.granted)
            for a in self.accounts
            if a.number is not None and entries[a.number].run == self.run
        ]
        journal.check_admitted(self.run, [*fit_spends, *requested], purpose)

    def spend(self, account: Account, uses: int = 1) -> None:
        """Charge one use of an account, or several, before the data is read.

        Raises
        ------
        BudgetError
            If the account has no use left.
        """
        if not any(account is opened for opened in self.accounts):
            raise BudgetError(f"{account.purpose}: this account is not on the ledger.")
        check_process(self._process, account.purpose)
        integer("uses", uses)
        if account.spent >= account.granted:
            raise BudgetError(
                f"{account.purpose}: all {account.granted} uses are spent; nothing was read."
            )
        if account.spent + uses > account.granted:
            raise BudgetError(
                f"{account.purpose}: {uses} uses were asked for, and of {account.granted}"
                f" {account.spent} are spent; nothing was read."
            )
        if account.number is not None and account.spent + uses > account.reserved:
            self._reserve(account, account.number, uses)
        account.spent += uses

    def _reserve(self, account: Account, number: int, uses: int) -> None:
        """Write a block of uses off on disk, before the first of them."""
        assert self.journal is not None
        block = max(uses, min(BLOCK, account.granted // BLOCKS))
        total = min(account.granted, account.spent + block)
        self.journal.reserve(number, total)
        account.reserved = total

    def close(self, *, resumable: bool = False, whole_plan: bool = False) -> None:
        """Give back what was granted and not used, so that a later fit may have it.

        Parameters
        ----------
        resumable : bool
            The journal keeps the grants open, for this run to go on; what was reserved and not used is given
            back all the same.
        whole_plan : bool
            On this ledger all that was granted counts as spent from now on. For a fit that a person stopped: when
            they did may depend on what they saw, and only the plan's ε does not. The journal has what was
            used, for a filter counts each use by itself.

        Raises
        ------
        BudgetError
            In a process that was forked while the fit ran.
        """
        check_process(self._process, "the fit's ledger")
        plan = [account.granted for account in self.accounts]
        for account in self.accounts:
            account.granted = account.spent
            # Before the journal: a use after this must reserve again, whatever interrupts us here.
            given_back, account.reserved = account.reserved > account.spent, account.spent
            if self.journal is None or account.number is None:
                continue
            entry = self.journal.entries[account.number]
            if entry.run != self.run or entry.closed:
                continue
            if not resumable:
                self.journal.close(account.number, account.spent)
            elif given_back:
                self.journal.settle(account.number, account.spent)
        for account, granted in zip(self.accounts, plan, strict=True):
            if whole_plan:
                account.spent = account.granted = granted

    @property
    def spent(self) -> float:
        """ε at ``delta`` that may be claimed of everything spent: see :meth:`claim`."""
        return self.claim([(a.mechanism, a.spent) for a in self.accounts])

    def spends(self) -> list[Spend]:
        """Return everything spent so far, as the accountant takes it."""
        return [(a.mechanism, a.spent) for a in self.accounts if a.spent]

    def before(self) -> list[JsonObject]:
        """Return what was spent before the plan of this fit was made, as :meth:`to_list`."""
        return [account.to_dict() for account in self.accounts if account.earlier and account.spent]

    def to_list(self) -> list[JsonObject]:
        """Return the accounts that were used, JSON-ready."""
        return [account.to_dict() for account in self.accounts if account.spent]

    def of_run(self, run: str) -> list[JsonObject]:
        """See :meth:`to_list`, of the accounts of one run; those in no journal are of ``EARLIER``."""
        entries = {} if self.journal is None else self.journal.entries
        return [
            account.to_dict()
            for account in self.accounts
            if account.spent
            and run == (EARLIER if account.number is None else entries[account.number].run)
        ]

    @classmethod
    def from_list(
        cls, epsilon: float, delta: float, items: Sequence[JsonMapping], **on_disk: Any
    ) -> "Ledger":
        """Return a ledger on which ``items`` are already spent; the rest as of the constructor."""
        ledger = cls(epsilon, delta, **on_disk)
        before = []
        for item in items:
            mechanism = mechanism_from(item)
            count = item.get("count")
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_USES:
                raise FileFormatError(f"A mechanism is listed with count={quote(count)}.")
            details = item.get("details") or {}
            if not isinstance(details, dict):
                raise FileFormatError(f"A mechanism is listed with details={quote(details)}.")
            earlier = item.get(EARLIER, False)
            if not isinstance(earlier, bool):
                raise FileFormatError(f"A mechanism is listed with earlier={quote(earlier)}.")
            before.append(
                Account(
                    str(item.get("purpose")),
                    mechanism,
                    count,
                    count,
                    dict(details),
                    earlier=earlier,
                )
            )
        ledger.accounts[:0] = before
        return ledger


def check_process(process: int, purpose: str) -> None:
    """Refuse to go on in another process than ``process``, in which a fit began.

    After a fork both processes hold what was charged once, and would release two results of it.

    Raises
    ------
    BudgetError
    """
    if os.getpid() != process:
        raise BudgetError(
            f"{purpose}: process {os.getpid()} was forked from {process} in the middle of a fit, and only"
            f" process {process} may go on with it."
        )


def as_earlier(items: Iterable[JsonMapping]) -> list[JsonObject]:
    """Return ``items`` as a ledger lists them, marked as spent before the plan of the next fit is made."""
    return [{**item, EARLIER: True} for item in items]


def past(epsilon: float, delta: float, spends: Sequence[Spend]) -> float | None:
    """Return the ε of a composition that passes a limit; None if it does not."""
    limit = epsilon * (1 + SLACK)
    # RDP is quick and never below the exact ε: what it allows needs no second look.
    if math.isinf(epsilon) or rdp_epsilon(spends, delta) <= limit:
        return None
    total = epsilon_of(spends, delta)
    return total if total > limit else None


Labels: TypeAlias = Sequence[Any]  # for each array the values that its entries are of, or None
Values: TypeAlias = Sequence[Any]  # arrays, tensors or floats


class Recorder(Protocol):
    """The observer of reads of private rows, in a recorded run."""

    def read(self, account: "Account", uses: int) -> None:
        """Take note that rows are about to be read, for so many uses of an account."""

    def exact(
        self,
        account: "Account",
        labels: Labels,
        values: Values,
        stds: Sequence[float],
        uses: int,
        units: Sequence[float],
        of_selection: bool = False,
    ) -> tuple[list[Any], list[Any]]:
        """See :func:`exact` and :func:`exact_of`; labels are None where the entries are known in advance."""

    def note_passed(self, purpose: str, labels: Labels) -> None:
        """See :func:`note_passed`."""

    def batch(self, rows: int, rate: float, generator: "torch.Generator") -> "Tensor":
        """Return the row numbers of a Poisson batch, by coins that each record keeps."""

    def places(self, room: int, counts: "Tensor | None" = None) -> "Tensor":
        """Return places of that batch's rows among ``room``, or in order where they are more.

        ``counts``: of a batch of units, how many rows each has.
        """

    def uniform(self, rows: int, columns: int, generator: "torch.Generator") -> "Tensor | None":
        """Return uniform numbers for the next places of that batch; None of another generator."""

    def teachers(self, numbers: "Sequence[Tensor]") -> None:
        """Return the data of each teacher, one row of each tensor: a record may change one teacher only."""

    def note(self, what: str, value: object) -> None:
        """Record a value that must follow from releases alone: a release, a file, or the state after a step."""

    def name(self) -> str:
        """See :func:`new_name`: the same in a run and in its replay."""


_RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


def recorder() -> Recorder | None:
    """Return the recorder of this run; None in every ordinary one."""
    return _RECORDER.get()


def note(what: str, value: object) -> None:
    """Tell a recorder, if there is one, of what must follow from releases alone."""
    if (active := _RECORDER.get()) is not None:
        active.note(what, value)


def new_name() -> str:
    """Return a random name, of a run on a ledger for example; in a recorded run one that its replay has too."""
    active = _RECORDER.get()
    return secrets.token_hex(8) if active is None else active.name()


def now() -> str:
    """Return the time to tell, UTC, ISO 8601; in a recorded run it stands still, for files carry it."""
    moment = datetime.now(UTC) if _RECORDER.get() is None else datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="seconds")


@contextmanager
def recorded_by(observer: Recorder) -> Iterator[None]:
    """Report releases to ``observer`` within this block."""
    token = _RECORDER.set(observer)
    try:
        yield
    finally:
        _RECORDER.reset(token)


def exact(
    account: "Account",
    values: Values,
    stds: Sequence[float],
    uses: int = 1,
    units: Sequence[float] | None = None,
    *,
    of_selection: bool = False,
) -> list[Any]:
    """Pass exact values on to the noise: as they are, or as a recorder gives them back.

    Parameters
    ----------
    account : Account
        What pays. One without privacy is not recorded.
    values : sequence of array, Tensor or float
        All that is released together.
    stds : sequence of float
        The standard deviation of the noise on each (or Laplace's scale).
    uses : int
        Where more than one, each row of the values is a release of its own.
    units : sequence of float, optional
        How large the certificate's unit is for each value: sensitivity and noise in that unit are those that
        it states. 1 by default.
    of_selection : bool
        Whether the values are scores of an exponential mechanism, which hides the range of what a unit adds to them in
        place of its norm.
    """
    account.check_process()
    active = _RECORDER.get()
    if active is None or not is_private(account.mechanism):
        return list(values)
    units = [1.0] * len(stds) if units is None else units
    labels = [None] * len(values)
    return active.exact(account, labels, values, stds, uses, units, of_selection)[1]


def exact_of(
    account: "Account",
    labels: Sequence[Sequence[Any] | None],
    values: Values,
    stds: Sequence[float],
    units: Sequence[float],
) -> tuple[list[Sequence[Any] | None], list[Any]]:
    """See :func:`exact`, of arrays with entries that may be there because some row holds a value.

    Parameters
    ----------
    labels : sequence of sequence or None
        For each array the values that its entries are of, in their order; None where the entries are known in advance.
        An entry that is not there is 0. The caller goes on with the labels that are returned.
    """
    account.check_process()
    active = _RECORDER.get()
    if active is None or not is_private(account.mechanism):
        return list(labels), list(values)
    return active.exact(account, labels, values, stds, 1, units)


def note_passed(purpose: str, labels: Sequence[Sequence[Any]]) -> None:
    """Tell a recorder, if there is one, which labels of :func:`exact_of` a threshold on noisy values has released."""
    if (active := _RECORDER.get()) is not None:
        active.note_passed(purpose, labels)


T = TypeVar("T")


class PrivateTable(Generic[T]):
    """Private rows behind the ledger.

    Parameters
    ----------
    rows : array or tensor
        The rows, in any form that the mechanisms take.
    ledger : Ledger

    Formal guarantees
    -----------------
    The rows, and their number, come out only through :meth:`read`, which charges a use to the
    ledger first; if the ledger refuses, nothing is read. It has no length, which would reveal the number of rows.
    """

    def __init__(self, rows: T, ledger: Ledger) -> None:
        self.__rows = rows
        self.ledger = ledger
        self.reads = 0

    def read(self, account: Account, uses: int = 1) -> T:
        """Return the rows, for one use of ``account``, or several at once (asked first, read then)."""
        self.ledger.spend(account, uses)
        self.reads += 1
        if (active := recorder()) is not None:
            active.read(account, uses)
        return self.__rows

    def __repr__(self) -> str:
        """Show the number of reads, and no row."""
        return f"PrivateTable(reads={self.reads})"
