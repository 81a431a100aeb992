"""Implicates: several synthetic tables that differ as much as the noise of the counts leaves open.

The private table is the missing data, and its noisy counts are what is observed, as in NAPSU-MQ (Räisä et al. 2023, "Noise-Aware
Statistical Inference with Differentially Private Synthetic Data", arXiv:2205.14485). Each implicate is a synthetic table of another
mixture: noise of the size of that of the counts is added to them again, and the fitted mixture is fitted to that from where it is.
All of it is post-processing.

NOTE[DIFF] NAPSU-MQ samples a posterior by Markov chains, for a model of few counts. Here counts plus noise take the place of a draw
of the true counts, which is exact under a flat prior, and the mixtures that can be fitted to them are the prior. It takes seconds,
and counts below 0 leave a bias in statistics of rare cells.
NOTE[DIFF] In NAPSU-MQ rows are drawn from the population again. An implicate here stands for the private table itself, and the
standard error of an analysis of it is that of sampling, so that Rubin's rules for missing data hold.
NOTE[DIFF] Ferrando, Wang and Sheldon (2022, arXiv:2006.07749) add noise to the counts that the fitted model expects. Intervals then
do not know the bias of the fit: on the census excerpt at ε = 1 they covered less.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tabsynth.encoding.table import Layout
from tabsynth.schema.schema import Zero
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.declared import TableCounts
from tabsynth.synthesizers.margnet.estimation import TINY, CountLoss
from tabsynth.synthesizers.margnet.measurement import Measurements
from tabsynth.synthesizers.mixture import Mixture
from tabsynth.training.networks import one_cycle

STEPS = 150
RATE = 0.1  # of logits


def implicate(
    mixture: Mixture,
    measured: Measurements,
    config: MargNetConfig,
    zeros: Sequence[Zero],
    rng: np.random.Generator,
    tables: Sequence[TableCounts] = (),
) -> Mixture:
    """A mixture that the noisy counts of a fit leave possible.

    Parameters
    ----------
    mixture : Mixture
        Fitted, of components of equal shares.
    measured : Measurements
        The noisy counts that it was fitted to.
    config : MargNetConfig
    zeros : sequence of Zero
        Combinations of values that the schema declares impossible.
    rng : numpy Generator
        Of noise that protects nothing: it stands for what is not known.
    tables : sequence of TableCounts
        Declared tables, with that noise.
    """
    p, layout = mixture.probabilities, mixture.layout
    counts = [
        replace(m, counts=m.counts + m.std * rng.standard_normal(m.counts.shape))
        for m in measured.counts
    ]
    loss = CountLoss(
        layout,
        counts,
        measured.rows,
        len(p),
        measured.resolution,
        p.device,
        memory=config.memory * 2**20,
        zeros=zeros,
        tables=tables,
    )
    logits = torch.nn.Parameter(p.clamp_min(TINY).log())
    optimizer = torch.optim.Adam([logits])
    for i in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * one_cycle(i / STEPS)
        q = _normalised(logits, layout)
        gradient = loss(q.detach(), 1.0)[1]
        optimizer.zero_grad(set_to_none=True)
        q.backward(gradient)
        optimizer.step()
    with torch.no_grad():
        return Mixture(layout, len(p)).to(p.device).set(_normalised(logits, layout))


def _normalised(logits: Tensor, layout: Layout) -> Tensor:
    """Probabilities of the values of each column."""
    parts = logits.split([block.size for block in layout.blocks], dim=1)
    return torch.cat([torch.softmax(part, dim=1) for part in parts], dim=1)
