"""R7, R11, R12, R17 as a user meets them: budgets, refits, interrupts, seeds, drafted domains."""

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting as dpa
import numpy as np
import pandas as pd
import pytest
import torch
from dp_accounting import pld
from fitted_tables import SCHEMA, facts, frame, small, stop_at
from sklearn.base import clone
from systems import SYSTEMS

from tabsynth import DPWGAN, BudgetError, InputError, Schema, TabsynthError, draft_private, load
from tabsynth.drafting import private_schema
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.accounting.accountants import PrivacyFilter
from tabsynth.privacy.certificate.certificate import rounded_up
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger.ledger import PrivateTable
from tabsynth.synthesizers import METHODS
from tabsynth.synthesizers.session import interrupted_cost

torch.set_num_threads(1)


def by_pld(model: DPWGAN) -> float:
    """ε of what the certificate lists, by an accountant that is not ours."""
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    for item in model.certificate()["mechanisms"]:
        event: dpa.DpEvent = dpa.GaussianDpEvent(item["noise_multiplier"])
        if item["sampling_rate"] < 1:
            event = dpa.PoissonSampledDpEvent(item["sampling_rate"], event)
        accountant.compose(dpa.SelfComposedDpEvent(event, item["count"]))
    return accountant.get_epsilon(model.delta)


def counts(model: DPWGAN) -> dict[str, int]:
    return {a.purpose: a.spent for a in model.ledger_.accounts}


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1.0, 0.2])
@pytest.mark.parametrize("autoencoder", ["preset", "dp-sgd", None])
def test_a_fit_spends_its_plan_and_no_more(rate: float, autoencoder: str | None) -> None:
    """R7, R11: one ledger over counts, autoencoder and critic; composed by one accountant."""
    model = small(rate=rate, autoencoder=autoencoder)
    plan = model.plan(estimate_time=False)
    model.fit(frame())
    certificate = model.certificate()
    assert certificate["epsilon"] == pytest.approx(plan.epsilon, rel=1e-9)
    assert 2.98 < certificate["epsilon"] <= 3.0 == certificate["epsilon_asked"]
    assert by_pld(model) < 3.0 + 2e-3
    wanted = {"one-way counts": 1, "autoencoder": 5, "critic": 8}
    if autoencoder is None:
        del wanted["autoencoder"]
    if autoencoder == "preset":
        wanted |= {"scores of pairs": 1, "joint counts": 1}
    assert counts(model) == wanted == {i["purpose"]: i["count"] for i in certificate["mechanisms"]}
    assert certificate["private"] is True and certificate["public"]["rows"] is None
    for item in certificate["mechanisms"]:
        expected = rate if item["purpose"] in ("autoencoder", "critic") else 1.0
        assert item["sampling_rate"] == expected


def test_every_read_is_paid() -> None:
    """R7: as many reads of private rows as uses on the ledger."""
    reads: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        original = PrivateTable.read

        def read(table: PrivateTable[Any], account: Any) -> Any:
            before = account.spent
            rows = original(table, account)
            assert account.spent == before + 1
            reads.append(account.purpose)
            return rows

        patch.setattr(PrivateTable, "read", read)
        model = small().fit(frame())
    assert {p: reads.count(p) for p in set(reads)} == counts(model)


def test_a_refit_adds_to_what_was_spent() -> None:
    """R7, R23: a second fit is refused; with a larger ε a filter of that ε composes it with the first."""
    model = small().fit(frame())
    first = model.certificate()
    for second in (model.fit, lambda _: model.plan()):
        with pytest.raises(BudgetError, match="already spent"):
            second(frame())
    assert facts(model) == {k: v for k, v in first.items() if k != "created"}
    model.set_params(epsilon=6.0).fit(frame())
    assert counts(model)["critic"] == 8 and len(model.certificate()["mechanisms"]) == 6
    created, kept = model.certificate(), PrivacyFilter.of(6.0, 1e-5)
    assert 0.99 < kept.share(model.ledger_.spends()) <= 1 + 1e-9
    assert created["epsilon"] == 6.0 > by_pld(model) > 5.4
    assert created["accountant"]["name"] == "Rényi filter"
    assert created["accountant"]["order"] == kept.order
    assert [i.get("earlier", False) for i in created["mechanisms"]] == [True] * 3 + [False] * 3
    assert not hasattr(clone(model), "ledger_")


def test_a_failed_fit_keeps_what_it_spent() -> None:
    """R7: a crash never un-spends; bad input spends nothing."""
    model = small()
    with pytest.raises(InputError):
        model.fit(frame().assign(b="maybe"))
    assert not hasattr(model, "ledger_")

    with pytest.raises(RuntimeError, match="stopped"):
        model.fit(frame(), progress=stop_at("critic", 3))
    assert counts(model) == {"one-way counts": 1, "autoencoder": 5, "critic": 3}
    spent = model.ledger_.spent
    assert 0 < spent < 3
    model.set_params(epsilon=4.0).fit(frame())
    assert spent < by_pld(model) < 4.0 == model.certificate()["epsilon"]


@pytest.mark.parametrize(("stage", "steps"), [("critic", 3), ("autoencoder", 2)])
def test_an_interrupt_leaves_a_fitted_model(stage: str, steps: int, tmp_path: Path) -> None:
    """R7, R23: Ctrl-C: the model samples and saves; it claims the ε of its plan, not of the steps before it.

    A person may stop by what they saw, so the number of steps may follow from the outputs.
    """

    model = small()
    with pytest.raises(KeyboardInterrupt):
        model.fit(frame(), progress=stop_at(stage, steps, KeyboardInterrupt))
    assert counts(model) == {"one-way counts": 1, "autoencoder": 5, "critic": 8}
    certificate = model.certificate()
    assert certificate["training"]["stopped"] == "interrupted"
    assert (
        certificate["epsilon"] == small().plan(estimate_time=False).epsilon == model.ledger_.spent
    )
    assert len(model.sample(5)) == 5
    with pytest.raises(BudgetError, match="already spent"):
        model.fit(frame())
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").certificate()["epsilon"] == certificate["epsilon"]


STAGES = {"margnet": "generator", "dp-gan": "critic", "pate-gan": "votes"}


@pytest.mark.parametrize("ledger", [False, True])
@pytest.mark.parametrize("method", STAGES)
def test_an_interrupt_is_told_alike_of_every_method(
    method: str, ledger: bool, tmp_path: Path
) -> None:
    """R23: the message and verify state the certificate's ε, that of the plan, and what the project's filter counts."""

    def interrupt(stage: str, done: int, total: int) -> None:
        if stage == STAGES[method] and done < total:
            raise KeyboardInterrupt

    fixture = SYSTEMS[method].full_batches(SCHEMA)
    model = METHODS[method](SCHEMA, epsilon=3.0, rows=60, device="cpu", **fixture)
    project = tmp_path / "l" if ledger else None
    if project is not None:
        ProjectLedger.create(project, epsilon=9.0)
    assert interrupted_cost(model) == "Nothing was charged."
    with pytest.raises(KeyboardInterrupt):
        model.fit(frame(), progress=interrupt, ledger=project)
    certificate, cost = model.certificate(), interrupted_cost(model)
    assert certificate["training"]["stopped"] == "interrupted"
    assert f"It claims epsilon={rounded_up(certificate['epsilon'])}, that of its whole plan" in cost
    path = tmp_path / "t.csv"
    model.sample_to(path, 9)
    verification = verify(path)
    assert verification.consistent
    assert verification.notes == (f"its fit was interrupted: i{cost[1:-1]}",)
    if project is None:
        assert "ledger" not in cost
        return
    (of_run,) = ProjectLedger.read(project).runs()
    assert of_run.epsilon == pytest.approx(certificate["epsilon"])
    assert certificate["project"]["share"] == of_run.share
    assert (
        f"ledger l counts the uses that were charged, and {of_run.share:.1%} of its budget" in cost
    )


@pytest.mark.parametrize("ledger", [False, True])
def test_an_interrupt_before_there_is_a_model_counts_the_budget(
    ledger: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R23: how much of a draft was charged by then may depend on what a person saw."""
    project = tmp_path / "l" if ledger else None
    if project is not None:
        ProjectLedger.create(project, epsilon=9.0)
    monkeypatch.setattr(private_schema._Draft, "_rest", lambda *_: _raise(KeyboardInterrupt))
    model = DPWGAN(None, epsilon=3.0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(frame(600), ledger=project)
    assert 0 < model.ledger_.spent < 3.0
    counted = ", and the project ledger counts it." if ledger else ": count epsilon=3, its budget."
    assert interrupted_cost(model) == f"What was charged stays charged{counted}"


def _raise(error: type[BaseException]) -> None:
    raise error


@pytest.mark.parametrize("method", STAGES)
def test_a_second_fit_names_the_epsilon_of_the_certificate(method: str, tmp_path: Path) -> None:
    """R6: and not what the filter that would compose both makes of it, which is larger."""
    fixture = SYSTEMS[method].full_batches(SCHEMA)
    model = METHODS[method](SCHEMA, epsilon=1.0, rows=60, device="cpu", **fixture).fit(frame())
    model.save(tmp_path / "m")
    claimed = rounded_up(model.certificate()["epsilon"])
    assert float(claimed) <= 1
    for fitted in (model, load(tmp_path / "m")):
        for call in (fitted.plan, lambda fitted=fitted: fitted.fit(frame())):
            with pytest.raises(BudgetError, match=f"already spent epsilon={claimed} of 1;"):
                call()


def test_a_fit_after_a_draft_names_the_epsilon_of_the_draft() -> None:
    """R6: a schema whose draft took the whole budget."""
    schema = draft_private(frame(2000), 1.0)
    with pytest.raises(BudgetError, match=r"already spent epsilon=(1|0\.99\d*) of 1;"):
        DPWGAN(schema, epsilon=1.0).plan()


def test_a_time_limit_gives_a_smaller_epsilon() -> None:
    """R7: the deadline stops training between steps; ε is that of the steps done."""
    model = small(time_limit=1e-9).fit(frame())
    assert counts(model) == {"one-way counts": 1, "autoencoder": 0, "critic": 0}
    certificate = model.certificate()
    assert certificate["training"]["stopped"] == "time limit" and 0 < certificate["epsilon"] < 1.2
    assert len(model.sample(4)) == 4
    # What is left may be spent by another fit.
    model.set_params(time_limit=None).fit(frame())
    assert certificate["epsilon"] < by_pld(model) < model.certificate()["epsilon"] == 3.0
    assert model.certificate()["training"]["stopped"] is None


def test_autoencoder_on_a_public_table_spends_nothing() -> None:
    """R11."""
    model = small(autoencoder="public", public=frame(15, seed=3), public_source="made up").fit(
        frame()
    )
    certificate = model.certificate()
    assert [i["purpose"] for i in certificate["mechanisms"]] == ["one-way counts", "critic"]
    assert certificate["public"]["public_table"]["rows"] == 15 and certificate["private"] is True
    assert small().fit(frame()).certificate()["public"]["public_table"] is None


def test_autoencoder_without_noise_is_epsilon_inf() -> None:
    """R11: refused at a finite ε, infinite on the certificate otherwise."""
    with pytest.raises(InputError, match="epsilon=inf"):
        small(autoencoder="no-noise").fit(frame())
    model = small(epsilon=math.inf).fit(frame())
    certificate = model.certificate()
    assert (
        certificate["epsilon"] == "inf" == certificate["epsilon_asked"]
        and certificate["private"] is False
    )
    assert certificate["statement"].startswith("Not private")
    assert {i["mechanism"] for i in certificate["mechanisms"]} == {"none"}
    # Once read without noise, no finite budget covers these rows.
    with pytest.raises(BudgetError, match="already spent epsilon=inf"):
        model.set_params(epsilon=100.0).fit(frame())


def test_drafted_domains() -> None:
    """R12: refused at a finite ε unless confirmed; then the certificate says so."""
    columns = [replace(SCHEMA.columns[0], provenance="drafted"), *SCHEMA.columns[1:]]
    schema = Schema(columns, SCHEMA.null_values)
    model = small(schema)
    with pytest.raises(InputError, match="drafted from a table"):
        model.fit(frame())
    assert not hasattr(model, "ledger_")
    certificate = model.set_params(accept_drafted_domain=True).fit(frame()).certificate()
    assert certificate["private"] is False and certificate["conditional"] == ["k"]
    assert (
        certificate["statement"].startswith("CONDITIONAL: (")
        and "column 'k' is public" in certificate["statement"]
    )
    assert "CONDITIONAL" in str(model.set_params(epsilon=5.0).plan(estimate_time=False))
    said = certificate["public"]
    assert said["drafted"] == ["k"] and said["accepted_drafted_domain"] is True
    assert said["declared"] == ["v", "r", "b"]
    free = small(schema, epsilon=math.inf).fit(frame()).certificate()["public"]
    assert free["drafted"] == ["k"] and free["accepted_drafted_domain"] is False
    certificate = small(accept_drafted_domain=True).fit(frame()).certificate()
    assert certificate["conditional"] == [] and certificate["private"] is True
    declared = certificate["public"]
    assert declared["drafted"] == [] and declared["accepted_drafted_domain"] is False


def global_states() -> tuple[object, ...]:
    legacy = np.random.get_state()[1].tolist()  # noqa: NPY002
    return random.getstate(), legacy, torch.get_rng_state().tolist()


@pytest.mark.slow
def test_seeds(tmp_path: Path) -> None:
    """R17: a seed repeats the run, marks it, and is in no file; without one no two runs agree."""
    before = global_states()
    seed, path = 987654321, tmp_path / "model"
    one, other = (small(random_state=seed).fit(frame()) for _ in range(2))
    pd.testing.assert_frame_equal(one.sample(30), other.sample(30))
    pd.testing.assert_frame_equal(one.sample(30), one.sample(30))
    assert not one.sample(30).equals(one.sample(30, random_state=1))
    assert facts(one) == facts(other)
    certificate = one.certificate()
    assert certificate["seeded"] is True and certificate["private"] is False
    assert certificate["statement"].startswith("Not private: seeded.")
    one.save(path)
    content = path.read_bytes()
    for shape in (str(seed).encode(), seed.to_bytes(4, "little"), seed.to_bytes(4, "big")):
        assert shape not in content
    loaded = load(path)
    assert loaded.certificate()["seeded"] is True and loaded.certificate()["private"] is False
    one.sample_to(tmp_path / "t.csv", 5)
    assert str(seed) not in (tmp_path / "t.csv.certificate.json").read_text()
    assert verify(tmp_path / "t.csv").consistent
    # A seed of the draws alone is post-processing.
    free, second = small().fit(frame()), small().fit(frame())
    pd.testing.assert_frame_equal(free.sample(9, random_state=2), free.sample(9, random_state=2))
    assert free.certificate()["seeded"] is False and free.certificate()["private"] is True
    assert any(
        not torch.equal(a, b)
        for a, b in zip(
            free.model_.weights().values(), second.model_.weights().values(), strict=True
        )
    )
    assert not free.sample(30).equals(free.sample(30))
    free.set_params(epsilon=9.0).plan()
    assert global_states() == before


def test_once_seeded_stays_seeded() -> None:
    """R17: the noise of the first fit can be subtracted, whatever the second one did."""
    model = small(random_state=1).fit(frame())
    model.set_params(random_state=None, epsilon=6.0).fit(frame())
    assert model.certificate()["private"] is False


def test_artefacts_hold_no_private_state(tmp_path: Path) -> None:
    """R18: no critic, no encoder half, no RNG, no rows; curves are of generated rows."""
    table = frame()
    model = small(epsilon=math.inf).fit(table)
    assert set(model.model_.weights()) == {
        *(f"body.{i}.{part}" for i in (0, 3) for part in ("weight", "bias")),
        *(f"body.1.{part}" for part in ("weight", "bias")),
        *(f"body.1.{part}" for part in ("running_mean", "running_var", "num_batches_tracked")),
        *(f"decoder.{i}.{part}" for i in (0, 2) for part in ("weight", "bias")),
    }
    assert set(model.model_.curves) == {"critic's score of generated rows"}
    holdout = repr({k: v for k, v in vars(model).items() if k.endswith("_")})
    assert "PrivateTable" not in holdout and "Generator object" not in holdout
    assert {k for k in vars(model) if k.endswith("_")} == {"ledger_", "model_", "seeded_"}
    trained = {
        "generator",
        "curves",
        "notes",
        "rows",
        "population",
        "likely_steps",
        "measured",
        "tables",
        "reached",
    }
    stated = {"method", "encoder", "config", "table_kind", "ledger", "facts", "seeded"}
    assert {*vars(model.model_)} == trained | stated


def test_certificates_follow_the_fit_not_later_parameters(tmp_path: Path) -> None:
    model = small().fit(frame())
    created = facts(model)
    model.set_params(epsilon=50.0, delta=0.01)
    assert facts(model) == created
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert facts(loaded) == created and (loaded.epsilon, loaded.delta) == (3.0, 1e-5)
    with pytest.raises(BudgetError, match="already spent"):  # R7: loading does not forget
        loaded.fit(frame())


def test_shares_that_leave_nothing() -> None:
    """R7: earlier parts that pass ε by themselves are a BudgetError before any read."""
    model = small(epsilon=1e-12, delta=1e-12, rate=0.2)
    with pytest.raises(TabsynthError, match="No noise"):
        model.fit(frame())
    assert not hasattr(model, "ledger_")
