"""Groups of parameters with a clipping bound each (Zhang, Ji, Wang 2018, arXiv:1801.01594, §4)."""

import math
from collections.abc import Sequence

from torch import nn

GROUPINGS = ("flat", "weight-bias", "clusters")


def group_count(grouping: str, clusters: int, module: nn.Module) -> int:
    """How many groups a module's parameters make: G, known before the first row is read."""
    if grouping == "weight-bias":
        return max(weight_bias_groups(module)) + 1
    parameters = sum(p.requires_grad for p in module.parameters())
    return min(clusters, parameters) if grouping == "clusters" else 1


def weight_bias_groups(module: nn.Module) -> list[int]:
    """Every weight a group of its own; all biases together one more, the last."""
    names = [name for name, p in module.named_parameters() if p.requires_grad]
    biases = [name.rsplit(".", 1)[-1] == "bias" for name in names]
    weights = len(names) - sum(biases)
    numbers = iter(range(weights))
    return [weights if bias else next(numbers) for bias in biases]


def cluster_groups(norms: Sequence[float], clusters: int) -> list[int]:
    """Hierarchical clustering of parameters by the size of their gradients.

    Parameters
    ----------
    norms : sequence of float
        Mean gradient norm of each parameter on public rows.
    clusters : int
        Groups to stop at.

    Notes
    -----
    The paper merges the pair (u, v) with the least √(1 + max/min), the most similar norms; the
    merged group has norm √(u² + v²).
    """
    groups = [([i], max(norm, 1e-30)) for i, norm in enumerate(norms)]
    while len(groups) > clusters:
        pairs = [(a, b) for a in range(len(groups)) for b in range(a)]
        a, b = min(pairs, key=lambda pair: abs(math.log(groups[pair[0]][1] / groups[pair[1]][1])))
        members, norm = groups.pop(a)
        other, size = groups.pop(b)
        groups.append((other + members, math.hypot(norm, size)))
    out = [0] * len(norms)
    for number, (members, _) in enumerate(sorted(groups, key=lambda group: min(group[0]))):
        for i in members:
            out[i] = number
    return out
