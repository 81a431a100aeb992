"""
Comparing methods
=================

Three methods are fitted to the same columns with ε = 2, and one metric of their reports is compared. The two GANs take few steps here,
so that the page builds quickly. Complete fits are in :doc:`reports/benchmark </reports/benchmark/README>`.
"""

import matplotlib.pyplot as plt

from tabsynth import DPWGAN, PATEGAN, MargNet, evaluate, load_census
from tabsynth.evaluation import EvaluationConfig
from tabsynth.synthesizers import PATEConfig, WGANConfig, with_settings

table, schema = load_census()
names = ["AGEP", "SEX", "MSP", "EDU"]
schema = schema.select(names)
train, holdout = table[names][:6000], table[names][6000:]
settings = {"epsilon": 2.0, "delta": 1e-5, "rows": 6000, "random_state": 0}
short = with_settings(WGANConfig(), step__count=400, generator__hidden=(64,), critic__hidden=(64,))
methods = {
    "PATE-GAN, short": PATEGAN(schema, config=PATEConfig(round_steps=60), **settings),
    "DP-WGAN, short": DPWGAN(schema, config=short, **settings),
    "MargNet": MargNet(schema, **settings),
}

# %%
# Fit, sample and evaluate
# ------------------------

metrics = []
for method in methods.values():
    synthetic = method.fit(train).sample(4000, random_state=1)
    report = evaluate(train, synthetic, holdout, schema=schema, config=EvaluationConfig(m=50))
    metrics.append(report.evaluation["tvd2"])

# %%
# Distance of pairs of columns
# ----------------------------
# Error bars are 95% intervals. They cover the drawing of rows, not another fit: for a decision, fit each method several times.
#
# .. alt: One point for each method. MargNet has the smallest distance, near that of other real rows. The short fits of DP-WGAN and PATE-GAN
#    have larger distances.

figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
for place, metric in enumerate(metrics):
    error = [[metric.value - metric.low], [metric.high - metric.value]]
    axis.errorbar(metric.value, place, xerr=error, fmt="o", capsize=4, color="C0")
axis.axvline(metrics[0].holdout.value, linestyle="--", color="grey", label="other real rows")
axis.axvline(metrics[0].baseline.value, linestyle=":", color="C1", label="independent columns")
axis.set_yticks(range(3), methods)
axis.set(
    xlabel="mean total variation distance of pairs (0 is equal)",
    title="MargNet is nearest to the training table",
    xlim=(0, None),
    ylim=(-0.5, 2.5),
)
axis.legend()
plt.show()
