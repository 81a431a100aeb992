"""The report in plain words: what the numbers say, and what they cannot say."""

from collections.abc import Mapping
from typing import Any

from tabsynth.evaluation.floor import BETTER, NO_BETTER, NOTHING
from tabsynth.evaluation.results import Disclosure, Distances, Estimate, Evaluation
from tabsynth.report.privacy import NO_CERTIFICATE, epsilon_text, is_private

NOTICE = (
    "This report is itself computed from real data and is not covered by ε (R18): treat it as"
    " confidential."
)


def interval(estimate: Estimate, digits: int = 3) -> str:
    """``0.412 (95%: 0.401 to 0.423)``."""
    return f"{estimate.value:.{digits}f} (95%: {estimate.low:.{digits}f} to {estimate.high:.{digits}f})"


def summarise(evaluation: Evaluation, certificate: Mapping[str, Any] | None) -> list[str]:
    """Sentences in the order of a reader's questions: useful? how close? private? confidential?"""
    out = [_verdict(evaluation)]
    if len(evaluation.prediction.columns) > 1:
        out.append(_prediction(evaluation))
    out.append(_distances(evaluation.distances))
    out.append(_disclosure(evaluation.disclosure))
    out.append(_privacy(certificate))
    out.append(NOTICE)
    return out


def _verdict(evaluation: Evaluation) -> str:
    text = evaluation.verdict.text
    if text == NOTHING:
        return "The table has one column, so there are no relations between columns to judge."
    worse = [c.metric for c in evaluation.verdict.comparisons if not c.better]
    if text == BETTER:
        reason = "it keeps relations between columns, by every metric used here"
    elif text == NO_BETTER:
        reason = (
            "by no metric used here does it keep relations between columns; publishing each"
            " column's histogram would serve as well"
        )
    else:
        reason = f"it is not by {', '.join(worse)}"
    return f"The synthetic table is {text}: {reason}."


def _prediction(evaluation: Evaluation) -> str:
    prediction = evaluation.prediction
    mean = prediction.mean
    where = (
        "on rows that the synthesizer itself was fitted on, for want of a hold-out (so this is"
        " optimistic)"
        if prediction.seen
        else "on real rows that it never saw"
    )
    return (
        "Predicting each column from the others, a classifier fitted on the synthetic table reaches"
        f" a mean weighted F1 of {mean.synthetic.weighted.value:.3f} {where}; fitted on the training"
        f" table it reaches {mean.train.weighted.value:.3f}, on shuffled columns"
        f" {mean.floor.weighted.value:.3f}. The synthetic table keeps"
        f" {interval(mean.ratio.weighted, 2)} of the training table's score."
    )


def _distances(distances: tuple[Distances, ...]) -> str:
    names = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}
    parts = []
    for item in distances:
        reference = [f"shuffled columns {item.floor.mean.value:.3f}"]
        if item.fresh is not None:
            reference.append(f"a fresh real sample {item.fresh.mean.value:.3f}")
        parts.append(
            f"{item.synthetic.mean.value:.3f} for {names[item.order]} ({', '.join(reference)})"
        )
    return (
        "The synthetic table's counts differ from the training table's by a mean total variation"
        f" distance of {'; '.join(parts)}. 0 is equal, 1 is disjoint."
    )


def _disclosure(disclosure: Disclosure) -> str:
    if disclosure.mean is None:
        return "Attribute disclosure needs two columns or more, so it was not measured."
    mean = disclosure.mean
    if mean.leakage is None or mean.control is None:
        return (
            "Whoever knows some attributes of a training record guesses"
            f" {mean.target.value:.1%} of the others right from the synthetic table. Without a"
            " hold-out of records that the synthesizer never saw, it cannot be told how much of"
            " this is leakage and how much is what the table teaches about everyone."
        )
    low, high = 100 * mean.leakage.low, 100 * mean.leakage.high
    if mean.leakage.low > 0:
        finding = "Training records ARE guessed better than records the synthesizer never saw"
        moral = "The table leaks what is particular to its training records."
    else:
        finding = (
            "Training records are not seen to be guessed better than records the synthesizer never"
            " saw"
        )
        moral = (
            "This attack is one of many: that it fails is no proof of privacy, which is what ε is"
            " for."
        )
    return (
        f"{finding}: {mean.target.value:.1%} against {mean.control.value:.1%} of unknown attributes,"
        f" a difference of {100 * mean.leakage.value:.1f} points (95%: {low:.1f} to {high:.1f})."
        f" {moral}"
    )


def _privacy(certificate: Mapping[str, Any] | None) -> str:
    if certificate is None:
        return NO_CERTIFICATE
    if not is_private(certificate):
        return (
            "The certificate that came with the table does not make it private: treat the table as"
            " confidential."
        )
    return (
        f"The certificate that came with the table states ε = {epsilon_text(certificate['epsilon'])}"
        f" with δ = {certificate.get('delta', 'not stated')}."
    )
