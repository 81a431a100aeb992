"""The page for readers who answer for data protection: which claims were tested, how, and with which result.

    python reports/audits/run.py            # writes README.md from the five records beside it
    python reports/audits/run.py --stale    # lists rows and mutants to measure again; exit code 1 if there are any

The records are made by `audits.py`, `replays.py`, `crash_tests.py`, `fuzz.py` and by `make mutants`. Each of the first
four measures what is stale or missing, keeps the rest, and stops after `--minutes M` if that is given.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from scipy.stats import norm

HERE = Path(__file__).resolve().parent
MUTANTS = HERE.parents[1] / "tests" / "mutants"
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "tests" / "fuzz")]

import evidence  # noqa: E402
import fuzzing  # noqa: E402
from evidence import AUDITS, CRASH_TESTS, FUZZ, KINDS, REPLAYS, Modules  # noqa: E402
from harness import fill, table  # noqa: E402

import tabsynth  # noqa: E402


def record(name: str) -> dict[str, Any]:
    """Return one of the five records."""
    return json.loads((HERE / f"{name}.json").read_text("utf-8"))


def format_figure(value: float | None) -> str:
    """Return a figure with three digits, an en dash where there is none."""
    return "–" if value is None else f"{value:.3g}"


def audit_rows(results: list[dict[str, Any]]) -> list[list[str]]:
    """Return the cells of each audit."""
    rows = []
    for r in results:
        # Where μ is not claimed the statistic is no Gaussian one: its distance and bound are not those of a μ.
        mu = [None] * 3
        if r["mu_claimed"] is not None:
            mu = [r["mu_claimed"], r["mu_estimate"], r["mu_lower"]]
        figures = [r["epsilon_claimed"], *mu, r["epsilon_lower"]]
        row = [
            f"`{r['method']}`",
            r["kind"],
            r["part"],
            *map(format_figure, figures),
            f"{r['runs']:,}",
        ]
        rows.append([*row, r["verdict"], r["state"]])
    return rows


def results(hashes: Modules) -> list[dict[str, Any]]:
    """Return the results of all audits; the part says what is special of an audit, as its name does after the comma."""
    out, stored = [], record("audits")
    for name, entry in AUDITS.rows(stored).items():
        special = name.partition(", ")[2]
        state = evidence.state(stored, entry, hashes)
        for r in entry["results"]:
            stated = not special or special in r["part"]  # some audits of units say so themselves
            part = r["part"] if stated else f"{r['part']}, {special}"
            out.append({**r, "part": part, "state": state})
    return out


def audits(hashes: Modules) -> str:
    """Return the table of audits."""
    head = ["method", "attack", "of", "ε claimed", "μ claimed", "μ seen", "μ at least"]
    head += ["ε at least", "runs", "verdict", "code"]
    return table(head, audit_rows(results(hashes)))


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
    return {"fits": fits, "finding": result["sentence"], "power": result["power"]}


def replays(hashes: Modules) -> str:
    """Return the table of replays."""
    rows, stored = [], record("replays")
    for name, system in REPLAYS.rows(stored).items():
        cells = list(system["neighbours"].values())
        rows.append(
            [
                name,
                str(len(cells)),
                str(sum(c["runs"] for c in cells)),
                str(sum(c["passed"] for c in cells)),
                f"{max(c['worst_move'] for c in cells):.4f}",
                evidence.state(stored, system, hashes),
            ]
        )
    head = ["what was fitted", "kinds of neighbours", "replays", "the same", "worst move", "code"]
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
    """Return the table of crash tests."""
    rows, stored = [], record("crash_tests")
    for name, cell in CRASH_TESTS.rows(stored).items():
        method, way = name.split(", ")
        ends = ", ".join(f"{n} {what}" for what, n in sorted(cell["outcomes"].items()))
        counts = [str(cell["points"]), str(cell["sound"]), str(cell["lost_uses_max"])]
        rows.append([f"`{method}`", way, *counts, ends, evidence.state(stored, cell, hashes)])
    head = ["method", "with", "killed", "sound", "most uses written off and not used"]
    return table([*head, "afterwards", "code"], rows)


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
    head = ["reader", "damaged files", "read", "refused in one line", "anything else", "code"]
    return table(head, rows)


def current(hashes: Modules) -> str:
    """Return how much of each record is of the code of this release, as a list."""
    return "\n".join(f"- {evidence.sentence(kind, record(kind.name), hashes)}" for kind in KINDS)


def mutants() -> dict[str, Any]:
    """Return how many mutants there are, and how many were killed."""
    outcomes = record("mutants")["mutants"]
    states = [m["outcome"] for m in (outcomes.values() if isinstance(outcomes, dict) else outcomes)]
    return {"mutants": len(states), "killed": states.count("killed")}


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
        **mutants(),
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
    }
    return fill(HERE / "template.md", {name: str(value) for name, value in facts.items()})


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
    return 0


if __name__ == "__main__":
    sys.exit(main())
