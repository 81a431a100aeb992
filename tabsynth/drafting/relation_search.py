"""Relations between columns that a fit without a schema looks for, with noisy counts.

Candidates follow from the schema alone (:mod:`tabsynth.drafting.relations`). Up to three stages read the rows, each charged to
the ledger: the selection of candidates by exponential mechanisms; noisy joint counts of the columns of selected
dependencies; and noisy numbers of rows that keep and that break what is selected. A candidate is a rule if these say that
nearly no row breaks it.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import NormalDist

import numpy as np

from tabsynth._random import Randomness
from tabsynth._typing import JsonObject
from tabsynth.drafting.private_schema import check_design
from tabsynth.drafting.relations import RANGE, TOLERANCE, Candidate, Candidates, CodedRows
from tabsynth.encoding.holding import CodeRules
from tabsynth.encoding.rows import codes_of, key_of, rows_of
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import Gaussian, Mechanism, NoPrivacy
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable, exact
from tabsynth.privacy.noise import samplers
from tabsynth.schema.column import Column
from tabsynth.schema.conforming import conform
from tabsynth.schema.schema import Schema
from tabsynth.tables.frames import to_pandas

SELECTION, TABLES, COUNTS = (
    "selection of rules",
    "counts of dependencies",
    "counts of rules",
)  # the stages
# Of the budget, in μ²; the last stage has what is left.
SHARES = {SELECTION: 0.4, TABLES: 0.2}
CLEAR = 4.0  # standard deviations of its noise: a count above is taken to be of rows
# Twice the noise of the rows that break a rule must be less than this part of those that keep it. A function that is wrong for
# few values breaks few rows.
DOUBT = {"dependency": 0.02, "order": 0.04}


def find_relations(
    table: object, schema: Schema, mu: float, ledger: Ledger, random_state: int | None
) -> Schema:
    """Return a schema that a fit has drafted with the relations between its columns that noisy counts show.

    Rows of the table that break one are repaired or left out of the fit, as ``violations="repair"`` says.

    Parameters
    ----------
    table : DataFrame
        That of the draft.
    schema : Schema
        The draft.
    mu : float
        Of the Gaussian mechanisms of all stages together.
    ledger : Ledger
        Of the fit, with the draft on it. It is closed.
    random_state : int or None
        None, or another one than that of the draft.

    Returns
    -------
    Schema
        Its ``constraints`` are listed in ``released`` as ``constraints``, too, for they are no facts that a person declares.
    """
    columns = [column for column in schema.columns if column.learned]
    if len(columns) < 2:
        return schema
    rows = PrivateTable(_rows(table, schema, columns, random_state), ledger)
    stages = _Search(Candidates(columns), rows, ledger, mu, schema.design.rows, random_state)
    try:
        relations = stages.relations()
    finally:
        ledger.close()
    rules: list[JsonObject] = []
    ordered = set[tuple[str, str]]()  # names of which the first is known to be no larger
    for relation in relations:
        low, high = relation[0].get("order", (None, None))
        if (high, low) in ordered:  # equal numbers, whose bounds and cells differ
            continue
        # A rule may contradict an earlier one, or need a column that follows from others.
        with suppress(InputError):
            with_relation = schema.replace(constraints=[*rules, *relation])
            _ = CodeRules(with_relation).merged_rules, with_relation.learned
            rules += relation
            below = {low, *(a for a, b in ordered if b == low)}
            above = {high, *(b for a, b in ordered if a == high)}
            ordered |= {(a, b) for a in below for b in above if low is not None}
    released = {**(schema.released or {}), "mechanisms": ledger.to_list()}
    if not rules:
        return schema.replace(released=released)
    return schema.replace(
        constraints=rules, violations="repair", released=released | {"constraints": rules}
    )


def _rows(table: object, schema: Schema, columns: Sequence[Column], seed: int | None) -> CodedRows:
    """Return the rows that are used; refuse a table that does not fit the schema."""
    frame = conform(table, schema) if schema.released is not None else to_pandas(table)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    schema.check_columns(frame)
    check_design(frame, schema.design, schema.decimal)
    if schema.unit is not None:
        places, key = np.arange(len(frame)), key_of(seed)
        frame = frame.iloc[codes_of(rows_of(places, frame, schema.design, key, schema.decimal))]
    return CodedRows.of(frame, columns)


def selection_noise(mu: float) -> float:
    """Return ε of an exponential mechanism that a Gaussian mechanism of ``mu`` dominates.

    An exponential mechanism with weights exp(ε · score / R), where one row adds to all scores numbers of one interval
    of length R, has ε-bounded range (Durfee, Rogers 2019): the logarithms of the ratios of probabilities on neighbours
    lie in an interval [t - ε, t]. Its trade-off function is at least that of a binary mechanism with just these two
    ratios (Dong, Durfee, Rogers 2020), which is that of the Gaussian mechanism or above if its one kink is. The kink is
    nearest to it at t = ε/2, where the binary mechanism is a randomised response with probability 1/(1 + exp(-ε/2)).
    """
    tail = NormalDist().cdf(-mu / 2)
    # Where there is no number as small as the tail: less than that.
    return 2 * math.log((1 - tail) / tail) if tail else mu**2 / 4


class _Search:
    """The stages, and what follows from their releases.

    A unit adds at most ``bound`` rows, so it moves each count and each score at most so many times as far as a row does.
    """

    def __init__(
        self,
        candidates: Candidates,
        table: PrivateTable[CodedRows],
        ledger: Ledger,
        mu: float,
        bound: int,
        seed: int | None,
    ) -> None:
        self._candidates, self._table = candidates, table
        self._ledger, self._bound = ledger, bound
        self._bits = Randomness(seed).noise()
        self._mu, self._left = mu, 1.0
        # More rules at a larger budget: each selection is then as accurate as at a smaller one.
        self._most = int(np.clip(40 * min(mu, 1.0), 4, 32))

    def relations(self) -> list[list[JsonObject]]:
        """Return the rules of each relation that is clear enough to hold in all rows."""
        rules = []
        for candidate, function, sides, std in self._confirm(self._select()):
            if 2 * std <= DOUBT[candidate.form] * sides[:-1].sum():
                difference = self._candidates.difference(candidate, sides[:-1], std)
                rules.append(self._candidates.rules(candidate, function, difference))
        return rules

    def _open(self, stage: str, uses: int, details: JsonObject) -> tuple[Account, float]:
        """Return the account of a stage, and μ of one use; the last stage has what the others have left."""
        share = SHARES.get(stage, self._left)
        self._left -= share
        mu = self._mu * math.sqrt(share / uses)
        mechanism: Mechanism = NoPrivacy() if math.isinf(mu) else Gaussian(noise_multiplier=1 / mu)
        return self._ledger.open(f"schema: {stage}", mechanism, uses, details), mu

    def _release(
        self,
        stage: str,
        number: int,
        count: Callable[[CodedRows], list[np.ndarray]],
    ) -> tuple[list[np.ndarray], float]:
        """Return noisy counts, and the standard deviation of their noise.

        Formal guarantees
        -----------------
        There are ``number`` arrays, and a row adds 1 to at most one count of each: an L2 norm of at most √number. A unit has at
        most ``bound`` rows, so that the sensitivity is at most ``bound`` times that.
        """
        sensitivity = self._bound * math.sqrt(number)
        details = {"l2_sensitivity": sensitivity, "unit": "counts", "rules": number}
        account, mu = self._open(stage, 1, details)
        std = sensitivity / mu
        counts = exact(account, count(self._table.read(account)), [std] * number)
        return [samplers.noisy(c, std, self._bits, whole=True) for c in counts], std

    def _select(self) -> list[Candidate]:
        """Return candidates that are drawn with probability growing with their score, one at a time.

        Formal guarantees
        -----------------
        One row more adds to all scores numbers from -2 to 1 (:meth:`Candidates.scores`), a unit at most ``bound`` times as
        much, so that each draw is an exponential mechanism with scores of one interval of length ``RANGE`` times ``bound``:
        see :func:`selection_noise`. Weights of candidates follow from the schema.
        """
        details = {
            "unit": "scores of candidate rules",
            "pairs": len(self._candidates.pairs),
            "selection": "exponential mechanism, which the Gaussian mechanism dominates",
        }
        account, mu = self._open(SELECTION, self._most, details)
        rows = self._table.read(account, self._most)
        span = RANGE * self._bound
        # Of score 0: nothing is worth it.
        candidates, parts = [Candidate("none", (-1,))], [np.zeros(1)]
        for group, gains in self._candidates.scores(rows):
            candidates += group
            parts.append(gains)
        scores = np.concatenate(parts)
        # Each draw is a use with scores of its own.
        of_draws = np.broadcast_to(scores, (self._most, len(scores)))
        (of_draws,) = exact(account, [of_draws], [span / mu], self._most, of_selection=True)
        return self._draw(candidates, of_draws[0], selection_noise(mu) / span)

    def _draw(
        self, candidates: list[Candidate], scores: np.ndarray, sharpness: float
    ) -> list[Candidate]:
        """Return one draw after another; in float64, probabilities below 2⁻⁵³ are 0, far below any δ in use.

        Nothing, all likely candidates and all others are a priori equally probable.
        """
        undrawn = np.ones(len(candidates), dtype=bool)
        numbers: dict[tuple[str | int, ...], int] = {}
        kinds = np.array([numbers.setdefault(c.kind, len(numbers)) for c in candidates])
        groups = np.array([0 if c.form == "none" else 1 + c.likely for c in candidates])
        weights = -np.log(np.bincount(groups)[groups])
        chosen: list[Candidate] = []
        for _ in range(self._most):
            weighed = np.where(undrawn, scores, -np.inf)
            if math.isinf(sharpness):
                pick = int(weighed.argmax())
            else:  # the largest of scores with Gumbel noise: the exponential mechanism
                gumbel = -np.log(
                    -np.log(np.minimum(samplers.uniform(len(scores), self._bits), 1 - 2.0**-53))
                )
                pick = int((sharpness * weighed + weights + gumbel).argmax())
            if candidates[pick].form == "none":
                continue  # other draws may still find one
            chosen.append(candidates[pick])
            undrawn[kinds == kinds[pick]] = False
        return chosen

    def _confirm(
        self, selected: Sequence[Candidate]
    ) -> list[tuple[Candidate, np.ndarray | None, np.ndarray, float]]:
        """Return those of the selected candidates that noisy counts confirm: nearly no row breaks them.

        Each with its function, its noisy :meth:`Candidates.sides`, and the noise of these.
        """
        functions = self._functions([c for c in selected if c.form == "dependency"])
        left = [c for c in selected if c.form != "dependency" or c in functions]
        if not left:
            return []

        def count(rows: CodedRows) -> list[np.ndarray]:
            return [self._candidates.sides(rows, c, functions.get(c)) for c in left]

        sides, std = self._release(COUNTS, len(left), count)
        confirmed = []
        for candidate, numbers in zip(left, sides, strict=True):
            keeping, broken = numbers[:-1].sum(), numbers[-1]
            if keeping > CLEAR * std and broken <= std + TOLERANCE * keeping:
                confirmed.append((candidate, functions.get(candidate), numbers, std))
        return confirmed

    def _functions(self, dependencies: Sequence[Candidate]) -> dict[Candidate, np.ndarray]:
        """Return the functions that noisy joint counts give, where they give one."""
        if not dependencies:
            return {}

        def count(rows: CodedRows) -> list[np.ndarray]:
            return [self._candidates.joint_counts(rows, c) for c in dependencies]

        number = len(dependencies)
        noisy, std = self._release(TABLES, number, count)
        functions = {
            c: self._candidates.function(c, counts, std)
            for c, counts in zip(dependencies, noisy, strict=True)
        }
        return {c: function for c, function in functions.items() if function is not None}
