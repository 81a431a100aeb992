"""Tables as people bring them, fitted without a schema: what is kept, what is impossible, how near the rows are.

``OMP_NUM_THREADS=1 python reports/tables/as_they_come.py`` is run by the harness. A declared schema is one that lists every value
and has the bounds of the whole table, as the codebook of a public table would.
"""

import itertools
import re
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "reports"), str(ROOT / "data")]

from benchmark_data import data_file  # noqa: E402
from harness import Row, Rows, Study, fill, releases, table  # noqa: E402

from tabsynth import MargNet, read_table, write_table  # noqa: E402
from tabsynth.drafting import draft_schema  # noqa: E402

EPSILON = 1.0
SEEDS = 3
FEW = 30  # distinct values; of such a column every other value is impossible
FREQUENT = 0.05  # the share of rows that makes a value a bin of its own
PAIRS = 300
DATE = re.compile(r"\d[-/.:]\d")
Codes = Mapping[str, np.ndarray]
TABLES = {
    "rwm5yr": "German health survey, person-years",
    "HI": "health insurance and hours worked of wives",
    "medpar": "hospital stays of Medicare patients",
    "OFP": "visits to physicians' offices",
    "MedExp": "demand for medical care",
    "DoctorAUS": "doctor visits in Australia",
    "mdvis": "visits before and after a health reform",
    "nwtco": "Wilms' tumour study",
    "gbsg2": "breast cancer study",
    "Star": "class sizes and test scores",
    "SLID": "wages in Ontario",
    "RetSchool": "returns to schooling",
    "Chile": "voting intentions",
    "msq": "moods",
    "movies": "films, budgets and ratings",
}
SETTINGS = {
    f"{name}-{schema}-{seed}": (name, schema, seed)
    for seed in range(SEEDS)
    for schema in ("drafted", "declared")
    for name in TABLES
}
HEAD = [
    "table", "rows × columns", "kept", "impossible", "tvd2", "tvd2 declared", "tvd2 relative", "CPU s",
]  # fmt: skip


def measure(setting: tuple[str, str, int]) -> Row:
    """Fit and sample one table as its file has it, and compare the files."""
    name, kind, seed = setting
    path = data_file(f"field/{name}.csv")
    began = time.process_time()
    rows = read_table(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the summary of each draft
        declared = kind == "declared"
        schema = draft_schema(rows, min_count=1) if declared else None
        if declared:
            rows = read_table(path, schema)
        model = MargNet(
            schema,
            epsilon=EPSILON,
            random_state=seed,
            device="cpu",
            accept_drafted_domain=declared,
        ).fit(rows)
    synthetic = model.sample(len(rows), random_state=seed)
    taken = time.process_time() - began
    real = pd.read_csv(path, low_memory=False)
    with tempfile.TemporaryDirectory() as folder:
        write_table(synthetic, Path(folder, "synthetic.csv"))
        made = pd.read_csv(Path(folder, "synthetic.csv"), low_memory=False)
    return {**scores(real, made), "shape": real.shape, "seconds": round(taken, 1)}


def scores(real: pd.DataFrame, synthetic: pd.DataFrame) -> Row:
    """Return the figures of a synthetic table, and what sampling alone costs (``floor``)."""
    pairs = _comparable(real, synthetic)
    impossible = {name: _impossible_share(*pair) for name, pair in pairs.items()}
    again = np.random.default_rng(1).integers(0, len(real), len(real))
    codes, made, sampled = {}, {}, {}
    for name, (values, others) in pairs.items():
        code = _binning(values)
        codes[name], made[name] = code(values), code(others)
        sampled[name] = codes[name][again]
    tvd1, tvd2 = _distances(codes, made)
    floor1, floor2 = _distances(codes, sampled)
    return {
        "left_out": [name for name in real.columns if name not in synthetic.columns],
        "collapsed": [name for name, pair in pairs.items() if _is_collapsed(*pair)],
        "impossible": round(statistics.fmean(impossible.values()), 5),
        "tvd1": round(tvd1, 5),
        "tvd2": round(tvd2, 5),
        "floor1": round(floor1, 5),
        "floor2": round(floor2, 5),
    }


def _comparable(
    real: pd.DataFrame, synthetic: pd.DataFrame
) -> dict[str, tuple[pd.Series, pd.Series]]:
    """Return both columns of each name: as numbers if all real ones are, seconds if they are dates, else texts."""
    pairs = {}
    for name in (name for name in real.columns if name in synthetic.columns):
        values, others = real[name], synthetic[name]
        numbers = pd.to_numeric(values, errors="coerce")
        if values.notna().any() and numbers.notna().equals(values.notna()):
            pairs[name] = numbers, pd.to_numeric(others, errors="coerce")
        elif (dates := _seconds(values)) is not None:
            pairs[name] = dates, _seconds(others, always=True)
        else:
            pairs[name] = values.astype("string"), others.astype("string")
    return pairs


def _seconds(values: pd.Series, *, always: bool = False) -> pd.Series | None:
    texts = values.dropna().astype(str)
    if not always and (values.nunique() <= FEW or texts.str.contains(DATE).mean() <= 0.9):
        return None
    dates = pd.to_datetime(values, errors="coerce", format="mixed")
    if not always and dates.notna().sum() < 0.95 * values.notna().sum():
        return None
    return (dates - pd.Timestamp(0)).dt.total_seconds()


def _impossible_share(values: pd.Series, others: pd.Series) -> float:
    """Return the share of synthetic values that no person would accept."""
    others = others.dropna()
    if values.nunique() <= FEW or not pd.api.types.is_numeric_dtype(values):
        return float((~others.isin(values.dropna().unique())).mean()) if len(others) else 0.0
    margin = 0.05 * (values.max() - values.min())
    outside = (others < values.min() - margin) | (others > values.max() + margin)
    return float(outside.mean()) if len(others) else 0.0


def _is_collapsed(values: pd.Series, others: pd.Series) -> bool:
    shares = values.value_counts(normalize=True)
    return len(shares) > 1 and shares.iloc[1] >= FREQUENT and others.nunique() <= 1


def _binning(values: pd.Series) -> Callable[[pd.Series], np.ndarray]:
    """Return what gives each value its bin: the 20 most frequent values, or ten bins beside frequent values."""
    if not pd.api.types.is_numeric_dtype(values) or values.nunique() <= 20:
        bins = {value: k for k, value in enumerate(values.value_counts().index[:20])}
        return lambda column: (
            column.map(bins).astype(float).fillna(20).where(column.notna(), 21).to_numpy(int)
        )
    shares = values.value_counts(normalize=True)
    frequent = np.sort(shares.index[shares >= FREQUENT].to_numpy())
    rest = values.dropna()[lambda column: ~column.isin(frequent)]
    edges = np.unique(np.quantile(rest, np.arange(1, 10) / 10)) if len(rest) else []

    def code(column: pd.Series) -> np.ndarray:
        bins = np.searchsorted(edges, column, side="right")
        for k, value in enumerate(frequent):
            bins[column == value] = 20 + k
        return np.where(column.isna(), 60, bins)

    return code


def _distances(codes: Codes, others: Codes) -> tuple[float, float]:
    """Return the mean total variation distances of columns and of at most ``PAIRS`` pairs."""
    pairs = list(itertools.combinations(codes, 2))
    if len(pairs) > PAIRS:
        chosen = np.random.default_rng(0).choice(len(pairs), PAIRS, replace=False)
        pairs = [pairs[k] for k in chosen]
    columns = [_distance(codes[name], others[name]) for name in codes]
    both = [_distance(100 * codes[a] + codes[b], 100 * others[a] + others[b]) for a, b in pairs]
    return statistics.fmean(columns), statistics.fmean(both)


def _distance(codes: np.ndarray, others: np.ndarray) -> float:
    size = max(codes.max(), others.max()) + 1
    shares = [np.bincount(each, minlength=size) / len(each) for each in (codes, others)]
    return float(0.5 * np.abs(shares[0] - shares[1]).sum())


def page(rows: Rows) -> str:
    """Return the page."""
    cells, relative = list[list[str]](), list[float]()
    for name, title in TABLES.items():
        drafted, declared = (
            [row for seed in range(SEEDS) if (row := rows.get(f"{name}-{kind}-{seed}"))]
            for kind in ("drafted", "declared")
        )
        if drafted and declared:
            cells.append([f"{name}: {title}", *_cells(drafted, declared)])
            means = [statistics.fmean(row["tvd2"] for row in kind) for kind in (drafted, declared)]
            relative.append(means[0] / means[1] - 1)
    collapsed = sum(len(row["collapsed"]) for row in rows.values())
    parts = {
        "ANSWER": f"The distance of pairs differs by {min(relative):+.0%} to {max(relative):+.0%} from that of a"
        f" fit with a codebook's schema, {statistics.median(relative):+.0%} in the median.",
        "COLLAPSED": str(collapsed),
        "TABLE": table(HEAD, cells),
        "RELEASE": releases(rows.values()),
    }
    return fill(Path(__file__).with_name("as_they_come.template.md"), parts)


def _cells(drafted: Sequence[Row], declared: Sequence[Row]) -> list[str]:
    def mean(rows: Sequence[Row], name: str) -> float:
        return statistics.fmean(row[name] for row in rows)

    count, width = drafted[0]["shape"]
    left_out = statistics.fmean(len(row["left_out"]) for row in drafted)
    relative = mean(drafted, "tvd2") / mean(declared, "tvd2") - 1
    return [
        f"{count:,} × {width}",
        f"{width - left_out:.3g}",
        f"{mean(drafted, 'impossible'):.4f}",
        f"{mean(drafted, 'tvd2'):.4f}",
        f"{mean(declared, 'tvd2'):.4f}",
        f"{relative:+.0%}",
        f"{mean(drafted, 'seconds'):.0f}",
    ]


STUDY = Study(script=Path(__file__).resolve(), settings=SETTINGS, measure=measure, page=page)

if __name__ == "__main__":
    STUDY.main()
