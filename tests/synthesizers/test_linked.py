"""Linked tables from fit to file: keys that match, orders that hold, what a fit charges and claims."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from linked_tables import TINY, schema, tables

from tabsynth import BudgetError, InputError, LinkedMargNet, load, verify
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.noise.counts import Measured
from tabsynth.synthesizers.linked import estimator, network
from tabsynth.synthesizers.linked.generator import LinkedGenerator
from tabsynth.synthesizers.margnet.selection import Measurements, Resolution

GIVEN = tables(60)


@pytest.fixture(autouse=True, scope="module")
def few_contexts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "CONTEXTS", 64)
        patch.setattr("tabsynth.synthesizers.linked.generator.GROUPS", 50)
        yield


def make(**given):
    return LinkedMargNet(schema(), **{"epsilon": 2.0, "config": TINY, "device": "cpu", **given})


@pytest.fixture(scope="module")
def fitted():
    return make().fit(GIVEN)


def orphans(made):
    """Rows that refer to no row, and keys that occur twice."""
    patients, stays, events = made["patients"], made["stays"], made["events"]
    lost = (~stays["patient"].isin(patients["patient"])).sum()
    lost += (~events["stay"].isin(stays["stay"])).sum()
    return lost + patients["patient"].duplicated().sum() + stays["stay"].duplicated().sum()


def test_keys_match_and_groups_are_within_their_bounds(fitted):
    made = fitted.sample(300)
    assert orphans(made) == 0
    assert len(made["patients"]) == 300 and len(made["stays"]) and len(made["events"])
    assert made["stays"].groupby("patient").size().max() <= 4
    assert made["events"].groupby("stay").size().max() <= 3
    assert list(made["patients"].columns) == ["patient", "sex"]
    assert list(made["stays"].columns) == ["stay", "patient", "day", "ward"]
    assert list(made["events"].columns) == ["stay", "number", "code"]


def test_orders_hold(fitted):
    """Of a column that is learned, values do not fall within a parent; of another they are 1, 2, 3, …"""
    made = fitted.sample(300)
    assert (made["stays"].groupby("patient")["day"].diff().dropna() >= 0).all()
    assert (made["stays"].groupby("patient")["day"].diff().dropna() > 0).any()
    place = made["events"].groupby("stay").cumcount() + 1
    assert (made["events"]["number"] == place).all()


def test_a_table_is_read_as_any_table(fitted):
    made = fitted.sample(40)
    again = make(epsilon=math.inf).fit(made).sample(10)
    assert orphans(again) == 0


def test_the_plan_is_what_is_charged(fitted):
    plan = make().plan()
    assert plan.epsilon == pytest.approx(2.0, abs=1e-6)
    charged = {item["purpose"]: item["noise_multiplier"] for item in fitted.ledger_.to_list()}
    assert charged == {s.purpose: s.mechanism.noise_multiplier for s in plan.spends}
    names = {purpose.split(":")[0] for purpose in charged}
    assert names == {"patients", "stays", "events"}
    assert "its records in the other tables" in str(plan)
    with pytest.raises(BudgetError):
        fitted.fit(GIVEN)


def test_certificates_of_a_sample_are_of_one_moment(fitted, monkeypatch):
    """So that a release finds the same claim beside each table."""
    right, made = LinkedMargNet.certificate, []

    def at_another_time(self):
        made.append(None)
        return {**right(self), "created": f"2026-01-01T00:00:{len(made):02}+00:00"}

    monkeypatch.setattr(LinkedMargNet, "certificate", at_another_time)
    drawn = fitted.sample(5, random_state=0)
    assert len({table.attrs["certificate"]["created"] for table in drawn.values()}) == 1


def test_the_certificate_names_the_unit_and_lists_what_a_fit_must_charge(fitted, tmp_path):
    certificate = fitted.certificate()
    assert certificate["private"] and certificate["epsilon"] <= 2.0
    assert certificate["privacy_unit"].startswith(
        "one row of table patients with its records in the other"
    )
    assert "the first 4 rows of each row of patients" in certificate["privacy_unit"]
    assert certificate["public"]["tables"]["events"]["max_children"] == 3
    fitted.sample_to(tmp_path / "made", 20)
    for name in ("patients", "stays", "events"):
        result = verify(tmp_path / "made" / f"{name}.csv")
        assert result.consistent, result.problems
    mechanisms = certificate["mechanisms"]
    certificate["mechanisms"] = [m for m in mechanisms if m["purpose"] != "events: one-way counts"]
    from tabsynth.privacy.certificate.completeness import find_missing_mechanisms

    assert find_missing_mechanisms(certificate)


def test_a_folder_is_whole_or_not_there(fitted, tmp_path, monkeypatch):
    fitted.sample_to(tmp_path / "made", 5)
    with pytest.raises(InputError, match="is there already"):
        fitted.sample_to(tmp_path / "made", 5)
    monkeypatch.setattr("tabsynth.tables.files.write_beside", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fitted.sample_to(tmp_path / "other", 5)
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_a_saved_model_samples_the_same(tmp_path):
    fitted = make(device="auto").fit(GIVEN)  # as a loaded model is
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    one, other = (model.sample(30, random_state=3) for model in (fitted, again))
    for name in one:
        pd.testing.assert_frame_equal(one[name], other[name])
    assert again.certificate()["mechanisms"] == fitted.certificate()["mechanisms"]
    assert again.notes() == fitted.notes() and fitted.notes()


def test_an_interrupted_fit_is_resumed_within_the_budget(tmp_path):
    seen = []

    def stop(*report):
        seen.append(report)
        if len(seen) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make().fit(GIVEN, checkpoint=tmp_path / "c", progress=stop)
    resumed = make().fit(GIVEN, checkpoint=tmp_path / "c")
    assert resumed.ledger_.spent <= 2.0 * (1 + 1e-9)
    assert orphans(resumed.sample(20)) == 0


def test_a_project_ledger_of_the_root_s_key_takes_the_fit(tmp_path):
    ProjectLedger.create(tmp_path / "p", epsilon=3.0, delta=1e-5, unit="patient")
    make(delta=1e-6).fit(GIVEN, ledger=tmp_path / "p")
    ProjectLedger.create(tmp_path / "q", epsilon=3.0, delta=1e-5)
    with pytest.raises(InputError, match="protects"):
        make(delta=1e-6).fit(GIVEN, ledger=tmp_path / "q")


def test_counts_have_the_noise_that_is_charged(monkeypatch):
    """R2: noise of a root row, which adds 1 at most, on every table's counts."""
    noises = []
    from tabsynth.privacy.noise import counts

    plain = counts.noise.noisy

    def noisy(values, std, bits, **options):
        released = plain(values, std, bits, **options)
        noises.append((std, np.ravel(released - values)))
        return released

    monkeypatch.setattr(counts.noise, "noisy", noisy)
    model = make().fit(GIVEN)
    for std, errors in noises:
        if len(errors) > 300:
            assert np.std(errors) == pytest.approx(std, rel=0.2)
    assert len(noises) > 10
    # Each stage of each table has its own shares of the budget, which sum to 1.
    mus = [item["noise_multiplier"] ** -2 for item in model.ledger_.to_list()]
    from tabsynth.privacy.accounting.accountants import gaussian_mu

    assert math.fsum(mus) == pytest.approx(gaussian_mu(2.0, 1e-5) ** 2)


def test_without_noise_group_sizes_and_relations_are_those_of_the_data():
    """The second child is like the first one; a mixture of one table could not tell."""
    rng = np.random.default_rng(0)
    first = rng.choice(["a", "c"], 400)
    given = {
        "patients": pd.DataFrame({"patient": range(400), "sex": rng.choice(["f", "m"], 400)}),
        "stays": pd.DataFrame(
            {
                "stay": range(800),
                "patient": np.repeat(range(400), 2),
                "day": rng.integers(0, 100, 800),
                "ward": np.repeat(first, 2),
            }
        ),
        "events": GIVEN["events"].iloc[:0],
    }
    config = type(TINY)(components=40, hidden=(32,), steps=150)
    made = make(epsilon=math.inf, config=config).fit(given).sample(200)
    pairs = made["stays"].groupby("patient")["ward"].agg(["size", "nunique"])
    assert (pairs["size"] == 2).mean() > 0.95
    assert (pairs["nunique"] == 1).mean() > 0.9


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"root_share": 1.0}, "root_share"),
        ({"config": 3}, "MargNetConfig"),
        ({"rows": 0}, "rows"),
        ({"epsilon": -1}, "epsilon"),
    ],
)
def test_wrong_parameters_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        make(**given).fit(GIVEN)


def test_a_refit_under_another_bound_is_refused(tmp_path):
    """Its certificate would state the last bound of stays for the charges of both fits."""
    model = make(epsilon=1.0).fit(GIVEN)
    model.save(tmp_path / "m")
    for one in (model, load(tmp_path / "m")):
        before = one.ledger_.to_list()
        one.set_params(schema=schema(stays=6), epsilon=8.0, config=TINY)
        with pytest.raises(InputError, match="other bounds of a unit"):
            one.fit(GIVEN)
        assert one.ledger_.to_list() == before
        one.set_params(schema=schema(), epsilon=2.0).fit(GIVEN)
        assert len(one.ledger_.to_list()) == 2 * len(before)


def test_a_schema_of_one_table_is_refused():
    with pytest.raises(InputError, match=r"LinkedSchema\(tables, keys\)"):
        LinkedMargNet(schema().tables["stays"], epsilon=1.0).fit(GIVEN)


@pytest.mark.parametrize(
    "given",
    [{}, {"patients": GIVEN["patients"]}, {**GIVEN, "more": GIVEN["stays"]}, GIVEN["stays"]],
)
def test_other_sets_of_tables_are_refused(given):
    with pytest.raises(InputError, match="patients, stays, events"):
        make().fit(given)


def test_a_household_of_two_hundred_is_bounded_and_the_noisy_share_is_told():
    given = tables(30, most=2)
    many = pd.DataFrame({"stay": 10_000 + np.arange(200), "patient": 1000, "day": 7, "ward": "a"})
    given["stays"] = pd.concat([given["stays"], many])
    encoder = LinkedEncoder(schema())
    stays = encoder.to_tables(given)["stays"]
    assert np.bincount(stays.parent).max() == 4
    model = make(epsilon=30.0).fit(given)
    assert any(
        "more rows of stays than are used, by a noisy count" in note for note in model.notes()
    )
    hidden = "How many of the rows of patients have more rows of stays than are used, the noise does not show."
    assert hidden in make(epsilon=0.1).fit(given).notes()


def test_no_rows_at_all():
    empty = {name: table.iloc[:0] for name, table in GIVEN.items()}
    assert orphans(make().fit(empty).sample(5)) == 0


def counted(first, later, noise):
    """What is measured where first and later children have these counts of wards."""
    encoder = LinkedEncoder(schema())
    root, records = encoder.records["patients"], encoder.records["stays"]
    counts = []
    for of, given in ((root, first), (records, later)):
        j = of.names.index("own stays: ward")
        many = np.zeros(of.sizes[j])
        many[: len(given)] = given
        counts.append(Measurements([Measured((j,), many, noise)], 1000.0, None))
    moved = estimator.toward_first(records, counts[1], root, counts[0]).counts[0]
    return moved.counts[: len(later)], moved.std


def test_later_children_are_moved_towards_first_ones_as_far_as_noise_explains_the_difference():
    """James and Stein: of the squared difference, the share of noise is left out; the total stays."""
    size = LinkedEncoder(schema()).encoders["stays"].schema["ward"].size
    first = np.arange(1, size + 1) * 100.0
    later = first[::-1] / 2
    near, std = counted(first, later, 1000.0)
    assert near == pytest.approx(first / 2) and std < 1000
    clear, _ = counted(first, later, 1.0)
    assert clear == pytest.approx(later, abs=0.1)
    noise = 0.6 * math.sqrt(((later - first / 2) ** 2).sum() / size)
    half, _ = counted(first, later, noise)
    assert half == pytest.approx(first / 2 + (1 - 0.36) * (later - first / 2))


def test_a_step_term_draws_codes_at_that_step_from_the_previous_child():
    records = LinkedEncoder(schema()).records["stays"]
    drawing = network.ContextNetwork(records, (8,), torch.Generator().manual_seed(0))
    context = np.zeros((500, len(records.context)), dtype=np.int64)
    (i, j), k = records.repeats[0], 0
    context[:, i] = np.arange(500) % (records.drawn[j].size - 1)
    shares = []
    for term in (-20.0, 0.0, 20.0):
        with torch.no_grad():
            drawing.follow[k][3] = term  # one code higher
        drawn = drawing.draw(context, torch.Generator().manual_seed(1))
        shares.append((drawn[:, j] == context[:, i] + 1).mean())
    assert shares[0] == 0 < shares[1] < 1 == shares[2]


def test_the_step_terms_begin_at_the_counted_odds():
    """Where margins are uniform and one step has most of the count, most first draws take that step."""
    encoder = LinkedEncoder(schema())
    records = encoder.records["stays"]
    drawing = network.ContextNetwork(records, (8,), torch.Generator().manual_seed(0))
    counts = [
        Measured((j,), np.full(size, 1000.0 / size), 1.0) for j, size in enumerate(records.sizes)
    ]
    (i, j), at = records.repeats[0], len(records.context) + len(records.drawn)
    counts[at] = Measured((at,), np.array([20.0, 20.0, 20.0, 920.0, 20.0]), 1.0)
    context = np.zeros((500, len(records.context)), dtype=np.int64)
    context[:, i] = np.arange(500) % (records.drawn[j].size - 1)
    pool = lambda: (context, np.ones(len(context)))  # noqa: E731
    measured = Measurements(counts, 1000.0, Resolution.by_value(records.sizes))
    rng = torch.Generator().manual_seed(0)
    network.ContextFit(drawing, pool, records.layout, TINY, measured, rng)
    drawn = drawing.draw(context, torch.Generator().manual_seed(1))
    assert 0.7 < (drawn[:, j] == context[:, i] + 1).mean() < 1


def test_numbers_are_uniform_and_spread_evenly_over_each_group():
    groups = torch.from_numpy(np.random.default_rng(0).integers(0, 3, 900))
    u = network._spread(groups, torch.Generator().manual_seed(0)).numpy().ravel()
    assert (u >= 0).all() and (u < 1).all()
    for group in range(3):
        inside = np.sort(u[groups.numpy() == group])
        places = np.arange(1, len(inside) + 1) / len(inside)
        # Independent numbers would be 0.05 from the diagonal (Kolmogorov and Smirnov).
        assert np.abs(inside - places).max() < 0.015
    # Rows of one group are in random order, so that columns stay independent of one another.
    other = network._spread(groups, torch.Generator().manual_seed(1)).numpy().ravel()
    assert abs(np.corrcoef(u, other)[0, 1]) < 0.1


def test_counts_of_profiles_are_used_after_a_time_limit():
    """They are paid for, so a limit that has passed does not leave them out."""
    model = make(time_limit=1e-3)
    with pytest.warns(UserWarning, match="time limit"):
        model.fit(GIVEN)
    assert float(model.model_.generator.roots) == pytest.approx(model.rows_, rel=0.02)


def test_ctrl_c_while_chances_are_fitted_leaves_a_model(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LinkedGenerator, "set_profiles", interrupt)
    model = make()
    with pytest.raises(KeyboardInterrupt):
        model.fit(GIVEN)
    assert model.certificate()["training"]["stopped"] == "interrupted"
    assert orphans(model.sample(20)) == 0
