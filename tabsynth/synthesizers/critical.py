"""What the GANs with a critic share: its private steps, and the rule by which they are taken."""

from dataclasses import replace
from typing import TypeVar

from tabsynth._validate import one_of
from tabsynth.autoencoder import AutoencoderConfig
from tabsynth.generators.adversarial_config import GENERATED, AdversarialConfig
from tabsynth.synthesizers.gan import GAN
from tabsynth.synthesizers.split import Learned, critic
from tabsynth.training.rules import STEP_RULES

# Private steps after a warm start: what is left of the budget is worth no more, and fewer are quicker.
WARM_CRITIC_STEPS = 400

Configured = TypeVar("Configured", bound=AdversarialConfig | AutoencoderConfig)


class CriticalGAN(GAN):
    """A GAN whose critic is trained with private steps."""

    step_rule: str | None

    def _networks_config(self) -> AdversarialConfig:
        raise NotImplementedError

    def _check(self) -> None:
        one_of("step_rule", self.step_rule, (*STEP_RULES, None))
        super()._check()

    def _learned(self) -> tuple[Learned, ...]:
        config = self._gan()
        # As of Networks.train: a free table stands in for private rows if the critic was warmed up on it.
        free = self._free_rows() if config.warm_steps else None
        return (critic(config, free or GENERATED),)

    def _gan(self) -> AdversarialConfig:
        return self._ruled(self._networks_config())

    def _autoencoder(self) -> AutoencoderConfig | None:
        config = super()._autoencoder()
        return None if config is None else self._ruled(config)

    def _ruled(self, config: Configured) -> Configured:
        """A configuration with the step rule that was asked for, at its own radius."""
        if self.step_rule is None:
            return config
        return replace(config, step_rule=self.step_rule, radius=None)
