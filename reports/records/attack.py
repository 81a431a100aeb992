"""Attribute reconstruction beside the nearest rows alone, on tables that copy rows and on private ones.

``python reports/records/attack.py`` is run by the harness. It reads the tables of reports/benchmark.
"""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "benchmark")]
import style  # noqa: E402
from harness import Row, Rows, Study, fill, releases, table  # noqa: E402
from tables import TABLES  # noqa: E402

from tabsynth import DPWGAN, MargNet  # noqa: E402
from tabsynth.evaluation import Tables  # noqa: E402
from tabsynth.evaluation.attacks import disclosure, gower, nearest, reconstruction  # noqa: E402
from tabsynth.evaluation.inputs import meaning  # noqa: E402
from tabsynth.evaluation.metric import halves  # noqa: E402
from tabsynth.evaluation.results import difference_of_shares  # noqa: E402

PEOPLE, NEIGHBOURS = 4000, (1, 5, 10, 100)
KNOWN = {  # quasi-identifiers of NIST's SDNist, and what others know of adults and patients
    "census": "SEX MSP RAC1P OWN_RENT EDU PUMA INDP_CAT",
    "adult": "age workclass education-num marital-status race sex native-country",
    "hospital": "race gender age admission_type_id discharge_disposition_id time_in_hospital medical_specialty",
}
# By method: its title, and the share of cells that are redrawn or ε.
COPIES = {
    "copy": ("copied rows", 0.0),
    "copy-20": ("copied rows, 20% of cells redrawn", 0.2),
    "copy-50": ("copied rows, 50% of cells redrawn", 0.5),
    "columns-30": ("copied rows, 30% of columns redrawn", 0.3),
}
FITS = {
    "margnet-inf": ("MargNet, ε = ∞", math.inf),
    "dpwgan-inf": ("DP-WGAN, ε = ∞", math.inf),
    "margnet-1": ("MargNet, ε = 1", 1.0),
    "margnet-0.5": ("MargNet, ε = 0.5", 0.5),
    "dpwgan-1": ("DP-WGAN, ε = 1", 1.0),
    "dpwgan-1-short": ("DP-WGAN, ε = 1, 20 s", 1.0),
    "dpwgan-0.5-short": ("DP-WGAN, ε = 0.5, 20 s", 0.5),
}
METHODS = COPIES | FITS
WITHOUT_NOISE = [method for method, (_, epsilon) in FITS.items() if math.isinf(epsilon)]
PRIVATE = [method for method in FITS if method not in WITHOUT_NOISE]
SETTINGS = {
    f"{name}/{method}/{seed}": (name, method, seed)
    for method in METHODS
    for name in KNOWN
    for seed in ((1,) if method in (*WITHOUT_NOISE, "dpwgan-1") else (1, 2, 3))
}


def copies(codes: np.ndarray, method: str, seed: int) -> np.ndarray:
    """Return a bootstrap of the rows, with a share of the cells or of the columns redrawn."""
    rng, share = np.random.default_rng(seed), COPIES[method][1]
    out = codes[rng.integers(0, len(codes), len(codes))]
    if method.startswith("columns"):
        for j in rng.permutation(out.shape[1])[: round(share * out.shape[1])]:
            out[:, j] = rng.permutation(out[:, j])
        return out
    for j in range(out.shape[1]):
        cells = np.flatnonzero(rng.random(len(out)) < share)
        out[cells, j] = codes[rng.integers(0, len(codes), len(cells)), j]
    return out


def measure(setting: tuple[str, str, int]) -> Row:
    """Return what attribute reconstruction and the nearest rows find in one table."""
    name, method, seed = setting
    schema, *frames = TABLES[name].split()
    if method in FITS:
        facts: dict[str, Any] = {"epsilon": FITS[method][1], "random_state": seed}
        if method == "margnet-inf":
            facts["time_limit"] = 60
        if method.startswith("dpwgan"):
            model: Any = DPWGAN(schema, **facts, time_budget=20 if "short" in method else None)
        else:
            model = MargNet(schema, **facts)
        model.fit(frames[0])
        frames.append(model.sample(len(frames[0]), random_state=seed))
    train, test, *rows = (
        np.stack([c.encode(frame[c.name]) for c in schema.comparable.columns], axis=1)
        for frame in frames
    )
    rng = np.random.default_rng(seed)
    reference, control = halves(test, rng)
    tables = Tables(
        train=train,
        synthetic=rows[0] if rows else copies(train, method, seed),
        holdout=test,
        baseline=train[:0],
        reference=reference,
        control=control,
        **vars(meaning(schema.comparable, known=KNOWN[name].split())),
    )
    (metric,) = reconstruction.reconstruction(tables, PEOPLE, np.random.default_rng(seed))
    details = metric.details
    return {
        "people": metric.n // 2,
        "difference": [metric.value, metric.low, metric.high],
        **{name: getattr(details, name) for name in ("members", "controls", "majority")},
        "training_table": details.memorizing.value,
        "nearest": nearest_rows_alone(tables, np.random.default_rng(seed)),
    }


def nearest_rows_alone(tables: Tables, rng: np.random.Generator) -> dict[str, list[float]]:
    """Return, by number of neighbours, both groups' scores and the ends of the interval of their difference.

    People, known columns, guessed columns and score are those of attribute reconstruction, which draws as this does.
    """
    known = list(tables.known)
    targets = [j for j in range(len(tables.sizes)) if j not in known]
    targets = sorted(rng.permutation(targets)[: reconstruction.MAX_TARGETS].tolist())
    assert tables.control is not None
    n = min(PEOPLE, len(tables.train), len(tables.control))
    people = np.concatenate([nearest.draw_rows(t, n, rng) for t in (tables.train, tables.control)])
    worth, ordered = reconstruction.rarity(people[:, targets]), gower.places(tables)
    searched = nearest.HammingSearch(tables.synthetic[:, known], [tables.sizes[j] for j in known])
    distances = (searched.distance(searched.differs(record)) for record in people[:, known])
    near = np.stack([nearest.nearest(distance, max(NEIGHBOURS), rng)[0] for distance in distances])
    hits = np.empty((len(NEIGHBOURS), *worth.shape))
    for i, j in enumerate(targets):
        votes = disclosure.majorities(tables.synthetic[near, j], tables.sizes[j], NEIGHBOURS, rng)
        for number, guess in enumerate(votes.T):
            hits[number, :, i] = gower.right(ordered[j], guess, people[:, j])
    out = {}
    for k, score in zip(NEIGHBOURS, (hits * worth).mean(axis=2), strict=True):
        found = difference_of_shares(score[:n], score[n:])
        out[str(k)] = [float(score[:n].mean()), float(score[n:].mean()), found.low, found.high]
    return out


def of(rows: Rows, name: str, method: str) -> list[Row]:
    """Return the rows of a table and a method, by seed."""
    return [rows[key] for key, s in SETTINGS.items() if key in rows and s[:2] == (name, method)]


def found(items: list[Row], learned: bool) -> np.ndarray:
    """Return what reconstruction and the nearest rows with each k find, and the two ratios; shape (1 + k + 2,).

    Differences between the groups; where ``learned``, scores on control people beyond that of the commonest value.
    """
    by_k = np.array([[row["nearest"][str(k)][:2] for k in NEIGHBOURS] for row in items])
    ours = np.array([[row["members"], row["controls"]] for row in items])[:, None]
    both = np.concatenate([ours, by_k], axis=1)
    base = np.array([row["majority"] for row in items])[:, None]
    means = (both[..., 1] - base if learned else both[..., 0] - both[..., 1]).mean(axis=0)
    return np.array([*means, means[0] / means[1:].mean(), means[0] / means[1:].max()])


def ceilings(rows: Rows) -> dict[str, float]:
    """Return, by table, what an attacker finds who is told which of the copied rows is whose, by the best k.

    A bootstrap holds 1 − 1/e of the rows. Such people are guessed right, and others as well as control people.
    """
    out = {}
    for name in KNOWN:
        items = of(rows, name, "copy")
        controls = np.mean([row["controls"] for row in items])
        out[name] = (1 - 1 / math.e) * (1 - controls) / found(items, learned=False)[1:-2].max()
    return out


def page(rows: Rows) -> str:
    """Return the page of all rows."""
    leaks = {(n, m): found(of(rows, n, m), learned=False) for m in COPIES for n in KNOWN}
    taught = {(n, m): found(of(rows, n, m), learned=True) for m in WITHOUT_NOISE for n in KNOWN}
    best, learned = ([item[-1] for item in items.values()] for items in (leaks, taught))
    private = [r["difference"] for m in PRIVATE for n in KNOWN for r in of(rows, n, m)]
    head = ["table", "rows of the attacker", "reconstruction", *(f"k = {k}" for k in NEIGHBOURS)]
    wide = [*head, "ratio to mean of k", "ratio to best k"]
    compared = [
        table(wide, [[*_titles(*key), *(f"{x:.3f}" for x in each[key])] for key in each])
        for each in (leaks, taught)
    ]
    parts = {
        "RESULT": f"In copied rows it finds {min(best):.2f} to {max(best):.2f} times as much leakage as the best *k*."
        f" In rows of models without noise, its guesses are worth {min(learned):.2f} to {max(learned):.2f} times as much."
        f" In private tables, {sum(low <= 0 <= high for _, low, high in private)} of {len(private)} intervals hold 0.",
        "AIM": f"The ratio to the best *k* is at least 1.3 in {sum(np.array(best) >= 1.3)} of {len(best)} kinds of copied rows"
        f" and in {sum(np.array(learned) >= 1.3)} of {len(learned)} tables of models without noise.",
        "CEILINGS": ", ".join(f"{TABLES[n].title} {x:.2f}" for n, x in ceilings(rows).items()),
        "COPIES": compared[0],
        "TAUGHT": compared[1],
        "PRIVATE": table(
            [*head[:2], "difference by seed (95% interval)", "training table itself"],
            [_of_private(rows, name, method) for method in PRIVATE for name in KNOWN],
        ),
        "RELEASE": releases(rows.values()),
    }
    return fill(HERE / "attack.template.md", parts)


def _titles(name: str, method: str) -> list[str]:
    return [TABLES[name].title, METHODS[method][0]]


def _of_private(rows: Rows, name: str, method: str) -> list[str]:
    items = of(rows, name, method)
    texts = ["{:.3f} ({:.3f} to {:.3f})".format(*row["difference"]) for row in items]
    whole = np.mean([row["training_table"] for row in items])
    return [*_titles(name, method), "; ".join(texts), f"{whole:.3f}"]


def draw(rows: Rows, folder: Path) -> None:
    """Draw the differences of all rows with their intervals, a panel for each table."""
    heading = "Reconstruction finds copied rows, and nothing in private tables"
    file = folder / "attack.png"
    with style.plot(file, height=4.9, title=heading, columns=3, sharey=True) as (_, axes):
        for axis, name in zip(axes[0], KNOWN, strict=True):
            for place, method in enumerate(METHODS):
                colour = style.COLOURS[0 if method in PRIVATE else 1]
                for shift, row in enumerate(of(rows, name, method)):
                    (value, *ends), y = row["difference"], 0.2 - 0.2 * shift - place
                    axis.plot(ends, [y, y], color=colour)
                    axis.plot([value], [y], "o", color=colour, markersize=3.5)
            axis.axvline(0, color=style.BASELINE, linewidth=1)
            axis.set(title=TABLES[name].title, xlabel="training − control")
        labels = [title.replace(", ", ",\n", 1) for title, _ in METHODS.values()]
        axes[0, 0].set_yticks([-i for i in range(len(METHODS))], labels)


STUDY = Study(script=Path(__file__), settings=SETTINGS, measure=measure, page=page, draw=draw)

if __name__ == "__main__":
    STUDY.main()
