"""The generator of table rows: noise → logits → codes → value numbers."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth.encoding.layout import Layout
from tabsynth.generators.mixture import Mixture
from tabsynth.networks import Heads, mlp, set_bias

MOST_COMPONENTS = 8192  # draws of z for one sample


class TableGenerator(nn.Module):
    """z → logits → codes: an MLP, then the autoencoder's decoder if there is one, then the heads."""

    def __init__(
        self,
        layout: Layout,
        latent_dim: int,
        hidden: Sequence[int],
        rng: torch.Generator,
        *,
        decoder: nn.Module | None = None,
        decoder_inputs: int = 0,
        norm: bool = False,
    ) -> None:
        super().__init__()
        self.latent_dim = latent_dim
        self.heads = Heads(layout)
        outputs = layout.width if decoder is None else decoder_inputs
        last = None if decoder is None else "tanh"
        self.body = mlp([latent_dim, *hidden, outputs], rng, last=last, norm=norm)
        self.decoder = decoder if decoder is not None else nn.Identity()

    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Set the last bias so that the first rows follow the given one-way distributions."""
        last = self.body if isinstance(self.decoder, nn.Identity) else self.decoder
        set_bias(last, self.heads.layout, marginals)

    def logits(self, z: Tensor) -> Tensor:
        """Logits of a batch of noise, shape (batch, layout.width)."""
        return self.decoder(self.body(z))

    def forward(self, z: Tensor, temperature: float, rng: torch.Generator) -> Tensor:
        """Codes of a batch of noise, shape (batch, layout.width)."""
        return self.heads(self.logits(z), temperature, rng)

    def noise(self, rows: int, rng: torch.Generator) -> Tensor:
        """z ~ N(0, I), shape (rows, latent_dim)."""
        device = next(self.parameters()).device
        return torch.randn(rows, self.latent_dim, generator=rng, device=device)

    @torch.no_grad()
    def sample(self, rows: int, rng: torch.Generator, chunk: int = 8192) -> np.ndarray:
        """Value numbers of ``rows`` generated rows, shape (rows, columns) int64.

        Given z, columns are independent: where every column is a softmax over its values, the rows
        are drawn as from a mixture whose components are draws of z, and rounded to its pair counts.
        """
        self.eval()
        layout = self.heads.layout
        if all(block.head == "softmax" for block in layout.blocks):
            logits = self.logits(self.noise(min(rows, MOST_COMPONENTS), rng))
            components = self.heads(logits, 1.0, None)
            return Mixture(layout, len(components)).set(components).sample(rows, rng)
        parts = []
        for start in range(0, rows, chunk):
            z = self.noise(min(chunk, rows - start), rng)
            codes = self.heads(self.logits(z), 1e-3, rng)
            parts.append(layout.decode(codes.cpu().numpy()))
        return np.concatenate(parts)
