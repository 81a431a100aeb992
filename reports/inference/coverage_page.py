"""The page of the results."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import Row, Rows, fill, releases, table

NAMES, EPSILONS = ("census", "hospital"), ("1", "8")
SUPPORTING = 30  # fits that support a statistic, from which its own coverage is stated
HEAD = (
    *("statistics", "supported, ε = 1", "coverage, ε = 1", "naive, ε = 1"),
    *("supported, ε = 8", "coverage, ε = 8", "naive, ε = 8"),
)
POOLED_HEAD = (
    *("statistics", "coverage, ε = 1", "others, ε = 1", "coverage, ε = 8", "others, ε = 8"),
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
        "ANSWER": answer(groups),
        "COVERAGE": table(HEAD, lines(groups, "", coverage)),
        "EXTREMES": extremes(groups),
        "IMPLICATES": table(POOLED_HEAD, lines(groups, "implicates-", pooled_coverage)),
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


def lines(
    groups: Groups, kind: str, cells: Callable[[list[Row], str], list[str]]
) -> list[list[str]]:
    """Return a line for each table and class of statistics, with the cells of each ε."""
    out = []
    for name in NAMES:
        rows = [groups.get(f"{kind}{name}-{epsilon}", []) for epsilon in EPSILONS]
        for statistic in statistics_of([*rows[0], *rows[1]]):
            each = [cell for part in rows for cell in cells(part, statistic)]
            if set(each) - {"–", "0%"}:
                out.append([f"{name}: {statistic}", *each])
    return out


def coverage(rows: list[Row], statistic: str) -> list[str]:
    """Return the share of supported statistics, their coverage with two standard errors, and that of naive intervals."""
    classes = [row["classes"][statistic] for row in rows if statistic in row["classes"]]
    if not classes:
        return ["–"] * 3
    letters = np.array([list(c["covered"]) for c in classes])
    supported, inside = letters != "-", letters == "1"
    if not supported.any():
        return [f"{supported.mean():.0%}", "–", "–"]
    pairs = zip(inside, supported, strict=True)
    shares = np.array([i[s].mean() for i, s in pairs if s.any()])
    covered = with_error(inside.sum() / supported.sum(), two_errors(shares))
    return [f"{supported.mean():.0%}", covered, textbook_coverage(classes, "naive")]


def with_error(share: float, error: float) -> str:
    """Return a share with its error, in percent."""
    return percent(share) if np.isnan(error) else f"{100 * share:.1f} ± {100 * error:.1f}%"


def classes_of(groups: Groups) -> list[list[Any]]:
    """Return the results of every setting and class of statistics, of all fits."""
    settings = [groups.get(f"{name}-{epsilon}", []) for name in NAMES for epsilon in EPSILONS]
    return [
        [row["classes"][kind] for row in rows if kind in row["classes"]]
        for rows in settings
        for kind in statistics_of(rows)
    ]


def shares_of(classes: list[Any]) -> np.ndarray:
    """Return the coverage of each statistic that enough fits support."""
    letters = np.array([list(c["covered"]) for c in classes])
    often = (letters != "-").sum(axis=0) >= SUPPORTING
    return (letters == "1").sum(axis=0)[often] / (letters != "-").sum(axis=0)[often]


def answer(groups: Groups) -> str:
    """Return the mean coverage of all intervals, and that of naive ones."""
    letters = "".join(c["covered"] for classes in classes_of(groups) for c in classes)
    every = [c for classes in classes_of(groups) for c in classes]
    return (
        f"{percent(letters.count('1') / max(1, len(letters) - letters.count('-')))} of all intervals cover the truth."
        f" Textbook intervals cover it in {textbook_coverage(every, 'control')} of cases if they are computed from the private"
        f" table, and in {textbook_coverage(every, 'naive')} if from one synthetic table."
    )


def extremes(groups: Groups) -> str:
    """Return the lowest coverage of a statistic, and the widths over those of the oracle."""
    shares = np.concatenate([shares_of(c) for c in classes_of(groups)] or [np.zeros(0)])
    widths = [
        np.median([c["wider"] for c in k if "wider" in c], axis=0)[0]
        for k in classes_of(groups)
        if any("wider" in c for c in k)
    ]
    if not len(shares) or not widths:
        return "Too few fits for the coverage of single statistics."
    return (
        f"The lowest coverage of a single statistic is {shares.min():.0%}, of {len(shares):,} that {SUPPORTING} fits or more support."
        f" Median widths are {min(widths):.2f} to {max(widths):.2f} times those of the oracle."
    )


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
                    "**Naive** counts the coefficients of a regression without a maximum-likelihood estimate as not covered."
                    f" In {missing} of {row['draws']} private {name} tables, the logistic regression on {' and '.join(names)} has none."
                    f" The category is {', '.join(categories)}. Of the logistic coefficients that have a textbook interval"
                    f" in these {row['draws']} tables, it covers {row['covered'] / row['intervals']:.1%}."
                )
    return out


def pooled_coverage(rows: list[Row], statistic: str) -> list[str]:
    """Return the coverage of pooled intervals of supported statistics, and that of the others."""
    letters = [row["classes"].get(statistic, ["", ""]) for row in rows]
    supported, others = (
        ("".join(part) for part in zip(*letters, strict=True)) if letters else ("", "")
    )
    shares = np.array([s.count("1") / len(s) for s, _ in letters if s])
    share = supported.count("1") / len(supported) if supported else np.nan
    return [with_error(share, two_errors(shares)), covered_share(others)]


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
