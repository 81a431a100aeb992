"""The page and the plots of the measurements of scale."""

import os
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import style
from harness import Rows, fill, releases, table

Measured = tuple[str, int, int, Mapping[str, Any]]  # engine, rows and columns, with the figures
TITLES = {
    "parquet": "Parquet files",
    "duckdb": "DuckDB file",
    "polars": "Polars, lazy",
    "spark": "Spark, local[2]",
    "memory": "DataFrame in memory",
    "numpy": "numpy, codes in memory",
}
PACKAGES = ("numpy", "pyarrow", "torch", "duckdb", "polars", "pyspark")
DPSYNTH = 48e-6  # CPU seconds a row that google/dpsynth takes in Python inside Beam, at least
MOST_STEPS = 3_000  # MargNetConfig.steps
CORES = (64, 1024)
CLUSTER_ROWS = (10**10, 10**11, 10**12)


def machine() -> dict[str, Any]:
    """Return the processor, cores, memory and versions of this machine."""
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


def power(rows: int) -> str:
    """Return a number of rows as a power of ten: 10⁷ for 10,000,000."""
    exponent = len(str(rows)) - 1
    if rows != 10**exponent:
        return f"{rows:,}"
    return "10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(exponent))


def of(kind: str, results: Rows) -> list[Measured]:
    """Return engine, rows and columns of the results of a kind, with the figures."""
    out = []
    for key, row in results.items():
        first, engine, rows, columns = key.split("-")
        if first == kind:
            out.append((engine, int(rows), int(columns), row))
    return sorted(out, key=lambda o: (o[2], o[1], list(TITLES).index(o[0])))


def page(results: Rows) -> str:
    """Return the page of the results."""
    loads = [row["load_before"] for row in results.values()]
    parts = {
        "RELEASE": releases(results.values()),
        "MACHINES": _machines(results),
        "LOADS": f"{min(loads):.1f} to {max(loads):.1f}",
        "REQUIREMENTS": table(
            ["requirement", "measured", "met"],
            [
                (words, figures, "yes" if met else "no")
                for words, figures, met in requirements(results)
            ],
        ),
        "SAME": same_models(results),
        "CLUSTER": _cluster(results),
        "COUNT": _by_size("count", results),
    }
    for kind, columns in TABLES.items():
        rows = [[show(each) for show in columns.values()] for each in of(kind, results)]
        parts[kind.upper()] = table(list(columns), rows)
    return fill(Path(__file__).with_name("template.md"), parts)


def _figure(key: str, digits: int = 1) -> Callable[[Measured], str]:
    return lambda each: f"{each[3][key]:,.{digits}f}"


def _per_second(key: str) -> Callable[[Measured], str]:
    return lambda each: f"{each[1] / each[3][key]:,.0f}"


def _gib(row: Mapping[str, Any]) -> str:
    return f"{row['peak_mib'] / 1024:.2f}"


def _distance(each: Measured, name: str) -> str:
    pairs = next(d for d in each[3]["sampled"]["distances"] if d["order"] == 2)
    shown = f"{pairs[name]:.4f}"
    return shown if name == "by_chance" else f"{shown} ± {pairs['standard_error']:.4f}"


ROWS = {"rows": lambda each: power(each[1])}
COLUMNS = {"columns": lambda each: str(each[2])}
TIMES = {"s": _figure("seconds"), "CPU s": _figure("cpu_seconds")}
PEAK = {"peak GiB": lambda each: _gib(each[3])}
# The columns of the table of each kind of rows.
TABLES: dict[str, dict[str, Callable[[Measured], str]]] = {
    "fit": {
        **ROWS,
        **COLUMNS,
        "pairs scored; pairs, triples counted": lambda each: _sets(each[3]),
        "reading s": _figure("reading_seconds"),
        "estimation s": _figure("estimation_seconds"),
        "sample s (rows)": lambda each: (
            f"{each[3]['sample_seconds']:,.1f} ({power(each[3]['sampled'])})"
        ),
        "in all s": TIMES["s"],
        **PEAK,
    },
    "steps": {
        **COLUMNS,
        "CPU s a step": _figure("cpu_seconds_a_step", 3),
        f"CPU minutes of {MOST_STEPS:,} steps": lambda each: (
            f"{each[3]['cpu_seconds_a_step'] * MOST_STEPS / 60:,.1f}"
        ),
        **PEAK,
    },
    "pairs": {
        "source": lambda each: TITLES[each[0]],
        **TIMES,
        "µs a row": lambda each: f"{each[3]['cpu_seconds'] / each[1] * 1e6:.2f}",
        "times less than dpsynth": lambda each: (
            f"{DPSYNTH * each[1] / each[3]['cpu_seconds']:,.0f}"
        ),
    },
    "sample": {
        **ROWS,
        **TIMES,
        "rows a second": _per_second("seconds"),
        **PEAK,
    },
    "evaluate": {
        "real rows": ROWS["rows"],
        **TIMES,
        **PEAK,
        "distance of pairs ± standard error": lambda each: _distance(each, "value"),
        "by chance": lambda each: _distance(each, "by_chance"),
    },
}


def _by_size(kind: str, results: Rows) -> str:
    """Return the CPU seconds of a kind, with a line for each size of a table and a column for each engine."""
    seconds = dict[tuple[int, int], dict[str, str]]()
    for engine, rows, columns, row in of(kind, results):
        seconds.setdefault((rows, columns), {})[TITLES[engine]] = f"{row['cpu_seconds']:,.1f}"
    engines = list(dict.fromkeys(name for each in seconds.values() for name in each))
    lines = [
        [power(rows), str(columns), *(each.get(name, "–") for name in engines)]
        for (rows, columns), each in sorted(seconds.items(), key=lambda item: item[0][::-1])
    ]
    return table(["rows", "columns", *engines], lines)


def _machines(results: Rows) -> str:
    seen = list[dict[str, Any]]()
    for row in results.values():
        facts = {k: v for k, v in row["machine"].items() if k != "torch_threads"}
        if facts not in seen:
            seen.append(facts)
    lines = []
    for facts in seen:
        names = ", ".join(f"{k} {facts[k]}" for k in ("python", *PACKAGES) if k in facts)
        lines.append(
            f"{facts['cores']} cores of a virtual {facts['processor']}, {facts['memory_gib']} GiB of memory; {names}."
        )
    return "\n".join(lines)


def requirements(results: Rows) -> list[tuple[str, str, bool]]:
    """Return each requirement, what was measured, and whether that meets it."""
    out = list[tuple[str, str, bool]]()
    for key, minutes, gib, words in (
        ("fit-parquet-1000000000-10", 30, 8, "10⁹ rows × 10 columns from Parquet to a synthetic table: 30 minutes, 8 GiB"),
        ("fit-parquet-10000000-100", 10, None, "10⁷ rows × 100 columns from Parquet to a synthetic table: 10 minutes"),
    ):  # fmt: skip
        row = results[key]
        met = row["seconds"] <= 60 * minutes and (gib is None or row["peak_mib"] <= 1024 * gib)
        got = f"{row['seconds'] / 60:.1f} minutes, {_gib(row)} GiB, with {power(row['sampled'])} synthetic rows"
        out.append((words, got, met))
    peaks = {
        rows: row["peak_mib"]
        for engine, rows, d, row in of("fit", results)
        if d == 10 and rows >= 10**7
    }
    words = "memory independent of the number of rows, from Parquet"
    got = "; ".join(f"{power(rows)} rows: {mib:,.0f} MiB" for rows, mib in sorted(peaks.items()))
    out.append((words, got, max(peaks.values()) <= 1.15 * min(peaks.values())))
    row = results["sample-parquet-10000000-10"]
    words = "500,000 synthetic rows of ten columns a second, to Parquet"
    rate, by_cpu = 10**7 / row["seconds"], 10**7 / row["cpu_seconds"]
    got = f"{rate:,.0f} a second, with loading of the model; {by_cpu:,.0f} for each CPU second"
    return [*out, (words, got, rate >= 500_000)]


def _sets(row: Mapping[str, Any]) -> str:
    *before, joint = row["sets"]
    scored = before[1].get("pairs", 0) if len(before) > 1 else 0
    return f"{scored:,}; {joint.get('pairs', 0):,}, {joint.get('triples', 0):,}"


def models_by_table(results: Rows) -> dict[tuple[int, int], set[str]]:
    """Return the hashes of the models that were fitted to each table after one step, by its rows and columns."""
    models = dict[tuple[int, int], set[str]]()
    for _, n, d, row in of("count", results):
        models.setdefault((n, d), set()).add(row["model"])
    return models


def same_models(results: Rows) -> str:
    """Return whether all engines gave the same model, as a sentence."""
    different = [key for key, models in models_by_table(results).items() if len(models) > 1]
    if different:
        return f"Models differ for {', '.join(f'{power(n)} × {d}' for n, d in different)}."
    return "For each table all engines gave the same model, to the bit."


def slope(engine: str, results: Rows) -> tuple[float, float]:
    """Return the CPU seconds of reading, of any number of rows and for each row, from the two largest tables of ten columns."""
    rows = [
        (n, row["cpu_seconds"]) for e, n, d, row in of("count", results) if e == engine and d == 10
    ]
    (fewer_rows, before), (more_rows, after) = rows[-2:]
    each = (after - before) / (more_rows - fewer_rows)
    return max(0.0, after - each * more_rows), each


def _cluster(results: Rows) -> str:
    rows = []
    for engine in ("parquet", "spark"):
        a, b = slope(engine, results)
        for n in CLUSTER_ROWS:
            times = [f"{(a + b * n / cores) / 60:,.1f}" for cores in CORES]
            rows.append((TITLES[engine], f"{a:.1f}", f"{b * 1e6:.2f}", power(n), *times))
    head = ["engine", "a, s", "b, µs", "rows", *(f"minutes on {cores:,} cores" for cores in CORES)]
    return table(head, rows)


def plots(results: Rows, folder: Path) -> None:
    """Draw the curves of time and memory by rows and by columns."""
    for name, label, title in (
        ("rows", "rows (10 columns)", "Memory does not grow with the rows of Parquet files"),
        ("columns", "columns (10⁵ rows)", "Time and memory grow with the columns in every engine"),
    ):
        with style.plot(folder / f"{name}.png", height=3.6, title=title, columns=2) as (
            figure,
            axes,
        ):
            for kind, engines in (("count", list(TITLES)), ("fit", ["parquet"])):
                for i, engine in enumerate(engines):
                    at = [
                        (n if name == "rows" else d, row["cpu_seconds"], row["peak_mib"] / 1024)
                        for e, n, d, row in of(kind, results)
                        if e == engine and (d == 10 if name == "rows" else n == 10**5)
                    ]
                    if not at:
                        continue
                    x, cpu, peak = zip(*sorted(at), strict=True)
                    whole = kind == "fit"
                    looks = {
                        "ls": "--" if whole else "-",
                        "color": style.REAL if whole else style.COLOURS[i],
                        "label": "Parquet, fit and sample" if whole else TITLES[engine],
                        "marker": "o",
                        "markersize": 4,
                    }
                    axes[0, 0].plot(x, cpu, **looks)
                    axes[0, 1].plot(x, peak, **looks)
            for axis, what in zip(axes[0], ("CPU seconds", "peak memory, GiB"), strict=True):
                axis.set(xscale="log", xlabel=label, ylabel=what)
            axes[0, 0].set_yscale("log")
            axes[0, 1].set_ylim(0)
            handles, labels = axes[0, 0].get_legend_handles_labels()
            figure.legend(handles, labels, ncols=3, loc="outside lower center")
