"""The three lines at the head of a report: who may read it, whether the table may be published, and how good the table is."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tabsynth.evaluation.claims import number_of, section_of
from tabsynth.evaluation.metric import Evaluation
from tabsynth.privacy.accounting.attackers import percent
from tabsynth.report.certificates import (
    NO_CERTIFICATE,
    PrivacyPanel,
    epsilon_text,
    privacy_panel,
)
from tabsynth.report.heatmap import gaps

STOP, WAIT, CLEAR, PLAIN = "stop", "wait", "clear", "plain"  # how the page marks a line
UNCLEAR = "cannot be cleared for publication"
CHECK = "The option --key of tabsynth evaluate checks it."


@dataclass(frozen=True)
class Line:
    """A line of the first screen: its subject, the answer in a few words, and the reason in sentences."""

    subject: str
    answer: str
    reason: str
    state: str = PLAIN

    @property
    def sentence(self) -> str:
        """The line as text."""
        return f"{self.subject} {self.answer}. {self.reason}".rstrip()


PAGE = Line(
    "This report",
    "is confidential",
    "It is computed from real rows without noise, and no ε covers it: do not publish it.",
    "page",
)


def panel_of(evaluation: Evaluation) -> PrivacyPanel:
    """Return the claims of the certificate, held against the table that was evaluated, or that it is a sample of."""
    rows = evaluation.given_rows
    if evaluation.sampled is not None:
        _, rows = evaluation.sampled.rows.get("synthetic", (rows, rows))
    return privacy_panel(
        evaluation.certificate,
        rows,
        evaluation.schema_sha256,
        authenticated=evaluation.authenticated,
    )


def first_screen(evaluation: Evaluation, panel: PrivacyPanel) -> tuple[Line, Line, Line]:
    """Return the lines on the page, on the table, and on its quality."""
    published = publication(evaluation.certificate, panel)
    leaks = evaluation.disclosure.mean is not None and evaluation.disclosure.mean.leaks
    if published.state == CLEAR and (leaks or evaluation.attacks.successful):
        warned = (
            f"{published.reason} Attacks on it succeed beyond chance: read their section first."
        )
        published = replace(published, reason=warned, state=WAIT)
    return PAGE, published, _quality(evaluation)


def publication(
    certificate: Mapping[str, Any] | None, panel: PrivacyPanel, subject: str = "The synthetic table"
) -> Line:
    """Return whether the table may be published. Only a claim without a doubt and a checked signature allow it."""
    forbidden = "may not be published"
    if certificate is None:
        return Line(subject, forbidden, f"{NO_CERTIFICATE} Treat it as the real table.", STOP)
    if panel.condition:
        return Line(subject, "may be published only on a condition", panel.statement, WAIT)
    if not panel.private:
        return Line(subject, forbidden, panel.warnings[0], STOP)
    if panel.warnings:
        return Line(subject, UNCLEAR, f"{panel.warnings[0]} {panel.statement}", WAIT)
    if not panel.authenticated:
        return Line(subject, UNCLEAR, f"{panel.statement} {CHECK}", WAIT)
    unit = f"{_stated(certificate, 'adjacency')}; unit: {_stated(certificate, 'privacy_unit')}"
    claim = (
        f"ε = {epsilon_text(certificate.get('epsilon'))} and δ = {_stated(certificate, 'delta')}"
    )
    reason = f"The given key checks the signature of its certificate: {claim} ({unit})."
    advantage = number_of(section_of(certificate, "attacker").get("advantage"))
    if advantage is not None:
        reason += (
            " Whoever guesses whether one unit is in the real table is right in at most"
            f" {percent((1 + advantage) / 2)} of cases; a coin is right in 50%."
        )
    return Line(subject, "may be published", reason, CLEAR)


def _stated(certificate: Mapping[str, Any], name: str) -> str:
    return str(certificate.get(name, "not stated"))


def _quality(evaluation: Evaluation) -> Line:
    """Return how near the relations between columns are to what other real people reach, and where they are weakest."""
    compared = evaluation.verdict.comparisons
    pair = next((item for item in compared if item.metric == "2-way distance"), None)
    word = "Weakest" if evaluation.rows["holdout"] else "Furthest"
    weakest = " ".join(
        f"{word} {what}: {gap.name}."
        for order, what in ((1, "column"), (2, "pair"))
        for gap in gaps(evaluation, order)[:1]
        if gap.points >= 0.5
    )
    subject, reason = "Relations between columns", ""
    if pair is None:
        answer = "cannot be judged: the table has a single column"
    elif pair.conclusive is None:
        answer = "cannot be compared with those of other real people: no hold-out was given"
        if math.isfinite(pair.gap_closed):
            reason = (
                f"They close {pair.gap_closed:.0%} of the gap between independent columns and the real table itself, which"
                " other real people do not close either. Predictions are tested on rows that the synthesizer saw."
            )
    elif not pair.conclusive:
        answer = "cannot be judged: other real people are no nearer than independent columns"
    elif pair.gap_closed >= 1:
        answer = "are as near as those of other real people"
    elif pair.gap_closed <= 0:
        answer = "are lost: the table is no nearer than independent columns"
    else:
        answer = f"are {math.floor(100 * pair.gap_closed)}% of what other real people reach"
        reason = "0% is independent columns, which keep no relation."
    texts = (reason, weakest, *_violations(evaluation))
    return Line(subject, answer, " ".join(filter(None, texts)))


def _violations(evaluation: Evaluation) -> list[str]:
    for metric in evaluation.metrics:
        if metric.key == "violations" and metric.value > 0:
            text = f"{metric.value:.1%} of the synthetic rows BREAK the schema, first of all"
            text += f" {metric.parts[0].name} ({metric.parts[0].n} rows)."
            if evaluation.left_out:
                text += f" {evaluation.left_out} rows hold values that it does not declare, and are left out of every other figure."
            return [text]
    return []
