"""R7: a project's ledger. Fits compose in one file, whatever ends them; none passes the project's limit."""

import json
import math
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth.errors import BudgetError, FileFormatError, InputError
from tabsynth.privacy.accounting.accountants import (
    PrivacyFilter,
    epsilon_of,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    order_of,
    rdp_budget,
)
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
    NoisyVote,
    NoPrivacy,
    SubsampledGaussian,
)
from tabsynth.privacy.ledger.journal import Journal, _chain_hash, _line
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.ledger.project import ProjectLedger

DELTA = 1e-5


def made(path: Path, epsilon: float = 3.0, **changes: Any) -> Path:
    ProjectLedger.create(path, epsilon=epsilon, **changes)
    return path


def spend(path: Path, sigma: float, count: int = 1, used: int | None = None) -> str:
    """A fit of ``count`` planned uses; returns its run."""
    with ProjectLedger(path) as project:
        ledger = project.ledger(100.0, DELTA)
        project.check(ledger.run, [(Gaussian(noise_multiplier=sigma), count)])
        project.begin(ledger.run, "test")
        account = ledger.open("critic", Gaussian(noise_multiplier=sigma), count)
        for _ in range(count if used is None else used):
            ledger.spend(account)
        ledger.close()
        return ledger.run


def test_made_once_and_never_by_a_slip(tmp_path: Path) -> None:
    path = made(tmp_path / "l", 3.0, delta=1e-6, table="patients")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    project_ledger = ProjectLedger.read(path)
    assert (
        project_ledger.epsilon,
        project_ledger.delta,
        project_ledger.table,
        project_ledger.name,
    ) == (3.0, 1e-6, "patients", "l")
    assert (project_ledger.share, project_ledger.epsilon_left(), project_ledger.runs()) == (
        0.0,
        3.0,
        [],
    )
    # A tenth of δ is set aside for thresholds of drafts.
    assert project_ledger.filter == PrivacyFilter.of(3.0, 1e-6 - 1e-7)
    assert project_ledger.filter.order == order_of(3.0, 1e-6 - 1e-7)
    before = path.read_bytes()
    with pytest.raises(InputError, match="already exists"):
        made(path)
    assert path.read_bytes() == before
    for locked in (True, False):
        with pytest.raises(
            InputError, match=r"no ledger .*ledgr; make one: tabsynth ledger create"
        ):
            ProjectLedger(tmp_path / "ledgr", locked=locked)
    assert [p.name for p in tmp_path.iterdir()] == ["l"]
    other = made(tmp_path / "m")
    assert ProjectLedger.read(other).project != project_ledger.project


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"epsilon": "3"},
        {"epsilon": 1.0, "delta": 0},
        {"epsilon": 1.0, "delta": 1},
        {"epsilon": 1.0, "table": "two\nlines"},
        {"epsilon": 1.0, "table": 5},
        {"epsilon": 1.0, "table": "x" * 201},
        {"epsilon": 1.0, "composition": "prv"},
        {"epsilon": 1e-9, "delta": 1e-12},
    ],
)
def test_limits_that_are_none(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((InputError, BudgetError)) as error:
        ProjectLedger.create(tmp_path / "l", **wrong)
    assert "\n" not in str(error.value) and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("composition", ["renyi", "gaussian"])
def test_fits_add_up_in_the_filter_s_unit(tmp_path: Path, composition: str) -> None:
    """Squares of 1/σ add up in both filters, so that closed forms say what the ledger must."""
    path = made(tmp_path / "l", 3.5, delta=1e-6, composition=composition)
    spend(path, 4.0)
    spend(path, 3.0, 2)
    spend(path, 6.0, 4, used=3)
    project_ledger = ProjectLedger.read(path)
    squared = 1 / 16 + 2 / 9 + 3 / 36
    delta = 0.9e-6  # the rest is set aside for thresholds of drafts
    order = order_of(3.5, delta)
    whole = gaussian_mu(3.5, delta) ** 2
    if composition == "renyi":
        whole = rdp_budget(3.5, delta, order) * 2 / order
    assert project_ledger.share == pytest.approx(squared / whole)
    entered = project_ledger.runs()
    assert sum(item.share for item in entered) == pytest.approx(project_ledger.share)
    assert all(item.ended for item in entered)
    # Each states the epsilon of its plan, whatever of it was used.
    plans = [gaussian_epsilon(n**0.5 / sigma, 1e-6) for sigma, n in ((4, 1), (3, 2), (6, 4))]
    assert [item.epsilon for item in entered] == pytest.approx(plans)
    # What is left is as large as one more Gaussian may be, but for the rounding down.
    rest = math.sqrt(whole - squared)
    assert 0.998 * rest < gaussian_mu(project_ledger.epsilon_left(), 1e-6) <= rest


def test_a_gaussian_filter_takes_nothing_else(tmp_path: Path) -> None:
    path = made(tmp_path / "l", 3.0, composition="gaussian")
    before = path.read_bytes()
    sampled = SubsampledGaussian(noise_multiplier=9.0, sampling_rate=0.01)
    with ProjectLedger(path) as project:
        for other in (sampled, NoisyVote(noise=99.0, teachers=100)):
            with pytest.raises(BudgetError, match=r"Ledger l: .* no (sub|noisy).*composition="):
                project.check("x", [(other, 1)])
            ledger = project.ledger(9.0, DELTA)
            with pytest.raises(BudgetError, match=r"no (sub|noisy)"):
                ledger.open("critic", other, 1)
        # The whole budget to the last: no noise is lost against the exact composition.
        sigma = 2 / gaussian_mu(3.0, DELTA)
        project.check("x", [(Gaussian(noise_multiplier=sigma * (1 + 1e-9)), 4)])
        # As the first it may have what is set aside for drafts, too: 1.1% of the filter.
        with pytest.raises(BudgetError, match=r"101\.3% is needed"):
            project.check("x", [(Gaussian(noise_multiplier=sigma * 0.999), 4)])
    assert path.read_bytes() == before


def test_the_first_fit_may_take_the_whole_budget_and_is_then_alone(tmp_path: Path) -> None:
    """Its plan was made before there was an output, so its own epsilon holds; nothing comes after it."""
    path = made(tmp_path / "l", 1.0)
    sigma = 1 / gaussian_mu(1.0, DELTA)
    assert PrivacyFilter.of(1.0, DELTA).share([(Gaussian(noise_multiplier=sigma), 1)]) > 1.15
    whole = [(Gaussian(noise_multiplier=10 * sigma), 100)]
    run = spend(path, 10 * sigma, 100, used=40)  # and it stopped early
    project_ledger = ProjectLedger.read(path)
    assert (
        project_ledger.share == project_ledger.runs()[0].share == 1.0
        and project_ledger.epsilon_left() == 0.0
    )
    small = Gaussian(noise_multiplier=1e3)
    with ProjectLedger(path) as project:
        with pytest.raises(BudgetError, match=r"100\.0% of the budget is used"):
            project.check("x", [(small, 1)])
        with pytest.raises(BudgetError, match="nothing is left for another fit"):
            project.ledger(9.0, DELTA).open("critic", small, 1)
        project.check(run, whole)  # itself may go on
    # Where something was read before, it is no first fit any more, and must fit the filter.
    path = made(tmp_path / "m", 1.0)
    spend(path, 1e3)
    with ProjectLedger(path) as project, pytest.raises(BudgetError, match="exceed its limit of 1 "):
        project.check("x", whole)
    # Asked by no plan at all, an account has to fit the filter, too.
    with ProjectLedger(made(tmp_path / "n", 1.0)) as project:
        ledger = project.ledger(9.0, DELTA)
        with pytest.raises(BudgetError, match="exceed its limit of 1 "):
            ledger.open("critic", *whole[0])


def test_what_would_pass_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = made(tmp_path / "l", 1.0)
    spend(path, 1.4 / gaussian_mu(1.0, DELTA))
    before = path.read_bytes()
    with ProjectLedger(path) as project:
        ledger = project.ledger(100.0, DELTA)  # of its own it has enough
        large = Gaussian(noise_multiplier=1.4 / gaussian_mu(1.0, DELTA))
        with pytest.raises(BudgetError) as error:
            project.check(ledger.run, [(large, 1)])
        for text in (
            "exceed its limit of 1 ",
            "Nothing was read",
            f"{project.epsilon_left():.4g} is left",
        ):
            assert text in str(error.value)
        assert "\n" not in str(error.value)
        with pytest.raises(
            BudgetError, match="critic would exceed its limit"
        ):  # asked by no plan at all
            ledger.open("critic", large, 1)
        table = PrivateTable(np.arange(3), ledger)
        fits = Gaussian(noise_multiplier=1 / gaussian_mu(project.epsilon_left(), DELTA))
        account = ledger.open("critic", fits, 1)
        assert table.reads == 0
        table.read(account)
        ledger.close()
        assert 0.98 < project.share <= 1.0 and project.epsilon_left() < 0.1
    assert path.read_bytes().startswith(before)


def test_without_noise_and_without_a_limit(tmp_path: Path) -> None:
    with (
        ProjectLedger(made(tmp_path / "l")) as project,
        pytest.raises(BudgetError, match="inf% is needed"),
    ):
        project.check("x", [(NoPrivacy(), 1)])
    path = made(tmp_path / "m", math.inf)
    with ProjectLedger(path) as project:
        ledger = project.ledger(math.inf, DELTA)
        project.check(ledger.run, [(NoPrivacy(), 1)])
        ledger.spend(ledger.open("autoencoder", NoPrivacy(), 1))
    project_ledger = ProjectLedger.read(path)
    assert (project_ledger.share, project_ledger.epsilon_left(), project_ledger.epsilon) == (
        0.0,
        math.inf,
        math.inf,
    )


def test_a_killed_fit_keeps_what_it_reserved_and_no_more(tmp_path: Path) -> None:
    """Of a dead fit what is reserved counts; what was only granted to it is there for others."""
    path = made(tmp_path / "l", 2.0)
    kept = ProjectLedger.read(path).filter
    sigma = 20.0 / kept.mu_left([])  # 400 uses are the whole limit
    with ProjectLedger(path) as project:
        ledger = project.ledger(100.0, DELTA)
        project.begin(ledger.run, "test")
        account = ledger.open("critic", Gaussian(noise_multiplier=sigma), 390)
        for _ in range(100):
            ledger.spend(account)
    project_ledger = ProjectLedger.read(path)
    (entry,) = project_ledger.entries.values()
    assert 100 <= entry.spent <= 106 and not project_ledger.runs()[0].ended
    assert project_ledger.share == pytest.approx(entry.spent / 400)
    with pytest.raises(BudgetError, match="exceed its limit"):
        spend(path, sigma, 400 - entry.spent + 1)
    spend(path, sigma, 300 - 10)
    second = Ledger(100.0, DELTA)
    with ProjectLedger(path) as project:
        # It goes on, and the rest of its plan is not there any more: refused as a plan, and as an account.
        with pytest.raises(BudgetError, match="exceed its limit"):
            project.check(ledger.run, [(account.mechanism, 390)])
        second = Ledger(100.0, DELTA, journal=project, run=ledger.run)
        assert [a.spent for a in second.accounts] == [entry.spent]
        with pytest.raises(BudgetError, match="critic would exceed its limit"):
            second.open("critic", account.mechanism, 390)


def test_one_fit_at_a_time_and_anyone_may_look(tmp_path: Path) -> None:
    path = made(tmp_path / "l")
    with ProjectLedger(path):
        with pytest.raises(InputError, match="in use by another fit; it keeps the ledger until"):
            ProjectLedger(path)
        assert ProjectLedger.read(path).share == 0
    ProjectLedger(path).release()


def test_damaged_cut_and_foreign_files(tmp_path: Path) -> None:
    path = made(tmp_path / "l")
    spend(path, 4.0, 3)
    good = path.read_bytes()
    rows = good.splitlines(keepends=True)
    header = json.loads(rows[0])
    bad = {
        "a changed figure": good.replace(b'"spent": 3', b'"spent": 2'),
        "another limit": good.replace(b'"epsilon": 3.0', b'"epsilon": 9.0'),
        "a lost line": b"".join(rows[:2] + rows[3:]),
        "lines in another order": b"".join([*rows[:2], rows[3], rows[2], *rows[4:]]),
        "nothing": b"",
        "half a line": rows[0][:30],
        "a table": b"a,b\n1,2\n",
        "binary": bytes(range(256)) * 3,
        "a limit that is none": (json.dumps({**header, "epsilon": -1}) + "\n").encode(),
        "another order": good.replace(b'"order": ', b'"order": 1', 1),
    }
    for data in bad.values():
        assert data != good
        path.write_bytes(data)
        for locked in (True, False):
            with pytest.raises(FileFormatError) as error:
                ProjectLedger(path, locked=locked)
            assert "\n" not in str(error.value) and path.name in str(error.value)
        assert path.read_bytes() == data  # nothing is repaired
    # A last line without its end was never acted upon.
    path.write_bytes(good[:-5])
    assert len(ProjectLedger.read(path).chains) == len(rows) - 1
    # A header that holds together, of no filter, or of the format that had none.
    for changes, says in (
        ({"composition": "prv"}, "unknown composition"),
        ({"order": 1.0}, "order must be above 1"),
        ({"order": None}, "order must be above 1"),
        ({"format": "tabsynth-project-ledger/1"}, "is no privacy filter; make a new ledger"),
    ):
        record = {k: v for k, v in header.items() if k != "chain"} | changes
        path.write_bytes(_line(record, _chain_hash("", record)))
        with pytest.raises(FileFormatError, match=says):
            ProjectLedger(path)
    # A checkpoint's ledger is no project's, nor the other way round.
    Journal(tmp_path / "c", 3.0, DELTA).release()
    with pytest.raises(FileFormatError, match=r"expected format 'tabsynth-project-ledger/2'"):
        ProjectLedger(tmp_path / "c")
    path.write_bytes(good)
    with pytest.raises(FileFormatError, match=r"expected format 'tabsynth-ledger/1'"):
        Journal(path, 3.0, DELTA)
    for locked in (True, False):
        with pytest.raises(InputError, match="Cannot open ledger"):
            ProjectLedger(tmp_path, locked=locked)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_no_sequence_of_fits_passes_the_limit(tmp_path_factory: Any, data: st.DataObject) -> None:
    """R7: 50 random sequences of fits that end, are killed, go on, or ask for too much."""
    path = made(tmp_path_factory.mktemp("project") / "l", data.draw(st.floats(0.1, 10)))
    killed: dict[str, tuple[Gaussian, int]] = {}
    used: dict[str, float] = {}  # squares of 1/σ, of uses that took place
    kept = ProjectLedger.read(path).filter
    alone: set[str] = set()
    for _ in range(data.draw(st.integers(1, 6))):
        with ProjectLedger(path) as project:
            if killed and data.draw(st.booleans()):
                run = data.draw(st.sampled_from(list(killed)))
                mechanism, count = killed[run]
                ledger = Ledger(100.0, DELTA, journal=project, run=run)
            else:
                ledger = project.ledger(100.0, DELTA)
                run = ledger.run
                mechanism = Gaussian(noise_multiplier=data.draw(st.floats(0.5, 30)))
                count = data.draw(st.integers(1, 40))
            entries = project.entries.values()
            others = sum(e.spent / e.mechanism.noise_multiplier**2 for e in entries if e.run != run)
            own = count / mechanism.noise_multiplier**2
            fits = (others + own) * kept.order / 2 <= kept.budget * (1 + 1e-9)
            may = fits or (others == 0 and gaussian_delta(math.sqrt(own), kept.epsilon) <= DELTA)
            may = may and not alone - {run}
            lines = path.read_bytes()
            try:
                project.check(run, [(mechanism, count)])
            except BudgetError:
                assert not may
                assert path.read_bytes() == lines
                continue
            assert may
            project.begin(run, "test")
            account = ledger.open("critic", mechanism, count)
            for _ in range(data.draw(st.integers(0, account.granted - account.spent))):
                ledger.spend(account)
                used[run] = used.get(run, 0) + 1 / mechanism.noise_multiplier**2
                if not fits:
                    alone.add(run)
            killed.pop(run, None)
            if data.draw(st.booleans()):
                killed[run] = (mechanism, count)  # no close: a crash
            else:
                ledger.close()
        project_ledger = ProjectLedger.read(path)
        on_disk = sum(
            e.spent / e.mechanism.noise_multiplier**2 for e in project_ledger.entries.values()
        )
        assert on_disk >= sum(used.values()) * (1 - 1e-9)
        assert gaussian_delta(math.sqrt(on_disk) or 1e-9, kept.epsilon) <= DELTA * (1 + 1e-6)
        assert project_ledger.share <= 1 + 1e-9
        assert not alone or {e.run for e in project_ledger.entries.values() if e.spent} == alone


def test_sampled_mechanisms_add_up_too(tmp_path: Path) -> None:
    path = made(tmp_path / "l", 3.0)
    step = SubsampledGaussian(noise_multiplier=2.0, sampling_rate=0.05)
    with ProjectLedger(path) as project:
        for _ in range(2):
            ledger = project.ledger(9.0, DELTA)
            project.begin(ledger.run, "test")
            ledger.spend(ledger.open("critic", step, 100), 100)
            ledger.close()
        assert project.share == project.filter.share([(step, 200)])
        assert project.share == pytest.approx(2 * project.filter.share([(step, 100)]))
        assert [e.epsilon for e in project.runs()] == [epsilon_of([(step, 100)], DELTA)] * 2
