"""The settings of MargNet. Constants that were tuned once stand beside the code that uses them."""

import math
from dataclasses import dataclass

from tabsynth._validate import in_range, integer, widths

CLEAR_DEPENDENCE = 2000.0  # of counts from independence, in variances of the noise for each column
CLEAR_COMPONENTS = 250  # components where the counts differ from independence by that much


@dataclass(frozen=True, kw_only=True)
class MargNetConfig:
    """Settings of MargNet. All of them are public, and none may be chosen by looking at the private rows.

    ``reports/margnet`` shows what the method's parts contribute, and what single settings do.

    Attributes
    ----------
    components : int, optional
        K, the number of rows of the mixture. None: as many as the noisy counts show structure for,
        250 where they clearly differ from independence, at least 200, at most 1,000.
    latent_dim : int
        Length of the learned input of each component.
    hidden : tuple of int
        Widths of the network's hidden layers.
    steps : int
        The maximum number of optimisation steps.
    learning_rate : float
        The highest rate of Adam, which grows in 100 steps and falls to 0 with the last one; at most 1.
    smoothing : float
        From 0 to 1: how far noisy counts of pairs are moved to counts whose departure from independence has its
        singular values shrunk (Gavish and Donoho 2017).
    one_way_share : float
        Share of the privacy budget, in units of 1/σ², of the one-way counts of rows without survey weights.
    scores_share : float
        Share of the privacy budget of the scores of pairs.
    tables_share : float
        Share of the privacy budget of declared tables, where a fit has any, in equal parts for each table and level of its hierarchy. Their
        error is 1/√share times that of counting them alone.
    interactions_share : float
        Share of the privacy budget of noisy sums of signs of all triples, which show what no pair does, such as an exclusive or; 0
        leaves them out. It is up to seven times as much where larger sets have signs too.
    interaction_noise : float
        An interaction of three columns is clear with so many standard deviations of its noise and of chance.
    max_unscored : int
        With more pairs than this, noisy scores of all pairs are released first, and only pairs that are worth
        their noise are counted.
    residual_noise : float
        Share of the noise of counts that is left after a fit to all of them: the cost of counting a pair.
    group_noise : float
        Rarer values are merged into groups of at least this many standard deviations of a pair's counts.
    triples_share : float
        Share of the joint counts' budget for triples, where there are as many triples as pairs; 0 counts none.
    max_cells : int
        Pairs and triples of columns with more cells than this, in groups of values, are not counted, nor tables of all columns.
    prior_share : float
        Share of public rows in a model with a public table; the rest is of their classes and of the mixture.
    largest_drift : float
        A public table is not used whose drift is more than this many times what a fit without it is comparable to.
    memory : int
        MiB for the expected counts of pairs, the same again for those of a triple, and again for the noisy counts of
        all triples. Columns of the most groups are left out of the pairs, and triples that have no room are left
        out, unless the workload names them. Triples are fitted in blocks.
    """

    components: int | None = None
    latent_dim: int = 64
    hidden: tuple[int, ...] = (128,)
    steps: int = 3000
    learning_rate: float = 2e-2
    smoothing: float = 0.5
    one_way_share: float = 0.16
    scores_share: float = 0.025
    tables_share: float = 0.25
    interactions_share: float = 0.005
    interaction_noise: float = 5.0
    max_unscored: int = 66
    residual_noise: float = 0.3
    group_noise: float = 18.0
    triples_share: float = 0.3
    prior_share: float = 0.7
    largest_drift: float = 1.0
    max_cells: int = 1_000_000
    memory: int = 1_024

    def __post_init__(self) -> None:
        """Check the values of the fields."""
        for name in ("latent_dim", "steps", "max_cells", "memory"):
            integer(name, getattr(self, name))
        integer("max_unscored", self.max_unscored, least=0)
        if self.components is not None:
            integer("components", self.components)
        widths("hidden", self.hidden)
        for name in ("prior_share", "smoothing"):
            in_range(name, getattr(self, name), 0, 1)
        in_range("interactions_share", self.interactions_share, 0, 0.3, high_open=True)
        in_range("triples_share", self.triples_share, 0, 1, high_open=True)
        in_range("tables_share", self.tables_share, 0, 1, low_open=True, high_open=True)
        in_range("learning_rate", self.learning_rate, 0, 1, low_open=True)
        for name in ("one_way_share", "scores_share"):
            in_range(name, getattr(self, name), 0, 0.5, low_open=True, high_open=True)
        for name in ("residual_noise", "interaction_noise"):
            in_range(name, getattr(self, name), 0, math.inf, high_open=True)
        for name in ("group_noise", "largest_drift"):
            in_range(name, getattr(self, name), 0, math.inf, low_open=True, high_open=True)

    @property
    def max_triple_cells(self) -> int:
        """Cells of all triples that are counted: exact and noisy counts, then the fit's targets."""
        return self.memory * 2**20 // 16

    @property
    def max_width(self) -> int:
        """Groups of values of all columns whose pairs are counted: five matrices of that width."""
        return math.isqrt(self.memory * 2**20 // 20)

    def rows_of_mixture(self, columns: int, dependence: float = math.inf) -> int:
        """Return K for a table of so many columns, whose counts differ so much from independence; by default the most."""
        max_components = min(1000, max(200, 100 * columns))
        if self.components or not math.isfinite(dependence):
            return self.components or max_components
        shown = CLEAR_COMPONENTS * max(0.0, dependence / CLEAR_DEPENDENCE) ** 0.2
        return min(max_components, max(200, round(shown)))
