"""MargNet on tables with structure that no pair of columns shows: sums of two columns modulo k, at ε = 1.

    python reports/margnet/high_order.py                # runs what is missing, then writes high-order.md
    python reports/margnet/high_order.py --write        # only writes, from the rows
    python reports/margnet/high_order.py --only mod4

A table has 20,000 rows of 10 to 18 columns. Two columns are the sum of two others modulo k (of three others in tables of order four); a
tenth of their values is replaced by random ones. The accuracy is that of predicting these columns from the others of the sum, by the most frequent
value in the synthetic rows, on 20,000 fresh rows. It is relative to the same prediction from the private rows. What the signs of triples
cost tables without such structure is measured on the census table and Adult. How often each code of signs shows a relation is
simulated. The rows are in high-order.json; those with the default settings on Adult are among the rows of run.py.
"""

import math
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "census"), str(HERE.parent / "benchmark")]
import config as configs  # noqa: E402
import run as census  # noqa: E402  the command line and how figures are shown
import store  # noqa: E402
from ours import HIGH_ORDER, PLAIN_TABLES  # noqa: E402
from runner import Runner, means_of  # noqa: E402
from tables import TABLES as REAL  # noqa: E402

from tabsynth import MargNet, Schema  # noqa: E402
from tabsynth.encoding import TableEncoder  # noqa: E402
from tabsynth.privacy.accounting.accountants import gaussian_mu  # noqa: E402
from tabsynth.privacy.certificate.certificate import code  # noqa: E402
from tabsynth.schema import Column  # noqa: E402
from tabsynth.synthesizers.margnet.config import MargNetConfig  # noqa: E402
from tabsynth.synthesizers.margnet.interactions import interactions, sign_codes  # noqa: E402

CONFIG = configs.load(HERE / "config.toml")
ROWS = HERE / "high-order.json"
N, EPSILON, SEEDS, REDRAWN = 20_000, 1.0, (0, 1, 2), 0.1
DELTA, DRAWS = 1e-5, 300
SHARES = (0.0, MargNetConfig().interactions_share)
CODES = {
    "all three": [0, 1, 2],
    "low and high": [0],
    "outer and inner": [1],
    "even and odd": [2],
}
COMPARED = {
    "no-interactions": "without",
    "interactions": "with them, and the same noise otherwise",
    "by-counts": "by default",
}


@dataclass(frozen=True)
class Sums:
    """A made-up table.

    Attributes
    ----------
    title : str
    k : int
        Values of the columns of the sums.
    others : tuple of int
        Values of the other columns, which follow one another: each is drawn around the one before.
    order : int
        Columns of a sum, with the result.
    shuffled : bool
        Whether the values of the columns of the sums are in random orders.
    """

    title: str
    k: int
    others: tuple[int, ...]
    order: int = 3
    shuffled: bool = False

    @property
    def sums(self) -> list[tuple[int, ...]]:
        """Places of the columns of each sum, the result last."""
        return [tuple(range(self.order)), tuple(range(self.order, 2 * self.order))]

    def schema(self) -> Schema:
        sizes = [*[self.k] * 2 * self.order, *self.others]
        return Schema(
            [
                Column(name=f"c{j}", kind="ordinal", dtype="int64", categories=tuple(range(size)))
                for j, size in enumerate(sizes)
            ]
        )

    def rows(self, seed: int) -> pd.DataFrame:
        rng = np.random.default_rng([seed, self.k, len(self.others)])
        columns = list[np.ndarray]()
        for _ in self.sums:
            parts = rng.integers(self.k, size=(self.order - 1, N))
            redrawn = rng.integers(self.k, size=N)
            columns += [*parts, np.where(rng.random(N) < REDRAWN, redrawn, parts.sum(0) % self.k)]
        if self.shuffled:
            orders = np.random.default_rng(self.k)  # the same for private and fresh rows
            columns = [orders.permutation(self.k)[column] for column in columns]
        level = rng.normal(size=N)
        for size in self.others:
            level = 0.7 * level + 0.7 * rng.normal(size=N)
            columns.append(np.clip(size * (0.5 + level / 5), 0, size - 1).astype(int))
        return pd.DataFrame({f"c{j}": values for j, values in enumerate(columns)})


TABLES = {
    "mod2": Sums("10 columns of 2 values", 2, (2,) * 4),
    "mod4": Sums("10 columns of 4 values", 4, (4,) * 4),
    "mod2-wide": Sums("10 columns, sums of 2 values beside columns of 20 to 100", 2, (20, 40, 60, 100)),
    "mod3-wide": Sums("10 columns, sums of 3 values beside columns of 20 to 100", 3, (20, 40, 60, 100)),
    "mod4-wide": Sums("10 columns, sums of 4 values beside columns of 20 to 100", 4, (20, 40, 60, 100)),
    "mod4-shuffled": Sums("the same with their values in random orders", 4, (20, 40, 60, 100), shuffled=True),
    "mod8-wide": Sums("10 columns, sums of 8 values beside columns of 20 to 100", 8, (20, 40, 60, 100)),
    "mod12-wide": Sums("10 columns, sums of 12 values beside columns of 20 to 100", 12, (20, 40, 60, 100)),
    "mod4-14": Sums("14 columns, sums of 4 values", 4, (10,) * 8),
    "mod4-18": Sums("18 columns, sums of 4 values", 4, (10,) * 12),
    "order4": Sums("10 columns of 2 values, sums of three columns", 2, (2,) * 2, order=4),
}  # fmt: skip


MEASURED = ("tvd1", "tvd2", "tvd3", "dwpre_macro_mean", "dwpre_weighted_mean")
REAL_RUNS = [
    configs.Run(table, f"margnet:{name}", epsilon, seed)
    for seed in SEEDS
    for name, variant in HIGH_ORDER.items()
    for table, epsilon in variant.cells
]


def accuracy(train: np.ndarray, fresh: np.ndarray, sums: list[tuple[int, ...]], k: int) -> float:
    """Of predicting the result of each sum from its parts by the most frequent value in ``train``; the mean of the sums."""
    found = []
    for columns in sums:
        counts = np.zeros((k,) * len(columns))
        np.add.at(counts, tuple(train[:, j] for j in columns), 1)
        guess = counts.argmax(-1)[tuple(fresh[:, j] for j in columns[:-1])]
        found.append((guess == fresh[:, columns[-1]]).mean())
    return float(np.mean(found))


def distance(one: np.ndarray, other: np.ndarray, sizes: tuple[int, ...]) -> float:
    """Mean total variation distance of the counts of all pairs of columns."""
    found = []
    for a, b in combinations(range(len(sizes)), 2):
        counts = []
        for rows in (one, other):
            table = np.bincount(rows[:, a] * sizes[b] + rows[:, b], minlength=sizes[a] * sizes[b])
            counts.append(table / len(rows))
        found.append(abs(counts[0] - counts[1]).sum() / 2)
    return float(np.mean(found))


def fit(name: str, share: float, seed: int) -> dict:
    table = TABLES[name]
    schema = table.schema()
    private, fresh = table.rows(seed), table.rows(seed + 1000)
    began = time.process_time()
    model = MargNet(
        schema,
        epsilon=EPSILON,
        random_state=seed,
        config=MargNetConfig(interactions_share=share),
    )
    synthetic = model.fit(private).sample(N, random_state=seed)
    seconds = time.process_time() - began
    encoder = TableEncoder(schema)
    made, real, new = (encoder.to_index(rows) for rows in (synthetic, private, fresh))
    counted = [tuple(m.columns) for m in model.trained_.measured.counts if len(m.columns) == 3]
    ours, best = (accuracy(rows, new, table.sums, table.k) for rows in (made, real))
    return {
        "table": name,
        "share": share,
        "seed": seed,
        "accuracy": ours,
        "of_private": best,
        "relative": ours / best,
        "tvd2": distance(made, real, schema.sizes),
        "triples": len(counted),
        "sums_counted": sum(columns in counted for columns in table.sums),
        "cpu_seconds": round(seconds, 1),
        "code": code(),
    }


def fit_real(runner: Runner, run: configs.Run, folder: Path) -> dict:
    """Fit and score MargNet on a table of the comparison."""
    out, variant, limit = (
        folder / "synthetic.csv",
        run.system.partition(":")[2],
        CONFIG.limits["ours"],
    )
    what = [sys.executable, HERE / "ours.py", run.table, run.epsilon, run.seed, variant, limit, out]
    result = runner.process(what, limit)
    if "stopped" in result:
        return result
    return result | means_of(runner.scored(run.table, folder, out)[0]) | {"code": code()}


def run_real(only: str | None) -> None:
    runner = Runner(CONFIG, only)
    with tempfile.TemporaryDirectory() as scratch:
        for run in REAL_RUNS:
            if run.key in store.load(ROWS) or (only and only not in run.key):
                continue
            row = fit_real(runner, run, runner.table(run.table, Path(scratch)))
            store.add(ROWS, {run.key: vars(run) | row})
            print(run.key, row.get("tvd2"), row.get("stopped", ""), flush=True)


def run_all(only: str | None) -> None:
    for seed in SEEDS:
        for name in TABLES:
            for share in SHARES:
                key = f"{name}-{share:g}-{seed}"
                if key in store.load(ROWS) or (only and only not in key):
                    continue
                row = fit(name, share, seed)
                store.add(ROWS, {key: row})
                print(key, row, flush=True)
    if not only or only == "detected":
        run_detected()
    run_real(only)


def threshold(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether one of two columns of ten values is high."""
    return (a >= 5) ^ (b >= 5)


def odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether the sum of two columns of ten values is odd."""
    return (a + b) % 2


# What two columns of so many values each have for a result, of how many values, and whether their values are in random orders.
RELATIONS: dict[str, tuple[int, Callable[..., np.ndarray], int, bool]] = {
    "one of two is high": (10, threshold, 2, False),
    "odd sum": (10, odd, 2, False),
    **{
        f"mod {k}{', shuffled' if shuffled else ''}": (
            k,
            lambda a, b, k=k: (a + b) % k,
            k,
            shuffled,
        )
        for shuffled in (False, True)
        for k in (2, 3, 4, 8, 11)
    },
}


def detected(relation: str, codes: str) -> float:
    """How often a relation in a table of ten columns is clear by some codes, in ``DRAWS`` draws of noise, and of orders of the values."""
    rng = np.random.default_rng([*map(ord, relation + codes)])
    (k, result, others, shuffled), settings = RELATIONS[relation], MargNetConfig()
    signs = [sign_codes(np.full(size, 1 / size))[CODES[codes]] for size in (k, k, others)]
    noise = len(CODES[codes]) * (math.comb(10, 2) + math.comb(10, 3)) / settings.interactions_share
    std = math.sqrt(noise) / gaussian_mu(EPSILON, DELTA)
    first, second = np.indices((k, k))
    places = (first, second, result(first, second).astype(int))
    means = [of.mean(1) for of in signs]
    sums: dict[tuple[int, ...], np.ndarray] = {}
    for draw in range(DRAWS):
        shown = [
            of[:, rng.permutation(of.shape[1])[at] if shuffled else at]
            for of, at in zip(signs, places, strict=True)
        ]
        columns = range(3 * draw, 3 * draw + 3)
        product = np.prod(shown, axis=0).mean((1, 2))
        sums[tuple(columns)] = (1 - REDRAWN) * product + REDRAWN * np.prod(means, axis=0)
        for a, b in combinations(range(3), 2):
            sums[columns[a], columns[b]] = means[a] * means[b]
    spread = math.hypot(std, math.sqrt(N))  # noise and chance
    noisy = {s: N * of + spread * rng.standard_normal(len(of)) for s, of in sums.items()}
    least = settings.interaction_noise, settings.least_interaction
    return len(interactions(noisy, std, means * DRAWS, N, *least)) / DRAWS


def run_detected() -> None:
    rows = {
        f"detected {relation} by {codes}": {
            "relation": relation,
            "codes": codes,
            "share": detected(relation, codes),
            "code": code(),
        }
        for codes in CODES
        for relation in RELATIONS
    }
    store.add(ROWS, rows)


def detections() -> list[str]:
    """How often a relation is clear, by codes."""
    rows = store.load(ROWS)
    lines = ["| relation | " + " | ".join(CODES) + " |", "|" + "---|" * (len(CODES) + 1)]
    for relation in RELATIONS:
        keys = [f"detected {relation} by {codes}" for codes in CODES]
        shown = [f"{rows[key]['share']:.2f}" if key in rows else "–" for key in keys]
        lines.append(f"| {relation} | " + " | ".join(shown) + " |")
    return lines


def figures() -> list[str]:
    rows = [r for r in store.load(ROWS).values() if "relative" in r]
    lines = [
        "| table | signs of triples | accuracy | relative | tvd2 | triples counted | sums among them | CPU s | seeds |",
        "|" + "---|" * 9,
    ]
    for name, table in TABLES.items():
        for share in SHARES:
            done = [r for r in rows if (r["table"], r["share"]) == (name, share)]
            if not done:
                continue
            cells = [census.mean_sd([r[x] for r in done]) for x in ("accuracy", "relative", "tvd2")]
            means = [
                np.mean([r[x] for r in done]) for x in ("triples", "sums_counted", "cpu_seconds")
            ]
            counted = [f"{means[0]:.0f}", f"{means[1]:.1f} of 2", f"{means[2]:.0f}", str(len(done))]
            signs = "by default" if share else "without"
            lines.append(f"| {table.title} | {signs} | " + " | ".join([*cells, *counted]) + " |")
    wanted = len(TABLES) * len(SHARES) * len(SEEDS)
    return [*lines, "", f"{len(rows)} of {wanted} runs were made."]


def costs() -> list[str]:
    """What the signs of triples cost tables of the comparison; in the last row of each, seed by seed.

    Default fits, whose other noise differs, are shown where no fits with the same noise were made.
    """
    rows = store.load(HERE / "results.json") | store.load(ROWS)
    lines = [
        "| table | ε | signs of triples | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted | triples counted | CPU s | seeds |"
    ]
    lines.append("|" + "---|" * 11)
    for table, epsilon in PLAIN_TABLES:
        done = {}
        for name, title in COMPARED.items():
            if name == "by-counts" and done["interactions"]:
                done[name] = {}
                continue
            keys = [configs.Run(table, f"margnet:{name}", epsilon, seed).key for seed in SEEDS]
            done[name] = {
                rows[key]["seed"]: rows[key] for key in keys if "tvd2" in rows.get(key, {})
            }
            if of := list(done[name].values()):
                cells = [census.mean_sd([r[figure] for r in of]) for figure in MEASURED]
                means = [f"{np.mean([r[x] for r in of]):.1f}" for x in ("triples", "cpu_seconds")]
                cells = [REAL[table].title, f"{epsilon:g}", title, *cells, *means, str(len(of))]
                lines.append("| " + " | ".join(cells) + " |")
        without = done["no-interactions"]
        name = "interactions" if done["interactions"] else "by-counts"
        both = without.keys() & done[name].keys()
        if both:
            changes = [
                np.array([done[name][seed][x] - without[seed][x] for seed in sorted(both)])
                for x in MEASURED
            ]
            cells = [
                f"{c.mean():+.4f} ± {c.std(ddof=1):.4f}" if len(c) > 1 else f"{c[0]:+.4f}"
                for c in changes
            ]
            cells = [
                REAL[table].title,
                f"{epsilon:g}",
                f"{COMPARED[name]}, less without",
                *cells,
                "",
                "",
                str(len(both)),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def write_page() -> None:
    page = (HERE / "high-order-template.md").read_text("utf-8")
    page = page.replace("<!-- FIGURES -->", "\n".join(figures()))
    page = page.replace("<!-- DETECTED -->", "\n".join(detections()))
    (HERE / "high-order.md").write_text(page.replace("<!-- COSTS -->", "\n".join(costs())), "utf-8")


if __name__ == "__main__":
    census.command(__doc__.splitlines()[0], run_all, write_page)
