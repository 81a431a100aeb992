"""The definitions of all metrics, by the part of the reference page that lists them."""

from tabsynth.evaluation import charged, linked
from tabsynth.evaluation.attacks import anonymeter, disclosure, membership
from tabsynth.evaluation.definitions import Definition
from tabsynth.evaluation.utility import (
    associations,
    columns,
    constraints,
    groups,
    marginals,
    prediction,
    propensity,
    subgroups,
    target,
    totals,
)

METRICS: dict[str, tuple[Definition, ...]] = {
    "utility": (
        marginals.DISTANCE,
        marginals.SCORE,
        prediction.PREDICTION,
        columns.PROBABILITY,
        associations.PEARSON,
        associations.CRAMER,
        propensity.RATIO,
        columns.COVERAGE,
        subgroups.GAP,
        totals.POPULATION,
        totals.TOTALS,
        target.AUROC,
        target.AUPRC,
        target.CALIBRATION,
        constraints.VIOLATIONS,
    ),
    "attacks": (
        disclosure.LEAKAGE,
        membership.PRESENCE,
        membership.DENSITY_RATIO,
        anonymeter.SINGLING_OUT,
        anonymeter.LINKABILITY,
        anonymeter.INFERENCE,
    ),
    "linked": (
        linked.KEYS,
        groups.GROUP_SIZE,
        groups.BETWEEN_LEVELS,
        groups.SIBLING_PAIRS,
        groups.SIBLING_DIFFERENCES,
        groups.POSITION,
        groups.SEQUENCES,
    ),
    "published": (charged.DISTANCE, charged.SCORE, charged.SIZE),
}
