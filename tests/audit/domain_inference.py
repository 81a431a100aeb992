"""Domain inference: does a private draft of a schema tell whether one person's value is in the table?

A game with two neighbouring tables: one record alone has the value that is asked about, or is the one that may bring it
over the threshold. An attacker sees the drafted schema and guesses the table. What the attacker guesses at which schema
is learned from half of the trials, and the other half counts the guesses that were wrong, so the bounds hold whatever
was learned.
"""

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tabsynth._validate import integer
from tabsynth.auditing.lower_bounds import (
    CONFIDENCE,
    Errors,
    detectable_noise_ratio,
    epsilon_from_rates,
    mu_from_rates,
    rate_lower_bound,
)
from tabsynth.auditing.outcomes import REFUTED, AuditResult, decide_verdict
from tabsynth.drafting.private_schema import INFERRED, draft_private
from tabsynth.errors import DraftWarning, InputError
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.accounting.mechanisms import THRESHOLD_SHARE
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema
from tabsynth.training.loop import Progress

KIND, METHOD = "domain-inference", "draft"
TRIALS = 10_000  # drafts of each table
PILOT, MOST = (
    21,
    4_096,
)  # drafts that look for the number of records at a threshold, and the most records
NOTHING = "nothing is released"
Answer = Callable[[Schema | None], bool]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked about one person's value.

    Attributes
    ----------
    text : str
    others : DataFrame
        The other records.
    record : DataFrame
        One record with the value.
    yes : callable
        From a drafted schema (None: nothing was released) to whether it tells of the value.
    """

    text: str
    others: pd.DataFrame
    record: pd.DataFrame
    yes: Answer

    def table(self, records: int) -> pd.DataFrame:
        """The other records with so many of the one that is asked about."""
        return pd.concat([self.others, *[self.record] * records], ignore_index=True)


def _column(values: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"value": values})


def _released(tells: Callable[[Column], bool]) -> Answer:
    """What is asked of the column, if it is released."""
    return lambda schema: schema is not None and "value" in schema.names and tells(schema["value"])


QUESTIONS: dict[str, Question] = {
    "e-mail": Question(
        text="is this e-mail address in the table?",
        others=_column(["yes"] * 120 + ["no"] * 80),
        record=_column(["ann.lee@mail.example"]),
        yes=lambda schema: (
            schema is None
            or "value" in schema.names_left_out
            or "ann.lee@mail.example" in schema["value"].categories
        ),
    ),
    "diagnosis": Question(
        text="is this rare diagnosis in the table?",
        others=_column(["I10"] * 120 + ["E11"] * 80),
        record=_column(["Q99"]),
        yes=_released(lambda column: "Q99" in column.categories),
    ),
    "maximum": Question(
        text="is this maximum in the table?",
        others=_column([str(i % 100) for i in range(200)]),
        record=_column(["900000"]),
        yes=_released(lambda column: getattr(column, "high", 0) > 100_000),
    ),
    "between steps": Question(
        text="is this number between whole numbers in the table?",
        others=_column([str(i % 20) for i in range(400)]),
        record=_column(["7.25"]),
        yes=_released(lambda column: 7.25 in getattr(column, "categories", ())),
    ),
    "sign": Question(
        text="is there a percentage in the table?",
        others=_column([str(i % 50) for i in range(50)]),
        record=_column(["12%"]),
        yes=_released(lambda column: getattr(column, "format", None) is not None),
    ),
    "text": Question(
        text="is this text in place of a number in the table?",
        others=_column([str(i % 50) for i in range(200)]),
        record=_column(["declined"]),
        yes=_released(lambda column: "declined" in column.missing),
    ),
    "repeats": Question(
        text="does this record number repeat in the table?",
        others=_column([str(10_000 + 7 * i) for i in range(1_000)]),
        record=_column(["10000"]),
        yes=_released(lambda column: True),
    ),
}


def audit_draft(
    question: str,
    epsilon: float,
    delta: float = 1e-5,
    *,
    alone: bool = False,
    trials: int = TRIALS,
    progress: Progress | None = None,
) -> AuditResult:
    """Audit the claim of private drafts by one question.

    Parameters
    ----------
    question : str
        A key of :data:`QUESTIONS`.
    epsilon, delta : float
        The claim of each draft.
    alone : bool
        Whether no other record has the value. Else so many have it that the draft tells of it in about half of all
        trials, where one more makes the largest difference.
    trials : int
        Drafts of each of the two tables, at least 20.
    progress : callable, optional
        ``progress(what, done, total)``.

    Returns
    -------
    AuditResult
        ``details`` has the rates of guesses that were right with their Clopper-Pearson bounds, and the most that the
        claim allows.
    """
    if question not in QUESTIONS:
        raise InputError(f"Expected question in {', '.join(QUESTIONS)}, got {question}.")
    integer("trials", trials, least=20)
    started = time.monotonic()
    asked = QUESTIONS[question]
    records = 0 if alone else records_at_threshold(asked, epsilon, delta)
    tables = [asked.table(records), asked.table(records + 1)]
    seen: list[list[str]] = [[], []]
    for trial in range(trials):
        for outcomes, table in zip(seen, tables, strict=True):
            outcomes.append(outcome(drafted(table, epsilon, delta)))
        if progress is not None:
            progress(KIND, trial + 1, trials)
    half = trials // 2
    without, with_record = (Counter(outcomes[:half]) for outcomes in seen)
    guessed = {text for text, count in with_record.items() if count > without[text]}
    errors = Errors(
        false_positives=sum(text in guessed for text in seen[0][half:]),
        runs_without=trials - half,
        false_negatives=sum(text not in guessed for text in seen[1][half:]),
        runs_with=trials - half,
    )
    where = "held by nobody else" if alone else f"held by {records} others, at the threshold"
    return _result(f"{asked.text} ({where})", errors, epsilon, delta, time.monotonic() - started)


def drafted(table: pd.DataFrame, epsilon: float, delta: float) -> Schema | None:
    """A private draft of a table; None if it could release nothing."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", INFERRED)  # the tables are made for the audit
            warnings.simplefilter("ignore", DraftWarning)
            return draft_private(table, epsilon, delta)
    except InputError:
        return None


def outcome(schema: Schema | None) -> str:
    """All that a draft says, as text. Its mechanisms follow from its budget, and from what it says."""
    if schema is None:
        return NOTHING
    facts: dict[str, Any] = schema.to_dict()
    facts.pop("released", None)
    return repr(facts)


def records_at_threshold(question: Question, epsilon: float, delta: float) -> int:
    """The number of records with the value at which a draft tells of it about as often as not."""

    def tells(records: int) -> bool:
        table = question.table(records)
        told = sum(question.yes(drafted(table, epsilon, delta)) for _ in range(PILOT))
        return 2 * told > PILOT

    low, high = 0, 1
    while not tells(high):
        low, high = high, 2 * high
        if high > MOST:
            raise InputError(f"No draft tells: {question.text}; raise epsilon.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tells(middle) else (middle, high)
    return low


def _result(part: str, errors: Errors, epsilon: float, delta: float, seconds: float) -> AuditResult:
    runs = errors.runs_with
    positive, negative = errors.rate_upper_bounds(CONFIDENCE)
    # The threshold's part of δ is beyond what a Gaussian mechanism releases.
    mu = gaussian_mu(epsilon, delta * (1 - THRESHOLD_SHARE))
    mu_lower = mu_from_rates(positive, min(1.0, negative + delta))
    epsilon_lower = epsilon_from_rates(positive, negative, delta)
    rates = errors.false_positives / runs, errors.false_negatives / runs
    verdict = decide_verdict(epsilon_lower, epsilon, mu_lower, mu)
    advantage = 1 - rates[0] - rates[1]
    each = (1 + CONFIDENCE) / 2
    least = [
        rate_lower_bound(count, runs, each)
        for count in (errors.false_positives, errors.false_negatives)
    ]
    bounds = [1 - positive - negative, 1 - sum(least)]
    allowed = math.erf(mu / (2 * math.sqrt(2))) + delta  # 2 Φ(μ/2) − 1
    said = f"{advantage:+.3f} (99.9% interval {bounds[0]:+.3f} to {bounds[1]:+.3f}); ε = {epsilon:g} allows {allowed:.3f}"
    sentence = f"No evidence against the claim: the advantage of the guesses is {said}."
    if verdict == REFUTED:
        sentence = f"Refuted: the advantage of the guesses is {said}."
    return AuditResult(
        kind=KIND,
        method=METHOD,
        part=part,
        verdict=verdict,
        sentence=sentence,
        epsilon_claimed=epsilon,
        delta=delta,
        epsilon_lower=epsilon_lower,
        mu_claimed=mu,
        mu_estimate=mu_from_rates(*rates),
        mu_lower=mu_lower,
        confidence=CONFIDENCE,
        runs=runs,
        power=(
            "Where a draft tells in half of all trials, the audit detects noise that is"
            f" {detectable_noise_ratio(mu, runs):.2f} times too small with probability 95%, if the whole budget were"
            " spent on this one count."
        ),
        details={
            "false_positives": errors.false_positives,
            "false_negatives": errors.false_negatives,
            "advantage": advantage,
            "advantage_bounds": bounds,
            "advantage_allowed": allowed,
            "advantage_allowed_by_epsilon_and_delta": (math.expm1(epsilon) + 2 * delta)
            / (math.exp(epsilon) + 1),
            "trials": 2 * runs,
            "seconds": round(seconds, 1),
        },
    )
