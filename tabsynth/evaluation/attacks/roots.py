"""Attacks on linked tables whose target is a root with its other records: a household, a patient with all visits.

The attacks are those on rows (:mod:`tabsynth.evaluation.attacks.membership`), on one wide row for each root. Two roots are
as far apart as their own columns, the sizes of their groups, and their rows slot by slot: by their order, or sorted by
their values where rows have none.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tabsynth.evaluation.attacks.membership import membership
from tabsynth.evaluation.grouped import (
    LevelColumns,
    Levels,
    independent_children,
    wide_rows,
    wide_slots,
)
from tabsynth.evaluation.metric import Compared, Metric, Tables, halves

MAX_ATTACKED = 500  # roots in each group


def root_membership(
    train: Levels,
    synthetic: Levels,
    holdout: Levels | None,
    columns: Mapping[str, LevelColumns],
    rng: np.random.Generator,
    m: int = MAX_ATTACKED,
) -> list[Metric]:
    """Return presence disclosure and density ratio, of roots; empty without four roots in the hold-out.

    Parameters
    ----------
    m : int
        Roots of the training tables, and roots of the hold-out, that are attacked.
    """
    root = next(iter(train))
    if holdout is None or len(holdout[root]) < 4:
        return []
    slots = wide_slots(train, columns)
    baseline = independent_children(train, columns, rng)
    wide = Compared(synthetic, holdout, baseline).map(
        lambda levels: wide_rows(levels, columns, slots).codes
    )
    about = wide_rows(train, columns, slots)
    assert wide.holdout is not None
    reference, control = halves(wide.holdout, rng)
    assert reference is not None and control is not None
    tables = Tables(
        train=about.codes,
        synthetic=wide.synthetic,
        baseline=wide.baseline,
        holdout=wide.holdout,
        reference=reference,
        control=control,
        names=about.names,
        sizes=about.sizes,
        scores=about.scores,
    )
    people, controls = (t[rng.permutation(len(t))[:m]] for t in (about.codes, control))
    return [
        replace(
            metric,
            key=f"{root}.{metric.key}",
            title=f"{metric.title}: rows of {root} with their other records",
            note=f"{metric.note} A person or record is here a row of {root} with its other records.".lstrip(),
        )
        for metric in membership(tables, people, controls, rng)
    ]
