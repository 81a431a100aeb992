"""PATEGAN and PATEACGAN as a user meets them: budget, refusals, files, classes, going on after a kill."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, facts, frame, pate, small_acgan, small_pate, stop_at
from sklearn.base import clone
from torch import Tensor

from tabsynth import PATEACGAN, PATEGAN, InputError, Schema, TabsynthError, load
from tabsynth.errors import PlanWarning
from tabsynth.privacy.accounting.accountants import epsilon_of
from tabsynth.privacy.accounting.mechanisms import (
    MOST_TEACHERS,
    Gaussian,
    NoisyVote,
    SubsampledGaussian,
)
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger.ledger import PrivateTable
from tabsynth.schema import Column
from tabsynth.synthesizers.pate.config import PATEConfig, networks_config
from tabsynth.synthesizers.pate.estimator import recommend_teachers
from tabsynth.synthesizers.pate.pairs import PATEMarginals
from tabsynth.synthesizers.pate.teachers import PATENetworks
from tabsynth.training import checkpoint as checkpoints

torch.set_num_threads(1)


def test_the_budget_goes_to_counts_and_votes(tmp_path: Path) -> None:
    """R6, R7: what is on the certificate composes to ε, here by a second road, and is never passed."""
    model = small_pate(epsilon=2.0).fit(frame())
    counts, coder, votes = model.certificate()["mechanisms"]
    assert (counts["purpose"], votes["purpose"], votes["count"]) == ("one-way counts", "votes", 60)
    steps = SubsampledGaussian(
        noise_multiplier=coder["noise_multiplier"], sampling_rate=coder["sampling_rate"]
    )
    assert (votes["mechanism"], votes["teachers"]) == ("noisy-vote", 7)
    mechanism = NoisyVote(noise=votes["noise"], teachers=7)
    both = [(Gaussian(noise_multiplier=counts["noise_multiplier"]), 1), (mechanism, 60)]
    both.insert(1, (steps, coder["count"]))
    spent = model.certificate()["epsilon"]
    assert 1.98 < spent == pytest.approx(epsilon_of(both, 1e-5)) and spent <= 2.0
    model.sample_to(tmp_path / "t.csv", 30)
    assert verify(tmp_path / "t.csv").consistent


def test_the_noise_of_the_paper_is_charged_by_its_own_bound() -> None:
    """Laplace on both counts by 2λ²m(m + 1), by hand: RDP(m + 1) = 2λ²(m + 1)."""
    config = replace(networks_config(), accounting="laplace", start_from_counts=False)
    model = PATEGAN(SCHEMA, epsilon=1.5, teachers="networks", teacher_count=8, config=config)
    plan = model.plan(estimate_time=False)
    (votes,) = plan.spends
    assert isinstance(votes.mechanism, NoisyVote)
    assert (votes.mechanism.accounting, votes.mechanism.teachers) == ("laplace", 8)
    square = votes.count / votes.mechanism.noise**2  # Σ λ² over all labels
    by_hand = min(
        2 * square * (m + 1) + math.log(1 / 1e-5) / m + math.log(m / (m + 1)) - math.log(m + 1) / m
        for m in (x / 20 for x in range(1, 2000))
    )
    assert plan.epsilon == pytest.approx(by_hand, rel=0.01) and plan.epsilon <= 1.5
    classic = min(2 * square * (m + 1) + math.log(1 / 1e-5) / m for m in range(1, 200))
    assert plan.epsilon < classic < 1.5 * plan.epsilon


def test_all_uses_of_a_round_are_written_off_before_the_rows_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[tuple[str, int, int]] = []
    real = PrivateTable.read

    def read(table: Any, account: Any, uses: int = 1) -> Any:
        before = account.spent
        rows = real(table, account, uses)
        reads.append((account.purpose, uses, account.spent - before))
        return rows

    monkeypatch.setattr(PrivateTable, "read", read)
    small_acgan(teachers="networks", config={"queries": 31}, autoencoder=None).fit(frame())
    assert reads == [
        ("one-way counts", 1, 1),
        ("votes", 16, 16),
        ("class votes", 16, 16),
        ("votes", 15, 15),
        ("class votes", 15, 15),
    ]


@pytest.mark.parametrize("kind", ["marginals", "networks"])
def test_no_teacher_leaves_the_fit(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R16: neither the file nor the fitted object holds anything of K teachers; nor the log."""
    with caplog.at_level("DEBUG"):
        model = small_pate(teacher_count=11, teachers=kind).fit(frame())
        one_row_less = small_pate(teacher_count=11, teachers=kind)
        said = len(caplog.messages)
        one_row_less.fit(frame().iloc[1:])
    # The log of another table differs by nothing: it tells of the plan alone.
    times = re.compile(r"\d+(\.\d+)? (ms|s|min|h)\b")
    first, second = caplog.messages[:said], caplog.messages[said:]
    assert [times.sub("", m) for m in first] == [times.sub("", m) for m in second] != []
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert set(loaded.model_.weights()) == set(model.model_.generator.state_dict())
    assert all(11 not in w.shape for w in loaded.model_.weights().values())
    holdout = [model.model_.generator, *model.model_.generator.modules()]
    assert not any("each" in type(part).__name__ for part in holdout)
    names = set(model.model_.curves)
    assert names <= {"student's distance of generated rows, by labels"}
    pd.testing.assert_frame_equal(loaded.sample(9, random_state=1), model.sample(9, random_state=1))
    assert facts(load(tmp_path / "m")) == facts(model)


@pytest.mark.parametrize("kind", ["marginals", "networks"])
def test_goes_on_after_ctrl_c(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second part asks what is left, of the same shards; its teachers are trained again."""
    monkeypatch.setattr(checkpoints, "EVERY", 1e-9)
    from tabsynth.synthesizers.pate import rounds

    drawn: list[tuple[torch.Tensor, torch.Tensor]] = []
    real = rounds.deal
    monkeypatch.setattr(
        rounds,
        "deal",
        lambda *a: drawn.append(real(*a)) or drawn[-1],  # type: ignore[func-returns-value]
    )

    stop = stop_at("votes", 2, KeyboardInterrupt)
    model = small_pate(teachers=kind, autoencoder=None)
    with pytest.raises(KeyboardInterrupt):
        model.fit(frame(), checkpoint=tmp_path / "ck", progress=stop)
    first = model.certificate()
    assert {m["purpose"]: m["count"] for m in first["mechanisms"]}["votes"] == 60  # its whole plan
    assert first["training"]["stopped"] == "interrupted" and len(model.sample(3)) == 3
    names = b" ".join(f.read_bytes() for f in (tmp_path / "ck").glob("state-*"))
    assert b"teach" not in names.lower() and b"trainer" not in names
    repeated = small_pate(teachers=kind, autoencoder=None)
    repeated.fit(frame(), checkpoint=tmp_path / "ck")
    assert {m["purpose"]: m["count"] for m in repeated.ledger_.to_list()} == {
        "one-way counts": 1,
        "votes": 60,
    }
    (_, first), (_, second) = drawn
    assert torch.equal(first, second)
    assert repeated.certificate()["epsilon"] <= 3.0


@pytest.mark.parametrize(
    ("kind", "ages"), [("marginals", [1, 2, 1, 2]), ("networks", [1, 2, 3, 4])]
)
def test_a_round_towards_new_marginals_has_steps_of_its_own(
    kind: str, ages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adam's small slopes at the end of a round threw the generator off in the next, on wide tables."""
    module = {"marginals": PATEMarginals, "networks": PATENetworks}[kind]
    move, result = module.move, []

    def noted(self: Any, moves: torch.optim.Optimizer, rng: torch.Generator) -> None:
        move(self, moves, rng)
        result.append({int(state["step"]) for state in moves.state.values()})

    monkeypatch.setattr(module, "move", noted)
    small_pate(teachers=kind, config={"rounds": 2, "round_steps": 2}).fit(frame())
    assert result == [{age} for age in ages]


def test_more_teachers_than_rows_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """Not refused, as the number of rows is private; the noisy counts tell it, at no further cost."""
    small_pate(teacher_count=50).fit(frame(400))
    assert not [r for r in caplog.records if r.levelname == "WARNING"]
    model = small_pate(teacher_count=300).fit(frame(20))
    (said,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert said.startswith("300 teachers are more than there are rows, ") and "\n" not in said
    assert len(model.sample(3)) == 3


def test_a_trial_of_many_teachers_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its rows are made up."""
    small_pate(teacher_count=3_000).plan()
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


def teachers_of(model: PATEGAN | PATEACGAN) -> int:
    return int(model.make_method(SCHEMA).configuration()["teacher_count"])


def test_teachers_follow_public_facts_alone() -> None:
    """R14: the declared rows, or a nominal number; never the table."""
    assert teachers_of(PATEGAN(SCHEMA, epsilon=1.0, rows=19_077)) == recommend_teachers(
        19_077, 1.0, 1e-5
    )
    assert teachers_of(PATEGAN(SCHEMA, epsilon=1.0)) == recommend_teachers(20_000, 1.0, 1e-5) >= 300
    assert teachers_of(PATEGAN(SCHEMA, epsilon=1.0, teachers="networks")) == teachers_of(
        PATEGAN(SCHEMA, epsilon=1.0)
    )
    assert [teachers_of(PATEGAN(SCHEMA, epsilon=math.inf, rows=n)) for n in (1, 7, 19)] == [
        2,
        2,
        2,
    ]
    assert teachers_of(PATEGAN(SCHEMA, epsilon=1e-3, rows=10**7)) <= MOST_TEACHERS
    plans = [
        small_pate(teacher_count=None).fit(frame(n)).certificate()["mechanisms"] for n in (9, 90)
    ]
    assert plans[0] == plans[1]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"teachers": "witness"}, "teachers"),
    ({"teacher_count": 1}, "teacher_count to be a whole number >= 2"),
    ({"teacher_count": 2.5}, "teacher_count"),
    ({"teacher_count": 10**9}, "teacher_count"),
    ({"teacher_count": 8, "rows": 7}, "rows=7"),
    ({"queries": 1}, "queries"),
    ({"config": 5}, "config"),
    ({"autoencoder": "no-noise"}, "no-noise"),
]
BAD_LABELS: list[tuple[dict[str, Any], str]] = [
    ({"class_column": "nobody"}, "nobody"),
    ({"class_column": None}, "class_column"),
    ({"class_column": "v"}, "numeric"),
    ({"class_column": "b", "schema": 3}, "Schema"),
    ({"network_encoding": "binary"}, "one-hot"),
    ({"class_shares": {"x": 0.5}}, "sum to 1"),
    ({"class_shares": {"x": 0.5, "nobody": 0.5}}, "nobody"),
    ({"class_shares": {"x": -1, "y": 2}}, "share"),
    ({"class_shares": [1]}, "class_shares"),
]


@pytest.mark.parametrize(
    ("build", "change", "says"),
    [
        *((small_pate, change, says) for change, says in BAD),
        *((small_acgan, change, says) for change, says in BAD_LABELS),
    ],
)
def test_wrong_parameters_of_pate_are_one_line(build: Any, change: Any, says: str) -> None:
    model = build(**{"schema": SCHEMA, **change})
    for use in (lambda: model.plan(estimate_time=False), lambda: model.fit(frame(10))):
        with pytest.raises(TabsynthError) as error:
            use()
        assert says in str(error.value) and "\n" not in str(error.value)
    assert not hasattr(model, "ledger_")


@pytest.mark.parametrize(
    "change",
    [
        {"queries": 0},
        {"rounds": 61},
        {"accounting": "exact"},
        {"marginals__functions": 0},
        {"marginals__features": 0.5},
        {"networks__teacher_hidden": (0,)},
        {"networks__student_hidden": (3, -1)},
        {"networks__teacher_batch": 0},
        {"networks__student_batch": 1},
        {"networks__lr": 0},
        {"start_from_counts": "yes"},
    ],
)
def test_wrong_configurations_of_pate_are_one_line(change: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        pate(**change)
    assert "\n" not in str(error.value)


def test_a_label_of_one_class() -> None:
    one = Column(name="k", kind="categorical", dtype="str", categories=("only",))
    with pytest.raises(InputError, match="one class alone"):
        small_acgan(Schema([one, SCHEMA["b"]])).plan(estimate_time=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["marginals", "networks"])
@pytest.mark.parametrize("autoencoder", [None, "dp-sgd"])
def test_rows_of_one_class(kind: str, autoencoder: str | None, tmp_path: Path) -> None:
    estimator = small_acgan(teachers=kind, autoencoder=autoencoder).fit(frame())
    estimator.save(tmp_path / "m")
    for model in (estimator, load(tmp_path / "m")):
        assert isinstance(model, PATEACGAN)
        assert set(model.sample(50, where={"k": "rest"})["k"]) == {"rest"}
        condition = model.sample(5, where={"k": "x"}).attrs["certificate"]["condition"]
        assert condition == {"k": ["x"]}
        two = model.sample(60, where={"k": ["x", "rest"], "b": True})
        assert set(two["k"]) <= {"x", "rest"} and two["b"].all() and len(two) == 60


def test_a_class_without_rows_is_as_any_other() -> None:
    """No row has it; that is private, so it is not refused."""
    table = frame()
    assert "z" in SCHEMA["k"].categories and "z" not in set(table["k"])
    model = small_acgan().fit(table)
    assert set(model.sample(20, where={"k": "z"})["k"]) == {"z"}


def test_classes_by_their_declared_shares() -> None:
    """R13: a public share in place of the noisy histogram; a class of share 0 does not occur."""
    model = small_acgan(class_shares={"x": 0.25, "z": 0.75}).fit(frame())
    shares = model.sample(400)["k"].value_counts(normalize=True)
    assert set(shares.index) == {"x", "z"} and shares["z"] == pytest.approx(0.75, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.9])
def test_declared_shares_leave_the_rows_of_a_class_as_they_are(share: float) -> None:
    columns = [
        Column(name=name, kind="categorical", dtype="str", categories=values)
        for name, values in (("y", ("hi", "lo")), ("a", ("u", "v")))
    ]
    rng = np.random.default_rng(0)
    high = rng.random(1000) < 0.4
    likely = rng.random(1000) < np.where(high, 0.8, 0.2)
    table = pd.DataFrame({"y": np.where(high, "hi", "lo"), "a": np.where(likely, "u", "v")})
    model = PATEACGAN(
        Schema(columns),
        epsilon=math.inf,
        class_column="y",
        class_shares={"hi": share, "lo": 1 - share},
        teacher_count=100,
        random_state=0,
        config=PATEConfig(queries=2000, rounds=2, round_steps=60),
    ).fit(table)
    assert (model.sample(1000)["y"] == "hi").mean() == pytest.approx(share, abs=0.05)
    for label, wanted in (("hi", 0.8), ("lo", 0.2)):
        result = (model.sample(500, where={"y": label})["a"] == "u").mean()
        assert result == pytest.approx(wanted, abs=0.12)


def test_a_fit_keeps_its_label() -> None:
    """Whatever parameters are set after it."""
    model = small_acgan().fit(frame())
    model.set_params(class_column="b")
    assert set(model.sample(20, where={"k": "x"}, max_draws=20)["k"]) == {
        "x"
    }  # none is drawn again


def test_networks_buy_no_count_of_rows() -> None:
    """Nothing of them reads the number of rows, unless their autoencoder is private."""
    config = replace(networks_config(), start_from_counts=False)
    networks = PATEGAN(SCHEMA, epsilon=1.0, teachers="networks", config=config)
    plan = networks.plan(estimate_time=False)
    assert [spend.purpose for spend in plan.spends] == ["votes"]
    private = clone(networks).set_params(autoencoder="dp-sgd")
    assert "row count" in [s.purpose for s in private.plan(estimate_time=False).spends]


def test_a_plan_says_where_votes_are_noise() -> None:
    few = PATEGAN(SCHEMA, epsilon=1.0, rows=60).plan(estimate_time=False)
    assert any("of the labels are right (50% is chance)" in note for note in few.notes)
    many = PATEGAN(SCHEMA, epsilon=8.0, rows=20_000).plan(estimate_time=False)
    assert not any("labels are right" in note for note in many.notes)


def test_a_plan_says_where_votes_of_networks_add_nothing() -> None:
    """Without a class, up to ε = 8; with one and no autoencoder they are worse than independent columns at ε = 1."""
    settings: dict[str, Any] = {"rows": 20_000, "teachers": "networks"}

    def text(epsilon: float) -> str:
        return str(PATEGAN(SCHEMA, epsilon=epsilon, **settings).plan(estimate_time=False))

    assert "added nothing" in text(8.0) and "added nothing" not in text(20.0)
    for epsilon, autoencoder, weak in ((1.0, None, 1), (8.0, None, 0), (1.0, "preset", 0)):
        settings["autoencoder"] = autoencoder
        classed = PATEACGAN(SCHEMA, epsilon=epsilon, class_column="k", **settings)
        assert str(classed.plan(estimate_time=False)).count("further from a census table") == weak


def test_a_fit_warns_where_votes_are_noise() -> None:
    """A user of Python reads no plan."""
    with pytest.warns(PlanWarning, match="of the labels are right"):
        small_pate(epsilon=0.01, config={"queries": 1000}).fit(frame())


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
@pytest.mark.parametrize("accounting", ["exact-binary", "gaussian", "laplace"])
def test_labels_are_as_many_as_their_noise_allows(epsilon: float, accounting: str) -> None:
    """The whole budget is used, with noise just below the largest; by a label more each pays for less."""
    config = replace(networks_config(), accounting=accounting, queries=10**6)
    model = PATEGAN(SCHEMA, epsilon=epsilon, teachers="networks", rows=20_000, config=config)
    plan = model.plan(estimate_time=False)
    votes = plan.spends[-1].mechanism
    assert isinstance(votes, NoisyVote)
    assert 0.96 < votes.noise / (0.15 * votes.teachers) <= 1
    assert 0.98 * epsilon < plan.epsilon <= epsilon
    few = replace(config, queries=plan.spends[-1].count // 2)  # few enough: all are asked
    halved = clone(model).set_params(config=few).plan(estimate_time=False)
    assert halved.spends[-1].count == few.queries


def test_class_votes_follow_the_same_noise_and_a_round_has_a_label() -> None:
    model = PATEACGAN(SCHEMA, epsilon=2.0, class_column="k", teachers="networks", rows=8000)
    *_, votes, classes = model.plan(estimate_time=False).spends
    assert votes.count == classes.count < networks_config().queries
    assert isinstance(votes.mechanism, NoisyVote)
    assert votes.mechanism.noise <= 0.15 * votes.mechanism.teachers
    scarce = PATEGAN(SCHEMA, epsilon=0.01, teachers="networks", rows=60)
    plan = scarce.plan(estimate_time=False)
    assert plan.spends[-1].count == networks_config().rounds
    assert "labels are right" in str(plan)
    asked = clone(scarce).set_params(queries=77)  # declared: the noise follows
    assert asked.plan(estimate_time=False).spends[-1].count == 77


def test_the_law_of_z_is_kept_in_the_model_file(tmp_path: Path) -> None:
    config = {"generator__latent": "uniform", "generator__xavier": True}
    for model in (small_pate(config=config), small_acgan(config=config)):
        model.fit(frame()).save(tmp_path / model.method)
        generator = load(tmp_path / model.method).model_.generator
        z = generator.noise(1000, torch.Generator().manual_seed(0))[:, :4]
        assert z.min() >= 0 and z.max() <= 1 and z.mean() == pytest.approx(0.5, abs=0.03)
    with pytest.raises(InputError, match=r"generator\.latent"):
        small_pate(config={"generator__latent": "cauchy"})


@pytest.mark.slow
@pytest.mark.parametrize(("teachers", "least"), [(150, 0.85), (6000, 0.6)])
def test_learns_a_dependence_that_shuffled_columns_lack(teachers: int, least: float) -> None:
    """The student's answers carry the relation of two columns through noise to the rows.

    Of 6,000 teachers of 3,000 records most know nothing. If all of them said no, nothing would be learned: 0.52.
    """
    table = frame(3000, seed=2)
    table["b"] = table["k"] == "x"
    model = small_pate(
        epsilon=4.0,
        teacher_count=teachers,
        random_state=1,
        config={"queries": 2000, "generator__hidden": (32,), "round_steps": 60},
    )
    rows = model.fit(table).sample(2000)
    assert (rows["b"] == (rows["k"] == "x")).mean() > least


def test_a_plan_names_the_teachers() -> None:
    plan = small_pate(rows=50).plan()
    assert plan.seconds is not None and 0 < plan.seconds < 60
    assert [s.purpose for s in plan.spends] == ["one-way counts", "autoencoder", "votes"]
    assert "60 labels by 7 teachers" in str(plan)
    assert "7 vote on two-way marginals; there is no discriminator" in str(plan)
    networks = small_pate(teachers="networks").plan(estimate_time=False)
    assert "7 are networks, which tell real from generated rows" in str(networks)


def test_teachers_of_marginals_have_their_counts() -> None:
    """Whatever the configuration says: features are made of noisy one-way counts."""
    model = PATEGAN(SCHEMA, epsilon=3.0, teacher_count=5, config=pate(start_from_counts=False))
    assert "one-way counts" in [s.purpose for s in model.plan(estimate_time=False).spends]


def test_declared_shares_are_on_the_certificate(tmp_path: Path) -> None:
    """R13: they are public by declaration, so the certificate says what was declared; kept in a model."""
    model = small_acgan(class_shares={"x": 0.5, "y": 0.5, "z": 0.0}, time_limit=1e-6).fit(frame())
    shares = [0.5, 0.5, 0.0]
    assert model.certificate()["public"]["class_shares"][:3] == shares
    assert set(model.sample(60)[model.class_column].dropna()) == {
        "x",
        "y",
    }  # though no step was done
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert (
        isinstance(loaded, PATEACGAN)
        and loaded.make_method(SCHEMA).configuration()["class_shares"][:3] == shares
    )
    assert loaded.teacher_count == teachers_of(model)


def test_votes_that_would_be_thrown_away_are_refused() -> None:
    with pytest.raises(InputError, match="pair_anchor=0"):
        small_pate(config={"generator__pair_anchor": 0.0}).plan(estimate_time=False)


@pytest.mark.slow
def test_networks_learn_columns_without_noise() -> None:
    """They near the marginals without counts to start from."""
    letters = list("abcdefgh")
    rng = np.random.default_rng(0)
    columns, values = [], {}
    for name, size in (("a", 4), ("b", 6), ("c", 8)):
        shares = 0.5 ** np.arange(1, size + 1)
        values[name] = np.array(letters)[rng.choice(size, 2000, p=shares / shares.sum())]
        columns.append(
            Column(name=name, kind="categorical", dtype="str", categories=tuple(letters[:size]))
        )
    config = replace(networks_config(), rounds=40, start_from_counts=False)
    model = PATEGAN(
        Schema(columns),
        epsilon=math.inf,
        teachers="networks",
        rows=2000,
        random_state=0,
        config=config,
    ).fit(pd.DataFrame(values))
    rows = model.sample(2000)

    def distance(name: str) -> float:
        shares = [pd.Series(t[name]).value_counts(normalize=True) for t in (values, rows)]
        return 0.5 * float(shares[0].sub(shares[1], fill_value=0).abs().sum())

    assert np.mean([distance(name) for name in values]) < 0.15  # uniform rows: 0.41


def test_the_student_learns_from_its_own_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels of earlier rounds are of another generator's rows."""
    expected = []
    learn = PATENetworks._learn

    def noted(self: Any, codes: Tensor, answers: dict[str, Tensor], rng: torch.Generator) -> None:
        assert len(answers["yes"]) == len(codes)
        expected.append(len(codes))
        learn(self, codes, answers, rng)

    monkeypatch.setattr(PATENetworks, "_learn", noted)
    small_pate(teachers="networks", config={"queries": 31}).fit(frame())
    assert expected == [16, 16, 16, 15, 15, 15]


def test_the_networks_of_pate_acgan(tmp_path: Path) -> None:
    """Networks with votes on classes, and a model file that says so."""
    planned = PATEACGAN(SCHEMA, epsilon=2.0, class_column="k", teachers="networks", rows=8000)
    plan = planned.plan(estimate_time=False)
    assert [s.purpose for s in plan.spends] == [
        "one-way counts",
        "autoencoder",
        "votes",
        "class votes",
    ]
    assert planned.make_method(SCHEMA).learning.config == networks_config()
    model = small_acgan(teachers="networks").fit(frame())
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert isinstance(loaded, PATEACGAN) and loaded.teachers == "networks"
    assert loaded.get_params(deep=False)["config"] == model.config
    with pytest.raises(InputError, match="teachers"):
        small_acgan(teachers="paper").plan(estimate_time=False)


@pytest.mark.slow
@pytest.mark.parametrize("classed", [True, False])
def test_networks_learn_a_dependence_without_noise(classed: bool) -> None:
    """Rows follow their class, or their other column. Independent columns do in half of the rows: 0.52."""
    table = frame(2000, seed=2)
    table["b"] = table["k"] == "x"
    settings: dict[str, Any] = {"teachers": "networks", "rows": 2000, "random_state": 0}
    if classed:
        settings["class_column"] = "k"
    method = PATEACGAN if classed else PATEGAN
    rows = method(SCHEMA, epsilon=math.inf, **settings).fit(table).sample(2000, random_state=0)
    assert (rows["b"] == (rows["k"] == "x")).mean() > 0.75


@pytest.mark.parametrize("teachers", ["marginals", "networks"])
def test_the_preset_of_the_autoencoder(teachers: str) -> None:
    """An autoencoder, but for marginals without noise, where it was worse."""
    at_infinity = "no-noise" if teachers == "networks" else None
    for epsilon, expected in ((2.0, "dp-sgd"), (math.inf, at_infinity)):
        model = small_acgan(epsilon=epsilon, teachers=teachers)
        assert model.make_method(SCHEMA).training == expected
    public = small_acgan(teachers=teachers, public=frame(), public_source="made up")
    assert public.make_method(SCHEMA).training == "public"
    assert small_pate(teachers=teachers).make_method(SCHEMA).training == "dp-sgd"
