"""The page of the results."""

from collections import defaultdict
from typing import Any

import numpy as np
from harness import Rows, releases

TITLES = {"census": "census", "hospital": "hospital"}
LEAST = 30  # fits that support a statistic, from which its own coverage is stated


def page(results: Rows) -> str:
    """README.md."""
    by_setting: dict[str, list[Any]] = defaultdict(list)
    for key in sorted(results, key=lambda key: (key.rsplit("-", 1)[0], int(key.rsplit("-", 1)[1]))):
        by_setting[key.rsplit("-", 1)[0]].append(results[key])
    lines = [
        "# Coverage of intervals from noisy counts",
        "",
        "A known population is drawn from with replacement; MargNet is fitted to each draw, seeded; and 95% intervals of"
        " [tabsynth.inference](../../docs/how-to/valid-inference.md) are compared with the truth in the population. The census"
        " population is the 54,364 rows of the 2018 and 2019 excerpts in 10 columns, drawn 19,077 at a time; the hospital"
        " population is the 4,999 rows of the hospital table in 48 columns, drawn 4,999 at a time. Fits have 200 mixture components"
        " and 1,000 steps, in place of 3,000, which take a third of the time at ε = 8; estimates and intervals follow from the counts,"
        " so they hardly change. `python reports/inference/run.py`"
        " adds fits and writes this page. It needs [benchmark files](../../data/README.md#benchmark-files). "
        + releases(results.values()),
        "",
        '- **Supported**: the share of intervals that are given; the others say "not supported by the measured marginals".',
        "- **Coverage**: of the intervals that are given. **±**: two standard errors over the fits. The fits of a table at both ε share"
        " their private tables, so that their deviations are alike.",
        "- **Lowest**: the lowest coverage of one statistic that 30 fits or more support.",
        "- **Width**: over that of an oracle that knows the population and has counts with the same noise; the median and the 95th"
        " percentile of statistics, in the first fits.",
        "- **Control**: coverage of the textbook interval from the private table itself, of the supported statistics. It shows how far the"
        " private tables that were drawn are off by chance.",
        "- **Naive**: coverage of the textbook interval from one synthetic table, of the supported statistics, in the first 20 fits.",
        *of_textbooks(by_setting),
        "- Cells and groups of fewer than 20 expected rows are rare; they are rows of their own.",
        "",
        "| table | ε | fits | statistics | intervals | supported | coverage | ± | lowest | width | control | naive |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for setting in ("census-1", "census-8", "hospital-1", "hospital-8"):
        lines += coverage(setting, by_setting.get(setting, []))
    lines += ["", *of_implicates(by_setting), "", *of_plans(by_setting)]
    return "\n".join(lines) + "\n"


def coverage(setting: str, rows: list[Any]) -> list[str]:
    """Lines of one setting, a class of statistics each."""
    table, epsilon = setting.rsplit("-", 1)
    out = []
    for kind in dict.fromkeys(kind for row in rows for kind in row["classes"]):
        found = [row["classes"][kind] for row in rows if kind in row["classes"]]
        covered = np.array([list(f["covered"]) for f in found])
        given, inside = covered != "-", covered == "1"
        cells = [
            table,
            epsilon,
            str(len(found)),
            kind,
            str(covered.shape[1]),
            f"{given.mean():.0%}",
        ]
        if not given.any():
            out.append("| " + " | ".join([*cells, "–", "–", "–", "–", "–", "–"]) + " |")
            continue
        each = np.array([i[g].mean() for i, g in zip(inside, given, strict=True) if g.any()])
        spread = 2 * each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
        often = given.sum(axis=0) >= LEAST
        lowest = (
            (inside.sum(axis=0)[often] / given.sum(axis=0)[often]).min() if often.any() else np.nan
        )
        wider = np.array([f["wider"] for f in found if "wider" in f])
        wide = "–" if not len(wider) else "{:.2f}, {:.2f}".format(*np.median(wider, axis=0))
        cells += [
            f"{inside.sum() / given.sum():.1%}",
            "–" if np.isnan(spread) else f"{spread:.1%}",
            "–" if np.isnan(lowest) else f"{lowest:.0%}",
            wide,
            textbook(found, "control"),
            textbook(found, "naive"),
        ]
        out.append("| " + " | ".join(cells) + " |")
    return out


def textbook(found: list[Any], name: str) -> str:
    """Coverage of textbook intervals of the statistics that have one of ours."""
    rows = [(f[name], len(f["covered"]) - f["covered"].count("-")) for f in found if name in f]
    right, of = np.sum(rows, axis=0) if rows else (0, 0)
    return f"{right / of:.1%}" if of else "–"


def of_textbooks(by_setting: dict[str, list[Any]]) -> list[str]:
    """Why textbook intervals of logistic coefficients cover too seldom, of each table of which some have no estimate."""
    lines = []
    for table, title in TITLES.items():
        for row in by_setting.get(f"textbook-{table}", [])[-1:]:
            for regressors, missing in row["missing"].items():
                names = regressors.split(",")
                categories = [
                    f"{category} in {number} of them ({row['sizes'][category]:,} rows in the population)"
                    for category, number in row["constant"].items()
                    if category.partition("[")[0] in names
                ]
                lines.append(
                    "- **Control** and **naive** count the coefficients of a regression without a maximum-likelihood estimate as not covered."
                    f" In {missing} of {row['draws']} private {title} tables, the logistic regression on {' and '.join(names)} has none."
                    " All rows of a category then have the same outcome, so its coefficient is not finite. The category is"
                    f" {', '.join(categories)}. Of the logistic coefficients that have a textbook interval in these {row['draws']} tables,"
                    f" it covers {row['covered'] / row['intervals']:.1%}."
                )
    return lines


def of_implicates(by_setting: dict[str, list[Any]]) -> list[str]:
    """The section on pooled implicates."""
    lines = [
        "## Pooled implicates",
        "",
        "Coverage of 95% intervals that `pool` makes of textbook analyses of 10 implicates, without rare cells and groups. **Supported** are"
        " statistics that the measured marginals show, as above; **others** are those that they do not show, whose associations"
        " implicates do not vary. The certificate of an implicate lists the sets of columns that were counted. Counts below 0 cannot be"
        " in a table, so statistics of small groups are biased. The intervals above do better. CPU seconds are of the 10 implicates."
        " **Cells alone**: coverage of the supported statistics of implicates that are fitted to the counts with equal weights, without sums of scores."
        " Where the counts of most pairs are noise, all implicates are fitted so, and a warning is given; here at ε = 1 on the hospital table.",
        "",
        "| table | ε | fits | statistics | supported | coverage | ± | cells alone | coverage of others | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for setting in ("census-1", "census-8", "hospital-1", "hospital-8"):
        rows = by_setting.get(f"implicates-{setting}", [])
        alone = by_setting.get(f"cells-{setting}", [])
        seconds = np.median([row["cpu_seconds"] for row in rows]) if rows else 0
        for kind in dict.fromkeys(kind for row in rows for kind in row["classes"]):
            found = [row["classes"].get(kind, ["", ""]) for row in rows]
            given, others = ("".join(part) for part in zip(*found, strict=True))
            each = np.array([f[0].count("1") / len(f[0]) for f in found if f[0]])
            spread = 2 * each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
            cells = [*setting.rsplit("-", 1), str(len(rows)), kind]
            cells += [f"{len(given) / len(given + others):.0%}", _share(given)]
            cells += [
                "–" if np.isnan(spread) else f"{spread:.1%}",
                _share("".join(row["classes"].get(kind, ["", ""])[0] for row in alone)),
                _share(others),
                f"{seconds:.0f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _share(letters: str) -> str:
    """The share of intervals that cover."""
    return f"{letters.count('1') / len(letters):.1%}" if letters else "–"


def of_plans(by_setting: dict[str, list[Any]]) -> list[str]:
    """The section on planned errors."""
    lines = [
        "## Planned errors of tables",
        "",
        "`tabsynth plan --table` before there are rows, over the realised error: the root mean square over the cells of every pair of"
        " census columns, in the groups of values that the fit counts. Estimates are those of `tabsynth.inference`; the synthetic"
        " table's own counts have other errors, which no plan follows: a fit smooths the noise, and is biased.",
        "",
        "| ε | fits | tables | planned over realised: median | middle half | over the error of synthetic rows: median |",
        "|---|---|---|---|---|---|",
    ]
    for setting in ("census-1", "census-8"):
        rows = by_setting.get(f"plan-{setting}", [])
        if not rows:
            continue
        errors = np.array([error for row in rows for error in row["tables"].values()])
        ratio = errors[:, 0] / errors[:, 1]
        low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
        rest = np.median(errors[:, 0] / errors[:, 2])
        lines.append(
            f"| {setting.rsplit('-', 1)[1]} | {len(rows)} | {len(errors)} | {middle:.2f} | {low:.2f} to {high:.2f} | {rest:.2f} |"
        )
    return lines
