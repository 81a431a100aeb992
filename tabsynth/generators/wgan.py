"""DP-WGAN: Xie et al. 2018, "Differentially Private Generative Adversarial Network" (DPGAN).

Algorithm 1 as the Maryland census document gives it (Jutras-Dubé), with its errors corrected:

NOTE[DIFF] Batches are Poisson samples, as the accountant assumes, not fixed-size draws.
NOTE[DIFF] Each example's gradient is clipped at C. The paper relies on weight clipping to bound
gradients; that bound is far above any useful C, and weight clipping never stands in for it (R2).
NOTE[DIFF] The generator steps with its own rate α_g; the box prints α_d.
NOTE[DIFF] The default preset sets a real row against the mean of a batch of generated rows, not against
one of them (see :mod:`tabsynth.generators.adversarial`), and its bound C follows the gradient norms of
generated rows. Preset ``source`` pairs each real row with one generated row, as line 5 of the box does,
and its C is fixed.
NOTE[DIFF] The default preset starts the generator from noisy one-way counts, holds its mean code to them
(``anchor``) and samples from the average of its weights: all of it post-processing of what is already
released, and worth more than the steps that the counts cost. Preset ``source`` does none of it.
NOTE[DIFF] In preset ``source`` codes are ranks scaled to [0, 1], and a sigmoid ends the decoder, whose loss
is a cross-entropy; a generated number is decoded to the nearest rank. The document names neither scale nor
loss, and its list of activations leaves ReLU for the decoder's last layer. A null is the last rank.
NOTE[DIFF] ε is that of all steps composed; the paper's σ_n = 2q√(n_d ln(1/δ))/ε is for one.
"""

from dataclasses import dataclass
from typing import Any

import torch

from tabsynth._validate import positive
from tabsynth.generators.adversarial import Adversarial
from tabsynth.generators.adversarial_config import AdversarialConfig


@dataclass(frozen=True, kw_only=True)
class WGANConfig(AdversarialConfig):
    """What DP-WGAN is made of. All of it is public.

    Attributes
    ----------
    weight_clip : float
        c_p: critic weights stay in [-c_p, c_p].
    others
        See :class:`tabsynth.generators.adversarial_config.AdversarialConfig`.
    """

    weight_clip: float = 0.03

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("weight_clip", self.weight_clip)

    def stated(self) -> dict[str, Any]:
        """The bound of the critic's weights."""
        return {"weight_clip": self.weight_clip}


def source_wgan(rows: int) -> WGANConfig:
    """The document's appendix A: z 100, hidden 128 and 64, RMSProp 1e-5, batch 16, 25 epochs.

    The document bounds gradients by c_g of its Lemma 1 and gives no value. For this critic on codes of
    d columns, in [0, 1] and one number each, the lemma gives
    c_g = c_p √64 √((d + 1)² + d + 1) for a pair of rows: 0.92 for ten columns. C = 1 is the round number
    above it, so that the clip cuts nothing there, as the document intends. Larger tables may be cut.

    Parameters
    ----------
    rows : int
        A public number of rows; it sets the sampling rate and the number of steps.
    """
    batch = 16
    return WGANConfig(
        latent_dim=100,
        generator_hidden=(128,),
        critic_hidden=(64,),
        critic_activation="relu",
        generator_norm=False,
        sampling_rate=min(1.0, batch / rows),
        critic_steps=max(1, 25 * rows // batch),
        critic_per_generator=5,
        max_norm=1.0,
        bound="fixed",
        centred=False,
        weight_clip=0.01,
        critic_lr=1e-5,
        generator_lr=1e-5,
        temperature=1.0,
        averaging=0.0,
        anchor=0.0,
        warm_steps=0,
        pair_anchor=0.0,
        moment_steps=0,
        rounded=False,
    )


class WGAN(Adversarial):
    """The critic's loss of a real row is −f(x), and its weights are clipped after each step."""

    config: WGANConfig

    @torch.no_grad()
    def after_critic_step(self) -> None:
        """Keep the critic's parameters in [-c_p, c_p]: a crude Lipschitz bound, not a privacy one."""
        bound = self.config.weight_clip
        for parameter in self.critic.parameters():
            parameter.clamp_(-bound, bound)
