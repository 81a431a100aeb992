"""A network that draws the next child given its context, and its fit to noisy counts.

The network takes the category codes of a context and a random vector, and gives a distribution for each column of the
child's record: given both, the columns are independent. A number for each step from the previous child's code is added to
the logits of the codes at that step, because most sequences repeat codes, or go up or down, more or less often than by
chance. It is fitted as :mod:`tabsynth.synthesizers.margnet.estimation` fits a mixture, with contexts in the place of
components: what a pair of columns is expected to count is the mean over contexts, of which the context's own columns are
known. The contexts are those of groups that the generator itself draws, so that a child that follows drawn ones is fitted
where it is used, and counts among context columns are not needed. All of it is post-processing.

NOTE[DIFF] GEM and MargNet fit the rows of a mixture; here each row has a context that is given, as in autoregressive
models, of which the child's columns alone are fitted.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth.encoding.linked import Records
from tabsynth.synthesizers.margnet.estimation import LEAST_STD, MargNetFit
from tabsynth.training.loop import TrainingMonitor
from tabsynth.training.networks import mlp

LATENT = 16  # length of the random vector
CONTEXTS = 4096  # of a step
LEAST_STEPS = 30  # of a fit, also where counts are hardly more than noise
MOST_STEPS = 600
CHANCE = 2.0  # standard deviations of the mean squared noise above 1 that are still taken for noise
RENEWED = 100  # steps after which groups are drawn again
SMALLEST = 1e-12
MOST_RATIO = 10.0  # of the counted to the drawn share of a code of the context
GOLDEN = (math.sqrt(5) - 1) / 2
CERTAIN = 0.02  # no closer to 0 or 1 are shares that the step terms start from
Pool = Callable[
    [], tuple[np.ndarray, np.ndarray]
]  # contexts, shape (n, context columns), and their weights


class ContextNetwork(nn.Module):
    """Context and random vector → MLP → a softmax over the codes of each column of the record.

    Parameters
    ----------
    records : Records
        Of a table with a context.
    hidden : sequence of int
    rng : torch.Generator, optional
        None leaves the weights to be loaded.
    """

    starts: Tensor

    def __init__(
        self, records: Records, hidden: Sequence[int], rng: torch.Generator | None = None
    ) -> None:
        super().__init__()
        context = len(records.context)
        sizes = records.sizes
        self.sizes = list(sizes[context : context + len(records.drawn)])
        self.repeats, steps = records.repeats, records.steps
        for k, step in enumerate(steps):
            self.register_buffer(f"steps{k}", torch.from_numpy(step), persistent=False)
        starts = np.cumsum([0, *sizes[:context]])[:-1]
        self.register_buffer("starts", torch.from_numpy(starts), persistent=False)
        first = hidden[0]
        generator = rng or torch.Generator().manual_seed(0)
        width = sum(sizes[:context])
        self.codes = nn.Parameter(torch.randn(width, first, generator=generator) / context**0.5)
        self.latent = nn.Parameter(torch.randn(LATENT, first, generator=generator) / LATENT**0.5)
        self.follow = nn.ParameterList(
            torch.zeros(size) for size in sizes[context + len(self.sizes) :]
        )
        self.body = mlp([first, *hidden[1:], sum(self.sizes)], generator)

    @torch.no_grad()
    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Set the last bias to the log of each column's distribution, all of whose entries are positive."""
        last = self.body[-1]
        assert isinstance(last, nn.Linear)
        last.weight.mul_(0.1)
        last.bias.copy_(torch.as_tensor(np.log(np.concatenate(marginals))))

    @torch.no_grad()
    def add_bias(self, column: int, codes: np.ndarray, by: np.ndarray) -> None:
        """Add numbers to the last bias of some codes of a column of the record."""
        last = self.body[-1]
        assert isinstance(last, nn.Linear)
        at = torch.from_numpy(codes + sum(self.sizes[:column])).to(last.bias.device)
        last.bias[at] += torch.from_numpy(by).to(last.bias)

    def forward(self, context: Tensor, latent: Tensor) -> Tensor:
        """Return probabilities, shape (n, codes of all columns of the record)."""
        spots = context + self.starts
        hidden = nn.functional.embedding_bag(spots, self.codes, mode="sum") + latent @ self.latent
        logits = list(self.body(torch.relu(hidden)).split(self.sizes, dim=1))
        for k, (_, j) in enumerate(self.repeats):
            logits[j] = logits[j] + self.follow[k][self.steps(k, context)]
        return torch.cat([torch.softmax(column, dim=1) for column in logits], dim=1)

    def steps(self, k: int, context: Tensor) -> Tensor:
        """Return the step to each code of the k-th column of ``repeats`` from that of the context, shape (n, size), int64."""
        table: Tensor = getattr(self, f"steps{k}")
        return table[context[:, self.repeats[k][0]]]

    @torch.no_grad()
    def draw(
        self,
        context: np.ndarray,
        rng: torch.Generator,
        allowed: Callable[[int, np.ndarray, np.ndarray], np.ndarray | None] = lambda *_: None,
    ) -> np.ndarray:
        """Return a record for each context, shape (n, columns of the record).

        Parameters
        ----------
        context : ndarray, shape (n, context columns)
        rng : torch.Generator
        allowed : callable
            From a column's number, the rows and the probabilities of its codes, shape (n, size), to probabilities in their place,
            which need not sum to 1; None leaves them.
        """
        device = self.codes.device
        out = np.empty((len(context), len(self.sizes)), dtype=np.int64)
        for start in range(0, len(context), 65_536):
            rows = slice(start, min(start + 65_536, len(context)))
            contexts = torch.from_numpy(context[rows]).to(device)
            latent = torch.randn(len(contexts), LATENT, generator=rng, device=rng.device).to(device)
            p = self(contexts, latent).cpu().double()
            before = {j: contexts[:, i] for i, j in self.repeats}
            for j, q in enumerate(p.split(self.sizes, dim=1)):
                changed = allowed(j, np.arange(rows.start, rows.stop), q.numpy())
                if changed is not None:
                    q = torch.from_numpy(changed)
                upto = q.cumsum(1)
                u = _spread(before.get(j, torch.zeros(len(q))), rng)
                level = torch.minimum(u * upto[:, -1:], upto[:, -1:] * (1 - 1e-12))
                out[rows, j] = (upto <= level).sum(1).numpy()
        return out

    def sound(self) -> bool:
        """Return whether a file's weights are usable: any finite ones are."""
        return all(bool(torch.isfinite(p).all()) for p in self.parameters())


def _spread(groups: Tensor, rng: torch.Generator) -> Tensor:
    """Return uniform numbers, shape (n, 1), float64, that are spread evenly over the rows of each group.

    Each number by itself is uniform in [0, 1). Those of a group are the next ones of an additive recurrence of the golden
    ratio from a random start (Niederreiter 1992, *Random Number Generation and Quasi-Monte Carlo Methods*, chapter 3), in
    random order. So counts of drawn codes are closer to what is expected than those of independent draws.

    Parameters
    ----------
    groups : Tensor, shape (n,)
        Whole numbers.
    """
    n = len(groups)
    random = torch.rand(1 + n, generator=rng, device=rng.device, dtype=torch.float64).cpu()
    order = (groups.cpu() + random[1:]).argsort()
    u = torch.empty(n, 1, dtype=torch.float64)
    u[order, 0] = (random[0] + torch.arange(n, dtype=torch.float64) * GOLDEN) % 1
    return u


class _Contexts(nn.Module):
    """The network over the contexts of drawn groups, as a mixture's network: one-hot context codes, then distributions.

    Parameters
    ----------
    network : ContextNetwork
    pool : callable
    width : int
        Codes of all context columns.
    rng : torch.Generator
    expected : callable
        From the share of each context code among the contexts to what it is by the noisy counts, shape (width,).
    """

    contexts: Tensor
    latent: Tensor
    weights: Tensor

    def __init__(
        self,
        network: ContextNetwork,
        pool: Pool,
        width: int,
        rng: torch.Generator,
        expected: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        super().__init__()
        self.network, self.pool, self.rng, self.width = network, pool, rng, width
        self.expected = expected
        self.calls = 0

    def forward(self) -> Tensor:
        device = self.network.codes.device
        if self.calls % RENEWED == 0:
            contexts, weights = self.pool()
            upto = weights.cumsum() / weights.sum()
            offset = float(torch.rand((), generator=self.rng))
            chosen = np.searchsorted(upto, (np.arange(CONTEXTS) + offset) / CONTEXTS)
            self.contexts = torch.from_numpy(contexts[chosen.clip(0, len(upto) - 1)]).to(device)
            self.latent = torch.randn(CONTEXTS, LATENT, generator=self.rng).to(device)
            codes = (self.contexts + self.network.starts).cpu().numpy().ravel()
            drawn = np.bincount(codes, minlength=self.width) / CONTEXTS
            ratios = np.divide(self.expected(drawn), drawn, np.ones(self.width), where=drawn > 0)
            self.weights = torch.from_numpy(ratios).float().to(device)
        self.calls += 1
        spots = self.contexts + self.network.starts
        fixed = torch.zeros(CONTEXTS, self.width, device=device)
        fixed.scatter_(1, spots, self.weights[spots])
        p = self.network(self.contexts, self.latent)
        columns = p.split(self.network.sizes, dim=1)
        steps = [
            torch.zeros(CONTEXTS, len(follow), device=device).scatter_add(
                1, self.network.steps(k, self.contexts), columns[j]
            )
            for k, ((_, j), follow) in enumerate(
                zip(self.network.repeats, self.network.follow, strict=True)
            )
        ]
        return torch.cat([fixed, p, *steps], dim=1)


class ContextFit(MargNetFit):
    """The fit of a network to noisy counts of records, with further parameters than :class:`MargNetFit`.

    Parameters
    ----------
    network : ContextNetwork
    pool : callable
        Draws groups again: their contexts, and the weight of each.
    """

    network_steps = 0

    def __init__(self, network: ContextNetwork, pool: Pool, *given: Any, **named: Any) -> None:
        self._drawing, self._pool = network, pool
        super().__init__(*given, **named)

    def _number_of_components(self, columns: int) -> int:
        return CONTEXTS

    def fit(
        self,
        monitor: TrainingMonitor,
        of: str = "",
        share: float = 1.0,
    ) -> int:
        """Fit as :class:`MargNetFit` does, in at most ``MOST_STEPS`` steps."""
        self.config = replace(self.config, steps=min(self.config.steps, MOST_STEPS))
        return super().fit(monitor, of, share)

    def _at_noise(self, loss: float) -> bool:
        """Return whether the loss is near the noise: noise of few counts may well make more than its variance."""
        threshold = 1 + CHANCE * math.sqrt(2 / self.loss.cells)
        return len(self.errors) > LEAST_STEPS and loss <= threshold

    def _make_network(self, shares: Sequence[np.ndarray], rng: torch.Generator) -> Any:
        repeats, end = self._drawing.repeats, len(shares) - len(self._drawing.repeats)
        context = end - len(self._drawing.sizes)
        self._drawing.start_from(shares[context:end])
        for k, (i, j) in enumerate(repeats):
            # The odds of each step, over those of two independent draws.
            both = np.outer(shares[i], shares[context + j])
            step = getattr(self._drawing, f"steps{k}").cpu().numpy()
            counted = shares[end + k]
            chance = np.bincount(step.ravel(), both.ravel(), len(counted)).clip(CERTAIN)
            with torch.no_grad():
                follow = np.log(counted.clip(CERTAIN) / chance)
                self._drawing.follow[k].copy_(torch.from_numpy(follow))
        width = self.layout.blocks[context].start
        return _Contexts(self._drawing, self._pool, width, rng, self._expected_shares)

    def _expected_shares(self, drawn: np.ndarray) -> np.ndarray:
        """Return the shares of context codes by the noisy counts, where these say that drawn contexts have others.

        The drawn contexts differ from those that were counted. So that the network learns what follows given a context, each
        count with a column of the context is compared with what is expected at the counted share of its codes. Counts of one
        code, with all that they were counted with, are averaged; rare ones are moved towards the drawn share by their noise.
        """
        out, rows = drawn.copy(), self.measured.rows
        for j, block in enumerate(self.layout.blocks[: len(self._drawing.starts)]):
            groups = self.measured.resolution.pairs[j]
            total, precision = np.zeros(int(groups.max()) + 1), 0.0
            for m in self.measured.counts:
                if len(m.columns) == 2 and m.columns[0] == j:
                    weight = 1 / (m.counts.shape[1] * max(m.std, LEAST_STD) ** 2)
                    total, precision = total + weight * m.counts.sum(1), precision + weight
            if precision:
                std = precision**-0.5
                share = np.bincount(groups, drawn[block.start : block.stop])
                counted = (total / precision).clip(0.0)
                ratio = ((counted + std) / (rows * share + std)).clip(1 / MOST_RATIO, MOST_RATIO)
                out[block.start : block.stop] *= ratio[groups]
        return out
