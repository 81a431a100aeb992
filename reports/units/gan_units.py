"""GANs under a unit: what a private step over units costs, and DPWGAN on hospital encounters.

``python reports/units/gan_units.py`` runs what is missing, writes results-gans.json and gan_units.md; ``--page`` writes
the page alone.
"""

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "benchmark")]

from units import COLUMNS, UNIT, distances, encounters  # noqa: E402

from tabsynth import DPWGAN, Schema  # noqa: E402
from tabsynth.encoding import TableEncoder  # noqa: E402
from tabsynth.privacy.accounting.mechanisms import SubsampledGaussian  # noqa: E402
from tabsynth.privacy.certificate.certificate import code  # noqa: E402
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable  # noqa: E402
from tabsynth.synthesizers.gan.adversarial import RowLosses  # noqa: E402
from tabsynth.training.bounds import Clipping  # noqa: E402
from tabsynth.training.networks import mlp  # noqa: E402
from tabsynth.training.private_step import PrivateStep  # noqa: E402
from tabsynth.training.units import UnitRows  # noqa: E402

RESULTS, PAGE = HERE / "results-gans.json", HERE / "gan_units.md"
EPSILON, BOUNDS = 8.0, (1, 3, 5)
ROWS, WIDTH, RATE, STEPS = 20_000, 200, 0.05, 12
LOSSES = {"DPWGAN": 0.0, "DPGAN": 10.0}  # and the weight of the gradient penalty


def fit(bound: int) -> dict[str, Any]:
    """The figures of one fit; ``bound`` 0 protects a record."""
    schema, table = encounters()
    encoder = TableEncoder(schema)
    real, started = encoder.to_index(table[list(COLUMNS)]), time.process_time()
    if bound:
        schema = Schema(schema.columns, schema.null_values, unit=UNIT, max_rows_per_unit=bound)
    model = DPWGAN(schema, epsilon=EPSILON, random_state=0, device="cpu")
    made = model.fit(table if bound else table[list(COLUMNS)]).sample(len(table))
    out = distances(encoder.schema.sizes, real, encoder.to_index(made))
    return {**out, "rows": model.rows_, "cpu_seconds": round(time.process_time() - started, 1)}


def milliseconds(penalty: float, bound: int) -> float:
    """CPU time of one step at a batch of about a thousand rows; ``bound`` 0 takes steps over rows, else all units have
    as many rows as the bound says."""
    rng = torch.Generator().manual_seed(0)
    rows = (torch.rand(ROWS, WIDTH, generator=rng) < 0.05).float()
    table: Any = rows
    if bound:
        table = UnitRows(rows, np.repeat(np.arange(ROWS), bound)[:ROWS].astype(np.uint64), bound)
    ledger = Ledger(math.inf, 1e-5)
    mechanism = SubsampledGaussian(noise_multiplier=1.0, sampling_rate=RATE)
    step = PrivateStep(
        mlp([WIDTH, 256, 256, 1], rng, activation="leaky-relu"),
        table=PrivateTable(table, ledger),
        account=ledger.open("critic", mechanism, STEPS),
        rate=RATE,
        expected_batch=RATE * ROWS,
        generator=torch.Generator().manual_seed(1),
        clipping=Clipping(bound="public", max_norm=0.5),
        most_rows=max(bound, 1),
    )
    losses, pool, times = RowLosses(rng, penalty=penalty, paired=False), rows[:1000], []
    for _ in range(STEPS):
        losses.against(pool)
        started = time.process_time()
        step.gradient(losses, pool)
        times.append(time.process_time() - started)
    return 1000 * float(np.median(times))


def steps(name: str) -> dict[str, Any]:
    """Costs of steps over units beside those over rows, in one process."""
    torch.set_num_threads(1)
    return {str(bound): round(milliseconds(LOSSES[name], bound), 1) for bound in (0, *BOUNDS)}


def page(results: dict[str, Any]) -> str:
    lines = [
        "# GANs under a unit",
        "",
        "`python reports/units/gan_units.py` writes this page. It needs [benchmark files](../../data/README.md#benchmark-files). [The privacy unit](../../docs/how-to/privacy-unit.md) explains"
        " the terms.",
        "",
        "## A private step",
        "",
        f"CPU time of one step, in ms, on one thread: about {int(RATE * ROWS):,} rows of {WIDTH} codes, a critic of two"
        " hidden layers of 256, and units that all have as many rows as the bound.",
        "",
        "| critic of | over rows | " + " | ".join(f"units of {b}" for b in BOUNDS) + " |",
        "|---|---|" + "---|" * len(BOUNDS),
    ]
    for name in LOSSES:
        found = results.get(f"steps-{name}")
        if found is not None:
            base = found["0"]
            cells = [f"{found[str(b)]:.0f} ({found[str(b)] / base:.2f}×)" for b in BOUNDS]
            lines.append(f"| {name} | {base:.0f} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## DPWGAN on hospital encounters",
        "",
        f"One fit each at ε = {EPSILON:g}, δ = 10⁻⁵, with the default settings and one seed: mean total variation"
        " distance of columns and of pairs of columns from all encounters (0 is best, 1 is worst). One seed does not"
        " tell small differences apart.",
        "",
        "| privacy unit | columns | pairs | CPU seconds |",
        "|---|---|---|---|",
    ]
    for bound in (0, *BOUNDS):
        found = results.get(f"fit-{bound}")
        if found is not None:
            unit = f"a patient, at most {bound} rows" if bound else "one encounter"
            figures = f"{found['tvd1']:.3f} | {found['tvd2']:.3f} | {found['cpu_seconds']:.0f}"
            lines.append(f"| {unit} | {figures} |")
    return "\n".join([*lines, ""])


def main() -> None:
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    work = {
        **{f"steps-{name}": (steps, name) for name in LOSSES},
        **{f"fit-{b}": (fit, b) for b in (0, *BOUNDS)},
    }
    for name, (measure, argument) in work.items():
        if name not in results and "--page" not in sys.argv:
            results[name] = {**measure(argument), "code": code()["sha256"][:12]}  # type: ignore[operator]
            RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
            print(name, results[name], flush=True)
    PAGE.write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
