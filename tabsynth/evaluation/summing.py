"""Prediction, distances and disclosure in the one form of a `Metric`."""

from collections.abc import Sequence

import numpy as np

from tabsynth.evaluation.disclosure import attribute_disclosure
from tabsynth.evaluation.metric import (
    PRIVACY,
    SHOWN_PARTS,
    UTILITY,
    Metric,
    Part,
    Tables,
    worst_first,
)
from tabsynth.evaluation.results import Disclosure, Distance, Distances, Estimate, Prediction

PREDICTION = "Choi et al. 2017 (medGAN), arXiv:1703.06490; bootstrap over test rows"
DISTANCE = "Tao et al. 2021, arXiv:2112.09238; delta method, van der Vaart 1998"
DISCLOSURE = "Choi et al. 2017 (medGAN); control group as Giomi et al. 2023 (Anonymeter)"
REFERENCE_RECORDS = 200  # attacked in each group where a reference table is searched
REFERENCE_NEIGHBOURS = (1, 10)
_WAYS = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}


def predicted(prediction: Prediction, classifier: str, key: str) -> list[Metric]:
    """Mean F1 over columns, weighted and macro, by one classifier.

    The fresh real sample is the training table itself: the rows that all are tested on are not in it.
    """
    out = []
    for average in ("weighted", "macro"):
        parts = [
            Part(
                column.column,
                getattr(column.synthetic, average).value,
                getattr(column.train, average).value,
                getattr(column.floor, average).value,
                prediction.test_rows,
            )
            for column in prediction.columns
        ]
        mean = prediction.mean
        seen = " The test rows were seen by the synthesizer: optimistic." if prediction.seen else ""
        out.append(
            Metric(
                f"{key}_{average}",
                f"Dimension-wise prediction, {average} F1, {classifier}",
                UTILITY,
                getattr(mean.synthetic, average),
                getattr(mean.train, average),
                getattr(mean.floor, average),
                "higher",
                getattr(mean.train, average).value,
                "Each column predicted from the others by a classifier fitted on the table and tested"
                f" on real rows: mean F1. Fresh is the training table.{seen}",
                PREDICTION,
                worst_first(parts, "higher", SHOWN_PARTS),
            )
        )
    return out


def distant(distances: Distances) -> Metric:
    """Mean total variation distance of the marginals of one order; the worst are its parts."""
    names = [" × ".join(marginal.columns) for marginal in distances.synthetic.marginals]
    fresh, floor = _values(distances.fresh), _values(distances.floor)
    parts = [
        Part(name, marginal.value, fresh[i] if fresh else None, floor[i] if floor else None)
        for i, (name, marginal) in enumerate(zip(names, distances.synthetic.marginals, strict=True))
    ]
    return Metric(
        f"tvd{distances.order}",
        f"Total variation distance, {_WAYS[distances.order]}",
        UTILITY,
        distances.synthetic.mean,
        None if distances.fresh is None else distances.fresh.mean,
        distances.floor.mean,
        "lower",
        0.0,
        "Share of rows that would have to move to make the counts equal: mean over"
        f" {len(parts)} sets of columns. 0 is equal, 1 is disjoint.",
        DISTANCE,
        worst_first(parts, "lower", SHOWN_PARTS),
        of_relations=distances.order > 1,
    )


def _values(distance: Distance | None) -> list[float] | None:
    return None if distance is None else [marginal.value for marginal in distance.marginals]


def disclosed(
    disclosure: Disclosure, tables: Tables, k: Sequence[int], rng: np.random.Generator
) -> Metric | None:
    """Mean leakage over the grid; None without a control group or with one column.

    The references search a half of the hold-out and shuffled columns, with fewer records; their control
    group is the other half.
    """
    if disclosure.mean is None or disclosure.mean.leakage is None:
        return None
    some = [x for x in k if x in REFERENCE_NEIGHBOURS] or [min(k)]

    def leak(table: np.ndarray | None) -> Estimate | None:
        if table is None or tables.control is None:
            return None
        found = attribute_disclosure(
            tables.train,
            table,
            tables.control,
            sizes=tables.sizes,
            k=some,
            m=REFERENCE_RECORDS,
            rng=rng,
            exposed=False,
        )
        assert found.mean is not None
        return found.mean.leakage

    parts = [
        Part(f"s = {cell.s}, k = {cell.k}", cell.leakage.value, n=cell.leakage.n)
        for cell in disclosure.cells
        if cell.leakage is not None
    ]
    return Metric(
        "attribute_disclosure",
        "Attribute disclosure: leakage",
        PRIVACY,
        disclosure.mean.leakage,
        leak(tables.fresh),
        leak(tables.floor),
        "lower",
        0.0,
        "How much oftener a vote of the nearest rows guesses the unknown attributes of people of the"
        " training table than of people who are not in it. Mean over the grid of s and k.",
        DISCLOSURE,
        worst_first(parts, "lower", SHOWN_PARTS),
    )
