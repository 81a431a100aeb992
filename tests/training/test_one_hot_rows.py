"""R2, R21: private steps on rows of one-hot codes, whose first layer reads and adds up what belongs to the ones alone."""

import math

import numpy as np
import pytest
import torch
from private_steps import clipped_rows, engine, grads
from row_gradients import clip_rows, flat, group_of_entries, network, row_gradients
from torch import Tensor, nn

from tabsynth import Schema
from tabsynth.encoding import TableEncoder
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial.autoencoder import (
    Autoencoder,
    AutoencoderConfig,
    reconstruction_losses,
)
from tabsynth.synthesizers.adversarial.critic import RowLosses
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.factors import OneHotRows
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import CodedInputs, _laid_out, minus_scores

torch.set_num_threads(1)
SIZES = (3, 4, 2, 7)


def encoder(scheme: str | dict[str, str] = "one-hot") -> TableEncoder:
    columns = [
        Column(name=str(j), kind="categorical", dtype="str", categories=tuple("abcdefg"[:size]))
        for j, size in enumerate(SIZES)
    ]
    return TableEncoder(Schema(columns), scheme)


def coded(rows: int, seed: int = 0, scheme: str | dict[str, str] = "one-hot") -> CodedInputs:
    rng, layout = np.random.default_rng(seed), encoder(scheme).layout
    codes = np.stack([rng.integers(0, size, rows) for size in layout.sizes], axis=1)
    return CodedInputs.of(codes.astype(np.uint8), layout, torch.device("cpu"))


def batch_of(rows: CodedInputs, dtype: torch.dtype = torch.float32) -> OneHotRows:
    batch = rows.batch(torch.arange(len(rows)))
    assert isinstance(batch, OneHotRows)
    return OneHotRows(batch.values.to(dtype), batch.ones)


def test_a_batch_has_the_inputs_of_its_rows() -> None:
    rows, picked = coded(50), torch.tensor([3, 3, 49, 0])
    batch = rows.batch(picked)
    assert isinstance(batch, OneHotRows) and len(batch) == 4
    assert torch.equal(batch.values, rows[picked])
    assert torch.equal(batch.values.gather(1, batch.ones), torch.ones(4, len(SIZES)))
    parts = list(batch.split(3))
    assert [len(part) for part in parts] == [3, 1]
    assert torch.equal(torch.cat([part.ones for part in parts]), batch.ones)


def test_codes_that_are_not_one_hot_have_no_ones() -> None:
    rows = coded(50, scheme={"3": "binary"})
    blank = CodedInputs(rows.codes, encoder().layout, coded(1).books, slice(0, 3))
    assert coded(50).one_hot and not rows.one_hot and not blank.one_hot
    layout = torch.tensor([4, -1, 7])
    for inputs in (rows, blank):
        laid, keep = _laid_out(inputs, layout)
        assert isinstance(laid, Tensor) and torch.equal(laid, inputs[layout.clamp_min(0)])
        assert keep.tolist() == [True, False, True]


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_without_rows_is_laid_out_as_one_of_a_row(rows: int) -> None:
    """R1: which sums a step takes, and how it bounds their rounding, is the same for neighbouring tables."""
    laid, keep = _laid_out(coded(rows), torch.tensor([rows - 1, -1]))
    assert isinstance(laid, OneHotRows) and len(laid) == 2
    assert keep.tolist() == [rows == 1, False]


def test_the_proof_counts_the_terms_of_one_hot_rows() -> None:
    """A column of W takes a term of each row, and an inner product with a direction a term of each one of the row."""
    clipper = PerExampleClipper(nn.Linear(encoder().layout.width, 1))
    assert not clipper._looked_up
    (factors,) = clipper.gradients(minus_scores, batch_of(coded(5))).factors
    assert clipper._looked_up and factors.terms == len(SIZES)


def penalised() -> RowLosses:
    """WGAN-GP, with partners that are drawn once and then the same."""
    width, rng = encoder().layout.width, torch.Generator().manual_seed(3)
    losses = RowLosses(rng, penalty=10.0, paired=True)
    partners, share = torch.rand(1, width, generator=rng), torch.full((1, 1), 0.3)
    losses._draws = lambda rows: (  # type: ignore[method-assign]
        partners.to(rows).expand(len(rows), -1),
        share.to(rows).expand(len(rows), -1),
    )
    return losses


def case(kind: str) -> tuple[nn.Module, object]:
    """A network in float64, and its losses."""
    layout = encoder().layout
    if kind == "autoencoder":
        config = AutoencoderConfig(hidden=(5,), latent_dim=3)
        return (
            Autoencoder(config, layout, torch.Generator().manual_seed(0)).double(),
            reconstruction_losses,
        )
    net = network([layout.width, 6, 5, 1], "leaky-relu")
    return net, minus_scores if kind == "scores" else penalised()


@pytest.mark.parametrize("ascent", [0.0, 0.2])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("kind", ["scores", "wgan-gp", "autoencoder"])
def test_the_sum_is_brute_force(kind: str, centred: bool, ascent: float) -> None:
    """Σ clip(gᵢ − r) by autograd, one row at a time: to 2e-12 in float64, for norms are 2⁻⁴⁰ longer.

    In float32 to 1e-6, of unclipped gradients, and of the sum over the inputs."""
    module, losses = case(kind)
    batch, public = batch_of(coded(40), torch.float64), coded(9, 1)[torch.arange(9)].double()
    groups = [0] * len(list(module.parameters()))
    alone = row_gradients(module, losses, batch.values, ascent)  # type: ignore[arg-type]
    clipper, reference = PerExampleClipper(module, groups, ascent), None
    if centred:
        mean = row_gradients(module, losses, public, ascent).mean(0)  # type: ignore[arg-type]
        alone = alone - mean
        sizes = [p.numel() for p in clipper.parameters]
        pairs = zip(mean.split(sizes), clipper.parameters, strict=True)
        reference = [part.view_as(p) for part, p in pairs]
    bound = 0.7 * float(alone.norm(dim=1).median())
    keep = torch.arange(40) != 11
    sums = clipper.clipped_sum(losses, batch, bound, reference, keep)  # type: ignore[arg-type]
    slack, _ = clipper.rounding(torch.tensor([bound]).double(), reference, 40)
    entries = group_of_entries(module, groups)
    wanted = clip_rows(alone[keep], bound - slack, entries)
    norm = float(wanted.norm(dim=1).sum())
    assert float((flat(sums) - wanted.sum(0)).norm()) <= 2e-12 * norm
    module.float()
    in_float32 = None if reference is None else [r.float() for r in reference]
    shorter = OneHotRows(batch.values.float(), batch.ones)
    # What clips is shorter in float32, whatever the rows are; a second pass along float32 gradients is another.
    for at_most in (bound,) if ascent else (math.inf, bound):
        sums = clipper.clipped_sum(losses, shorter, at_most, in_float32, keep)  # type: ignore[arg-type]
        wanted = alone[keep]
        if at_most == bound:
            dense = PerExampleClipper(module, groups, ascent)
            wanted = flat(dense.clipped_sum(losses, shorter.values, bound, in_float32, keep))[None]  # type: ignore[arg-type]
        assert float((flat(sums) - wanted.sum(0)).norm()) <= 1e-6 * float(
            alone.norm(dim=1).clamp_max(at_most).sum()
        )


@pytest.mark.parametrize("rows", [1, 130, 5000])
@pytest.mark.parametrize("weight", [1e-5, 0.03, 100.0])
@pytest.mark.parametrize("centred", [False, True])
def test_a_row_moves_the_sum_by_no_more_than_the_bound(
    rows: int, weight: float, centred: bool
) -> None:
    """In float32, with weights of any scale: the row that is left out holds any other."""
    net = mlp([encoder().layout.width, 6, 1], torch.Generator().manual_seed(0))
    with torch.no_grad():
        for p in net.parameters():
            p.uniform_(-weight, weight, generator=torch.Generator().manual_seed(1))
    batch, clipper = batch_of(coded(rows)), PerExampleClipper(net)
    reference, norms = clipper.reference(minus_scores, coded(64, 1)[torch.arange(64)])
    bound, place = max(1e-12, 0.5 * float(norms.median())), rows // 2
    given, keep = reference if centred else None, torch.ones(rows, dtype=torch.bool)
    whole = clipper.clipped_sum(minus_scores, batch, bound, given, keep)
    keep[place] = False
    other = OneHotRows(batch.values.clone(), batch.ones.clone())
    other.values[place], other.ones[place] = batch.values[0], batch.ones[0]
    less = clipper.clipped_sum(minus_scores, other, bound, given, keep)
    moved = float((flat(whole) - flat(less)).norm()) / bound
    assert 0.5 < moved <= 1


@pytest.mark.parametrize("centred", [False, True])
def test_a_step_is_that_of_its_inputs(centred: bool) -> None:
    """A step over category codes is brute force over the inputs, which it makes of them."""
    module = network([encoder().layout.width, 6, 5, 1], "tanh")
    rows, public = coded(30), torch.rand(9, encoder().layout.width).double()
    books = [book.double() for book in rows.books]
    step, _, _ = engine(
        module,
        CodedInputs(rows.codes, rows.layout, books),  # type: ignore[arg-type]
        Gaussian(noise_multiplier=1e-13),
        max_norm=0.7,
        expected_batch=30.0,
        bound="public",
        centred=centred,
    )
    step.gradient(minus_scores, public)
    inputs: Tensor = rows[torch.arange(30)].double()
    wanted = clipped_rows(step, minus_scores, inputs, public).sum(0) / 30.0
    np.testing.assert_allclose(grads(module), wanted.numpy(), rtol=1e-8, atol=1e-10)
