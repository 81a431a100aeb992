"""R27: of every certificate, each charge that is taken out or made smaller is found by what the other fields state.

The forger changes the list of mechanisms and all that follows from it: ε, the statement, the accountant and the bounds on
an attacker; also the ε that was asked for, and what is marked as earlier. The plan, settings and public facts stay.
"""

import copy
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from command_lines import make_people
from fitted_tables import SCHEMA, small, small_acgan, small_dpgan, small_pate, stop_at
from fitted_tables import frame as rows
from linked_tables import TINY, schema, tables
from record_replay import neighbours
from systems import make_tiny_model, system_names

from tabsynth import InputError, MargNet, Numeric, Schema
from tabsynth.auditing.replay_audit import SCHEMA as REPLAYED
from tabsynth.drafting import private_schema
from tabsynth.drafting.relation_search import COUNTS, SELECTION, TABLES
from tabsynth.errors import TabsynthError
from tabsynth.methods import CRITIC, DRAFT, JOINT, METHODS, ONE_WAY, STEPS, VOTES
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.accounting.mechanisms import LEAST_NOISE
from tabsynth.privacy.certificate.certificate import (
    COMPOSITIONS,
    beside,
    certify,
    describe_mechanism,
    read_certificate,
    statement_of,
)
from tabsynth.privacy.certificate.completeness import find_missing_mechanisms
from tabsynth.privacy.certificate.signing import make_keys, read_private
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger.ledger import EARLIER, Ledger
from tabsynth.synthesizers import MargNetConfig, load
from tabsynth.synthesizers.adversarial.method import NetworksMethod
from tabsynth.training.loop import TIME_LIMIT, TrainingMonitor

torch.set_num_threads(1)
EPSILON = 60.0  # where accounting is quick
SMALL = MargNetConfig(components=20, steps=5, hidden=(8,))
RULED = Schema(
    [Numeric(name=n, dtype="int64", low=0, high=9) for n in ("low", "high")],
    constraints=[{"order": ["low", "high"]}],
    violations="drop",
)


def pairs(number: int = 200) -> pd.DataFrame:
    return pd.DataFrame(
        {"low": [i % 5 for i in range(number)], "high": [i % 5 + i % 4 for i in range(number)]}
    )


def system(name: str) -> Any:
    """A system of the replays, fitted."""
    model = make_tiny_model(name, REPLAYED, epsilon=EPSILON)
    return model.fit(neighbours(rows(), model.schema or REPLAYED, seed=0)[0].table)


def linked(path: Path) -> Any:
    from tabsynth import LinkedMargNet

    return LinkedMargNet(schema(), epsilon=2.0, config=TINY).fit(tables())


def again(path: Path) -> Any:
    model = MargNet(SCHEMA, epsilon=3.0, config=SMALL).fit(rows())
    return model.set_params(epsilon=6.0).fit(rows())


def on_a_project(path: Path) -> Any:
    ProjectLedger.create(path / "l", epsilon=8.0)
    people = make_people(300)
    return MargNet(None, epsilon=4.0, config=SMALL).fit(people, ledger=path / "l")


def declared_afterwards(path: Path) -> Any:
    """All columns of a draft are declared by hand; the draft was charged all the same."""
    facts = MargNet(None, epsilon=3.0, config=SMALL).fit(rows(600)).schema_.to_dict()
    for column in facts["columns"]:
        column["provenance"] = "declared"
    return MargNet(Schema.from_dict(facts), epsilon=5.0, config=SMALL).fit(rows(600))


def on_a_ledger(path: Path) -> Any:
    ProjectLedger.create(path / "l", epsilon=8.0)
    return small().fit(rows(), ledger=path / "l")


def interrupted(path: Path) -> Any:
    model = small()
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows(), progress=stop_at("critic", 3, KeyboardInterrupt))
    return model


FITS: dict[str, Callable[[Path], Any]] = {
    **{name: lambda _, name=name: system(name) for name in system_names()},
    "linked tables": linked,
    "a fit again": again,
    "a draft on a project ledger": on_a_project,
    "a draft, declared afterwards": declared_afterwards,
    "interrupted": interrupted,
    "stopped": lambda _: small_dpgan(time_limit=1e-6, rate=0.5).fit(rows()),
}


def smaller(items: list[dict[str, Any]], cut: bool) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Lists with one charge less, or one that is stated to cost less or to add less noise than it did."""
    for i, item in enumerate(items):
        purpose = f"{i}, {item['purpose']}"
        others = [*items[:i], *items[i + 1 :]]
        free = cut and item["purpose"] in STEPS  # a time limit may leave these out
        if not free:
            yield f"{purpose}: taken out", others
        for count in {1, item["count"] - 1} if item["count"] > 1 and not free else ():
            yield f"{purpose}: {count} uses", _with(items, i, count=count)
        for name in ("noise_multiplier", "noise"):
            for factor in (1.01, 1.5, 0.9) if name in item and item[name] > LEAST_NOISE else ():
                yield (
                    f"{purpose}: {name} times {factor}",
                    _with(items, i, **{name: item[name] * factor}),
                )
        if item.get("sampling_rate", 1) < 1:
            yield (
                f"{purpose}: half the rate",
                _with(items, i, sampling_rate=item["sampling_rate"] / 2),
            )
        if "l2_sensitivity" in item["details"]:
            details = {**item["details"], "l2_sensitivity": item["details"]["l2_sensitivity"] * 0.9}
            yield f"{purpose}: sensitivity", _with(items, i, details=details)
        # A sensitivity is checked in its unit, so no other unit may take the check away.
        plain = {n: v for n, v in item["details"].items() if n not in ("unit", "l2_sensitivity")}
        stated, value = item["details"]["unit"], item["details"].get("l2_sensitivity")
        for unit in (stated, "x", "gradient norm", "units", None):
            right = unit == stated or (unit == "gradient norm" and unit in stated)
            for other in {value, 0.001, None}:
                if right and (other == value or value is None):
                    continue
                new = {"unit": unit, "l2_sensitivity": other}
                details = {**plain, **{n: v for n, v in new.items() if v is not None}}
                yield f"{purpose}: {new}", _with(items, i, details=details)


def _with(items: list[dict[str, Any]], i: int, **changes: Any) -> list[dict[str, Any]]:
    derived = ("sampling", "sensitivity", "noise_added")
    plain = {name: value for name, value in items[i].items() if name not in derived}
    return [*items[:i], describe_mechanism({**plain, **changes}), *items[i + 1 :]]


def forged(
    certificate: dict[str, Any], items: list[dict[str, Any]], thorough: bool
) -> dict[str, Any]:
    """A certificate of ``items``; ``thorough`` also changes the ε asked for, and what is marked as earlier."""
    data, asked = copy.deepcopy(certificate), certificate["epsilon_asked"]
    if thorough:
        items = [{name: v for name, v in item.items() if name != EARLIER} for item in items]
        asked = math.inf
    ledger = Ledger.from_list(asked, data["delta"], items)
    epsilon = ledger.spent
    data |= {"mechanisms": items, "epsilon": epsilon, "accountant": ledger.accountant()}
    data["composition"] = COMPOSITIONS[data["accountant"]["name"]]
    data["statement"] = statement_of(epsilon, data["delta"], False, data["public"])
    data["epsilon_asked"] = epsilon if thorough else asked
    bounds = ledger.attack_bounds()
    data.pop("attacker", None)
    return (
        data
        if bounds is None or math.isinf(bounds.odds)
        else {**data, "attacker": bounds.to_dict()}
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_every_smaller_charge_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FITS[name](tmp_path)
    path = tmp_path / "t.csv"
    if name == "linked tables":
        path = model.sample_to(tmp_path / "made", 20) / "stays.csv"
    else:
        model.sample_to(path, 20)
    honest = read_certificate(beside(path))
    verification = verify(path)
    assert verification.consistent, verification.problems
    assert not [n for n in verification.notes if "state its plan" in n or "unspent" in n]
    missed, tried = [], 0
    cut = honest["training"]["stopped"] == TIME_LIMIT
    for what, items in smaller(honest["mechanisms"], cut):
        tried += 1
        # What verify and certify ask first. It looks at nothing that the forger changes but the list.
        if find_missing_mechanisms({**honest, "mechanisms": items}):
            continue
        for thorough in (False, True):
            try:
                data = forged(honest, items, thorough)
            except TabsynthError:  # no accountant takes it
                continue
            beside(path).write_text(json.dumps(data))
            if verify(path).consistent:
                missed.append((what, thorough))
    assert tried >= 5 and not missed


def fitted_again(path: Path) -> Any:
    model = small(autoencoder=None).fit(rows())
    return model.set_params(epsilon=6.0).fit(rows())


# Fits with curves, and the purposes of which the steps of the curves are uses.
CURVED: dict[str, tuple[Callable[[Path], Any], set[str]]] = {
    "dp-wgan": (lambda path: small().fit(rows()), {CRITIC}),
    "dp-wgan of a public table": (
        lambda path: small(public=rows(30, seed=4), public_source="made up").fit(rows()),
        {CRITIC},
    ),
    "dp-wgan on a ledger": (on_a_ledger, {CRITIC}),
    "dp-gan": (lambda path: small_dpgan(variant="basic").fit(rows()), {CRITIC}),
    "dp-wgan again": (fitted_again, {CRITIC}),
    "interrupted": (interrupted, {CRITIC}),
    "pate-gan": (lambda path: small_pate().fit(rows()), {VOTES}),
    "pate-acgan": (lambda path: small_acgan().fit(rows()), {VOTES}),
}


def without(certificate: dict[str, Any], purpose: str, uses: int) -> dict[str, Any]:
    """A certificate that lists ``uses`` uses of a mechanism in place of those of its own fit."""
    data = copy.deepcopy(certificate)
    own = [i for i in data["mechanisms"] if i["purpose"] == purpose and not i.get(EARLIER)]
    for item in own:
        item["count"] = uses
        data["mechanisms"].remove(item)
    data["mechanisms"] += own if uses else []
    return data


@pytest.mark.parametrize("name", CURVED)
def test_a_time_limit_excuses_no_use_that_a_curve_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the list, nor in the plan."""
    fit, purposes = CURVED[name]
    honest = fit(tmp_path).certificate()
    curves, registered = honest["training"]["curves"], METHODS[honest["method"]].curves
    last = max(step for curve in registered if curve in curves for step in curves[curve]["step"])
    assert find_missing_mechanisms(honest) == []
    honest["training"]["stopped"] = TIME_LIMIT
    assert find_missing_mechanisms(honest) == []
    shown = -(-last // len(purposes))
    assert shown >= 2
    for purpose in purposes:
        assert find_missing_mechanisms(without(honest, purpose, shown)) == []
        for uses in (0, 1, shown - 1):
            forged = without(honest, purpose, uses)
            problems = " ".join(find_missing_mechanisms(forged))
            assert f"its list of mechanisms has {uses} uses of '{purpose}'" in problems
            for item in forged["plan"]["fit"]:
                item["count"] = uses if item["purpose"] == purpose else item["count"]
            assert f"its plan has {uses} uses of '{purpose}'" in " ".join(
                find_missing_mechanisms(forged)
            )


# What each fit plans; of linked tables, after the table's name.
ALWAYS = (ONE_WAY, JOINT, CRITIC, VOTES)


def test_curves_of_methods_have_registered_names() -> None:
    """A curve of another name would be compared with nothing."""
    from tabsynth.synthesizers.adversarial.critic import SCORES
    from tabsynth.synthesizers.pate.pairs import DISTANCE

    names = {name: {*method.curves} for name, method in METHODS.items()}
    # The second is of certificates of version 0.2.
    critic, votes = {SCORES, "critic steps per generator step"}, {DISTANCE}
    assert names == {
        **{"margnet": set(), "dp-wgan": critic, "dp-gan": critic},
        **{"pate-gan": votes, "pate-acgan": votes},
    }


@pytest.mark.parametrize("name", ["dp-wgan", "pate-acgan", "margnet", "linked tables"])
def test_a_plan_that_no_fit_has_is_a_problem(name: str, tmp_path: Path) -> None:
    """It must have what each fit of the method plans; a list of its own mechanisms alone does not do."""
    fits = {
        "margnet": lambda path: MargNet(SCHEMA, epsilon=3.0, config=SMALL).fit(rows()),
        "linked tables": linked,
    }
    fit = fits[name] if name in fits else CURVED[name][0]
    honest = fit(tmp_path).certificate()
    for stopped in (None, TIME_LIMIT):
        honest["training"]["stopped"] = stopped
        assert find_missing_mechanisms(honest) == []
        for item in honest["plan"]["fit"]:
            others = [i for i in honest["plan"]["fit"] if i is not item]
            for plan in (
                [],
                *([others] if item["purpose"].endswith(ALWAYS) else []),
                [*others, {**item, "count": 0}],
                [*others, {**item, "count": float(item["count"])}],
                [*others, {n: v for n, v in item.items() if n != "count"}],
            ):
                data = {**honest, "plan": {**honest["plan"], "fit": plan}}
                problems = " ".join(find_missing_mechanisms(data))
                assert (
                    "its plan is incomplete: a fit of" in problems or "number of uses" in problems
                )
        data = {
            **honest,
            "plan": {"before": [{**item, "count": 1.0}], "fit": honest["plan"]["fit"]},
        }
        assert "its plan has a mechanism without a number of uses" in find_missing_mechanisms(data)


def test_a_forged_time_limit_is_refused(tmp_path: Path) -> None:
    """All that follows from the list is forged too."""
    path = tmp_path / "t.csv"
    small().fit(rows()).sample_to(path, 20)
    honest = read_certificate(beside(path))
    assert verify(path).consistent
    others = [item for item in honest["mechanisms"] if item["purpose"] != CRITIC]
    data = forged(honest, others, thorough=True)
    data["training"]["stopped"] = TIME_LIMIT
    for plan in (honest["plan"], {"before": [], "fit": []}):
        beside(path).write_text(json.dumps({**data, "plan": plan}))
        verification = verify(path)
        assert verification.epsilon < 0.9 * honest["epsilon"]
        assert "its list of mechanisms has 0 uses of 'critic'" in " ".join(verification.problems)


FORGED_DRAFT = (
    "its list of mechanisms is incomplete: a fit of margnet charges 'schema: formats of columns'"
)


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of a fit that drafted its schema."""
    path = tmp_path_factory.mktemp("drafted") / "t.csv"
    MargNet(None, epsilon=3.0, config=SMALL).fit(rows(600)).sample_to(path, 20)
    return path


@pytest.mark.parametrize("before", [False, True], ids=["with its plan", "of an earlier version"])
def test_a_draft_is_asked_for_where_columns_were_released(
    drafted: Path, before: bool, tmp_path: Path
) -> None:
    """Also of a certificate that states no plan, and by whoever signs."""
    honest = read_certificate(beside(drafted))
    kept = [item for item in honest["mechanisms"] if item["purpose"] not in DRAFT]
    assert len(kept) == len(honest["mechanisms"]) - len(DRAFT)
    data = forged(honest, kept, thorough=True)
    if before:
        del data["plan"], data["public"]["schema_mechanisms"]
    path = tmp_path / "t.csv"
    path.write_bytes(drafted.read_bytes())
    beside(path).write_text(json.dumps(data))
    problems = verify(path).problems
    assert problems[0].startswith(FORGED_DRAFT)
    make_keys(tmp_path / "key")
    with pytest.raises(InputError, match="cannot be signed: its list of mechanisms is incomplete"):
        certify(path, key=read_private(tmp_path / "key"))


def test_a_certificate_without_a_plan_says_so(tmp_path: Path) -> None:
    """One of an earlier version is consistent, and notes say what cannot be seen, and what is not spent."""
    path = tmp_path / "t.csv"
    config = replace(SMALL, interactions_share=0.1)
    MargNet(SCHEMA, epsilon=3.0, config=config).fit(rows()).sample_to(path, 20)
    assert "plan" not in " ".join(verify(path).notes)
    data = read_certificate(beside(path))
    del data["plan"]
    beside(path).write_text(json.dumps(data))
    verification = verify(path)
    assert verification.consistent and "it does not state its plan" in verification.notes[0]
    assert "unspent" not in " ".join(verification.notes)
    kept = [item for item in data["mechanisms"] if item["purpose"] != "sign interactions"]
    beside(path).write_text(json.dumps({**forged(data, kept, False)}))
    verification = verify(path)
    assert verification.consistent
    left = 1 - verification.epsilon / 3.0
    assert 0.03 < left < 0.1
    assert f"its list of mechanisms leaves {left:.1%} of the budget" in " ".join(verification.notes)


def test_the_purposes_of_a_draft_are_those_that_it_charges(drafted: Path) -> None:
    data = read_certificate(beside(drafted))
    purposes = {item["purpose"] for item in data["plan"]["before"]}
    assert data["public"]["schema_mechanisms"] == sorted(purposes)
    assert set(DRAFT) == {p for p in purposes if not p.endswith((SELECTION, TABLES, COUNTS))}
    assert len(DRAFT) == len(private_schema.ROUNDS) + 2


def test_a_plan_is_that_of_the_fit_wherever_the_model_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan lists what was spent before; a later fit that fails adds charges, and the certificate stays honest."""
    model = small().fit(rows())
    expected = [(s.purpose, s.count) for s in small().plan(estimate_time=False).spends]
    model.save(tmp_path / "m")
    for one in (model, load(tmp_path / "m")):
        plan = one.certificate()["plan"]
        assert (
            plan["before"] == [] and [(i["purpose"], i["count"]) for i in plan["fit"]] == expected
        )
    model.set_params(epsilon=6.0)
    monkeypatch.setattr(NetworksMethod, "train", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(rows())
    model.sample_to(tmp_path / "t.csv", 9)
    assert verify(tmp_path / "t.csv").consistent


def test_a_resumed_fit_states_what_a_crash_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that was charged and lost is spent before the plan that is made again."""
    checkpoint, once = tmp_path / "ck", TrainingMonitor.once

    def crash(self: TrainingMonitor, name: str, compute: Any) -> Any:
        compute()
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(TrainingMonitor, "once", crash)
        with pytest.raises(MemoryError):
            small(rows=60).fit(rows(), checkpoint=checkpoint)
    assert once is TrainingMonitor.once
    model = small(rows=60).fit(rows(), checkpoint=checkpoint)
    before = model.certificate()["plan"]["before"]
    assert [(item["purpose"], item["count"]) for item in before] == [("one-way counts", 1)]
    model.sample_to(tmp_path / "t.csv", 9)
    assert verify(tmp_path / "t.csv").consistent
    items = [i for i in model.certificate()["mechanisms"] if not i.get(EARLIER)]
    assert find_missing_mechanisms({**model.certificate(), "mechanisms": items})
