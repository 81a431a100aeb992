"""
A hospital table with missing values
====================================

A table of hospital stays has ordered text, counts with a long tail and missing values. MargNet reads all of them from
the schema: it needs no cleaning and no imputation. The bundled table is itself synthetic.
"""

import matplotlib.pyplot as plt
import numpy as np

from tabsynth import MargNet, Schema
from tabsynth.datasets import load_hospital

table, schema = load_hospital()
names = [
    "age",
    "time_in_hospital",
    "num_medications",
    "medical_specialty",
    "diag_1",
    "insulin",
    "readmitted",
]
schema = Schema(
    [column for column in schema.columns if column.name in names],
    null_values=schema.null_values,
)
table = table[names]
print(table.head())

# %%
# Fit and sample
# --------------
# Bounds of numbers and lists of values come from the codebook of the table. A value that is not declared would be
# rejected before anything is charged.

model = MargNet(schema, epsilon=2.0, delta=1e-5, rows=5000, random_state=0).fit(table)
synthetic = model.sample(5000, random_state=1)

# %%
# Missing values and a long tail
# ------------------------------
# A missing value is a value of its own: its share and its relations are modelled as any other.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
missing = [rows["medical_specialty"].isna().mean() for rows in (table, synthetic)]
axes[0].bar(["training", "synthetic"], missing, color=["C0", "C1"])
axes[0].set(title="medical_specialty is missing", ylabel="share of rows")
edges = np.arange(0, 82, 3)
for rows, label in ((table, "training"), (synthetic, "synthetic")):
    axes[1].hist(rows["num_medications"], edges, histtype="step", density=True, label=label)
axes[1].set(title="num_medications", ylabel="density")
axes[1].legend()
plt.show()

# %%
# A relation
# ----------
# Mean length of stay by age. Points of ages with few rows have more noise.

ages = [str(age) for age in next(c for c in schema.columns if c.name == "age").categories]
fig, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for rows, label, mark in ((table, "training", "o-"), (synthetic, "synthetic", "s--")):
    mean = rows.groupby("age", observed=True)["time_in_hospital"].mean().reindex(ages)
    axis.plot(range(len(ages)), mean, mark, label=label)
axis.set_xticks(range(len(ages)), [age.strip("[)") for age in ages], rotation=60)
axis.set(title="mean days in hospital by age", ylabel="days")
axis.legend()
plt.show()
