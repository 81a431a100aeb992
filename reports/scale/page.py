"""The page and the plots of the measurements of scale."""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Rows = Mapping[str, Mapping[str, Any]]
TITLES = {
    "parquet": "Parquet files",
    "duckdb": "DuckDB file",
    "polars": "Polars, lazy",
    "spark": "Spark, local[2]",
    "memory": "DataFrame in memory",
    "numpy": "numpy, codes in memory",
}
PACKAGES = ("numpy", "pyarrow", "torch", "duckdb", "polars", "pyspark")
# Of raw integer columns, without a comparison with a schema; measured before this code was written.
BEFORE = {"numpy": 1.2, "duckdb": 2.0, "polars": 3.9}
DPSYNTH = 48e-6  # CPU seconds a row that google/dpsynth takes in Python inside Beam, at least
MOST_STEPS = 3_000  # MargNetConfig.steps
CORES = (64, 1024)
CLUSTER_ROWS = (10**10, 10**11, 10**12)


def machine() -> dict[str, Any]:
    """Of this machine: processor, cores, memory and versions."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory),
        "torch_threads": os.environ.get("OMP_NUM_THREADS", "default"),
        **versions,
    }


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of Markdown."""
    return [
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


def power(rows: int) -> str:
    """10⁷ for 10,000,000."""
    exponent = len(str(rows)) - 1
    if rows != 10**exponent:
        return f"{rows:,}"
    return "10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(exponent))


def of(kind: str, results: Rows) -> list[tuple[str, int, int, Mapping[str, Any]]]:
    """Engine, rows and columns of the results of a kind, with the figures."""
    out = []
    for key, row in results.items():
        first, *engine, rows, columns = key.split("-")
        if first == kind:
            out.append(("-".join(engine), int(rows), int(columns), row))
    return sorted(out, key=lambda o: (o[2], o[1], list(TITLES).index(o[0].split("-")[0])))


def page(results: Rows) -> str:
    """The page of the results."""
    lines = [
        "# Time and memory by rows, columns and engine",
        "",
        "MargNet with its default settings, ε = 1, seeded. The tables are made up (`made_codes.py`): whole numbers of 2 to 100 values a"
        " column, each following the column before it in six rows of ten. Parquet holds 10 columns in 4.7 bytes a row. Each row of the"
        " tables below was measured in a process of its own: its time has the start of the fit to the end of its last step, its peak"
        " memory is the largest resident memory of the process (VmHWM), with all libraries. `python reports/scale/run.py` writes this page.",
        "",
        *_machines(results),
        *_targets(results),
        *_fits(results),
        *_counts(results),
        *_pairs(results),
        *_strategies(results),
        *_samples(results),
        *_cluster(results),
        "## Code",
        "",
        "The last column of each table is the hash of the code that a row was measured on."
        " `tabsynth.privacy.certificate.certificate.code()` gives that of today's code; rows with another hash are older.",
    ]
    return "\n".join(lines).rstrip() + "\n"


def _machines(results: Rows) -> list[str]:
    lines = ["## Machine", ""]
    seen = list[dict[str, Any]]()
    for row in results.values():
        facts = {k: v for k, v in row["machine"].items() if k != "torch_threads"}
        if facts not in seen:
            seen.append(facts)
    for facts in seen:
        names = ", ".join(f"{k} {facts[k]}" for k in ("python", *PACKAGES) if k in facts)
        lines.append(
            f"{facts['cores']} cores of a virtual {facts['processor']}, {facts['memory_gib']} GiB of memory; {names}."
        )
    busy = [row["load_before"] for row in results.values()] or [0.0]
    lines += [
        "",
        "Other work ran on the same two cores. `load` is the load average before and after a row; above 2, programs waited for"
        " each other, and the time is longer than on a machine of one's own. CPU seconds depend on it less."
        f" The load before a row was {min(busy):.1f} to {max(busy):.1f}.",
        "",
    ]
    return lines


def _load(row: Mapping[str, Any]) -> str:
    return f"{row['load_before']:.1f}, {row['load_after']:.1f}"


def _gib(row: Mapping[str, Any]) -> str:
    return f"{row['peak_mib'] / 1024:.2f}"


def targets(results: Rows) -> list[tuple[str, str, bool | None]]:
    """Each target, what was measured, and whether that reaches it; None where it was not measured."""
    out = list[tuple[str, str, bool | None]]()
    for key, minutes, gib, words in (
        ("fit-parquet-1000000000-10", 30, 8, "10⁹ rows × 10 columns from Parquet to a synthetic table: 30 minutes, 8 GiB"),
        ("fit-parquet-10000000-100", 10, None, "10⁷ rows × 100 columns from Parquet to a synthetic table: 10 minutes"),
    ):  # fmt: skip
        row = results.get(key)
        if row is None:
            out.append((words, "not measured", None))
            continue
        met = row["seconds"] <= 60 * minutes and (gib is None or row["peak_mib"] <= 1024 * gib)
        got = f"{row['seconds'] / 60:.1f} minutes, {_gib(row)} GiB, with {power(row['sampled'])} synthetic rows"
        out.append((words, got, met))
    peaks = {
        rows: row["peak_mib"]
        for engine, rows, d, row in of("fit", results)
        if d == 10 and rows >= 10**7
    }
    words = "memory independent of the number of rows, from Parquet"
    if len(peaks) > 1:
        got = "; ".join(
            f"{power(rows)} rows: {mib:,.0f} MiB" for rows, mib in sorted(peaks.items())
        )
        out.append((words, got, max(peaks.values()) <= 1.15 * min(peaks.values())))
    else:
        out.append((words, "not measured", None))
    row = results.get("sample-parquet-10000000-10")
    words = "500,000 synthetic rows of ten columns a second, to Parquet"
    if row is None:
        out.append((words, "not measured", None))
    else:
        rate = 10**7 / row["seconds"]
        by_cpu = 10**7 / row["cpu_seconds"]
        got = f"{rate:,.0f} a second, with loading of the model; {by_cpu:,.0f} for each CPU second"
        out.append((words, got, rate >= 500_000))
    return out


def _targets(results: Rows) -> list[str]:
    words = {True: "yes", False: "no", None: "–"}
    rows = [(target, got, words[met]) for target, got, met in targets(results)]
    return ["## Targets on two cores", "", *table(["target", "measured", "reached"], rows)]


def _fits(results: Rows) -> list[str]:
    lines = [
        "## From Parquet files to a synthetic table",
        "",
        "Reading: comparison of the values with the schema, one-way counts, scores of pairs (above 11 columns), joint counts, noise"
        " and selection. Estimation does not depend on the number of rows, but by the noise: with more rows the counts are clearer, and"
        " the fit takes more steps. The sample is streamed to a Parquet file.",
        "",
        "![rows](rows.png)",
        "",
    ]
    rows = [
        (
            power(n),
            str(d),
            _sets(row),
            f"{row['reading_seconds']:,.1f}",
            f"{row['estimation_seconds']:,.1f}",
            f"{row['sample_seconds']:,.1f} ({power(row['sampled'])})",
            f"{row['seconds']:,.1f}",
            f"{row['cpu_seconds']:,.1f}",
            _gib(row),
            _load(row),
            row["code"],
        )
        for _, n, d, row in of("fit", results)
    ]
    head = ["rows", "columns", "pairs scored; pairs, triples counted", "reading s", "estimation s", "sample s (rows)", "in all s", "CPU s", "peak GiB", "load", "code"]  # fmt: skip
    return [*lines, *table(head, rows), *_steps(results)]


def _steps(results: Rows) -> list[str]:
    rows = [
        (
            str(d),
            f"{row['cpu_seconds_a_step']:.3f}",
            f"{row['cpu_seconds_a_step'] * MOST_STEPS / 60:,.1f}",
            _gib(row),
            _load(row),
            row["code"],
        )
        for _, _, d, row in of("steps", results)
    ]
    head = ["columns", "CPU s a step", f"CPU minutes of {MOST_STEPS:,} steps", "peak GiB", "load", "code"]  # fmt: skip
    return [
        "### Estimation by columns",
        "",
        f"Of 10⁵ rows. A fit takes at most {MOST_STEPS:,} steps, and fewer where the counts are noisy; `time_limit=` ends it earlier.",
        "",
        *table(head, rows),
    ]


def _sets(row: Mapping[str, Any]) -> str:
    *before, joint = row["sets"]
    scored = before[1].get("pairs", 0) if len(before) > 1 else 0
    return f"{scored:,}; {joint.get('pairs', 0):,}, {joint.get('triples', 0):,}"


def _counts(results: Rows) -> list[str]:
    lines = [
        "## Reading by engine",
        "",
        "A fit whose estimation ends after one step: all scans, noise and selection. Of Spark the second figure is the peak memory of its"
        f" Java process, which the cluster would have. {same_models(results)}",
        "",
        "![columns](columns.png)",
        "",
    ]
    rows = []
    for engine, n, d, row in of("count", results):
        peak = _gib(row)
        if row["peak_mib_of_others"]:
            peak += f" + {row['peak_mib_of_others'] / 1024:.2f}"
        rows.append(
            (
                TITLES[engine],
                power(n),
                str(d),
                f"{row['reading_seconds']:,.1f}",
                f"{row['cpu_seconds']:,.1f}",
                peak,
                _load(row),
                row["code"],
            )
        )
    head = ["engine", "rows", "columns", "reading s", "CPU s", "peak GiB", "load", "code"]
    return [*lines, *table(head, rows)]


def models_by_table(results: Rows) -> dict[tuple[int, int], set[str]]:
    """Hashes of the models that were fitted to each table after one step, by its rows and columns."""
    models = dict[tuple[int, int], set[str]]()
    for _, n, d, row in of("count", results):
        models.setdefault((n, d), set()).add(row["model"])
    return models


def same_models(results: Rows) -> str:
    """Whether all engines gave the same model."""
    different = [key for key, models in models_by_table(results).items() if len(models) > 1]
    if different:
        return f"Models differ for {', '.join(f'{power(n)} × {d}' for n, d in different)}."
    return "For each table all engines gave the same model, to the bit."


def _pairs(results: Rows) -> list[str]:
    rows = []
    for engine, n, _, row in of("pairs", results):
        before = BEFORE.get(engine)
        rows.append(
            (
                TITLES[engine],
                f"{row['seconds']:.1f}",
                f"{row['cpu_seconds']:.1f}",
                "–" if before is None else f"{before:.1f}",
                f"{row['cpu_seconds'] / n * 1e6:.2f}",
                f"{DPSYNTH * n / row['cpu_seconds']:,.0f}",
                _load(row),
                row["code"],
            )
        )
    head = ["source", "s", "CPU s", "CPU s, raw integers", "µs a row", "times less than dpsynth", "load", "code"]  # fmt: skip
    return [
        "## All 45 pairs of 10⁷ rows × 10 columns",
        "",
        "Exact counts in category codes, after the values were compared with the schema. `raw integers`: the same pairs of integer columns"
        " of ten values without a schema, measured before with `bincount` in chunks, GROUPING SETS and Polars' streaming engine. The"
        f" last row has neither a file nor a schema. [google/dpsynth](https://github.com/google/dpsynth) takes at least {DPSYNTH * 1e6:.0f} µs a row in"
        f" Python inside Beam, {DPSYNTH * 10**7:.0f} CPU s for this table.",
        "",
        *table(head, rows),
    ]


def _strategies(results: Rows) -> list[str]:
    names = {
        "groups": "groupings in the engine, up to 100 a query",
        "rows": "batches of codes, counted by tabsynth",
        "union": "UNION ALL of a GROUP BY for each pair",
    }
    rows = [
        (
            TITLES[engine.split("-")[0]],
            names[engine.split("-")[1]],
            str(d),
            str(d * (d - 1) // 2),
            f"{row['seconds']:.1f}",
            f"{row['cpu_seconds']:.1f}",
            _gib(row),
            _load(row),
            row["code"],
        )
        for engine, _, d, row in of("strategy", results)
    ]
    head = ["engine", "strategy", "columns", "pairs", "s", "CPU s", "peak GiB", "load", "code"]
    return [
        "## Strategies",
        "",
        "Counts of all pairs of 10⁶ rows. Groupings are GROUPING SETS in DuckDB and a plan of GROUP BYs in Polars; neither uses the counts"
        " of one grouping for another, and Polars holds the codes of all rows in memory meanwhile. tabsynth counts several columns of few"
        " codes together, and adds up their cells for each pair. So DuckDB groups up to 30 sets of columns; for more, and from Polars in any"
        " case, category codes come in batches. Both run in the process of the fit. Spark's workers count in numpy, and only counts leave"
        " the cluster. Earlier code had grouping sets in Spark: 10⁷ rows of 10 columns took 699 CPU seconds, and 10⁵ rows of 50 columns 261.",
        "",
        *table(head, rows),
    ]


def _samples(results: Rows) -> list[str]:
    rows = [
        (
            power(n),
            f"{row['seconds']:.1f}",
            f"{row['cpu_seconds']:.1f}",
            f"{n / row['seconds']:,.0f}",
            f"{n / row['cpu_seconds']:,.0f}",
            _gib(row),
            _load(row),
            row["code"],
        )
        for _, n, _, row in of("sample", results)
    ]
    head = ["rows", "s", "CPU s", "rows a second", "rows a CPU second", "peak GiB", "load", "code"]
    lines = [
        "## Samples of ten columns",
        "",
        "A saved model is loaded, and rows are written to a Parquet file. More than 524,288 are streamed in parts: one is drawn while the one"
        " before it is written. Fewer are drawn at once, and moved so that counts are those of the model.",
        "",
        *table(head, rows),
        "## Evaluation",
        "",
        "`tabsynth evaluate` of a folder of Parquet files and 10⁶ synthetic rows, on samples of 100,000 rows of each. The standard error is"
        " that of the distance by the drawing of the rows; equal tables would have the last figure.",
        "",
    ]
    rows = []
    for _, n, _, row in of("evaluate", results):
        pairs = next(d for d in row["sampled"]["distances"] if d["order"] == 2)
        rows.append(
            (
                power(n),
                f"{row['seconds']:.1f}",
                f"{row['cpu_seconds']:.1f}",
                _gib(row),
                f"{pairs['value']:.4f} ± {pairs['standard_error']:.4f}",
                f"{pairs['by_chance']:.4f}",
                _load(row),
                row["code"],
            )
        )
    head = ["real rows", "s", "CPU s", "peak GiB", "distance of pairs ± standard error", "by chance", "load", "code"]  # fmt: skip
    return [*lines, *table(head, rows)]


def slope(engine: str, results: Rows) -> tuple[float, float] | None:
    """CPU seconds of reading: of any number of rows, and for each row; from the two largest tables of ten columns."""
    rows = [
        (n, row["cpu_seconds"]) for e, n, d, row in of("count", results) if e == engine and d == 10
    ]
    if len(rows) < 2:
        return None
    (less, before), (more, after) = rows[-2:]
    each = (after - before) / (more - less)
    return max(0.0, after - each * more), each


def _cluster(results: Rows) -> list[str]:
    lines = [
        "## On paper: a cluster",
        "",
        "Reading takes a + b · rows CPU seconds; a and b follow from the two largest tables of ten columns above. The scans of a fit split by"
        " rows: each core counts its part, and parts are added up. With C cores reading takes about a + b · rows / C seconds. A query"
        " returns at most 10⁶ cells, 16 MB, whatever the number of rows; every worker sends at most as much to the sum. Estimation and"
        " the sample follow on one machine, as in the first table. Not measured: the start of workers, slow disks and networks.",
        "",
    ]
    rows = []
    for engine in ("parquet", "spark"):
        line = slope(engine, results)
        if line is None:
            continue
        a, b = line
        for n in CLUSTER_ROWS:
            times = [f"{(a + b * n / cores) / 60:,.1f}" for cores in CORES]
            rows.append((TITLES[engine], f"{a:.1f}", f"{b * 1e6:.2f}", power(n), *times))
    head = ["engine", "a, s", "b, µs", "rows", *(f"minutes on {cores:,} cores" for cores in CORES)]
    return [*lines, *table(head, rows)]


def plots(results: Rows, folder: Path) -> None:
    """Curves of time and memory by rows and by columns."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name, label in (("rows", "rows (10 columns)"), ("columns", "columns (10⁵ rows)")):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
        for kind, engines in (("count", list(TITLES)), ("fit", ["parquet"])):
            for engine in engines:
                at = [
                    (n if name == "rows" else d, row["cpu_seconds"], row["peak_mib"] / 1024)
                    for e, n, d, row in of(kind, results)
                    if e == engine and (d == 10 if name == "rows" else n == 10**5)
                ]
                if not at:
                    continue
                x, cpu, peak = zip(*sorted(at), strict=True)
                title = "Parquet, whole fit with a sample" if kind == "fit" else TITLES[engine]
                style = {"ls": "--", "color": "black"} if kind == "fit" else {}
                left.plot(x, cpu, marker="o", ms=4, label=title, **style)
                right.plot(x, peak, marker="o", ms=4, label=title, **style)
        for axes, what in ((left, "CPU seconds"), (right, "peak memory, GiB")):
            axes.set(xscale="log", yscale="log", xlabel=label, ylabel=what)
            axes.grid(alpha=0.3)
        right.yaxis.set_major_formatter("{x:g}")
        right.yaxis.set_minor_formatter("{x:g}")
        figure.legend(
            *left.get_legend_handles_labels(), fontsize=8, ncols=6, loc="outside upper center"
        )
        figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
        plt.close(figure)
