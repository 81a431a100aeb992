"""PATEGAN and PATEACGAN: a generator that learns from the noisy votes of teachers on disjoint shards."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch

from tabsynth._typing import JsonObject
from tabsynth._validate import in_range, integer, one_of, quote
from tabsynth.encoding.table import Layout
from tabsynth.errors import InputError
from tabsynth.methods import CLASS_VOTES, VOTES
from tabsynth.privacy.accounting.labels import recommend_teachers, share_right
from tabsynth.privacy.accounting.mechanisms import MOST_TEACHERS, Gaussian, NoisyVote
from tabsynth.schema.column import Column
from tabsynth.schema.conditions import code_of
from tabsynth.schema.linked import LinkedSchema, read_table_schema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.adversarial.autoencoder import AutoencoderConfig
from tabsynth.synthesizers.adversarial.generator import (
    ConditionalGenerator,
    GeneratorTraining,
    MomentPenalty,
    TableGenerator,
)
from tabsynth.synthesizers.adversarial.method import (
    Learning,
    NetworksEstimator,
    NetworksMethod,
    TrainingMechanism,
    config_or_default,
    make_networks,
    read_parameters,
)
from tabsynth.synthesizers.method import NOMINAL_ROWS, PlannedSpend
from tabsynth.synthesizers.pate.config import PATEConfig, networks_config
from tabsynth.synthesizers.pate.pairs import PATEMarginals
from tabsynth.synthesizers.pate.rounds import EnsembleSettings
from tabsynth.synthesizers.pate.teachers import PATENetworks

MARGINALS, NETWORKS = "marginals", "networks"
TEACHERS = (MARGINALS, NETWORKS)
MOST_EPSILON = 100.0  # for the number of teachers: beyond, a budget is as good as none
SURE = 0.75  # consensus of teachers at which the plan states the share of correct labels …
VOID = 0.55  # … if that is less
DESCRIBED = {
    MARGINALS: "vote on two-way marginals; there is no discriminator",
    NETWORKS: "are networks, which tell real from generated rows",
}
CHOICES = ("teachers", "queries", "teacher_count")  # parameters that a model file keeps
MOST_CLASSES = 100
# Of networks, without a class and with one: up to which ε their rows are no better than what they start from.
WEAK = {
    False: (8, "votes of networks added nothing to the noisy one-way counts of a census table"),
    True: (
        1,
        "without an autoencoder, pairs of columns were further from a census table than independent columns (tvd2)",
    ),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class VoteLearning(Learning):
    """Learning from a student, which learns from the noisy votes of teachers.

    Attributes
    ----------
    teachers : {"marginals", "networks"}
    ensemble : EnsembleSettings
    columns : sequence of Column
        Of the rows that are learned.
    unit : str
        What is assigned to a teacher.
    """

    config: PATEConfig
    teachers: str
    ensemble: EnsembleSettings
    columns: Sequence[Column]
    unit: str

    def check(self, layout: Layout, max_rows: int) -> None:
        """Refuse codes of the label that are not one-hot."""
        label = self.ensemble.label
        if label is not None and layout.blocks[label].head != "softmax":
            raise InputError(
                f"The class, column {quote(self.columns[label].name)}, must be one-hot; name the network_encoding of the other"
                " columns alone."
            )

    def mechanisms(self, public_rows: str | None) -> tuple[TrainingMechanism, ...]:
        """Return the mechanism of the votes, and of networks with a class that of the votes on classes."""
        config, count = self.config, self.ensemble.teachers
        votes = TrainingMechanism(
            purpose=VOTES,
            mechanism=lambda noise: NoisyVote(
                noise=noise, teachers=count, accounting=config.accounting
            ),
            count=config.queries,
            details={
                "sensitivity": 1,
                "unit": "votes",
                "shards": f"each {self.unit} is assigned to a teacher independently and permanently",
            },
        )
        if self.ensemble.label is None or self.teachers == MARGINALS:
            return (votes,)
        classes = TrainingMechanism(
            purpose=CLASS_VOTES,
            mechanism=lambda noise: Gaussian(noise_multiplier=noise),
            count=config.queries,
            details={"l2_sensitivity": 2**0.5, "unit": "votes"},
        )
        return (votes, classes)

    def fewer(
        self, training: tuple[TrainingMechanism, ...], noise: float
    ) -> tuple[TrainingMechanism, ...]:
        """Return mechanisms of fewer labels, where the noise of a vote is above the largest of the configuration."""
        share, count = self.config.max_noise, training[0].count
        most = math.inf if share is None else share * self.ensemble.teachers
        if noise <= most or count == self.config.rounds:
            return training
        # Noise grows as the root of the number of labels, or nearly.
        count = max(self.config.rounds, int(0.98 * count * (most / noise) ** 2))
        return tuple(replace(part, count=count) for part in training)

    def training(
        self, generator: TableGenerator, rng: torch.Generator, penalty: MomentPenalty
    ) -> GeneratorTraining:
        """Return the training of a student and a generator."""
        if self.teachers == NETWORKS:
            return PATENetworks(self.config, generator, rng, penalty, ensemble=self.ensemble)
        return PATEMarginals(
            self.config, generator, penalty, ensemble=self.ensemble, columns=self.columns
        )

    def free_steps(self, *, public: bool) -> dict[str, int]:
        """Return the number of steps of each stage that reads no private row."""
        return {VOTES: self.config.rounds * self.config.round_steps}

    def uses_row_count(self, private_autoencoder: bool) -> bool:
        """Return whether training needs the number of rows; networks have no use for it."""
        return private_autoencoder or self.teachers == MARGINALS

    def preset_autoencoder(self, epsilon: float, from_counts: bool) -> str | None:
        """Return how the autoencoder of ``preset`` is trained where no table is public."""
        if not from_counts:
            return None
        at_infinity = "no-noise" if self.teachers == NETWORKS else None
        return at_infinity if math.isinf(epsilon) else "dp-sgd"

    def notes(self, spends: Sequence[PlannedSpend]) -> list[str]:
        """Return what to know of a plan before the fit."""
        notes = [f"teachers: {self.ensemble.teachers:,} {DESCRIBED[self.teachers]}"]
        notes += super().notes(spends)
        for vote in (s.mechanism for s in spends if isinstance(s.mechanism, NoisyVote)):
            right = share_right(SURE, vote)
            if right < VOID:
                notes.append(
                    f"note: where {SURE:.0%} of the teachers agree, {right:.1%} of the labels are right"
                    " (50% is chance): raise epsilon, ask fewer queries, or use margnet"
                )
        return notes

    def public_facts(self) -> JsonObject:
        """Return the declared shares of the classes, by category code, JSON-ready."""
        if self.ensemble.label is None:
            return {}
        shares = self.ensemble.shares
        return {"class_shares": None if shares is None else shares.tolist()}

    def generator_class(self) -> Callable[..., TableGenerator]:
        """Return the class of the generator, as :class:`TableGenerator` is called."""
        if self.ensemble.label is None:
            return TableGenerator
        return partial(ConditionalGenerator, label=self.ensemble.label)


def _number_of_teachers(estimator: "PATEGAN | PATEACGAN") -> int:
    """Return K: as declared, else by the declared number of rows, or a nominal one."""
    count, rows = estimator.teacher_count, estimator.rows
    if count is None:
        epsilon = min(float(estimator.epsilon), MOST_EPSILON)
        return recommend_teachers(int(rows or NOMINAL_ROWS), epsilon, float(estimator.delta))
    integer("teacher_count", count, least=2)  # one teacher is no majority
    if count > MOST_TEACHERS:
        raise InputError(f"Expected teacher_count of at most {MOST_TEACHERS:,}, got {count:,}.")
    if rows is not None and count > rows:
        raise InputError(
            f"Expected teacher_count of at most rows={rows:,}, got {count:,}: each needs a record."
        )
    return int(count)


def _chosen_config(estimator: "PATEGAN | PATEACGAN") -> PATEConfig:
    """Return the configuration, which the parameter ``queries`` may change."""
    one_of("teachers", estimator.teachers, TEACHERS)
    default = networks_config() if estimator.teachers == NETWORKS else PATEConfig()
    config, queries = config_or_default("config", estimator.config, default), estimator.queries
    if estimator.teachers == MARGINALS and not config.generator.pair_anchor:
        raise InputError(
            "generator.pair_anchor=0 would discard the two-way marginals that the teachers vote on; give it a weight."
        )
    if queries is None:
        return config
    integer("queries", queries)
    if queries < config.rounds:
        raise InputError(
            f"Expected queries of at least {config.rounds}, one a round; got {queries}."
        )
    return replace(config, queries=queries, max_noise=None)


def _make_voting(
    estimator: "PATEGAN | PATEACGAN",
    schema: Schema,
    ensemble: EnsembleSettings,
    stated: JsonObject,
    choices: JsonObject,
) -> NetworksMethod:
    """Make the method of an estimator; ``stated`` and ``choices`` are of PATEACGAN alone."""
    config, teachers = _chosen_config(estimator), estimator.teachers
    weak_until, finding = WEAK[ensemble.label is not None]
    weak = ensemble.label is None or estimator.autoencoder is None
    warning = (
        f"note: {finding} at this epsilon (reports/pate); use teachers='marginals', or margnet"
    )
    learning = VoteLearning(
        config=config,
        teachers=teachers,
        ensemble=ensemble,
        columns=schema.learned.columns,
        unit="record" if schema.unit is None else "unit with all of its records",
        stated={"teachers": teachers, **stated},
        warnings=(warning,) * (weak and teachers == NETWORKS and estimator.epsilon <= weak_until),
    )
    counts = teachers == MARGINALS or config.start_from_counts or ensemble.label is not None
    return make_networks(
        estimator,
        schema,
        learning,
        config_or_default("autoencoder_config", estimator.autoencoder_config, AutoencoderConfig()),
        network_encoding=estimator.network_encoding,
        starts_from_counts=counts,
        choices={
            "teachers": teachers,
            "queries": estimator.queries,
            "teacher_count": ensemble.teachers,
            **choices,
        },
    )


@dataclass(kw_only=True, eq=False, repr=False)
class PATEGAN(NetworksEstimator):
    """PATE-GAN (Jordon, Yoon, van der Schaar 2019), for tables.

    By default teachers are no discriminators: ``teachers="marginals"`` is a method of noisy votes on the two-way
    marginals of the table, whose student estimates these marginals. ``teachers="networks"`` is the method of the paper,
    in which teachers and student are networks that tell real rows from generated ones.

    None of six public implementations of PATE-GAN satisfies the ε that it claims, and none reproduces the
    utility of the paper (Ganev et al. 2024: 19 privacy violations). This one is checked by record and
    replay. With networks it does not reproduce the paper's utility either: without noise it learns pairs of
    columns, and at ε = 8 its votes add nothing to noisy one-way counts (reports/pate). With marginals it does better, though not as
    well as :class:`tabsynth.MargNet`.

    Parameters
    ----------
    schema : Schema, dict or path
        The public facts of the table.
    epsilon : float
        The budget; ``math.inf`` for a run without privacy.
    delta : float
    teachers : {"marginals", "networks"}
        ``marginals``: :mod:`tabsynth.synthesizers.pate.pairs`. ``networks``: those of the paper,
        :mod:`tabsynth.synthesizers.pate.teachers`; their departures are listed at
        ``networks_config`` in :mod:`tabsynth.synthesizers.pate.config`.
    teacher_count : int, optional
        K, public. By default what the planner recommends for ``rows`` and the budget; where ``rows`` is not declared, for
        20,000 rows. It never follows from the private number of rows.
    queries : int, optional
        Questions in all, public; the noise of their answers follows from it and from the budget. By default 20,000; of
        networks as many as the budget affords at a noise of at most 0.15 K, and at most 20,000.
    autoencoder : {"preset", "dp-sgd", "counts", "public", "no-noise", None}
        As in :class:`tabsynth.DPWGAN`; the generator then ends in its decoder. ``preset``: ``public`` with a public table; none
        without counts to start from; else ``dp-sgd``, and at ε = ∞ ``no-noise`` with teachers ``networks`` and none with
        ``marginals``. It is no worse than a generator without an autoencoder with ``marginals``, and ahead of it with
        ``networks`` (reports/pate).
    public, public_source : optional
        A public table, as in :class:`tabsynth.DPWGAN`: what the student expects at first.
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

    teachers: str = MARGINALS
    teacher_count: int | None = None
    queries: int | None = None
    config: PATEConfig | None = None

    def make_method(self, schema: Schema | LinkedSchema) -> NetworksMethod:
        """Make the method for a schema."""
        ensemble = EnsembleSettings(teachers=_number_of_teachers(self))
        return _make_voting(self, read_table_schema(schema), ensemble, {}, {})

    @classmethod
    def parameters_from(cls, schema: Schema, facts: Mapping[str, Any]) -> JsonObject:
        """Return the parameters of a fit from the facts of its model file."""
        return read_parameters(facts, PATEConfig(), CHOICES)


@dataclass(kw_only=True, eq=False, repr=False)
class PATEACGAN(NetworksEstimator):
    """PATE-GAN with an auxiliary classifier: G(z, c) makes rows of a class c, the value of one column.

    By default teachers are no discriminators: ``teachers="marginals"`` is a method of noisy votes on the two-way
    marginals of the table. A teacher compares the mean products of two columns of its rows with those of generated rows:
    its source head goes by the columns other than ``class_column``, its class head by the pairs with it.
    ``teachers="networks"`` has ACGAN networks (Odena et al. 2017) as teachers and student, each with a source head,
    "is the row real", and a class head. The method's source is a short text without an algorithm
    (docs/explanation/papers/pate-gan.md).

    Parameters
    ----------
    schema, epsilon, delta
        As in :class:`tabsynth.PATEGAN`.
    class_column : str
        The column of the class: categorical or ordinal, with two values or more. A class that the
        table has no row of can be drawn as any other, as its absence is private: what its rows are
        like is then a guess.
    teachers : {"marginals", "networks"}
        As in :class:`tabsynth.PATEGAN`. ``marginals``: a teacher says yes where its source head does and its class head
        agrees with c: one noisy vote. ``networks``, as the source has it: a vote on the source, and one on the class, the
        argmax of a noisy histogram of the teachers' classes, charged besides. At the same budget ``marginals`` are nearer
        to the table (reports/pate).
    class_shares : dict, optional
        From each class to its share, where these are public. Else classes are drawn by the
        noisy one-way counts.
    teacher_count, queries
        As in :class:`tabsynth.PATEGAN`.
    autoencoder, public, public_source, network_encoding, rows, time_limit
        As in :class:`tabsynth.PATEGAN`.
    accept_drafted_domain, draft_options, random_state, device, verbose, config, autoencoder_config
        As in :class:`tabsynth.PATEGAN`.

    Formal guarantees
    -----------------
    Those of :class:`tabsynth.PATEGAN`. A class vote is the argmax of counts with N(0, σ²) on each; a
    record changes one teacher, which moves its vote from one class to another: L2 sensitivity √2, charged
    as a Gaussian of multiplier σ/√2.
    """

    method: ClassVar[str] = "pate-acgan"

    teachers: str = MARGINALS
    teacher_count: int | None = None
    queries: int | None = None
    class_column: str
    class_shares: Mapping[Any, float] | None = None
    config: PATEConfig | None = None

    def make_method(self, schema: Schema | LinkedSchema) -> NetworksMethod:
        """Make the method for a schema."""
        schema = read_table_schema(schema)
        one_of("teachers", self.teachers, TEACHERS)
        column = self._label_column(schema)
        shares = self._declared_shares(column)
        ensemble = EnsembleSettings(
            teachers=_number_of_teachers(self),
            label=schema.learned.names.index(self.class_column),
            shares=shares,
        )
        declared = None if shares is None else shares.tolist()
        choices = {"class_column": self.class_column, "class_shares": declared}
        # Version 0.2 had several modes for each kind of teachers, and certificates name them.
        stated = {"mode": "B" if self.teachers == NETWORKS else "C"}
        return _make_voting(self, schema, ensemble, stated, choices)

    def _label_column(self, schema: Schema) -> Column:
        """Return the column of the class; refuse one that has no classes to draw."""
        if not isinstance(self.class_column, str) or self.class_column not in schema.learned.names:
            raise InputError(
                f"class_column names column {quote(self.class_column)}, which the schema lacks; correct it."
            )
        column, name = (
            schema.learned[self.class_column],
            f"The class, column {quote(self.class_column)},",
        )
        if not column.categories:
            raise InputError(f"{name} is {column.kind}; name a categorical or ordinal one.")
        if column.size < 2:
            raise InputError(f"{name} has one class alone; name a column with more.")
        if column.size > MOST_CLASSES:
            raise InputError(
                f"{name} has {column.size} classes; name one of at most {MOST_CLASSES}, or declare coarser categories."
            )
        return column

    def _declared_shares(self, column: Column) -> np.ndarray | None:
        """Return the shares of the classes, shape (classes,), where they are declared."""
        if self.class_shares is None:
            return None
        if not isinstance(self.class_shares, Mapping):
            raise InputError(f"Expected class_shares to be a dict, got {quote(self.class_shares)}.")
        shares = np.zeros(column.size)
        for value, share in self.class_shares.items():
            number = code_of(column, value, "class_shares")
            shares[number] = in_range(f"class_shares of {quote(value)}", share, 0, 1)
        if not np.isclose(shares.sum(), 1.0, atol=1e-6):
            raise InputError(f"Expected class_shares to sum to 1, got {shares.sum():g}.")
        return shares

    @classmethod
    def parameters_from(cls, schema: Schema, facts: Mapping[str, Any]) -> JsonObject:
        """Return the parameters of a fit from the facts of its model file."""
        parameters = read_parameters(facts, PATEConfig(), (*CHOICES, "class_column"))
        shares = facts["config"]["class_shares"]
        column = schema[parameters["class_column"]]
        if shares is not None:
            values = [*column.categories, *column.reasons, *[None] * column.nulls]
            shares = dict(zip(values, shares, strict=True))
        return {**parameters, "class_shares": shares}
