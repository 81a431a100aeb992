"""The glossary of the reports, and the sections of the page."""

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
