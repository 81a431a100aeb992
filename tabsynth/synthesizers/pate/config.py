"""What the PATE systems are made of."""

from dataclasses import dataclass
from typing import Any

from tabsynth._validate import between, integer, one_of, positive, widths
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import ACCOUNTINGS, EXACT_BINARY
from tabsynth.synthesizers.gan.generator import GeneratorConfig
from tabsynth.training.networks import OPTIMIZERS

KINDS = ("witness", "network")


@dataclass(frozen=True, kw_only=True)
class PATEConfig(GeneratorConfig):
    """What PATE-GAN and PATE-ACGAN are made of. All of it is public.

    Attributes
    ----------
    kind : {"witness", "network"}
        Teachers, student and generator's loss: those of :mod:`tabsynth.synthesizers.pate.pairs`, or
        the paper's networks, :mod:`tabsynth.synthesizers.pate.teachers`.
    labels : int
        Questions that are answered with noise, in all: fixed before the first is asked.
    accounting : {"exact-binary", "gaussian", "laplace"}
        See :class:`tabsynth.privacy.accounting.mechanisms.NoisyVote`.
    rounds : int
        Rounds of teachers, questions and student; the generator moves on after each.
    round_steps : int
        Generator steps of a round.
    functions : int
        Of ``witness``: functions of a column, at most.
    features : int
        Of ``witness``: products of functions of two columns, at most.
    teacher_hidden, student_hidden : tuple of int
        Of ``network``.
    teacher_steps, student_steps : int
        Of ``network``: steps of a round.
    teacher_batch, student_batch : int
        Of ``network``: rows of a step; of each teacher's own shard.
    network_lr, network_optimizer : float, str
        Of ``network``: of teachers and student.
    others
        See :class:`tabsynth.synthesizers.gan.generator.GeneratorConfig`.
    """

    kind: str = "witness"
    labels: int = 20_000
    accounting: str = EXACT_BINARY
    rounds: int = 2
    round_steps: int = 300
    functions: int = 8
    features: int = 1200
    teacher_hidden: tuple[int, ...] = (16,)
    student_hidden: tuple[int, ...] = (128,)
    teacher_steps: int = 50
    student_steps: int = 200
    teacher_batch: int = 8
    student_batch: int = 128
    network_lr: float = 1e-3
    network_optimizer: str = "adam"
    averaging: float = 0.99
    anchor: float = 1.0
    warm_steps: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("kind", self.kind, KINDS)
        one_of("accounting", self.accounting, ACCOUNTINGS)
        for name in ("labels", "rounds", "round_steps", "functions", "features"):
            integer(name, getattr(self, name))
        for name in ("teacher_hidden", "student_hidden"):
            widths(name, getattr(self, name))
        for name in ("teacher_steps", "student_steps", "teacher_batch"):
            integer(name, getattr(self, name))
        integer("student_batch", self.student_batch, least=2)  # it is normalised by batch
        positive("network_lr", self.network_lr)
        one_of("network_optimizer", self.network_optimizer, tuple(OPTIMIZERS))
        between("rounds", self.rounds, 1, self.labels)
        if self.kind == "witness" and not self.pair_anchor:
            raise InputError(
                "pair_anchor=0 would throw away what witness teachers are paid for; give it a weight."
            )

    def stated(self) -> dict[str, Any]:
        """What teachers and student are: witnesses, or networks."""
        return {"kind": self.kind}


def paper_config() -> PATEConfig:
    """Jordon et al. 2019: rounds of n_T = n_S = 5 steps and one of the generator, batches of 64, Laplace.

    Each student step pays for 64 labels of its own, and the generator moves by RMSProp at 1e-4, as in the
    authors' code of 2020. At 5e-4 teachers and student cannot follow it, and its rows collapse.

    NOTE[DIFF] Teachers are networks in the text, and logistic regressions in the authors' code, fitted again
    in each round. These are logistic regressions that continue from round to round, by Adam at a rate that
    follows the generator. Networks of 16 or 64 units memorised shards of 1,000 rows.
    NOTE[DIFF] The student is that of the text, by cross-entropy. The code's is linear in its loss, with
    weights clipped to 0.01; with the code's generator it did not learn without noise either.
    NOTE[DIFF] A student step draws its batch from the labels of its round, not from 64 of them.
    NOTE[DIFF] Codes are one-hot, not one number in [0, 1] a column, which does worse on categories;
    ``encoding="ordinal"`` is nearest to the paper's.
    NOTE[DIFF] z is normal, not uniform, and weights start as in torch, not by Xavier's rule. Neither
    changes the result without noise (reports/pate).
    """
    return PATEConfig(
        kind="network",
        labels=64_000,
        accounting="laplace",
        rounds=200,
        round_steps=1,
        teacher_hidden=(),
        teacher_steps=5,
        student_steps=5,
        teacher_batch=64,
        student_batch=64,
        network_lr=1e-2,
        generator_lr=1e-4,
        generator_norm=False,
        anchor=0.0,
        averaging=0.0,
        warm_steps=0,
        pair_anchor=0.0,
        moment_steps=0,
    )
