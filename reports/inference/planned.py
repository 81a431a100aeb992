"""The planned error of tables beside the realised one: of estimates from the noisy counts, and of synthetic rows."""

from itertools import combinations
from typing import Any

import numpy as np
from fits import Population

from tabsynth import MargNet
from tabsynth.inference import Reference
from tabsynth.inference.influence import Influence, estimates
from tabsynth.privacy.noise.counts import count_rows, number_of
from tabsynth.table_errors import plan_tables


def planned_rows(model: MargNet, people: Population, seed: int) -> dict[str, Any]:
    """Return the planned error and the realised ones of every counted pair of columns: root mean squares over cells, in rows."""
    measured = model.model_.measured
    names, by = people.schema.learned.names, measured.resolution
    counted = {m.columns for m in measured.counts if len(m.columns) == 2}
    pairs = [pair for pair in combinations(range(len(names)), 2) if pair in counted]
    tables = [[names[j] for j in pair] for pair in pairs]
    plans = plan_tables(tables, people.schema, people.rows, model.ledger_.epsilon)
    private = model.model_.encoder.to_index(people.draw(seed))
    reference = Reference(model, random_state=seed)
    synthetic = reference.codes[: reference.rows]
    out: dict[str, Any] = {}
    for pair, table, plan in zip(pairs, tables, plans, strict=True):
        true = count_rows(private, pair, by.pairs).ravel()
        synthetic_counts = (
            count_rows(synthetic, pair, by.pairs).ravel() * len(private) / len(synthetic)
        )
        estimated = estimated_counts(reference, pair, by.pairs)
        errors = [np.sqrt(np.mean((x - true) ** 2)) for x in (estimated, synthetic_counts)]
        out[",".join(table)] = [round(float(x), 3) for x in (plan.standard_error, *errors)]
    return out


def estimated_counts(reference: Reference, pair: tuple[int, ...], groups: Any) -> np.ndarray:
    """Return the counts of the groups of a pair of columns, estimated from the noisy counts."""
    shape = [number_of(groups[j]) for j in pair]
    rows = reference.distinct([reference.columns[j].name for j in pair])
    cell = np.ravel_multi_index([groups[j][rows.codes[:, j]] for j in pair], shape)
    cells = int(np.prod(shape))
    shares = np.bincount(cell, rows.synthetic, cells)

    def of(part: slice) -> np.ndarray:
        number = np.arange(part.start, part.stop)
        return (cell[:, None] == number).astype(float) - shares[part]

    intervals = estimates(reference, rows, Influence(range(cells), shares, of), 0.95)
    return intervals["estimate"].fillna(0).to_numpy() * reference.n
