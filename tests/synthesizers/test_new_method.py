"""A method that is registered here only takes part in everything, without an edit elsewhere."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import systems
import torch
from fitted_tables import SCHEMA, frame
from record_replay import neighbours, replay
from systems.form import Systems

import tabsynth
from tabsynth._random import Randomness
from tabsynth.auditing.fixtures import AuditFixture
from tabsynth.auditing.registry import list_kinds
from tabsynth.auditing.replay_audit import audit_by_replay, make_tiny_model
from tabsynth.auditing.request import AuditRequest
from tabsynth.cli.fit import arguments_of, check_method
from tabsynth.errors import InputError
from tabsynth.methods import METHODS as REGISTERED
from tabsynth.methods import ONE_WAY, Method
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.counts import estimated_rows, noisy_marginals, probabilities
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers import METHODS, Synthesizer, load
from tabsynth.synthesizers.method import PlannedSpend, TableMethod, Trained
from tabsynth.training.loop import TrainingMonitor

NAME = "independent"


class Columns(torch.nn.Module):
    """Independent columns: a distribution for each."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        for j, size in enumerate(sizes):
            self.register_buffer(str(j), torch.full((size,), 1 / size, dtype=torch.float64))

    def sample(self, n: int, rng: torch.Generator) -> np.ndarray:
        drawn = [torch.multinomial(p, n, replacement=True, generator=rng) for p in self.buffers()]
        return torch.stack(drawn, dim=1).cpu().numpy()

    def sound(self) -> bool:
        return all(bool((p >= 0).all()) and float(p.sum()) > 0 for p in self.buffers())


@dataclass(frozen=True, kw_only=True, eq=False)
class IndependentMethod(TableMethod):
    """Noisy one-way counts, and nothing else."""

    def plan(self, earlier: Ledger) -> list[PlannedSpend]:
        noise = (1 + 1e-9) / gaussian_mu(self.epsilon, self.delta)
        mechanism = Gaussian(noise_multiplier=noise) if math.isfinite(self.epsilon) else NoPrivacy()
        return [PlannedSpend(purpose=ONE_WAY, mechanism=mechanism, count=1)]

    def train(
        self,
        rows: np.ndarray,
        spends: Sequence[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        monitor: TrainingMonitor,
    ) -> Trained:
        sizes, (spend,) = self.schema.sizes, spends
        details = {"l2_sensitivity": math.sqrt(len(sizes)), "unit": "counts", "columns": len(sizes)}
        account = ledger.open(spend.purpose, spend.mechanism, spend.count, details)
        table, bits = PrivateTable(rows, ledger), randomness.noise()
        counts = noisy_marginals(table, account, sizes, bits)
        number, generator = estimated_rows(counts), Columns(sizes)
        for p, c in zip(generator.buffers(), counts, strict=True):
            p.copy_(torch.from_numpy(probabilities(c, number, 1.0)))
        return Trained(generator=generator, curves={})

    def configuration(self) -> dict[str, Any]:
        return {}

    def size(self) -> int:
        return sum(self.schema.sizes)

    def make_empty(self) -> Columns:
        return Columns(self.schema.sizes)


@dataclass(kw_only=True, eq=False, repr=False)
class Independent(Synthesizer):
    """Noisy one-way counts, and nothing else."""

    method: ClassVar[str] = NAME

    def make_method(self, schema: Schema) -> IndependentMethod:
        return IndependentMethod(**self.shared_settings(), schema=schema)

    @classmethod
    def parameters_from(cls, schema: Schema, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {}


FIXTURES = {NAME: AuditFixture(tiny=lambda schema: {"time_limit": 60.0})}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    method = Method(
        module=__name__,
        estimator="Independent",
        required=lambda fit: [(ONE_WAY,)],
        by_schema=True,
        audit_fixture=__name__,
    )
    monkeypatch.setitem(REGISTERED, NAME, method)
    options = {NAME: {}, f"{NAME}, rows declared": {"rows": 60}}
    monkeypatch.setitem(systems.SYSTEMS, NAME, Systems(options=options))


def test_it_fits_saves_loads_certifies_and_verifies(tmp_path: Path) -> None:
    model = METHODS[NAME](SCHEMA, epsilon=3.0).fit(frame())
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded) is Independent
    loaded.sample_to(tmp_path / "t.csv", 20)
    verification = tabsynth.verify(tmp_path / "t.csv")
    assert verification.consistent and verification.certificate["method"] == NAME


def test_a_certificate_without_what_it_must_charge_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    METHODS[NAME](SCHEMA, epsilon=3.0).fit(frame()).sample_to(tmp_path / "t.csv", 20)
    other = Method(module=__name__, estimator="Independent", required=lambda fit: [("votes",)])
    monkeypatch.setitem(REGISTERED, NAME, other)
    assert any("votes" in problem for problem in tabsynth.verify(tmp_path / "t.csv").problems)


def test_it_is_planned_and_offered_at_the_command_line() -> None:
    plan = tabsynth.plan(NAME, 60, 3.0, schema=SCHEMA)
    assert plan.method == NAME and 2.9 < plan.epsilon <= 3.0
    with pytest.raises(InputError, match="give the table's schema"):
        tabsynth.plan(NAME, 60, 3.0)
    check_method(NAME)
    assert arguments_of(NAME, {}, {}) == {}
    with pytest.raises(InputError, match="no setting 'preset'"):
        arguments_of(NAME, {}, {"preset": "paper"})


@pytest.mark.slow
def test_it_is_replayed() -> None:
    assert list_kinds(NAME) == ("replay",)
    assert not audit_by_replay(AuditRequest(method=NAME, epsilon=3.0)).is_refuted
    assert systems.system_names(NAME) == [NAME, f"{NAME}, rows declared"]
    assert systems.system_names()[-2:] == systems.system_names(
        NAME
    )  # those of other methods keep their numbers
    declared = systems.make_tiny_model(f"{NAME}, rows declared", SCHEMA, epsilon=3.0)
    assert type(declared) is Independent and declared.rows == 60
    first = neighbours(frame(), SCHEMA, seed=0)[0]
    replayed = replay(declared, first.table, first.neighbour, seed=0)
    assert replayed.passes and 0.9 < replayed.worst_move <= 1 + 1e-4


def test_its_fixture_makes_the_fits_of_an_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits, right = [], Independent.fit

    def fit(self: Independent, *args: Any, **options: Any) -> Any:
        limits.append(self.time_limit)
        return right(self, *args, **options)

    monkeypatch.setattr(Independent, "fit", fit)
    (result,) = tabsynth.audit(NAME, 1.0)
    assert not result.is_refuted and set(limits) == {60.0}


def test_a_kind_of_audit_that_it_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="has no white-box audit; take kind="):
        tabsynth.audit(NAME, 1.0, kinds=["white-box"])


def test_a_method_without_a_fixture_is_replayed_as_it_is_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(REGISTERED, NAME, replace(REGISTERED[NAME], audit_fixture=None))
    assert make_tiny_model(NAME, 3.0, 1e-5).rows is None
