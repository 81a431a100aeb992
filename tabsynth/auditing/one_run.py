"""One-run audits (Steinke, Nasr, Jagielski 2023): many canaries, a coin for each, one fit at real size.

Which of the canaries were in? The auditor scores each by what the fit released, guesses of the ones with
the highest scores that they were in and of those with the lowest that they were not, and abstains from the
others. Each right guess is evidence, and a bound of ε follows from their number
(:func:`tabsynth.auditing.lower_bounds.one_run_p_value`).

For a GAN the bound is weak: with hundreds of canaries in one batch, what each adds to a gradient is hidden
by the others as much as by the noise.

The auditor sees the releases themselves, noisy counts or noisy gradients, and knows all rows but the
canaries: no more than differential privacy grants an attacker.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from tabsynth.auditing.lower_bounds import one_run_epsilon
from tabsynth.auditing.outcomes import REFUTED, AuditResult, judged
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.privacy.ledger.ledger import Account
from tabsynth.privacy.noise.counts import Groups, Measured, NoisyCounts, by_value, count_rows
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.margnet import measurement as measuring
from tabsynth.training.clipping import _Factored
from tabsynth.training.loop import Progress
from tabsynth.training.private_step import PrivateStep

KIND = "one-run"
CONFIDENCE = 0.99  # the theorem's term in δ leaves little at 99.9%
SHARES = (
    0.02,
    0.05,
    0.1,
    0.2,
)  # of the canaries, that are guessed on each side; all four are tried


@dataclass(frozen=True, eq=False)
class Inserted:
    """A table with canaries, each in it by a fair coin.

    Attributes
    ----------
    table : DataFrame
        The known rows, and the canaries that are in.
    known, canaries : int array, shape (n, columns) and (m, columns)
        Value numbers.
    inside : bool array, shape (m,)
        The coins.
    """

    schema: Schema
    table: pd.DataFrame
    known: np.ndarray
    canaries: np.ndarray
    inside: np.ndarray


def insert(
    schema: Schema, table: pd.DataFrame, canaries: int, rng: np.random.Generator
) -> Inserted:
    """Canaries with every column drawn uniformly: unlike most rows, and unlike each other."""
    encoder = TableEncoder(schema)
    index = np.stack([rng.integers(0, size, canaries) for size in schema.sizes], axis=1)
    inside = rng.random(canaries) < 0.5
    rows = encoder.from_index(index, rng)
    index = encoder.to_index(rows)  # as a fit will read them
    whole = pd.concat([table, rows[inside]], ignore_index=True).astype(dict(rows.dtypes))
    return Inserted(schema, whole, encoder.to_index(table), index, inside)


def audit_one_run(
    model: Synthesizer,
    inserted: Inserted,
    *,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
) -> AuditResult:
    """Fit once, at any size, and bound ε by the guesses.

    Parameters
    ----------
    model : Synthesizer
        Not fitted yet; ``margnet``, or a GAN with a critic.
    """
    started = time.monotonic()
    watch = watching_counts if model.method == "margnet" else watching_steps
    with watch(inserted) as scores:
        model.fit(inserted.table, progress=progress)
    found = guessed(scores, inserted.inside, model.ledger_.delta, confidence)
    claimed = model.ledger_.spent
    verdict = judged(found.epsilon, claimed)
    said = "Refuted" if verdict == REFUTED else "Not refuted"
    return AuditResult(
        kind=KIND,
        method=model.method,
        part=f"{len(inserted.table):,} rows",
        verdict=verdict,
        sentence=(
            f"{said}: of {found.guesses} canaries that the auditor dared to guess, {found.right} were"
            f" guessed right, so ε is at least {found.epsilon:.3g}, of {claimed:.3g} claimed."
        ),
        epsilon_claimed=claimed,
        delta=model.ledger_.delta,
        epsilon_lower=found.epsilon,
        confidence=confidence,
        runs=len(inserted.inside),
        power=(
            f"No bound above ε = {most_one_run(len(inserted.inside), model.ledger_.delta, confidence):.2f}"
            " can come of so many canaries in one fit."
        ),
        details={
            "canaries_in": int(inserted.inside.sum()),
            "guesses": found.guesses,
            "right": found.right,
            "seconds": round(time.monotonic() - started, 1),
        },
    )


@dataclass(frozen=True, kw_only=True)
class Guessed:
    """Guesses, how many of them were right, and the bound that follows."""

    guesses: int
    right: int
    epsilon: float


def guessed(
    scores: np.ndarray, inside: np.ndarray, delta: float, confidence: float = CONFIDENCE
) -> Guessed:
    """The best bound of a few numbers of guesses, each at a part of the confidence (Bonferroni)."""
    order = np.argsort(scores, kind="stable")
    each = 1 - (1 - confidence) / len(SHARES)
    best = Guessed(guesses=0, right=0, epsilon=-1.0)
    for share in SHARES:
        side = max(1, round(share * len(scores)))
        right = int((~inside[order[:side]]).sum() + inside[order[-side:]].sum())
        epsilon = one_run_epsilon(len(scores), 2 * side, right, delta, each)
        if (epsilon, right / side) > (best.epsilon, best.right / max(best.guesses, 1) * 2):
            best = Guessed(guesses=2 * side, right=right, epsilon=epsilon)
    return best


def most_one_run(canaries: int, delta: float, confidence: float = CONFIDENCE) -> float:
    """The bound if every guess were right."""
    perfect = np.arange(canaries)
    return guessed(perfect, perfect >= canaries // 2, delta, confidence).epsilon


class _Counts(NoisyCounts[np.ndarray]):
    """Passes noisy counts on, and adds to the score of each canary what its cells have too many."""

    def __init__(self, inner: NoisyCounts[np.ndarray], inserted: Inserted, scores: np.ndarray):
        super().__init__(inner.table, inner.sizes)
        self._inner, self._inserted, self._scores = inner, inserted, scores

    def measure(
        self,
        account: Account,
        sets: Sequence[tuple[int, ...]],
        shares: Sequence[float],
        bits: Bits,
        groups: Sequence[Groups] | None = None,
    ) -> list[Measured]:
        """As of :class:`NoisyCounts`; the other canaries are in by half, and noise that is known of."""
        released = self._inner.measure(account, sets, shares, bits, groups)
        at = self._inserted
        for i, item in enumerate(released):
            by = by_value(self.sizes) if groups is None else groups[i]
            cells = tuple(by[j][at.canaries[:, j]] for j in item.columns)
            others = count_rows(at.canaries, item.columns, by)
            more = item.counts - count_rows(at.known, item.columns, by) - others / 2
            self._scores += (more / (item.std**2 + others / 4))[cells]
        return released


@contextmanager
def watching_counts(inserted: Inserted) -> Iterator[np.ndarray]:
    """Scores of the canaries, from the noisy counts of any fit of MargNet meanwhile."""
    scores = np.zeros(len(inserted.inside))
    original = measuring.NoisyCounts

    def seen(*args: Any, **kwargs: Any) -> NoisyCounts[np.ndarray]:
        return _Counts(original(*args, **kwargs), inserted, scores)

    measuring.NoisyCounts = seen  # type: ignore[misc, assignment]
    try:
        yield scores
    finally:
        measuring.NoisyCounts = original  # type: ignore[misc]


@contextmanager
def watching_steps(inserted: Inserted) -> Iterator[np.ndarray]:
    """Scores of the canaries, from the private steps of any fit meanwhile.

    A step's score of a canary is how far the release, less the known rows' part and the mean part of all
    canaries, lies along the canary's own clipped gradient, in units of the noise.
    """
    scores = np.zeros(len(inserted.inside))
    layout = TableEncoder(inserted.schema).layout
    codes = torch.from_numpy(layout.encode(inserted.canaries))
    keys = {row.tobytes() for row in codes.numpy()}
    sums, noised = PrivateStep._sums, PrivateStep._noised
    held: list[Any] = []

    def see(step: PrivateStep, losses: Any, batch: Tensor, keep: Any, reference: Any) -> Any:
        found = sums(step, losses, batch, keep, reference)
        known = torch.tensor([row.tobytes() not in keys for row in batch.numpy()])
        held[:] = [losses, reference, sums(step, losses, batch, known & keep, reference)[0]]
        return found

    def draw(step: PrivateStep, clean: list[Tensor]) -> list[Tensor]:
        released = noised(step, clean)
        losses, reference, known = held
        scores[:] += step_scores(step, losses, codes, reference, known, released)
        return released

    PrivateStep._sums, PrivateStep._noised = see, draw  # type: ignore[method-assign, assignment]
    try:
        yield scores
    finally:
        PrivateStep._sums, PrivateStep._noised = sums, noised  # type: ignore[method-assign]


def step_scores(
    step: PrivateStep,
    losses: Callable[[torch.nn.Module, Tensor], Tensor],
    codes: Tensor,
    reference: Sequence[Tensor] | None,
    known: Sequence[Tensor],
    released: Sequence[Tensor],
) -> np.ndarray:
    """Scores of one step, shape (canaries,).

    Of gᵢ, the clipped gradient of canary i as a fit takes it: ⟨Σ + noise − known − q/2 Σⱼ gⱼ, gᵢ⟩, group by
    group over the variance of the noise.
    """
    clipper = step.clipper
    grads = clipper._gradients(losses, codes)
    if not isinstance(grads, _Factored):
        raise InputError("A one-run audit needs networks whose gradients have a closed form.")
    sizes = grads.sizes(clipper, reference)
    scale = (step.bounds.now.double() / sizes.norms.clamp_min(1e-300)).clamp_max(1.0)
    scale = scale.masked_fill(~sizes.usable[:, None], 0)
    mean = grads.weighted_sums(clipper, scale * step.rate / 2, None, reference)
    noise = step.bounds.noise_scales().double().square()
    rest = {}
    for i, (parameter, j) in enumerate(zip(clipper.parameters, clipper.groups, strict=True)):
        more = released[i].double() * float(step.expected_batch) - known[i] - mean[i]
        rest[id(parameter)] = (more / noise[j]).to(parameter.dtype)
    dots = {key: dot for factor in grads.factors for key, dot in factor.dots(rest).items()}
    out = scale.new_zeros(len(codes))
    for i, (parameter, j) in enumerate(zip(clipper.parameters, clipper.groups, strict=True)):
        along = dots.get(id(parameter), scale.new_zeros(len(codes)))
        if reference is not None:
            along = along - (reference[i] * rest[id(parameter)]).sum()
        out += scale[:, j] * along
    return out.double().numpy()
