"""The linked schema of an OMOP database: the public facts of the CDM, concepts of a vocabulary, and those that are selected privately.

Concepts of wide columns are selected by noisy numbers of persons: one Gaussian release for all columns, charged as a draft of
a schema is. With a vocabulary each of its concepts is known, and those with clear numbers are modelled one by one, others in
groups of its hierarchy. Without one, a concept must pass a threshold that no concept of one person passes, but with a
probability that is a part of δ; all others become 0, "No matching concept".

The same release says which share of persons has each concept, which synthetic tables keep to.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._random import Randomness
from tabsynth._typing import JsonObject
from tabsynth._validate import integer, one_of, positive, quote
from tabsynth.drafting.budget import DraftBudget, mu_of_share
from tabsynth.drafting.private_schema import open_ledger
from tabsynth.encoding.derived import encoder_of
from tabsynth.errors import InputError
from tabsynth.methods import CONCEPTS
from tabsynth.omop.database import OmopDatabase, cdm
from tabsynth.privacy.accounting.accountants import GAUSSIAN_FILTER, Spend
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable, exact_of, new_name, note_passed
from tabsynth.privacy.ledger.project import ProjectLedger
from tabsynth.privacy.noise import samplers
from tabsynth.schema.categorical import Categorical
from tabsynth.schema.column import MAX_CATEGORIES, Column
from tabsynth.schema.hierarchical import Hierarchical
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema
from tabsynth.schema.temporal import Date
from tabsynth.synthesizers.linked.estimator import LinkedMargNet

SHARE = 0.2  # of the budget of a fit, in μ²: the release of concepts
MOST_CONCEPTS = 64  # of one person, that count fully: the L2 norm of what a person adds is at most 1 in any case
# Standard deviations of noise that the number of persons of the first and of the last year must have.
CLEAR_YEAR = 4.0
YEARS = "years of visits"
CLEAR = 2.5  # standard deviations of noise: concepts of a vocabulary with more persons are modelled one by one
MOST_MODELLED = 400  # concepts of one column
SMALL = 60  # concepts of a column that are all modelled where a vocabulary lists them
UNIT = "units, each with weights of L2 norm 1 that its rows share"
MOST_ITEMS = 1_000  # concepts of one person that are counted
PERSONS = "persons"
LEAST_AGAIN = 0.01  # of the weights of concepts among repeated ones
AGAIN = "again"  # the concepts that a person has in several rows
# Numbers with two digits that divide a decade in 24 nearly equal parts (IEC 60063): cells of measured values.
TENTHS = "10 11 12 13 15 16 18 20 22 24 27 30 33 36 39 43 47 51 56 62 68 75 82 91"
E24 = tuple(int(number) / 10 for number in TENTHS.split())
DECADES = range(-1, 5)
Selected = dict[str, dict[int, float]]


def omop_schema(
    database: OmopDatabase,
    epsilon: float,
    delta: float = 1e-5,
    *,
    dates: tuple[str, str] | None = None,
    max_children: Mapping[str, int] | None = None,
    random_state: int | None = None,
    ledger: str | Path | None = None,
) -> LinkedSchema:
    """Return the linked schema of an OMOP database, for :class:`tabsynth.LinkedMargNet` with the same budget.

    Parameters
    ----------
    database : OmopDatabase
        See :func:`tabsynth.omop.read_omop`.
    epsilon, delta : float
        The budget of the fit, of which the selection of concepts takes 20% in μ². The fit with the schema counts it.
    dates : pair of str, optional
        The first and the last date of the records, from public knowledge; others are refused. Default: the first and the
        last year, from 1980 to 2039, in which the release clearly finds visits. Dates beyond count as their ends.
    max_children : dict, optional
        By table, the most records of one person or visit that are used, from public knowledge. Default: 40 visits of a
        person, and of a visit 12 conditions, drugs and measurements and 8 procedures.
    random_state : int, optional
        For tests; a seeded schema is not private.
    ledger : path, optional
        A project's ledger, to which the selection is charged before records are read.

    Raises
    ------
    InputError
        For a concept that the vocabulary does not have, and for dates and bounds that are none. Nothing is charged.
    BudgetError
    """
    positive("epsilon", epsilon, finite=False)
    builder = _Builder(database, dates, max_children)
    builder.check()
    mu = mu_of_share(epsilon, delta, SHARE)
    with nullcontext() if ledger is None else ProjectLedger(ledger) as project:
        seeded = None if random_state is None else "A seeded selection of concepts"
        charges = open_ledger(project, epsilon, delta, "person_id", seeded)
        if project is not None:
            plain = builder.unselected()
            method = LinkedMargNet(plain, epsilon=epsilon, delta=delta).make_method(plain)

            def after(earlier: Ledger) -> list[Spend]:
                return [(spend.mechanism, spend.count) for spend in method.plan(earlier)]

            project.admit_draft(charges, mu, GAUSSIAN_FILTER, after)
        charges.unit = "person_id"
        try:
            selected, std = select(builder, mu, charges, random_state)
            builder.set_years(selected.pop(YEARS, {}))
        finally:
            charges.close()
    facts: JsonObject = {
        "mechanisms": charges.to_list(),
        "seeded": random_state is not None,
        "public": ["columns of the CDM", "concepts of the vocabulary", "years of dates"],
        "release": new_name(),
        "std": std,
    }
    if charges.project is not None:
        facts |= {"project": charges.project, "run": charges.run}
    return builder.schema(selected, facts)


class _Builder:
    """The linked schema of a database, but for the selected concepts."""

    def __init__(
        self,
        database: OmopDatabase,
        dates: tuple[str, str] | None,
        max_children: Mapping[str, int] | None,
    ) -> None:
        facts = cdm()
        self.database, self.tables = database, facts["tables"]
        self.dates = dates or (facts["first_date"], facts["last_date"])
        self.clips_dates = dates is None  # which are tabsynth's choice then
        self.years_released = False
        try:
            first, last = map(date.fromisoformat, self.dates)
        except (TypeError, ValueError):
            raise InputError(
                f"Expected dates to be two dates such as 2015-01-01, got {quote(dates)}."
            ) from None
        if first >= last:
            raise InputError(f"Expected dates in their order, got {first} and {last}.")
        self.bounds = dict(max_children or {})
        bounded = [name for name, of in self.tables.items() if "max_children" in of]
        for name in self.bounds:
            one_of("table of max_children", name, bounded)
            integer(f"max_children of {name}", self.bounds[name])
        self.known = {place: self._known(*place) for place in self.places()}
        problems = [p for place in self.places() if (p := self._unknown(*place)) is not None]
        if problems:
            raise InputError(" ".join(problems))
        # A schema does not list more; concepts of such a column are selected as without a vocabulary.
        wide = [
            place for place, codes in self.known.items() if codes and len(codes) > MAX_CATEGORIES
        ]
        self.known |= dict.fromkeys(wide)

    def years(self) -> range:
        """Return the years of dates."""
        return range(int(self.dates[0][:4]), int(self.dates[1][:4]) + 1)

    def set_years(self, shares: Mapping[int, float]) -> None:
        """Take the first and the last of the released years as the bounds of dates."""
        if shares:
            self.dates = f"{min(shares)}-01-01", f"{max(shares)}-12-31"
            self.years_released = True

    def places(self) -> list[tuple[str, str]]:
        """Return the tables and columns of concepts that the database has."""
        return [
            (name, column)
            for name, of in self.tables.items()
            for column, fact in of["columns"].items()
            if "domain" in fact and column in self.database.tables[name]
        ]

    def repeats(self, name: str) -> str | None:
        """Return the column of concepts that persons repeat: the first of a table of records of visits."""
        of = self.tables[name]
        return next(iter(of["columns"])) if of.get("parent") == "visit_occurrence" else None

    def counts(self, name: str, column: str) -> bool:
        """Return whether persons are counted by the concepts of a column: not where a vocabulary lists a few, all of which are modelled."""
        known = self.known[name, column]
        return known is None or len(known) > SMALL or self.repeats(name) == column

    def _known(self, name: str, column: str) -> tuple[int, ...] | None:
        if self.database.vocabulary is None:
            return None
        domain = self.tables[name]["columns"][column]["domain"]
        return self.database.vocabulary.codes(domain, column)

    def _unknown(self, name: str, column: str) -> str | None:
        known, vocabulary = self.known[name, column], self.database.vocabulary
        if known is None or vocabulary is None:
            return None
        fact = self.tables[name]["columns"][column]
        of_domain = f" of domain {quote(fact['domain'])}"
        if fact.get("any_domain"):
            known, of_domain = vocabulary.codes("", column), ""
        values = self.database.tables[name][column]
        wrong = ~values.isin(known)
        if not wrong.any():
            return None
        return (
            f"Table {name} has {column}={quote(int(values[wrong].iloc[0]))}, which is no standard concept{of_domain}"
            f" in the vocabulary ({int(wrong.sum()):,} rows have such); map it, write 0, or add it to CONCEPT."
        )

    def check(self) -> None:
        """Refuse keys, dates and values that a fit would refuse, before anything is charged."""
        encoder_of(self.unselected()).to_tables(self.database.tables)

    def unselected(self) -> LinkedSchema:
        """Return the schema before concepts are selected."""
        nothing: Selected = {f"{name}.{column}": {} for name, column in self.places()}
        facts = {"mechanisms": [{"purpose": "no release yet"}], "release": "none"}
        return self.schema(nothing, facts)

    def schema(self, selected: Selected, released: JsonObject) -> LinkedSchema:
        """Return the linked schema with selected concepts, by column the share of persons of each."""
        tables, keys = {}, {}
        # Of repeated concepts the share of persons, and how many of these have it again.
        own: JsonObject = {}
        for name in filter(self.repeats, self.tables):
            place = f"{name}.{self.repeats(name)}"
            again = selected.get(f"{place} {AGAIN}", {})
            own[place] = {
                str(code): [round(share, 5), round(again.get(code, 0.0) / share + LEAST_AGAIN, 4)]
                for code, share in selected[place].items()
            }
        for name, of in self.tables.items():
            columns = [
                self._column(name, column, fact, selected)
                for column, fact in of["columns"].items()
                if column in self.database.tables[name]
            ]
            facts = released | own if name == "person" else released
            left_out = [
                {"name": column, "reason": cdm()["reasons"][reason]}
                for reason, listed in of["left_out"].items()
                for column in listed
            ]
            left_out += [
                {"name": c, "reason": "the CDM does not have it"} for c in self.database.extra[name]
            ]
            tables[name] = Schema(columns, left_out=left_out, released=facts)
            keys[name] = self._keys(name, of)
        return LinkedSchema(tables, keys)

    def _keys(self, name: str, of: JsonObject) -> JsonObject:
        out: JsonObject = {
            k: of[k] for k in ("key", "parent", "parent_key", "order", "orphans") if k in of
        }
        if "max_children" in of:
            out["max_children"] = self.bounds.get(name, of["max_children"])
        if "order" in of:
            out["gaps"] = [of["order"]]
        if "inherited" in of:
            out["inherited"] = [of["inherited"]]
        visit = [f"visit_occurrence.visit_{end}_date" for end in ("start", "end")]
        since: JsonObject = {}
        for column, fact in of["columns"].items():
            if column not in self.database.tables[name] or fact.get("date", "birth") == "birth":
                continue
            known = {"visit": visit, "last": visit[1:]}
            since[column] = known.get(fact["date"], [fact["date"]])
        if since:
            out["since"] = since
        if self.repeats(name):
            out["repeats"] = self.repeats(name)
        for column, values in of.get("events", {}).items():
            there = [value for value in values if value in (self.known[name, column] or ())]
            if there:
                out["events"] = {column: there}
        if name == "person":
            out["before"] = {"year_of_birth": [visit[0], "death.death_date"]}
        return out

    def _column(self, name: str, column: str, fact: JsonObject, selected: Selected) -> Column:
        about: JsonObject = {"name": column, "source": f"OMOP CDM {cdm()['version']}"}
        if "date" in fact:
            low, high = self.dates
            years = int(high[:4]) - int(low[:4]) + 1
            about |= {"provenance": "released"} if self.years_released else {}
            about |= {"dtype": "str", "clip": self.clips_dates, "bins": min(4 * years, 120)}
            return Date(**about, low=low, high=high)
        if "domain" not in fact:
            about |= {"low": fact["low"], "high": fact["high"], "clip": column != "year_of_birth"}
            about |= {"nulls": not fact.get("required", False)}
            if fact.get("real"):
                cells = [round(e * 10.0**k, 4) for k in DECADES for e in E24]
                cells = [-100.0, -10.0, -1.0, 0.0, *cells]
                return Numeric(**about, dtype="float64", resolution=0.01, breaks=tuple(cells))
            fives = range(fact["low"] + 5, fact["high"], 5)
            dtype = "Int64" if about["nulls"] else "int64"
            return Numeric(**about, dtype=dtype, breaks=tuple(fact.get("breaks", fives)))
        known, codes = self.known[name, column], selected[f"{name}.{column}"]
        about["dtype"], vocabulary = "int64", self.database.vocabulary
        names = {} if vocabulary is None else vocabulary.names
        is_small = known is not None and len(known) <= SMALL
        modelled = known if known is not None and is_small else tuple(sorted({0, *codes}))
        about["labels"] = {str(c): names[c] for c in modelled if c in names}
        about |= {"other": 0} if not is_small or fact.get("any_domain") else {}
        if is_small:
            return Categorical(**about, categories=modelled)
        about["provenance"] = "released"
        if known is None or vocabulary is None:
            return Categorical(**about, categories=modelled)
        parents = vocabulary.parents(known)
        return Hierarchical(**about, codes=known, parents=parents, modelled=modelled)


def _items(builder: _Builder) -> pd.DataFrame:
    """Return the distinct concepts of each person, up to a public number: the number of the person, the place, and the code."""
    persons = builder.database.tables["person"]["person_id"]
    numbers = pd.Series(np.arange(len(persons)), index=persons.to_numpy())
    parts = []
    for name, column in builder.places():
        if builder.counts(name, column):
            place, table = f"{name}.{column}", builder.database.tables[name]
            of = table["person_id"].map(numbers)
            rows = pd.DataFrame({"person": of, "code": table[column]}).dropna().astype("int64")
            counted = rows.value_counts().reset_index(name="rows")
            parts.append(counted.assign(place=place))
            if builder.repeats(name) == column:
                several = counted[counted["rows"] > 1]
                parts.append(several.assign(place=f"{place} {AGAIN}"))
    if builder.clips_dates:
        visits = builder.database.tables["visit_occurrence"]
        years = pd.to_datetime(visits["visit_start_date"].astype(str).str[:10]).dt.year
        years = years.clip(builder.years()[0], builder.years()[-1])
        rows = pd.DataFrame({"person": visits["person_id"].map(numbers), "code": years})
        parts.append(rows.dropna().astype("int64").drop_duplicates().assign(place=YEARS))
    items = pd.concat(parts, ignore_index=True).sort_values(["place", "code"], kind="stable")
    return items[items.groupby("person").cumcount() < MOST_ITEMS]


def weights_of(items: pd.Series, scale: int) -> np.ndarray:
    """Return the weight of a concept of persons whose concepts count as so many, in multiples of 1 / scale."""
    return np.floor(scale * np.minimum(1 / np.sqrt(items.to_numpy(float)), MOST_CONCEPTS**-0.5))


def select(
    builder: _Builder, mu: float, ledger: Ledger, seed: int | None
) -> tuple[Selected, float]:
    """Return the selected concepts of each column, with the share of persons who have each, and the standard deviation of the noise on a share.

    Formal guarantees
    -----------------
    A person with a different concepts, over all columns, of which b are in several rows, adds the weight w = ⌊u min(1/√k, 1/√D)⌋/u to
    the number of persons and to each concept, and half of it to each of the b as one that is there again, where
    k = 1 + a + b/4, 1/u is the unit of weights and D is :data:`MOST_CONCEPTS`. So what one person adds has an L2 norm of at
    most w√k ≤ 1, and sums are whole multiples of 1/u, without rounding. Concepts of a vocabulary are known without the records, but
    for columns with too many to list. Of others only those are looked at whose noisy sum passes the threshold of
    :meth:`tabsynth.drafting.budget.DraftBudget.threshold` for half of the chance. Its proof holds for k values of weights of at most
    1/√k, and k up to the public :data:`MOST_ITEMS`: so for the a concepts, and for the b, each with half of the chance. Shares
    are post-processing. Without declared dates each year in which a person has a visit counts as a concept; all years are known.
    """
    counted_places = [place for place in builder.places() if builder.counts(*place)]
    public = all(builder.known[place] is not None for place in counted_places)
    chance = 0.0 if public or np.isinf(mu) else ledger.threshold_delta
    budget = DraftBudget(mu=mu, threshold_delta=chance)
    mechanism = budget.mechanism(1.0, None if public else chance)
    std = 0.0 if isinstance(mechanism, NoPrivacy) else mechanism.noise_multiplier
    details = {"l2_sensitivity": 1.0, "unit": UNIT, "composition": GAUSSIAN_FILTER}
    account = ledger.open(CONCEPTS, mechanism, 1, details)
    rows = PrivateTable((_items(builder), len(builder.database.tables["person"])), ledger)
    items, persons = rows.read(account)
    scale = budget.scale
    again = items["place"].str.endswith(f" {AGAIN}").to_numpy()
    number = 1 + np.bincount(items["person"], np.where(again, 0.25, 1.0), minlength=persons)
    alone = weights_of(pd.Series(number), scale)
    each = alone[items["person"].to_numpy()]
    each = np.where(again, each // 2, each)
    sums = pd.Series(each).groupby([items["place"].to_numpy(), items["code"].to_numpy()]).sum()
    least = 0.0 if public else budget.threshold(std, chance / 2, MOST_ITEMS)
    names, labels, thresholds = [PERSONS], [[PERSONS]], [0.0]
    values = [np.array([alone.sum()])]
    for name, column in counted_places:
        known, place = builder.known[name, column], f"{name}.{column}"
        for suffix in ("", f" {AGAIN}") if builder.repeats(name) == column else ("",):
            there = sums.index.get_level_values(0) == f"{place}{suffix}"
            of = sums[there].droplevel(0)
            codes: Any = of.index if known is None else pd.Index(known)
            names.append(f"{place}{suffix}")
            labels.append(codes.tolist())
            values.append(of.reindex(codes, fill_value=0.0).to_numpy(dtype=float))
            thresholds.append(least if known is None else CLEAR * std)
    if builder.clips_dates:
        there, years = sums.index.get_level_values(0) == YEARS, pd.Index(builder.years())
        names.append(YEARS)
        labels.append(years.tolist())
        of = sums[there].droplevel(0).reindex(years, fill_value=0.0)
        values.append(of.to_numpy(dtype=float))
        thresholds.append(CLEAR_YEAR * std)
    stds, units = [std * scale] * len(values), [float(scale)] * len(values)
    exact_labels, values = exact_of(account, labels, values, stds, units)
    bits = Randomness(seed).noise()
    noisy = [samplers.noisy(v, std * scale, bits, whole=True) / scale for v in values]
    total = max(1.0 / scale, float(noisy[0][0]))
    out: Selected = {f"{name}.{column}": {} for name, column in builder.places()}
    passed: list[list[Any]] = []
    of_columns = zip(names[1:], exact_labels[1:], noisy[1:], thresholds[1:], strict=True)
    for place, of_place, counted, threshold in of_columns:
        largest = np.argsort(-counted, kind="stable")[:MOST_MODELLED].tolist()
        clear = [(of_place or ())[i] for i in largest if counted[i] > threshold]
        of_total = total / 2 if place.endswith(f" {AGAIN}") else total
        found = counted[largest[: len(clear)]] / of_total
        shares = dict(zip(clear, found.tolist(), strict=True))
        out[place] = {int(code): share for code, share in shares.items() if code != 0}
        passed.append(clear)
    note_passed(CONCEPTS, [[PERSONS], *passed])
    return out, std / total
