"""
A census table
==============

MargNet is fitted to six columns of the bundled census table with ε = 1. The plots compare single columns and pairs of
columns of the synthetic table with those of real rows.

The bundled table is itself synthetic, so this example shows how to work and not how good the method is. On 19,077 real
census rows with ten columns, classifiers that are trained on MargNet's rows keep 95% of the F1 score at ε = 1:
:doc:`reports/margnet </reports/margnet/README>`.
"""

import matplotlib.pyplot as plt
import numpy as np

from tabsynth import MargNet, Schema, evaluate, load_census
from tabsynth.evaluation import EvaluationConfig

table, schema = load_census()
names = ["AGEP", "SEX", "MSP", "RAC1P", "EDU", "PINCP_DECILE"]
schema = Schema([column for column in schema.columns if column.name in names])
train, holdout = table[names][:7000], table[names][7000:]

# %%
# Fit and sample
# --------------
# A seed makes the page reproducible. A seeded fit has no guarantee: leave ``random_state`` out when rows are confidential.

model = MargNet(schema, epsilon=1.0, delta=1e-5, rows=7000, random_state=0).fit(train)
synthetic = model.sample(7000, random_state=1)
print(synthetic.head())

# %%
# Single columns
# --------------
# Bars are shares of rows. The age is grouped by ten years for the plot.

fig, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
for axis, name in zip(axes, ("AGEP", "EDU", "PINCP_DECILE"), strict=True):
    for rows, label, move in ((train, "training", -0.2), (synthetic, "synthetic", 0.2)):
        values = rows[name].dropna().astype(float)
        values = values // 10 * 10 if name == "AGEP" else values
        shares = values.value_counts(normalize=True).sort_index()
        width = 8 if name == "AGEP" else 0.8
        axis.bar(shares.index + move * width, shares, width * 0.45, label=label)
    axis.set(title=name, ylabel="share of rows")
axes[0].legend()
plt.show()

# %%
# Pairs of columns
# ----------------
# The report has the total variation distance of each pair: the share of rows that would have to move to make the counts
# equal. Each point is a pair. Points below the diagonal are pairs in which the synthetic table is closer to the training
# table than independent columns are.

report = evaluate(train, synthetic, holdout, schema=schema, config=EvaluationConfig(m=100))
pairs = report.evaluation["tvd2"]
values = np.array([(part.baseline, part.value) for part in pairs.parts])

fig, axis = plt.subplots(figsize=(4.5, 4.2), layout="constrained")
axis.scatter(*values.T)
axis.plot([0, 0.5], [0, 0.5], color="grey", linewidth=0.8)
axis.axhline(pairs.holdout.value, linestyle="--", color="grey", label="hold-out reference, mean")
axis.set(
    xlabel="distance of independent columns",
    ylabel="distance of the synthetic table",
    xlim=(0, 0.5),
    ylim=(0, 0.5),
    title=f"mean {pairs.value:.3f}, independent columns {pairs.baseline.value:.3f}",
)
axis.legend()
print(report.summary()[0])
plt.show()
