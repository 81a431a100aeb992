"""The configuration of the PATE systems."""

from dataclasses import dataclass, field

from tabsynth._validate import in_range, integer, one_of, positive, widths
from tabsynth.privacy.accounting.mechanisms import ACCOUNTINGS, EXACT_BINARY
from tabsynth.synthesizers.adversarial.generator import GeneratorConfig
from tabsynth.synthesizers.method import check_parts


@dataclass(frozen=True, kw_only=True)
class MarginalsConfig:
    """Teachers that vote on two-way marginals; see :mod:`tabsynth.synthesizers.pate.pairs`.

    Attributes
    ----------
    functions : int
        The largest number of functions of a column.
    features : int
        The largest number of products of functions of two columns.
    """

    functions: int = 8
    features: int = 1200

    def __post_init__(self) -> None:
        """Check the settings."""
        integer("marginals.functions", self.functions)
        integer("marginals.features", self.features)


@dataclass(frozen=True, kw_only=True)
class NetworksConfig:
    """Teachers and student that are networks; see :mod:`tabsynth.synthesizers.pate.teachers`.

    Attributes
    ----------
    teacher_hidden, student_hidden : tuple of int
        Widths of the hidden layers.
    teacher_steps, student_steps : int
        Steps of a round.
    teacher_batch, student_batch : int
        Rows of a step; of each teacher's own shard.
    lr : float
        The rate of Adam, of teachers and student.
    """

    teacher_hidden: tuple[int, ...] = (16,)
    student_hidden: tuple[int, ...] = (128,)
    teacher_steps: int = 50
    student_steps: int = 200
    teacher_batch: int = 8
    student_batch: int = 128
    lr: float = 1e-3

    def __post_init__(self) -> None:
        """Check the settings."""
        for name in ("teacher_hidden", "student_hidden"):
            widths(f"networks.{name}", getattr(self, name))
        for name in ("teacher_steps", "student_steps", "teacher_batch"):
            integer(f"networks.{name}", getattr(self, name))
        integer("networks.student_batch", self.student_batch, least=2)  # it is normalised by batch
        positive("networks.lr", self.lr)


@dataclass(frozen=True, kw_only=True)
class PATEConfig:
    """The configuration of PATE-GAN and PATE-ACGAN. All of it is public.

    Attributes
    ----------
    generator : GeneratorConfig
    marginals : MarginalsConfig
        For teachers that vote on marginals.
    networks : NetworksConfig
        For teachers that are networks.
    queries : int
        Questions that are answered with noise, in all: fixed before the first is asked.
    max_noise : float, optional
        The largest noise of a count of votes, as a share of the teachers. Where the budget asks for more, there are
        fewer questions, though at least one a round. None: whatever ``queries`` ask for.
    accounting : {"exact-binary", "gaussian", "laplace"}
        See :class:`tabsynth.privacy.accounting.mechanisms.NoisyVote`.
    rounds : int
        Rounds of teachers, questions and student; the generator moves on after each.
    round_steps : int
        Generator steps of a round.
    start_from_counts : bool
        Whether noisy one-way counts are measured, and the generator starts from them. Teachers that vote on marginals,
        and PATE-ACGAN, always need them.
    """

    generator: GeneratorConfig = field(default_factory=lambda: GeneratorConfig(averaging=0.99))
    marginals: MarginalsConfig = field(default_factory=MarginalsConfig)
    networks: NetworksConfig = field(default_factory=NetworksConfig)
    queries: int = 20_000
    max_noise: float | None = None
    accounting: str = EXACT_BINARY
    rounds: int = 2
    round_steps: int = 300
    start_from_counts: bool = True

    def __post_init__(self) -> None:
        """Check the settings."""
        check_parts(self)
        one_of("accounting", self.accounting, ACCOUNTINGS)
        for name in ("queries", "rounds", "round_steps"):
            integer(name, getattr(self, name))
        in_range("rounds", self.rounds, 1, self.queries)
        if self.max_noise is not None:
            positive("max_noise", self.max_noise)
        one_of("start_from_counts", self.start_from_counts, (True, False))


def networks_config() -> PATEConfig:
    """Return the settings of teachers and student that are networks, after Jordon et al. 2019.

    NOTE[DIFF] The paper has a noise of its own for each vote, and labels follow from ε. Here too: the noise is at most 0.15
    of the teachers, with which 95% of the votes are right where three quarters of them agree. But by its bound the
    paper's n/1000 teachers afford no label; teachers are as many as the planner recommends.
    NOTE[DIFF] Votes are charged by the exact cost of a binary vote, which buys more labels than Laplace noise on both counts
    with the paper's bound; ``accounting="laplace"`` is the paper's.
    NOTE[DIFF] The generator starts from noisy one-way counts and holds to them. What PATE-GAN by networks has over
    independent columns at ε = 8 and below is the work of these counts (reports/pate).
    NOTE[DIFF] Teachers have 16 hidden units: linear ones tell single columns apart, and no pairs.
    NOTE[DIFF] Codes are one-hot, not one number in [0, 1] a column, which does worse on categories;
    ``network_encoding="ordinal"`` is nearest to the paper's.
    """
    return PATEConfig(
        generator=GeneratorConfig(
            latent="uniform", xavier=True, anchor=1000.0, averaging=0.99, pair_anchor=0.0
        ),
        networks=NetworksConfig(
            teacher_hidden=(16,),
            teacher_steps=20,
            teacher_batch=16,
            student_steps=100,
            lr=1e-2,
        ),
        max_noise=0.15,
        rounds=20,
        round_steps=40,
    )
