"""Rules between columns and private drafts on real tables: what they keep and what they cost.

``python reports/tables/run.py`` runs what is missing, writes results.json and README.md; ``--page`` writes the page alone.
"""

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "benchmark"), str(HERE)]

import rules  # noqa: E402
from tables import TABLES  # noqa: E402

from tabsynth import MargNet, Schema, evaluate  # noqa: E402
from tabsynth.errors import InputError  # noqa: E402
from tabsynth.privacy.certificate.certificate import code  # noqa: E402
from tabsynth.schema.column import Column  # noqa: E402

RESULTS = HERE / "results.json"
TRIPLES = 200
RUNS = [
    *(
        ("rules", "census-24", how, 1.0, seed)
        for seed in (0, 1, 2)
        for how in ("declared", "rules")
    ),
    *(
        ("draft", table, how, 1.0, seed)
        for seed in (0, 1)
        for table in ("census", "adult", "hospital", "census-24")
        for how in ("declared", "drafted")
    ),
    *(
        ("draft", table, how, 8.0, 0)
        for table in ("census", "hospital")
        for how in ("declared", "drafted")
    ),
]


def as_codes(column: Column, texts: pd.Series) -> np.ndarray:
    """Codes of texts, one more than the column has for a text that it does not declare; shape (n,)."""
    known: dict[Any, int] = {}
    for text in texts.unique():
        value = pd.Series([text], dtype=object)
        try:
            known[text] = int(column.encode(column.parse(value))[0])
        except InputError:
            known[text] = column.size
    return texts.map(known).to_numpy()


def distances(schema: Schema, real: pd.DataFrame, made: pd.DataFrame) -> dict[str, Any]:
    """Total variation distances of columns, pairs and triples, by the declared schema's codes."""
    codes = []
    for table in (real, made):
        texts = (
            table.astype(object)
            .where(table.notna(), None)
            .map(lambda v: v if v is None else str(v))
        )
        missing = pd.Series([None] * len(table))
        codes.append(
            np.stack([as_codes(c, texts.get(c.name, missing)) for c in schema.columns], axis=1)
        )
    sizes = [column.size + 1 for column in schema.columns]
    rng = np.random.default_rng(0)
    triples = list(itertools.combinations(range(len(sizes)), 3))
    chosen = [triples[i] for i in rng.permutation(len(triples))[:TRIPLES]]

    def mean(sets: Any) -> float:
        return float(np.mean([_distance(codes, sizes, columns) for columns in sets]))

    return {
        "tvd1": mean((j,) for j in range(len(sizes))),
        "tvd2": mean(itertools.combinations(range(len(sizes)), 2)),
        "tvd3": mean(chosen),
        "columns": {c.name: _distance(codes, sizes, (j,)) for j, c in enumerate(schema.columns)},
    }


def _distance(codes: list[np.ndarray], sizes: list[int], columns: tuple[int, ...]) -> float:
    keys = [np.ravel_multi_index(c[:, columns].T, [sizes[j] for j in columns]) for c in codes]
    values, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    split = len(keys[0])
    parts = [inverse[:split], inverse[split:]]
    shares = [np.bincount(part, minlength=len(values)) / len(part) for part in parts]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def run(kind: str, table: str, how: str, epsilon: float, seed: int) -> dict[str, Any]:
    """One fit and its figures. Fits are seeded, so that they can be repeated."""
    if kind == "rules":
        declared = rules.numbers(TABLES[table].schema())
        rows = TABLES[table].rows(declared)
        order = np.random.default_rng(0).permutation(len(rows))
        train = rows.iloc[order[: int(0.7 * len(rows))]]
        schema: Schema | None = rules.census() if how == "rules" else declared
    else:
        declared, train, _ = TABLES[table].split()
        schema = declared if how == "declared" else None
    started = time.process_time()
    model = MargNet(schema, epsilon=epsilon, random_state=seed).fit(
        train if schema else as_file(train)
    )
    made = model.sample(len(train))
    out: dict[str, Any] = {"cpu_seconds": round(time.process_time() - started, 1)}
    out |= distances(declared, train, made)
    out["dtypes_equal"] = bool((made.dtypes == train.dtypes.reindex(made.columns)).all())
    if kind == "rules":
        checked = rules.census()
        out["broken"] = {r.text: int(r.broken(made).sum()) for r in checked.rules}
        report = evaluate(train, made, schema=declared)
        figures = {m.key: m for m in report.evaluation.metrics}
        out["metrics"] = {k: float(m.synthetic.value) for k, m in figures.items()}
    else:
        out["left_out"] = list(model.schema_.names_left_out)
    return {**out, "code": code()["sha256"][:12]}


def as_file(table: pd.DataFrame) -> pd.DataFrame:
    """The table as a CSV file gives it: texts alone."""
    texts = table.astype(object).where(table.notna(), None)
    return texts.map(lambda value: None if value is None else str(value)).astype("str")


def main() -> None:
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if "--page" not in sys.argv:
        for one in RUNS:
            key = "-".join(map(str, one))
            if key not in results:
                results[key] = run(*one)
                RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
                shown = {k: v for k, v in results[key].items() if isinstance(v, float)}
                print(key, shown, flush=True)
    (HERE / "README.md").write_text(page(results))


def page(results: dict[str, Any]) -> str:
    """The page of the results."""
    lines = [
        "# Rules between columns and private drafts on real tables",
        "",
        "MargNet, seeded. Distances are total variation distances between the training rows and as many synthetic rows, by the"
        " cells of the declared schema: means over columns, pairs, and 200 triples. `python reports/tables/run.py` writes"
        " this page.",
        "",
        "## Rules of the census dictionary",
        "",
        "24 columns, 19 rules (`rules.py`), ε = 1. A row that breaks several rules counts for each.",
        "",
        "| schema | seed | rules broken | largest one-way change | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for seed in (0, 1, 2):
        plain = results.get(f"rules-census-24-declared-1.0-{seed}")
        for how in ("declared", "rules"):
            row = results.get(f"rules-census-24-{how}-1.0-{seed}")
            if row is None or plain is None:
                continue
            change = max(row["columns"][n] - plain["columns"][n] for n in plain["columns"])
            f1 = [row["metrics"].get(k, float("nan")) for k in F1]
            lines.append(
                f"| {how} | {seed} | {sum(row['broken'].values()):,} | {change:+.3f} |"
                f" {row['tvd1']:.4f} | {row['tvd2']:.4f} | {row['tvd3']:.4f} | {f1[0]:.3f} | {f1[1]:.3f} |"
                f" {row['cpu_seconds']:.0f} |"
            )
    lines += [
        "",
        "## Private drafts",
        "",
        "The table is given as texts, as a CSV file has it. `drafted`: a fit without a schema, whose draft is part of ε.",
        "",
        "| table | ε | schema | seeds | tvd1 | tvd2 | tvd3 | tvd3 relative | left out | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for table, epsilon in dict.fromkeys((r[1], r[3]) for r in RUNS if r[0] == "draft"):
        base = None
        for how in ("declared", "drafted"):
            rows = [
                results[k] for s in (0, 1) if (k := f"draft-{table}-{how}-{epsilon}-{s}") in results
            ]
            if not rows:
                continue
            means = {
                k: float(np.mean([r[k] for r in rows]))
                for k in ("tvd1", "tvd2", "tvd3", "cpu_seconds")
            }
            base = base or means["tvd3"]
            lines.append(
                f"| {TABLES[table].title} | {epsilon:g} | {how} | {len(rows)} | {means['tvd1']:.4f} | {means['tvd2']:.4f} |"
                f" {means['tvd3']:.4f} | {means['tvd3'] / base - 1:+.0%} | {len(rows[0].get('left_out', []))} |"
                f" {means['cpu_seconds']:.0f} |"
            )
    hashes = sorted({row["code"] for row in results.values()})
    lines += ["", f"Measured with code {', '.join(hashes)}."]
    return "\n".join(lines) + "\n"


F1 = ("prediction_macro", "prediction_weighted")

if __name__ == "__main__":
    main()
