"""
Survey weights
==============

A survey that draws some groups more often than others has weights: how many people a row stands for. With a declared
weight, a fit estimates the population. Without it, the fit describes the sample. This example compares both on a made-up
survey whose second region was drawn five times as often as its first.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from tabsynth import Categorical, MargNet, Numeric, Schema
from tabsynth.synthesizers import MargNetConfig

# %%
# A made-up survey
# ----------------
#
# Region A has 80% of the population and half of the sample. Incomes in region A are lower.

rng = np.random.default_rng(0)
rows = 4_000
region = rng.choice(["A", "B"], rows)
income = np.clip(rng.normal(np.where(region == "A", 25, 40), 8), 0, 99.9).round(1)
weight = np.where(region == "A", 80, 20)
survey = pd.DataFrame({"region": region, "income": income, "weight": weight})

# %%
# The schema declares the column of weights and a cap. The cap is public: it is from the design of the survey, and never
# from its rows.

columns = [
    Categorical(name="region", dtype="str", categories=("A", "B")),
    Numeric(name="income", dtype="float64", low=0, high=100, bins=20),
]
weighted = Schema(columns, weight="weight", max_weight=100)
unweighted = Schema(columns)

# %%
# Two private fits
# ----------------
#
# Both have ε = 1 and δ = 10⁻⁵ for one row. ``random_state`` makes this page the same in every build; a fit whose result you
# publish has no seed.

config = MargNetConfig(steps=300)
tables = {}
for name, schema in {"weighted": weighted, "unweighted": unweighted}.items():
    model = MargNet(schema, epsilon=1.0, delta=1e-5, rows=rows, config=config, random_state=0)
    model.fit(survey if schema is weighted else survey.drop(columns="weight"))
    tables[name] = model.sample(rows, random_state=0)

# %%
# Synthetic rows are self-weighting, so the share of a region is a plain mean.

truth = np.average(region == "A", weights=weight)
shares = {
    "population": truth,
    "sample": (region == "A").mean(),
    **{f"{name} fit": (table["region"] == "A").mean() for name, table in tables.items()},
}
print(pd.Series(shares).round(3).to_string())

# %%
# The distribution of incomes
# ---------------------------

edges = np.linspace(0, 100, 21)
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.hist(income, edges, weights=weight / weight.sum(), color="lightgrey", label="population")
for name, table in tables.items():
    share = np.histogram(table["income"], edges)[0] / rows
    axes.stairs(share, edges, label=f"{name} fit", linewidth=1.5)
axes.set(xlabel="income", ylabel="share of people")
axes.legend()
plt.show()
