"""Blocks and heads: their laws, their likelihoods, their place in the layout."""

import numpy as np
import pytest
import torch

from tabsynth import Schema
from tabsynth.encoding import Layout, TableEncoder
from tabsynth.errors import InputError
from tabsynth.schema import Column
from tabsynth.training.networks import Heads, linear, mlp, set_bias

SCHEMA = Schema(
    [
        Column(name="a", kind="categorical", dtype="str", categories=tuple("xyz")),
        Column(name="b", kind="ordinal", dtype="int64", categories=tuple(range(6))),
        Column(name="c", kind="categorical", dtype="str", categories=tuple("uvwxyz"), nulls=True),
        Column(name="d", kind="categorical", dtype="str", categories=tuple("mn")),
    ]
)
LAYOUT: Layout = TableEncoder(SCHEMA, {"b": "ordinal", "c": "binary"}).layout


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_weights_come_from_the_given_generator() -> None:
    """R17: torch's default law, without its global generator."""
    before = torch.get_rng_state()
    layer = linear(400, 300, rng())
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(layer.weight, linear(400, 300, rng()).weight)
    assert not torch.equal(layer.weight, linear(400, 300, rng(1)).weight)
    for weights in (layer.weight, layer.bias):
        assert weights.abs().max() <= 1 / 20
        assert weights.detach().std().item() == pytest.approx(1 / 20 / np.sqrt(3), rel=0.08)


def test_mlp_shapes_and_parts() -> None:
    network = mlp([4, 7, 5, 2], rng(), activation="selu", last="tanh", norm=True)
    kinds = [type(part).__name__ for part in network]
    assert kinds == [
        "Linear", "BatchNorm1d", "SELU", "Linear", "BatchNorm1d", "SELU", "Linear", "Tanh",
    ]  # fmt: skip
    assert network(torch.ones(3, 4)).shape == (3, 2)
    assert [type(part).__name__ for part in mlp([4, 1], rng())] == ["Linear"]
    with pytest.raises(InputError, match="activation"):
        mlp([4, 2, 1], rng(), activation="softplus")


def test_heads_give_codes_block_by_block() -> None:
    logits = 3 * torch.randn(50, LAYOUT.width, generator=rng())
    for generator in (None, rng(1)):
        codes = Heads(LAYOUT)(logits, 0.7, generator)
        assert codes.shape == logits.shape and ((codes >= 0) & (codes <= 1)).all()
        for block in LAYOUT.blocks:
            part = codes[:, block.start : block.stop]
            if block.head == "softmax":
                torch.testing.assert_close(part.sum(1), torch.ones(50))
            else:
                wanted = torch.sigmoid(logits[:, block.start : block.stop])
                torch.testing.assert_close(part, wanted)


def test_gumbel_draws_follow_the_softmax() -> None:
    """At a low temperature the largest entry is a draw from softmax(logits)."""
    layout = TableEncoder(SCHEMA.select(["a"])).layout
    logits = torch.tensor([[0.3, -1.0, 1.1]]).repeat(40_000, 1)
    codes = Heads(layout)(logits, 1e-3, rng())
    result = codes.argmax(1).bincount(minlength=3) / 40_000
    torch.testing.assert_close(result, torch.softmax(logits[0], 0), rtol=0, atol=0.012)
    assert (codes.max(1).values > 0.99).float().mean() > 0.99
    assert torch.isfinite(Heads(layout)(1e4 * logits, 1e-3, rng())).all()


def test_likelihood_is_the_sum_of_cross_entropies() -> None:
    index = np.stack([np.arange(12) % size for size in LAYOUT.sizes], axis=1)
    codes = torch.from_numpy(LAYOUT.encode(index)).double()
    logits = 2 * torch.randn(12, LAYOUT.width, generator=rng(), dtype=torch.float64)
    wanted = torch.zeros(12, dtype=torch.float64)
    for j, block in enumerate(LAYOUT.blocks):
        z, x = logits[:, block.start : block.stop], codes[:, block.start : block.stop]
        if block.head == "softmax":
            target = torch.from_numpy(index[:, j])
            wanted -= torch.nn.functional.cross_entropy(z, target, reduction="none")
        else:
            loss = torch.nn.functional.binary_cross_entropy_with_logits(z, x, reduction="none")
            wanted -= loss.sum(1)
    torch.testing.assert_close(Heads(LAYOUT).log_likelihood(logits, codes), wanted)


def test_set_bias_starts_at_the_marginals() -> None:
    generator = np.random.default_rng(0)
    marginals = [generator.dirichlet(np.ones(size)) for size in LAYOUT.sizes]
    network = mlp([3, 4, LAYOUT.width], rng())
    set_bias(network, LAYOUT, marginals)
    codes = Heads(LAYOUT)(network[-1].bias.detach()[None], 1.0, None)[0].numpy()
    for block, p in zip(LAYOUT.blocks, marginals, strict=True):
        wanted = p if block.head == "softmax" else p @ block.codebook
        np.testing.assert_allclose(codes[block.start : block.stop], wanted, atol=2e-4)
