"""Fits of rows with survey weights: counts estimate the population, and one row moves them by the cap at most."""

import logging
import math

import numpy as np
import pandas as pd
import pytest
import torch
from command_lines import refused, run
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tabsynth import DPWGAN, Categorical, MargNet, Schema, load
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import Rows
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.counts import (
    Measured,
    NoisyCounts,
    noisy_marginals,
    noisy_row_count,
    noisy_total,
)
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.adversarial.critic import WGANConfig
from tabsynth.synthesizers.margnet import selection
from tabsynth.synthesizers.margnet.selection import Workload
from tabsynth.synthesizers.margnet.weighting import WeightClasses, WeightedColumns
from tabsynth.synthesizers.method import Population, with_settings
from tabsynth.synthesizers.mixture import Mixture
from tabsynth.synthesizers.pate.rounds import deal
from tabsynth.synthesizers.pate.teachers import Teachers, TeacherTrainer
from tabsynth.training.private_step import PARTS_STEP, WeightedInputs

torch.set_num_threads(1)
COLUMNS = [
    Categorical(name="a", dtype="str", categories=("x", "y", "z")),
    Categorical(name="b", dtype="str", categories=("p", "q")),
]
CAP = 300.0
SCHEMA = Schema(COLUMNS, weight="w", max_weight=CAP)
SMALL = MargNetConfig(components=60, steps=600, hidden=(32,), latent_dim=16)


def rows(n: int = 4000, seed: int = 0) -> pd.DataFrame:
    """Rows of x weigh 20, of y 250, of z 900 on average."""
    rng = np.random.default_rng(seed)
    a = rng.choice(3, n, p=[0.6, 0.35, 0.05])
    b = (rng.random(n) < np.array([0.2, 0.7, 0.5])[a]).astype(int)
    weights = np.array([20.0, 250.0, 900.0])[a] * rng.uniform(0.9, 1.1, n)
    return pd.DataFrame({"a": np.array(list("xyz"))[a], "b": np.array(list("pq"))[b], "w": weights})


def guarded(weights: np.ndarray, sigma: float, uses: int) -> tuple[PrivateTable[Rows], object]:
    ledger = Ledger(math.inf, 1e-5)
    table = Rows(np.arange(len(weights))[:, None] % 3, weights)
    account = ledger.open("counts", Gaussian(noise_multiplier=sigma), uses)
    return PrivateTable(table, ledger), account


def test_counts_of_rows_with_weights_have_the_noise_of_rows() -> None:
    """R4: each row counts once, whatever its weight, and the noise is bσ/√share, for one use together."""
    rng, sigma, uses = np.random.default_rng(0), 40.0, 4000
    table, account = guarded(np.array([3.0, 300.0, 40.5, 7.25]), sigma, uses)
    counts = NoisyCounts(table, (3,), bound=2.0)
    found = [counts.measure(account, [(0,), (0,)], [0.2, 0.8], rng) for _ in range(uses)]
    for i, share in enumerate((0.2, 0.8)):
        std = 2 * sigma / math.sqrt(share)
        noise = (np.array([f[i].counts for f in found]) - [2, 1, 1]) / std
        assert found[0][i].std == pytest.approx(std)
        assert abs(noise.mean()) < 0.03 and noise.std() == pytest.approx(1, abs=0.03)
        assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    assert account.spent == uses  # type: ignore[attr-defined]


def test_the_time_of_a_fit_is_estimated_on_made_up_rows_with_weights() -> None:
    plan = MargNet(SCHEMA, epsilon=9.0, rows=500).plan()
    assert plan.seconds is not None and plan.seconds > 0


@pytest.mark.parametrize("name", ["marginals", "total", "rows"])
def test_the_noise_of_a_gans_counts_is_scaled_to_the_bound(name: str) -> None:
    rng, sigma, uses = np.random.default_rng(1), 2.5, 3000
    weights = np.array([3.0, 300.0, 40.5, 7.25])
    table, account = guarded(weights, sigma, uses)
    release, exact, std = {
        "marginals": (
            lambda: noisy_marginals(table, account, (3,), rng, 2 * CAP, 2.0**-15)[0] + 0,
            np.array([10.25, 300, 40.5]),
            2 * CAP * sigma,
        ),
        "total": (lambda: noisy_total(table, account, rng, 2 * CAP), weights.sum(), 2 * CAP * sigma),
        "rows": (lambda: noisy_row_count(table, account, rng, 2), 4.0, 2 * sigma),
    }[name]  # fmt: skip
    noise = (np.array([release() for _ in range(uses)]) - exact) / std
    if name == "marginals":
        assert noise.std() == pytest.approx(1, abs=0.04)
    else:  # at least 1
        above = noise[noise > (1 - exact) / std + 0.1]
        assert above.max() < 6 and np.quantile(noise, 0.841) == pytest.approx(1, abs=0.1)


@given(st.floats(0, CAP), st.floats(0, CAP))
def test_a_class_of_weights_is_near_the_weight_and_in_order(one: float, other: float) -> None:
    classes = WeightClasses(CAP)
    low, high = classes.codes(np.sort([one, other]))
    assert 0 <= low <= high < classes.size
    means = classes.means[[low, high]]
    assert np.abs(means - np.sort([one, other])).max() <= CAP / 40
    assert (np.diff(classes.means) > 0).all()
    assert classes.codes(np.array([one]))[0] == classes.codes(np.array([CAP, one, 0.0]))[1]


def test_the_cap_is_a_class_of_its_own() -> None:
    classes = WeightClasses(CAP)
    assert classes.codes(np.array([0.0, CAP])).tolist() == [0, classes.size - 1]
    assert classes.means[-1] == CAP and classes.means[0] < CAP / 1000


@given(st.lists(st.floats(0.01, 1), min_size=41, max_size=41))
def test_two_groups_of_classes_are_what_takes_most_off_the_squared_error(
    given: list[float],
) -> None:
    """Against every way to cut the classes in two."""
    classes = WeightClasses(CAP, 2)
    shares, numbers = np.array(given), np.arange(classes.size)

    def error(group: np.ndarray) -> float:
        means = np.bincount(group, shares * numbers) / np.bincount(group, shares)
        return float((shares * (numbers - means[group]) ** 2).sum())

    best = min(error(np.asarray(numbers >= i, dtype=int)) for i in numbers[1:])
    assert error(classes.groups(shares, 0.9, 1.0)) == pytest.approx(best, rel=1e-6)


def test_groups_of_classes_are_neighbours_and_as_many_as_said() -> None:
    classes = WeightClasses(CAP)
    group = classes.groups(np.full(classes.size, 1 / classes.size), 0.9, 1.0)
    assert np.unique(group).tolist() == [0, 1, 2, 3, 4] and (np.diff(group) >= 0).all()


def weighted_mixture(components: int = 6) -> tuple[WeightedColumns, Mixture, list[np.ndarray]]:
    """Of columns of 3 and 2 values and the classes."""
    rng = np.random.default_rng(4)
    columns = WeightedColumns.of(COLUMNS, CAP, MargNetConfig())
    blocks = [rng.dirichlet(np.ones(size), components) for size in columns.sizes]
    mixture = Mixture(columns.layout(TableEncoder(SCHEMA).layout), components)
    return columns, mixture.set(torch.from_numpy(np.concatenate(blocks, axis=1)).float()), blocks


def test_the_mixture_is_raked_to_the_columns_of_the_population() -> None:
    """Against iterative proportional fitting of the table of both columns."""
    columns, mixture, (a, b, classes) = weighted_mixture()
    found, population = columns.of_population(mixture, TableEncoder(SCHEMA).layout, 1000.0)
    heavy = classes @ columns.classes.means
    assert population == pytest.approx(1000 * heavy.mean(), rel=1e-5)
    margins = [heavy @ block / heavy.sum() for block in (a, b)]
    table = a.T @ b / len(a)
    for _ in range(200):
        table = table * (margins[0] / table.sum(1))[:, None]
        table = table * (margins[1] / table.sum(0))
    p, shares = found.probabilities.double().numpy(), found.shares.double().numpy()
    assert found.sound() and np.ptp(shares) > 0
    assert (p[:, :3] * shares[:, None]).T @ p[:, 3:] == pytest.approx(table, abs=1e-5)
    assert abs(table - a.T @ b / len(a)).max() > 0.005
    by_row = columns.of_rows(mixture, TableEncoder(SCHEMA).layout)
    assert by_row.shares is None
    assert torch.equal(by_row.probabilities, mixture.probabilities[:, :5])


def test_components_have_their_shares_in_samples_and_conditions() -> None:
    """Against Bayes' rule by hand."""
    layout = TableEncoder(SCHEMA).layout
    p = np.array([[0.7, 0.2, 0.1, 0.9, 0.1], [0.1, 0.1, 0.8, 0.2, 0.8]])
    mixture = Mixture(layout, 2, shared=True)
    mixture.set(torch.from_numpy(p).float(), torch.tensor([0.8, 0.2]))
    joint = np.array([0.8, 0.2])[:, None, None] * p[:, :3, None] * p[:, None, 3:]
    rng = torch.Generator().manual_seed(0)
    drawn = mixture.sample(20_000, rng, rounded=False)
    counts = np.zeros((3, 2))
    np.add.at(counts, (drawn[:, 0], drawn[:, 1]), 1 / len(drawn))
    assert counts == pytest.approx(joint.sum(0), abs=0.012)
    box = {0: np.array([False, False, True])}
    assert mixture.log_probability([box]) == pytest.approx(math.log(joint[:, 2].sum()), abs=1e-5)
    within = mixture.sample(20_000, rng, rounded=False, boxes=[box])[:, 1]
    expected = joint[:, 2, 1].sum() / joint[:, 2].sum()
    assert within.mean() == pytest.approx(expected, abs=0.015)
    for shares in ([0.8, 0.3], [1.2, -0.2]):
        assert (
            not Mixture(layout, 2, shared=True)
            .set(torch.from_numpy(p).float(), torch.tensor(shares))
            .sound()
        )


def test_rows_have_their_class_and_count_once() -> None:
    columns, _, _ = weighted_mixture()
    rows = Rows(np.array([[0, 1], [2, 0]]), np.array([CAP, 0.0]), np.array([7, 9], dtype=np.uint64))
    found = columns.rows(rows)
    assert found.weights is None and found.units is rows.units
    assert found.codes.tolist() == [[0, 1, 40], [2, 0, 0]]


def test_rows_have_their_class_whatever_others_weigh() -> None:
    columns, _, _ = weighted_mixture()
    codes, weights = np.zeros((3, 2), dtype=np.int64), np.array([20.0, 150.0, CAP])
    whole = columns.rows(Rows(codes, weights)).codes[:, 2]
    assert columns.rows(Rows(codes[:2], weights[:2])).codes[:, 2].tolist() == whole[:2].tolist()


def test_pairs_with_the_classes_are_counted_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "WEIGHTS_IMPORTANCE", 8.0)
    workload = weighted_mixture()[0].workload(Workload(target=0))
    assert workload.names((1, 2)) and not workload.names((0, 1)) and not workload.names((0, 1, 2))
    assert workload.importance([(2,), (1, 2), (0, 2), (0, 1, 2), (1,)]).tolist() == [
        1,
        8,
        15,
        15,
        1,
    ]


@pytest.mark.slow
def test_a_fit_estimates_the_population(tmp_path, caplog) -> None:
    table = rows()
    with caplog.at_level(logging.DEBUG):
        model = MargNet(SCHEMA, epsilon=2, config=SMALL).fit(table)
    clipped = np.minimum(table["w"], CAP)
    assert model.population_ == pytest.approx(clipped.sum(), rel=0.05)
    assert model.rows_ == pytest.approx(4000, abs=200)  # and not the population
    made = model.sample(3000)
    truth = clipped.groupby(table["a"]).sum() / clipped.sum()
    found = made["a"].value_counts(normalize=True)
    assert np.abs(found.reindex(truth.index, fill_value=0) - truth).max() < 0.06
    assert (
        np.abs(truth["x"] - (table["a"] == "x").mean()) > 0.3
    )  # rows as they are tell another story
    weighted = model.sample(500, weights="population", random_state=1)
    assert list(weighted) == ["a", "b", "w"]
    assert weighted["w"].sum() == pytest.approx(model.population_)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m").sample(500, weights="population", random_state=1)
    assert again.equals(weighted)
    certificate = model.certificate()
    assert certificate["epsilon"] <= 2
    assert certificate["public"]["design"]["weight"] == {"column": "w", "max": CAP}
    assert str((table["w"] > CAP).sum()) not in " ".join(caplog.messages).split()
    low, high = model.population_interval_
    assert low <= model.population_ <= high and low < clipped.sum() < high < 1.3 * low
    assert load(tmp_path / "m").population_interval_ == (low, high)
    plan = str(MargNet(SCHEMA, epsilon=2).plan(estimate_time=False))
    assert "weighted by 'w', clipped at 300" in plan


@pytest.mark.slow
def test_a_gan_estimates_the_population() -> None:
    table = rows()
    config = with_settings(
        WGANConfig(), step__count=60, critic__hidden=(16,), generator__hidden=(16,)
    )
    model = DPWGAN(SCHEMA, epsilon=8, autoencoder=None, config=config).fit(table)
    clipped = np.minimum(table["w"], CAP)
    assert model.population_ == pytest.approx(clipped.sum(), rel=0.05)
    assert model.rows_ == pytest.approx(4000, abs=200)
    truth = clipped.groupby(table["a"]).sum() / clipped.sum()
    found = model.sample(3000)["a"].value_counts(normalize=True)
    assert np.abs(found.reindex(truth.index, fill_value=0) - truth).max() < 0.12


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("method", ["margnet", "dp-wgan"])
def test_the_interval_covers_the_population(method, epsilon) -> None:
    """By the noise of the counts; of MargNet also by the widths of the classes, which its fit has besides."""
    few = MargNetConfig(components=20, steps=40, hidden=(8,), latent_dim=4)
    short = with_settings(WGANConfig(), step__count=2, critic__hidden=(4,), generator__hidden=(4,))
    hits, runs = 0, 10
    for seed in range(runs):
        table = rows(1500, seed)
        model = (
            MargNet(SCHEMA, epsilon=epsilon, config=few)
            if method == "margnet"
            else DPWGAN(SCHEMA, epsilon=epsilon, autoencoder=None, config=short)
        ).fit(table)
        low, high = model.population_interval_
        assert low <= model.population_ <= high
        hits += low <= np.minimum(table["w"], CAP).sum() <= high
        assert 0 < high - low < 0.8 * high
    assert hits >= 8  # of 10 at 95%: fewer with probability 0.012


@pytest.mark.parametrize("place", [0.0, 0.5, 0.999])
def test_the_interval_covers_weights_anywhere_in_their_classes(place) -> None:
    """At the ends of a class the total is far from that of the middles, as soon as there is little noise."""
    columns = WeightedColumns.of(COLUMNS, CAP, SMALL)
    rng = np.random.default_rng(0)
    low, high = columns.classes.bounds
    exact = rng.integers(0, 200, columns.classes.size).astype(float)
    weights = low + place * (high - low)
    ends = [
        columns.within_interval(
            0.0, [Measured((0,), np.zeros(3), 1.0), Measured((2,), exact + noise, 2.0)]
        ).interval
        for noise in 2.0 * rng.standard_normal((2_000, len(exact)))
    ]
    truth = float(exact @ weights)
    assert np.mean([a <= truth <= b for a, b in ends]) > 0.935


def test_the_bounds_of_classes_of_weights_hold_them() -> None:
    classes = WeightClasses(CAP, 12)
    low, high = classes.bounds
    weights = np.append(np.linspace(0.0, CAP, 10_001), low)
    codes = classes.codes(weights)
    inside = (low[codes] * (1 - 1e-12) <= weights) & (weights <= high[codes] * (1 + 1e-12))
    assert inside.all() and classes.means == pytest.approx((low + high) / 2)


@pytest.mark.parametrize("ends", [5.0, [1.0], [2.0, 1.0], [None, 1.0], ["a", 1.0], [0.0, math.inf]])
def test_a_file_with_another_interval_of_the_population_is_damaged(ends) -> None:
    damaged = FileFormatError("damaged")
    with pytest.raises(FileFormatError, match="damaged"):
        Population.from_facts({"population": 5.0, "population_interval": ends}, damaged)
    assert Population.from_facts({"population": 5.0}, damaged) == Population(total=5.0)
    assert Population.from_facts({"population_interval": [1.0, 2.0]}, damaged) is None
    assert Population.from_facts({}, damaged) is None


def test_weights_of_samples_that_there_cannot_be() -> None:
    plain = MargNet(Schema(COLUMNS), epsilon=1, config=MargNetConfig(steps=3, components=10))
    plain.fit(rows(50).drop(columns="w"))
    with pytest.raises(InputError, match="released no total of survey weights"):
        plain.sample(5, weights="population")
    model = MargNet(SCHEMA, epsilon=1, config=MargNetConfig(steps=3, components=10)).fit(rows(50))
    with pytest.raises(InputError, match="leave out weights= or where="):
        model.sample(5, weights="population", where={"a": "x"})
    with pytest.raises(InputError, match="Expected weights to be one of"):
        model.sample(5, weights="equal")
    with pytest.raises(InputError, match="rows of at most 268,435,456 with survey weights"):
        MargNet(SCHEMA, epsilon=1, rows=10**9).plan()


def test_equal_rows_of_other_weights_keep_their_teachers() -> None:
    """R15: a record's weight is a part of it, so that one record less moves no other."""
    codes, weights = torch.zeros(40, 3), np.linspace(0.1, 1, 40)
    key = np.arange(16, dtype="<u4")

    def teachers(kept: np.ndarray) -> dict[float, int]:
        inputs = WeightedInputs.of(codes[kept], weights[kept], 1.0)
        ordered, shard = deal(inputs, 7, key)
        assert isinstance(ordered, WeightedInputs)
        return dict(zip(ordered.parts.tolist(), shard.tolist(), strict=True))

    whole, less = teachers(np.arange(40)), teachers(np.delete(np.arange(40), 11))
    assert len(set(whole.values())) > 3
    assert {part: shard for part, shard in whole.items() if part in less} == less


def test_teachers_pick_rows_in_proportion_to_their_weights() -> None:
    parts = torch.tensor([0.1, 0.9, 0.0, 0.5, 0.5, 0.0], dtype=torch.float64)
    parts = (parts / PARTS_STEP).floor() * PARTS_STEP
    shard = torch.tensor([0, 0, 0, 1, 1, 2])
    teachers = Teachers(4, (2, 1), torch.Generator().manual_seed(0))
    trainer = TeacherTrainer(teachers, torch.zeros(6, 2), None, shard, 0.1, parts)
    picked = trainer.pick_rows(20_000, torch.Generator().manual_seed(1))
    assert torch.bincount(picked[0], minlength=3)[:3] / 20_000 == pytest.approx([0.1, 0.9, 0.0], abs=0.01)  # fmt: skip
    assert set(picked[1].tolist()) == {3, 4}
    assert trainer._empty.tolist() == [2, 3]  # a shard of weight 0 has no rows


# At the command line.


@pytest.fixture
def files(tmp_path):
    rows(400).to_csv(tmp_path / "t.csv", index=False)
    SCHEMA.save(tmp_path / "s.json")
    return tmp_path


WORDS = ("fit", "t.csv", "--schema", "s.json", "--epsilon", 1, "--rows", 400, "--time-limit", "1s")


@pytest.mark.slow
def test_from_a_file_to_a_weighted_sample(files) -> None:
    assert Schema.load(files / "s.json").fingerprint() == SCHEMA.fingerprint()
    said = run(*WORDS, "-o", "m", cwd=files).stdout
    assert "weighted by 'w', clipped at 300" in said
    run("sample", "m", "-o", "u.csv", "--weights", "population", cwd=files)
    made = pd.read_csv(files / "u.csv")
    assert list(made) == ["a", "b", "w"] and len(made) == 400 and made["w"].nunique() == 1
    said = run("verify", "u.csv", cwd=files, code=4).stdout  # of nobody's key
    assert "consistent" in said.lower()
    refused("sample", "m", "-o", "v.csv", "--weights", "equal", cwd=files, says="weights")
    drafted = run("schema", "draft", "t.csv", "-o", "d.json", "--weight", "w", "--max-weight", 300, cwd=files)  # fmt: skip
    assert "'w'" not in drafted.stdout and Schema.load(files / "d.json").names == ("a", "b")


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["zero", "no rows"])
def test_a_table_without_people_is_fitted_as_an_empty_one(files, weights: str) -> None:
    table = rows(400).assign(w=0.0)
    (table if weights == "zero" else table[:0]).to_csv(files / "t.csv", index=False)
    run(*WORDS, "-o", "m", cwd=files)
    run("sample", "m", "-o", "u.csv", "-n", 5, "--weights", "population", cwd=files)


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("-3", "Column 'w' has weight"),
        ("", "weights are numbers from 0"),
        ("many", "Column 'w' has weight 'many'"),
        (None, "lacks column 'w', the weight of the schema"),
    ],
)
def test_weights_that_are_none_at_the_command_line(files, cell: str | None, says: str) -> None:
    table = rows(400).astype({"w": object})
    table.loc[7, "w"] = cell
    (table.drop(columns="w") if cell is None else table).to_csv(files / "t.csv", index=False)
    refused(*WORDS, "-o", "m", cwd=files, says=says)
    assert not (files / "m").exists()


@pytest.mark.slow
def test_weights_have_the_decimal_mark_of_the_command_line(files) -> None:
    """1,250 is one and a quarter where the schema declares no mark; without the option it is refused."""
    text = rows(400).assign(w="1,250").to_csv(index=False, sep=";")
    (files / "t.csv").write_text(text)
    words = [*WORDS, "--sep", ";"]
    words[words.index("--epsilon") + 1] = 50
    run(*words, "-o", "m", "--decimal", ",", cwd=files)
    low, high = load(files / "m").population_interval_
    assert low <= 500 <= high < 5_000  # however far the fit came
    refused(*words, "-o", "n", cwd=files, says="Column 'w' has weight '1,250'")


def test_problems_of_weights_and_of_columns_are_reported_together() -> None:
    table = rows(40).astype({"w": object})
    table.loc[7, "w"], table.loc[9, "a"] = "-3", "elsewhere"
    with pytest.raises(InputError, match="2 problems") as caught:
        MargNet(SCHEMA, epsilon=1).fit(table)
    assert "'elsewhere' is outside" in str(caught.value) and "has weight '-3'" in str(caught.value)


def test_options_of_weights_that_cannot_be(files) -> None:
    Schema(COLUMNS).save(files / "plain.json")
    refused("schema", "draft", "t.csv", "-o", "d.json", "--weight", "x", "--max-weight", 3, cwd=files, says="lacks column 'x'")  # fmt: skip
