"""
The bias of clipped gradients
=============================

DP-SGD clips the gradient of each row to a norm of at most C and adds noise to the sum. The noise has mean zero. Clipping has a bias:
long gradients lose more than short ones. This program measures both with numpy, on scikit-learn's digits.

:doc:`reports/bias </reports/bias/README>` has the same for networks on census income.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

images, digits = load_digits(return_X_y=True)
inputs = np.hstack([images / 16, np.ones((len(images), 1))])
targets = np.eye(10)[digits]


def gradients(weights):
    """Return the gradient of the cross-entropy of each row, shape (rows, weights)."""
    scores = inputs @ weights
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    return np.einsum("ni,nj->nij", inputs, chances - targets).reshape(len(inputs), -1)


# %%
# A linear classifier after 100 ordinary steps
# --------------------------------------------

weights = np.zeros((65, 10))
for _ in range(100):
    weights -= 0.5 * gradients(weights).mean(axis=0).reshape(65, 10)

# %%
# Bias and noise by clipping bound
# --------------------------------
# The bias is the length of the difference between the mean clipped gradient and the mean gradient. The noise is that of a batch of 256
# rows with noise multiplier 1.
#
# .. alt: Two lines over the clipping bound C, from 0.05 to 5. The bias falls with C and is 0 where no gradient is longer than C. The
#    length of the noise grows in proportion to C. They cross near C = 0.5, which is half of the median length of a gradient.

each = gradients(weights)
norms = np.linalg.norm(each, axis=1, keepdims=True)
bounds = np.geomspace(0.05, 5, 25)
clipped = [(each * np.minimum(1, bound / norms)).mean(axis=0) for bound in bounds]
bias = [np.linalg.norm(mean - each.mean(axis=0)) for mean in clipped]
noise = bounds * np.sqrt(weights.size) / 256

figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
axis.loglog(bounds, bias, label="bias of clipping")
axis.loglog(bounds, noise, "--", label="length of the noise")
axis.axvline(np.median(norms), color="grey", linewidth=0.8, label="median length of a gradient")
axis.set(
    xlabel="clipping bound C",
    ylabel="length",
    ylim=(1e-3, 1),
    title="A small clipping bound has more bias, a wide one more noise",
)
axis.legend()
plt.show()
