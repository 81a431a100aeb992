"""
Missing values in a hospital table
==================================

MargNet models a missing value as a value of its own, so missing values keep their share and their relations. No cleaning and no
imputation is needed. The bundled hospital table is itself synthetic.
"""

import matplotlib.pyplot as plt
import pandas as pd

from tabsynth import MargNet
from tabsynth.datasets import load_hospital

table, schema = load_hospital()
names = ["age", "time_in_hospital", "num_medications", "medical_specialty", "admission_source_id"]
table, schema = table[names], schema.select(names)

# %%
# Fit and sample
# --------------
# Bounds and categories come from the codebook of the table. A value that is not declared would be refused before any charge.

model = MargNet(schema, epsilon=2.0, delta=1e-5, rows=5000, random_state=0).fit(table)
synthetic = model.sample(5000, random_state=0)

# %%
# Where the specialty is missing
# ------------------------------
# The four most frequent sources of admission, by the codes of the codebook.
#
# .. alt: Four pairs of bars. The specialty is missing in few rows of patients who were referred by a physician. It is missing in most rows
#    of those who came from a clinic or another hospital. The synthetic bars are close to the real ones.

sources = {1: "physician", 7: "emergency room", 4: "other hospital", 2: "clinic"}
shares = pd.DataFrame(
    {
        label: rows["medical_specialty"].isna().groupby(rows["admission_source_id"]).mean()
        for label, rows in (("real", table), ("synthetic, ε = 2", synthetic))
    }
)
figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
shares.loc[list(sources)].plot.bar(ax=axis, rot=0, color=["C7", "C0"])
axis.set_xticks(range(4), sources.values())
axis.set(
    xlabel="source of admission",
    ylabel="share of rows without a specialty",
)
figure.suptitle("Missing values depend on the source of admission, as in the real table")
plt.show()
