"""
Digits drawn under a condition
==============================

Images make errors visible. The 1,797 digits of scikit-learn become rows of 64 pixels with three grey levels, and the digit as a
last column. MargNet draws images of each digit by a condition on that column.

:doc:`reports/digits </reports/digits/README>` has the same digits with DP-GAN.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_digits

from tabsynth import Categorical, MargNet, Ordinal, Schema

images, digits = load_digits(return_X_y=True)
pixels = [f"p{i}" for i in range(64)]
table = pd.DataFrame((images // 6).astype(int), columns=pixels).assign(digit=digits)
schema = Schema(
    [
        *(Ordinal(name=name, dtype="int64", categories=(0, 1, 2)) for name in pixels),
        Categorical(name="digit", dtype="int64", categories=tuple(range(10))),
    ]
)

# %%
# Fit and sample
# --------------
# ``target`` names the column that matters most. It is a hint that must not depend on private rows.

settings = {"delta": 1e-5, "rows": 1797, "random_state": 0, "target": "digit"}
drawn = {"real": table}
for epsilon in (1.0, 10.0):
    model = MargNet(schema, epsilon=epsilon, **settings).fit(table)
    parts = [model.sample(300, where={"digit": digit}, random_state=0) for digit in range(10)]
    drawn[f"ε = {epsilon:g}"] = pd.concat(parts)

# %%
# Mean image of each digit
# ------------------------
# A mean shows which pixels the model relates to the digit.
#
# .. alt: Three rows with the mean images of the digits 0 to 9. In the real row each digit is readable. At ε = 1 most digits are
#    readable, with noise. At ε = 10 all digits are readable, with little noise.

figure, axes = plt.subplots(3, 10, figsize=(7, 2.6), layout="constrained")
for row, (label, rows) in zip(axes, drawn.items(), strict=True):
    means = rows.groupby("digit")[pixels].mean()
    for digit, axis in enumerate(row):
        image = means.loc[digit].to_numpy(dtype=float).reshape(8, 8)
        axis.imshow(image, cmap="Greys", vmin=0, vmax=2)
        axis.set(xticks=[], yticks=[])
    row[0].set_ylabel(label)
figure.suptitle("Mean image of each digit: noisy at ε = 1, clear at ε = 10")
plt.show()
