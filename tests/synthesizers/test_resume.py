"""R7: ``fit(checkpoint=…)`` after kill -9, exceptions, Ctrl-C and time limits: paid once, never forgotten."""

import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import killed_fits
import pandas as pd
import pytest
import torch
from fitted_tables import facts, frame, small, stop_at, wgan
from killed_fits import EPSILON, executed, model

from tabsynth import BudgetError, InputError, load
from tabsynth.errors import FileFormatError
from tabsynth.privacy.accounting.accountants import gaussian_delta
from tabsynth.privacy.ledger import ledger as ledgers
from tabsynth.privacy.ledger.journal import Journal
from tabsynth.privacy.ledger.ledger import as_earlier
from tabsynth.synthesizers.session import FitSession
from tabsynth.training import checkpoint as checkpoints

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "EVERY", 1e-9)
    monkeypatch.setattr(ledgers, "BLOCKS", killed_fits.BLOCKS)


def on_disk(folder: Path) -> list[Any]:
    """The accounts as the journal has them now."""
    if not (folder / "ck" / "ledger.jsonl").exists():
        return []
    journal = Journal(folder / "ck" / "ledger.jsonl", EPSILON, 1e-5)
    journal.release()
    return list(journal.entries.values())


def never_less_than_used(folder: Path) -> None:
    spent: Counter[str] = Counter()
    squared = 0.0
    for entry in on_disk(folder):
        assert entry.spent <= entry.granted and entry.mechanism.sampling_rate == 1
        spent[entry.purpose] += entry.spent
        squared += entry.spent / entry.mechanism.noise_multiplier**2
    used = executed(folder)
    assert all(spent[purpose] >= count for purpose, count in used.items()), (spent, used)
    # All is Gaussian on full batches, so that this closed form is the whole of the accounting.
    assert gaussian_delta(math.sqrt(squared) or 1e-9, EPSILON) <= 1e-5 * (1 + 1e-6)


def finished(folder: Path) -> dict[str, Any]:
    """Go on to the end, and check what all parts of the fit came to."""
    assert killed_fits.run(folder) == 0
    never_less_than_used(folder)
    released: dict[Any, set[str]] = {}
    for line in (folder / "released").read_text().splitlines():
        item = json.loads(line)
        released.setdefault((item["run"], item["name"]), set()).add(json.dumps(item["values"]))
    assert released and all(len(values) == 1 for values in released.values())
    certificate = load(folder / "model").certificate()
    assert certificate["epsilon"] <= EPSILON and certificate["training"]["stopped"] is None
    assert certificate["private"] is True
    total: Counter[str] = Counter()
    for item in certificate["mechanisms"]:
        total[item["purpose"]] += item["count"]
    assert total == sum((Counter({e.purpose: e.spent}) for e in on_disk(folder)), Counter())
    assert all(total[purpose] >= count for purpose, count in executed(folder).items())
    return certificate


@pytest.mark.slow(cases=0)
def test_killed_at_random_points(tmp_path: Path) -> None:
    """Kill -9 at a dozen points, some of them in the same fit one after the other."""
    (tmp_path / "whole").mkdir()
    assert killed_fits.run(tmp_path / "whole") == 0
    moments = int((tmp_path / "whole" / "moments").read_text())
    assert moments > 300
    # The first moments are those of making the checkpoint and of the counts: looked at more closely.
    points = [*random.sample(range(1, 60), 5), *random.sample(range(60, moments), 7)]
    random.shuffle(points)
    for number, group in enumerate((points[:1], points[1:3], points[3:7], points[7:])):
        folder = tmp_path / str(number)
        folder.mkdir()
        for point in group:
            ended = killed_fits.run(folder, point)
            if ended == 0:  # so little was left to do
                break
            assert ended == -9, point
            never_less_than_used(folder)
        finished(folder)


@pytest.mark.parametrize(("purpose", "plans"), [("one-way counts", 2), ("critic", 1)])
def test_killed_between_the_read_and_its_result(purpose: str, plans: int, tmp_path: Path) -> None:
    """Counts that were paid and lost are paid again, out of what is left; a lost step is just lost."""
    assert killed_fits.run(tmp_path, read=purpose) == -9
    never_less_than_used(tmp_path)
    assert executed(tmp_path)[purpose] == 1
    estimator = finished(tmp_path)
    listed = [i for i in estimator["mechanisms"] if i["purpose"] == "one-way counts"]
    assert [i["count"] for i in listed] == [1] * plans
    assert len({e.run for e in on_disk(tmp_path)}) == plans
    assert 2.9 < estimator["epsilon"] <= EPSILON


def test_too_little_is_left_to_do_it_again(tmp_path: Path) -> None:
    """One line says so, and nothing more is read, however often one tries."""
    changes: dict[str, Any] = {"autoencoder": None, "config": wgan(step__count=1)}
    assert killed_fits.run(tmp_path, read="critic", **changes) == -9
    path = tmp_path / "ck" / "ledger.jsonl"
    assert path.read_text().count('"reserve"') == 2
    # The critic's one step is gone, and with it all that was granted to it: a model without it.
    fitted = model(**changes).fit(frame(), checkpoint=tmp_path / "ck")
    assert [(a.purpose, a.spent) for a in fitted.ledger_.accounts] == [
        ("one-way counts", 1),
        ("critic", 1),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize(("stage", "step"), [("autoencoder", 3), ("critic", 9)])
@pytest.mark.parametrize("same_object", [True, False])
def test_stopped_by_an_exception(
    error: type[BaseException], stage: str, step: int, same_object: bool, tmp_path: Path
) -> None:
    """In a process that lives on, nothing is of unknown outcome: no step is lost to the budget."""
    one = model()
    with pytest.raises(error):
        one.fit(frame(), checkpoint=tmp_path / "ck", progress=stop_at(stage, step, error))
    spent = one.ledger_.spent
    if error is KeyboardInterrupt:  # fitted as far as it came
        assert one.certificate()["training"]["stopped"] == "interrupted"
        assert len(one.sample(3)) == 3 and one.certificate()["epsilon"] == spent
        assert (
            2.95 < spent <= EPSILON
        )  # a person stopped it: the whole plan is claimed, not the steps
        assert {e.purpose: e.spent for e in on_disk(tmp_path)}["critic"] < 16
    else:
        assert 0 < spent < 2.95
    other = one if same_object else model()
    reported: list[Any] = []
    other.fit(frame(), checkpoint=tmp_path / "ck", progress=lambda *a: reported.append(a))
    counts = {a.purpose: (a.spent, a.granted) for a in other.ledger_.accounts}
    assert counts == {"one-way counts": (1, 1), "autoencoder": (5, 5), "critic": (16, 16)}
    assert other.certificate()["epsilon"] <= EPSILON
    assert other.certificate()["training"]["stopped"] is None
    if stage == "critic":
        assert {t[0] for t in reported} == {"critic"} and reported[0][1] > step - 2


def test_a_time_limit_and_then_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = model(time_limit=1e-9).fit(frame(), checkpoint=tmp_path / "ck")
    certificate = one.certificate()
    assert certificate["training"]["stopped"] == "time limit" and 0 < certificate["epsilon"] < 1.2
    other = model().fit(frame(), checkpoint=tmp_path / "ck")
    assert other.certificate()["epsilon"] > 2.9
    counts = [i for i in other.certificate()["mechanisms"] if i["purpose"] == "one-way counts"]
    assert [i["count"] for i in counts] == [1]


def test_a_fit_that_has_ended_gives_its_model_back(tmp_path: Path) -> None:
    one = model().fit(frame(), checkpoint=tmp_path / "ck")
    table = one.sample(20, random_state=1)
    names = {p.name for p in (tmp_path / "ck").iterdir()}
    assert names == {"checkpoint.json", "ledger.jsonl", "model.tabsynth"}
    before = {p.name: p.read_bytes() for p in (tmp_path / "ck").iterdir()}
    reported: list[Any] = []
    for second in (one, one, model(), model()):
        second.fit(frame(), checkpoint=tmp_path / "ck", progress=lambda *a: reported.append(a))
        assert facts(second) == facts(one)
        pd.testing.assert_frame_equal(second.sample(20, random_state=1), table)
    assert reported == []
    assert {p.name: p.read_bytes() for p in (tmp_path / "ck").iterdir()} == before
    with pytest.raises(BudgetError, match="already spent"):  # but without it, another fit adds up
        one.fit(frame())


def test_a_checkpoint_changes_nothing_else(tmp_path: Path) -> None:
    """The same seed gives the same model with a checkpoint as without."""
    plain = model(random_state=5).fit(frame())
    kept = model(random_state=5).fit(frame(), checkpoint=tmp_path / "ck")
    assert facts(plain) == facts(kept)
    pd.testing.assert_frame_equal(plain.sample(30), kept.sample(30))


@pytest.mark.slow
def test_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R17, R18: no seed is kept; a part that goes on draws other noise; once seeded, always seeded."""
    seed, result = 987654321, []
    for folder in ("a", "b"):
        one = model(random_state=seed)
        with pytest.raises(RuntimeError):
            stop = stop_at("critic", 3)
            one.fit(frame(), checkpoint=tmp_path / folder, progress=stop)
        for path in (tmp_path / folder).iterdir():
            content = path.read_bytes()
            for shape in (str(seed).encode(), seed.to_bytes(4, "little"), seed.to_bytes(4, "big")):
                assert shape not in content
        other = model(random_state=seed).fit(frame(), checkpoint=tmp_path / folder)
        assert other.certificate()["private"] is False
        result.append(other.sample(20))
    pd.testing.assert_frame_equal(*result)  # by the seed and the number of times it went on
    one = model(random_state=seed)
    with pytest.raises(RuntimeError):
        one.fit(frame(), checkpoint=tmp_path / "c", progress=stop_at("critic", 3))
    unseeded = model().fit(frame(), checkpoint=tmp_path / "c")
    assert unseeded.certificate()["seeded"] is True and unseeded.certificate()["private"] is False


def test_parts_draw_other_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R17: with one seed, no part of a fit repeats the noise of another; the parts themselves repeat."""
    drawn: list[float] = []
    real = FitSession._randomness

    def noted(run: FitSession) -> Any:
        drawn.append(real(run).numpy().standard_normal())
        return real(run)

    monkeypatch.setattr(FitSession, "_randomness", noted)
    for folder in ("a", "b"):
        for at in (3, 6):
            one, stop = model(random_state=1), stop_at("critic", at)
            with pytest.raises(RuntimeError):
                one.fit(frame(), checkpoint=tmp_path / folder, progress=stop)
        model(random_state=1).fit(frame(), checkpoint=tmp_path / folder)
    assert len(set(drawn[:3])) == 3 and drawn[3:] == drawn[:3]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"epsilon": 2.0}, "epsilon is 3.0 there and 2.0 here"),
        ({"network_encoding": "binary"}, "encoding is 'one-hot' there and 'binary' here"),
        ({"config": wgan(step__count=7)}, "count is 16 there and 7 here"),
    ],
)
def test_another_fit_is_refused(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        model().fit(frame(), checkpoint=tmp_path / "ck", progress=stop_at("critic", 2))
    before = {p.name: p.read_bytes() for p in (tmp_path / "ck").iterdir()}
    with pytest.raises(InputError) as error:
        model(**change).fit(frame(), checkpoint=tmp_path / "ck")
    assert says in str(error.value) and "\n" not in str(error.value)
    assert {p.name: p.read_bytes() for p in (tmp_path / "ck").iterdir()} == before


def test_a_bad_table_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'b'"):
        model().fit(frame().assign(b="maybe"), checkpoint=tmp_path / "ck")
    assert list(tmp_path.iterdir()) == []


def test_a_refit_adds_to_what_was_spent(tmp_path: Path) -> None:
    """What an object spent before counts in its checkpointed fit too, resumed or not."""
    one = small().fit(frame())
    first = one.ledger_.to_list()
    one.set_params(epsilon=6.0)
    with pytest.raises(RuntimeError):
        stop = stop_at("critic", 2)
        one.fit(frame(), checkpoint=tmp_path / "ck", progress=stop)
    assert [i["count"] for i in one.ledger_.to_list()] == [1, 5, 8, 1, 5, 2]
    with pytest.raises(InputError, match="earlier is"):  # another object has not spent that
        small(epsilon=6.0).fit(frame(), checkpoint=tmp_path / "ck")
    one.fit(frame(), checkpoint=tmp_path / "ck")
    listed = one.ledger_.to_list()
    assert listed[:3] == as_earlier(first) and not any("earlier" in item for item in listed[3:])
    assert [i["count"] for i in listed] == [1, 5, 8, 1, 5, 8]
    assert one.certificate()["epsilon"] == 6.0 and one.ledger_.filter.admits(one.ledger_.spends())


def test_a_lost_ledger_is_not_a_new_one(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        model().fit(frame(), checkpoint=tmp_path / "ck", progress=stop_at("critic", 2))
    (tmp_path / "ck" / "ledger.jsonl").unlink()
    with pytest.raises(FileFormatError, match=r"its ledger\.jsonl is missing"):
        model().fit(frame(), checkpoint=tmp_path / "ck")
