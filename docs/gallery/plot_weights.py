"""
Survey weights: estimates of a population
=========================================

A row of a survey stands for many people. With a declared weight, MargNet learns the population. Its synthetic rows are
self-weighting: plain shares of rows estimate shares of people.

The weights here are invented: people under 40 were sampled half as often, so they count twice. On a real survey,
`reports/units/weights.md <../../../reports/units/weights.md>`_ compares caps on weights.
"""

import matplotlib.pyplot as plt
import numpy as np

from tabsynth import MargNet, Schema, load_census

table, schema = load_census()
names = ["AGEP", "SEX", "MSP", "EDU", "OWN_RENT"]
rng = np.random.default_rng(0)
table = table[names].assign(
    weight=np.where(table["AGEP"] < 40, 200, 100) * rng.uniform(0.8, 1.2, len(table))
)
columns = [column for column in schema.columns if column.name in names]

# %%
# Two fits
# --------
# One schema declares the weight and a cap. The cap is a public number: a larger weight counts as the cap. The other fit
# ignores the weights.

with_weights = Schema(columns, weight="weight", max_weight=250)
settings = {"epsilon": 1.0, "delta": 1e-5, "rows": len(table), "random_state": 0}
weighted = MargNet(with_weights, **settings).fit(table)
unweighted = MargNet(Schema(columns), **settings).fit(table[names])
samples = {
    "synthetic, weights declared": weighted.sample(10_000, random_state=1),
    "synthetic, weights ignored": unweighted.sample(10_000, random_state=1),
}

# %%
# Shares of the population
# ------------------------
# The first bars are weighted shares of the survey. The fit with weights reproduces them. The fit without weights gives the
# shares of rows, in which older people are too common.


def by_age(ages, weights=None):
    """Shares of ages by decades."""
    counts, _ = np.histogram(np.minimum(ages, 89), np.arange(0, 91, 10), weights=weights)
    return counts / counts.sum()


shares = {"survey, weighted": by_age(table["AGEP"], table["weight"])}
shares |= {label: by_age(rows["AGEP"]) for label, rows in samples.items()}
fig, axis = plt.subplots(figsize=(8, 3.6), layout="constrained")
for i, (label, values) in enumerate(shares.items()):
    axis.bar(np.arange(9) + 0.27 * (i - 1), values, 0.26, label=label)
axis.set_xticks(range(9), [f"{10 * i}–{10 * i + 9}" for i in range(8)] + ["80+"])
axis.set(xlabel="age", ylabel="share of people")
axis.legend()

# %%
# ``sample(..., weights="population")`` adds a column of equal weights whose sum is the noisy size of the population.

population = weighted.sample(1000, random_state=2, weights="population")["weight"].sum()
print(f"population of the survey {table['weight'].sum():,.0f}, of the sample {population:,.0f}")
