"""What the GANs share: noisy counts, then the autoencoder, then the networks, on one ledger."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from tabsynth._random import Randomness
from tabsynth._validate import one_of, shown
from tabsynth.autoencoder import TRAININGS, AutoencoderConfig
from tabsynth.encoding import Layout, TableEncoder
from tabsynth.errors import InputError
from tabsynth.generators.generator_config import GeneratorConfig
from tabsynth.generators.generator_training import MOMENTS, WARM_START, GeneratorTraining
from tabsynth.generators.table import TableGenerator
from tabsynth.plan import PlannedSpend
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Ledger
from tabsynth.schema import Schema, refuse_no_rows
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.counting import first_counts
from tabsynth.synthesizers.gan_networks import Networks, Streams
from tabsynth.synthesizers.method import Trained
from tabsynth.synthesizers.released import (
    check_sources,
    fingerprint,
    one_way,
    released_index,
    released_rows,
    together,
)
from tabsynth.synthesizers.split import (
    AUTOENCODER,
    COUNT,
    MARGINALS,
    OVERLAP,
    Learned,
    Split,
)
from tabsynth.tables import to_pandas
from tabsynth.training.loop import Watch

# In a certificate: rows of ``public``, whose provenance it states, and rows drawn from ``warm_start``.
PUBLIC_TABLE, RELEASED = "rows of the public table", "rows released by the warm start"


class GAN(Synthesizer):
    """A generator and what it learns by: a critic of private steps, or a student of noisy votes.

    Subclasses say which networks, of which configuration (``_gan``), and whether they start from noisy
    one-way counts. ``gan`` names both in a model file; the parameter is ``{gan}_config``.
    """

    gan: ClassVar[str]
    choices: ClassVar[tuple[str, ...]]  # parameters that a model file keeps besides
    networks: ClassVar[type[GeneratorTraining]]
    gan_config: ClassVar[type[GeneratorConfig]]

    autoencoder: str | None
    autoencoder_config: AutoencoderConfig | None
    public: Any
    provenance: str | None
    overlap: str
    warm_start: Synthesizer | None

    # What subclasses provide.

    def _networks_config(self) -> GeneratorConfig:
        raise NotImplementedError

    def _coder_config(self) -> AutoencoderConfig:
        return self.autoencoder_config or AutoencoderConfig()

    def _starts_from_marginals(self) -> bool:
        return True

    # Parameters.

    def _learned(self) -> tuple[Learned, ...]:
        """What takes what is left of the budget."""
        raise NotImplementedError

    def _gan(self) -> GeneratorConfig:
        return self._networks_config()

    def _autoencoder(self) -> AutoencoderConfig | None:
        return None if self._training() is None else self._coder_config()

    def __sklearn_clone__(self) -> Self:
        """A clone is not fitted, but its warm start is: that is a parameter, not a part to refit."""
        parameters = {
            name: value if name == "warm_start" else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**parameters)

    def _training(self) -> str | None:
        """How the autoencoder learns: ``dp-sgd``, ``public``, ``no-noise``, or None without one."""
        if self.autoencoder != "preset":
            return self.autoencoder
        if self.warm_start is not None:
            return None  # a generator that starts from released marginals does better on its own
        if self.public is not None:
            return "public"
        return "no-noise" if math.isinf(self.epsilon) else "dp-sgd"

    def _check(self) -> None:
        if self.schema.impossible:
            raise InputError(
                f"Method {self.method} cannot hold the schema's impossible combinations; use method"
                " margnet, or a schema without them."
            )
        one_of("autoencoder", self.autoencoder, ("preset", *TRAININGS, None))
        if self._training() == "no-noise" and math.isfinite(self.epsilon):
            raise InputError(
                "autoencoder='no-noise' reads private rows without noise, which is epsilon=inf, but"
                f" epsilon={self.epsilon:g} was asked for; use 'dp-sgd' or 'public'."
            )
        if self._training() == "public" and self.public is None and self.warm_start is None:
            raise InputError("autoencoder='public' needs a public table or a warm_start: give one.")
        kinds = {f"{self.gan}_config": self.gan_config, "autoencoder_config": AutoencoderConfig}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise InputError(f"Expected {name} to be a {kind.__name__}, got {shown(value)}.")
        check_sources(self)
        self._public_index(
            TableEncoder(self.schema, self._encoding())
        )  # refused before any spending

    def _public_index(self, encoder: TableEncoder) -> np.ndarray | None:
        if self.public is None:
            return None
        index = encoder.to_index(to_pandas(self.public, "public table"), "public table")
        refuse_no_rows(len(index), "public table")
        return index

    # The budget.

    def _earlier_spends(self) -> list[dict[str, Any]]:
        return together(self.warm_start, super()._earlier_spends())

    def _seeded(self) -> bool:
        warm = self.warm_start
        return super()._seeded() or (warm is not None and warm.seeded_)

    def _once(self) -> tuple[str, ...]:
        """Counts that are released once, before training."""
        found = []
        if self.warm_start is None and self._starts_from_marginals():
            found.append(MARGINALS)
        elif self.rows is None:
            found.append(COUNT)
        if self.overlap == "charged":
            found.append(OVERLAP)
        return tuple(found)

    def _spends(self, earlier: Ledger) -> list[PlannedSpend]:
        return self._split().spends(self.epsilon, self.delta, earlier)

    def _split(self) -> Split:
        autoencoder = None if self._training() == "public" else self._autoencoder()
        return Split(once=self._once(), autoencoder=autoencoder, learned=self._learned())

    def _free_steps(self) -> dict[str, int]:
        free = {}
        config = self._autoencoder()
        if config is not None and self._training() == "public":
            free[AUTOENCODER] = config.steps
        if self.public is not None or self.warm_start is not None:
            free[WARM_START] = self._gan().warm_steps
        if self.warm_start is not None:
            free[MOMENTS] = self._gan().moment_steps
        return free

    # Training.

    def _train(
        self,
        index: np.ndarray,
        spends: list[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        watch: Watch,
        most: int | None = None,
    ) -> Trained:
        device = self._device()
        networks = self._networks(TableEncoder(self.schema, self._encoding()).layout)
        # Streams are drawn in a fixed order, so that a seed means the same run whatever is skipped.
        counts_noise, init_rng = randomness.noise(), randomness.torch()
        private, public = randomness.torch(device), randomness.torch(device)
        streams = Streams(init_rng, private, public, randomness.noise(), randomness.noise())
        # All accounts are opened before the first row is read: a plan past the budget reads nothing.
        split, sizes = self._split(), self.schema.sizes
        accounts = {
            s.purpose: ledger.open(
                s.purpose, s.mechanism, s.count, split.details(s.purpose, len(sizes))
            )
            for s in spends
        }
        free = self._free_index(randomness.numpy(), watch, most)
        rows = PrivateTable(index, ledger)
        counts = first_counts(rows, accounts, sizes, self.rows, free, counts_noise, watch)
        marginals = counts.marginals
        if self.warm_start is not None and free is not None:
            marginals = one_way(free, sizes)
        gan = networks.train(
            PrivateTable(self._codes(networks, index), ledger),
            accounts,
            counts.rows,
            marginals,
            None if free is None else self._codes(networks, free),
            streams,
            watch,
            same_rows=self.warm_start is not None,
            most=most,
        )
        return Trained(generator=gan.released.eval(), curves=gan.curves, notes=counts.overlap)

    def _networks(self, layout: Layout) -> Networks:
        return Networks(
            kind=self.networks,
            gan=self._gan(),
            autoencoder=self._autoencoder(),
            layout=layout,
            device=self._device(),
            learned=tuple(part.purpose for part in self._learned()),
        )

    def _codes(self, networks: Networks, index: np.ndarray) -> Tensor:
        return torch.from_numpy(networks.layout.encode(index)).to(networks.device)

    def _free_index(
        self, rng: np.random.Generator, watch: Watch, most: int | None
    ) -> np.ndarray | None:
        """Value numbers of the public table, or of a sample of the warm start."""
        encoder = TableEncoder(self.schema, self._encoding())
        if self.warm_start is None:
            return self._public_index(encoder)
        warm, width = self.warm_start, encoder.layout.width
        rows = released_rows(width) if most is None else 1000
        # Kept, so that a fit that goes on after a crash goes on with the same table.
        return watch.once(WARM_START, lambda: {"index": released_index(warm, rows, rng)})["index"]

    # What a certificate and a model file hold.

    def _free_rows(self) -> str | None:
        """Which rows cost nothing, besides generated ones: declared public by a person, or released before."""
        if self.public is not None:
            return PUBLIC_TABLE
        return None if self.warm_start is None else RELEASED

    def _stated(self) -> dict[str, Any]:
        training = self._training()
        learned = training if training != "public" else self._free_rows()
        return {"autoencoder": learned, **self._gan().stated()}

    def _public_facts(self) -> dict[str, Any] | None:
        facts = super()._public_facts()
        return None if facts is None else {**facts, "provenance": self.provenance}

    def _facts(self, watch: Watch, trained: Trained) -> dict[str, Any]:
        facts = super()._facts(watch, trained)
        public, warm = facts["public"], self.warm_start
        if public["public_table"] is not None:
            public["public_table"]["overlap"] = trained.notes or "declined: not counted"
        if warm is not None:
            public["warm_start"] = {
                "method": warm.method,
                "sha256_of_weights": fingerprint(warm),
                "settings": warm.facts_.get("settings"),
                "public": warm.facts_["public"],
            }
        return facts

    def _config(self) -> dict[str, Any]:
        autoencoder = self._autoencoder()
        return {
            **{name: getattr(self, name) for name in self.choices},
            "autoencoder": self._training(),
            self.gan: asdict(self._gan()),
            "autoencoder_config": None if autoencoder is None else asdict(autoencoder),
        }

    @classmethod
    def _from_config(cls, schema: Schema, config: Mapping[str, Any], **shared: Any) -> Self:
        autoencoder = config["autoencoder_config"]
        return cls(
            schema,
            **{name: config[name] for name in (*cls.choices, "autoencoder")},
            **{f"{cls.gan}_config": cls.gan_config(**_tuples(config[cls.gan]))},
            autoencoder_config=(
                None if autoencoder is None else AutoencoderConfig(**_tuples(autoencoder))
            ),
            **shared,
        )

    def _size(self) -> int:
        return self._networks(self.encoder_.layout).size()

    def _empty(self) -> TableGenerator:
        return self._networks(self.encoder_.layout).empty()


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """JSON lists back to the tuples of a frozen config."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
