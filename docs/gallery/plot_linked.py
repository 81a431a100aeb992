"""
Linked tables: households and persons
=====================================

One row of ``people`` belongs to one row of ``homes``. A fit protects a home with all its people, and keeps relations among people of one
home. This table is made up: partners differ by about three years in age.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from tabsynth import LinkedMargNet, LinkedSchema, Numeric, Ordinal, Schema

rng = np.random.default_rng(0)
first = rng.integers(22, 85, 2000)
partner = rng.random(2000) < 0.6
second = (first + rng.normal(0, 4, 2000)).round().clip(18, 99).astype(int)
homes = pd.DataFrame({"home": range(2000), "rooms": rng.integers(1, 4, 2000) + partner})
people = pd.DataFrame(
    {
        "home": np.append(homes["home"], homes["home"][partner]),
        "age": np.append(first, second[partner]),
    }
)

# %%
# Declare, fit and sample
# -----------------------

schema = LinkedSchema(
    {
        "homes": Schema([Ordinal(name="rooms", dtype="int64", categories=(1, 2, 3, 4))]),
        "people": Schema([Numeric(name="age", dtype="int64", low=0, high=99, bins=20)]),
    },
    keys={
        "homes": {"key": "home"},
        "people": {"parent": "homes", "parent_key": "home", "max_children": 2},
    },
)
model = LinkedMargNet(schema, epsilon=1.0, delta=1e-5, random_state=0)
synthetic = model.fit({"homes": homes, "people": people}).sample(2000, random_state=0)

# %%
# Ages of two people of one home
# ------------------------------
#
# .. alt: Two panels, each with one point for a home of two people, by the age of the first and of the second person. In both the points
#    lie along the diagonal, in the synthetic panel with a wider spread.

figure, axes = plt.subplots(1, 2, figsize=(7, 3.8), layout="constrained", sharey=True)
for axis, title, rows in zip(
    axes, ("real", "synthetic, ε = 1"), (people, synthetic["people"]), strict=True
):
    ages = rows.groupby("home")["age"]
    pair = ages.size() == 2
    axis.scatter(ages.first()[pair], ages.last()[pair], s=5, alpha=0.5)
    axis.set(title=title, xlabel="age of the first person", xlim=(15, 100), ylim=(15, 100))
axes[0].set_ylabel("age of the second person")
figure.suptitle("People of one home still have similar ages")
plt.show()
