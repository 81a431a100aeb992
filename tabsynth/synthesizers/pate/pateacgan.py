"""PATEACGAN: PATE-GAN with a class of its own for each row, so that rows of one class can be drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tabsynth._validate import between, one_of, shown
from tabsynth.errors import InputError
from tabsynth.methods import CLASS_VOTES
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.schema.column import Column
from tabsynth.schema.conditions import code_of
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.adversarial.estimator import (
    GAN,
    Networks,
    NetworksModel,
    TrainingMechanism,
)
from tabsynth.synthesizers.adversarial.generator import ConditionalGenerator
from tabsynth.synthesizers.conditions import Condition
from tabsynth.synthesizers.model import FittedModel, Sampler, Trained
from tabsynth.synthesizers.pate.config import PATEConfig
from tabsynth.synthesizers.pate.estimator import MARGINALS, NETWORKS, VotingMethod, read_facts
from tabsynth.synthesizers.pate.rounds import EnsembleSettings

MODES = ("A", "B", "C")
MOST_CLASSES = 100


@dataclass(frozen=True, kw_only=True)
class ConditionalModel(NetworksModel):
    """A fitted generator with a class for each row."""

    def sampler(self, condition: Condition | None) -> tuple[Sampler, bool]:
        """Return a sampler of codes; classes are drawn as a condition says."""
        generator: ConditionalGenerator = self.generator
        number = self.encoder.schema.names.index(self.config["class_column"])
        if condition is None or number not in condition.box:
            return super().sampler(condition)
        classes = condition.box[number] > 0
        exact = set(condition.box) == {number} and not condition.computed
        noise = generator.noise_of(classes)
        return partial(generator.sample, noise=noise, rounded=exact), exact


@dataclass(frozen=True, kw_only=True, eq=False)
class PATEACGANMethod(VotingMethod):
    """The method of :class:`PATEACGAN`."""

    model_class: ClassVar[type[FittedModel[Any]]] = ConditionalModel
    choices = ("teachers", "class_column", "mode", "queries", "teacher_count")

    class_column: str
    mode: str | None = None
    class_shares: Mapping[Any, float] | None = None

    def _mode(self) -> str:
        if self.mode is None:
            return "B" if self.teachers == NETWORKS else "C"
        return self.mode

    def _column(self) -> Column:
        return self.schema.learned[self.class_column]

    def check_settings(self) -> None:
        """Refuse settings that cannot be used."""
        one_of("mode", self._mode(), MODES)
        if (
            not isinstance(self.class_column, str)
            or self.class_column not in self.schema.learned.names
        ):
            raise InputError(
                f"class_column names column {shown(self.class_column)}, which the schema lacks; correct it."
            )
        column = self._column()
        if not column.categories:
            raise InputError(
                f"The class, column {shown(self.class_column)}, is {column.kind}; name a categorical or ordinal one."
            )
        if column.size < 2:
            raise InputError(
                f"The class, column {shown(self.class_column)}, has one class alone; name a column with more."
            )
        if column.size > MOST_CLASSES:
            raise InputError(
                f"The class, column {shown(self.class_column)}, has {column.size} classes; name one of at most"
                f" {MOST_CLASSES}, or declare coarser categories."
            )
        block = self.encoder.layout.blocks[self._number()]
        if block.head != "softmax":
            raise InputError(
                f"The class, column {shown(self.class_column)}, must be one-hot; name the network_encoding of the other"
                " columns alone."
            )
        self._shares()
        super().check_settings()

    def _number(self) -> int:
        return self.schema.learned.names.index(self.class_column)

    def _shares(self) -> np.ndarray | None:
        """Return shares of the classes, where they are declared."""
        if self.class_shares is None:
            return None
        if not isinstance(self.class_shares, Mapping):
            raise InputError(f"Expected class_shares to be a dict, got {shown(self.class_shares)}.")
        shares = np.zeros(self._column().size)
        for value, share in self.class_shares.items():
            number = code_of(self._column(), value, "class_shares")
            shares[number] = between(f"class_shares of {shown(value)}", share, 0, 1)
        if not np.isclose(shares.sum(), 1.0, atol=1e-6):
            raise InputError(f"Expected class_shares to sum to 1, got {shares.sum():g}.")
        return shares

    def _ensemble(self) -> EnsembleSettings:
        return EnsembleSettings(
            teachers=self._teacher_count(),
            label=self._number(),
            shares=self._shares(),
            mode=self._mode(),
        )

    def _learned(self) -> tuple[TrainingMechanism, ...]:
        (votes,) = super()._learned()
        if self._mode() != "B":
            return (votes,)
        details = {"l2_sensitivity": 2**0.5, "unit": "votes"}
        classes = TrainingMechanism(
            purpose=CLASS_VOTES,
            mechanism=lambda noise: Gaussian(noise_multiplier=noise),
            count=votes.count,
            details=details,
        )
        return (votes, classes)

    def public_facts(self, trained: Trained) -> dict[str, Any]:
        """Return the public facts that a certificate states, JSON-ready."""
        return {**super().public_facts(trained), "class_shares": self._stated_shares()}

    def settings(self) -> dict[str, Any]:
        """Return the public settings that a certificate states besides parameters, JSON-ready."""
        return {**super().settings(), "mode": self._mode()}

    def _stated_shares(self) -> list[float] | None:
        """Return the declared shares, by category code; JSON-ready."""
        shares = self._shares()
        return None if shares is None else shares.tolist()

    def configuration(self) -> dict[str, Any]:
        """Return what rebuilds an untrained generator, JSON-ready."""
        return {
            **super().configuration(),
            "mode": self._mode(),
            "class_shares": self._stated_shares(),
        }

    def _networks(self) -> Networks:
        generator = partial(ConditionalGenerator, label=self._number())
        return replace(super()._networks(), generator_class=generator)


@dataclass(kw_only=True, eq=False, repr=False)
class PATEACGAN(GAN):
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
        As in :class:`tabsynth.PATEGAN`. At the same budget ``marginals`` are nearer to the table (reports/pate).
    mode : {"C", "B", "A"}, optional
        What teachers vote on. By default ``C``; of networks ``B``, as the source has it.
        ``C``: a teacher says yes where its source head does and its class head agrees with c: one noisy
        vote. ``B``: a vote on the source, and one on the class: the argmax of a noisy histogram of the
        teachers' classes, charged besides. ``A``: teachers see c as a column of the row, and vote once;
        networks have no class head then.
    class_shares : dict, optional
        From each class to its share, where these are public. Else classes are drawn by the
        noisy one-way counts.
    teacher_count, queries
        As in :class:`tabsynth.PATEGAN`.
    autoencoder, public, public_source, overlap, warm_start, network_encoding, rows, time_limit
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
    method_class = PATEACGANMethod

    teachers: str = MARGINALS
    teacher_count: int | None = None
    queries: int | None = None
    config: PATEConfig | None = None
    class_column: str
    mode: str | None = None
    class_shares: Mapping[Any, float] | None = None

    def sample(
        self,
        n: int | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        max_draws: int | None = None,
        class_value: Any = None,
        random_state: int | None = None,
        dataframe: str = "fitted",
        weights: str | None = None,
        implicates: int | None = None,
    ) -> Any:
        """Draw ``n`` synthetic rows, as :meth:`Synthesizer.sample` does.

        Parameters
        ----------
        n, where, max_draws, random_state, dataframe, weights, implicates
            As in :meth:`Synthesizer.sample`. A condition on ``class_column`` draws its classes, without rejection.
        class_value : optional
            A value of ``class_column``, ``pandas.NA`` for null: short for a condition on it.

        Raises
        ------
        InputError
            For a value that ``class_column`` does not declare.
        """
        self._check_fitted()
        if class_value is not None:
            name = self.model_.config["class_column"]  # of this fit, whatever parameters change
            code_of(self.model_.encoder.schema[name], class_value, "class_value", null="pandas.NA")
            if where is not None and name in where:
                raise InputError(f"where and class_value both name column {shown(name)}; give one.")
            where = {**(where or {}), name: class_value}
        return super().sample(
            n,
            where=where,
            max_draws=max_draws,
            random_state=random_state,
            dataframe=dataframe,
            weights=weights,
            implicates=implicates,
        )

    @classmethod
    def parameters_from(cls, schema: Schema, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a fit from the facts of its model file."""
        facts = read_facts(facts)
        config = facts["config"]
        shares, column = config["class_shares"], schema[config["class_column"]]
        if shares is not None:
            values = [*column.categories, *column.reasons, *[None] * column.nulls]
            shares = dict(zip(values, shares, strict=True))
        return {**super().parameters_from(schema, facts), "class_shares": shares}
