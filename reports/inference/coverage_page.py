"""The page of the results."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from harness import Row, Rows, fill, releases, table

SETTINGS = ("census-1", "census-8", "hospital-1", "hospital-8")
SUPPORTING = 30  # fits that support a statistic, from which its own coverage is stated
HEAD = (
    *("table", "ε", "fits", "statistics", "intervals", "supported", "coverage"),
    *("±", "lowest", "width", "control", "naive"),
)
POOLED_HEAD = (
    *("table", "ε", "fits", "statistics", "supported", "coverage", "±", "cells alone"),
    *("coverage of others", "CPU s"),
)
PLANS_HEAD = (
    *("ε", "fits", "tables", "planned over realised: median", "middle half"),
    "over the error of synthetic rows: median",
)
Groups = dict[str, list[Row]]  # rows by the part of their key before the last hyphen


def page(results: Rows) -> str:
    """Return the page of the results."""
    groups: Groups = defaultdict(list)
    for key in sorted(results, key=lambda key: (key.rsplit("-", 1)[0], int(key.rsplit("-", 1)[1]))):
        groups[key.rsplit("-", 1)[0]].append(results[key])
    parts = {
        "RELEASE": releases(results.values()),
        "TEXTBOOKS": "".join(f"- {sentence}\n" for sentence in explain_textbooks(groups)),
        "COVERAGE": table(HEAD, [cells for name in SETTINGS for cells in coverage(name, groups)]),
        "IMPLICATES": table(
            POOLED_HEAD, [cells for name in SETTINGS for cells in pooled_coverage(name, groups)]
        ),
        "PLANS": table(PLANS_HEAD, planned_errors(groups)),
    }
    return fill(Path(__file__).with_name("template.md"), parts)


def statistics_of(rows: list[Row]) -> list[str]:
    """Return the classes of statistics that occur in rows."""
    return list(dict.fromkeys(kind for row in rows for kind in row["classes"]))


def percent(value: float, digits: int = 1) -> str:
    """Return a share as a text, an en dash for NaN."""
    return "–" if np.isnan(value) else f"{value:.{digits}%}"


def two_errors(shares: np.ndarray) -> float:
    """Return two standard errors of the mean of shares; NaN of a single one."""
    return 2 * shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.nan


def coverage(setting: str, groups: Groups) -> list[list[str]]:
    """Return the cells of each class of statistics of a setting."""
    rows, out = groups.get(setting, []), []
    for kind in statistics_of(rows):
        classes = [row["classes"][kind] for row in rows if kind in row["classes"]]
        letters = np.array([list(c["covered"]) for c in classes])
        supported, inside = letters != "-", letters == "1"
        cells = [*setting.rsplit("-", 1), str(len(classes)), kind, str(letters.shape[1])]
        cells.append(f"{supported.mean():.0%}")
        if not supported.any():
            out.append([*cells, *"––––––"])
            continue
        pairs = zip(inside, supported, strict=True)
        shares = np.array([i[s].mean() for i, s in pairs if s.any()])
        often = supported.sum(axis=0) >= SUPPORTING
        each = inside.sum(axis=0)[often] / supported.sum(axis=0)[often]
        widths = np.array([c["wider"] for c in classes if "wider" in c])
        out.append(
            [
                *cells,
                percent(inside.sum() / supported.sum()),
                percent(two_errors(shares)),
                percent(each.min() if often.any() else np.nan, 0),
                "{:.2f}, {:.2f}".format(*np.median(widths, axis=0)) if len(widths) else "–",
                textbook_coverage(classes, "control"),
                textbook_coverage(classes, "naive"),
            ]
        )
    return out


def textbook_coverage(classes: list[Any], name: str) -> str:
    """Return the coverage of textbook intervals of the supported statistics."""
    counts = [(c[name], len(c["covered"]) - c["covered"].count("-")) for c in classes if name in c]
    right, intervals = np.sum(counts, axis=0) if counts else (0, 0)
    return f"{right / intervals:.1%}" if intervals else "–"


def explain_textbooks(groups: Groups) -> list[str]:
    """Return why textbook intervals of logistic coefficients cover too seldom, for each table and regression."""
    out = []
    for name in ("census", "hospital"):
        for row in groups.get(f"textbook-{name}", [])[-1:]:
            for regressors, missing in row["missing"].items():
                names = regressors.split(",")
                categories = [
                    f"{category} in {number} of them ({row['sizes'][category]:,} rows in the population)"
                    for category, number in row["constant"].items()
                    if category.partition("[")[0] in names
                ]
                out.append(
                    "**Control** and **naive** count the coefficients of a regression without a maximum-likelihood estimate as not covered."
                    f" In {missing} of {row['draws']} private {name} tables, the logistic regression on {' and '.join(names)} has none."
                    " All rows of a category then have the same outcome, so its coefficient is not finite. The category is"
                    f" {', '.join(categories)}. Of the logistic coefficients that have a textbook interval in these {row['draws']} tables,"
                    f" it covers {row['covered'] / row['intervals']:.1%}."
                )
    return out


def pooled_coverage(setting: str, groups: Groups) -> list[list[str]]:
    """Return the cells of each class of statistics, whose implicates are pooled."""
    rows, out = groups.get(f"implicates-{setting}", []), []
    equal_weights = groups.get(f"cells-{setting}", [])
    for kind in statistics_of(rows):
        letters = [row["classes"].get(kind, ["", ""]) for row in rows]
        supported, unsupported = ("".join(part) for part in zip(*letters, strict=True))
        shares = np.array([s.count("1") / len(s) for s, _ in letters if s])
        alone = "".join(row["classes"].get(kind, ["", ""])[0] for row in equal_weights)
        out.append(
            [
                *setting.rsplit("-", 1),
                str(len(rows)),
                kind,
                f"{len(supported) / len(supported + unsupported):.0%}",
                covered_share(supported),
                percent(two_errors(shares)),
                covered_share(alone),
                covered_share(unsupported),
                f"{np.median([row['cpu_seconds'] for row in rows]):.0f}",
            ]
        )
    return out


def covered_share(letters: str) -> str:
    """Return the share of intervals that cover, an en dash without intervals."""
    return percent(letters.count("1") / len(letters)) if letters else "–"


def planned_errors(groups: Groups) -> list[list[str]]:
    """Return the cells of planned errors, over the realised ones, at each ε."""
    out = []
    for epsilon in ("1", "8"):
        if not (rows := groups.get(f"plan-census-{epsilon}", [])):
            continue
        errors = np.array([error for row in rows for error in row["tables"].values()])
        ratio = errors[:, 0] / errors[:, 1]
        low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
        of_rows = np.median(errors[:, 0] / errors[:, 2])
        cells = [epsilon, str(len(rows)), str(len(errors)), f"{middle:.2f}"]
        out.append([*cells, f"{low:.2f} to {high:.2f}", f"{of_rows:.2f}"])
    return out
