"""PATEGAN: a generator that learns from the noisy votes of teachers on disjoint shards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from tabsynth._validate import integer, one_of
from tabsynth.encoding.table import TableEncoder
from tabsynth.errors import InputError
from tabsynth.methods import COUNT, TOTAL, VOTES
from tabsynth.privacy.accounting.labels import LEAST_ROWS, LEAST_ROWS_EACH, plan_labels, share_right
from tabsynth.privacy.accounting.mechanisms import MOST_TEACHERS, NoisyVote
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.adversarial.estimator import GAN, NetworksMethod, TrainingMechanism
from tabsynth.synthesizers.adversarial.generator import (
    MOMENTS,
    GeneratorTraining,
    MomentPenalty,
    TableGenerator,
)
from tabsynth.synthesizers.method import NOMINAL_ROWS, PlannedSpend
from tabsynth.synthesizers.model import FittedModel
from tabsynth.synthesizers.pate.config import PATE_OF_0_2, PATEConfig, paper_config
from tabsynth.synthesizers.pate.pairs import PATEMarginals
from tabsynth.synthesizers.pate.rounds import EnsembleSettings
from tabsynth.synthesizers.pate.teachers import PATENetworks

MARGINALS, NETWORKS = "marginals", "networks"
TEACHERS = (MARGINALS, NETWORKS)
PAPER_ROWS_EACH = 1000  # of a teacher: the paper's best of n/50 … n/5000
MOST_EPSILON = 100.0  # for the number of teachers: beyond, a budget is as good as none
SURE = 0.75  # consensus of teachers at which the plan states the share of correct labels …
VOID = 0.55  # … if that is less
DESCRIBED = {
    MARGINALS: "vote on two-way marginals; there is no discriminator",
    NETWORKS: "are networks, which tell real from generated rows",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class VotingMethod(NetworksMethod):
    """A method whose student learns from the noisy votes of teachers."""

    config_class, config_of_0_2 = PATEConfig, PATE_OF_0_2

    teachers: str = MARGINALS
    teacher_count: int | None = None
    queries: int | None = None
    config: PATEConfig | None = None

    def check_settings(self) -> None:
        """Refuse settings that cannot be used."""
        one_of("teachers", self.teachers, TEACHERS)
        super().check_settings()
        if self.teacher_count is not None:
            integer("teacher_count", self.teacher_count, least=2)  # one teacher is no majority
            if self.teacher_count > MOST_TEACHERS:
                raise InputError(
                    f"Expected teacher_count of at most {MOST_TEACHERS:,}, got {self.teacher_count:,}."
                )
            if self.rows is not None and self.teacher_count > self.rows:
                raise InputError(
                    f"Expected teacher_count of at most rows={self.rows:,}, got {self.teacher_count:,}: each needs"
                    " a record."
                )
        config = self._settings()
        if self.teachers == MARGINALS and not config.generator.pair_anchor:
            raise InputError(
                "generator.pair_anchor=0 would discard the two-way marginals that the teachers vote on; give it a weight."
            )
        if self.queries is not None:
            integer("queries", self.queries)
            if self.queries < config.rounds:
                raise InputError(
                    f"Expected queries of at least {config.rounds}, one a round; got {self.queries}."
                )

    def _settings(self) -> PATEConfig:
        """Return the configuration, which the parameter ``queries`` may change."""
        if self.config is None and self.teachers == NETWORKS:
            return paper_config()
        return self.config or PATEConfig()

    def _networks_config(self) -> PATEConfig:
        config = self._settings()
        return config if self.queries is None else replace(config, queries=self.queries)

    def _teacher_count(self) -> int:
        """Return K: as declared, else by the declared number of rows, or a nominal one."""
        if self.teacher_count is not None:
            return int(self.teacher_count)
        rows = int(self.rows or NOMINAL_ROWS)
        if self.teachers == NETWORKS:
            return min(max(2, rows // PAPER_ROWS_EACH), MOST_TEACHERS)
        return recommended(rows, min(float(self.epsilon), MOST_EPSILON), float(self.delta))

    def _ensemble(self) -> EnsembleSettings:
        return EnsembleSettings(teachers=self._teacher_count())

    def _learned(self) -> tuple[TrainingMechanism, ...]:
        config, teachers = self._networks_config(), self._teacher_count()

        def votes(noise: float) -> NoisyVote:
            return NoisyVote(noise=noise, teachers=teachers, accounting=config.accounting)

        one = "record" if self.schema.unit is None else "unit with all of its records"
        details = {
            "sensitivity": 1,
            "unit": "votes",
            "shards": f"each {one} is assigned to a teacher independently and permanently",
        }
        return (
            TrainingMechanism(
                purpose=VOTES, mechanism=votes, count=config.queries, details=details
            ),
        )

    def _trainer(
        self,
    ) -> Callable[[TableGenerator, torch.Generator, MomentPenalty], GeneratorTraining]:
        config, ensemble = self._networks_config(), self._ensemble()
        if self.teachers == NETWORKS:
            return partial(PATENetworks, config, ensemble=ensemble)
        columns = self.schema.learned.columns
        return partial(PATEMarginals, config, ensemble=ensemble, columns=columns)

    def free_steps(self) -> dict[str, int]:
        """Return the number of steps of each stage that reads no private row."""
        config = self._networks_config()
        pairs = {} if self.warm_start is None else {MOMENTS: config.pair_steps}
        return {**super().free_steps(), **pairs, VOTES: config.rounds * config.round_steps}

    def _once(self) -> tuple[str, ...]:
        # Networks have no use for n; a private autoencoder has.
        autoencoder = self._autoencoder() is not None and self._training() != "public"
        read = autoencoder or self.teachers == MARGINALS
        return tuple(name for name in super()._once() if read or name not in (COUNT, TOTAL))

    def notes(self, spends: Sequence[PlannedSpend]) -> list[str]:
        """Return what to know of a plan before the fit."""
        notes = [
            *super().notes(spends),
            f"teachers: {self._teacher_count():,} {DESCRIBED[self.teachers]}",
        ]
        for vote in (s.mechanism for s in spends if isinstance(s.mechanism, NoisyVote)):
            right = share_right(SURE, vote)
            if right < VOID:
                notes.append(
                    f"note: where {SURE:.0%} of the teachers agree, {right:.1%} of the labels are right"
                    " (50% is chance): raise epsilon, or use margnet"
                )
        return notes

    def settings(self) -> dict[str, Any]:
        """Return the public settings that a certificate states besides parameters, JSON-ready."""
        return {**super().settings(), "teachers": self.teachers}

    def configuration(self) -> dict[str, Any]:
        """Return what rebuilds an untrained generator, JSON-ready."""
        return {**super().configuration(), "teacher_count": self._teacher_count()}

    def restore(
        self, facts: Mapping[str, Any], tensors: dict[str, Tensor], path: object
    ) -> FittedModel[TableEncoder]:
        """Rebuild the fitted model from the facts and tensors of its file."""
        return super().restore(read_facts(facts), tensors, path)


@lru_cache(maxsize=64)
def recommended(rows: int, epsilon: float, delta: float) -> int:
    """Return the planner's number of teachers; where no label is affordable, teachers of ten rows."""
    number = plan_labels(rows, epsilon, delta).recommended if rows >= LEAST_ROWS else None
    return number or min(max(2, rows // LEAST_ROWS_EACH), MOST_TEACHERS)


@dataclass(frozen=True, kw_only=True, eq=False)
class PATEGANMethod(VotingMethod):
    """The method of :class:`PATEGAN`."""

    choices = ("teachers", "queries", "teacher_count")

    def _starts_from_marginals(self) -> bool:
        return self.teachers == MARGINALS or self._settings().start_from_counts


def read_facts(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of a model file with the parameters of the present version.

    In version 0.2.0 the parameter ``teachers`` was their number, and the configuration said what they are;
    ``queries`` was called ``labels``, and ``class_column`` was called ``label``.
    """
    config = facts["config"]
    if "preset" not in config:
        return facts
    settings = {**config["config"], "start_from_counts": config["preset"] != "paper"}
    kind = NETWORKS if settings["kind"] == "network" else MARGINALS
    present = {"teachers": kind, "teacher_count": config["teachers"], "queries": config["labels"]}
    if "label" in config:
        present["class_column"] = config["label"]
    return {**facts, "config": {**config, "config": settings, **present}}


@dataclass(kw_only=True, eq=False, repr=False)
class PATEGAN(GAN):
    """PATE-GAN (Jordon, Yoon, van der Schaar 2019), for tables.

    By default teachers are no discriminators: ``teachers="marginals"`` is a method of noisy votes on the two-way
    marginals of the table, whose student estimates these marginals. ``teachers="networks"`` is the method of the paper,
    in which teachers and student are networks that tell real rows from generated ones.

    None of six public implementations of PATE-GAN satisfies the ε that it claims, and none reproduces the
    utility of the paper (Ganev et al. 2024: 19 privacy violations). This one is checked by record and
    replay. With networks it does not reproduce the paper's utility either: without noise it approaches
    independent columns, and at ε = 8 its labels are random (reports/pate). With marginals it does better, though not as
    well as :class:`tabsynth.MargNet`.

    Parameters
    ----------
    schema : Schema
        The public facts of the table.
    epsilon : float
        The budget; ``math.inf`` for a run without privacy.
    delta : float
    teachers : {"marginals", "networks"}
        ``marginals``: :mod:`tabsynth.synthesizers.pate.pairs`. ``networks``: those of the paper,
        :mod:`tabsynth.synthesizers.pate.teachers`; by default with Laplace noise on both counts, its data-independent
        bound, and a generator step after each round.
    teacher_count : int, optional
        K, public. By default what the planner recommends for ``rows`` and the budget (networks: one for
        each thousand rows); where ``rows`` is not declared, for 20,000 rows. It never follows from the
        private number of rows.
    queries : int, optional
        Questions in all, public; the noise of their answers follows from it and from the budget.
    autoencoder : {None, "dp-sgd", "public", "no-noise", "preset"}
        As in :class:`tabsynth.DPWGAN`; the generator then ends in its decoder.
    public, public_source, overlap, warm_start : optional
        Tables that cost nothing, as in :class:`tabsynth.DPWGAN`: what the student expects at first.
    network_encoding, rows, time_limit, accept_drafted_domain, draft_options, random_state, device, verbose
        As in :class:`tabsynth.DPWGAN`; the time limit is looked at between steps, and a round of questions,
        with its teachers and its student, is one.
    config, autoencoder_config : optional
        In place of the defaults.

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
    method_class = PATEGANMethod

    teachers: str = MARGINALS
    teacher_count: int | None = None
    queries: int | None = None
    config: PATEConfig | None = None

    @classmethod
    def parameters_from(cls, schema: Schema, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a fit from the facts of its model file."""
        return super().parameters_from(schema, read_facts(facts))
