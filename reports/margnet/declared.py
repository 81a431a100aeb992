"""Declared tables of MargNet on the census table: against these tables alone with the whole budget, and against a fit without them.

    python reports/margnet/declared.py                # runs what is missing, then writes declared.md
    python reports/margnet/declared.py --write        # only writes, from the rows
    python reports/margnet/declared.py --only declared-8

The table that must be accurate is PUMA x AGE_GROUP x SEX, with its sums over states, regions and the nation. The baseline counts this
table alone, at each of these levels, with the whole budget, and makes the levels consistent by least squares without negative counts. Needs
the census table, a benchmark file of data/README.md. The rows are in declared.json.
"""

import sys
import time
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "census"), str(HERE.parent / "benchmark")]
import run as census  # noqa: E402  the command line and how figures are shown
import store  # noqa: E402
from tables import TABLES  # noqa: E402

from tabsynth import Categorical, MargNet, Schema  # noqa: E402
from tabsynth.encoding import TableEncoder  # noqa: E402
from tabsynth.privacy.accounting.accountants import gaussian_mu  # noqa: E402
from tabsynth.privacy.certificate.certificate import code  # noqa: E402
from tabsynth.synthesizers.margnet.config import MargNetConfig  # noqa: E402
from tabsynth.synthesizers.margnet.declared import (  # noqa: E402
    DeclaredTable,
    TableCounts,
    declared_tables,
    rounded,
)
from tabsynth.synthesizers.margnet.tabulated import expected_table, fitted_tables  # noqa: E402

ROWS = HERE / "declared.json"
EPSILONS, SEEDS, DELTA = (1.0, 8.0), range(3), 1e-5
MORE = {(name, 1.0): range(12) for name in ("default", "declared")}  # near the target
DRAWS = 30  # of the baseline, whose mean squared error is taken
NORTHEAST, MIDWEST, WEST = ("09 23 25 33 34 36 42 44 50", "17 18 19 20 26 27 29 31 38 39 46 55",
                            "02 04 06 08 15 16 30 32 35 41 49 53 56")  # fmt: skip
FIRST, SECOND = ("PUMA", "AGE_GROUP", "SEX"), ("STATE", "RAC1P", "OWN_RENT")
SETS = (("PUMA", "AGEP", "SEX"), ("PUMA", "RAC1P", "OWN_RENT"))  # their modelled columns
SYSTEMS: dict[str, dict[str, Any]] = {
    "default": {},
    "declared": {"tables": [FIRST]},
    "short": {"tables": [FIRST], "config": MargNetConfig(steps=100)},
    "two": {"tables": [FIRST, SECOND]},
    "workload": {"workload": [SETS[0]]},
}
TITLES = {
    "default": "default, nothing declared",
    "declared": "one declared table",
    "short": "one declared table, a fit of 100 steps",
    "two": "two declared tables",
    "workload": "`workload` of its modelled columns",
}


def region(state: str) -> str:
    """The census region of a FIPS code."""
    named = {"northeast": NORTHEAST, "midwest": MIDWEST, "west": WEST}
    return next((name for name, states in named.items() if state in states.split()), "south")


def age_group(age: int) -> str:
    """Five years each, and 85 or more."""
    return f"{min(age // 5 * 5, 85):02}"


def with_groups(schema: Schema) -> Schema:
    """The census schema with three derived columns."""
    areas = [str(area) for area in schema["PUMA"].categories or ()]
    states = {area: area[:2] for area in areas}
    regions = {state: region(state) for state in states.values()}
    ages = {age: age_group(age) for age in range(100)}
    added = {"STATE": ("PUMA", states), "REGION": ("STATE", regions), "AGE_GROUP": ("AGEP", ages)}
    columns = [
        Categorical(name=name, dtype="str", categories=tuple(sorted(set(table.values()))))
        for name, (_, table) in added.items()
    ]
    rules = [
        {"derive": name, "from": source, "table": [[k, v] for k, v in table.items()]}
        for name, (source, table) in added.items()
    ]
    return Schema([*schema.columns, *columns], schema.null_values, constraints=rules)


def census_table() -> tuple[Schema, pd.DataFrame]:
    """The schema and the private rows: the training rows of the comparison."""
    schema, rows, _ = TABLES["census"].split()
    state = rows["PUMA"].str[:2]
    groups = {"STATE": state, "REGION": state.map(region)}
    groups["AGE_GROUP"] = rows["AGEP"].map(lambda age: age_group(int(age)))
    return with_groups(schema), rows.assign(**groups).astype(dict.fromkeys(groups, "str"))


def counted(table: DeclaredTable, codes: np.ndarray) -> np.ndarray:
    """Counts of the cells of a table."""
    cells = np.bincount(table.cells(codes), minlength=int(np.prod(table.shape)))
    return cells.reshape(table.shape).astype(float)


def errors(table: DeclaredTable, found: np.ndarray, real: np.ndarray) -> list[float]:
    """Root mean squared errors of the counts of a table at each level."""
    levels = zip(table.sums(found), table.sums(real), strict=True)
    return [float(np.sqrt(np.square(a - b).mean())) for a, b in levels]


def alone(
    table: DeclaredTable, real: np.ndarray, noise: float, levels: int, *, whole: bool = False
) -> list[float]:
    """The same of the table alone with the noise of the whole budget, which so many levels share; rounded to ``whole`` numbers or not."""
    rng, std, squares = np.random.default_rng(0), noise * levels**0.5, list[np.ndarray]()
    for _ in range(DRAWS):
        counts = (c + std * rng.standard_normal(c.shape) for c in table.sums(real))
        noisy = TableCounts(table, tuple(counts), (std,) * len(table.levels))
        counts_fitted = noisy.fitted(real.sum())
        if whole:
            counts_fitted = rounded(counts_fitted, table, int(real.sum()), rng).astype(float)
        squares.append(np.square(errors(table, counts_fitted, real)))
    return [float(root) for root in np.sqrt(np.mean(squares, axis=0))]


def distance(one: np.ndarray, other: np.ndarray, sizes: tuple[int, ...], names: list[str], k: int) -> float:  # fmt: skip
    """Mean total variation distance of the counts of k columns, but for the declared ones."""
    found = []
    for columns in combinations(range(len(sizes)), k):
        if any({names[j] for j in columns} == set(declared) for declared in SETS):
            continue
        shape = [sizes[j] for j in columns]
        shares = [
            np.bincount(np.ravel_multi_index(rows[:, columns].T, shape), minlength=int(np.prod(shape))) / len(rows)
            for rows in (one, other)
        ]  # fmt: skip
        found.append(abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(found))


def of_table(
    number: int, table: DeclaredTable, model: MargNet, codes: np.ndarray, made: np.ndarray, levels: int
) -> dict[str, Any]:  # fmt: skip
    """The errors of one table at each level, over those of the baseline, and how far rows are from the fitted table."""
    real, found = counted(table, codes), counted(table, made)
    base = alone(table, real, 1 / gaussian_mu(model.epsilon, DELTA), levels)

    def relative(values: np.ndarray) -> list[float]:
        return [a / b for a, b in zip(errors(table, values, real), base, strict=True)]

    out: dict[str, Any] = {
        "levels": list(table.level_names),
        "alone": base,
        "ratio": relative(found),
    }
    if model.trained_.tables:
        noisy, mixture = model.trained_.tables[number], model.trained_.generator
        fitted = fitted_tables(model.trained_.tables, float(model.rows_ or 1), mixture)[number]
        fitted = fitted * (len(codes) / fitted.sum())  # as samples are: to their number of rows
        sums = zip(table.sums(found), table.sums(fitted), strict=True)
        out["deviation"] = [float(np.abs(a - b).max()) for a, b in sums]
        out["of_counts"] = relative(noisy.fitted(len(codes)))
        out["of_mixture"] = relative(len(codes) * expected_table(table, mixture))
        out["of_fitted"] = relative(fitted)
    return out


def fit(system: str, epsilon: float, seed: int) -> dict[str, Any]:
    schema, private = census_table()
    began = time.process_time()
    model = MargNet(schema, epsilon=epsilon, delta=DELTA, random_state=seed, **SYSTEMS[system])
    model.fit(private)
    fitted = time.process_time()
    synthetic = model.sample(len(private))
    ended = time.process_time()
    encoder = model.encoder_
    codes, made = encoder.to_index(private), encoder.to_index(synthetic)
    names, sizes = list(encoder.schema.names), encoder.schema.sizes
    tables = declared_tables(schema, SYSTEMS[system].get("tables", [FIRST]), 1_000_000)
    levels = sum(len(table.levels) for table in tables)
    return {
        "system": system,
        "epsilon": epsilon,
        "seed": seed,
        "tvd2": distance(made, codes, sizes, names, 2),
        "tvd3": distance(made, codes, sizes, names, 3),
        "tables": [of_table(i, t, model, codes, made, levels) for i, t in enumerate(tables)],
        "fit_seconds": round(fitted - began, 1),
        "sample_seconds": round(ended - fitted, 1),
        "code": code(),
    }


def key(system: str, epsilon: float, seed: int) -> str:
    return f"{system}-{epsilon:g}-{seed}"


def run_all(only: str | None) -> None:
    for epsilon in EPSILONS:
        name = f"rounded-{epsilon:g}"
        if name not in store.load(ROWS) and not only:
            schema, private = census_table()
            (table,) = declared_tables(schema, [FIRST], 1_000_000)
            real = counted(table, TableEncoder(schema).to_index(private))
            noise = 1 / gaussian_mu(epsilon, DELTA)
            base = alone(table, real, noise, len(table.levels), whole=True)
            store.add(ROWS, {name: {"alone": base, "code": code()}})
    for epsilon in EPSILONS:
        for system in SYSTEMS:
            for seed in MORE.get((system, epsilon), SEEDS):
                name = key(system, epsilon, seed)
                if name in store.load(ROWS) or (only and only not in name):
                    continue
                row = fit(system, epsilon, seed)
                store.add(ROWS, {name: row})
                print(name, row, flush=True)


Rows = Mapping[str, dict[str, Any]]


def rows_of(rows: Rows, system: str, epsilon: float) -> list[dict[str, Any]]:
    names = (key(system, epsilon, seed) for seed in MORE.get((system, epsilon), SEEDS))
    return [rows[name] for name in names if name in rows]


def header(*names: str) -> list[str]:
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]


def ratios(rows: Rows) -> list[str]:
    """Errors of the declared table over the baseline, level by level, and of all else over the default."""
    names = ("PUMA", "state", "region", "nation")
    lines = header(
        "ε", "fit", *names, "undeclared tvd3", "over the default", "tvd2", "CPU s", "seeds"
    )
    for epsilon in EPSILONS:
        default = {row["seed"]: row for row in rows_of(rows, "default", epsilon)}
        for system, title in TITLES.items():
            done = rows_of(rows, system, epsilon)
            if not done:
                continue
            levels = np.array([row["tables"][0]["ratio"] for row in done]).T
            over = [
                row["tvd3"] / default[row["seed"]]["tvd3"] for row in done if row["seed"] in default
            ]
            cells = [census.mean_sd(list(level)) for level in levels]
            cells += [census.mean_sd([row["tvd3"] for row in done])]
            cells += [census.mean_sd(over) if over else "–"]
            cells += [census.mean_sd([row["tvd2"] for row in done])]
            cells += [
                f"{np.mean([row['fit_seconds'] + row['sample_seconds'] for row in done]):.0f}"
            ]
            lines.append(
                f"| {epsilon:g} | {title} | " + " | ".join([*cells, str(len(done))]) + " |"
            )
    return lines


def sources(rows: Rows) -> list[str]:
    """What the noisy counts of the table alone, the mixture alone, and both together leave of the error."""
    names = ("PUMA", "state", "region", "nation")
    lines = header("ε", "fit", "estimate of the declared table", *names, "seeds")
    titles = {
        "of_counts": "its noisy counts alone, by least squares",
        "of_mixture": "the fitted mixture alone",
        "of_fitted": "both: the fitted table",
    }
    for epsilon in EPSILONS:
        for system in ("declared", "short"):
            done = rows_of(rows, system, epsilon)
            tables = [row["tables"][0] for row in done]
            estimates = {title: [t[name] for t in tables] for name, title in titles.items()}
            base = rows.get(f"rounded-{epsilon:g}")
            if base and system == "declared":
                title = "synthetic rows, over the baseline in whole numbers"
                estimates[title] = [
                    [
                        r * a / b
                        for r, a, b in zip(t["ratio"], t["alone"], base["alone"], strict=True)
                    ]
                    for t in tables
                ]
            for title, levels in estimates.items() if done else ():
                cells = [census.mean_sd(list(level)) for level in zip(*levels, strict=True)]
                of = [f"{epsilon:g}", TITLES[system], title, *cells, str(len(done))]
                lines.append("| " + " | ".join(of) + " |")
    return lines


def agreement(rows: Rows) -> list[str]:
    """The largest distance of counts of sampled rows from the fitted tables, over all seeds and ε."""
    lines = header("declared tables", "table", "level", "largest deviation, rows", "fits")
    for system in ("declared", "two"):
        done = [row for epsilon in EPSILONS for row in rows_of(rows, system, epsilon)]
        for number in range(len(SYSTEMS[system]["tables"])) if done else ():
            listed = ", ".join(SYSTEMS[system]["tables"][number])
            for level, name in enumerate(done[0]["tables"][number]["levels"]):
                most = max(row["tables"][number]["deviation"][level] for row in done)
                cells = [TITLES[system], listed, name, f"{most:.2f}", str(len(done))]
                lines.append("| " + " | ".join(cells) + " |")
    return lines


def second(rows: Rows) -> list[str]:
    """Errors of the second of two tables, over both tables alone with the whole budget."""
    lines = header("ε", *(f"level {name}" for name in ("STATE", "REGION", "nation")), "seeds")
    for epsilon in EPSILONS:
        done = rows_of(rows, "two", epsilon)
        if done:
            levels = np.array([row["tables"][1]["ratio"] for row in done]).T
            cells = [census.mean_sd(list(level)) for level in levels]
            lines.append(f"| {epsilon:g} | " + " | ".join([*cells, str(len(done))]) + " |")
    return lines


def write_page() -> None:
    rows = store.load(ROWS)
    page = (HERE / "declared-template.md").read_text("utf-8")
    for name, made in (
        ("RATIOS", ratios),
        ("SOURCES", sources),
        ("AGREEMENT", agreement),
        ("SECOND", second),
    ):
        page = page.replace(f"<!-- {name} -->", "\n".join(made(rows)))
    codes = sorted({row["code"]["sha256"][:12] for row in rows.values()})
    page = page.replace("<!-- CODE -->", ", ".join(f"`{name}`" for name in codes))
    (HERE / "declared.md").write_text(page, "utf-8")


if __name__ == "__main__":
    census.command(__doc__.splitlines()[0], run_all, write_page)
