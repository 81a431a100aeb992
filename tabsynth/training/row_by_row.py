"""Per-example gradients of any module, one row at a time, through opacus.

A network of linear layers goes by factors (:mod:`tabsynth.training.factors`). Any other network sees each row alone, so that
no row can depend on another, whatever the network would do to a batch; its per-example gradients are formed by
:mod:`opacus.grad_sample.functorch`, which takes longer and more memory.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tabsynth.errors import InputError
from tabsynth.training.clipping import PerExampleClipper, Sizes
from tabsynth.training.factors import Losses, NotClosedForm, OneHotRows, inputs_of, one_a_row
from tabsynth.training.sums import LARGEST_FACTOR
from tabsynth.training.units import UnitPlaces

FORMED = 2**25  # numbers of per-example gradients that are held at a time


class RowByRow(nn.Module):
    """A module that scores each row by itself.

    Parameters
    ----------
    module : nn.Module
        From rows, shape (batch, width), to one number a row, shape (batch,) or (batch, 1).
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    @classmethod
    def of(cls, make: Callable[[int], nn.Module], width: int, rng: torch.Generator) -> "RowByRow":
        """Return the module that a callable makes for rows of a width, and try it on made-up rows.

        Its first weights follow from ``rng``; torch's global generator is as it was before.

        Raises
        ------
        InputError
            If the module cannot score one row alone, or its gradients cannot be formed.
        """
        seed = int(torch.randint(2**62, (), generator=rng))
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            try:
                module = make(width)
                if not isinstance(module, nn.Module):
                    raise TypeError(f"it is no torch.nn.Module, but {type(module).__name__}")
                critic = cls(module.float().train())
                critic.check(torch.randn(4, width))
            except Exception as error:  # of code that is not ours
                reason = (str(error).strip() or type(error).__name__).partition("\n")[0]
                raise InputError(
                    f"critic cannot be trained on rows of width {width}, one at a time: {reason}"
                ) from error
        return critic

    def check(self, rows: Tensor) -> None:
        """Refuse a module whose formed gradients are not those of each row alone, whatever was formed before.

        Raises
        ------
        ValueError
        """
        trained = [p for p in self.parameters() if p.requires_grad]
        every = [p for _, p in self.named_parameters(remove_duplicate=False)]
        if not trained:
            raise ValueError("it has no weights that are trained")
        if len(every) > len({id(p) for p in every}):
            raise ValueError("a weight has two names; give each layer weights of its own")
        if any(p.is_complex() for p in every) or any(True for _ in self.buffers()):
            raise ValueError("it has complex weights or buffers; use real weights alone")
        clipper = RowByRowClipper(self)
        for count in (len(rows), 1, len(rows)):
            grads = clipper.gradients(lambda critic, x: critic(x).squeeze(1), rows[:count])
            parts = [part for _, part in grads.parts()]
            formed = [torch.cat(of_one) for of_one in zip(*parts, strict=True)]
            for i in range(count):
                score = self.module(rows[i : i + 1].clone()).sum()
                alone = torch.autograd.grad(score, trained, allow_unused=True)
                for ours, theirs in zip(formed, alone, strict=True):
                    expected = torch.zeros_like(ours[i]) if theirs is None else theirs
                    if not torch.allclose(ours[i], expected, rtol=1e-3, atol=1e-4):
                        raise ValueError("its gradients depend on other rows or on earlier calls")

    def forward(self, rows: Tensor) -> Tensor:
        """Return one score a row, shape (batch, 1)."""
        with sdpa_kernel(SDPBackend.MATH):  # the others go through vmap row by row
            return torch.func.vmap(self._score)(rows.clone())

    def _score(self, row: Tensor) -> Tensor:
        score = cast(Tensor, self.module(row[None]))
        if score.numel() != 1:
            raise ValueError(f"it has {score.numel()} scores for a row; return one")
        return score.reshape(1)


class _Scores(nn.Module):
    """Scores of a module, each as a number of its own that a loss can be differentiated by."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.calls: list[tuple[Tensor, Tensor]] = []

    def forward(self, rows: Tensor) -> Tensor:
        """Return the scores, and keep them with their rows."""
        with torch.no_grad():
            scores = self.module(rows)
        self.calls.append((rows, scores.requires_grad_()))
        return scores


class RowByRowClipper(PerExampleClipper):
    """Clipped gradient sums of a :class:`RowByRow` module.

    Losses are functions of the scores: a loss of their slope, as a gradient penalty, is refused by torch. A formed gradient is
    subtracted from, measured, scaled and added up in float64, row by row, as the proof of
    :mod:`tabsynth.training.sums` has it for one-hot rows.
    """

    def __init__(self, module: nn.Module, ascent: float = 0.0, rows: int = 1) -> None:
        if ascent or rows > 1:
            raise NotClosedForm("formed gradients are neither those of moved weights nor of units")
        super().__init__(module)
        self._looked_up = True  # each row is added up by itself, as one-hot rows are

    @property
    def working(self) -> torch.dtype:
        """The precision in which rows are added up."""
        return torch.float64

    def _find_layers(self) -> list[nn.Linear]:
        return []

    def gradients(self, losses: Losses, inputs: Tensor | OneHotRows) -> "FormedGradients":  # type: ignore[override]
        """Return the gradients of all rows."""
        scores, rows = _Scores(self.module), inputs_of(inputs)
        total = one_a_row(losses(scores, rows), len(rows)).sum()
        slopes = torch.autograd.grad(total, [score for _, score in scores.calls])
        uses = [(x.detach(), slope) for (x, _), slope in zip(scores.calls, slopes, strict=True)]
        return FormedGradients(cast(RowByRow, self.module).module, self.parameters, uses)


class FormedGradients:
    """Per-example gradients of a batch, formed in parts.

    Parameters
    ----------
    module : nn.Module
    parameters : list of Tensor
        Those that are trained.
    uses : list of pairs of Tensor
        Rows, shape (batch, width), and the slope of each row's loss in its score, shape (batch, 1).
    """

    def __init__(
        self, module: nn.Module, parameters: Sequence[Tensor], uses: list[tuple[Tensor, Tensor]]
    ) -> None:
        self.module, self.parameters, self.uses = module, parameters, uses
        self.batch = len(uses[0][0])
        self._whole: list[Tensor] | None = None  # of a batch that is one part

    def parts(self) -> Iterator[tuple[slice, list[Tensor]]]:
        """Yield which rows, and their gradients, a tensor of shape (rows, …) for each parameter."""
        size = max(1, FORMED // max(1, sum(p.numel() for p in self.parameters)))
        for start in range(0, self.batch, size):
            part = slice(start, min(start + size, self.batch))
            if size < self.batch:
                yield part, self._form(part)
            else:
                self._whole = self._whole or self._form(part)
                yield part, self._whole

    def _form(self, part: slice) -> list[Tensor]:
        from opacus.grad_sample.functorch import ft_compute_per_sample_gradient

        total: list[Tensor] | None = None
        for rows, slopes in self.uses:
            with sdpa_kernel(SDPBackend.MATH):
                # Of a new copy of the module each time: opacus would keep one, with what it has stored.
                vars(self.module).pop("ft_compute_sample_grad", None)
                formed = ft_compute_per_sample_gradient(
                    self.module, [rows[part].clone()], slopes[part]
                )
            grads = [formed[p].detach() for p in self.parameters]
            total = grads if total is None else [a + b for a, b in zip(total, grads, strict=True)]
        assert total is not None
        return total

    def first(self, rows: int) -> "FormedGradients":
        """Return the gradients of the first rows alone."""
        uses = [(x[:rows], slope[:rows]) for x, slope in self.uses]
        return FormedGradients(self.module, self.parameters, uses)

    def _differences(
        self, reference: Sequence[Tensor] | None
    ) -> Iterator[tuple[slice, list[Tensor]]]:
        """Yield which rows, and their gradients less the reference, in float64 and of shape (rows, numbers)."""
        for part, grads in self.parts():
            flat = [g.double().flatten(1) for g in grads]
            if reference is not None:
                flat = [g - r.double().flatten() for g, r in zip(flat, reference, strict=True)]
            yield part, flat

    def sizes(
        self,
        clipper: PerExampleClipper,
        reference: Sequence[Tensor] | None,
        units: UnitPlaces | None = None,
        parts: Tensor | None = None,
    ) -> Sizes:
        """Return how large each row's difference from the reference is."""
        squares = self.uses[0][1].new_zeros(self.batch, clipper.group_count, dtype=torch.float64)
        for part, differences in self._differences(reference):
            for j, difference in zip(clipper.groups, differences, strict=True):
                squares[part, j] += difference.square().sum(1)
        norms = squares.sqrt() * (1 + 2.0**-40)
        usable = (norms <= LARGEST_FACTOR).all(1)  # False where one is not a number
        return Sizes(norms, torch.zeros_like(norms), usable)

    def means(self, clipper: PerExampleClipper) -> list[Tensor]:
        """Return the mean gradient, a tensor a parameter, in the working precision."""
        sums = [torch.zeros_like(p) for p in self.parameters]
        for _, grads in self.parts():
            sums = [total + g.sum(0) for total, g in zip(sums, grads, strict=True)]
        return [total / self.batch for total in sums]

    def weighted_sums(
        self,
        clipper: PerExampleClipper,
        scale: Tensor,
        blank: Tensor | None,
        reference: Sequence[Tensor] | None,
    ) -> list[Tensor]:
        """Return Σ scaleᵢ (gᵢ − reference) in float64, a tensor a parameter."""
        sums = [torch.zeros_like(p, dtype=torch.float64) for p in self.parameters]
        for part, differences in self._differences(reference):
            for j, total, difference in zip(clipper.groups, sums, differences, strict=True):
                if blank is not None:
                    difference = difference.masked_fill(blank[part, None], 0)
                total += (scale[part, j] @ difference).reshape(total.shape)
        return sums
