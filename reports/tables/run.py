"""Rules between columns and private drafts on real tables: what they keep and what they cost.

``python reports/tables/run.py`` runs what is missing, writes results.json and README.md; ``--only KEY`` runs one key, or all keys
that begin with it; ``--page`` writes the page alone.
"""

import itertools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "benchmark"), str(HERE)]

import made_up  # noqa: E402
import raw_hospital  # noqa: E402
import rules  # noqa: E402
from tables import TABLES as PUBLIC  # noqa: E402
from tables import Table  # noqa: E402

from tabsynth import DPWGAN, MargNet, Schema, evaluate  # noqa: E402
from tabsynth.errors import InputError  # noqa: E402
from tabsynth.privacy.certificate.certificate import code  # noqa: E402
from tabsynth.schema.column import Column  # noqa: E402
from tabsynth.schema.editing import Edit, edit  # noqa: E402
from tabsynth.schema.schema import DEFAULT_NULL_VALUES  # noqa: E402
from tabsynth.tables.files import read_any, read_table  # noqa: E402

RESULTS = HERE / "results.json"
TRIPLES = 200
MADE_UP = Table("made up, 32 columns", made_up.schema, lambda schema: made_up.rows())
AS_IT_COMES = Table("hospital, 50 columns as they come", raw_hospital.schema, raw_hospital.rows)
TABLES = {**PUBLIC, "made-up": MADE_UP, "hospital-50": AS_IT_COMES}
# What a person changes in a review draft: beside --declare-all, an option of `tabsynth schema edit` each.
EDITS: dict[str, dict[str, Any]] = {"made-up": {"bounds": {"age": (0, 105), "weight_kg": (0, 250)}}}
METHODS = {"draft": MargNet, "dpwgan": DPWGAN}
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
    *(  # a table of few rows, whose seeds differ most
        ("draft", "hospital", how, 1.0, seed)
        for seed in range(2, 10)
        for how in ("declared", "drafted")
    ),
    *(
        ("draft", table, how, 8.0, 0)
        for table in ("census", "hospital")
        for how in ("declared", "drafted")
    ),
    *(
        ("draft", table, how, epsilon, 0)
        for epsilon in (1.0, 8.0)
        for table, ways in (
            ("made-up", ("declared", "edited", "drafted")),
            ("hospital-50", ("declared", "edited", "drafted")),
            ("adult", ("declared", "edited", "drafted")),
            ("census-24", ("declared", "edited", "drafted")),
            ("census", ("edited",)),
            ("hospital", ("edited",)),
        )
        for how in ways
    ),
    *(
        ("dpwgan", table, how, epsilon, 0)
        for epsilon in (1.0, 8.0)
        for table in ("made-up", "census", "adult", "hospital-50", "census-24")
        for how in ("declared", "drafted")
    ),
]
RUNS = list(dict.fromkeys(RUNS))


def as_codes(column: Column, texts: pd.Series) -> np.ndarray:
    """Codes of texts, one more than the column has for a text that it does not declare; shape (n,)."""
    try:
        return column.encode(column.parse(texts))
    except InputError:
        pass
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
    codes, schema = [], schema.coded
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
        schema = None
        if how == "declared":
            schema = declared
        if how == "edited":
            schema, train = of_edited(table, train)
    started = time.process_time()
    given = train if schema else as_file(table, train)
    model = METHODS.get(kind, MargNet)(schema, epsilon=epsilon, random_state=seed).fit(given)
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
        out["broken"] = broken(declared, made)
        counted = {"drafted": 0, "edited": edits(table)}
        out["edits"] = counted[how] if how in counted else by_hand(declared, train)
    return {**out, "code": code()["sha256"][:12]}


def of_edited(table: str, train: pd.DataFrame) -> tuple[Schema, pd.DataFrame]:
    """The schema of an edited draft, and the rows as it reads them. The draft has no column without values."""
    train = train.dropna(axis=1, how="all")
    if table == "made-up":  # its DataFrame declares dates and times
        return edited(table, train), train
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "rows.csv"
        train.to_csv(path, index=False)
        schema = edited(table, read_any(path))
        return schema, read_table(path, schema)


def edited(table: str, train: pd.DataFrame) -> Schema:
    """A review draft of the rows, declared by a few options of ``schema edit``."""
    source = f"codebook of {TABLES[table].title}"
    change = Edit(declare_all=True, source=source, **EDITS.get(table, {}))
    return edit(review_draft(train), change)


def review_draft(train: pd.DataFrame) -> Schema:
    """What ``tabsynth schema`` drafts of the rows."""
    return Schema.draft(train.dropna(axis=1, how="all"))


def edits(table: str) -> int:
    """How many options that takes: each column that is named, and --declare-all."""
    return 1 + sum(len(given) for given in EDITS.get(table, {}).values())


def by_hand(declared: Schema, train: pd.DataFrame) -> int:
    """How many columns and rules of a declared schema a review draft of the rows does not have as they are."""
    free = ("provenance", "source", "description", "labels", "copied_from_private_rows")

    def facts(schema: Schema) -> dict[str, Any]:
        listed = [column.to_dict() for column in schema.columns]
        return {c["name"]: {k: v for k, v in c.items() if k not in free} for c in listed}

    drafted = facts(review_draft(train))
    other = sum(drafted.get(name) != given for name, given in facts(declared).items())
    return other + len(declared.constraints) + len(declared.impossible)


def broken(declared: Schema, made: pd.DataFrame) -> dict[str, int]:
    """How many synthetic rows break each rule; of a draft without the rules those that its columns can be asked for."""
    out = {}
    for rule in declared.row_rules:
        if not set(rule.names) <= set(made):
            continue
        try:
            given = {n: declared[n].convert(made[n].astype(object)) for n in rule.names}
            out[rule.text] = int(rule.broken(pd.DataFrame(given)).sum())
        except InputError:
            continue
    return out


def as_file(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """The table as a CSV file gives it: texts alone, and where a table is of a file as it comes all of its columns."""
    if name == "hospital-50":
        return raw_hospital.texts(table)
    if name == "made-up":
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "export.csv"
            made_up.write_messy(table, path)
            return read_any(path, [*DEFAULT_NULL_VALUES, "?"])
    texts = table.astype(object).where(table.notna(), None)
    return texts.map(lambda value: None if value is None else str(value)).astype("str")


def main() -> None:
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    if "--page" not in sys.argv:
        for one in RUNS:
            key = "-".join(map(str, one))
            if key not in results and key.startswith(only):
                results[key] = run(*one)
                # Another run may have added rows meanwhile.
                stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
                results = {**stored, key: results[key]}
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
        " this page. It needs [benchmark files](../../data/README.md#benchmark-files).",
        "",
        "## Rules of the census dictionary",
        "",
        "24 columns, 19 rules (`rules.py`), ε = 1. A row that breaks several rules counts for each.",
        "",
        "| schema | seed | rules broken | largest one-way change | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted | CPU s | code |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
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
                f" {row['cpu_seconds']:.0f} | {row['code']} |"
            )
    lines += [
        "",
        "## Private drafts",
        "",
        "`declared`: a schema written from the codebook, with its rules. `edited`: a review draft, changed and declared by a few"
        " options of `schema edit`. `drafted`: a fit without a schema, on the table as texts as a CSV file has it; the draft is"
        " part of ε. Edits: options that a person gives, or columns and rules that were written by hand. Rules broken: by how many"
        " synthetic rows, of the rules of the declared schema. The made-up table (`made_up.py`) has 5,000 hospital stays with"
        " columns of every kind.",
        "",
        "| table | method | ε | schema | seeds | edits | tvd1 | largest one-way | tvd2 | tvd3 | tvd3 relative | rules broken |"
        " dtypes equal | left out | CPU s | code |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups = dict.fromkeys((r[0], r[1], r[3]) for r in RUNS if r[0] in METHODS)
    for kind, table, epsilon in groups:
        base = None
        for how in ("declared", "edited", "drafted"):
            keys = (f"{kind}-{table}-{how}-{epsilon}-{seed}" for seed in range(10))
            rows = [results[key] for key in keys if key in results]
            if not rows:
                continue
            base = base or mean(rows, "tvd3")
            largest = np.mean([max(row["columns"].values()) for row in rows])
            rules_broken = [sum(row["broken"].values()) for row in rows if row.get("broken")]
            cells = [
                TABLES[table].title,
                METHODS[kind].__name__,
                f"{epsilon:g}",
                how,
                str(len(rows)),
                str(rows[0].get("edits", "–")),
                f"{mean(rows, 'tvd1'):.4f}",
                f"{largest:.3f}",
                f"{mean(rows, 'tvd2'):.4f}",
                f"{mean(rows, 'tvd3'):.4f}",
                f"{mean(rows, 'tvd3') / base - 1:+.0%}",
                f"{np.mean(rules_broken):,.0f}" if rules_broken else "–",
                "yes" if all(row["dtypes_equal"] for row in rows) else "no",
                str(len(rows[0].get("left_out", []))),
                f"{mean(rows, 'cpu_seconds'):.0f}",
                ", ".join(sorted({row["code"] for row in rows})),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "The last column is the hash of the code that a row was measured on. `tabsynth.privacy.certificate.certificate.code()` gives"
        " that of today's code; rows with another hash are older.",
    ]
    return "\n".join(lines) + "\n"


def mean(rows: list[dict[str, Any]], figure: str) -> float:
    """Of a figure over seeds."""
    return float(np.mean([row[figure] for row in rows]))


F1 = ("prediction_macro", "prediction_weighted")

if __name__ == "__main__":
    main()
