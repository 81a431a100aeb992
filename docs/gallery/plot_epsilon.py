"""
Privacy and accuracy: one relation at three ε
=============================================

A smaller ε protects each person more, and adds more noise. MargNet is fitted three times to the bundled census table, each time with
another ε. The picture shows the mean income by age, for men and women.

The bundled table is itself synthetic. Real tables have more detail, so that they need a larger ε or more rows.
"""

import matplotlib.pyplot as plt

from tabsynth import MargNet, load_census

table, schema = load_census()

# %%
# Fit and sample
# --------------
# A seed makes this page reproducible. A seeded fit has no guarantee: leave ``random_state`` out when rows are confidential.

samples = {}
for epsilon in (0.1, 1.0, 10.0):
    model = MargNet(schema, epsilon=epsilon, delta=1e-5, rows=10_000, random_state=0).fit(table)
    samples[epsilon] = model.sample(10_000, random_state=0)

# %%
# Mean income by age
# ------------------
# Incomes are deciles of the income distribution, from 0 to 9.
#
# .. alt: Three panels with lines of mean income by age for men and women. At ε = 0.1 the synthetic lines are flat and do not follow the
#    real ones. At ε = 1 they follow them with small deviations. At ε = 10 they lie on them.


def incomes(rows, sex):
    """Return the mean income of each age group of five years."""
    people = rows[rows["SEX"].eq(sex) & rows["AGEP"].between(15, 89)]
    return people["PINCP_DECILE"].astype(float).groupby(people["AGEP"] // 5 * 5 + 2).mean()


figure, axes = plt.subplots(1, 3, figsize=(7, 3.3), layout="constrained", sharey=True)
for axis, (epsilon, rows) in zip(axes, samples.items(), strict=True):
    for sex, label, colour in ((1, "men", "C0"), (2, "women", "C1")):
        real, synthetic = incomes(table, sex), incomes(rows, sex)
        axis.plot(real.index, real, color=colour, linewidth=5, alpha=0.3, label=f"{label}, real")
        axis.plot(real.index, synthetic, color=colour, label=f"{label}, synthetic")
    axis.set(title=f"ε = {epsilon:g}", xlabel="age")
axes[0].set_ylabel("mean income decile (0 to 9)")
figure.suptitle("Income by age: lost at ε = 0.1, close to the real one at ε = 1")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()
