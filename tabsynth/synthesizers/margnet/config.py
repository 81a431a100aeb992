"""What MargNet is made of."""

import math
from dataclasses import dataclass

from tabsynth._validate import between, integer, shown, widths
from tabsynth.errors import InputError


@dataclass(frozen=True, kw_only=True)
class MargNetConfig:
    """What MargNet is made of. All of it is public.

    Attributes
    ----------
    components : int, optional
        K, the rows of the mixture; None: 100 a column, 200 to 1,000.
    latent_dim : int
        Length of the input of each row; the inputs are learned.
    hidden : tuple of int
    bumps : tuple of float
        Widths (standard deviations) of the bumps that ordered columns are made of, as shares of the
        number of values.
    steps : int
        At most. A fit plans two thirds of them where the counts show little beyond independence, and
        stops before where it is done.
    learning_rate : float
        The highest of the one-cycle schedule of Adam; at most 1.
    stop : float
        The fit is done where its squared error is no more than the noise would make, less this many
        standard deviations: where the mean over cells, in units of the noise's variance, has come
        down to 1 - stop · √(2 / cells).
    patience : int
        The fit is done, too, where this many steps have brought the error down by no more than a
        hundredth: the table has fewer relations than the mixture has room for.
    onward : float
        For how many times the steps it took to be done the fit goes on then, times the part of its weight
        that entropy has, as the learning rate falls to 0. That gives better predictors; 0 stops at once, in a
        third to a half of the time.
    entropy : float
        Weight of the rows' entropy, mean over columns: of all mixtures that explain the counts, the
        fit leans to one that says little beyond them. It is less, down to a tenth, where the counts
        show little beyond independence, up to twice as much past the noise, and falls to 0 with the last step.
    smoothing : float
        From 0 to 1: how far noisy counts of pairs are moved to what is left of them when the singular
        values of their departure from independence are shrunk as noise would have it. Pairs of very
        little or very much noise stay.
    max_cells : int
        Pairs and triples of columns with more cells than this, in groups of values, are not counted.
    memory : int
        MiB for the counts of pairs that the mixture expects, again for those of a triple, and again for
        the noisy counts of all triples. Where all columns together have too many groups of values, the
        largest are counted only by themselves; of triples the first are counted that have room. What a
        workload names is counted in any case. Triples are fitted in blocks.
    max_unscored : int
        With more pairs than this, a part of the budget goes to noisy scores of all of them first, and
        only the pairs that are worth their noise are counted.
    """

    components: int | None = None
    latent_dim: int = 64
    hidden: tuple[int, ...] = (128,)
    bumps: tuple[float, ...] = (0.01, 0.04)
    steps: int = 3000
    learning_rate: float = 1e-2
    stop: float = 1.75
    patience: int = 300
    onward: float = 2.0
    entropy: float = 1.0
    smoothing: float = 0.5
    max_cells: int = 1_000_000
    memory: int = 1_024
    max_unscored: int = 66

    def __post_init__(self) -> None:
        for name in ("latent_dim", "steps", "patience", "max_cells", "memory"):
            integer(name, getattr(self, name))
        integer("max_unscored", self.max_unscored, least=0)
        if self.components is not None:
            integer("components", self.components)
        widths("hidden", self.hidden)
        if not isinstance(self.bumps, list | tuple):
            raise InputError(f"Expected bumps to be a tuple of shares, got {shown(self.bumps)}.")
        for width in self.bumps:
            between("bumps", width, 0, 1, low_open=True)
        between("smoothing", self.smoothing, 0, 1)
        between("learning_rate", self.learning_rate, 0, 1, low_open=True)
        for name in ("stop", "onward", "entropy"):
            between(name, getattr(self, name), 0, math.inf, high_open=True)

    @property
    def max_triple_cells(self) -> int:
        """Cells of all triples that are counted: exact and noisy counts, then the fit's targets."""
        return self.memory * 2**20 // 16

    @property
    def max_width(self) -> int:
        """Groups of values of all columns whose pairs are counted: five matrices of that width."""
        return math.isqrt(self.memory * 2**20 // 20)

    def rows_of_mixture(self, columns: int) -> int:
        """K for a table of so many columns."""
        return self.components or min(1000, max(200, 100 * columns))
