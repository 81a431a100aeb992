"""Fixed texts of the report's page: its contents list and its glossary."""

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
    ("survey", "Estimates of the population"),
    ("distances", "Distances of marginals"),
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
        "Gap closed",
        "Position of the synthetic table between independent columns (0%) and the best value (100%).",
    ),
    (
        "Inconclusive",
        "The hold-out reference is itself worse than independent columns, so the metric cannot judge the table.",
    ),
    (
        "95% interval",
        "It covers the drawing of rows or of test records, as docs/reference/evaluation.md lists for each metric. It does not"
        " cover another fit of the synthesizer.",
    ),
    (
        "Total variation distance",
        "Half the sum of absolute differences of relative frequencies, from 0 (equal) to 1 (disjoint): the share of"
        " rows that would have to change.",
    ),
    (
        "F1 score",
        "Harmonic mean of precision and recall of a classifier, from 0 to 1. Weighted: classes count by their"
        " frequency. Macro: all classes count the same.",
    ),
    (
        "pMSE ratio",
        "Mean squared propensity score of a classifier that separates synthetic from training rows, over its"
        " expectation for two samples of one population. The best value is near 1. Above 1 the tables differ; below"
        " 1 the table is nearer to the training rows than other real rows are.",
    ),
    (
        "Survey weight",
        "How many people of the population a row stands for. With weights, every metric of utility compares weighted"
        " tables; a synthetic table without a column of weights is self-weighting, which means that its rows count equally.",
    ),
    (
        "Interval of the survey's design",
        "95% interval of a weighted estimate that allows for unequal weights, and for strata and clusters or replicate"
        " weights where these are given.",
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
    (
        "ε, δ",
        "Parameters of differential privacy: bounds on how much one person's record changes the probability of any"
        " output. Smaller is stronger.",
    ),
)
