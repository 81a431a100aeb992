"""What a page shows of columns: axes to scale, captions, value labels, heaping, rules."""

import base64
import re

import numpy as np
import pandas as pd
import pytest

from tabsynth import Categorical, Date, Numeric, Schema, evaluate
from tabsynth.evaluation import EvaluationConfig
from tabsynth.evaluation.column_summaries import column_summaries
from tabsynth.report.figures import marginal_figure

SCHEMA = Schema(
    [
        Numeric(
            name="sbp", dtype="int64", low=60, high=260, bins=20, heaping=(10,),
            description="Systolic <b>pressure</b>",
        ),
        Numeric(name="dbp", dtype="int64", low=30, high=260, bins=20),
        Date(name="visit", dtype="str", low="2020-01-01", high="2020-12-31", bins=12),
        Categorical(
            name="sex", dtype="str", categories=("f", "m"), labels={"f": "woman & girl", "m": "man"}
        ),
    ],
    constraints=[{"order": ["dbp", "sbp"], "strict": True}],
)  # fmt: skip


def table(heaped: float, seed: int, broken: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sbp = rng.integers(100, 200, 120)
    sbp = np.where(rng.random(120) < heaped, 10 * (sbp // 10), sbp)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, 120), unit="D")
    return pd.DataFrame(
        {
            "sbp": sbp,
            "dbp": np.where(np.arange(120) < broken, sbp, sbp - 40),
            "visit": pd.Series(day.strftime("%Y-%m-%d"), dtype="str"),
            "sex": pd.Series(rng.choice(["f", "m"], 120), dtype="str"),
        }
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    report = evaluate(
        table(1.0, 0), table(0.0, 1, broken=3), schema=SCHEMA, config=EvaluationConfig(m=5, k=(1,))
    )
    path = tmp_path_factory.mktemp("page") / "report.html"
    report.to_html(path)
    return path.read_text("utf-8")


@pytest.mark.slow
def test_heaping_and_rules_are_tables(page: str) -> None:
    heaping = page.split("Heaping of numbers</h3>")[1].split("</table>")[0]
    assert '<td class="word">multiples of 10</td><td>100.0%</td>' in heaping
    assert "Round numbers differ in sbp (multiples of 10: 100%" in page
    rules = page.split('<section id="rules">')[1].split("</section>")[0]
    row = re.search(
        r'<tr class="over"><th scope="row" class="name">dbp &lt; sbp</th>.*</tr>', rules
    )
    assert row and "<td>3</td><td>2.5%</td><td>0</td><td>0.0%</td>" in row[0]


@pytest.mark.slow
def test_descriptions_are_captions_and_labels_are_on_axes(page: str) -> None:
    assert "Systolic &lt;b&gt;pressure&lt;/b&gt;</p>" in page
    sources = re.findall(
        r'<img src="data:image/svg\+xml;base64,([^"]+)" alt="Shares of the values of (\w+)', page
    )
    pictures = {name: base64.b64decode(source).decode() for source, name in sources}
    assert "woman &amp; girl" in pictures["sex"] and ">man<" in pictures["sex"]
    assert re.search(">(2020|2020-Jan|Jan|Mar)<", pictures["visit"])
    assert ">per 10<" in pictures["sbp"]
    moments = page.split('<section id="columns">')[1]
    dates = moments.split('<th scope="row" class="name">visit</th>')[1].split("</tr>")[0]
    assert re.search(r"<td>2020-\d\d-\d\d</td>", dates) and " days</td>" in dates


def heights(svg: str, colour: str) -> list[float]:
    """Distinct heights above the axis of the steps of one colour, in points."""
    path = next(
        match[1]
        for match in re.finditer(r'<path d="([^"]+)"[^>]*style="([^"]*)"', svg)
        if f"fill: {colour}" in match[2] and "opacity" in match[2]
    )
    points = [tuple(map(float, p)) for p in re.findall(r"[ML] ([\d.]+) ([\d.]+)", path)]
    ground = max(y for _, y in points)
    return [ground - y for _, y in points]


def test_a_wide_cell_is_as_low_as_its_density() -> None:
    column = Numeric(name="x", dtype="float64", low=0, high=100, breaks=(20.0,))
    codes = np.repeat([0, 1], [50, 50])[:, None]
    (item,) = column_summaries(Schema([column]), codes, codes)
    found = sorted({round(h, 1) for h in heights(marginal_figure(item), "#3b6ea5")})
    # Equal shares of 20 and of 80 units: four times as high.
    assert found[0] == 0 and found[-1] / found[1] == pytest.approx(4, rel=0.02)
