"""The completeness of a certificate: its list of mechanisms against its method, its plan and its public facts."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tabsynth._typing import JsonMapping
from tabsynth._validate import quote
from tabsynth.errors import InputError
from tabsynth.methods import (
    CONCEPTS,
    DRAFT,
    LINKED,
    METHODS,
    ONE_WAY,
    OVERLAP,
    STEPS,
    Fit,
    Method,
    Required,
)
from tabsynth.privacy.accounting.calibration import UNSPENT
from tabsynth.privacy.accounting.mechanisms import finite
from tabsynth.privacy.ledger.ledger import EARLIER, Ledger

FIGURES = (
    "noise_multiplier",
    "sampling_rate",
    "threshold_delta",
    "noise",
    "teachers",
    "accounting",
)
LISTED = ("purpose", "mechanism", *FIGURES)  # of a mechanism in a plan, besides its count
TIME_LIMIT = "time limit"  # why a fit stopped
UNSTATED = ("0.1.", "0.2.0")  # versions that stated no plan
NO_PLAN = "it does not state its plan, so a mechanism that no public fact implies could be missing from its list"
SPARE = 5e-3  # of the budget, which another build of an accountant may leave


def find_missing_mechanisms(certificate: JsonMapping) -> list[str]:
    """Return what the list of mechanisms lacks, a sentence each; empty if a fit of the method can have made it.

    Parameters
    ----------
    certificate : dict
        Of any format; its other fields need not have been checked.
    """
    items = _used_mechanisms(certificate.get("mechanisms"))
    if not items:
        return ["it lists no mechanism that read private rows, so its claim has no basis"]
    method = certificate.get("method")
    registered = {**METHODS, **LINKED}
    if not isinstance(method, str) or method not in registered:
        return [
            f"its method {quote(method)} is unknown, so its list of mechanisms cannot be checked"
        ]
    public, training = section(certificate, "public"), section(certificate, "training")
    settings = section(certificate, "settings")
    columns = _counted_columns(items) or columns_of(certificate)
    purposes = {
        str(item.get("purpose")) for item in items if "warm_start" not in section(item, "details")
    }
    stopped = training.get("stopped") is not None
    required = _requirements(registered[method], public, settings, columns, stopped=stopped)
    problems = _lacking(method, required, purposes)
    if warm := section(public, "warm_start"):
        problems += _of_warm_start(warm, items, columns)
    planned = registered[method].required(_fit(public, settings, columns, stopped=False))
    return [
        *problems,
        *_unstated_plan(certificate),
        *_impossible_plan(certificate, method, planned),
        *_missing_of_plan(certificate, items),
        *_below_curves(certificate, registered[method], planned, items),
    ]


def _requirements(
    method: Method,
    public: JsonMapping,
    settings: JsonMapping,
    columns: int | None,
    *,
    stopped: bool,
) -> Required:
    """Return the mechanisms that a fit of a method must have charged, by its settings and public facts."""
    required = list(method.required(_fit(public, settings, columns, stopped=stopped)))
    if isinstance(section(public, "public_table").get("overlap"), Mapping):
        required.append((OVERLAP,))
    of_schema = public.get("schema_mechanisms")
    purposes = [*map(str, of_schema)] if isinstance(of_schema, list) else []
    if public.get("released") and set(purposes) != {CONCEPTS}:
        purposes += DRAFT
    return [*required, *((purpose,) for purpose in dict.fromkeys(purposes))]


def _fit(public: JsonMapping, settings: JsonMapping, columns: int | None, *, stopped: bool) -> Fit:
    """Return what settings and public facts say of a fit."""
    return Fit(
        columns=columns,
        rows_declared=public.get("rows") is not None,
        warm_start=bool(section(public, "warm_start")),
        stopped=stopped,
        private_autoencoder=settings.get("autoencoder") in ("counts", "dp-sgd", "no-noise"),
        counted_pairs=settings.get("autoencoder") == "counts" and columns != 1,
        class_votes=settings.get("mode") == "B",
        tables=_tables_with_counts(public),
        declared_tables=isinstance(public.get("tables"), list),
        weighted="weight" in section(public, "design"),
    )


def _impossible_plan(certificate: JsonMapping, method: str, required: Required) -> list[str]:
    """Return what the stated plan lacks of what each fit of the method plans, whatever stops it later."""
    if "plan" not in certificate:
        return []
    plan = section(certificate, "plan")
    planned = _uses(_used_mechanisms(plan.get("fit")))
    problems = _lacking(method, required, {*planned}, "plan")
    if any(
        len(_used_mechanisms(plan.get(part))) < len(plan.get(part) or [])
        for part in ("before", "fit")
    ):
        problems.append("its plan has a mechanism without a number of uses")
    return problems


def _below_curves(
    certificate: JsonMapping,
    method: Method,
    required: Required,
    items: Sequence[JsonMapping],
) -> list[str]:
    """Return mechanisms that are listed, or planned, with fewer uses than the curves have steps.

    A point of a curve follows from as many uses, whatever stopped the fit. What was spent before the plan made other curves.
    Which of several kinds of votes a curve counts follows from the settings, and without settings from the list.
    """
    curves, plan = section(section(certificate, "training"), "curves"), certificate.get("plan")
    listed, earlier = (
        _uses(items),
        _uses(_used_mechanisms(section(certificate, "plan").get("before"))),
    )
    counts = {"list of mechanisms": listed - earlier}
    if plan is not None:
        counts["plan"] = _uses(_used_mechanisms(section(certificate, "plan").get("fit")))
    due = {name for names in required for name in names} if "settings" in certificate else {*listed}
    problems = []
    for name, purposes in method.curves.items():
        counted = [purpose for purpose in purposes if purpose in due] or purposes
        steps = section(curves, name).get("step")
        numbers = map(finite, steps if isinstance(steps, list) else [])
        last = max((step for step in numbers if step is not None), default=0.0) / len(counted)
        problems += [
            f"its {what} has {uses[purpose]:,} uses of {purpose!r}, and its curves follow from {last:,.0f}"
            for purpose in counted
            for what, uses in counts.items()
            if uses[purpose] < last
        ]
    return list(dict.fromkeys(problems))


def _uses(items: Sequence[JsonMapping]) -> Counter[str]:
    """Return how often mechanisms were used, by purpose."""
    uses = Counter[str]()
    for item in items:
        uses[str(item.get("purpose"))] += item["count"]
    return uses


def _missing_of_plan(certificate: JsonMapping, items: Sequence[JsonMapping]) -> list[str]:
    """Return what the list lacks of the stated plan: each mechanism, by its purpose and figures, with its number of uses.

    A fit may have spent more, where a later one of the same object failed. A time limit may leave out steps.
    """
    plan, needed, listed = section(certificate, "plan"), Counter[str](), Counter[str]()
    cut = section(certificate, "training").get("stopped") == TIME_LIMIT
    for part in ("before", "fit"):
        for item in _used_mechanisms(plan.get(part)):
            if not (cut and part == "fit" and item.get("purpose") in STEPS):
                needed[_figures(item)] += item["count"]
    for item in items:
        listed[_figures(item)] += item["count"]
    missing = [
        f"{quote(json.loads(key)['purpose'])} ({listed[key]:,} of {count:,} uses)"
        for key, count in needed.items()
        if listed[key] < count
    ]
    below = "its list of mechanisms has less, or with other noise, than its plan charges: "
    return [below + ", ".join(missing)] if missing else []


def _figures(item: JsonMapping) -> str:
    """Return the purpose and the figures of a mechanism as JSON."""
    return json.dumps({name: item.get(name) for name in LISTED}, default=str)


def _tables_with_counts(public: JsonMapping) -> tuple[str, ...]:
    """Return the linked tables whose records a fit must have counted: all but those of which a root row has one row at most."""
    keys = {
        str(name): section(section(public, "tables"), str(name))
        for name in section(public, "tables")
    }
    roots = [name for name, of in keys.items() if of.get("parent") is None]
    return tuple(
        name
        for name, of in keys.items()
        if of.get("max_children") != 1 or of.get("parent") not in roots
    )


def _counted_columns(items: Sequence[JsonMapping]) -> int | None:
    """Return the number of columns that one-way counts are of, which leave out computed columns, or None."""
    of_columns = (item for item in items if item.get("purpose") == ONE_WAY)
    stated = (section(item, "details").get("columns") for item in of_columns)
    return next((columns for columns in stated if isinstance(columns, int)), None)


def columns_of(certificate: JsonMapping) -> int | None:
    """Return the number of columns of the table, by its certificate, or None."""
    public = section(certificate, "public")
    if "tables" in public:
        return None  # they are of several tables
    lists = [public.get(name) for name in ("declared", "drafted")]
    if isinstance(public.get("released"), list):
        lists.append(public["released"])
    name_lists = [names for names in lists if isinstance(names, list)]
    return sum(map(len, name_lists)) if len(name_lists) == len(lists) else None


def _of_warm_start(
    warm: JsonMapping, items: Sequence[JsonMapping], columns: int | None
) -> list[str]:
    """Return what lacks of the mechanisms of a warm start, which are listed under its name."""
    method, public = warm.get("method"), section(warm, "public")
    if not isinstance(method, str) or method not in METHODS:
        return [f"the method {quote(method)} of its warm start is unknown"]
    listed = [item for item in items if section(item, "details").get("warm_start") == method]
    if not listed:
        return [f"it lists no mechanism of its warm start, {method}"]
    purposes = {str(item.get("purpose")) for item in listed}
    # Nothing says whether its fit was stopped.
    required = _requirements(
        METHODS[method], public, section(warm, "settings"), columns, stopped=True
    )
    return _lacking(f"its warm start, {method},", required, purposes)


def _lacking(
    who: str, required: Required, purposes: set[str], where: str = "list of mechanisms"
) -> list[str]:
    missing = [" or ".join(map(repr, names)) for names in required if purposes.isdisjoint(names)]
    incomplete = f"its {where} is incomplete: a fit of {who} charges "
    return [incomplete + ", ".join(missing)] if missing else []


def _used_mechanisms(items: Any) -> list[JsonMapping]:
    """Return the mechanisms that were used at least once."""
    entries = items if isinstance(items, list) else []
    counted = [item for item in entries if isinstance(item, Mapping)]
    return [i for i in counted if isinstance(n := i.get("count"), int) and n > 0]


def _unstated_plan(certificate: JsonMapping) -> list[str]:
    """Return the problem of a certificate that states no plan though the version that wrote it does."""
    written = str(section(certificate, "versions").get("tabsynth"))
    if "plan" in certificate or written.startswith(UNSTATED):
        return []
    return [f"it does not state its plan, and version {quote(written)} states it"]


def list_unspent(data: JsonMapping) -> list[str]:
    """Return notes on what the plan, or else the list of mechanisms, leaves of the budget beyond what calibration does."""
    plan, budget = data.get("plan"), float(data["epsilon_asked"])
    notes, items = [], data["mechanisms"]
    if plan is None:
        notes.append(NO_PLAN)
    else:
        items = [*({**item, EARLIER: True} for item in plan["before"]), *plan["fit"]]
    if math.isinf(budget) or (plan is None and data["training"].get("stopped") is not None):
        return notes
    ledger = Ledger.from_list(budget, data["delta"], items)
    share = ledger.filter.share(ledger.spends()) if ledger.adaptive else ledger.spent / budget
    if share < 1 - UNSPENT - SPARE:
        what = "list of mechanisms" if plan is None else "plan"
        notes.append(f"its {what} leaves {1 - share:.1%} of the budget that was asked for unspent")
    return notes


def check_complete(certificate: JsonMapping, what: str) -> None:
    """Refuse to sign a certificate whose list of mechanisms is empty or incomplete.

    Raises
    ------
    InputError
    """
    problems = find_missing_mechanisms(certificate)
    if problems:
        raise InputError(f"{what} cannot be signed: {'; '.join(problems)}.")


def section(data: JsonMapping, name: str) -> JsonMapping:
    """Return an object of a certificate; an empty one for other values."""
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}
