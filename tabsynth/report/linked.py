"""The report of synthetic linked tables: the relations between their rows; each table has a report of its own."""

from dataclasses import dataclass

from tabsynth._typing import JsonObject
from tabsynth.evaluation.definitions import PRIVACY, UTILITY
from tabsynth.evaluation.linked import LinkedEvaluation
from tabsynth.evaluation.metric import Evaluation, Metric
from tabsynth.report.certificates import privacy_panel
from tabsynth.report.first_screen import publication
from tabsynth.report.page import Row, Table, View, format_number
from tabsynth.report.summary import weights_sentence
from tabsynth.report.tabular import with_interval

KEYS = ("duplicate_keys", "orphans", "unordered")
HEADER = ("Synthetic", "Hold-out reference")
INDEPENDENT = "Independent children: the rows of each child table, assigned at random to all groups; they keep no relation between rows."
GLOSSARY = (
    ("Siblings", "Rows of one table with the same parent, such as the persons of a household."),
    ("Group size", "The number of rows of a child table that one row of its parent has; 0 counts."),
    (
        "Hold-out reference",
        "The same figure of real roots that no synthesizer saw, with their other records, for as many roots as the"
        " synthetic tables have.",
    ),
    ("Independent children (baseline)", INDEPENDENT),
    (
        "Membership of a unit",
        "The attack's target is a row of the root with its other records: a household, or a patient with all visits."
        " 0.5 is guessing. An attack that fails is no evidence of leakage, but it proves nothing.",
    ),
)


@dataclass(frozen=True)
class LinkedView(View):
    """The report of synthetic linked tables."""

    evaluation: LinkedEvaluation
    format = "tabsynth-linked-report/1"
    kind = "report of linked tables"

    @property
    def title(self) -> str:
        """The title of the page."""
        return f"{self.label}: linked tables"

    def sentences(self) -> list[str]:
        """Return the results in plain words."""
        evaluation = self.evaluation
        panel = privacy_panel(
            evaluation.certificate,
            evaluation.rows[evaluation.root]["synthetic"],
            evaluation.schema_sha256,
            authenticated=evaluation.authenticated,
        )
        out = [publication(evaluation.certificate, panel, "The synthetic tables").sentence]
        if evaluation.weights is not None:
            also = f", which count for a row of {evaluation.root} and its other records"
            out.append(weights_sentence(evaluation.weights, also))
        counted = [m for m in evaluation.metrics if m.key.split(".")[-1] in KEYS[:2]]
        broken = [m for m in counted if m.value > 0]
        out.append(
            f"Keys: {'; '.join(f'{m.title} {m.value:.2%}' for m in broken)}."
            if broken
            else "Keys: every row has its parent, and no key occurs twice."
        )
        out += [
            f"{count:,} of {evaluation.rows[name]['synthetic']:,} synthetic rows of {name} are left out of all other"
            " figures: a value is not declared, a key is repeated, or their parent is missing."
            for name, count in evaluation.left_out.items()
            if count
        ]
        for metric in _group_metrics(evaluation):
            references = {"hold-out reference": metric.holdout}
            references |= {"independent children": metric.baseline if metric.of_relations else None}
            parts = [f", {name} {e.value:.3f}" for name, e in references.items() if e is not None]
            out.append(f"{metric.title}: {metric.value:.3f}{''.join(parts)} (0 is equal).")
        return [*out, _attacks(evaluation)]

    def facts(self) -> JsonObject:
        """Return the evaluation, ready for JSON."""
        return {"evaluation": self.evaluation.to_dict()}

    def tables(self) -> list[Table]:
        """Return keys, groups, attacks, the metrics of each table, and the glossary."""
        evaluation = self.evaluation
        groups = _group_metrics(evaluation)
        keys = [m for m in evaluation.metrics if m.key.split(".")[-1] in KEYS]
        attacks = [m for m in evaluation.metrics if m.kind != UTILITY]
        judged = (*HEADER, "Independent children", "Better", "What it says")
        worst = [
            Row(part.name, [metric.title, *map(format_number, values)])
            for metric in groups
            for part in metric.parts[:3]
            for values in [(part.value, part.holdout, part.baseline)]
        ]
        out = [
            Table(
                ("Keys", *HEADER, "What it says"),
                [
                    Row(m.title, [*_cells(m)[:2], m.reading], m.definition, m.value > 0)
                    for m in keys
                ],
            ),
            Table(
                ("Groups, siblings and levels", *judged),
                [_metric_row(m, m.below_baseline, baseline=m.of_relations) for m in groups],
            ),
            Table(("Worst parts", "Metric", *HEADER, "Independent children"), worst),
            Table(
                ("Attacks on units", *judged),
                [_metric_row(m, m.kind == PRIVACY and m.beats_guessing()) for m in attacks],
            ),
        ]
        return [
            *out,
            *(
                _utility(f"Table {name} by itself", item)
                for name, item in evaluation.tables.items()
            ),
            Table(("Glossary", "Meaning"), [Row(name, [text]) for name, text in GLOSSARY]),
        ]


def _group_metrics(evaluation: LinkedEvaluation) -> list[Metric]:
    return [m for m in evaluation.metrics if m.kind == UTILITY and m.key.split(".")[-1] not in KEYS]


def _metric_row(metric: Metric, warning: bool, *, baseline: bool = True) -> Row:
    cells = [*_cells(metric, baseline=baseline), metric.better, metric.reading]
    return Row(metric.title, cells, metric.definition, warning)


def _attacks(evaluation: LinkedEvaluation) -> str:
    attacks = [m for m in evaluation.metrics if m.kind == PRIVACY]
    if not attacks:
        return "Attacks on units were not tried: they need a hold-out."
    successful = [m for m in attacks if m.beats_guessing(len(attacks))]
    if successful:
        listed = "; ".join(f"{m.title} {m.value:.3f}" for m in successful)
        return f"Evidence of leakage: {listed} (0.5 is guessing)."
    return (
        f"{len(attacks)} attacks with a row of {evaluation.root} and its other records as their target: no evidence"
        " of leakage, which proves nothing."
    )


def _cells(metric: Metric, *, baseline: bool = True) -> list[str]:
    last = metric.baseline if baseline else None
    return [with_interval(estimate) for estimate in (metric.synthetic, metric.holdout, last)]


def _utility(title: str, evaluation: Evaluation) -> Table:
    rows = [
        Row(m.title, [*_cells(m), m.better], m.definition, m.below_baseline)
        for m in evaluation.metrics
        if m.kind == UTILITY
    ]
    return Table((title, *HEADER, "Independent columns", "Better"), rows)
