"""What the PATE methods share: teachers, labels, and the account of their votes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from tabsynth._validate import integer, one_of
from tabsynth.encoding import Layout
from tabsynth.errors import InputError
from tabsynth.generators.booth import VOTES
from tabsynth.generators.generator_training import GeneratorTraining
from tabsynth.generators.pate import PATE, Panel
from tabsynth.generators.pate_config import PATEConfig, paper_config
from tabsynth.generators.pate_networks import PATENetworks
from tabsynth.generators.pate_witness import PATEWitness
from tabsynth.generators.table import TableGenerator
from tabsynth.plan import PlannedSpend
from tabsynth.planning.labels import LEAST_ROWS, LEAST_ROWS_EACH, plan_labels, share_right
from tabsynth.privacy.mechanisms import MOST_TEACHERS, NoisyVote
from tabsynth.synthesizers.gan import GAN
from tabsynth.synthesizers.gan_networks import Networks
from tabsynth.synthesizers.pricing import NOMINAL_ROWS
from tabsynth.synthesizers.split import COUNT, Learned

PRESETS = ("default", "paper")
PAPER_ROWS_EACH = 1000  # of a teacher: the paper's best of n/50 … n/5000
MOST_EPSILON = 100.0  # for the number of teachers: beyond, a budget is as good as none
SURE = 0.75  # consensus of teachers, at which it is told what share of the labels is right …
VOID = 0.55  # … if that is less


class Voting(GAN):
    """A GAN whose student learns from the noisy votes of teachers."""

    gan, networks, gan_config = "pate", PATE, PATEConfig

    preset: str
    teachers: int | None
    labels: int | None
    pate_config: PATEConfig | None

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
        if self.pate_config is None and self.preset == "paper":
            return paper_config()
        return self.pate_config or PATEConfig()

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

    def _panel(self) -> Panel:
        return Panel(teachers=self._teachers())

    def _learned(self) -> tuple[Learned, ...]:
        config, teachers = self._networks_config(), self._teachers()

        def votes(noise: float) -> NoisyVote:
            return NoisyVote(noise=noise, teachers=teachers, accounting=config.accounting)

        details = {
            "sensitivity": 1,
            "unit": "votes",
            "shards": "a coin of its own for each record, for life",
        }
        return (Learned(purpose=VOTES, mechanism=votes, count=config.labels, details=details),)

    def _networks(self, layout: Layout) -> Networks:
        return replace(super()._networks(layout), kind=self._kind(), generator=self._generator())

    def _kind(self) -> Callable[..., GeneratorTraining]:
        if self._networks_config().kind == "network":
            return partial(PATENetworks, panel=self._panel())
        return partial(PATEWitness, panel=self._panel(), columns=self.schema.columns)

    def _generator(self) -> Callable[..., TableGenerator]:
        return TableGenerator

    def _free_steps(self) -> dict[str, int]:
        config = self._networks_config()
        return {**super()._free_steps(), VOTES: config.rounds * config.round_steps}

    def _once(self) -> tuple[str, ...]:
        # The paper's networks have no use for n; a private autoencoder has.
        autoencoder = self._autoencoder() is not None and self._training() != "public"
        read = autoencoder or self._networks_config().kind != "network"
        return tuple(name for name in super()._once() if read or name != COUNT)

    def _notes(self, spends: Sequence[PlannedSpend]) -> list[str]:
        found = super()._notes(spends)
        for vote in (s.mechanism for s in spends if isinstance(s.mechanism, NoisyVote)):
            right = share_right(SURE, vote)
            if right < VOID:
                found.append(
                    f"note: where {SURE:.0%} of the teachers agree, {right:.1%} of the labels are right"
                    " (50% is chance): raise epsilon, or use margnet"
                )
        return found

    def _config(self) -> dict[str, Any]:
        return {**super()._config(), "teachers": self._teachers()}


@lru_cache(maxsize=64)
def recommended(rows: int, epsilon: float, delta: float) -> int:
    """The planner's number of teachers; where no label is affordable, teachers of ten rows."""
    found = plan_labels(rows, epsilon, delta).recommended if rows >= LEAST_ROWS else None
    return found or min(max(2, rows // LEAST_ROWS_EACH), MOST_TEACHERS)
