"""PATEGAN: a generator that learns from the noisy votes of teachers on disjoint shards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

from tabsynth._validate import integer, one_of
from tabsynth.encoding import Layout
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.labels import LEAST_ROWS, LEAST_ROWS_EACH, plan_labels, share_right
from tabsynth.privacy.accounting.mechanisms import MOST_TEACHERS, NoisyVote
from tabsynth.synthesizers.base import NOMINAL_ROWS
from tabsynth.synthesizers.fitting import PlannedSpend
from tabsynth.synthesizers.gan.estimator import COUNT, GAN, TOTAL, Networks, TrainingMechanism
from tabsynth.synthesizers.gan.generator import GeneratorTraining, TableGenerator
from tabsynth.synthesizers.pate.aggregation import VOTES
from tabsynth.synthesizers.pate.config import PATEConfig, paper_config
from tabsynth.synthesizers.pate.pairs import PATEWitness
from tabsynth.synthesizers.pate.rounds import PATE, EnsembleSettings
from tabsynth.synthesizers.pate.teachers import PATENetworks

PRESETS = ("default", "paper")
PAPER_ROWS_EACH = 1000  # of a teacher: the paper's best of n/50 … n/5000
MOST_EPSILON = 100.0  # for the number of teachers: beyond, a budget is as good as none
SURE = 0.75  # consensus of teachers at which the plan states the share of correct labels …
VOID = 0.55  # … if that is less


@dataclass(kw_only=True, eq=False, repr=False)
class Voting(GAN):
    """A GAN whose student learns from the noisy votes of teachers."""

    networks, config_class = PATE, PATEConfig

    preset: str = "default"
    teachers: int | None = None
    labels: int | None = None
    config: PATEConfig | None = None

    def _check(self) -> None:
        one_of("preset", self.preset, PRESETS)
        super()._check()
        if self.teachers is not None:
            integer("teachers", self.teachers, least=2)  # one teacher is no majority
            if self.teachers > MOST_TEACHERS:
                raise InputError(
                    f"Expected teachers of at most {MOST_TEACHERS:,}, got {self.teachers:,}."
                )
            if self.rows is not None and self.teachers > self.rows:
                raise InputError(
                    f"Expected teachers of at most rows={self.rows:,}, got {self.teachers:,}: each needs"
                    " a record."
                )
        if self.labels is not None:
            integer("labels", self.labels)
            if self.labels < self._preset_config().rounds:
                raise InputError(
                    f"Expected labels of at least {self._preset_config().rounds}, one a round; got"
                    f" {self.labels}."
                )

    def _preset_config(self) -> PATEConfig:
        """The configuration but for the number of labels."""
        if self.config is None and self.preset == "paper":
            return paper_config()
        return self.config or PATEConfig()

    def _networks_config(self) -> PATEConfig:
        config = self._preset_config()
        return config if self.labels is None else replace(config, labels=self.labels)

    def _teachers(self) -> int:
        """K: as given, else what the preset takes for the declared rows, or for a nominal number."""
        if self.teachers is not None:
            return int(self.teachers)
        rows = int(self.rows or NOMINAL_ROWS)
        if self.preset == "paper":
            return min(max(2, rows // PAPER_ROWS_EACH), MOST_TEACHERS)
        return recommended(rows, min(float(self.epsilon), MOST_EPSILON), float(self.delta))

    def _ensemble(self) -> EnsembleSettings:
        return EnsembleSettings(teachers=self._teachers())

    def _learned(self) -> tuple[TrainingMechanism, ...]:
        config, teachers = self._networks_config(), self._teachers()

        def votes(noise: float) -> NoisyVote:
            return NoisyVote(noise=noise, teachers=teachers, accounting=config.accounting)

        one = "record" if self.schema.unit is None else "unit with all of its records"
        details = {
            "sensitivity": 1,
            "unit": "votes",
            "shards": f"each {one} is assigned to a teacher independently and permanently",
        }
        return (
            TrainingMechanism(purpose=VOTES, mechanism=votes, count=config.labels, details=details),
        )

    def _networks(self, layout: Layout) -> Networks:
        return replace(super()._networks(layout), kind=self._kind(), generator=self._generator())

    def _kind(self) -> Callable[..., GeneratorTraining]:
        if self._networks_config().kind == "network":
            return partial(PATENetworks, ensemble=self._ensemble())
        return partial(PATEWitness, ensemble=self._ensemble(), columns=self.schema.learned.columns)

    def _generator(self) -> Callable[..., TableGenerator]:
        return TableGenerator

    def _free_steps(self) -> dict[str, int]:
        config = self._networks_config()
        return {**super()._free_steps(), VOTES: config.rounds * config.round_steps}

    def _once(self) -> tuple[str, ...]:
        # The paper's networks have no use for n; a private autoencoder has.
        autoencoder = self._autoencoder() is not None and self._training() != "public"
        read = autoencoder or self._networks_config().kind != "network"
        return tuple(name for name in super()._once() if read or name not in (COUNT, TOTAL))

    def _notes(self, spends: Sequence[PlannedSpend]) -> list[str]:
        notes = super()._notes(spends)
        for vote in (s.mechanism for s in spends if isinstance(s.mechanism, NoisyVote)):
            right = share_right(SURE, vote)
            if right < VOID:
                notes.append(
                    f"note: where {SURE:.0%} of the teachers agree, {right:.1%} of the labels are right"
                    " (50% is chance): raise epsilon, or use margnet"
                )
        return notes

    def _config(self) -> dict[str, Any]:
        return {**super()._config(), "teachers": self._teachers()}


@lru_cache(maxsize=64)
def recommended(rows: int, epsilon: float, delta: float) -> int:
    """The planner's number of teachers; where no label is affordable, teachers of ten rows."""
    number = plan_labels(rows, epsilon, delta).recommended if rows >= LEAST_ROWS else None
    return number or min(max(2, rows // LEAST_ROWS_EACH), MOST_TEACHERS)


@dataclass(kw_only=True, eq=False, repr=False)
class PATEGAN(Voting):
    """PATE-GAN (Jordon, Yoon, van der Schaar 2019), for tables.

    None of six public implementations of PATE-GAN satisfies the ε that it claims, and none reproduces the
    utility of the paper (Ganev et al. 2024: 19 privacy violations). This one is checked by record and
    replay. Its preset ``paper`` does not reproduce the paper's utility either: without noise it approaches
    independent columns, and at ε = 8 its labels are random (reports/pate). ``default`` changes teachers,
    student and generator's loss, and does better, though not as well as :class:`tabsynth.MargNet`.

    Parameters
    ----------
    schema : Schema
        The public facts of the table.
    epsilon : float
        The budget; ``math.inf`` for a run without privacy.
    delta : float
    preset : {"default", "paper"}
        ``default``: :mod:`tabsynth.synthesizers.pate.pairs`. ``paper``: networks, Laplace noise on both
        counts with its data-independent bound, and a generator step after each round.
    teachers : int, optional
        K, public. By default what the planner recommends for ``rows`` and the budget (``paper``: one for
        each thousand rows); where ``rows`` is not declared, for 20,000 rows. It never follows from the
        private number of rows.
    labels : int, optional
        Questions in all, public; the noise of their answers follows from it and from the budget.
    autoencoder : {None, "dp-sgd", "public", "no-noise", "preset"}
        As in :class:`tabsynth.DPWGAN`; the generator then ends in its decoder.
    public, provenance, overlap, warm_start : optional
        Tables that cost nothing, as in :class:`tabsynth.DPWGAN`: what the student expects at first.
    encoding, rows, time_limit, accept_drafted_domain, draft_options, random_state, device, verbose
        As in :class:`tabsynth.DPWGAN`; the time limit is looked at between steps, and a round of questions,
        with its teachers and its student, is one.
    config, autoencoder_config : optional
        In place of the preset's.

    Formal guarantees
    -----------------
    Each record, or unit with all of its records, is assigned to one of K teachers independently and permanently.
    Private rows are read
    by noisy one-way counts (or a noisy row count), by the autoencoder's steps if there are any, and under
    the account of the votes: each is 1[n₁ + noise > K/2], and adding or removing one record changes one
    teacher, hence n₁ by at most 1 (:class:`tabsynth.privacy.accounting.mechanisms.NoisyVote`). Uses are charged
    before teachers see a row; clean votes and teachers never leave the fit. Student, generator, samples
    and model file are post-processing. The accounting is independent of the data.
    """

    method: ClassVar[str] = "pate-gan"
    choices = ("preset", "labels", "teachers")

    def _starts_from_marginals(self) -> bool:
        return self.preset != "paper" or self._preset_config().kind == "witness"
