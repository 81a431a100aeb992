"""What a method of synthesis provides, and what training leaves of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from torch import Tensor

from tabsynth._random import Randomness
from tabsynth.encoding import TableEncoder
from tabsynth.plan import PlannedSpend
from tabsynth.privacy.ledger import Ledger
from tabsynth.schema import Schema
from tabsynth.synthesizers.facts import public_table
from tabsynth.training.loop import Watch


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What training leaves: a sampler of value numbers, its weights, and public diagnostics."""

    generator: Any
    curves: dict[str, dict[str, list[float]]]
    notes: dict[str, Any] = field(default_factory=dict)  # released numbers that a certificate tells

    def weights(self) -> dict[str, Tensor]:
        """Everything that sampling needs."""
        return dict(self.generator.state_dict())


class Method(BaseEstimator):
    """The parameters and the hooks of a method. scikit-learn conventions: the constructor only stores.

    Subclasses say what they will spend (``_spends``), train on value numbers (``_train``), and build
    an untrained generator (``_empty``).
    """

    method: ClassVar[str]
    stops_early: ClassVar[bool] = False  # a fit may be done before its last step

    schema: Schema
    epsilon: float
    delta: float
    random_state: int | None
    device: str
    verbose: bool
    rows: int | None
    time_limit: float | None
    accept_drafted_domain: bool
    encoding: str | Mapping[str, str]

    def _check(self) -> None:
        """Check the parameters of the subclass."""

    def _encoding(self) -> str | Mapping[str, str]:
        """The scheme of the codes, or a scheme by column."""
        return self.encoding

    def _spends(self, earlier: Ledger) -> list[PlannedSpend]:
        raise NotImplementedError

    def _train(
        self,
        index: np.ndarray,
        spends: list[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        watch: Watch,
        most: int | None = None,
    ) -> Trained:
        """Train on value numbers; ``most`` caps the steps that cost nothing (of a trial)."""
        raise NotImplementedError

    def _free_steps(self) -> dict[str, int]:
        """Steps of stages that read no private row, by stage."""
        return {}

    def _notes(self, spends: Sequence[PlannedSpend]) -> list[str]:
        """What a person should know of a plan of this method before they start."""
        return []

    def _public_index(self, encoder: TableEncoder) -> np.ndarray | None:
        """Value numbers of the public table that training uses, if any."""
        return None

    def _public_facts(self) -> dict[str, Any] | None:
        """What a certificate says of the public table: its rows, and a hash of its value numbers."""
        public = self._public_index(TableEncoder(self.schema, self._encoding()))
        return None if public is None else public_table(public)

    def _stated(self) -> dict[str, Any]:
        """What a certificate says among the settings, besides parameters; JSON-ready and public."""
        return {}

    def _config(self) -> dict[str, Any]:
        """What rebuilds an untrained generator, JSON-ready."""
        raise NotImplementedError

    @classmethod
    def _from_config(cls, schema: Schema, config: Mapping[str, Any], **shared: Any) -> Self:
        """Inverse of :meth:`_config`."""
        raise NotImplementedError

    def _size(self) -> int:
        """Number of weights of the generator that the configuration describes."""
        raise NotImplementedError

    def _empty(self) -> Any:
        """An untrained generator, for the weights of a file."""
        raise NotImplementedError
