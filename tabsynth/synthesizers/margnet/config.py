"""The settings of MargNet: every tuned constant of the method is a field, with its default and its effect."""

import math
from dataclasses import dataclass

from tabsynth._validate import between, integer, widths


@dataclass(frozen=True, kw_only=True)
class MargNetConfig:
    """Settings of MargNet. All of them are public, and none may be chosen by looking at the private rows.

    ``reports/margnet`` shows what the method's parts contribute, and ``reports/margnet/ablations.csv`` what
    single settings do.

    Attributes
    ----------
    components : int, optional
        K, the number of rows of the mixture. None: as many as the noisy counts show structure for, see ``clear_components``.
    clear_components : int
        K where the counts differ from independence by ``clear_dependence``. It grows with the fifth root of that
        difference; it is at least 200, at most 1,000, and at most 100 for each column of more than two.
    latent_dim : int
        Length of the learned input of each component.
    hidden : tuple of int
        Widths of the network's hidden layers.
    steps : int
        The maximum number of optimisation steps.
    learning_rate : float
        The highest rate of the one-cycle schedule of Adam; at most 1.
    continuation : float
        After the mean squared error of the counts has come down to the variance of their noise, the fit continues for this many times the steps so far, scaled like the
        weight of entropy, while the learning rate falls to 0. 0 ends the fit at once.
    entropy : float
        Weight of the mean entropy of the components in the loss. It falls linearly to 0 with the last step, and is
        up to twice as large after the fit has reached the noise.
    min_entropy : float
        The smallest share of that weight, where the counts show nothing beyond independence.
    clear_dependence : float
        The excess of the counts over independence, in variances of the noise for each column, from which entropy
        has its whole weight.
    noisy_dependence : float
        The same excess, below which entropy weighs twice as much after the fit has reached the noise; with more, the
        weight falls towards once.
    smoothing : float
        From 0 to 1: how far noisy counts of pairs are moved to counts whose departure from independence has its
        singular values shrunk (Gavish and Donoho 2017).
    max_smoothing_noise : float
        Only pairs whose largest singular value of pure noise is at most this share of the rows are smoothed.
    one_way_share : float
        Share of the privacy budget, in units of 1/σ², of the one-way counts.
    weighted_one_way_share : float
        The same where rows have survey weights: the size of the population follows from the counts of their classes.
    scores_share : float
        Share of the privacy budget of the scores of pairs.
    tables_share : float
        Share of the privacy budget of declared tables, where a fit has any, in equal parts for each table and level of its hierarchy. Their
        error is 1/√share times that of counting them alone.
    interactions_share : float
        Share of the privacy budget of noisy sums of signs of all triples, which show what no pair does, such as an exclusive or; 0
        leaves them out.
    max_interactions : int
        With more triples than this they are left out: by default with more than 19 columns.
    interaction_noise : float
        An interaction of three columns is clear with so many standard deviations of its noise and of chance.
    least_interaction : float
        A triple is counted for an interaction of at least this share of the rows, in L1/2.
    max_unscored : int
        With more pairs than this, noisy scores of all pairs are released first, and only pairs that are worth
        their noise are counted.
    tree_weight : float
        Weight of the errors of pairs in the maximum spanning tree of the scores, so of the strongest pairs that connect all columns; others
        weigh 1.
    tree_noise : float
        Mean L1/2 noise of the counts of pairs, as a share of the rows, up to which pairs of the tree weigh 1, too.
    residual_noise : float
        Share of the noise of counts that is left after a fit to all of them: the cost of counting a pair.
    group_noise : float
        Rarer values are merged into groups of at least this many standard deviations of a pair's counts.
    pairs_per_column : float
        The noise of a pair's counts is, for the groups, that of so many pairs for each column, or of all pairs if
        these are fewer.
    max_merged_in_triples : float
        The largest share of all rows whose values of an unordered column are merged in counts of triples.
    max_group : float
        Share of the rows: an unordered value of more is never merged in counts of pairs, and a group of values needs no more.
    max_group_in_triples : float
        The same in counts of triples.
    one_way_noise : float
        Mean L1/2 noise of a column's counts, as a share of the rows, above which columns are counted again.
    triples_share : float
        Share of the joint counts' budget for triples, where there are as many triples as pairs; 0 counts none.
    triples_noise : float
        Triples are counted where their mean L1 noise is at most this share of the rows.
    max_triples : int
        The maximum number of triples.
    weights_importance : float
        Weight of the errors of counts with the classes of survey weights, where the schema declares one.
    weight_groups : int
        Groups of these classes in counts with other columns.
    workload_weight : float
        Weight of the errors of the sets in ``workload``, and of the target's pairs; other sets weigh 1.
    rows_tolerance : float
        A declared number of rows is rejected where the noisy counts differ by more standard deviations than this.
    zero_steps : int
        Optimisation steps against rows that the schema declares impossible, after the others. Without them the
        values whose rows are often impossible become rare.
    zero_rate : float
        Their highest learning rate, as a share of ``learning_rate``.
    counts_time : float
        Share of a time limit for the other steps, where the schema declares impossible rows.
    max_cells : int
        Pairs and triples of columns with more cells than this, in groups of values, are not counted.
    prior_share : float
        Share of public rows in a model with a public table; the rest is of their classes and of the mixture.
    prior_unexplained : float
        The budget of joint counts follows a public table whose drift, in noisy sums of signs, is at most this share of that of
        independent columns. 0: it never does.
    prior_group_noise : float
        Where it does, this takes the place of ``group_noise`` in counts of pairs.
    prior_least_share : float
        Where it does, each set has at least this part of its share of the budget without a public table.
    prior_classes : int
        Latent classes of public rows.
    mixture_drift : float
        The drift that the error of a mixture without noise is comparable to; see ``margnet.prior``.
    largest_drift : float
        A public table is not used whose drift is more than this many times what a fit without it is comparable to.
    prior_group : float
        Share of the public rows that groups of values hold at least, where the mixture is fitted with a public table.
    prior_steps : int
        The maximum number of steps in which public rows are weighted.
    max_public : int
        Public rows that are used, drawn at random where there are more.
    memory : int
        MiB for the expected counts of pairs, the same again for those of a triple, and again for the noisy counts of
        all triples. Columns of the most groups are left out of the pairs, and triples that have no room are left
        out, unless the workload names them. Triples are fitted in blocks.
    """

    components: int | None = None
    clear_components: int = 250
    latent_dim: int = 64
    hidden: tuple[int, ...] = (128,)
    steps: int = 3000
    learning_rate: float = 1e-2
    continuation: float = 2.0
    entropy: float = 1.0
    min_entropy: float = 0.1
    clear_dependence: float = 2000.0
    noisy_dependence: float = 50_000.0
    smoothing: float = 0.5
    max_smoothing_noise: float = 0.1
    one_way_share: float = 0.08
    weighted_one_way_share: float = 0.15
    scores_share: float = 0.025
    tables_share: float = 0.25
    interactions_share: float = 0.005
    max_interactions: int = 1000
    interaction_noise: float = 5.0
    least_interaction: float = 0.1
    max_unscored: int = 66
    tree_weight: float = 5.0
    tree_noise: float = 0.05
    residual_noise: float = 0.3
    group_noise: float = 18.0
    pairs_per_column: float = 3.0
    max_merged_in_triples: float = 0.5
    max_group: float = 0.03
    max_group_in_triples: float = 0.05
    one_way_noise: float = 0.03
    triples_share: float = 0.3
    triples_noise: float = 0.3
    max_triples: int = 120
    weights_importance: float = 15.0
    weight_groups: int = 5
    workload_weight: float = 15.0
    rows_tolerance: float = 6.0
    zero_steps: int = 300
    zero_rate: float = 0.3
    counts_time: float = 0.7
    prior_share: float = 0.7
    prior_unexplained: float = 0.3
    prior_group_noise: float = 9.0
    prior_least_share: float = 0.2
    prior_classes: int = 100
    mixture_drift: float = 3.0
    largest_drift: float = 1.0
    prior_group: float = 0.002
    prior_steps: int = 150
    max_public: int = 50_000
    max_cells: int = 1_000_000
    memory: int = 1_024

    def __post_init__(self) -> None:
        for name in (
            "clear_components",
            "latent_dim",
            "steps",
            "zero_steps",
            "prior_classes",
            "prior_steps",
            "max_public",
            "max_cells",
            "memory",
        ):
            integer(name, getattr(self, name))
        for name in ("max_unscored", "max_triples", "max_interactions"):
            integer(name, getattr(self, name), least=0)
        integer("weight_groups", self.weight_groups, least=2)
        if self.components is not None:
            integer("components", self.components)
        widths("hidden", self.hidden)
        for name in (
            "prior_share",
            "prior_group",
            "prior_least_share",
            "smoothing",
            "min_entropy",
            "max_merged_in_triples",
            "max_group",
            "max_group_in_triples",
            "least_interaction",
        ):
            between(name, getattr(self, name), 0, 1)
        between("interactions_share", self.interactions_share, 0, 0.3, high_open=True)
        between("triples_share", self.triples_share, 0, 1, high_open=True)
        between("tables_share", self.tables_share, 0, 1, low_open=True, high_open=True)
        for name in ("learning_rate", "zero_rate", "counts_time"):
            between(name, getattr(self, name), 0, 1, low_open=True)
        for name in ("one_way_share", "weighted_one_way_share", "scores_share"):
            between(name, getattr(self, name), 0, 0.5, low_open=True, high_open=True)
        for name in (
            "continuation",
            "entropy",
            "residual_noise",
            "prior_unexplained",
            "triples_noise",
            "rows_tolerance",
            "interaction_noise",
            "tree_noise",
        ):
            between(name, getattr(self, name), 0, math.inf, high_open=True)
        between("max_smoothing_noise", self.max_smoothing_noise, 0, math.inf)
        for name in (
            "clear_dependence", "noisy_dependence", "group_noise", "pairs_per_column", "one_way_noise",
            "workload_weight", "weights_importance", "tree_weight", "mixture_drift", "largest_drift", "prior_group_noise",
        ):  # fmt: skip
            between(name, getattr(self, name), 0, math.inf, low_open=True, high_open=True)

    @property
    def max_triple_cells(self) -> int:
        """Cells of all triples that are counted: exact and noisy counts, then the fit's targets."""
        return self.memory * 2**20 // 16

    @property
    def max_width(self) -> int:
        """Groups of values of all columns whose pairs are counted: five matrices of that width."""
        return math.isqrt(self.memory * 2**20 // 20)

    def rows_of_mixture(self, columns: int, dependence: float = math.inf) -> int:
        """K for a table of so many columns, whose counts differ so much from independence; by default the most."""
        most = min(1000, max(200, 100 * columns))
        if self.components or not math.isfinite(dependence):
            return self.components or most
        shown = self.clear_components * max(0.0, dependence / self.clear_dependence) ** 0.2
        return min(most, max(200, round(shown)))
