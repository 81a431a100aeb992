"""
Survey weights
==============

A survey weight states for how many people a row stands. With a declared weight, a fit describes the population. Without it, the fit
describes the sample. This survey is made up: region B was drawn four times as often as region A, and has higher incomes.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from tabsynth import Categorical, MargNet, Numeric, Schema

rng = np.random.default_rng(0)
rows = 4_000
region = rng.choice(["A", "B"], rows)
income = np.clip(rng.normal(np.where(region == "A", 25, 55), 9), 0, 99.9).round(1)
weight = np.where(region == "A", 80, 20)
survey = pd.DataFrame({"region": region, "income": income, "weight": weight})

# %%
# Two schemas
# -----------
# The schema declares the column of weights and a cap. The cap is public: take it from the design of the survey, not from its rows.

columns = [
    Categorical(name="region", dtype="str", categories=("A", "B")),
    Numeric(name="income", dtype="float64", low=0, high=100, bins=20),
]
weighted = Schema(columns, weight="weight", max_weight=100)
unweighted = Schema(columns)

# %%
# Two fits
# --------
# Both have ε = 1 and δ = 10⁻⁵ for one row. Synthetic rows need no weights: each stands for the same number of people.
#
# .. alt: The distribution of incomes in the population has a high peak near 25 and a low one near 55. The line of the fit with weights
#    follows it. The line of the fit without weights has two peaks of the same height.

edges = np.linspace(0, 100, 21)
figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
axis.hist(income, edges, weights=weight / weight.sum(), color="lightgrey", label="population")
for label, schema, data in (
    ("fit with weights", weighted, survey),
    ("fit without weights", unweighted, survey.drop(columns="weight")),
):
    model = MargNet(schema, epsilon=1.0, delta=1e-5, rows=rows, random_state=0).fit(data)
    share = np.histogram(model.sample(rows, random_state=0)["income"], edges)[0] / rows
    axis.stairs(share, edges, label=label, linewidth=2)
axis.set(
    xlabel="income",
    ylabel="share of people",
    title="Only the fit with weights describes the population",
)
axis.legend()
plt.show()
