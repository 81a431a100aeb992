"""Relations that a fit without a schema looks for: what is found holds, what does not hold is not found."""

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run

from tabsynth import PATEACGAN, Categorical, InputError, MargNet, Numeric, Schema
from tabsynth.auditing.fixtures.pate import make_tiny
from tabsynth.drafting.relation_search import find_relations
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.accounting.accountants import epsilon_of
from tabsynth.privacy.accounting.mechanisms import mechanism_from
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.synthesizers import MargNetConfig

TINY = MargNetConfig(steps=20, components=20)
STAGES = {"schema: selection of rules", "schema: counts of dependencies", "schema: counts of rules"}


def stays(rows: int = 3_000, seed: int = 0) -> pd.DataFrame:
    """Stays as texts, as a file gives them."""
    rng = np.random.default_rng(seed)
    admission = np.datetime64("2019-01-01") + rng.integers(0, 1_400, rows)
    nodes = rng.integers(1, 13, rows)
    table = pd.DataFrame(
        {
            "admission": admission.astype(str),
            "discharge": (admission + rng.geometric(0.2, rows) - 1).astype(str),
            "nodes": nodes,
            "node4": (nodes > 4).astype(int),
            "age": rng.integers(18, 90, rows),
            "unrelated": rng.integers(0, 2, rows),
        }
    )
    return table.map(str)


def days(table: pd.DataFrame) -> pd.Series:
    dates = (pd.to_datetime(table[name]) for name in ("discharge", "admission"))
    return (next(dates) - next(dates)).dt.days


def fitted(table: pd.DataFrame, epsilon: float = 4.0, **parameters: object) -> MargNet:
    return MargNet(epsilon=epsilon, config=TINY, device="cpu", **parameters).fit(table)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def model() -> MargNet:
    return fitted(stays(), random_state=2)


@pytest.fixture(scope="module")
def sample(model: MargNet) -> pd.DataFrame:
    return model.sample(2_000, random_state=0)


def test_what_is_found_holds_in_every_synthetic_row(model: MargNet, sample: pd.DataFrame) -> None:
    found = [rule.text for rule in model.schema_.rules]
    assert "admission <= discharge" in found
    assert not any("unrelated" in text or "age" in text for text in found)
    assert (days(sample) >= 0).all()
    assert (sample["node4"].astype(int) == (sample["nodes"] > 4)).all()


def test_lengths_of_stays_are_those_of_the_rows(sample: pd.DataFrame) -> None:
    """An order alone would leave them to the cells of the dates, which are weeks long."""
    real, synthetic = days(stays()), days(sample)
    for quantile, most in ((0.25, 2), (0.5, 2), (0.75, 2), (0.95, 4)):
        assert abs(synthetic.quantile(quantile) - real.quantile(quantile)) <= most


def test_the_schema_says_which_rules_were_released(model: MargNet) -> None:
    schema = Schema.from_dict(model.schema_.to_dict())
    assert schema.released is not None
    assert [*schema.constraints] == schema.released["constraints"]
    assert schema.violations == "repair"
    again = MargNet(schema, epsilon=5.0, config=TINY, device="cpu").fit(stays(200))
    assert (days(again.sample(200)) >= 0).all()


def test_the_search_is_charged_and_off_by_one_option() -> None:
    table = stays(500)
    noise = []
    for relations in (True, False):
        model = fitted(table, epsilon=1.0, draft_options={"relations": relations})
        certificate = model.certificate()
        purposes = {item["purpose"] for item in certificate["mechanisms"]}
        assert ("schema: selection of rules" in purposes) is relations
        assert purposes & STAGES == STAGES & set(certificate["public"]["schema_mechanisms"])
        assert certificate["epsilon"] <= 1.0
        noise.append(
            [i["noise_multiplier"] for i in certificate["mechanisms"] if "formats" in i["purpose"]]
        )
    assert noise[0] == noise[1]  # the draft has the budget that it has without the search


def test_the_search_takes_three_hundredths_of_the_budget() -> None:
    schema = MargNet(epsilon=1.0, config=TINY, device="cpu").fit(stays(4_000)).schema_
    assert schema.released is not None
    of_search = [i for i in schema.released["mechanisms"] if i["purpose"] in STAGES]
    assert {i["purpose"] for i in of_search} >= STAGES - {"schema: counts of dependencies"}
    spends = [(mechanism_from(i), i["count"]) for i in of_search]
    mu = np.sqrt(sum(count / m.noise_multiplier**2 for m, count in spends))
    assert mu == pytest.approx(0.266 * np.sqrt(0.03), rel=0.01)  # 0.266: of (1, 0.9e-5)
    assert epsilon_of(spends, 1e-5) < 0.21


def relations_of(table: pd.DataFrame, schema: Schema, mu: float = 0.5) -> list[str]:
    return [r.text for r in find_relations(table, schema, mu, Ledger(50, 1e-5), None).rules]


DECLARED = Schema(
    [
        Numeric(name="first", dtype="int64", low=0, high=19, bins=20),
        Numeric(name="second", dtype="int64", low=0, high=19, bins=20),
        Categorical(name="town", dtype="str", categories=("a", "b", "c")),
        Categorical(name="land", dtype="str", categories=("A", "B")),
    ]
)


def towns(rows: int, wrong: float, seed: int = 0) -> pd.DataFrame:
    """Rows with an order and a dependency, which a share of them break."""
    rng = np.random.default_rng(seed)
    numbers = np.sort(rng.integers(0, 20, (rows, 2)), axis=1)
    town = rng.choice(["a", "b", "c"], rows)
    land = np.where(town == "a", "A", "B")
    broken = rng.random(rows) < wrong
    numbers[broken] = numbers[broken][:, ::-1]
    land[broken] = np.where(land[broken] == "A", "B", "A")
    first, second = numbers.T
    return pd.DataFrame({"first": first, "second": second, "town": town, "land": land})


def test_relations_that_five_of_a_hundred_rows_break_are_none() -> None:
    for seed in range(3):
        assert relations_of(towns(4_000, 0.05, seed), DECLARED) == []
        both = relations_of(towns(4_000, 0.0, seed), DECLARED)
        assert sorted(both) == ["first <= second", "land follows from town"]


def test_nothing_is_found_in_unrelated_columns() -> None:
    rng = np.random.default_rng(0)
    for rows in (0, 1, 100, 5_000):
        table = towns(rows, 0.0).apply(lambda column: rng.permutation(column))
        assert relations_of(table, DECLARED) == []


def test_a_small_table_at_a_small_budget_has_no_relation() -> None:
    """Noise that hides a row hides as well whether a relation holds."""
    for seed in range(5):
        assert relations_of(towns(100, 0.0, seed), DECLARED, mu=0.05) == []


def test_rows_that_break_a_relation_refuse_nothing() -> None:
    table = stays(3_000)
    table.loc[0, ["admission", "discharge"]] = ["2020-05-01", "2019-05-01"]
    table.loc[1, ["nodes", "node4"]] = ["1", "1"]
    assert (days(fitted(table).sample(500)) >= 0).all()


def test_a_method_that_needs_a_derived_column_keeps_it() -> None:
    """What follows from others is not modelled, and a class must be: then nothing is derived."""
    table = stays(800)[["age", "unrelated"]].assign(code=lambda t: t["unrelated"].map(str) + "x")
    made = make_tiny(DECLARED)
    model = PATEACGAN(epsilon=200.0, class_column="code", random_state=0, device="cpu", **made)
    model.fit(table)
    assert {"code", "unrelated"} <= {*model.sample(50).columns}
    assert not model.schema_.constraints


def test_a_project_admits_draft_and_search_together(tmp_path) -> None:
    ProjectLedger.create(tmp_path / "p.ledger", epsilon=3.0)
    model = fitted(stays(400), epsilon=3.0, draft_options=None)
    assert model.certificate()["epsilon"] <= 3.0
    MargNet(epsilon=3.0, config=TINY, device="cpu").fit(stays(400), ledger=tmp_path / "p.ledger")
    kept = ProjectLedger.read(tmp_path / "p.ledger")
    assert "schema: selection of rules" in {entry.purpose for entry in kept.entries.values()}
    assert kept.share <= 1


def test_the_command_lists_what_holds(tmp_path) -> None:
    stays().to_csv(tmp_path / "t.csv", index=False)
    words = ("fit", "t.csv", "--epsilon", 4, "--set", "steps=5", "--seed", 1, "-o")
    printed = run(*words, "m", cwd=tmp_path)
    listed = printed.stdout + printed.stderr
    assert "which hold in all synthetic rows (" in listed and "  admission <= discharge" in listed
    printed = run(*words, "n", "--no-relations", cwd=tmp_path)
    assert "hold in all synthetic rows" not in printed.stdout + printed.stderr
    DECLARED.save(tmp_path / "s.json")
    refused(
        *words,
        "k",
        "--schema",
        "s.json",
        "--no-relations",
        cwd=tmp_path,
        says="goes without --schema",
    )


def test_another_value_of_the_option_is_refused() -> None:
    with pytest.raises(InputError, match="relations"):
        fitted(stays(50), draft_options={"relations": "no"})


def test_equal_columns_can_be_sampled() -> None:
    """Their orders close a cycle, and with bounds of each column's own no row keeps all of them."""
    amounts = np.random.default_rng(0).lognormal(8, 0.8, 3_000).round(2)
    model = fitted(pd.DataFrame({f"c{i}": amounts for i in range(6)}), 20.0, random_state=0)
    assert model.schema_.rules
    rows = model.sample(500, random_state=0)
    assert all(not rule.violations(rows).any() for rule in model.schema_.rules)
