"""How far private gradients are from ordinary ones, and how far a critic from the truth.

What is computed here reads rows *without noise*: it is for public rows, for studies whose data is
treated as public, and for ε = ∞. Private rows come only as a :class:`PrivateTable`, with an account that
is charged first; the over-estimation score alone has a private release too.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tabsynth._random import keystream
from tabsynth._validate import positive
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import NoPrivacy, of_sum
from tabsynth.privacy.ledger.ledger import Account, PrivateTable, exact
from tabsynth.privacy.noise.samplers import noisy
from tabsynth.training.clipping import PerExampleClipper, moved
from tabsynth.training.factors import Losses
from tabsynth.training.private_step import BAM, DPSAT, DPSGD, StepRule

# A bound under which nearly every gradient is clipped to: Σ clip(gᵢ)/LEAST is the sum of directions.
LEAST = 1e-12


@dataclass(frozen=True, kw_only=True)
class GradientBias:
    """ĝ_priv = a·ĝ + c: a private gradient beside the one that an ordinary step would take.

    ĝ is the batch's mean gradient at the weights themselves, ĝ_clip the rule's clipped mean without noise.
    NaN for the direction of a zero vector.

    Attributes
    ----------
    magnitude : float
        a, the error in size: 1 where nothing is clipped, under any rule that does not move.
    direction : Tensor, shape (d,)
        c, the error in direction, all parameters in a row: orthogonal to ĝ, but for the noise in it.
    gradient, norm : Tensor, shape (d,), and float
        ĝ and ‖ĝ‖.
    bias : float
        ‖ĝ_clip − ĝ‖. Noise adds nothing to it: its mean is zero.
    clipping_bias : float
        ‖ĝ_clip − ĝ_rule‖, with ĝ_rule the mean of the same gradients unclipped: what the clip alone does.
    cosine : float
        cos(ĝ_clip, ĝ).
    clipped : float
        Share of rows that the bound shortens; with groups, in the group where that is most often so.
    ascent : float
        How well the ascent follows ĝ: cos(previous private gradient, ĝ) of DP-SAT, meanᵢ cos(gᵢ, ĝ) of
        BAM. Not a number for DP-SGD.
    """

    magnitude: float
    direction: Tensor
    gradient: Tensor
    norm: float
    bias: float
    clipping_bias: float
    cosine: float
    clipped: float
    ascent: float


@dataclass(frozen=True, kw_only=True, eq=False)
class StepState:
    """A private step as it stands before its batch.

    Attributes
    ----------
    bounds : Tensor, shape (G,), or float
        C of each group: the step's ``bounds.now``.
    groups : sequence of int, optional
        The group of each parameter: the step's ``clipper.groups``. Default: all are one group.
    rule : DPSGD, DPSAT or BAM
    previous : sequence of Tensor, one a parameter, optional
        DP-SAT's previous private gradient; without it the step is taken at the weights.
    noise : sequence of Tensor, one a parameter, optional
        The noise that the step adds to the mean.
    """

    bounds: Tensor | float = 1.0
    groups: Sequence[int] | None = None
    rule: StepRule = field(default_factory=DPSGD)
    previous: Sequence[Tensor] | None = None
    noise: Sequence[Tensor] | None = None


def gradient_bias(
    module: nn.Module,
    losses: Losses,
    rows: Tensor | PrivateTable[Tensor],
    *,
    step: StepState | None = None,
    public: Tensor | None = None,
    public_losses: Losses | None = None,
    expected_batch: float | None = None,
    account: Account | None = None,
) -> GradientBias:
    """Decompose one private gradient, for PUBLIC rows or ε = ∞ only: no noise is added.

    Parameters
    ----------
    module : nn.Module
    losses : callable
        ``losses(module, rows)``: one loss a row.
    rows : Tensor
        One batch of public rows. A :class:`PrivateTable` is read as one batch, and only through an
        ``account`` without privacy.
    step : StepState, optional
        Default: DP-SGD with the bound 1. Its noise becomes a part of c.
    public, public_losses
        Public rows whose mean gradient is taken off each row's before the clip, and off ĝ.
    expected_batch : float
        The divisor of all means; the number of rows by default.
    account : Account
        Of :class:`NoPrivacy`, with a :class:`PrivateTable` only.

    Raises
    ------
    InputError
        Given a :class:`PrivateTable` without such an account; nothing is read then.

    Notes
    -----
    Knolle et al. 2023 (arXiv:2308.12018), §4 and Appendix C. There a = (1/l) Σ ηᵢ/Mᵢ with
    ηᵢ = ⟨gᵢ, ĝ⟩/‖ĝ‖²; since Σ gᵢ/Mᵢ is the clipped sum, that is ⟨ĝ_clip, ĝ⟩/‖ĝ‖², and no row's gradient
    is formed. Likewise meanᵢ cos(gᵢ, ĝ) is the mean direction's product with ĝ's.

    NOTE[DIFF] The paper prints Mᵢ = max(1, C/‖gᵢ‖) for max(1, ‖gᵢ‖/C). It does not say from what BAM's
    bias is measured: from the gradient at the weights, or from BAM's own before the clip. Both are here.
    """
    rows = _unnoised(rows, account)
    step = step or StepState()
    rule, previous = step.rule, step.previous
    flat, size = PerExampleClipper(module), float(expected_batch or max(len(rows), 1))
    ruled = PerExampleClipper(module, step.groups, rule.radius if isinstance(rule, BAM) else 0.0)

    def mean(clipper: PerExampleClipper, bound: Tensor | float) -> tuple[Tensor, Tensor]:
        taken = None
        if public is not None:
            taken, _ = clipper.reference(public_losses or losses, public)
        sums, whole = clipper.clipped_sum(losses, rows, bound, taken)
        return _joined(sums) / size, whole

    ordinary, _ = mean(flat, math.inf)
    squared, ascent = ordinary @ ordinary, math.nan
    if isinstance(rule, BAM):
        directions, _ = flat.clipped_sum(losses, rows, LEAST)
        ascent = float(_joined(directions) @ ordinary / (len(rows) * LEAST * squared.sqrt()))
    elif isinstance(rule, DPSAT) and previous is not None:
        ascent = _cosine(_joined(previous), ordinary)
    with _moved(ruled.parameters, previous, rule.radius if isinstance(rule, DPSAT) else 0.0):
        unclipped, _ = mean(ruled, math.inf)
        clipped, whole = mean(ruled, step.bounds)
    a = clipped @ ordinary / squared
    c = clipped - a * ordinary if squared > 0 else clipped
    if step.noise is not None:
        c = c + _joined(step.noise)
    return GradientBias(
        magnitude=float(a),
        direction=c,
        gradient=ordinary,
        norm=float(squared.sqrt()),
        bias=float((clipped - ordinary).norm()),
        clipping_bias=float((clipped - unclipped).norm()),
        cosine=_cosine(clipped, ordinary),
        clipped=1 - float(whole.min()) / len(rows) if len(rows) else math.nan,
        ascent=ascent,
    )


def _unnoised(rows: Tensor | PrivateTable[Tensor], account: Account | None) -> Tensor:
    if not isinstance(rows, PrivateTable):
        return rows
    if account is None or not isinstance(account.mechanism, NoPrivacy):
        got = "none" if account is None else account.mechanism.name
        raise InputError(
            f"gradient_bias adds no noise, got private rows and account={got!r}: give public rows, or an"
            " account of NoPrivacy() (epsilon=inf)."
        )
    return rows.read(account)


@contextmanager
def _moved(
    parameters: Sequence[Tensor], along: Sequence[Tensor] | None, radius: float
) -> Iterator[None]:
    """Move the weights by ``radius`` along a gradient, and back."""
    if along is None or not radius:
        yield
        return
    step = radius / _joined(along).norm().clamp_min(1e-30)
    with moved(parameters, [g * step for g in along]):
        yield


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([t.detach().double().flatten() for t in tensors])


def _cosine(one: Tensor, other: Tensor) -> float:
    return float(one @ other / (one.norm() * other.norm()))


@dataclass(frozen=True, kw_only=True)
class Overestimation:
    """s₊ = mean of D(x) − y over a set, y = 1 for real rows and 0 for others; 0 is best.

    Attributes
    ----------
    real : float
        In [−1, 0].
    noise, generated : float
        In [0, 1].
    std : float
        Standard deviation of the noise on ``real`` before it is cut to [−1, 0].
    """

    real: float
    noise: float
    generated: float
    std: float = 0.0


def overestimation(
    scores_real: Tensor | PrivateTable[Tensor],
    scores_noise: Tensor,
    scores_generated: Tensor,
    *,
    score: Callable[[Tensor], Tensor] | None = None,
    account: Account | None = None,
    rows: float | None = None,
    generator: torch.Generator | None = None,
) -> Overestimation:
    """Return how much a discriminator believes rows: real ones, noise and generated ones.

    Parameters
    ----------
    scores_real, scores_noise, scores_generated : Tensor
        D(x) in [0, 1] of *public* real rows, of noise, and of generated rows. Private real rows come as
        a :class:`PrivateTable`, with what follows.
    score : callable, optional
        From the private rows to D(x), each from its row alone; by default the table holds D(x) itself.
        What leaves [0, 1] is cut, and what is not a number counts as 1/2.
    account : Account
        Of a :class:`Gaussian` release, or of :class:`NoPrivacy`.
    rows, generator : float and torch.Generator
        The number of private rows, declared or from noisy counts, and what draws the noise.

    Raises
    ------
    InputError
        Private rows without what their release needs (nothing is read then), or scores outside [0, 1].

    Formal guarantees
    -----------------
    Adding or removing one private row changes Σ (D(x) − 1/2) by at most 1/2; it is released with
    Gaussian noise of half the account's multiplier, after the account was charged.

    Notes
    -----
    Huat, *dp-GAN*, Table 1. A Wasserstein critic is no probability: see :func:`as_probability`.
    """
    noise = float(_probabilities("scores_noise", scores_noise).mean())
    generated = float(_probabilities("scores_generated", scores_generated).mean())
    if not isinstance(scores_real, PrivateTable):
        real = float(_probabilities("scores_real", scores_real).mean()) - 1
        return Overestimation(real=real, noise=noise, generated=generated)
    if account is None or of_sum(account.mechanism).sampling_rate != 1:
        raise InputError("scores_real is private: give an account of Gaussian(…) that pays for it.")
    private = not isinstance(account.mechanism, NoPrivacy)
    if private and (rows is None or generator is None):
        raise InputError("scores_real is private: give rows, declared or noised, and generator.")
    size = positive("rows", rows) if rows is not None else None
    table = scores_real.read(account)
    scores = score(table).detach() if score is not None else table
    if scores.numel() != len(table):
        raise InputError("Expected one score a row; see score.")
    centred = scores.double().flatten().nan_to_num(0.5, 1.0, 0.0).clamp(0, 1) - 0.5
    centred = (centred * 2**24).round() / 2**24  # so that they add up without rounding
    std = account.noise_multiplier / 2
    (total,) = exact(account, [centred.sum()], [std])
    if private:
        assert generator is not None
        total = total.new_tensor(float(noisy(float(total), std, keystream(generator))))
    size = size if size is not None else max(len(table), 1)
    real = min(max(float(total) / size - 0.5, -1.0), 0.0)
    return Overestimation(real=real, noise=noise, generated=generated, std=std / size)


def as_probability(scores: Tensor, midpoint: float = 0.0, scale: float = 1.0) -> Tensor:
    """Return a Wasserstein critic's scores as D(x) = 1/(1 + exp(−(f(x) − midpoint)/scale)), of any shape.

    NOTE[DIFF] The source's D ends in a sigmoid; a critic's score has no zero and no unit. ``midpoint``
    is the score to be taken for as likely real as not, ``scale`` a typical distance from it. Both must
    be public: from public, noise or generated rows, or released with charge. Order is kept.
    """
    return torch.sigmoid((scores - midpoint) / positive("scale", scale))


def _probabilities(name: str, scores: Tensor) -> Tensor:
    if scores.numel() == 0 or not bool(((scores >= 0) & (scores <= 1)).all()):
        raise InputError(
            f"Expected {name} in [0, 1], one or more; for a critic see as_probability."
        )
    return scores.detach().double()
