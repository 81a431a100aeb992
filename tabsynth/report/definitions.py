"""The definitions of the figures of a page that are no metrics, the glossary, and the sections of the page.

``docs/reference/figures.py`` writes all definitions into ``docs/reference/evaluation.md``.
"""

from tabsynth.evaluation.definitions import PEOPLE, TEST_ROWS, Definition
from tabsynth.evaluation.glossary import METRICS

PAGE = (
    Definition(
        name="Gap closed",
        keys=("gap_closed",),
        meaning="Position of the synthetic table between independent columns (0%) and the best value (100%). Best is, for F1,"
        " the same classifier fitted on the training table; for distances, 0.",
        formula="(synthetic − independent columns) / (best − independent columns)",
        range="Any; 0% to 100% in most cases",
        better="higher",
        reference="Best is 100%, which other real rows do not reach by distances.",
        caveat="Below 0% the table is worse than independent columns. Values above 100% occur by chance.",
        source="tabsynth",
    ),
    Definition(
        name="F1 of a column and its ratio",
        keys=("column_f1",),
        meaning="F1 of one column, predicted from the others and tested on real rows. The ratio is the F1 of the synthetic table"
        " over that of the training table.",
        formula="F1 = 2 · precision · recall / (precision + recall); ratio = F1(synthetic) / F1(training)",
        range="F1: 0 to 1; ratio: 0 upwards",
        better="higher",
        reference="The best ratio is 1.",
        interval=f"{TEST_ROWS} (bootstrap); the ratio is paired",
        caveat="The ratio of a column that nothing predicts is near 1 in a useless table as well.",
        source="Choi et al. 2017 (medGAN), arXiv:1703.06490",
    ),
    Definition(
        name="Leakage by s and k",
        keys=("leakage_cell",),
        meaning="Share of unknown attributes guessed right of training people less that of control people, in percentage"
        " points. s is the number of attributes that the attacker does not know, k the number of rows that vote.",
        range="−100 to 100 percentage points",
        better="lower",
        reference="Without leakage it is 0.",
        interval=f"{PEOPLE}, each cell by itself",
        caveat="One cell in twenty excludes 0 by chance: quote the mean over the grid.",
        source="Choi et al. 2017 (medGAN); control group as in Giomi et al. 2023 (Anonymeter)",
    ),
    Definition(
        name="Distance of a column",
        keys=("column_distance",),
        meaning="Total variation distance of the shares of one column's values: the share of rows that would have to change"
        " their value.",
        formula="½ Σ |p(v) − q(v)| over the values v of the column",
        range="0 (equal) to 1 (disjoint)",
        better="lower",
        reference="Best is 0.",
        caveat="Few rows alone make it positive. It says nothing about relations between columns.",
        source="Tao et al. 2021, arXiv:2112.09238",
    ),
    Definition(
        name="Mean, standard deviation and quantiles",
        keys=("moments",),
        meaning="Moments of the values of a column in each table, in the unit of the column. Nulls are left out.",
        range="That of the column",
        better="closest",
        reference="Best is the value of the training table.",
        caveat="A coarsened number counts as the midpoint of its cell, an ordered category as its rank from 0.",
        source="tabsynth",
    ),
    Definition(
        name="Share of multiples",
        keys=("heaping",),
        meaning="Share of a column's values that are multiples of a round number (heaping), in both tables.",
        range="0% to 100%",
        better="closest",
        reference="Best is the share of the training table.",
        caveat="Nulls are left out. Only columns that declare heaping, or are clearly heaped, are listed.",
        source="Roberts and Brewer 2001, Journal of Applied Statistics 28",
    ),
    Definition(
        name="Rows that break a rule",
        keys=("rule",),
        meaning="Number and share of rows that break one rule of the schema, in both tables.",
        range="0% to 100%",
        better="lower",
        reference="Best is 0 for declared rules; that of a suggested rule is the share of the training table.",
        caveat="Training rows may break declared rules. Synthetic rows with undeclared values are not counted here.",
        source="Structural zeros as in McClure and Reiter 2016",
    ),
    Definition(
        name="ε and δ",
        keys=("epsilon",),
        meaning="Parameters of differential privacy. Adding or removing one unit, such as a row, changes the probability of"
        " any result by a factor of at most e^ε. δ is the most by which it may change in addition.",
        formula="P(result in S | table) ≤ e^ε · P(result in S | neighbouring table) + δ, for every set S of results",
        range="ε: 0 upwards; δ: 0 to 1",
        better="lower",
        reference="Choose δ well below 1 / number of rows. The chance of a right guess of an even question is at most"
        " (e^ε + δ) / (1 + e^ε).",
        caveat="They hold for the unit and under the conditions that the certificate states.",
        source="Dwork et al. 2006; Wood et al. 2018",
    ),
    Definition(
        name="Noise multiplier and sampling rate",
        keys=("mechanism",),
        meaning="Noise multiplier: standard deviation of the noise over the sensitivity of what is released. Of a noisy vote it"
        " is the noise in votes. Sampling rate: chance of each record to take part in one use.",
        range="Noise multiplier: 0 upwards; sampling rate: 0 to 1",
        better="neither",
        reference="More noise and lower rates give a smaller ε, and less accurate releases.",
        caveat="Single mechanisms do not give ε: an accountant composes all of them.",
        source="Mironov et al. 2019, arXiv:1908.10530; Gopi et al. 2021, arXiv:2106.02848",
    ),
)
SECTIONS = (
    ("result", "Result"),
    ("privacy", "Privacy"),
    ("publish", "What may be published"),
    ("utility", "Utility: every metric"),
    ("attacks", "Attacks: every metric"),
    ("prediction", "Predicting each column from the others"),
    ("disclosure", "Attribute disclosure"),
    ("columns", "Every column"),
    ("rules", "Rules between columns"),
    ("distances", "Distances of marginals"),
    ("figures", "Definitions of the figures"),
    ("glossary", "Glossary"),
)
GLOSSARY = (
    (
        "Hold-out reference",
        "The same figure of real rows that no synthesizer saw, for as many rows as the synthetic table has.",
    ),
    (
        "Independent columns (baseline)",
        "The training table with each column permuted by itself. It keeps every single column and no relation"
        " between columns. It is a reference for relations only.",
    ),
    (
        "Inconclusive",
        "The hold-out reference is itself worse than independent columns, so the metric cannot judge the table.",
    ),
    (
        "95% interval",
        "It covers the drawing of rows or of test records, as the definition of each figure says. It does not cover"
        " another fit of the synthesizer.",
    ),
    (
        "Survey weight",
        "How many people of the population a row stands for. With weights, every metric of utility compares weighted"
        " tables; a synthetic table without a column of weights is self-weighting, which means that its rows count equally.",
    ),
    (
        "Heaping",
        "Values that are multiples of a round number more often than chance makes them, because people round when they"
        " read or state them.",
    ),
    (
        "Leakage",
        "How much better an attack does on people of the training table than on a control group of other people.",
    ),
)

DEFINITIONS = {
    "utility": METRICS["utility"],
    "attacks": METRICS["attacks"],
    "page": PAGE,
    "linked": METRICS["linked"],
    "published": METRICS["published"],
}


def definition_of(key: str) -> Definition:
    """Return the definition of a figure that the page of one table names."""
    items = (*METRICS["utility"], *METRICS["attacks"], *PAGE)
    return next(item for item in items if key in item.keys)
