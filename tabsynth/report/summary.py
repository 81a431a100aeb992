"""The report in plain words: what the numbers say, and what they cannot say."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import norm

from tabsynth.evaluation.floor import BETTER, NO_BETTER, NOTHING, UNTOLD
from tabsynth.evaluation.metric import Evaluation, Metric
from tabsynth.evaluation.overlap import Overlap
from tabsynth.evaluation.results import Z95, Disclosure, Distances, Estimate
from tabsynth.evaluation.utility.subgroups import LEAST_ROWS
from tabsynth.report.certificates import (
    NO_CERTIFICATE,
    condition_sentence,
    epsilon_text,
    is_conditional,
    is_private,
    unauthenticated,
)

NOTICE = (
    "This report is itself computed from real data and is not covered by ε (R18): treat it as"
    " confidential."
)
NAMES = {
    "presence": "presence",
    "density_ratio": "density ratio",
    "singling_out": "singling out",
    "linkability": "linkability",
    "inference": "inference",
    "shadow_membership": "shadow models",
}


_TOO_WEAK = (
    "a fresh real sample is itself worse than shuffled columns: these columns are too weakly related"
    " for so few rows to tell"
)
_UNKNOWN = (
    "Without a hold-out it cannot be known whether a fresh real sample does better by distances: where"
    " columns are weakly related, it does not."
)
NAMED = 5  # groups, before "and so many others"


def interval(estimate: Estimate, digits: int = 3) -> str:
    """``0.412 (95%: 0.401 to 0.423)``."""
    return f"{estimate.value:.{digits}f} (95%: {estimate.low:.{digits}f} to {estimate.high:.{digits}f})"


def summarise(
    evaluation: Evaluation,
    certificate: Mapping[str, Any] | None,
    left_out: int = 0,
    *,
    authenticated: bool = False,
) -> list[str]:
    """Sentences in the order of a reader's questions: useful? how close? private? confidential?"""
    out = [_verdict(evaluation)]
    if len(evaluation.prediction.columns) > 1:
        out.append(_prediction(evaluation))
    out.append(_distances(evaluation.distances))
    out += _holdout(evaluation.overlap)
    out += _broken(evaluation, left_out)
    out += _below(evaluation)
    out += _groups(evaluation)
    out.append(_disclosure(evaluation.disclosure))
    out += _attacks(evaluation)
    out.append(_privacy(certificate, authenticated))
    out.append(NOTICE)
    return out


def _holdout(found: Overlap | None) -> list[str]:
    """Whether the hold-out seems to hold training rows."""
    if found is None or not found.suspicious:
        return []
    share = found.in_training / found.holdout
    return [
        f"BEWARE: {share:.0%} of the hold-out rows equal a training row, and {found.expected:.0%} of the"
        " training rows equal another one. The hold-out seems to hold rows that were fitted: then every"
        " attack looks harmless, and every score too good."
    ]


def _verdict(evaluation: Evaluation) -> str:
    text = evaluation.verdict.text
    if text == NOTHING:
        return "The table has one column, so there are no relations between columns to judge."
    comparisons = evaluation.verdict.comparisons
    worse = [c.metric for c in comparisons if not c.better and c.telling is not False]
    untold = [c.metric for c in comparisons if not c.better and c.telling is False]
    aside = ""
    if untold and text != UNTOLD:
        aside = f" Not counted: {', '.join(untold)}, by which {_TOO_WEAK}."
    if any(not c.better and c.telling is None for c in comparisons):
        aside = f" {_UNKNOWN}"
    if text == UNTOLD:
        reason = f"by every metric used here, {_TOO_WEAK}"
    elif text == BETTER:
        counted = "every metric that counts" if untold else "every metric used here"
        reason = f"it keeps relations between columns, by {counted}"
    elif text == NO_BETTER:
        reason = (
            "by no metric used here does it keep relations between columns; publishing each"
            " column's histogram would serve as well"
        )
    else:
        reason = f"it is not by {', '.join(worse)}"
    return f"The synthetic table is {text}: {reason}.{aside}"


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


def _broken(evaluation: Evaluation, left_out: int) -> list[str]:
    found = [m for m in evaluation.metrics if m.key == "violations" and m.value > 0]
    if not found:
        return []
    text = f"{found[0].value:.1%} of the synthetic rows BREAK the schema, first of all"
    text += f" {found[0].parts[0].name} ({found[0].parts[0].n} rows)."
    if left_out:
        text += (
            f" {left_out} rows hold values that it does not declare, and are left out of every other"
            " figure."
        )
    return [text]


def _below(evaluation: Evaluation) -> list[str]:
    """The metrics by which the table is worse than shuffled columns, and what a fresh sample does."""
    out = []
    worse = [metric.title for metric in evaluation.metrics if metric.below_floor]
    if worse:
        out.append(
            f"WORSE than shuffled columns, beyond chance, by {len(worse)} metrics: {'; '.join(worse)}."
        )
        if any(metric.below_floor and metric.fresh is None for metric in evaluation.metrics):
            out[-1] += (
                " Without a hold-out it cannot be known whether a fresh real sample would be, too: where"
                " columns are weakly related, it is."
            )
    untold = [metric for metric in evaluation.metrics if metric.untold]
    if untold:
        text = (
            f"Below shuffled columns by {'; '.join(m.title for m in untold)}, but so is a fresh real"
            " sample: these columns are too weakly related for so few rows to tell, and this is not"
            " held against the table."
        )
        also = [metric.title for metric in untold if metric.worse_than_fresh]
        if also:
            text += f" It is worse than that sample, too, beyond chance, by {'; '.join(also)}."
        out.append(text)
    return out


def _groups(evaluation: Evaluation) -> list[str]:
    return [
        _fares(metric)
        for metric in evaluation.metrics
        if metric.key.startswith("subgroup_gap_") and metric.parts
    ]


def _fares(metric: Metric) -> str:
    """Whether a group is seen to fare worse, and which were too small to judge."""
    name = metric.key.removeprefix("subgroup_gap_")
    judged = [part for part in metric.parts if math.isfinite(part.value)]
    small = [part.name for part in metric.parts if part.n < LEAST_ROWS]
    if len(metric.parts) == 1:
        text = f"All training rows are of one group of {name}: there is nothing to compare."
    elif len(judged) < 2:
        text = f"The groups of {name} cannot be compared: fewer than two are large enough to judge."
    elif metric.low > 0:
        worst, best = judged[0], judged[-1]
        text = (
            f"Of the groups of {name}, {worst.name} ({worst.n} training rows) fares worst, with a"
            f" distance of {worst.value:.3f} beyond chance, and {best.name} best, with"
            f" {best.value:.3f}: a gap of {interval(metric.synthetic)}."
        )
    else:
        text = (
            f"No group of {name} is seen to fare worse than another: the largest gap is"
            f" {interval(metric.synthetic)}."
        )
    return f"{text} Too small to judge: {_listed(small)}." if small else text


def _listed(names: Sequence[str]) -> str:
    if len(names) <= NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} others"


def _attacks(evaluation: Evaluation) -> list[str]:
    """The attacks beside attribute disclosure that beat guessing."""
    tried = [
        metric
        for metric in evaluation.metrics
        if metric.kind == "privacy" and metric.key != "attribute_disclosure"
    ]
    if not tried:
        return []
    # Bonferroni: of so many attacks on nothing, one interval at 95% would be off too often.
    wider = float(norm.ppf(1 - 0.025 / len(tried))) / Z95
    won = [
        metric
        for metric in tried
        if metric.best is not None
        and metric.value - wider * (metric.value - metric.low) > metric.best
    ]
    if not won:
        return [
            f"None of {len(tried)} other attacks ({', '.join(NAMES.get(m.key, m.title) for m in tried)})"
            " does better on training records than on others, beyond chance (5% for all together)."
        ]
    names = "; ".join(f"{m.title}: {interval(m.synthetic)}, nothing is {m.best:g}" for m in won)
    return [f"{len(won)} of {len(tried)} other attacks SUCCEED on training records: {names}."]


def _privacy(certificate: Mapping[str, Any] | None, authenticated: bool) -> str:
    if certificate is None:
        return NO_CERTIFICATE
    stated = (
        f"The certificate that came with the table states ε = {epsilon_text(certificate.get('epsilon'))}"
        f" with δ = {certificate.get('delta', 'not stated')}; it is signed by the key that was given."
    )
    if not authenticated:
        stated = unauthenticated(certificate)
    if is_conditional(certificate):
        return f"{condition_sentence(certificate)} {stated}"
    if not is_private(certificate):
        return (
            "The certificate that came with the table does not make it private: treat the table as"
            " confidential."
        )
    return stated
