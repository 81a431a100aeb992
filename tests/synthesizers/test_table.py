"""Rows out of a generator: the law that it says, with less spread than independent draws."""

import numpy as np
import pytest
import torch
from fitted_tables import second_moments

from tabsynth import Schema
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.table import Layout
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial.generator import (
    GeneratorConfig,
    TableGenerator,
)

torch.set_num_threads(1)


def layout(encoding: str) -> Layout:
    columns = [
        Column(name=n, kind="ordinal", dtype="int64", categories=tuple(range(size)))
        for n, size in (("a", 4), ("b", 3), ("c", 5))
    ]
    return TableEncoder(Schema(columns), encoding).layout


PLAIN = GeneratorConfig(latent_dim=6, hidden=(16,), norm=False)


def generator(encoding: str) -> TableGenerator:
    created = TableGenerator(layout(encoding), PLAIN, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in created.parameters():
            parameter.mul_(3.0)  # columns that depend on each other through z
    return created.eval()


def moments(made: TableGenerator, rows: torch.Tensor) -> torch.Tensor:
    return second_moments(made.heads.layout, rows)


@pytest.mark.slow
def test_pair_counts_are_nearer_to_the_law_than_independent_draws() -> None:
    created = generator("one-hot")
    with torch.no_grad():
        z = created.noise(200_000, torch.Generator().manual_seed(1))
        wanted = moments(created, created.heads(created.logits(z), 1.0, None))

    def error(index: np.ndarray) -> float:
        codes = torch.from_numpy(created.heads.layout.encode(index))
        return float((moments(created, codes) - wanted).square().sum())

    ours = [error(created.sample(600, torch.Generator().manual_seed(s))) for s in range(6)]
    with torch.no_grad():
        draws = []
        for seed in range(6):
            rng = torch.Generator().manual_seed(seed)
            codes = created.heads(created.logits(created.noise(600, rng)), 1e-3, rng)
            draws.append(error(created.heads.layout.decode(codes.numpy())))
    assert np.mean(ours) < 0.6 * np.mean(draws)
    # And no bias: many samples together are the law.
    together = np.concatenate(
        [created.sample(600, torch.Generator().manual_seed(s)) for s in range(25)]
    )
    assert error(together) < np.mean(ours) / 10


def test_other_codes_are_drawn_row_by_row() -> None:
    created = generator("binary")
    index = created.sample(500, torch.Generator().manual_seed(0))
    assert index.shape == (500, 3) and (index.max(0) < [4, 3, 5]).all() and index.min() >= 0
