"""The report of synthetic linked tables: the relations between their rows; each table has a report of its own."""

from typing import Any

from tabsynth.evaluation.claims import is_private
from tabsynth.evaluation.linked import LinkedEvaluation
from tabsynth.evaluation.metric import PRIVACY, UTILITY, Evaluation, Metric
from tabsynth.evaluation.results import WeightsUsed
from tabsynth.report.certificates import epsilon_text
from tabsynth.report.definitions import Definition, definition_of, definitions_of
from tabsynth.report.page import Table, render_page, with_link
from tabsynth.report.summary import NOTICE
from tabsynth.report.tabular import markdown_page, table, with_interval

FORMAT = "tabsynth-linked-report/1"
KEYS = ("duplicate_keys", "orphans", "unordered")
HEADER = ("Synthetic", "Hold-out reference")
INDEPENDENT = "Independent children: the rows of each child table, assigned at random to all groups; they keep no relation between rows."
GLOSSARY = (
    ("Siblings", "Rows of one table with the same parent, such as the persons of a household."),
    ("Group size", "The number of rows of a child table that one row of its parent has; 0 counts."),
    (
        "Hold-out reference",
        "The same figure of real roots that no synthesizer saw, with all that hangs on them, for as many roots as the"
        " synthetic tables have.",
    ),
    ("Independent children (baseline)", INDEPENDENT),
    (
        "Membership of a unit",
        "The attack's target is a row of the root with all rows that hang on it: a household, or a patient with all visits."
        " 0.5 is guessing. An attack that fails is no evidence of leakage, but it proves nothing.",
    ),
)


def summary(evaluation: LinkedEvaluation) -> list[str]:
    """Return the results in plain words."""
    out = [_claim(evaluation)]
    if evaluation.weights is not None:
        out.append(_weights(evaluation.weights, evaluation.root))
    counted = [m for m in evaluation.metrics if m.key.split(".")[-1] in KEYS[:2]]
    broken = [m for m in counted if m.value > 0]
    out.append(
        f"Keys: {'; '.join(f'{m.title} {m.value:.2%}' for m in broken)}."
        if broken
        else "Keys: every row has its parent, and no key occurs twice."
    )
    for name, count in evaluation.left_out.items():
        if count:
            out.append(
                f"{count:,} of {evaluation.rows[name]['synthetic']:,} synthetic rows of {name} are left out of all other"
                " figures: a value is not declared, a key is repeated, or their parent is missing."
            )
    for metric in _of_groups(evaluation):
        reference = (
            "" if metric.holdout is None else f", hold-out reference {metric.holdout.value:.3f}"
        )
        dealt = (
            f", independent children {metric.baseline.value:.3f}"
            if metric.of_relations and metric.baseline
            else ""
        )
        out.append(f"{metric.title}: {metric.value:.3f}{reference}{dealt} (0 is equal).")
    attacks = [m for m in evaluation.metrics if m.kind == PRIVACY]
    successful = [m for m in attacks if m.beats_guessing(len(attacks))]
    if not attacks:
        out.append("Attacks on units were not tried: they need a hold-out.")
    elif successful:
        out.append(
            f"Evidence of leakage: {'; '.join(f'{m.title} {m.value:.3f}' for m in successful)} (0.5 is guessing)."
        )
    else:
        out.append(
            f"{len(attacks)} attacks with a row of {evaluation.root} and all that hangs on it as their target: no evidence"
            " of leakage, which proves nothing."
        )
    return out


def document(evaluation: LinkedEvaluation) -> dict[str, Any]:
    """Return everything, ready for JSON."""
    return {
        "format": FORMAT,
        "notice": NOTICE,
        "label": evaluation.label,
        "summary": summary(evaluation),
        "evaluation": evaluation.to_dict(),
    }


def page(evaluation: LinkedEvaluation) -> str:
    """Return the page of groups, keys and attacks; each table has a report of its own."""
    groups: Table = (
        (
            "Groups, siblings and levels",
            *HEADER,
            "Independent children",
            "Better",
            "What it says",
        ),
        [
            (
                _linked_title(m),
                [*_cells(m, baseline=m.of_relations), m.better, m.reading],
                m.below_baseline,
            )
            for m in _of_groups(evaluation)
        ],
    )
    keys: Table = (
        ("Keys", *HEADER, "What it says"),
        [
            (_linked_title(m), [*_cells(m, baseline=False)[:2], m.reading], m.value > 0)
            for m in evaluation.metrics
            if m.key.split(".")[-1] in KEYS
        ],
    )
    attacks: Table = (
        ("Attacks on units", *HEADER, "Independent children", "Better", "What it says"),
        [
            (
                _linked_title(m),
                [*_cells(m), m.better, m.reading],
                m.kind == PRIVACY and m.beats_guessing(),
            )
            for m in evaluation.metrics
            if m.kind != UTILITY
        ],
    )
    worst: Table = (
        ("Worst parts", "Metric", *HEADER, "Independent children"),
        [
            (
                part.name,
                [
                    metric.title,
                    *(_number(v) for v in (part.value, part.holdout, part.baseline)),
                ],
                False,
            )
            for metric in _of_groups(evaluation)
            for part in metric.parts[:3]
        ],
    )
    tables = [keys, groups, worst, attacks]
    for title, parts in (
        ("by itself", evaluation.tables),
        ("with the columns above it", evaluation.joined),
    ):
        tables += [_table(f"Table {name} {title}", item) for name, item in parts.items()]
    tables.append((("Glossary", "Meaning"), [(name, [text], False) for name, text in GLOSSARY]))
    return render_page(
        f"{evaluation.label}: linked tables",
        "report of linked tables",
        summary(evaluation),
        [t for t in tables if t[1]],
        [],
        NOTICE,
        _definitions(evaluation),
    )


def markdown(evaluation: LinkedEvaluation) -> str:
    """Return the summary and every metric as Markdown."""
    rows = [
        [m.title, *_cells(m, baseline=m.of_relations), m.better, str(m.n)]
        for m in evaluation.metrics
    ]
    header = ("Metric", *HEADER, "Independent children", "Better", "n")
    return markdown_page(evaluation.label, summary(evaluation), table(header, rows))


def _of_groups(evaluation: LinkedEvaluation) -> list[Metric]:
    return [m for m in evaluation.metrics if m.kind == UTILITY and m.key.split(".")[-1] not in KEYS]


def _definitions(evaluation: LinkedEvaluation) -> list[Definition]:
    """Return the definitions of the figures of groups, keys and attacks, and of the tables by themselves and joined."""
    evaluations = (*evaluation.tables.values(), *evaluation.joined.values())
    keys = [m.key for item in evaluations for m in item.metrics if m.kind == UTILITY]
    of_groups = [m.key.rpartition(".")[2] for m in evaluation.metrics]
    return list(
        dict.fromkeys([*definitions_of(of_groups, ("linked", "attacks")), *definitions_of(keys)])
    )


def _weights(weights: WeightsUsed, root: str) -> str:
    synthetic = "count equally" if weights.self_weighting else "have weights of their own"
    return (
        f"Every metric of utility uses the survey weights of {weights.name}, which count for all that hangs on a row of"
        f" {root}: the real rows stand for {weights.population:,.0f}, and say as much as"
        f" {weights.effective['train']:,.0f} rows of equal weights. The synthetic rows {synthetic}. Attacks use no weights."
    )


def _claim(evaluation: LinkedEvaluation) -> str:
    certificate = evaluation.certificate
    if certificate is None:
        return "No certificate was given with the tables, so the report makes no privacy claim."
    unit = certificate.get("privacy_unit")
    words = f", privacy unit: {unit}" if isinstance(unit, str) else ""
    how = "authenticated" if evaluation.authenticated else "not authenticated"
    if not is_private(certificate):
        return f"The certificate of the tables claims no privacy, or on a condition only ({how})."
    return f"Claimed by the certificate of the tables ({how}): ε = {epsilon_text(certificate.get('epsilon'))}{words}."


def _cells(metric: Metric, *, baseline: bool = True) -> list[str]:
    last = metric.baseline if baseline else None
    return [with_interval(estimate) for estimate in (metric.synthetic, metric.holdout, last)]


def _linked_title(metric: Metric) -> str:
    """Return the title of a metric of groups, keys or attacks, whose key is ``TABLE.metric``."""
    return with_link(
        metric.title, definition_of(metric.key.rpartition(".")[2], ("linked", "attacks"))
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _table(title: str, evaluation: Evaluation) -> Table:
    rows = [
        (with_link(m.title, definition_of(m.key)), [*_cells(m), m.better], m.below_baseline)
        for m in evaluation.metrics
        if m.kind == UTILITY
    ]
    return (title, *HEADER, "Independent columns", "Better"), rows
