"""The page for readers who answer for data protection: which claims were tested, how, and with which result.

    python reports/audits/run.py            # writes README.md from the five records beside it
    python reports/audits/run.py --stale    # lists rows and mutants to measure again; exit code 1 if there are any

The records are made by `audits.py`, `replays.py`, `crash_tests.py`, `fuzz.py` and by `make mutants`. Each of the first
four measures what is stale or missing, keeps the rest, and stops after `--minutes M` if that is given.
"""

import argparse
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scipy.stats import norm

HERE = Path(__file__).resolve().parent
MUTANTS = HERE.parents[1] / "tests" / "mutants"
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "tests" / "fuzz")]

import evidence  # noqa: E402
import fuzzing  # noqa: E402
from evidence import (  # noqa: E402
    AUDITS,
    CHANGED,
    CRASH_TESTS,
    CURRENT,
    FUZZ,
    KINDS,
    REPLAYS,
    UNKNOWN,
    Modules,
)
from harness import fill, table  # noqa: E402

import tabsynth  # noqa: E402

OUTCOMES = ("resumed", "planned again", "made again", "refused")  # as in crash_tests.py
DETECTED = re.compile(r"^The audit detects noise that is ([\d.]+) times too small")
# The sections of docs/design/privacy-rules.md, with the numbers of the first and the last rule of each.
SECTIONS = {
    "mechanisms and sensitivity": (1, 5),
    "accounting and ledger": (6, 7),
    "training": (8, 11),
    "public and private facts": (12, 14),
    "PATE": (15, 16),
    "randomness, artefacts, choices, statistical audit": (17, 20),
    "arithmetic, reading, composition, identifiers, authentication, privacy unit": (21, 28),
}


def record(name: str) -> dict[str, Any]:
    """Return one of the five records."""
    return json.loads((HERE / f"{name}.json").read_text("utf-8"))


def format_figure(value: float | None) -> str:
    """Return a figure with three digits, an en dash where there is none."""
    return "–" if value is None else f"{value:.3g}"


def joint_state(states: Iterable[str]) -> str:
    """Return the state of several measurements: current only if all are."""
    found = set(states)
    return next(state for state in (UNKNOWN, CHANGED, CURRENT) if state in found)


def audit_groups(hashes: Modules) -> list[list[dict[str, Any]]]:
    """Return the results of all audits: each whole fit with its parts, any other audit alone.

    The part says what is special of an audit, as its name does after the comma.
    """
    groups: list[list[dict[str, Any]]] = []
    stored = record("audits")
    for name, entry in AUDITS.rows(stored).items():
        special = name.partition(", ")[2]
        state = evidence.state(stored, entry, hashes)
        for r in entry["results"]:
            stated = not special or special in r["part"]  # some audits of units say so themselves
            part = r["part"] if stated else f"{r['part']}, {special}"
            if r["kind"] != "white-box" or part.startswith("whole fit"):
                groups.append([])
            groups[-1].append({**r, "part": part, "state": state})
    return groups


def audit_row(group: list[dict[str, Any]]) -> list[str]:
    """Return the cells of an audit, with how many of its parts are not refuted."""
    whole, *parts = group
    # Where μ is not claimed the statistic is no Gaussian one: its distance is not a μ.
    seen = None if whole["mu_claimed"] is None else whole["mu_estimate"]
    bounds = [whole["epsilon_claimed"], whole["epsilon_lower"], whole["mu_claimed"], seen]
    factor = DETECTED.search(whole["power"])
    passed = sum(part["verdict"] == "not refuted" for part in parts)
    return [
        f"`{whole['method']}`",
        whole["part"],
        f"{whole['runs']:,}",
        *map(format_figure, bounds),
        factor[1] if factor else "–",
        f"{passed} of {len(parts)}" if parts else "–",
        whole["verdict"],
        joint_state(result["state"] for result in group),
    ]


def audits(hashes: Modules) -> str:
    """Return a table of audits for each attack, without the columns that are empty in it."""
    head = ["method", "on", "runs", "ε claimed", "ε at least", "μ claimed", "μ seen"]
    head += ["detects", "parts not refuted", "verdict", "code"]
    kinds, sections = defaultdict(list), []
    for group in audit_groups(hashes):
        kinds[group[0]["kind"]].append(audit_row(group))
    for kind, rows in kinds.items():
        columns = list(zip(*[head, *rows], strict=True))
        filled = [column for column in columns if set(column[1:]) != {"–"}]
        cells = list(zip(*filled, strict=True))
        title = kind.capitalize().replace("-inference", " inference")
        sections.append(f"### {title}\n\n{table(cells[0], cells[1:])}")
    return "\n\n".join(sections)


def count_audits() -> dict[str, Any]:
    """Return how many audits there are, and how many refute or are inconclusive."""
    entries = AUDITS.rows(record("audits")).values()
    verdicts = [r["verdict"] for entry in entries for r in entry["results"]]
    counts = {name: verdicts.count(name) for name in ("refuted", "inconclusive")}
    return {"audits": len(verdicts), **counts}


def black_box() -> dict[str, Any]:
    """Return the finding of the black-box audit of PATE-GAN, in its own sentences."""
    (result,) = AUDITS.rows(record("audits"))["black-box pate-gan 1"]["results"]
    # One half of the fits is not counted: the attack was learned from it.
    fits = f"{2 * result['runs']:,}"
    finding = result["sentence"].replace(": from", ". From", 1)
    return {"fits": fits, "finding": finding, "power": result["power"]}


def replays(hashes: Modules) -> str:
    """Return the table of replays, with a row for each method."""
    stored, methods = record("replays"), defaultdict(dict)
    for name, system in REPLAYS.rows(stored).items():
        method, _, variant = name.partition(", ")
        methods[method][variant or "default"] = system
    rows = []
    for method, systems in methods.items():
        cells = [cell for system in systems.values() for cell in system["neighbours"].values()]
        rows.append(
            [
                method if "(" in method else f"`{method}`",
                "; ".join(systems),
                f"{sum(c['runs'] for c in cells):,}",
                f"{sum(c['passed'] for c in cells):,}",
                f"{max(c['worst_move'] for c in cells):.4f}",
                joint_state(evidence.state(stored, each, hashes) for each in systems.values()),
            ]
        )
    head = ["method", "settings", "replays", "identical", "largest change", "code"]
    return table(head, rows)


def count_replays() -> dict[str, Any]:
    """Return how many replays there are, and how many agree."""
    cells = [c for s in record("replays")["systems"].values() for c in s["neighbours"].values()]
    return {
        "replays": sum(c["runs"] for c in cells),
        "replays_passed": sum(c["passed"] for c in cells),
        "systems": len(record("replays")["systems"]),
    }


def kills(hashes: Modules) -> str:
    """Return the table of crash tests, with a row for each method."""
    rows, stored = [], record("crash_tests")
    for method, ways in stored["by_method"].items():
        cells, ends = ways.values(), Counter[str]()
        for cell in cells:
            ends.update(cell["outcomes"])
        counts = [sum(cell[key] for cell in cells) for key in ("points", "sound")]
        counts += [max(cell["lost_uses_max"] for cell in cells)]
        counts += [ends[outcome] for outcome in OUTCOMES]
        state = joint_state(evidence.state(stored, cell, hashes) for cell in cells)
        rows.append([f"`{method}`", *map(str, counts), state])
    head = ["method", "killed", "sound", "most charges lost", *OUTCOMES, "code"]
    return table(head, rows)


def readers(hashes: Modules) -> str:
    """Return the table of readers of files."""
    stored = record("fuzz")
    rows = [
        [
            name,
            *(f"{cell[k]:,}" for k in ("inputs", "accepted", "refused", "findings")),
            evidence.state(stored, cell, hashes),
        ]
        for name, cell in FUZZ.rows(stored).items()
    ]
    head = ["file", "damaged files", "read", "refused in one line", "anything else", "code"]
    return table(head, rows)


def current(hashes: Modules) -> str:
    """Return how much of each record is of the code of this release, as a list."""
    return "\n".join(f"- {evidence.sentence(kind, record(kind.name), hashes)}" for kind in KINDS)


def count_mutants() -> dict[str, Any]:
    """Return how many mutants there are, and how many were killed."""
    states = [m["outcome"] for m in record("mutants")["mutants"].values()]
    return {"mutants": len(states), "killed": states.count("killed")}


def mutants() -> str:
    """Return the table of mutants by the section of their first rule."""
    outcomes = defaultdict(list)
    for mutant in record("mutants")["mutants"].values():
        rule = int(re.match(r"R(\d+)", mutant["rule"])[1])
        (section,) = [name for name, (low, high) in SECTIONS.items() if low <= rule <= high]
        outcomes[section].append(mutant["outcome"])
    rows = [
        [name, f"R{low} to R{high}", str(len(outcomes[name])), str(outcomes[name].count("killed"))]
        for name, (low, high) in SECTIONS.items()
    ]
    return table(["rules on", "rules", "mistakes", "noticed"], rows)


def mutants_to_run() -> dict[str, list[str]]:
    """Return the names of the mutants whose result is not that they were killed, by the reason."""
    outcomes = {name: m["outcome"] for name, m in record("mutants")["mutants"].items()}
    there = sorted(path.stem for path in MUTANTS.glob("*.toml"))
    reasons = {
        "not killed": [name for name in there if outcomes.get(name, "killed") != "killed"],
        "without a result": [name for name in there if name not in outcomes],
        "no longer there": sorted(outcomes.keys() - set(there)),
    }
    return {why: names for why, names in reasons.items() if names}


def unsupportive(kind: evidence.Kind, stored: dict[str, Any]) -> list[str]:
    """Return the names of the rows of a record that do not support the claim that they test."""
    return [name for name, row in kind.rows(stored).items() if not SUPPORTS[kind](row)]


def standard_error(result: dict[str, Any]) -> float:
    """Return the standard error of μ, estimated as -Φ⁻¹(FPR) - Φ⁻¹(FNR), by the delta method; 0 where the error counts are not recorded."""
    details, variance = result.get("details", {}), 0.0
    for name in ("false_positives", "false_negatives"):
        if not 0 < (share := details.get(name, 0) / result["runs"]) < 1:
            return 0.0
        variance += share * (1 - share) / result["runs"] / norm.pdf(norm.ppf(share)) ** 2
    return math.sqrt(variance)


def _audit_supports(row: dict[str, Any]) -> bool:
    for r in row["results"]:
        if r["verdict"] != "not refuted" or float(r["epsilon_lower"]) > r["epsilon_claimed"]:
            return False
        if r["mu_claimed"] is None:
            continue
        # An attack on a whole fit reaches the claimed μ, up to sampling error; one that sees much less would not
        # notice a mistake. The estimate of a part may be negative only where chance can hide the μ that it claims.
        complete = r["part"].startswith("whole fit")
        chance = 3 * standard_error(r)
        lowest = 0.9 * r["mu_claimed"] - chance if complete else min(0.0, r["mu_claimed"] - chance)
        if r["mu_lower"] > r["mu_claimed"] or r["mu_estimate"] < lowest:
            return False
    return True


def _replays_support(row: dict[str, Any]) -> bool:
    cells = row["neighbours"].values()
    return bool(cells) and all(cell["passed"] == cell["runs"] > 0 for cell in cells)


def _kills_support(row: dict[str, Any]) -> bool:
    return row["sound"] == row["points"] > 0


def _reader_supports(row: dict[str, Any]) -> bool:
    complete = row["inputs"] == row["accepted"] + row["refused"] > 0
    return complete and row["findings"] == 0 and row["slowest_seconds"] <= fuzzing.SECONDS


SUPPORTS = {
    AUDITS: _audit_supports,
    REPLAYS: _replays_support,
    CRASH_TESTS: _kills_support,
    FUZZ: _reader_supports,
}


def page(hashes: Modules | None = None) -> str:
    """Return README.md; ``hashes`` holds the hashes of the package's modules, by default those of the files."""
    hashes = evidence.modules_of() if hashes is None else hashes
    kill, fuzz = record("crash_tests"), record("fuzz")
    facts = {
        **count_audits(),
        **black_box(),
        **count_replays(),
        **count_mutants(),
        "points": kill["points"],
        "sound": kill["sound"],
        "inputs": f"{fuzz['inputs']:,}",
        "findings": fuzz["findings"],
        "VERSION": tabsynth.__version__,
        "CURRENT": current(hashes),
        "AUDITS": audits(hashes),
        "REPLAYS": replays(hashes),
        "KILLS": kills(hashes),
        "READERS": readers(hashes),
        "MUTANTS": mutants(),
    }
    return fill(HERE / "template.md", {name: str(value) for name, value in facts.items()})


def draw(path: Path) -> None:
    """Draw the effect of a record that each audit saw against the one that is claimed, with three standard errors."""
    import style  # it imports matplotlib, which the page does not need

    title = "Attackers see the claimed effect of a record, and not more"
    with style.plot(path, height=3.2, title=title) as (_, ((axis,),)):
        kinds = {
            "part of a fit": [],
            "whole fit": [],
            "draft of a schema": [],
            "synthetic rows": [],
        }
        for whole, *parts in audit_groups({}):
            kind = {"domain-inference": "draft of a schema", "black-box": "synthetic rows"}
            kinds[kind.get(whole["kind"], "whole fit")].append(whole)
            kinds["part of a fit"] += parts
        for colour, mark, (kind, found) in zip(style.COLOURS, "osDv", kinds.items(), strict=False):
            found = [r for r in found if r["mu_claimed"] is not None]
            x, y = ([r[key] for r in found] for key in ("mu_claimed", "mu_estimate"))
            errors = [3 * standard_error(r) for r in found]
            options = {"color": colour, "markersize": 5, "elinewidth": 0.8}
            axis.errorbar(x, y, errors, fmt=mark, label=kind, **options)
        axis.axline((0, 0), slope=1, color=style.BASELINE, linewidth=1, label="seen = claimed")
        axis.set(xlabel="μ claimed", ylabel="μ seen, ± 3 standard errors")
        axis.legend(ncols=2, loc="upper left")


def report() -> int:
    """Print how much of each record is of the code of this release, and what to measure; 1 if there is anything.

    That is rows of other code, rows that are missing, rows that do not support the claim that they test, and
    mutants that no test killed.
    """
    import audits  # these import torch, which the page does not need
    import crash_tests
    import fuzz
    import replays

    scripts = {script.__name__: script for script in (audits, replays, crash_tests, fuzz)}
    hashes, code = evidence.modules_of(), 0
    for kind in KINDS:
        stored = record(kind.name)
        reasons = evidence.stale(kind, stored, hashes)
        missing = scripts[kind.name].missing(stored)
        if missing:
            reasons["missing or incomplete"] = missing
        failing = unsupportive(kind, stored)
        if failing:
            reasons["do not support the claim"] = failing
        print(evidence.sentence(kind, stored, hashes))
        for why, names in reasons.items():
            code = 1
            print(f"  {why} ({len(names)}): {'; '.join(names)}")
        if reasons:
            print(f"  To measure them: python reports/audits/{kind.name}.py")
    gate = mutants_to_run()
    outcomes, there = record("mutants")["mutants"], [path.stem for path in MUTANTS.glob("*.toml")]
    killed = sum(outcomes.get(name, {}).get("outcome") == "killed" for name in there)
    print(f"{killed} of {len(there)} mutants are killed.")
    for why, names in gate.items():
        code = 1
        print(f"  {why} ({len(names)}): {'; '.join(names)}")
    if gate:
        print("  To run them: make mutants")
    return code


def main() -> int:
    """Write the page, or list the stale rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stale", action="store_true", help="list the rows to measure again")
    if parser.parse_args().stale:
        return report()
    (HERE / "README.md").write_text(page(), "utf-8")
    draw(HERE / "attacks.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
