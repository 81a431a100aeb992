"""
Intervals that account for the noise
====================================

Intervals that are computed as if synthetic rows were real are too short: they leave out the noise and the error of the fit.
``tabsynth.inference`` computes valid ones from the noisy counts of a fitted MargNet, at no further privacy cost.
"""

import matplotlib.pyplot as plt
import numpy as np

from tabsynth import MargNet, inference, load_census

table, schema = load_census()

# %%
# Fit and estimate
# ----------------

model = MargNet(schema, epsilon=1.0, delta=1e-5, rows=10_000, random_state=0).fit(table)
estimates = inference.mean(model, "AGEP", by="MSP").loc[[6, 1, 4, 3]]
synthetic = model.sample(random_state=0).groupby("MSP")["AGEP"].agg(["mean", "sem"])
print(estimates)

# %%
# Mean age by marital status
# --------------------------
# For separated people and absent spouses ``mean`` gives no interval: their ages were counted in a group with others.
#
# .. alt: Four marital statuses, each with the mean age of the private table as a cross and two intervals. The intervals of
#    tabsynth.inference are wide. The short intervals, computed as if synthetic rows were real, miss some of the crosses.

names = ["never married", "married", "divorced", "widowed"]
place = np.arange(4)
figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
error = 1.96 * estimates["standard_error"]
axis.errorbar(
    estimates["estimate"], place + 0.15, xerr=error, fmt="o", capsize=4, label="tabsynth.inference"
)
short = synthetic.loc[estimates.index]
axis.errorbar(
    short["mean"], place - 0.15, xerr=1.96 * short["sem"], fmt="s", capsize=4, label="as if real"
)
real = table.groupby("MSP")["AGEP"].mean().loc[estimates.index]
missed = sum(abs(short["mean"] - real) > 1.96 * short["sem"])
axis.plot(real, place, "kx", label="private table")
axis.set_yticks(place, names)
axis.set(xlabel="mean age, 95% intervals")
figure.suptitle(f"Intervals that leave out the noise miss {missed} of 4 real means")
axis.legend()
plt.show()
