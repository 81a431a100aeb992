"""
Subgroups: do small groups fare worse?
======================================

Noise is the same for every count, so it is a larger part of the counts of small groups. ``evaluate(by=...)`` measures the
distance of pairs of columns within each group, less what so few rows give by chance. The bundled table is itself
synthetic.
"""

import matplotlib.pyplot as plt

from tabsynth import MargNet, Schema, evaluate, load_census
from tabsynth.evaluation import EvaluationConfig

table, schema = load_census()
names = ["PUMA", "AGEP", "SEX", "MSP", "EDU"]
schema = Schema([column for column in schema.columns if column.name in names])
train, holdout = table[names][:7000], table[names][7000:]

# %%
# Two budgets
# -----------

gaps = {}
for epsilon in (0.3, 1.0):
    model = MargNet(schema, epsilon=epsilon, delta=1e-5, rows=7000, random_state=0).fit(train)
    synthetic = model.sample(7000, random_state=1)
    report = evaluate(
        train, synthetic, holdout, schema=schema, by="PUMA", config=EvaluationConfig(m=50)
    )
    gaps[epsilon] = report.evaluation["subgroup_gap_PUMA"]
    gap = gaps[epsilon].synthetic
    print(f"ε = {epsilon}: gap {gap.value:.3f}, 95% interval {gap.low:.3f} to {gap.high:.3f}")

# %%
# Distance by size of the group
# -----------------------------
# Each point is an area. 0 is as close as other real rows are. Groups of fewer than 20 training rows are not judged. At
# ε = 0.3 the smaller areas are further from the training table; at ε = 1 most of the gap is gone.

fig, axis = plt.subplots(figsize=(7, 4), layout="constrained")
for (epsilon, gap), mark in zip(gaps.items(), ("o", "s"), strict=True):
    judged = [part for part in gap.parts if part.value == part.value]
    axis.scatter(
        [p.n for p in judged], [p.value for p in judged], marker=mark, label=f"ε = {epsilon}"
    )
    for part in judged[:3] if epsilon == 0.3 else ():
        axis.annotate(
            part.name, (part.n, part.value), (6, 0), textcoords="offset points", fontsize=7
        )
axis.set(
    xlabel="training rows of the group",
    ylabel="distance of pairs, beyond chance",
)
axis.legend()
plt.show()
