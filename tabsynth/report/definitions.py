"""The definition of every figure that a page can show: formula, range, direction, caveat and source.

The pages show these entries in their glossary, and each figure's name links to its entry. ``docs/reference/figures.py``
writes the same entries into ``docs/reference/evaluation.md``.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

DIRECTIONS = {
    "lower": "Lower is better.",
    "higher": "Higher is better.",
    "closest": "The closer to the best value, the better.",
    "neither": "Neither direction is better.",
}
GROUPS = {
    "utility": "Utility",
    "attacks": "Attacks",
    "page": "Other figures of the report",
    "linked": "Linked tables",
    "published": "Published reports",
}
TWO_TABLES = "The drawing of the rows of both tables"
TEST_ROWS = "The drawing of the test rows only; the classifiers stay as they were fitted"
PEOPLE = "The drawing of the people that are attacked, in both groups"
ROOTS = "The drawing of roots with all that hangs on them"


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The meaning of one figure, or of one family of figures.

    Attributes
    ----------
    name : str
        The figure's name; its anchor follows from it.
    keys : tuple of str
        Keys of the metrics that it defines; a key that ends with ``*`` covers all that begin so. Of a figure that is no
        metric, the name by which a page refers to it.
    group : str
        A key of :data:`GROUPS`.
    meaning : str
        The definition in words.
    formula : str
        The definition as a formula, in plain text; empty where words are enough.
    range : str
        Least and greatest value.
    better : {"lower", "higher", "closest", "neither"}
        As of :class:`tabsynth.evaluation.metric.Metric`.
    best : str
        The best or reference value, and what it says.
    interval : str
        What the 95% interval covers; empty where there is none.
    caveat : str
        The main reason to read it with care.
    source : str
        Where the definition is from.
    """

    name: str
    keys: tuple[str, ...]
    group: str
    meaning: str
    formula: str = ""
    range: str
    better: Literal["lower", "higher", "closest", "neither"]
    best: str
    interval: str = ""
    caveat: str
    source: str

    @property
    def anchor(self) -> str:
        """The fragment of its address, which is that of a heading with its name: ``total-variation-distance``."""
        return re.sub(r"[^\w\- ]", "", self.name.lower()).replace(" ", "-")

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """The pairs of a term and a text, in the order in which they are shown."""
        pairs = (
            ("Definition", self.meaning),
            ("Formula", self.formula),
            ("Range", self.range),
            ("Direction", f"{DIRECTIONS[self.better]} {self.best}"),
            ("95% interval", self.interval and f"{self.interval}."),
            ("Caveat", self.caveat),
            ("Source", self.source),
        )
        return tuple((term, text) for term, text in pairs if text)

    def covers(self, key: str) -> bool:
        """Return whether it defines the metric of that key."""
        return any(
            key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern
            for pattern in self.keys
        )


def definition_of(key: str, groups: Iterable[str] = ("utility", "attacks")) -> Definition | None:
    """Return the definition of the metric of that key, among those of some groups; None if it has none.

    The key of a metric of linked tables is ``TABLE.metric``: give what follows the last dot.
    """
    for group in groups:
        for item in DEFINITIONS:
            if item.group == group and item.covers(key):
                return item
    return None


def definitions_of(
    keys: Iterable[str], groups: Sequence[str] = ("utility", "attacks")
) -> list[Definition]:
    """Return the definitions of the metrics of these keys, each once, in the order of the keys."""
    items = (definition_of(key, groups) for key in keys)
    return list(dict.fromkeys(item for item in items if item is not None))


def of_group(group: str) -> list[Definition]:
    """Return the definitions of one group, in their order."""
    return [item for item in DEFINITIONS if item.group == group]


DEFINITIONS = (
    Definition(
        name="Total variation distance",
        keys=("tvd1", "tvd2", "tvd3"),
        group="utility",
        meaning="Share of rows that would have to move to make the counts of two tables equal. tvd1 compares single columns,"
        " tvd2 pairs and tvd3 triples of columns. The figure is the mean over all sets of columns; of very many sets, some"
        " are drawn at random (2,000 pairs, 60 triples).",
        formula="½ Σ |p(c) − q(c)| over all combinations c of values; p and q are shares of rows in the two tables",
        range="0 (equal) to 1 (disjoint)",
        better="lower",
        best="Best is 0; the value to expect of other real rows is the hold-out reference.",
        interval=f"{TWO_TABLES}, not that of sets of columns (delta method)",
        caveat="Few rows alone make it positive, so compare it with the hold-out reference. Independent columns have tvd1 = 0"
        " by construction.",
        source="Tao et al. 2021, arXiv:2112.09238",
    ),
    Definition(
        name="k-marginal score",
        keys=("k_marginal",),
        group="utility",
        meaning="Likeness of the counts of pairs of columns. Numbers are grouped by the 20 percentile groups of the training"
        " table. A column PUMA, SECTOR or FIPST joins every pair. Of 30 columns and more, 200 pairs are drawn.",
        formula="1000 · (1 − mean total variation distance of the pairs)",
        range="0 (disjoint) to 1000 (equal)",
        better="higher",
        best="Best is 1000; the value to expect of other real rows is the hold-out reference.",
        interval=f"{TWO_TABLES}, not that of pairs (delta method)",
        caveat="Scores on different columns or with different bins are not comparable.",
        source="Task et al. 2023, SDNist v2 (NIST)",
    ),
    Definition(
        name="Dimension-wise prediction",
        keys=("prediction_weighted", "prediction_macro", "boosting_weighted", "boosting_macro"),
        group="utility",
        meaning="Each column is predicted from all others by a classifier that is fitted on the table and tested on real rows."
        " The figure is the mean F1 score over columns. Weighted: the values of a column count by their frequency. Macro: all"
        " values count the same. The classifier is a logistic regression (prediction) or gradient boosting (boosting).",
        formula="F1 = 2 · precision · recall / (precision + recall)",
        range="0 to 1",
        better="higher",
        best="The reference is the same classifier fitted on the training table.",
        interval=f"{TEST_ROWS} (bootstrap)",
        caveat="A column that nothing predicts has a low F1 in a perfect table too: look at the ratio to the training table."
        " Without a hold-out the test rows are ones that the synthesizer saw.",
        source="Choi et al. 2017 (medGAN), arXiv:1703.06490",
    ),
    Definition(
        name="Dimension-wise probability",
        keys=("dimension_wise_probability",),
        group="utility",
        meaning="Correlation of the shares that all values of all columns have in the two tables.",
        formula="Pearson's r of the pairs (p(v), q(v)) over all values v of all columns",
        range="−1 to 1",
        better="higher",
        best="Best is 1.",
        interval=f"{TWO_TABLES} (delete-a-group jackknife); it needs 20 rows",
        caveat="It says nothing about relations: independent columns score 1 by construction.",
        source="Choi et al. 2017 (medGAN), arXiv:1703.06490; Kott 2001",
    ),
    Definition(
        name="Pearson's correlation: mean difference",
        keys=("pearson",),
        group="utility",
        meaning="Mean absolute difference between the two tables' Pearson correlations, over all pairs of columns of numbers.",
        formula="mean of |r(i, j; training) − r(i, j; synthetic)| over pairs of columns i, j",
        range="0 to 2",
        better="lower",
        best="Best is 0; the value to expect of other real rows is the hold-out reference.",
        interval=f"{TWO_TABLES} (delete-a-group jackknife); it needs 20 rows",
        caveat="A mean hides one bad pair: the worst pairs are listed. It sees linear relations only.",
        source="Pearson 1895; Kott 2001",
    ),
    Definition(
        name="Cramér's V: mean difference",
        keys=("cramers_v",),
        group="utility",
        meaning="Mean absolute difference between the two tables' values of Cramér's V, over pairs of columns. V is corrected"
        " for the bias that few rows give it.",
        formula="V = √(φ² / (min(rows, columns) − 1)) of the table of counts of a pair; φ² = χ² / n, bias-corrected",
        range="0 to 1",
        better="lower",
        best="Best is 0; the value to expect of other real rows is the hold-out reference.",
        interval=f"{TWO_TABLES} (delete-a-group jackknife); it needs 20 rows",
        caveat="A mean hides one bad pair: the worst pairs are listed. V ignores the order of values.",
        source="Cramér 1946; Bergsma 2013; Kott 2001",
    ),
    Definition(
        name="Mutual information: mean difference",
        keys=("mutual_information",),
        group="utility",
        meaning="Mean absolute difference between the two tables' mutual information, in nats, over pairs of columns. It is"
        " corrected for the bias that few rows give it.",
        formula="I(X; Y) = H(X) + H(Y) − H(X, Y), with entropies H after Miller and Madow",
        range="0 upwards, in nats",
        better="lower",
        best="Best is 0; the value to expect of other real rows is the hold-out reference.",
        interval=f"{TWO_TABLES} (delete-a-group jackknife); it needs 20 rows",
        caveat="A mean hides one bad pair: the worst pairs are listed. Columns with more values can differ more.",
        source="Shannon 1948; Miller 1955; Kott 2001",
    ),
    Definition(
        name="pMSE ratio",
        keys=("pmse_main_effects", "pmse_tree"),
        group="utility",
        meaning="How well a classifier tells synthetic from training rows. It is the mean squared propensity score over the"
        " value expected of another sample of the same population. One classifier is a logistic regression on main effects;"
        " the other is a classification tree, which sees relations.",
        formula="mean (p̂ − c)² / expected value; p̂ is the estimated chance that a row is synthetic, c the share of such rows",
        range="0 upwards",
        better="closest",
        best="Best is 1: above, the tables differ; below, the table is nearer to the training rows than other real rows are.",
        interval=f"{TWO_TABLES}, with the classifier fitted again",
        caveat="Main effects do not detect independent columns. Ratios of different numbers of rows are not comparable,"
        " because they grow with the rows.",
        source="Woo et al. 2009; Snoke et al. 2018, J. R. Stat. Soc. A 181",
    ),
    Definition(
        name="Rare values that occur",
        keys=("rare_coverage",),
        group="utility",
        meaning="Share of the values held by fewer than 1% of the training rows that occur in the table at all.",
        range="0 to 1",
        better="higher",
        best="Best is 1.",
        interval="The choice of values, as if they were independent (Wilson); no drawing of rows",
        caveat="With a small ε some rare values must be missing: this follows from the guarantee. A hold-out of fewer rows is"
        " a weak reference.",
        source="Category coverage as in SDMetrics (DataCebo); Wilson 1927",
    ),
    Definition(
        name="Gap between groups",
        keys=("subgroup_gap_*",),
        group="utility",
        meaning="Distance (tvd2) within each group of a column's values, less what so few rows give by chance. The figure is"
        " that of the worst group less that of the best group.",
        formula="max over groups − min over groups of max(0, tvd2 within the group − tvd2 expected by chance)",
        range="0 to 1",
        better="lower",
        best="Best is 0: no group is worse than another.",
        interval=f"{TWO_TABLES}, and that the same rows chose the worst and the best group (bootstrap); too wide near 0",
        caveat="Groups of fewer than 20 training rows are named and not judged. Small groups have wide intervals.",
        source="Bhanot et al. 2021, Entropy 23; Tukey 1953",
    ),
    Definition(
        name="Population total: relative error",
        keys=("population_total",),
        group="utility",
        meaning="Relative difference between the sums of the survey weights of the two tables.",
        formula="|Σ w(synthetic) / Σ w(training) − 1|",
        range="0 upwards; 0.01 is one per cent",
        better="lower",
        best="Best is 0.",
        interval=f"{TWO_TABLES}, as if they were drawn simply (jackknife): not the survey's design",
        caveat="A self-weighting synthetic table states no population and does not have this figure.",
        source="Horvitz and Thompson 1952; Kott 2001",
    ),
    Definition(
        name="Weighted totals of values",
        keys=("weighted_totals",),
        group="utility",
        meaning="Share of the population that would have to change its value, or to come or go, to make the weighted totals"
        " of all values equal. Mean over columns.",
        formula="½ Σ |T(v; synthetic) − T(v; training)| / population, over the values v of a column",
        range="0 upwards",
        better="lower",
        best="Best is 0.",
        interval=f"{TWO_TABLES}, as if they were drawn simply (jackknife): not the survey's design",
        caveat="The totals of a self-weighting table are scaled to the training table's. Independent columns are right by"
        " construction.",
        source="Horvitz and Thompson 1952; Kott 2001",
    ),
    Definition(
        name="Survey estimates within the interval",
        keys=("survey_share", "survey_pair", "survey_number"),
        group="utility",
        meaning="Share of the synthetic estimates that lie within the 95% interval of the training table's weighted estimate."
        " The estimates are shares of values, shares of pairs of values, or means and totals of numbers.",
        range="0 to 1",
        better="higher",
        best="Best is 1; of an independent sample as large, about 0.83 would lie within.",
        interval="The choice of estimates, as if they were independent; no drawing of rows",
        caveat="Shares of fewer than 30 training rows are not judged. The intervals say nothing about the uncertainty of"
        " synthetic estimates.",
        source="Binder 1983; Wolter 2007, Introduction to Variance Estimation",
    ),
    Definition(
        name="AUROC of the target",
        keys=("target_auroc_*",),
        group="utility",
        meaning="A classifier of the target column is fitted on the table and tested on real rows. The figure is the chance"
        " that it ranks a row with a value above a row without it. Mean over the column's values, weighted by frequency.",
        formula="P(score of a positive > score of a negative) + ½ P(equal)",
        range="0 to 1; 0.5 is guessing",
        better="higher",
        best="The reference is the same classifier fitted on the training table.",
        interval=f"{TEST_ROWS} (delete-a-group jackknife)",
        caveat="It is about one column and one kind of model. Without a hold-out the test rows are ones that the synthesizer"
        " saw.",
        source="Esteban et al. 2017, arXiv:1706.02633; Kott 2001",
    ),
    Definition(
        name="AUPRC of the target",
        keys=("target_auprc_*",),
        group="utility",
        meaning="As the AUROC, with the average precision over all thresholds. Mean over the column's values, weighted by"
        " frequency. The AUPRC that papers report is that of the rare value: see the parts.",
        formula="Σ precision · increase in recall, over thresholds",
        range="0 to 1; guessing gives the frequency of the value",
        better="higher",
        best="The reference is the same classifier fitted on the training table.",
        interval=f"{TEST_ROWS} (delete-a-group jackknife)",
        caveat="It depends on how common the value is: do not compare different columns.",
        source="Esteban et al. 2017, arXiv:1706.02633; Kott 2001",
    ),
    Definition(
        name="Calibration error of the target",
        keys=("target_calibration_*",),
        group="utility",
        meaning="Difference between how sure a classifier is of its guess and how often the guess is right, in ten groups of"
        " equal width. The classifier is fitted on the table and tested on real rows.",
        formula="Σ over groups of (rows in the group / rows) · |mean probability of the guess − share of right guesses|",
        range="0 to 1",
        better="lower",
        best="Best is 0; a classifier that is fitted on real rows has an error too.",
        interval=f"{TEST_ROWS} (delete-a-group jackknife)",
        caveat="A classifier that always states the frequencies of values is well calibrated and useless.",
        source="Guo et al. 2017, arXiv:1706.04599; Kott 2001",
    ),
    Definition(
        name="Overlap of confidence intervals",
        keys=("ci_overlap",),
        group="utility",
        meaning="One regression of the target on all other columns is fitted on both tables. The figure is the mean overlap of"
        " the 95% intervals of its coefficients. Numbers: linear; else logistic, the commonest value against the others.",
        formula="½ (length of the overlap / length of one interval + length of the overlap / length of the other)",
        range="−1 to 1; below 0 the intervals are apart",
        better="higher",
        best="Best is 1: the intervals are equal.",
        interval="The choice of coefficients, as if they were independent; no drawing of rows",
        caveat="Standard errors from synthetic rows that are treated as real are too small; see docs/how-to/valid-inference.md.",
        source="Karr et al. 2006, The American Statistician 60; Snoke et al. 2018",
    ),
    Definition(
        name="Coefficients with the same conclusion",
        keys=("same_conclusions",),
        group="utility",
        meaning="Share of the coefficients of the same regression that lead to the same conclusion in both tables: the same"
        " sign and significant at 5%, or not significant in both.",
        range="0 to 1",
        better="higher",
        best="Best is 1.",
        interval="The choice of coefficients, as if they were independent; no drawing of rows",
        caveat="Coefficients that are not significant in either table count as equal, so many weak ones raise it.",
        source="Karr et al. 2006, The American Statistician 60; Snoke et al. 2018",
    ),
    Definition(
        name="Rows that break the schema",
        keys=("violations",),
        group="utility",
        meaning="Share of the synthetic rows that have an undeclared value or an impossible combination, or that break a"
        " constraint of the schema.",
        range="0 to 1",
        better="lower",
        best="Best is 0; every table that tabsynth samples has 0.",
        interval="The drawing of the synthetic rows (Wilson)",
        caveat="Rows with undeclared values are in no other figure.",
        source="Structural zeros as in McClure and Reiter 2016; Wilson 1927",
    ),
    Definition(
        name="Attribute disclosure: leakage",
        keys=("attribute_disclosure",),
        group="attacks",
        meaning="An attacker knows all but s attributes of a person and lets the k nearest synthetic rows vote on the others."
        " The figure is the share guessed right of people of the training table, less that of control people. Mean over the"
        " grid of s and k.",
        formula="share right (training people) − share right (control people)",
        range="−1 to 1",
        better="lower",
        best="Without leakage it is 0.",
        interval=PEOPLE,
        caveat="It counts equal values: a copy whose numbers are all changed slightly shows no leakage. A mean over everyone"
        " hides the few who are exposed.",
        source="Choi et al. 2017 (medGAN); control group as in Giomi et al. 2023 (Anonymeter)",
    ),
    Definition(
        name="Presence disclosure",
        keys=("presence",),
        group="attacks",
        meaning="The attacker claims that whoever is near to a synthetic row is in the training table. The figure is the chance"
        " that a person of the training table is nearer than a control person (area under the ROC curve).",
        formula="P(distance of a member < distance of a control) + ½ P(equal), with Gower's distance",
        range="0 to 1",
        better="lower",
        best="Without leakage it is 0.5, which is guessing.",
        interval=f"{PEOPLE} (DeLong)",
        caveat="A table that leaks one person in a thousand has an area of about 0.5: look at the precision within 0.",
        source="Choi et al. 2017 (medGAN), arXiv:1703.06490; DeLong et al. 1988",
    ),
    Definition(
        name="Membership by density ratio",
        keys=("density_ratio",),
        group="attacks",
        meaning="The attacker holds other real people and asks where the synthetic table is denser than they are (DOMIAS). The"
        " figure is the area under the ROC curve of that ratio.",
        formula="P(ratio at a member > ratio at a control) + ½ P(equal)",
        range="0 to 1",
        better="lower",
        best="Without leakage it is 0.5, which is guessing.",
        interval=f"{PEOPLE} (DeLong)",
        caveat="Its reference is a quarter of the hold-out: a small hold-out does not detect small leaks.",
        source="van Breugel et al. 2023, arXiv:2302.12580",
    ),
    Definition(
        name="Singling-out risk",
        keys=("singling_out",),
        group="attacks",
        meaning="Predicates that exactly one synthetic row meets are tried on people. The risk is how much more often exactly one"
        " person of the training table meets them than one control person.",
        formula="(attack − control) / (1 − control), with attack and control as shares of predicates",
        range="At most 1; below 0 by chance",
        better="lower",
        best="Without leakage it is 0.",
        interval=f"{PEOPLE}; predicates for the same rows are not independent",
        caveat="Being singled out gives no name and no new attribute. A risk of 0 does not stop an attacker with other"
        " predicates.",
        source="Giomi et al. 2023 (Anonymeter), PoPETs 2023(2)",
    ),
    Definition(
        name="Linkability risk",
        keys=("linkability",),
        group="attacks",
        meaning="Two sources know every other attribute of a person each. The table links them if the 10 nearest rows of both"
        " have one in common. The risk is how much more often this succeeds for people of the training table.",
        formula="(attack − control) / (1 − control), with attack and control as shares of people",
        range="At most 1; below 0 by chance",
        better="lower",
        best="Without leakage it is 0.",
        interval=PEOPLE,
        caveat="One split of the columns, in the schema's order: sources that know others may link better.",
        source="Giomi et al. 2023 (Anonymeter), PoPETs 2023(2)",
    ),
    Definition(
        name="Inference risk",
        keys=("inference",),
        group="attacks",
        meaning="The attacker knows all attributes of a person but one, and copies it from the nearest row. The risk is how much"
        " more often this is right for people of the training table. Mean over columns.",
        formula="(attack − control) / (1 − control); a number is right within 5% of its range",
        range="At most 1; below 0 by chance",
        better="lower",
        best="Without leakage it is 0.",
        interval=PEOPLE,
        caveat="A model may guess better than one nearest row. Where the control group is guessed right too, people can be"
        " harmed without a leak.",
        source="Giomi et al. 2023 (Anonymeter), PoPETs 2023(2)",
    ),
    Definition(
        name="Membership by shadow models",
        keys=("shadow_membership",),
        group="attacks",
        meaning="The attacker can run the synthesizer, and fits it many times with and without one person. A random forest"
        " learns from these tables. The figure is its area under the ROC curve on further tables.",
        formula="P(score of a table with the person > score of one without) + ½ P(equal)",
        range="0 to 1",
        better="lower",
        best="Without leakage it is 0.5, which is guessing.",
        interval="The drawing of the fits that are tried (DeLong)",
        caveat="Two people, the most unusual, on tables of at most 1,000 rows. It is about the synthesizer and not about the one"
        " table that you publish.",
        source="Stadler et al. 2022, USENIX Security; DeLong et al. 1988",
    ),
    Definition(
        name="Distance to the nearest row",
        keys=("nearest_distance",),
        group="attacks",
        meaning="Mean number of attributes in which a training record differs from its nearest synthetic row.",
        formula="mean over training records of min over synthetic rows of the number of unequal attributes",
        range="0 to the number of columns",
        better="neither",
        best="There is no best value.",
        interval="The drawing of the training records",
        caveat="This is not a privacy metric: a table can be far from everyone and leak everything.",
        source="Ganev and De Cristofaro 2023, arXiv:2312.05114",
    ),
    Definition(
        name="Gap closed",
        keys=("gap_closed",),
        group="page",
        meaning="Position of the synthetic table between independent columns (0%) and the best value (100%). Best is, for F1,"
        " the same classifier fitted on the training table; for distances, 0.",
        formula="(synthetic − independent columns) / (best − independent columns)",
        range="Any; 0% to 100% in most cases",
        better="higher",
        best="Best is 100%, which other real rows do not reach by distances.",
        caveat="Below 0% the table is worse than independent columns. Values above 100% occur by chance.",
        source="tabsynth",
    ),
    Definition(
        name="F1 of a column and its ratio",
        keys=("column_f1",),
        group="page",
        meaning="F1 of one column, predicted from the others and tested on real rows. The ratio is the F1 of the synthetic table"
        " over that of the training table.",
        formula="F1 = 2 · precision · recall / (precision + recall); ratio = F1(synthetic) / F1(training)",
        range="F1: 0 to 1; ratio: 0 upwards",
        better="higher",
        best="The best ratio is 1.",
        interval=f"{TEST_ROWS} (bootstrap); the ratio is paired",
        caveat="The ratio of a column that nothing predicts is near 1 in a useless table as well.",
        source="Choi et al. 2017 (medGAN), arXiv:1703.06490",
    ),
    Definition(
        name="Leakage by s and k",
        keys=("leakage_cell",),
        group="page",
        meaning="Share of unknown attributes guessed right of training people less that of control people, in percentage"
        " points. s is the number of attributes that the attacker does not know, k the number of rows that vote.",
        range="−100 to 100 percentage points",
        better="lower",
        best="Without leakage it is 0.",
        interval=f"{PEOPLE}, each cell by itself",
        caveat="One cell in twenty excludes 0 by chance: quote the mean over the grid.",
        source="Choi et al. 2017 (medGAN); control group as in Giomi et al. 2023 (Anonymeter)",
    ),
    Definition(
        name="Distance of a column",
        keys=("column_distance",),
        group="page",
        meaning="Total variation distance of the shares of one column's values: the share of rows that would have to change"
        " their value.",
        formula="½ Σ |p(v) − q(v)| over the values v of the column",
        range="0 (equal) to 1 (disjoint)",
        better="lower",
        best="Best is 0.",
        caveat="Few rows alone make it positive. It says nothing about relations between columns.",
        source="Tao et al. 2021, arXiv:2112.09238",
    ),
    Definition(
        name="Mean, standard deviation and quantiles",
        keys=("moments",),
        group="page",
        meaning="Moments of the values of a column in each table, in the unit of the column. Nulls are left out.",
        range="That of the column",
        better="closest",
        best="Best is the value of the training table.",
        caveat="A coarsened number counts as the midpoint of its cell, an ordered category as its rank from 0.",
        source="tabsynth",
    ),
    Definition(
        name="Share of multiples",
        keys=("heaping",),
        group="page",
        meaning="Share of a column's values that are multiples of a round number (heaping), in both tables.",
        range="0% to 100%",
        better="closest",
        best="Best is the share of the training table.",
        caveat="Nulls are left out. Only columns that declare heaping, or are clearly heaped, are listed.",
        source="Roberts and Brewer 2001, Journal of Applied Statistics 28",
    ),
    Definition(
        name="Rows that break a rule",
        keys=("rule",),
        group="page",
        meaning="Number and share of rows that break one rule of the schema, in both tables.",
        range="0% to 100%",
        better="lower",
        best="Best is 0 for declared rules; that of a suggested rule is the share of the training table.",
        caveat="Training rows may break declared rules. Synthetic rows with undeclared values are not counted here.",
        source="Structural zeros as in McClure and Reiter 2016",
    ),
    Definition(
        name="Estimate and standard errors away",
        keys=("survey_estimate",),
        group="page",
        meaning="A weighted estimate of the population from the training table, with the interval of the survey's design. The"
        " synthetic estimate is beside it, and how many standard errors it is away.",
        formula="|synthetic − training| / standard error of the training table's estimate",
        range="0 upwards",
        better="lower",
        best="Best is 0; about 2 is the limit of the interval.",
        interval="The survey's design: strata, clusters, weights or replicate weights",
        caveat="The intervals describe the real sample: they are confidential, and they are not those of synthetic estimates.",
        source="Binder 1983; Wolter 2007, Introduction to Variance Estimation",
    ),
    Definition(
        name="ε and δ",
        keys=("epsilon",),
        group="page",
        meaning="Parameters of differential privacy. Adding or removing one unit, such as a row, changes the probability of"
        " any result by a factor of at most e^ε. δ is the most by which it may change in addition.",
        formula="P(result in S | table) ≤ e^ε · P(result in S | neighbouring table) + δ, for every set S of results",
        range="ε: 0 upwards; δ: 0 to 1",
        better="lower",
        best="Choose δ well below 1 / number of rows. The chance of a right guess of an even question is at most"
        " (e^ε + δ) / (1 + e^ε).",
        caveat="They hold for the unit and under the conditions that the certificate states.",
        source="Dwork et al. 2006; Wood et al. 2018",
    ),
    Definition(
        name="Noise multiplier and sampling rate",
        keys=("mechanism",),
        group="page",
        meaning="Noise multiplier: standard deviation of the noise over the sensitivity of what is released. Of a noisy vote it"
        " is the noise in votes. Sampling rate: chance of each record to take part in one use.",
        range="Noise multiplier: 0 upwards; sampling rate: 0 to 1",
        better="neither",
        best="More noise and lower rates give a smaller ε, and less accurate releases.",
        caveat="Single mechanisms do not give ε: an accountant composes all of them.",
        source="Mironov et al. 2019, arXiv:1908.10530; Gopi et al. 2021, arXiv:2106.02848",
    ),
    Definition(
        name="Keys and order",
        keys=("duplicate_keys", "orphans", "unordered"),
        group="linked",
        meaning="Share of rows whose key is null or occurred before; whose parent is missing; or, as listed, whose order is"
        " below that of the row before of the same parent.",
        range="0 to 1",
        better="lower",
        best="Best is 0; the first two must be 0.",
        caveat="Rows with a broken key, and all that hangs on them, are in no other figure. Real tables need not be sorted.",
        source="Counted",
    ),
    Definition(
        name="Group size",
        keys=("group_size",),
        group="linked",
        meaning="Share of parents whose number of children would have to change; 0 children count.",
        formula="½ Σ |p(m) − q(m)| over numbers m of children",
        range="0 (equal) to 1 (disjoint)",
        better="lower",
        best="Best is 0; the value to expect of other real roots is the hold-out reference.",
        interval=ROOTS,
        caveat="Groups of 100 and more are counted together. Independent children keep the sizes and are no reference.",
        source="Tao et al. 2021, arXiv:2112.09238; Cochran 1977",
    ),
    Definition(
        name="Parent × child",
        keys=("between_levels",),
        group="linked",
        meaning="Share of children that would have to move to make the counts of a column above and one of the child equal."
        " Mean over pairs of columns.",
        formula="½ Σ |p(c) − q(c)| over combinations c of a value above and one of the child",
        range="0 (equal) to 1 (disjoint)",
        better="lower",
        best="Best is 0; the value to expect of other real roots is the hold-out reference.",
        interval=ROOTS,
        caveat="Few rows alone make it positive: compare it with the hold-out reference.",
        source="Tao et al. 2021, arXiv:2112.09238; Cochran 1977",
    ),
    Definition(
        name="Pairs of siblings",
        keys=("sibling_pairs",),
        group="linked",
        meaning="As total variation distance, of a random row and a random sibling without order. Siblings are rows of one"
        " parent. Mean over pairs of columns.",
        formula="½ Σ |p(c) − q(c)| over combinations c of the two rows' values",
        range="0 (equal) to 1 (disjoint)",
        better="lower",
        best="Best is 0; the value to expect of other real roots is the hold-out reference.",
        interval=ROOTS,
        caveat="A row of a large group counts as one of a small group. Rows without siblings do not count.",
        source="Tao et al. 2021, arXiv:2112.09238; Cochran 1977",
    ),
    Definition(
        name="Differences between siblings",
        keys=("sibling_differences",),
        group="linked",
        meaning="How far apart siblings are, such as the ages of two persons of a household. Kolmogorov–Smirnov distance of"
        " absolute differences, mean over ordered columns.",
        formula="max over x of |F(x) − G(x)|, with cumulative shares F and G of absolute differences",
        range="0 (equal) to 1 (disjoint)",
        better="lower",
        best="Best is 0; the value to expect of other real roots is the hold-out reference.",
        interval="The drawing of roots with all that hangs on them (delete-a-group jackknife)",
        caveat="A coarsened number counts as the middle of its cell.",
        source="Kolmogorov 1933; Smirnov 1948; Kott 2001",
    ),
    Definition(
        name="Position × column",
        keys=("position",),
        group="linked",
        meaning="Share of rows that would have to move to make the counts of a column at the first, second, … row of a group"
        " equal. Mean over columns.",
        formula="½ Σ |p(c) − q(c)| over combinations c of a position and a value",
        range="0 (equal) to 1 (disjoint)",
        better="lower",
        best="Best is 0; the value to expect of other real roots is the hold-out reference.",
        interval=ROOTS,
        caveat="Only where rows have an order. Rows from the tenth on are counted together.",
        source="Tao et al. 2021, arXiv:2112.09238; Cochran 1977",
    ),
    Definition(
        name="Transitions and runs of three",
        keys=("transitions", "trigrams"),
        group="linked",
        meaning="Share of runs of two or three consecutive siblings that would have to change to make the counts of a column's"
        " values in that order equal. Mean over columns.",
        formula="½ Σ |p(c) − q(c)| over sequences c of two or three values",
        range="0 (equal) to 1 (disjoint)",
        better="lower",
        best="Best is 0; the value to expect of other real roots is the hold-out reference.",
        interval=ROOTS,
        caveat="Few groups have three rows: the hold-out reference shows what so few rows give.",
        source="Tao et al. 2021, arXiv:2112.09238; Cochran 1977",
    ),
    Definition(
        name="Total variation distance with noise",
        keys=("tvd1", "tvd2", "tvd3"),
        group="published",
        meaning="Share of rows that would have to move to make the counts of two tables equal, with charged Gaussian noise."
        " tvd1 compares single columns, tvd2 pairs and tvd3 triples of columns; the figure is a mean.",
        formula="½ Σ |p(c) − q(c)| over all combinations c of values, mean over sets of columns, plus noise",
        range="0 (equal) to 1 (disjoint)",
        better="lower",
        best="Best is 0; the reference is the synthetic table with its columns shuffled.",
        interval="The noise alone",
        caveat="Its privacy cost comes on top of the table's. There is no hold-out reference, so few rows look like an error.",
        source="Tao et al. 2021, arXiv:2112.09238; Dwork and Roth 2014",
    ),
    Definition(
        name="k-marginal score with noise",
        keys=("k_marginal",),
        group="published",
        meaning="Likeness of the counts of pairs of columns, with charged Gaussian noise. The bins of numbers are percentiles"
        " of the synthetic table.",
        formula="1000 · (1 − mean total variation distance of the pairs), with noise",
        range="0 (disjoint) to 1000 (equal)",
        better="higher",
        best="Best is 1000; the reference is the synthetic table with its columns shuffled.",
        interval="The noise alone",
        caveat="Its privacy cost comes on top of the table's. The bins differ from those of a confidential report.",
        source="Task et al. 2023, SDNist v2 (NIST); Dwork and Roth 2014",
    ),
    Definition(
        name="Rows and population with noise",
        keys=("rows", "population"),
        group="published",
        meaning="Number of rows of the training table, and total of its survey weights, with Gaussian noise.",
        range="0 upwards",
        better="neither",
        best="There is no best value: these figures do not measure quality.",
        interval="The noise alone",
        caveat="Where the schema declares a unit, at most as many rows of each unit count as it allows. A weight above its cap"
        " counts as the cap.",
        source="Gaussian mechanism, Dwork and Roth 2014",
    ),
)
