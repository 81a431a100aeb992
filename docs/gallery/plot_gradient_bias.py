"""
The bias of private gradients
=============================

DP-SGD clips the gradient of each row to a norm of at most C and adds noise to the sum. The noise has mean zero and adds no
bias. Clipping does: long gradients lose more than short ones, so the mean points elsewhere. This program computes
the bias on scikit-learn's digits for a classifier with ten outputs, with plain numpy.

`reports/bias <../../../reports/bias/README.md>`_ has the same for networks on census income, with the rules of tabsynth.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

images, digits = load_digits(return_X_y=True)
inputs = np.hstack([images / 16, np.ones((len(images), 1))])
targets = np.eye(10)[digits]


def gradients(weights, rows, labels):
    """The gradient of the cross-entropy of each row, shape (rows, weights); ``weights`` may differ by row."""
    scores = np.einsum("ni,...ij->nj" if weights.ndim == 2 else "ni,nij->nj", rows, weights)
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    return np.einsum("ni,nj->nij", rows, chances - labels).reshape(len(rows), -1)


def clipped(each, bound):
    """Every row at most as long as the bound."""
    norms = np.linalg.norm(each, axis=1, keepdims=True)
    return each * np.minimum(1, bound / np.maximum(norms, 1e-12))


def train(steps, rate=0.5):
    """Weights after some ordinary steps."""
    weights = np.zeros((65, 10))
    for _ in range(steps):
        weights -= rate * gradients(weights, inputs, targets).mean(axis=0).reshape(65, 10)
    return weights


# %%
# Bias by clipping bound
# ----------------------
# The bias is the length of the difference between the mean clipped gradient and the mean gradient. It is zero where no
# gradient is longer than C. A smaller bound has more bias, and less noise at the same ε. The direction suffers as well:
# the cosine falls below 1.

weights = train(100)
each = gradients(weights, inputs, targets)
mean = each.mean(axis=0)
bounds = np.geomspace(0.05, 5, 25)
means = [clipped(each, bound).mean(axis=0) for bound in bounds]
bias = [np.linalg.norm(other - mean) for other in means]
cosine = [other @ mean / np.linalg.norm(other) / np.linalg.norm(mean) for other in means]
noise = bounds * np.sqrt(mean.size) / 256  # expected length with noise multiplier 1 and 256 rows

fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
axes[0].loglog(bounds, bias, label="bias of clipping")
axes[0].loglog(bounds, noise, "--", label="length of the noise, σ = 1, 256 rows")
axes[0].axhline(np.linalg.norm(mean), color="grey", linewidth=0.8, label="length of the gradient")
axes[0].set(xlabel="clipping bound C", ylabel="length")
axes[0].legend(fontsize=8)
axes[1].semilogx(bounds, cosine)
axes[1].set(xlabel="clipping bound C", ylabel="cosine with the mean gradient")

# %%
# BAM
# ---
# BAM (Knolle et al. 2023) computes the gradient of each row at weights that are moved a little along the row's own gradient,
# and clips afterwards. Minimising this loss shortens the gradients of rows, so that less is clipped. Here, both rules
# take 60 noiseless steps with C = 0.5 from the same weights.


def path(radius, bound=0.5, steps=60, rate=0.5):
    """The bias before each step of clipped training; radius 0 is DP-SGD without its noise."""
    current, out = weights.copy(), []
    for _ in range(steps):
        plain = gradients(current, inputs, targets)
        out.append(np.linalg.norm(clipped(plain, bound).mean(axis=0) - plain.mean(axis=0)))
        moved = plain
        if radius:
            norms = np.linalg.norm(plain, axis=1, keepdims=True)
            ascent = (radius * plain / np.maximum(norms, 1e-12)).reshape(-1, 65, 10)
            moved = gradients(current + ascent, inputs, targets)
        current = current - rate * clipped(moved, bound).mean(axis=0).reshape(65, 10)
    return out


fig, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for radius in (0.0, 0.1, 0.3):
    label = "DP-SGD" if radius == 0 else f"BAM, λ = {radius:g}"
    axis.plot(path(radius), label=label)
axis.set(xlabel="step", ylabel="bias", yscale="log")
axis.legend()
