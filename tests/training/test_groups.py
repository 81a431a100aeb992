"""Groups of parameters with a bound each: by hand, and against the paper's rule taken literally."""

import itertools
import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from row_gradients import Embedded, Partial
from torch import nn

from tabsynth.training.clipping import cluster_groups, weight_bias_groups
from tabsynth.training.networks import mlp

NORMS = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8)


def test_weights_apart_and_biases_together() -> None:
    module = mlp([3, 4, 5, 1], torch.Generator().manual_seed(0))
    assert weight_bias_groups(module) == [0, 3, 1, 3, 2, 3]
    assert weight_bias_groups(nn.Linear(3, 1, bias=False)) == [0]
    # Embeddings are weights; what is not trained is in no group.
    embedded = [name for name, _ in Embedded("tanh").named_parameters()]
    assert embedded == ["several.weight", "one.weight"] + [
        f"{layer}.{kind}" for layer in ("first", "last") for kind in ("weight", "bias")
    ]
    assert weight_bias_groups(Embedded("tanh")) == [0, 1, 2, 4, 3, 4]
    assert weight_bias_groups(Partial("tanh")) == [0, 3, 1, 3, 2, 3]
    biases = nn.Linear(2, 2)
    biases.weight.requires_grad_(False)
    assert weight_bias_groups(biases) == [0]


def test_clusters_by_hand() -> None:
    """Ratios 2, 1.1 and 40/3: first 3 and 3.3 to √(3² + 3.3²) = 4.46, then 1 and 2 to √5 = 2.24, then
    these (ratio 1.99 < 40/4.46)."""
    norms = [1.0, 40.0, 3.0, 2.0, 3.3]
    assert cluster_groups(norms, 5) == [0, 1, 2, 3, 4]
    assert cluster_groups(norms, 4) == [0, 1, 2, 3, 2]
    # √(3² + 3.3²)/2 = 2.23 > 2: the merged norm counts, not the members'.
    assert cluster_groups(norms, 3) == [0, 1, 2, 0, 2]
    assert cluster_groups(norms, 2) == [0, 1, 0, 0, 0]
    assert cluster_groups(norms, 1) == [0, 0, 0, 0, 0]
    # Two of 1 and 1 make √2, nearer to 1.5 than 1 would be to 1.5 × 1.5.
    assert cluster_groups([1.0, 1.0, 1.5, 2.4], 2) == [0, 0, 0, 1]
    assert cluster_groups([0.0, 0.0, 1.0], 2) == [0, 0, 1]  # unused parameters


def literal(norms: list[float], clusters: int) -> list[frozenset[int]]:
    """The paper's procedure as it is printed: the pair with the least √(1 + max/min)."""
    groups = {frozenset([i]): norm for i, norm in enumerate(norms)}
    while len(groups) > clusters:
        pairs = [(u, v) for u in groups for v in groups if min(u) < min(v)]
        measured = [
            (math.sqrt(1 + max(groups[u], groups[v]) / min(groups[u], groups[v])), u, v)
            for u, v in pairs
        ]
        _, u, v = min(measured, key=lambda item: item[0])
        groups[u | v] = math.sqrt(groups.pop(u) ** 2 + groups.pop(v) ** 2)
    return list(groups)


@settings(max_examples=100, deadline=None)
@given(norms=NORMS, clusters=st.integers(1, 9))
def test_clusters(norms: list[float], clusters: int) -> None:
    """A partition into as many groups as asked for (or parameters), numbered by their first member; the
    paper's, where no two pairs tie."""
    result = cluster_groups(norms, clusters)
    assert len(result) == len(norms) and set(result) == set(range(min(clusters, len(norms))))
    firsts = [result.index(j) for j in range(max(result) + 1)]
    assert firsts == sorted(firsts)
    members = {j: frozenset(i for i, g in enumerate(result) if g == j) for j in set(result)}
    ratios = sorted(max(a, b) / min(a, b) for i, a in enumerate(norms) for b in norms[:i])
    if all(b / a > 1 + 1e-6 for a, b in itertools.pairwise(ratios)):
        assert set(members.values()) == set(literal(norms, clusters))
