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
NOTE[DIFF] Sums of scores of ordered columns, such as of ages by sex, follow from the counts of pairs, and weigh more than cells. Where
noise makes counts negative, a mixture that is fitted to cells alone has means and coefficients that are biased and vary too little.
Where most associations are noise, no table can follow their counts, and cells are fitted alone.
NOTE[DIFF] Ferrando, Wang and Sheldon (2022, arXiv:2006.07749) add noise to the counts that the fitted model expects. Intervals then
do not know the bias of the fit: on the census excerpt at ε = 1 they covered less.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tabsynth.encoding.table import Layout
from tabsynth.privacy.noise.counts import Measured, in_groups
from tabsynth.schema.schema import Zero
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.declared import TableCounts
from tabsynth.synthesizers.margnet.estimation import TINY, CountLoss, Grouped
from tabsynth.synthesizers.margnet.selection import LEAST_STD, Measurements
from tabsynth.synthesizers.mixture import Mixture, normalise
from tabsynth.training.networks import one_cycle

STEPS = 150
RATE = 0.1  # of logits
SUMS_WEIGHT = 10.0  # of the squared error of a sum of scores and of a one-way count, in units of its noise; a cell of a pair has weight 1
LEAST_SHOWN = 0.5  # of the associations: with less, sums are left out, with a warning


class ScoreSums:
    """Sums of the scores of ordered columns over the rows of each group of another column, by the counts of their pairs.

    Parameters
    ----------
    layout : Layout
    measured : Measurements
        Counts of pairs count.
    scale : float
        Rows of a component.
    scores : sequence of ndarray or None
        Of the values of each column, nan where a value has none; None for a column without an order.
    shares : ndarray, shape (layout.width,)
        The distribution of the values of each column: a group has the mean score of its values.
    """

    def __init__(
        self,
        layout: Layout,
        measured: Measurements,
        scale: float,
        scores: Sequence[np.ndarray | None],
        shares: np.ndarray,
        device: torch.device | str = "cpu",
    ) -> None:
        by = measured.resolution.pairs
        self.groups = Grouped(layout, by, device)
        width = self.groups.width
        of_groups, slope, target = np.zeros((3, width, len(scores)), dtype=np.float32)
        for j, (block, scored) in enumerate(zip(layout.blocks, scores, strict=True)):
            if scored is not None:
                column_shares = shares[block.start : block.stop]
                of_groups[self.groups.spans[j], j] = _centre_scores(column_shares, scored, by[j])
        for m in measured.counts:
            if len(m.columns) == 2:
                std = max(m.std, LEAST_STD)
                for (a, b), cells in ((m.columns, m.counts), (m.columns[::-1], m.counts.T)):
                    of_b = of_groups[self.groups.spans[b], b]
                    slope[self.groups.spans[a], b] = scale / std
                    target[self.groups.spans[a], b] = cells @ of_b / std
        self.of_groups, self.slope, self.target = (
            torch.from_numpy(x).to(device) for x in (of_groups, slope, target)
        )

    def __call__(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return the squared error, and half its gradient."""
        q = self.groups.of(p)
        sums = q @ self.of_groups
        error = (q.T @ sums).mul_(self.slope).sub_(self.target)
        loss = error.square().sum()
        error.mul_(self.slope)
        return loss, self.groups.back(sums @ error.T + (q @ error) @ self.of_groups.T)


def _centre_scores(shares: np.ndarray, scores: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the mean score of each group, less that of all, of length 1; 0 where all are equal. Shape (groups,)."""
    has_score, values = np.isfinite(scores), np.nan_to_num(scores)
    of_known = shares * has_score
    values = has_score * (values - of_known @ values / max(of_known.sum(), TINY))
    means = in_groups(shares * values, [group]) / np.maximum(in_groups(shares, [group]), TINY)
    length = float(np.linalg.norm(means))
    return means / length if length > 0 else np.zeros_like(means)


def associations_shown(counts: Sequence[Measured]) -> float:
    """Return the share of the squared distance of a pair's counts from independence that noise does not explain: the median of pairs, 0 to 1.

    1 where no pair was counted.
    """
    shares = []
    for m in counts:
        if len(m.columns) == 2:
            total = max(float(m.counts.sum()), TINY)
            independent = np.outer(m.counts.sum(axis=1), m.counts.sum(axis=0)) / total
            distance = float(np.square(m.counts - independent).sum())
            noise = (m.counts.shape[0] - 1) * (m.counts.shape[1] - 1) * m.std**2
            shares.append(max(0.0, distance - noise) / max(distance, TINY))
    return float(np.median(shares)) if shares else 1.0


def implicate(
    mixture: Mixture,
    measured: Measurements,
    config: MargNetConfig,
    zeros: Sequence[Zero],
    rng: np.random.Generator,
    scores: Sequence[np.ndarray | None],
    tables: Sequence[TableCounts] = (),
    weight: float = SUMS_WEIGHT,
) -> Mixture:
    """Return a mixture that the noisy counts of a fit leave possible.

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
    scores : sequence of ndarray or None
        As in :class:`ScoreSums`.
    tables : sequence of TableCounts
        Declared tables, with that noise.
    weight : float
        Of sums of scores, and of one-way counts where it is above 1; 0 leaves the sums out.
    """
    p, layout = mixture.probabilities, mixture.layout
    counts = [
        replace(m, counts=m.counts + m.std * rng.standard_normal(m.counts.shape))
        for m in measured.counts
    ]
    grids = [grid.with_noise(rng) for grid in measured.grids]
    measured = replace(measured, counts=counts, tables=tables, grids=grids)
    # Counts of single columns weigh as much as sums of scores, which would move them otherwise.
    heavy = [
        replace(m, std=m.std / math.sqrt(max(1.0, weight))) if len(m.columns) == 1 else m
        for m in counts
    ]
    loss = CountLoss(
        layout,
        replace(measured, counts=heavy),
        len(p),
        p.device,
        memory=config.memory * 2**20,
        zeros=zeros,
    )
    shares = p.mean(dim=0).cpu().numpy().astype(float)
    sums = ScoreSums(layout, measured, loss.scale, scores, shares, p.device)
    logits = torch.nn.Parameter(p.clamp_min(TINY).log())
    optimizer = torch.optim.Adam([logits])
    for i in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = RATE * one_cycle(i / STEPS)
        q = normalise(logits, layout.sizes)
        gradient = loss(q.detach(), 1.0)[1]
        if weight:
            gradient.add_(sums(q.detach())[1], alpha=2 * weight / loss.cells)
        optimizer.zero_grad(set_to_none=True)
        q.backward(gradient)
        optimizer.step()
    with torch.no_grad():
        return Mixture(layout, len(p)).to(p.device).set(normalise(logits, layout.sizes))
