"""Verify that a certificate is consistent and signed: every claim that can be recomputed is recomputed.

Anyone who can write a file can write a consistent certificate for it, so consistency is no proof of privacy. The claim
rests on the signature of a person whose key you have from a trusted source.
"""

import csv
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path

from tabsynth._files import sha256
from tabsynth._shown import Shown, wrapped
from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import quote
from tabsynth.design import UNCHANGED
from tabsynth.errors import BudgetError, FileFormatError, InputError
from tabsynth.methods import (
    AUTOENCODER,
    BY_EVENT,
    CLASS_VOTES,
    CONCEPTS,
    COUNT,
    CRITIC,
    DIFFERENT,
    DRAFT,
    JOINT,
    LINKED,
    ONE_WAY,
    OVERLAP,
    PROFILES,
    TABLES,
    TOTAL,
    VOTES,
)
from tabsynth.privacy.accounting import accountants as accounting
from tabsynth.privacy.accounting.accountants import (
    NAMES,
    PrivacyFilter,
    Spend,
    accountant_of,
    least_error,
    rdp_epsilon,
)
from tabsynth.privacy.accounting.attackers import AttackBounds, whole_table_mu
from tabsynth.privacy.accounting.mechanisms import (
    NoisyVote,
    check_listed,
    mechanism_from,
    steps_of,
    without_thresholds,
)
from tabsynth.privacy.certificate.certificate import (
    COMPOSITIONS,
    NAMES_AND_TYPES,
    NAMES_ONLY,
    UNCHANGED_FACTS,
    USED_RECORDS,
    USED_RECORDS_OF_0_2,
    beside,
    code,
    condition,
    conditional_of,
    describe_mechanism,
    design_of,
    inexact_by,
    interrupted_claim,
    protected_by,
    read_certificate,
    rounded_up,
    statement_of,
)
from tabsynth.privacy.certificate.completeness import (
    FIGURES,
    columns_of,
    find_missing_mechanisms,
    list_unspent,
)
from tabsynth.privacy.ledger.ledger import EARLIER, Ledger

COARSER = 4.0  # than PRV can be: a quarter of the time
FEW_VOTES, LOOSER = 16, 0.12  # exact votes of which PLD may be looser than RDP, and by how much
SETS = "counts of each set of columns, scaled by the root of its share of the budget"
SCORED = "L1 distances of the counts of all pairs from independence, over √pairs"
DEPARTED = "mean L1 distance of the counts of tables of the target from what pairs leave"
SIGNED = "sums over the rows of products of signs, over the root of their number"
DRAFTED = (
    "rows, each with weights of L2 norm 1 over its values",
    "units, each with weights of L2 norm 1 that its rows share",
)
OF_DIFFERENT = "numbers of different values, with weights of L2 norm 1 over the columns"
COUNTS, RULES, NORM = ("counts", "weighted counts"), "scores of candidate rules", "gradient norm"
# The most that one unit of privacy adds, in each unit that a fit states: of its rows, its weight and √sets of counts. RULES
# have no sensitivity, and of a gradient the clipping bound is the sensitivity.
CONTRIBUTIONS: dict[str, Callable[[float, float, float], float]] = {
    **dict.fromkeys(
        ("rows", SETS, SCORED, SIGNED, DEPARTED), lambda rows, bound, root: float(rows)
    ),
    **dict.fromkeys(("units", *DRAFTED, OF_DIFFERENT), lambda rows, bound, root: 1.0),
    "counts": lambda rows, bound, root: rows * root,
    "weighted counts": lambda rows, bound, root: bound * root,
    "weights": lambda rows, bound, root: bound,
    "votes": lambda rows, bound, root: math.sqrt(2),
    **dict.fromkeys((RULES, NORM), lambda rows, bound, root: 0.0),
}
# By purpose; a purpose of a method that is not here may have any of them.
UNITS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(DRAFT, DRAFTED),
    DIFFERENT: (OF_DIFFERENT,),
    CONCEPTS: DRAFTED,
    **dict.fromkeys((TABLES, JOINT, "joint counts again", PROFILES, BY_EVENT), (SETS,)),
    "departure from the pairs": (DEPARTED,),
    ONE_WAY: (SETS, *COUNTS),
    "scores of pairs": (SCORED,),
    **dict.fromkeys(("sign interactions", "signs of triples"), (SIGNED,)),  # the latter in 0.2
    **dict.fromkeys((COUNT, OVERLAP), ("rows",)),
    TOTAL: ("weights",),
    **dict.fromkeys((VOTES, CLASS_VOTES), ("votes",)),
    **dict.fromkeys((AUTOENCODER, CRITIC), (NORM,)),
    **dict.fromkeys(
        ("counts of columns", "counts of dependencies", "counts of rules"), ("counts",)
    ),
    "selection of rules": (RULES,),
    "units with more rows than the bound": ("units",),
    **dict.fromkeys(
        (
            "rows that break a rule",
            "rows with a weight above the cap",
            "identifiers with several rows",
        ),
        ("rows",),
    ),
}


@dataclass(frozen=True)
class AccountantResult(Shown):
    """An upper bound of ε by one accountant, which exceeds the exact ε by about ``error`` at most."""

    name: str
    epsilon: float
    error: float = 0.0

    def __str__(self) -> str:
        """Return the bound in words."""
        error = f" (± {self.error:.2g})" if self.error else ""
        return f"ε = {self.epsilon:.6g}{error} by {self.name}"


def second_epsilon(spends: Sequence[Spend], delta: float) -> AccountantResult:
    """Compute ε by a second accountant: by PLD, by PRV of opacus if the claim is by PLD, or for Gaussians by an integral.

    Above ε of about 100 neither can represent the privacy loss of a step, and RDP is used.
    """
    name = accountant_of(spends, delta)["name"]
    spends, delta = without_thresholds(spends, delta)
    if name == accounting.NONE[0]:
        return AccountantResult(name, accounting.epsilon_of(spends, delta))
    mu = whole_table_mu(spends) if name == accounting.EXACT[0] else None
    if mu is not None:
        epsilon = accounting.integrated_gaussian_epsilon(mu, delta)
        return AccountantResult("integral of the privacy loss (tabsynth)", epsilon)
    # PLD and RDP only where they are asked: scipy and opacus take seconds to import.
    if name != accounting.PLD[0]:
        from tabsynth.privacy.accounting.pld import pld_epsilon

        epsilon = pld_epsilon(spends, delta)
        if math.isfinite(epsilon):
            return AccountantResult(
                "PLD (tabsynth)", epsilon, _looser(epsilon, spends, delta, name)
            )
    rdp = rdp_epsilon(spends, delta)
    if name == accounting.PLD[0] and delta >= accounting.LEAST_DELTA:
        events = [steps_of(mechanism, count) for mechanism, count in spends]
        error = COARSER * least_error(events, rdp, delta)
        epsilon = accounting.prv_epsilon(events, delta, error)
        if epsilon < rdp:
            return AccountantResult("PRV (opacus)", epsilon, 2 * error)
    return AccountantResult("RDP (opacus)", rdp, rdp)


def _looser(epsilon: float, spends: Sequence[Spend], delta: float, claimed_by: str) -> float:
    """Return by how much PLD may be above RDP with nothing wrong: it bounds exact votes in groups.

    With few votes that shows, at most by 11% in 500 random ledgers; from 20 votes on PLD was below RDP in all.
    """
    votes = sum(
        count
        for mechanism, count in spends
        if isinstance(mechanism, NoisyVote) and mechanism.accounting == "exact-binary"
    )
    if claimed_by != accounting.RDP[0] or not 0 < votes <= FEW_VOTES:
        return 0.0
    return min(max(0.0, epsilon - rdp_epsilon(spends, delta)), LOOSER * epsilon)


UNSIGNED = "unsigned"
# Another build of an accountant may differ in the last digits, and be a little looser.
LOOSE, TIGHT, LEAST = 1e-4, 5e-3, 1e-6
INTERRUPTED = "interrupted"  # why a fit stopped, where a person stopped it
SECOND = 2e-3  # by which the second accountant may pass the claim, besides its own error


class State(StrEnum):
    """The outcome of a verification; the first that applies, in this order."""

    REFUSED = "refused"
    """Something contradicts the certificate, or it is incomplete."""
    NOT_PRIVATE = "not private"
    """It is consistent and claims no privacy: a seeded fit, or one that read rows without noise."""
    CONDITIONAL = "conditional"
    """It is consistent, and its claim holds only if facts that were copied from a table are public."""
    NOT_AUTHENTICATED = "not authenticated"
    """It is consistent, and nobody whose key was given has signed it."""
    AUTHENTICATED = "authenticated"
    """It is consistent, its claim has no such condition, and the signer whose key was given has signed it."""


@dataclass(frozen=True)
class Verification(Shown):
    """The result of :func:`verify`: the claim, reasons to refuse it, and whether its signature is trusted.

    Attributes
    ----------
    certificate : dict
    epsilon : float
        Recomputed from the mechanisms by the accountant of the fit.
    problems : tuple of str
        Reasons to refuse.
    notes : tuple of str
        Remarks that are no reason to refuse.
    accountants : tuple of AccountantResult
        ε by two accountants.
    bounds : AttackBounds or None
        What the claim means for an attacker, recomputed; None where ε is infinite or the run was seeded.
    signature : str
        A description of the signature.
    authenticated : bool
        Whether the certificate is signed with the given key.
    """

    certificate: JsonObject
    epsilon: float
    problems: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())
    accountants: tuple[AccountantResult, ...] = field(default=())
    bounds: AttackBounds | None = None
    signature: str = UNSIGNED
    authenticated: bool = False

    def _repr_lines(self) -> list[str]:
        lines = [f"Verification: {self.state.value}", *(f"Refused: {p}" for p in self.problems)]
        if names := self.conditions:
            lines.append(f"The claim holds only if {condition(names)}.")
        data = self.certificate
        if self.consistent:
            lines.append(f"Claimed: ε = {rounded_up(self.epsilon)}, δ = {data.get('delta')}")
            lines.append(f"Privacy unit: {data.get('privacy_unit')}")
        return wrapped([*lines, f"Signature: {self.signature}", f"Notes: {len(self.notes)}"])

    @property
    def consistent(self) -> bool:
        """True if nothing contradicts the certificate; it does not show who made it."""
        return not self.problems

    @property
    def conditions(self) -> tuple[str, ...]:
        """The columns whose domain was drafted from a table: the claim holds only if those domains are public."""
        return tuple(conditional_of(self.certificate.get("public")))

    @property
    def state(self) -> State:
        """The state. Only ``State.AUTHENTICATED`` supports a privacy claim."""
        if self.problems:
            return State.REFUSED
        if self.certificate.get("seeded") is not False or math.isinf(self.epsilon):
            return State.NOT_PRIVATE
        if self.conditions:
            return State.CONDITIONAL
        return State.AUTHENTICATED if self.authenticated else State.NOT_AUTHENTICATED


def verify(table: str | Path, key: str | Path | None = None) -> Verification:
    """Check the certificate beside a table.

    The table's hash, rows and columns; whether the list of mechanisms has all that a fit of its method
    charges; ε recomputed from it by two accountants; what follows from other fields; the audits; the
    signature.

    Parameters
    ----------
    table : path
    key : path, optional
        The public key of a signer whom you trust, from a source of your own. A signature must then be there,
        and be theirs. Without it nothing is authenticated: see :attr:`Verification.state`.

    Raises
    ------
    FileFormatError
        If there is no certificate, or it cannot be read as one.
    """
    path = beside(table)
    data = read_certificate(path)
    try:
        design_of(data.get("public"))
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None
    claimed, ledger = _claim(data)
    problems = [*find_missing_mechanisms(data), *_table(data, Path(table))]
    spends = ledger.spends()
    epsilon = ledger.spent
    name = ledger.accountant()
    accountants = (
        AccountantResult(
            f"{name['name']} ({name['library']})" if "library" in name else name["name"], epsilon
        ),
        second_epsilon(spends, ledger.delta),
    )
    problems += _epsilons(claimed, accountants)
    problems += _consistency(data, claimed, epsilon)
    bounds = None
    if data.get("seeded") is False and not problems:
        bounds = ledger.attack_bounds(inexact_by(data.get("noise")))
    if not problems:
        problems += _attacker(data.get("attacker"), bounds)
    problems += _accountant(data, name)
    below, unknown = _sensitivities(data)
    problems += [*_form(data, claimed), *below, *_project(data, claimed, ledger)]
    notes = [
        *unknown,
        *_unchanged_facts(data),
        *_groups(data),
        *_processes(data),
        *_code(data, name),
        *_noise(data),
        *list_unspent(data),
    ]
    if data["training"].get("stopped") == INTERRUPTED:
        claim = interrupted_claim(claimed, data.get("project"))
        notes.append(f"its fit was interrupted: {claim}")
    said, authenticated, wrong = _signature(data, key)
    problems += [*wrong, *expiry_problems(data)]
    return Verification(
        data,
        epsilon,
        tuple(problems),
        tuple(notes),
        accountants,
        bounds,
        said,
        authenticated and not problems,
    )


def _claim(data: JsonObject) -> tuple[float, Ledger]:
    """Return the ε that is claimed, and the ledger that the mechanisms make."""
    check_listed(data["mechanisms"])
    # What was spent before the plan was made is composed by a filter of the budget that was asked for.
    budget = _number(data["epsilon_asked"]) or math.inf
    ledger = Ledger.from_list(budget, data["delta"], data["mechanisms"])
    return _number(data["epsilon"]), ledger


def _number(value: object) -> float:
    if value == "inf":
        return math.inf
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and value >= 0:
            return float(value)
    except OverflowError:  # a whole number that no float reaches
        pass
    raise FileFormatError(f"The certificate claims epsilon={quote(value)}.")


def _table(data: JsonObject, table: Path) -> list[str]:
    recorded, digest = data["table"]["sha256"], sha256(table)
    if recorded != digest:
        return [f"the table has SHA-256 {digest}, the certificate is for {quote(recorded, 80)}"]
    rows = data["table"]["rows"]
    columns = None if data.get("counts") is True else columns_of(data)
    if columns is not None and data["public"].get("design", {}).get("weights_in_table") is True:
        columns += 1
    actual_rows, width = _shape(table, rows, columns)
    problems = []
    if rows != actual_rows:
        problems.append(f"the table has {actual_rows} rows, the certificate says {quote(rows)}")
    if columns is not None and columns != width:
        problems.append(f"the table has {width} columns, the certificate says {columns}")
    return problems


def _shape(table: Path, rows: object, columns: int | None) -> tuple[int, int]:
    """Return the rows and columns of a table; a CSV file with the stated ones needs no reader of tables, nor pandas."""
    if table.suffix == ".csv":
        with suppress(csv.Error, UnicodeError), table.open(encoding="utf-8", newline="") as file:
            widths = Counter(map(len, csv.reader(file)))  # of the header and of all rows
            width = columns or next(iter(widths), 0)
            if isinstance(rows, int) and widths == {width: rows + 1}:
                return rows, width
    from tabsynth.tables.files import read_any

    return read_any(table).shape


def _epsilons(claimed: float, accountants: Sequence[AccountantResult]) -> list[str]:
    first, second = accountants
    low, high = claimed * (1 - TIGHT) - LEAST, claimed * (1 + LOOSE) + LEAST
    problems = []
    if not (low <= first.epsilon <= high or first.epsilon == claimed):
        problems.append(
            f"the mechanisms give epsilon={first.epsilon:.4g}, the claim is {claimed:.4g}"
        )
    if second.epsilon > claimed * (1 + SECOND) + LEAST + second.error:
        problems.append(f"a second accountant gives {second}, the claim is {claimed:.4g}")
    return problems


def _attacker(stated: JsonMapping | None, bounds: AttackBounds | None) -> list[str]:
    """Return bounds on an attacker that are stated, and are below those that the mechanisms give."""
    if stated is None:
        return []
    if bounds is None:
        return [
            "it states bounds on an attacker, and its epsilon is infinite, or the run was seeded"
        ]
    names = ("advantage", "odds", "exception")
    recomputed = bounds.to_dict()
    return [
        f"it states {name}={quote(stated[name])} of an attacker, and its mechanisms give {recomputed[name]:.4g}"
        for name in names
        if recomputed[name] > stated[name] * (1 + TIGHT) + LEAST
    ]


def expiry_problems(data: JsonMapping) -> list[str]:
    """Return what is wrong with the last day on which the signature holds; empty if there is none or it is to come."""
    if data.get("expires") is None:
        return []
    try:
        last = date.fromisoformat(str(data["expires"]))
    except ValueError:
        return [f"its expiry {quote(data['expires'])} is no date"]
    if datetime.now(UTC).date() <= last:
        return []
    return [f"its signature expired on {last.isoformat()}; have it signed again (tabsynth certify)"]


def _consistency(data: JsonObject, claimed: float, epsilon: float) -> list[str]:
    problems = []
    seeded = data.get("seeded") is not False
    conditional = conditional_of(data.get("public"))
    if bool(data.get("private")) and conditional:
        problems.append("it claims to be private, but its claim depends on drafted columns")
    if bool(data.get("private")) and (seeded or math.isinf(epsilon)):
        problems.append(
            "it claims to be private, but the run was seeded or read rows without noise"
        )
    words = [NAMES_AND_TYPES] if "plan" in data else [NAMES_AND_TYPES, NAMES_ONLY]
    facts = (claimed, data["delta"], seeded, data.get("public"))
    if data.get("statement") not in [statement_of(*facts, names=names) for names in words]:
        problems.append("its statement does not follow from its figures")
    return problems


def _form(data: JsonObject, claimed: float) -> list[str]:
    """Return the fields of the present format that do not follow from others."""
    problems = []
    if claimed > _number(data["epsilon_asked"]) * (1 + LOOSE):
        problems.append("it claims a larger epsilon than was asked for")
    conditional = conditional_of(data["public"])
    if data.get("conditional", []) != conditional:
        problems.append("its list of conditional columns is not that of its drafted columns")
    if not data["private"] and math.isfinite(claimed) and not data["seeded"] and not conditional:
        problems.append("it claims not to be private, but its figures are those of a private run")
    words = [USED_RECORDS] if "plan" in data else [USED_RECORDS, USED_RECORDS_OF_0_2]
    units = [protected_by(data["public"], records=records) for records in words]
    if {name: data[name] for name in units[0]} not in units:
        problems.append("its unit of privacy is not that of its public facts")
    stated = {**data["public"].get("design", {})}
    stated.pop("weights_in_table", None)
    if stated != design_of(data["public"]).statement():
        problems.append("the largest contribution of a unit is not that of its weight and bound")
    problems += _too_many(data)
    if data["composition"] != COMPOSITIONS[data["accountant"]["name"]]:
        problems.append("its composition is not that of its accountant")
    for item in data["mechanisms"]:
        parameters = {k: v for k, v in item.items() if k not in FIGURES}
        if describe_mechanism({**parameters, **mechanism_from(item).to_dict()}) != item:
            what = quote(item["purpose"])
            problems.append(
                f"sampling, sensitivity or noise of {what} are not those of its figures"
            )
        bound = _of_groups(item["details"])
        if bound is not None and not math.isclose(bound, item["sensitivity"]["value"] or 0.0):
            what = quote(item["purpose"])
            problems.append(f"the sensitivity of {what} is not that of its bound and groups")
    for audit in data["audit"]:
        bound = _number(audit.get("epsilon_lower_bound", 0))
        if audit.get("verdict") == "refuted":
            problems.append(f"an audit ({quote(audit['method'])}) refuted its claim")
        if bound > claimed:
            problems.append(
                f"an audit ({quote(audit['method'])}) gives epsilon >= {bound:.4g}, the"
                f" claim is {claimed:.4g}"
            )
    return problems


def _too_many(data: JsonObject) -> list[str]:
    """Find more processes than declared rows, or than teachers of a vote, which version 0.2 refused."""
    count, rows = data["public"].get("processes", 1), data["public"].get("rows")
    votes = [i["teachers"] for i in data["mechanisms"] if "teachers" in i and not i.get("earlier")]
    limits = [*votes, *([rows] if isinstance(rows, int) else [])]
    if count > min(limits, default=count):
        return [
            f"it states {count:,} processes, and a fit of its figures has {min(limits):,} at most"
        ]
    return []


def _sensitivities(data: JsonMapping) -> tuple[list[str], list[str]]:
    """Return problems and notes on the sensitivities of mechanisms: each is at least what one unit of privacy may add.

    A certificate that states no plan is of an earlier version, which may have had other units. A note names them.
    """
    problems: list[str] = []
    notes: list[str] = []
    for item in data["mechanisms"]:
        details, what = item["details"], quote(item["purpose"])
        value = details.get("l2_sensitivity")
        sensitivity = _least_sensitivity(item, data)
        if sensitivity is None:
            unit = quote(details.get("unit", "not stated"))
            unknown = f"the sensitivity of {what} has the unit {unit}, which no fit states for it"
            (notes if data.get("plan") is None else problems).append(unknown)
        elif not isinstance(value, int | float):
            if sensitivity and "teachers" not in item and data.get("plan") is not None:
                problems.append(f"it does not state the sensitivity of {what}")
        elif value < sensitivity * (1 - LEAST):
            problems.append(f"the sensitivity of {what} is below what one unit may add to a count")
    return problems, notes


def _least_sensitivity(item: JsonMapping, data: JsonMapping) -> float | None:
    """Return the most that one unit of privacy adds, by the unit of a sensitivity; None if a fit states no such unit for it.

    Earlier fits may have had smaller bounds of the same unit, but at least one row.
    """
    details, purpose, earlier = item["details"], item["purpose"], bool(item.get(EARLIER))
    planned, unit = data.get("plan") is not None, str(details.get("unit", ""))
    stage = purpose if purpose in UNITS else purpose.rpartition(": ")[2]  # of a linked table
    units = UNITS.get(stage, (*CONTRIBUTIONS,)) if planned else (*CONTRIBUTIONS,)
    if planned and stage == ONE_WAY and not earlier:
        units = (SETS,) if data["method"] in ("margnet", *LINKED) else COUNTS
    kind = next((u for u in units if u == unit or (u == NORM and NORM in unit)), None)
    sets = details.get("columns", details.get("rules", None if planned else 1))
    if kind is None or (kind in COUNTS and (type(sets) is not int or sets < 0)):
        return None
    design = design_of(data["public"])
    rows, bound = (1, 0.0) if earlier else (design.rows, design.bound)
    return CONTRIBUTIONS[kind](rows, bound, math.sqrt(sets if kind in COUNTS else 1))


def _of_groups(details: JsonMapping) -> float | None:
    """Return √G C, by which a row can move a sum of G groups that are clipped at C each.

    None where the certificate does not state it.
    """
    groups, bound = details.get("groups"), details.get("max_norm")
    if groups is None and bound is None:
        return None
    try:
        return math.sqrt(_number(groups)) * _number(bound)
    except FileFormatError:
        return math.nan


def _accountant(data: JsonObject, name: JsonObject) -> list[str]:
    """Return the problem of an accountant that is not a filter where the plan may follow from earlier outputs, and nowhere else, at the order of its budget."""
    stated, filters = data["accountant"], {*NAMES.values()}
    if (stated["name"] in filters or name["name"] in filters) and (
        stated["name"] != name["name"] or not _alike(_order(stated), name.get("order"))
    ):
        expected = " ".join(str(name[key]) for key in ("name", "order") if key in name)
        return [
            f"its accountant must be {expected}, by its list of mechanisms and the epsilon asked for"
        ]
    return []


def _order(stated: JsonMapping) -> float | None:
    """Return the order that a filter states, if it is a number."""
    order = stated.get("order")
    return order if isinstance(order, int | float) else None


def _alike(first: float | None, second: float | None) -> bool:
    """Return True if two orders are the same, but for the last digits of another build."""
    return first == second or (
        first is not None and second is not None and math.isclose(first, second, rel_tol=1e-9)
    )


def _project(data: JsonObject, claimed: float, ledger: Ledger) -> list[str]:
    """Return the problems of what a project's ledger states: a filter of its limit must cover at least this fit."""
    stated = data.get("project")
    if stated is None:
        return []
    limit, share, composition = (
        _number(stated["limit"]),
        _number(stated["share"]),
        stated["composition"],
    )
    kind = next(kind for kind, name in NAMES.items() if name == composition["name"])
    try:
        budget = PrivacyFilter.of(limit, stated["delta"] - stated.get("threshold_delta", 0.0), kind)
        fit_share = budget.share(ledger.spends())
    except (BudgetError, InputError) as error:
        return [f"its project's filter does not admit it: {error}"]
    expected = budget.to_dict()
    if composition["source"] != expected["source"] or not _alike(
        composition["order"], budget.order
    ):
        return ["the composition of its project is not the filter of its limit"]
    problems = []
    if stated.get("unit") != design_of(data["public"]).unit:
        problems.append("its project protects another unit of privacy than it does")
    if share > 1 + LOOSE:
        problems.append(f"its project has used {share:.4g} times its budget")
    # A fit that a person stopped states its whole plan, and a project counts what was used.
    complete = data["training"].get("stopped") != INTERRUPTED
    if complete and share < min(fit_share, 1.0) * (1 - TIGHT):
        problems.append(
            f"its project has used {share:.2%} of its budget, and it alone takes {fit_share:.2%}"
        )
    if not ledger.adaptive and stated["delta"] == data["delta"] and claimed > limit * (1 + LOOSE):
        problems.append(f"it claims epsilon={claimed:.4g}, past its project's limit of {limit:.4g}")
    return problems


def _unchanged_facts(data: JsonObject) -> list[str]:
    """Return notes on the declared facts that stand as a draft read them off rows, by column."""
    facts = data["public"].get(UNCHANGED_FACTS, {})
    return [
        f"column {quote(name)} is {UNCHANGED}: {', '.join(map(quote, names))}"
        for name, names in facts.items()
    ]


def _groups(data: JsonObject) -> list[str]:
    """Note that an earlier certificate prints for groups of parameters the figures of one group."""
    groups = []
    for item in data["mechanisms"]:
        details = item["details"]
        if details.get("grouping") in ("weight-bias", "clusters") and "groups" not in details:
            what = quote(item["purpose"])
            groups.append(
                f"sensitivity and noise of {what} are those of one group of parameters; of all groups"
                " together both are larger, by the same factor"
            )
    return groups


def _processes(data: JsonObject) -> list[str]:
    """Note how many processes trained a model of version 0.2, because the operators of each saw rows."""
    count = data["public"].get("processes", 1)
    return [f"{count:,} processes trained it, each with a part of the rows"] if count > 1 else []


def _noise(data: JsonObject) -> list[str]:
    if data["noise"] is None:
        return ["it does not state how its noise was generated"]
    return [] if data["noise"]["exact"] else [f"its noise was not exact: {data['noise']['law']}"]


def _code(data: JsonObject, name: JsonObject) -> list[str]:
    """Note what differs where another version of the library verifies; that is no reason to refuse."""
    notes, recorded = [], data["code"]
    if recorded is None:
        notes.append("it does not state which version of the code made it")
    elif recorded != code():
        notes.append(f"it was made by another version of the code (SHA-256 {recorded['sha256']})")
    if data["accountant"]["name"] != name["name"]:
        notes.append(
            f"its accountant is {data['accountant']['name']}, that of this verification {name['name']}"
        )
    return notes


def _signature(data: JsonObject, key: str | Path | None) -> tuple[str, bool, list[str]]:
    """Return a description of the signature, True if it is that of ``key``, and what is wrong with it."""
    if data.get("signature") is None and key is None:  # cryptography is slow to import
        return UNSIGNED, False, []
    from cryptography.exceptions import InvalidSignature

    from tabsynth.privacy.certificate.signing import fingerprint, read_public, signer

    trusted = None if key is None else fingerprint(read_public(key))
    if data.get("signature") is None:
        return UNSIGNED, False, ["it is not signed, and a key was given"]
    try:
        signer_fingerprint = fingerprint(signer(data))
    except InvalidSignature:
        wrong = "its signature is invalid: the certificate was changed, or the signature is forged"
        return "invalid signature", False, [wrong]
    if trusted is None:
        return f"signed by an unknown signer, fingerprint {signer_fingerprint}", False, []
    if signer_fingerprint != trusted:
        wrong = f"it is signed by {signer_fingerprint}, the key given is {trusted}"
        return f"signed by another signer, fingerprint {signer_fingerprint}", False, [wrong]
    return f"signed by {signer_fingerprint}, the key given", True, []
