"""The command line on columns of dates and times as files have them: each comes back in its format."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_lines import run

from tabsynth import Schema

ROWS = 1_500
FIRST, LAST = datetime(2019, 1, 1), datetime(2021, 12, 31)
# By column: the format in which its texts are read here, by Python alone.
LAYOUTS = {
    "admitted": "%Y-%m-%d",
    "compact": "%Y%m%d",
    "german": "%d.%m.%Y",
    "american": "%m/%d/%Y",
    "oracle": "%d-%b-%Y",
    "offset": "%Y-%m-%dT%H:%M:%S+01:00",
    "minutes": "%Y-%m-%d %H:%M",
    "german moment": "%d.%m.%Y %H:%M",
    "half days": "%m/%d/%Y %I:%M %p",
    "digits": "%Y%m%d%H%M%S",
    "clock": "%H:%M",
    "month": "%Y-%m",
    "named month": "%b %Y",
}
EXCEL = datetime(1899, 12, 30)


def unpadded(moment: datetime) -> str:
    return f"{moment.month}/{moment.day}/{moment.year}"


# By column: how a moment is written, and how a text is read.
FORMATS: dict[str, tuple[Callable[[datetime], str], Callable[[str], datetime]]] = {
    **{
        name: (lambda m, f=layout: m.strftime(f), lambda text, f=layout: datetime.strptime(text, f))
        for name, layout in LAYOUTS.items()
    },
    "unpadded": (unpadded, lambda text: datetime.strptime(text, "%m/%d/%Y")),
    "created_at": (
        lambda m: str(int(m.replace(tzinfo=UTC).timestamp())),
        lambda text: datetime.fromtimestamp(int(text), UTC).replace(tzinfo=None),
    ),
    "visit_date": (
        lambda m: str((m - EXCEL).days),
        lambda text: EXCEL + pd.Timedelta(days=int(text)),
    ),
}


def made_up_rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns = {}
    for name, (write, _) in FORMATS.items():
        minutes = rng.integers(0, (LAST - FIRST).days * 24 * 60, ROWS)
        columns[name] = [
            write(FIRST + pd.Timedelta(minutes=int(m)).to_pytimedelta()) for m in minutes
        ]
    return pd.DataFrame(columns)


@pytest.mark.slow
def test_columns_of_dates_and_times_come_back_in_their_format(tmp_path: Path) -> None:
    made_up_rows().to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", "t.csv", "--epsilon", "20", "--time-limit", "2s", "-o", "t.model"]
    run(*fit, "--save-schema", "t.json", cwd=tmp_path)
    run("sample", "t.model", "-n", "300", "-o", "sample.csv", cwd=tmp_path)
    kinds = {column.name: column.kind for column in Schema.load(tmp_path / "t.json").columns}
    assert set(kinds) == {*FORMATS} and set(kinds.values()) == {
        "date",
        "datetime",
        "time",
        "period",
    }
    sample = pd.read_csv(tmp_path / "sample.csv", dtype=str, keep_default_na=False)
    for name, (write, read) in FORMATS.items():
        for text in sample[name]:
            moment = read(text)
            assert write(moment) == text, name
            assert name == "clock" or FIRST.year <= moment.year <= LAST.year, name
        assert sample[name].nunique() > 20, name
