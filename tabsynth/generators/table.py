"""The generator of table rows: noise → logits → codes → value numbers."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth.encoding.layout import Layout
from tabsynth.errors import InputError
from tabsynth.generators.mixture import NOT_ONE, Mixture
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
        rounded: bool = True,
    ) -> None:
        super().__init__()
        self.latent_dim = latent_dim
        self.rounded = rounded
        self.heads = Heads(layout)
        outputs = layout.width if decoder is None else decoder_inputs
        last = None if decoder is None else "tanh"
        self.body = mlp([latent_dim, *hidden, outputs], rng, last=last, norm=norm)
        self.decoder = decoder if decoder is not None else nn.Identity()

    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Set the last bias so that the first rows follow the given one-way distributions."""
        last = self.body if isinstance(self.decoder, nn.Identity) else self.decoder
        set_bias(last, self.heads.layout, marginals)

    def sound(self) -> bool:
        """Whether what is beside the weights can be what it should be; of the weights any may."""
        return True

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
    def sample(
        self,
        rows: int,
        rng: torch.Generator,
        chunk: int = 8192,
        *,
        noise: Callable[[int, torch.Generator], Tensor] | None = None,
    ) -> np.ndarray:
        """Value numbers of ``rows`` generated rows, shape (rows, columns) int64.

        ``noise(rows, rng)`` draws z, in place of :meth:`noise`.

        Given z, columns are independent: where every column is a softmax over its values and
        ``rounded`` is set, the rows are drawn as from a mixture whose components are draws of z, and
        rounded to its pair counts. Else each row is drawn independently, from a z of its own.
        """
        self.eval()
        layout, noise = self.heads.layout, noise or self.noise
        if self.rounded and all(block.head == "softmax" for block in layout.blocks):
            logits = _finite(self.logits(noise(min(rows, MOST_COMPONENTS), rng)))
            components = self.heads(logits, 1.0, None)
            return Mixture(layout, len(components)).set(components).sample(rows, rng)
        parts = []
        for start in range(0, rows, chunk):
            z = noise(min(chunk, rows - start), rng)
            codes = self.heads(_finite(self.logits(z)), 1e-3, rng)
            parts.append(layout.decode(codes.cpu().numpy()))
        return np.concatenate(parts)


def _finite(logits: Tensor) -> Tensor:
    if not torch.isfinite(logits).all():
        raise InputError(
            "The model's weights are so large that it draws no rows: it is damaged, or its training"
            " diverged; fit again with lower learning rates."
        )
    return logits


class ConditionalGenerator(TableGenerator):
    """G(z, c): a generator of rows of a given class; the class is the value of one column.

    Parameters
    ----------
    layout : Layout
    label : int
        The column, whose code is one-hot.
    latent_dim, hidden, rng, decoder, decoder_inputs, norm, rounded
        As of :class:`TableGenerator`.

    Attributes
    ----------
    shares : Tensor, shape (classes,)
        With which classes are drawn: released or public, kept with the weights.
    """

    CERTAIN = 30.0  # logit of a value that is given

    def __init__(
        self,
        layout: Layout,
        label: int,
        latent_dim: int,
        hidden: Sequence[int],
        rng: torch.Generator,
        *,
        decoder: nn.Module | None = None,
        decoder_inputs: int = 0,
        norm: bool = False,
        rounded: bool = True,
    ) -> None:
        block = layout.blocks[label]
        super().__init__(
            layout,
            latent_dim + block.size,
            hidden,
            rng,
            decoder=decoder,
            decoder_inputs=decoder_inputs,
            norm=norm,
            rounded=rounded,
        )
        self._free, self._label = latent_dim, slice(block.start, block.stop)
        self.shares: Tensor
        self.register_buffer("shares", torch.full((block.size,), 1 / block.size))

    def logits(self, z: Tensor) -> Tensor:
        """As :meth:`TableGenerator.logits`, the label's as z says."""
        found = super().logits(z)
        given = (2 * z[:, self._free :] - 1) * self.CERTAIN
        start, stop = self._label.start, self._label.stop
        before, _, after = found.split([start, stop - start, found.shape[1] - stop], dim=1)
        return torch.cat([before, given, after], dim=1)

    def sound(self) -> bool:
        """Whether the shares of the classes are shares."""
        return bool((self.shares >= 0).all()) and abs(float(self.shares.sum()) - 1) < NOT_ONE

    def noise(self, rows: int, rng: torch.Generator) -> Tensor:
        """z ~ N(0, I) and a class by its share, one-hot: shape (rows, latent_dim + classes)."""
        drawn = torch.multinomial(self.shares, rows, replacement=True, generator=rng)
        return self._with_class(drawn, rng)

    def noise_of(self, number: int) -> Callable[[int, torch.Generator], Tensor]:
        """The same of one class."""

        def noise(rows: int, rng: torch.Generator) -> Tensor:
            given = torch.full((rows,), number, device=self.shares.device)
            return self._with_class(given, rng)

        return noise

    def _with_class(self, classes: Tensor, rng: torch.Generator) -> Tensor:
        device = self.shares.device
        z = torch.randn(len(classes), self._free, generator=rng, device=device)
        return torch.cat([z, torch.eye(len(self.shares), device=device)[classes]], dim=1)
