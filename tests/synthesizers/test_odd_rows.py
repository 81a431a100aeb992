"""A row of an odd kind never ends a fit after something was charged, and changes no other row."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from odd_cells import ODD_CELLS, arrow_extremes, objects
from pyarrow import parquet

from tabsynth import InputError, MargNet, Schema, draft_private, evaluate_private, read_table
from tabsynth.design import Design
from tabsynth.drafting.private_schema import check_design
from tabsynth.encoding import TableEncoder
from tabsynth.privacy import ProjectLedger
from tabsynth.schema import Column
from tabsynth.schema.conforming import conform
from tabsynth.synthesizers import MargNetConfig
from tabsynth.tables.frames import to_pandas

ROWS = 400
rng = np.random.default_rng(0)
NUMBERS, LETTERS = rng.integers(0, 90, ROWS).tolist(), rng.choice(["p", "q"], ROWS).tolist()
MOMENTS = pd.Series(
    pd.to_datetime("2015-01-01") + pd.to_timedelta(rng.integers(0, 10**8, ROWS), unit="s")
)
DAYS = MOMENTS.dt.normalize()
BASES: dict[str, list[Any]] = {
    "whole": NUMBERS,
    "real": [number / 4 for number in NUMBERS],
    "decimal": [Decimal(number) / 4 for number in NUMBERS],
    "number text": [str(number) for number in NUMBERS],
    "text": LETTERS,
    "truth": [number > 40 for number in NUMBERS],
    "day text": [str(day.date()) for day in DAYS],
    "day": [day.date() for day in DAYS],
    "dotted": [day.strftime("%d.%m.%Y") for day in DAYS],
    "moment text": [str(moment) for moment in MOMENTS],
    "moment": [moment.to_pydatetime() for moment in MOMENTS],
    "clock": [moment.strftime("%H:%M") for moment in MOMENTS],
    "length text": [f"{number} days 00:00:00" for number in NUMBERS],
    "length": [datetime.timedelta(days=number) for number in NUMBERS],
}
CONFIG = MargNetConfig(steps=1, components=4)


def table_of(cells: list[Any]) -> pd.DataFrame:
    beside = [LETTERS[row % ROWS] for row in range(len(cells))]
    return pd.DataFrame({"v": objects(cells), "beside": pd.Series(beside, dtype="str")})


def codes_of(table: pd.DataFrame, schema: Schema) -> np.ndarray:
    return TableEncoder(schema).to_index(conform(table, schema))


@pytest.mark.slow(cases=5)
@pytest.mark.parametrize("base", BASES)
def test_a_draft_and_what_follows_take_every_cell(base: str) -> None:
    """A schema is drafted of odd rows, too; and by a schema drafted before, each row has the code that it has alone."""
    odd = table_of([*BASES[base], *ODD_CELLS])
    drafted = draft_private(odd, 20.0, random_state=0)
    assert codes_of(odd, drafted).shape == (len(odd), len(drafted.columns))
    schema = draft_private(table_of(BASES[base]), 20.0, random_state=0)
    together = codes_of(odd, schema)
    usual = codes_of(table_of(BASES[base]), schema)
    assert np.array_equal(together[:ROWS], usual)
    for row in range(ROWS, len(odd)):
        assert np.array_equal(codes_of(odd.iloc[[row]], schema)[0], together[row])


TYPED = {
    **{f"datetime64[{unit}]": MOMENTS.astype(f"datetime64[{unit}]") for unit in ("s", "us", "ns")},
    "datetime64[s, UTC]": MOMENTS.astype("datetime64[s]").dt.tz_localize("UTC"),
    **{
        f"timedelta64[{unit}]": (MOMENTS - MOMENTS.min()).astype(f"timedelta64[{unit}]")
        for unit in ("s", "ns")
    },
    "period[D]": DAYS.dt.to_period("D"),
    "uint64": pd.Series(NUMBERS, dtype="uint64"),
    "float64": pd.Series(NUMBERS, dtype="float64") / 4,
    "Float64": pd.Series(NUMBERS, dtype="Float64") / 4,
}


def extreme(dtype: str) -> pd.Series:
    """The least and the largest values of a type, and what is none."""
    if dtype == "period[D]":
        return pd.Series(pd.PeriodIndex.from_ordinals([-(10**10), 10**10], freq="D"))
    if "64[" in dtype:
        plain = dtype.removesuffix(", UTC]").rstrip("]") + "]"
        ends = pd.Series(np.array([-(2**62), 2**62, -(2**63)]).view(plain))
        return ends.dt.tz_localize("UTC") if "UTC" in dtype else ends
    numbers = {
        "uint64": [2**64 - 1, 2**63],
        "float64": [np.inf, -np.inf, np.nan, 1e308, -0.0, 5e-324],
    }
    return pd.Series(numbers.get(dtype, [1e308, None]), dtype=dtype)


@pytest.mark.parametrize("dtype", TYPED)
def test_extremes_of_a_type_change_no_other_row(dtype: str) -> None:
    usual = pd.DataFrame({"v": TYPED[dtype], "beside": LETTERS})
    ends = pd.DataFrame({"v": extreme(dtype), "beside": "p"})
    both = pd.concat([usual, ends], ignore_index=True)
    assert both["v"].dtype == usual["v"].dtype
    drafted = draft_private(both, 20.0, random_state=0)
    assert len(codes_of(both, drafted)) == len(both)
    schema = draft_private(usual, 20.0, random_state=0)
    assert np.array_equal(codes_of(both, schema)[:ROWS], codes_of(usual, schema))


ARROW = {
    **{unit: pa.array([day.date() for day in DAYS], kind) for unit, kind in (("date32[day]", pa.date32()), ("date64[ms]", pa.date64()))},
    **{f"time64[{unit}]": pa.array([moment.time() for moment in MOMENTS], pa.time64(unit)) for unit in ("us", "ns")},
    "time32[s]": pa.array([moment.time() for moment in MOMENTS], pa.time32("s")),
    **{str(kind): pa.array(MOMENTS.dt.to_pydatetime().tolist() if not kind.tz else MOMENTS.dt.tz_localize("UTC").tolist(), kind)
       for kind in (pa.timestamp("s"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns"))},
    "duration[s]": pa.array([datetime.timedelta(days=number) for number in NUMBERS], pa.duration("s")),
    "decimal256(76, 0)": pa.array([Decimal(number) for number in NUMBERS], pa.decimal256(76, 0)),
    "uint64": pa.array(NUMBERS, pa.uint64()),
    "halffloat": pa.array(np.array(NUMBERS, dtype="float16")),
}  # fmt: skip


@pytest.mark.parametrize("library", ["pyarrow", "pandas"])
@pytest.mark.parametrize("kind", ARROW)
def test_extremes_of_an_arrow_type_change_no_other_row(kind: str, library: str) -> None:
    ends = arrow_extremes()[kind]
    beside = pa.array([*LETTERS, *["p"] * len(ends)])
    tables = [
        pa.table({"v": ARROW[kind], "beside": beside[:ROWS]}),
        pa.table({"v": pa.chunked_array([ARROW[kind], ends]), "beside": beside}),
    ]
    if library == "pandas":
        tables = [table.to_pandas(types_mapper=pd.ArrowDtype) for table in tables]
    usual, both = map(to_pandas, tables)
    drafted = draft_private(tables[1], 20.0, random_state=0)
    assert len(codes_of(both, drafted)) == len(both)
    schema = draft_private(tables[0], 20.0, random_state=0)
    assert np.array_equal(codes_of(both, schema)[:ROWS], codes_of(usual, schema))


def test_one_date_beyond_all_years_in_a_file_ends_nothing(tmp_path: Path) -> None:
    """Each has the code of the last day where the schema clips, and is refused where it does not."""
    far = pa.array([5, 2 * 10**9, 0], pa.int32()).cast(pa.date32())
    parquet.write_table(pa.table({"v": far}), tmp_path / "t.parquet")
    column = Column(
        name="v", kind="date", dtype="object", low="1960-01-01", high="9999-12-31", clip=True
    )
    read = read_table(tmp_path / "t.parquet", Schema([column]))["v"].tolist()
    days = [datetime.date(1970, 1, 6), datetime.date(9999, 12, 31), datetime.date(1970, 1, 1)]
    assert read == days
    with pytest.raises(InputError, match="5477784-01-06"):
        read_table(tmp_path / "t.parquet", Schema([column.strict()]))


ONE_ROW = [
    ("whole", 10**400),
    ("text", Decimal("sNaN")),
    ("text", "\ud800"),
    ("text", "x" * 10**6),
    ("text", [1, 2]),
    ("day", datetime.date(9999, 12, 31)),
]


@pytest.mark.usefixtures("accounting_in_no_time")
@pytest.mark.parametrize(
    ("base", "cell"), ONE_ROW, ids=[type(cell).__name__ + base for base, cell in ONE_ROW]
)
def test_a_fit_without_a_schema_takes_an_odd_row(base: str, cell: Any, tmp_path: Path) -> None:
    """Whatever it draws can be written and read again."""
    ledger = tmp_path / "ledger.jsonl"
    ProjectLedger.create(ledger, epsilon=30.0)
    model = MargNet(None, epsilon=20.0, config=CONFIG, device="cpu")
    model.fit(table_of([*BASES[base], cell]), ledger=ledger)
    assert ProjectLedger.read(ledger).share > 0
    model.save(tmp_path / "model.tabsynth")
    for name in ("sample.csv", "sample.parquet"):
        model.sample_to(tmp_path / name, 50)
        assert len(read_table(tmp_path / name, model.schema_)) == 50


def test_no_long_text_and_no_half_character_becomes_a_category() -> None:
    """A schema could not be made of a text of more than 10,000 characters, however many rows have it."""
    many = ["x" * 10_001] * ROWS
    schema = draft_private(table_of([*LETTERS, *many, *["\ud800"] * ROWS]), 20.0, random_state=0)
    assert set(schema["v"].categories) == {"p", "q", "other", "\\ud800"}
    codes = codes_of(table_of(["x" * 10_001, "unheard of"]), schema)[:, 0]
    assert codes[0] == codes[1] == schema["v"].positions["other"]


DECLARED = Schema(
    [
        Column(name="v", kind="categorical", dtype="str", categories=("p", "q")),
        Column(name="beside", kind="categorical", dtype="str", categories=("p", "q")),
    ]
)


@pytest.mark.usefixtures("accounting_in_no_time")
@pytest.mark.parametrize("cell", ODD_CELLS[::7])
def test_declared_columns_refuse_an_odd_row_before_anything_is_charged(
    cell: Any, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ProjectLedger.create(ledger, epsilon=30.0)
    odd = table_of([*LETTERS, cell])
    with pytest.raises(InputError):
        MargNet(DECLARED, epsilon=20.0, config=CONFIG, device="cpu").fit(odd, ledger=ledger)
    assert ProjectLedger.read(ledger).share == 0


@pytest.mark.usefixtures("accounting_in_no_time")
def test_published_figures_refuse_odd_rows_before_anything_is_charged(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ProjectLedger.create(ledger, epsilon=30.0)
    usual = table_of(LETTERS)
    model = MargNet(DECLARED, epsilon=20.0, config=CONFIG, device="cpu").fit(usual, ledger=ledger)
    before, synthetic = ProjectLedger.read(ledger).share, model.sample(100)
    for cell in (10**400, Decimal("sNaN"), "\ud800", [1], pd.NaT):
        with pytest.raises(InputError):
            evaluate_private(
                table_of([*LETTERS, cell]), synthetic, schema=DECLARED, epsilon=1.0, ledger=ledger
            )
    assert ProjectLedger.read(ledger).share == before
    evaluate_private(usual, synthetic, schema=DECLARED, epsilon=1.0, ledger=ledger)
    assert ProjectLedger.read(ledger).share > before


def test_weights_and_units_of_odd_kinds_are_used_or_refused_before_a_draft() -> None:
    table = table_of(LETTERS[:2])
    weights, units = Design(weight="w", max_weight=5), Design(unit="u", max_rows_per_unit=2)
    for cell in ODD_CELLS:
        beside = table.assign(w=objects([1, cell]), u=objects([1, cell]))
        for design in (weights, units):
            plain = to_pandas(beside)
            try:
                check_design(plain, design)
            except InputError:
                continue
            if design is weights:
                assert 0 <= design.weights(plain)[1] <= 5


def test_units_that_could_be_taken_for_one_are_refused() -> None:
    units = Design(unit="u", max_rows_per_unit=1)
    for pair in (["\ud800", "\udfff"], [10**400, 10**401], [[10**5000], [10**5001]]):
        with pytest.raises(InputError, match=r"may stand for several units|too large for a float"):
            draft_private(table_of(LETTERS[:2]).assign(u=objects(pair)), 1.0, design=units)
