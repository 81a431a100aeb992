"""Private drafts of schemas: what they charge, what they release, and what never leaves."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, norm

from tabsynth import MargNet, Schema
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import epsilon_of, gaussian_epsilon
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
    ThresholdedGaussian,
    mechanism_from,
)
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.privacy.noise import samplers
from tabsynth.schema.conforming import conformed
from tabsynth.synthesizers import private_schema
from tabsynth.synthesizers.private_schema import draft_private

ROWS = 4_000


def patients(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """A hospital's table as a CSV file gives it: texts alone."""
    rng = np.random.default_rng(seed)
    day = pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.integers(0, 500, rows), "D")
    return pd.DataFrame(
        {
            "mrn": [f"M{i:07}" for i in rng.permutation(rows)],
            "contact": [f"p{i}@mail.example" for i in range(rows)],
            "remark": [f"seen by nurse {i} on ward {i % 7} today" for i in range(rows)],
            "sex": rng.choice(["f", "m"], rows),
            "age": rng.integers(0, 98, rows).astype(str),
            "bmi": rng.normal(27, 4, rows).round(1).astype(str),
            "admitted": day.strftime("%Y-%m-%d"),
            "smoker": rng.choice(["yes", "no", "NA"], rows, p=[0.2, 0.5, 0.3]),
            "diagnosis": rng.choice(["E11", "I10", "J45", "Q99"], rows, p=[0.4, 0.4, 0.199, 0.001]),
        }
    ).replace("NA", None)


def test_the_cost_is_that_of_an_independent_computation() -> None:
    """δ of the whole is that of two Gaussians, exactly, plus that of the threshold."""
    schema = draft_private(patients(), 0.7, 1e-6)
    assert schema.released is not None
    first, second = (mechanism_from(item) for item in schema.released["mechanisms"])
    assert isinstance(first, Gaussian) and isinstance(second, ThresholdedGaussian)
    mu = math.hypot(1 / first.noise_multiplier, 1 / second.noise_multiplier)
    delta = 1e-6 - second.threshold_delta
    # Balle and Wang 2018, Theorem 8, written out.
    spent = norm.cdf(mu / 2 - 0.7 / mu) - math.exp(0.7) * norm.cdf(-mu / 2 - 0.7 / mu)
    assert spent == pytest.approx(delta, rel=1e-3)
    spends = [(first, 1), (second, 1)]
    assert epsilon_of(spends, 1e-6) == pytest.approx(0.7, rel=1e-3)
    assert epsilon_of(spends, 1e-6) == pytest.approx(gaussian_epsilon(mu, delta), rel=1e-9)
    assert math.isinf(epsilon_of(spends, second.threshold_delta))


def test_a_filter_has_what_thresholds_leave_of_delta() -> None:
    mechanism = ThresholdedGaussian(noise_multiplier=5.0, threshold_delta=1e-6)
    item = {"purpose": "draft", **mechanism.to_dict(), "count": 1, "earlier": True}
    ledger = Ledger.from_list(1.0, 1e-5, [item])
    assert ledger.filter.delta == pytest.approx(9e-6)


def test_what_is_released_describes_the_table() -> None:
    schema = draft_private(patients(), 2.0)
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "sex": "categorical",
        "age": "numeric",
        "bmi": "numeric",
        "admitted": "date",
        "smoker": "categorical",
        "diagnosis": "categorical",
    }
    assert set(schema["sex"].categories) == {"f", "m", "other"}
    age, bmi = schema["age"], schema["bmi"]
    assert (age.low, age.high, age.dtype) == (0, 99, "int64")  # type: ignore[attr-defined]
    assert bmi.resolution == 0.1 and 10 <= bmi.low <= 20 and 35 <= bmi.high <= 50  # type: ignore[attr-defined]
    assert schema["admitted"].low >= "2019-03" and schema["admitted"].high <= "2020-08"  # type: ignore[attr-defined]
    assert schema["smoker"].nulls and not schema["sex"].nulls
    assert "Q99" not in schema["diagnosis"].categories  # four rows
    assert schema.names_left_out == ("mrn", "contact", "remark")


def test_no_identifier_leaves() -> None:
    table = patients()
    table["code"] = [f"{i:08x}-aaaa-4bbb-8ccc-{i:012x}" for i in range(ROWS)]
    model = MargNet(epsilon=1).fit(table)
    made = model.sample(ROWS)
    assert not {"mrn", "contact", "remark", "code"} & set(made)
    texts = model.schema_.to_json()
    for value in [*table["mrn"], *table["contact"], *table["code"]]:
        assert value not in texts


def test_ten_thousand_rare_values_are_not_released() -> None:
    """Each is held by one person; the threshold lets one out with probability 10⁻⁶ in all."""
    draft = private_schema._Draft(None, Ledger(9.0, 1e-5), 0.3, (), 0)  # type: ignore[arg-type]
    account, std = draft._open(private_schema.VALUES, 1)
    texts = pd.Series([f"rare {i}" for i in range(10_000)] + ["common"] * 5_000)
    threshold = 1 + std * float(norm.isf(1e-6 / 10_000))
    assert draft._selected(account, texts, std, threshold) == ["common"]


def test_the_maximum_is_hidden_as_well_as_epsilon_says() -> None:
    """10,000 trials with and 10,000 without a record that alone has the largest value."""
    grid = private_schema._grid_of_numbers()
    epsilon, delta, trials = 1.0, 1e-5, 10_000
    mechanism = Gaussian(noise_multiplier=4.0)
    epsilon = epsilon_of([(mechanism, 1)], delta)
    std = mechanism.noise_multiplier  # of one column
    bits = np.random.default_rng(0)
    high = 900_000.0
    place = int(np.searchsorted(grid, high, side="right"))
    found = []
    for extra in (0, 1):
        counts = np.zeros(trials)
        counts += extra
        noisy = samplers.noisy(counts, std, bits, whole=True)
        # The bound reaches the record's cell if its noisy count is clear of noise.
        found.append(int((noisy > private_schema.CLEAR * std).sum()))
    facts = {"name": "x", "dtype": "float64", "nulls": False, "provenance": "released"}
    counts = np.zeros(len(grid) + 1)
    counts[int(np.searchsorted(grid, 50, side="right"))] = 1_000
    for count, bound in ((private_schema.CLEAR * std, 60), (private_schema.CLEAR * std + 1, 1e6)):
        counts[place] = count
        column = private_schema._of_numbers(facts, counts, private_schema.CLEAR * std, None)
        assert column.high <= bound and (bound == 60 or column.high > 800_000)  # type: ignore[union-attr]
    false_rate = beta.ppf(0.9995, found[0] + 1, trials - found[0])
    true_rate = beta.ppf(0.0005, max(found[1], 1), trials - found[1] + 1) if found[1] else 0.0
    assert true_rate <= math.exp(epsilon) * false_rate + delta


@pytest.mark.parametrize("shuffled", [1, 2])
def test_the_order_of_rows_changes_nothing(shuffled: int) -> None:
    table = patients()
    other = table.sample(frac=1, random_state=shuffled)
    drafts = [draft_private(t, 2.0, random_state=3) for t in (table, other)]
    assert drafts[0] == drafts[1]


def test_rows_conform_one_by_one() -> None:
    table = patients(300)
    schema = draft_private(patients(), 2.0)
    table.loc[0, "age"], table.loc[1, "age"], table.loc[2, "age"] = "old", "-5", None
    table.loc[3, "admitted"], table.loc[4, "sex"], table.loc[5, "bmi"] = "soon", None, "1e99"
    whole = conformed(table, schema)
    parts = pd.concat([conformed(table.iloc[[i]], schema) for i in range(len(table))])
    pd.testing.assert_frame_equal(whole, parts)
    assert whole["age"][:3].tolist() == [0, 0, 0] and whole["sex"][4] == "other"
    # Conformed once or twice is the same.
    pd.testing.assert_frame_equal(conformed(whole, schema), whole)


def test_one_budget_covers_draft_and_fit(tmp_path) -> None:
    model = MargNet(epsilon=1).fit(patients())
    certificate = model.certificate()
    assert certificate["epsilon"] == 1 and certificate["private"]
    purposes = [item["purpose"] for item in certificate["mechanisms"]]
    assert purposes[:2] == ["schema: formats of columns", "schema: values of columns"]
    assert set(certificate["public"]["released"]) == set(model.schema_.names)
    assert "if the names of the columns" in certificate["statement"]
    # A later fit with the drafted schema counts the draft again.
    model.schema_.save(tmp_path / "schema.json")
    loaded = Schema.load(tmp_path / "schema.json")
    again = MargNet(loaded, epsilon=2).fit(patients())
    assert [item["purpose"] for item in again.certificate()["mechanisms"]][:2] == purposes[:2]
    with_path = MargNet(str(tmp_path / "schema.json"), epsilon=2).fit(patients())  # type: ignore[arg-type]
    assert with_path.schema_ == loaded


def test_a_failed_fit_has_spent_its_draft() -> None:
    model = MargNet(epsilon=1, time_limit=None)
    table = patients()[["mrn", "contact"]].rename(columns={"contact": "email"})
    with pytest.raises(InputError, match="could release no column"):
        model.fit(table)
    assert model.ledger_.spent == 0  # both are left out by name, before anything is read
    model = MargNet(epsilon=0.001)
    with pytest.raises(InputError, match="raise epsilon, or declare a schema"):
        model.fit(patients(200)[["diagnosis"]])
    assert model.ledger_.spent > 0


def test_seeded_drafts_are_not_private() -> None:
    schema = draft_private(patients(), 1.0, random_state=0)
    assert not MargNet(schema, epsilon=2).fit(patients()).certificate()["private"]


def test_declared_types_are_kept() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "n": rng.integers(1, 9, ROWS).astype("int32"),
            "m": pd.array(rng.integers(0, 3, ROWS), dtype="Int64"),
            "x": rng.normal(size=ROWS).round(2),
            "t": pd.Timestamp("2019-01-05") + pd.to_timedelta(rng.integers(0, 10**7, ROWS), "s"),
            "d": pd.to_timedelta(rng.integers(0, 5000, ROWS), "s"),
            "p": pd.PeriodIndex.from_ordinals(rng.integers(580, 600, ROWS), freq="M"),
            "b": rng.random(ROWS) < 0.3,
            "constant": "same",
        }
    )
    made = MargNet(epsilon=3).fit(table).sample(500)
    pd.testing.assert_series_equal(made.dtypes, table.dtypes)
    assert set(made["constant"]) <= {"same", "other"}


def test_a_plan_drafts_nothing() -> None:
    with pytest.raises(InputError, match="only fit drafts one"):
        MargNet(epsilon=1).plan()


def test_the_order_of_draws_shows_in_selections() -> None:
    """A value near the threshold is released in some drafts and not in others: the counts are noisy."""
    texts = pd.Series(["near"] * 1_000)
    selections = []
    for seed in range(60):
        draft = private_schema._Draft(None, Ledger(9.0, 1e-5), 0.3, (), seed)  # type: ignore[arg-type]
        account, std = draft._open(private_schema.VALUES, 1)
        selections.append(draft._selected(account, texts, std, 1_000.0) == ["near"])
    assert 10 < sum(selections) < 50
