"""The summary of a report in plain words: what its figures say, and what they cannot say."""

from collections.abc import Sequence

from tabsynth._validate import list_first, quote
from tabsynth.evaluation.baseline import BETTER, INCONCLUSIVE, NO_BETTER, NOTHING
from tabsynth.evaluation.metric import Evaluation
from tabsynth.evaluation.results import (
    BaselineComparison,
    Disclosure,
    Drafted,
    Overlap,
    Sampled,
    Subgroups,
    WeightsUsed,
)
from tabsynth.evaluation.utility.marginals import WAYS
from tabsynth.report.first_screen import first_screen, panel_of
from tabsynth.report.tabular import with_interval

# Heaping is in the summary where a share of multiples differs by more than this; at most so many columns are named.
HEAPING_GAP, HEAPED_COLUMNS = 0.1, 4
STANDARD_ERRORS = (
    "Standard errors, p-values and confidence intervals that are computed from synthetic rows as if they were real"
    " are too small: they ignore the noise and the error of the synthesizer. For valid ones see"
    ' the page "Compute standard errors and intervals" of the documentation (tabsynth.inference).'
)
_TOO_WEAK = (
    "the hold-out reference is itself worse than independent columns: these columns are too weakly related"
    " for so few rows to tell"
)
_UNKNOWN = (
    "Without a hold-out it cannot be known whether real rows do better by distances: where"
    " columns are weakly related, it does not."
)
LEVEL = "95%: "  # before the ends of an interval
LISTED = 10  # columns, before "and so many more"
NAMED = 5  # groups, before "and so many others"


def subtitle(evaluation: Evaluation) -> str:
    """Return rows, columns, method with its claim, and date of the evaluation."""
    columns = len(evaluation.columns)
    parts = [f"{evaluation.given_rows:,} rows", f"{columns} column{'' if columns == 1 else 's'}"]
    certificate = evaluation.certificate
    parts.append(
        "method not stated: no certificate"
        if certificate is None
        else f"method {certificate.get('method', 'not stated')}"
    )
    if evaluation.created:
        parts.append(f"evaluated on {evaluation.created[:10]}")
    return " · ".join(parts)


def equal_rows(evaluation: Evaluation) -> str:
    """Return how the hold-out reference was made comparable with the synthetic table; empty without a hold-out."""
    synthetic, holdout = evaluation.rows["synthetic"], evaluation.rows["holdout"]
    if not holdout:
        return ""
    text = (
        "The hold-out is compared at the number of rows of the synthetic table, because a table with fewer rows is"
        " further from the training table by sampling error alone."
    )
    corrected = (
        "its distances, k-marginal score, correlations, probabilities and totals are corrected by the expected sampling"
        f" error, which is proportional to √(1/n + 1/m) (factor {evaluation.reference_scale:.2f}). Where most cells hold"
        " at most one row, the corrected reference is somewhat too good. Other metrics are not corrected: there, a smaller"
        " hold-out can look worse than it is."
    )
    if evaluation.weights is not None:
        effective = evaluation.weights.effective
        return (
            f"{text} With survey weights, it says as much as {effective['holdout']:,.0f} rows of equal weights, and the"
            f" synthetic table as much as {effective['synthetic']:,.0f}: {corrected}"
        )
    if holdout == synthetic:
        return f"{text} Both have {synthetic:,} rows, so nothing was corrected."
    if holdout > synthetic:
        return f"{text} Of its {holdout:,} rows, {synthetic:,} drawn at random were used."
    return f"{text} It has {holdout:,} rows and the synthetic table {synthetic:,}: {corrected}"


def summarise(evaluation: Evaluation) -> list[str]:
    """Return the lines of the first screen, then sentences on use, closeness and attacks."""
    out = [line.sentence for line in first_screen(evaluation, panel_of(evaluation))]
    return [*out, *findings(evaluation), STANDARD_ERRORS]


def findings(evaluation: Evaluation) -> list[str]:
    """Return sentences on use, closeness and attacks, the verdict first."""
    out = [_verdict(evaluation)]
    if evaluation.drafted is not None:
        out += _draft_sentences(evaluation.drafted)
    if evaluation.sampled is not None:
        out.append(_sample_sentence(evaluation.sampled))
    if evaluation.weights is not None:
        out.append(weights_sentence(evaluation.weights))
    out += _holdout(evaluation.overlap)
    out += _heaping(evaluation)
    out += _below(evaluation)
    out += [_fares(item) for item in evaluation.subgroups]
    out.append(_disclosure(evaluation.disclosure))
    return [*out, *_attacks(evaluation)]


def _holdout(overlap: Overlap | None) -> list[str]:
    """Return a warning if the hold-out seems to hold training rows."""
    if overlap is None or not overlap.suspicious:
        return []
    return [
        f"BEWARE: {overlap.share:.0%} of the hold-out rows equal a training row, and {overlap.expected_share:.0%} of the"
        " training rows equal another one. The hold-out seems to hold rows that were fitted: then every"
        " attack looks harmless, and every score too good."
    ]


def _verdict(evaluation: Evaluation) -> str:
    text = evaluation.verdict.text
    if text == NOTHING:
        return "The table has one column, so there are no relations between columns to judge."
    verdict = evaluation.verdict
    comparisons = verdict.comparisons
    aside = ""
    if verdict.inconclusive and text != INCONCLUSIVE:
        aside = f" Not counted: {', '.join(verdict.inconclusive)}, by which {_TOO_WEAK}."
    if verdict.is_unknown:
        aside = f" {_UNKNOWN}"
    if text == INCONCLUSIVE:
        reason = f"by every metric used here ({_metric_names(comparisons)}), {_TOO_WEAK}"
    elif text == BETTER:
        counted = "every metric that counts" if verdict.inconclusive else "every metric used here"
        reason = f"it keeps relations between columns, by {counted} ({', '.join(verdict.better)})"
    elif text == NO_BETTER:
        reason = (
            f"by no metric used here ({_metric_names(comparisons)}) does it keep relations between columns;"
            " publishing each column's histogram would serve as well"
        )
    else:
        reason = f"it is by {', '.join(verdict.better)}, and it is not by {', '.join(verdict.not_better)}"
    return f"The synthetic table is {text}: {reason}.{aside}"


def _metric_names(comparisons: Sequence[BaselineComparison]) -> str:
    return ", ".join(comparison.metric for comparison in comparisons)


def _draft_sentences(drafted: Drafted) -> list[str]:
    """State that nobody declared the categories and bounds, and what is not compared."""
    out = [
        "No schema was given: tabsynth drafted the categories and bounds from the compared tables. Distances depend on"
        " such choices, so compare them only with those of another report under one declared schema."
    ]
    if drafted.grouped:
        out.append(
            f"Values of fewer than {drafted.min_count} rows of all tables are taken together in"
            f" {list_first(map(quote, drafted.grouped), LISTED)}."
        )
    if drafted.left_out:
        reasons = [f"{quote(name)} ({reason})" for name, reason in drafted.left_out.items()]
        out.append(f"Not compared: {list_first(reasons, LISTED)}.")
    return out


def _sample_sentence(sampled: Sampled) -> str:
    """State how many rows were drawn of how many, and the error that this adds to the distances."""
    names = {"train": "training", "synthetic": "synthetic", "holdout": "hold-out"}
    parts = [
        f"{rows:,} of {total:,} rows of the {names[name]} table"
        for name, (rows, total) in sampled.rows.items()
    ]
    errors = [
        f"{item.standard_error:.4f} for {WAYS[item.order]} (equal tables: {item.by_chance:.3f} by chance)"
        for item in sampled.distances
    ]
    return (
        f"All figures are of a uniform sample: {', '.join(parts)}. The standard error of the distance by sampling is"
        f" {'; '.join(errors)}. Distances of samples are also larger than those of whole tables, by about what equal tables"
        " have by chance where columns are close."
    )


def weights_sentence(weights: WeightsUsed, also: str = "") -> str:
    """State which weights the metrics use, and what the real rows stand for."""
    synthetic = "count equally" if weights.self_weighting else "have weights of their own"
    return (
        f"Every metric of utility uses the survey weights of {weights.name}{also}: the training rows stand for {weights.population:,.0f} people, and say"
        f" as much as {weights.effective['train']:,.0f} rows of equal weights. The synthetic rows {synthetic}."
        " The attacks use no weights."
    )


def _disclosure(disclosure: Disclosure) -> str:
    if disclosure.mean is None:
        return "Attribute disclosure needs two columns or more, so it was not measured."
    mean = disclosure.mean
    if mean.leakage is None or mean.control is None:
        return (
            "Whoever knows some attributes of a training record guesses"
            f" {mean.target.value:.1%} of the others right from the synthetic table. Without a"
            " hold-out of records that the synthesizer never saw, it is unknown how much of"
            " this is leakage and how much is what the table teaches about everyone."
        )
    better = "ARE" if mean.leaks else "are not"
    moral = "This is no evidence of leakage by this attack. Other attacks may succeed; only ε is a guarantee."
    if mean.leaks:
        moral = "The table leaks what is particular to its training records."
    low, value, high = (100 * x for x in (mean.leakage.low, mean.leakage.value, mean.leakage.high))
    return (
        f"Training records {better} guessed better, beyond chance, than records the synthesizer never saw:"
        f" {mean.target.value:.1%} against {mean.control.value:.1%} of unknown attributes, a difference of {value:.1f} points"
        f" (95%: {low:.1f} to {high:.1f}). {moral}"
    )


def _heaping(evaluation: Evaluation) -> list[str]:
    """Return the columns whose shares of multiples of a round number differ most, if some differ much."""
    heaped = {c.column: c.heaping for c in evaluation.columns if c.heaping is not None}
    far = {name: heaping for name, heaping in heaped.items() if heaping.gap > HEAPING_GAP}
    parts = []
    for name, heaping in sorted(far.items(), key=lambda item: -item[1].gap):
        share = max(heaping.multiples, key=lambda share: abs(share.real - share.synthetic))
        parts.append(
            f"{name} ({share.label}: {share.real:.0%} in the training and {share.synthetic:.0%} in the synthetic table)"
        )
    return [f"Round numbers differ in {list_first(parts, HEAPED_COLUMNS)}."] if parts else []


def _below(evaluation: Evaluation) -> list[str]:
    """Return the metrics by which the table is worse than independent columns, and what the hold-out reference does."""
    out = []
    worse = [metric.title for metric in evaluation.metrics if metric.below_baseline]
    if worse:
        out.append(
            f"WORSE than independent columns, beyond chance, by {len(worse)} metric{'s' * (len(worse) > 1)}: {'; '.join(worse)}."
        )
        if any(metric.below_baseline and metric.holdout is None for metric in evaluation.metrics):
            out[-1] += (
                " Without a hold-out it cannot be known whether real rows would be, too: where"
                " columns are weakly related, it is."
            )
    inconclusive = [metric for metric in evaluation.metrics if metric.inconclusive]
    if inconclusive:
        text = (
            f"Below independent columns by {'; '.join(candidate.title for candidate in inconclusive)}, but so is the hold-out"
            " reference: these columns are too weakly related for so few rows to tell, and this does not"
            " count against the table."
        )
        also = [metric.title for metric in inconclusive if metric.worse_than_holdout]
        if also:
            text += f" It is worse than that reference, too, beyond chance, by {'; '.join(also)}."
        out.append(text)
    return out


def _fares(item: Subgroups) -> str:
    """State whether a group is seen to fare worse, and which were too small to judge."""
    if item.groups == 1:
        text = f"All training rows are of one group of {item.column}: there is nothing to compare."
    elif item.worst is None or item.best is None:
        text = f"The groups of {item.column} cannot be compared: fewer than two are large enough to judge."
    elif item.unequal:
        text = (
            f"Of the groups of {item.column}, {item.worst.name} ({item.worst.rows} training rows) fares worst, with a"
            f" distance of {item.worst.distance:.3f} beyond chance, and {item.best.name} best, with"
            f" {item.best.distance:.3f}: a gap of {with_interval(item.gap, LEVEL)}."
        )
    else:
        text = (
            f"No group of {item.column} is seen to fare worse than another: the largest gap is"
            f" {with_interval(item.gap, LEVEL)}."
        )
    return (
        f"{text} Too small to judge: {list_first(item.too_small, NAMED)}."
        if item.too_small
        else text
    )


def _attacks(evaluation: Evaluation) -> list[str]:
    """Return the attacks beside attribute disclosure that do better than guessing."""
    tried, successful = evaluation.attacks
    if not tried:
        return []
    if not successful:
        return [
            f"None of {len(tried)} other attacks ({', '.join(item.key.replace('_', ' ') for item in tried)})"
            " does better on training records than on others, beyond chance (5% for all together): no evidence of leakage by them."
        ]
    names = "; ".join(
        f"{item.title}: {with_interval(item.synthetic, LEVEL)}, without leakage {item.best:g}"
        for item in successful
    )
    return [
        f"{len(successful)} of {len(tried)} other attacks SUCCEED on training records: {names}."
    ]
