"""A GAN's networks in order: the autoencoder, the generator that ends in its decoder, the critic."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tabsynth.autoencoder import Autoencoder, AutoencoderConfig
from tabsynth.encoding.layout import Layout
from tabsynth.generators.anchors import Anchors
from tabsynth.generators.generator_config import GeneratorConfig
from tabsynth.generators.generator_training import GeneratorTraining
from tabsynth.generators.table import TableGenerator
from tabsynth.networks import weights
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account
from tabsynth.privacy.noise import Bits
from tabsynth.synthesizers.split import AUTOENCODER
from tabsynth.training.loop import Watch


class Streams(NamedTuple):
    """Randomness: of first weights; of private rows' coins; of all that is public; of
    noise and batches of the autoencoder, and of what comes after it."""

    init: torch.Generator
    private: torch.Generator
    public: torch.Generator
    coder_noise: Bits
    noise: Bits


@dataclass(frozen=True, kw_only=True)
class Networks:
    """What is trained, and where.

    Attributes
    ----------
    kind : callable
        From configuration, generator, a stream and anchors to what trains the generator.
    gan : GeneratorConfig
    autoencoder : AutoencoderConfig or None
    layout : Layout
    device : torch.device
    learned : tuple of str
        Purposes of the accounts that the generator learns by.
    generator : callable
        Makes the generator.
    """

    kind: Callable[..., GeneratorTraining]
    gan: GeneratorConfig
    autoencoder: AutoencoderConfig | None
    layout: Layout
    device: torch.device
    learned: tuple[str, ...]
    generator: Callable[..., TableGenerator] = TableGenerator

    def train(
        self,
        table: PrivateTable[Tensor],
        accounts: Mapping[str, Account],
        rows: float,
        marginals: Sequence[np.ndarray] | None,
        free: Tensor | None,
        streams: Streams,
        watch: Watch,
        *,
        same_rows: bool,
        most: int | None,
    ) -> GeneratorTraining:
        """Train all of it.

        Parameters
        ----------
        table : PrivateTable of Tensor, shape (n, layout.width)
        accounts : mapping
            Of ``learned``, and of the autoencoder unless it learns from ``free``.
        rows : float
            A public or privatised estimate of n.
        marginals : sequence of ndarray, optional
            One-way distributions that are already released.
        free : Tensor, shape (m, layout.width), optional
            Codes of a table that costs nothing.
        same_rows : bool
            Whether ``free`` was released from the private rows, and not from others.
        most : int, optional
            A cap on the steps that cost nothing.
        """
        autoencoder = self._train_autoencoder(
            table, accounts.get(AUTOENCODER), rows, marginals, free, streams, watch, most
        )
        generator = self.build(streams.init, autoencoder)
        if marginals is not None and autoencoder is None:
            generator.start_from(marginals)
        # Other rows may be distributed otherwise: only pairs of the same rows are held to.
        anchors = Anchors.of(self.layout, marginals, free if same_rows else None, self.gan)
        gan = self.kind(self.gan, generator, streams.init, anchors).to(self.device)
        warm = free is not None and self.gan.warm_steps > 0
        if free is not None and warm:
            cap = self.gan.warm_steps if most is None else most
            if same_rows and self.gan.pair_anchor and self.gan.moment_steps:
                steps = self.gan.moment_steps if most is None else most
                gan.fit_moments(streams.public, watch, steps)
            gan.warm_up(free, rows, streams.public, watch, min(cap, self.gan.warm_steps))
        gan.fit(
            table,
            [accounts[purpose] for purpose in self.learned],
            rows,
            private_rng=streams.private,
            public_rng=streams.public,
            watch=watch,
            standins=free if warm else None,
            most=most,
            bits=streams.noise,
        )
        return gan

    def _train_autoencoder(
        self,
        table: PrivateTable[Tensor],
        account: Account | None,
        rows: float,
        marginals: Sequence[np.ndarray] | None,
        free: Tensor | None,
        streams: Streams,
        watch: Watch,
        most: int | None,
    ) -> Autoencoder | None:
        config = self.autoencoder
        if config is None:
            return None
        model = Autoencoder(config, self.layout, streams.init)
        if marginals is not None:
            model.start_from(marginals)
        model.to(self.device)
        if account is not None:
            model.fit(table, account, rows, streams.private, watch, streams.coder_noise)
        elif free is not None:
            steps = config.steps if most is None else most
            model.fit_free(free, steps, streams.public, watch)
        return model

    def build(self, rng: torch.Generator, autoencoder: Autoencoder | None) -> TableGenerator:
        """An untrained generator, ending in the autoencoder's decoder if there is one."""
        return self.generator(
            self.layout,
            latent_dim=self.gan.latent_dim,
            hidden=self.gan.generator_hidden,
            rng=rng,
            decoder=None if autoencoder is None else autoencoder.decoder,
            decoder_inputs=0 if autoencoder is None else autoencoder.config.latent_dim,
            norm=self.gan.generator_norm,
            rounded=self.gan.rounded,
        )

    def empty(self) -> TableGenerator:
        """A generator for the weights of a file."""
        rng = torch.Generator().manual_seed(0)  # weights are overwritten by those of the file
        config = self.autoencoder
        return self.build(rng, None if config is None else Autoencoder(config, self.layout, rng))

    def size(self) -> int:
        """Number of weights of the generator."""
        widths = (self.gan.latent_dim, *self.gan.generator_hidden)
        if self.autoencoder is None:
            return weights(*widths, self.layout.width)
        code = self.autoencoder.latent_dim
        decoder = weights(code, *self.autoencoder.hidden[::-1], self.layout.width)
        return weights(*widths, code) + decoder
