"""
Comparing methods
=================

Three methods are fitted to the same columns with ε = 2, and ``compare`` sets their reports side by side. The fits of the
two GANs are short, so that the page builds quickly: with so few steps, DP-WGAN has learned single columns and few
relations. Complete fits on three real tables are in :doc:`reports/benchmark </reports/benchmark/README>`.
"""

import matplotlib.pyplot as plt

from tabsynth import DPWGAN, PATEGAN, MargNet, Schema, compare, evaluate, load_census
from tabsynth.evaluation import EvaluationConfig
from tabsynth.synthesizers import PATEConfig, WGANConfig, with_settings

table, schema = load_census()
names = ["AGEP", "SEX", "MSP", "EDU"]
schema = Schema([column for column in schema.columns if column.name in names])
train, holdout = table[names][:6000], table[names][6000:]
settings = {"epsilon": 2.0, "delta": 1e-5, "rows": 6000, "random_state": 0}
short = with_settings(WGANConfig(), step__count=400, generator__hidden=(64,), critic__hidden=(64,))
methods = {
    "MargNet": MargNet(schema, **settings),
    "DP-WGAN": DPWGAN(schema, config=short, **settings),
    "PATE-GAN": PATEGAN(schema, config=PATEConfig(round_steps=60), **settings),
}

# %%
# Fit, sample and evaluate
# ------------------------
# The summary says "without privacy", because no certificate is given and these fits are seeded.

reports = []
for label, method in methods.items():
    synthetic = method.fit(train).sample(4000, random_state=1)
    reports.append(
        evaluate(
            train, synthetic, holdout, schema=schema, label=label, config=EvaluationConfig(m=50)
        )
    )
comparison = compare(reports)
print("\n".join(comparison.summary()))

# %%
# Four figures side by side
# -------------------------
# Bars are 95% intervals. They cover the drawing of rows, not another fit: for a decision, fit each method several times.
# Dashed lines are the hold-out reference, dotted lines independent columns.

figures = ("tvd2", "prediction_weighted", "k_marginal", "cramers_v")
fig, axes = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained")
for axis, key in zip(axes, figures, strict=True):
    metrics = [report.evaluation[key] for report in reports]
    values = [metric.value for metric in metrics]
    errors = [
        [metric.value - metric.low for metric in metrics],
        [metric.high - metric.value for metric in metrics],
    ]
    axis.errorbar(range(3), values, errors, fmt="o", capsize=3)
    axis.axhline(metrics[0].holdout.value, linestyle="--", color="grey")
    axis.axhline(metrics[0].baseline.value, linestyle=":", color="grey")
    axis.set_xticks(range(3), list(methods), fontsize=8)
    axis.set_title(f"{key}\n({metrics[0].better} is better)", fontsize=9)
    axis.set_xlim(-0.5, 2.5)
plt.show()
