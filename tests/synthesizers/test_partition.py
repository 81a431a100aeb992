"""Partitions that noisy sums refine, and what private drafts make of them."""

import math

import numpy as np
import pandas as pd
import pytest

from tabsynth import MargNet
from tabsynth.design import NO_DESIGN
from tabsynth.drafting import private_schema
from tabsynth.drafting.formats import FORMAT_NAMES, WHOLE
from tabsynth.drafting.partition import Partition, coarse_edges, edges_of_numbers, round_numbers
from tabsynth.drafting.private_schema import draft_on_ledger
from tabsynth.drafting.released_lines import _completed
from tabsynth.drafting.released_numbers import NumberDraft, draft_of
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema.schema import Schema

MU = 0.35  # of a draft, which is about that of a fit with ε = 2 in a table of few columns
STDS = (30.0, 21.0, 15.0, 10.6, 7.5)  # of the noise of five rounds


def refined(points: np.ndarray, seed: int) -> Partition:
    """A partition after five rounds over some points."""
    rng = np.random.default_rng(seed)
    partition = Partition(
        edges_of_numbers(1.0),
        round_numbers(1.0),
        lambda low, high: max(1.0, 0.02 * (high - low)),
        coarse_edges(1.0),
    )
    for std in STDS:
        partition.refine()
        counts = np.histogram(points, partition.edges)[0][partition.asked]
        partition.learn(counts + rng.normal(0, std, len(counts)), std)
    return partition


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (1984, 1988), (18, 90), (0, 40_000), (-500, -20)]
)
def test_the_ends_of_many_rows_are_found(low: int, high: int) -> None:
    near = 0
    for seed in range(10):
        points = np.random.default_rng(seed).integers(low, high + 1, 4_000)
        bounds = refined(points, seed).bounds()
        assert bounds is not None
        width = max(1.0, 0.06 * (high - low))
        near += abs(bounds[0] - low) <= width and abs(bounds[1] - 1 - high) <= width
        assert ((points >= bounds[0]) & (points < bounds[1])).mean() > 0.9
    assert near >= 9


def test_noise_alone_has_no_ends() -> None:
    found = [refined(np.array([]), seed).bounds() is not None for seed in range(100)]
    assert sum(found) <= 8


def test_rows_far_from_the_others_are_within_the_ends() -> None:
    points = np.concatenate([np.arange(2_000) % 50, np.full(300, 5_000)])
    bounds = refined(points, 0).bounds()
    assert bounds is not None and bounds[0] <= 0 and 5_000 < bounds[1] <= 5_200


def test_what_is_set_aside_comes_back() -> None:
    points = np.concatenate([np.arange(2_000) % 50, np.full(300, 5_000)])
    partition = refined(points, 0)
    before = partition.bounds()
    partition.set_aside(np.array([5_000.0]), np.array([300.0]))
    bounds = partition.bounds()
    assert bounds is not None and bounds[1] <= 100
    partition.take_back()
    assert partition.bounds() == before


def test_a_wide_cell_is_set_aside_if_it_is_far_and_one_value_fills_it() -> None:
    partition = Partition(
        np.array([-1_000.0, -100, 0, 20, 40, 60]), round_numbers(1.0), lambda low, high: 1.0
    )
    partition.learn(np.array([300.0, 0, 500, 800, 400]), 5.0)
    partition.set_aside(np.array([-999.0, 30]), np.array([100.0, 700]))
    assert partition.bounds() == (-1_000, 60)
    partition.set_aside(np.array([-999.0, 50]), np.array([290.0, 390]))
    assert partition.bounds() == (0, 60)


def test_rows_beyond_limits_are_told_from_noise() -> None:
    ages = np.random.default_rng(0).integers(20, 80, 3_000)
    assert not refined(ages, 0).clear_beyond(0, 121)
    assert refined(ages * 12, 0).clear_beyond(0, 121)
    flags = np.random.default_rng(1).choice(5, 3_000, p=[0.9, 0.05, 0.015, 0.005, 0.03])
    assert refined(flags, 0).clear_beyond(0, 2)


def test_a_million_rows_at_one_end_of_a_cell_are_bounded_finely() -> None:
    partition = Partition(
        edges_of_numbers(None), round_numbers(None), lambda low, high: 0.02 * (high - low)
    )
    points = np.random.default_rng(0).uniform(2.1, 2.2, 10**6)
    for std in STDS:
        partition.refine()
        counts = np.histogram(points, partition.edges)[0][partition.asked]
        partition.learn(counts.astype(float), std)
    low, high = partition.bounds() or (0.0, math.inf)
    assert 2.0 <= low <= 2.1 and 2.2 <= high <= 2.3


def drafted(table: pd.DataFrame, seed: int = 0, mu: float = MU) -> Schema:
    """The draft of a table that a file declares no type of."""
    return draft_on_ledger(table.astype(str), mu, Ledger(9.0, 1e-5), random_state=seed)


RNG = np.random.default_rng(0)
ROWS = 2_500


@pytest.mark.filterwarnings("ignore:The draft takes as public")
@pytest.mark.parametrize("seed", range(3))
def test_columns_as_people_bring_them(seed: int) -> None:
    """Years, hours, scores in tens, open ends, two days, codes of missing values, and few odd numbers."""
    month = pd.to_datetime("2015-01-01") + pd.to_timedelta(RNG.integers(0, 2_900, ROWS), "D")
    table = pd.DataFrame(
        {
            "recorded": RNG.integers(2016, 2024, ROWS),
            "hr": RNG.integers(0, 24, ROWS),
            "score": RNG.choice([100, 90, 80, 70], ROWS, p=[0.5, 0.3, 0.15, 0.05]),
            "until": np.where(RNG.random(ROWS) < 0.3, "9999-12-31", month.strftime("%Y-%m-%d")),
            "wave": RNG.choice(["2020-09-14", "2020-09-16"], ROWS, p=[0.66, 0.34]),
            "dose": np.where(RNG.random(ROWS) < 0.2, 999, RNG.integers(1, 80, ROWS)),
            "lsize": RNG.choice(np.log([1, 2, 3, 4, 7]).round(6), ROWS),
        }
    )
    schema = drafted(table, seed)
    column = {c.name: c for c in schema.columns}
    assert set(column) == set(table), schema.left_out
    assert column["recorded"].low >= 2014 and column["recorded"].high <= 2025  # type: ignore[attr-defined]
    assert -1 <= column["hr"].low <= 1 and 22 <= column["hr"].high <= 24  # type: ignore[attr-defined]
    assert column["score"].resolution == 10 and column["score"].high == 100  # type: ignore[attr-defined]
    assert column["wave"].low >= "2020-09-10" and column["wave"].high <= "2020-09-20"  # type: ignore[attr-defined]
    assert list(column["until"].missing) == ["9999-12-31"] and column["until"].high < "2024"  # type: ignore[attr-defined]
    assert list(column["dose"].missing) == ["999"] and column["dose"].high < 100  # type: ignore[attr-defined]
    assert set(column["lsize"].categories) <= set(table["lsize"])  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:The draft takes as public")
def test_numbers_of_records_are_left_out_by_their_repeats() -> None:
    """Whatever the column is called; amounts that repeat stay."""
    table = pd.DataFrame(
        {
            "pidnum": RNG.permutation(np.arange(10_000, 10_000 + ROWS)),
            "budget": RNG.integers(1, 400, ROWS) * 1_000_000,
            "weight": RNG.integers(40, 140, ROWS),
        }
    )
    schema = drafted(table)
    left = {item["name"]: item["reason"] for item in schema.left_out}
    assert set(left) == {"pidnum"} and "as record numbers do" in left["pidnum"]
    assert schema["budget"].resolution == 1_000  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:The draft takes as public")
def test_listed_numbers_come_back_as_they_are() -> None:
    values = np.log([1, 2, 3, 4, 7]).round(6)
    table = pd.DataFrame({"x": RNG.choice(values, 2_000), "g": RNG.choice(["a", "b"], 2_000)})
    with pytest.warns(UserWarning):
        made = MargNet(epsilon=3, time_limit=2, random_state=0).fit(table.astype(str)).sample(500)
    assert set(made["x"]) <= set(values) and made["x"].nunique() == 5


def draft_of_rows(table: pd.DataFrame, mu: float, seed: int = 0) -> private_schema._Draft:
    ledger = Ledger(math.inf if math.isinf(mu) else 9.0, 1e-5)
    return private_schema._Draft(table, NO_DESIGN, ledger, mu, (), seed, "renyi", None)


def number_draft(name: str) -> NumberDraft:
    """The draft of whole numbers in a thousand rows."""
    draft = draft_of(
        name, "str", dict.fromkeys(FORMAT_NAMES, 0.0) | {WHOLE: 1_000.0}, 1.0, (), None
    )
    assert isinstance(draft, NumberDraft)
    draft.rows = 1_000.0
    return draft


def test_ends_are_decided_with_noise() -> None:
    """Rows near the least number that a cell must have are a range in some drafts, and not in others."""
    found = 0
    for seed in range(40):
        number = number_draft("x")
        draft_of_rows(pd.DataFrame({"x": ["17"] * 24}), 1.0, seed)._round({"x": number}, 1)
        found += number.partition.bounds() is not None
    assert 4 <= found <= 36


def test_heaping_is_decided_with_noise() -> None:
    """Numbers with a few more multiples of ten than chance gives: heaped in some drafts, and not in others."""
    numbers = np.random.default_rng(0).integers(1, 400, 1_200)
    numbers[:100] = numbers[:100] // 10 * 10 + 10
    heaped = set()
    for seed in range(40):
        number = number_draft("x")
        number._bounds = 0.0, 401.0
        draft_of_rows(pd.DataFrame({"x": numbers.astype(str)}), 0.3, seed)._round({"x": number}, 3)
        heaped.add(number.heaping)
    assert len(heaped) > 1


def test_signs_are_decided_with_noise() -> None:
    """Nearly enough percentages: the sign is taken in some drafts, and not in others; of a third of the rows in none."""
    table = pd.DataFrame({"x": ["7%"] * 40})
    taken = 0
    for seed in range(40):
        number = number_draft("x")
        draft_of_rows(table, 1.0, seed)._round({"x": number}, 1)
        taken += number.format == "{}%"
    assert 4 <= taken <= 36
    number = number_draft("x")
    table = pd.DataFrame({"x": ["7%"] * 300 + ["7"] * 600})
    draft_of_rows(table, 1.0)._round({"x": number}, 1)
    assert number.format is None


def test_repeats_are_decided_with_noise() -> None:
    """Of a thousand rows 971 with different numbers are on the limit of what numbers of records are, at noise of 4.5."""
    left = 0
    for seed in range(40):
        number = number_draft("x")
        number._bounds = 0.0, 10_000.0
        draft_of_rows(
            pd.DataFrame({"x": [*map(str, range(971)), *["0"] * 29]}), 1.0, seed
        )._different({"x": number})
        left += number.nearly_unique
    assert 4 <= left <= 36


def test_a_row_moves_the_numbers_of_different_values_by_one_at_most() -> None:
    """In L2 norm, in the weights that are charged."""
    names = ["a", "b", "c"]
    table = pd.DataFrame({name: np.arange(600) for name in names}).astype(str)
    more = pd.concat([table, pd.DataFrame([dict.fromkeys(names, "777")])], ignore_index=True)
    counted = []
    for rows in (table, more):
        drafts = {name: number_draft(name) for name in names}
        for draft in drafts.values():
            draft._bounds = 0.0, 10_000.0
        assert draft_of_rows(rows, math.inf)._different(drafts)
        counted.append([draft._different[0] for draft in drafts.values()])
    assert counted[0] == pytest.approx([600] * 3, rel=1e-3)
    moved = (np.array(counted[1]) - counted[0]) / math.sqrt(3)  # as each is weighed
    assert 0.99 < np.linalg.norm(moved) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("values", "bounds", "completed"),
    [
        ([4.5, 14.5, 24.5, 34.5, 54.5], (0.0, 70.0), [4.5, 14.5, 24.5, 34.5, 44.5, 54.5, 64.5]),
        ([6.0, 7.0, 8.0, 9.0, 9.94, 10.0, 12.0], (6.0, 13.0), [6, 7, 8, 9, 9.94, 10, 11, 12]),
        # None lies beside a value at another distance, and too few distances are equal.
        ([0.15, 0.25, 0.35, 0.45, 0.9, 1.1], (0.15, 1.2), [0.15, 0.25, 0.35, 0.45, 0.9, 1.1]),
        ([0.0, 0.69, 1.1, 1.39], (0.0, 2.0), [0.0, 0.69, 1.1, 1.39]),
    ],
)
def test_values_at_equal_distances_are_completed(
    values: list[float], bounds: tuple[float, float], completed: list[float]
) -> None:
    assert _completed(values, bounds) == completed


@pytest.mark.filterwarnings("ignore:The draft takes as public")
def test_values_that_many_rows_have_are_kept_as_they_stand() -> None:
    """A mean in place of missing whole numbers, and logarithms with seven digits, of which some have seven decimals."""
    rng = np.random.default_rng(0)
    years = np.where(rng.random(5_000) < 0.11, 10.25, rng.integers(3, 17, 5_000))
    logs = [f"{math.log(size):.7g}" for size in (1, 2, 3, 4, 5, 6)]
    texts = rng.choice(logs, 5_000, p=[0.2, 0.1, 0.2, 0.2, 0.15, 0.15])
    table = pd.DataFrame({"years": [f"{year:g}" for year in years], "logs": texts})
    schema = drafted(table)
    assert {*schema["years"].categories} >= {10.25, *range(4, 16)}
    assert {*schema["logs"].categories} == {*map(float, logs)}


@pytest.mark.filterwarnings("ignore:The draft takes as public")
def test_cells_of_skewed_numbers_divide_the_rows() -> None:
    votes = np.random.default_rng(0).lognormal(3.5, 2, 8_000).astype(int) + 5
    column = drafted(pd.DataFrame({"votes": votes}))["votes"]
    edges = np.array([column.low, *column.breaks, column.high + 1])  # type: ignore[attr-defined]
    shares = np.histogram(votes, edges)[0] / len(votes)
    assert shares.max() < 0.15  # of equal cells nearly all rows are in the first
