"""The registration of every method. To add a method, add an entry to ``METHODS``.

The command line, plans, certificates, audits and model files derive their lists of methods from it. Nothing here
imports an estimator or torch, so that a certificate is verified without them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

ONE_WAY, JOINT, COUNT = "one-way counts", "joint counts", "row count"
OVERLAP, CRITIC, VOTES = "overlap with the public table", "critic", "votes"
AUTOENCODER, CLASS_VOTES, SCORES = "autoencoder", "class votes", "scores of pairs"
TABLES, TOTAL = "declared tables", "total of the survey weights"
PROFILES, BY_EVENT = "profiles", "codes by the first event"  # of rows of the root of linked tables
# Purposes of many releases, of which a time limit may leave some out. All others come before the first step.
STEPS = (AUTOENCODER, CRITIC, VOTES, CLASS_VOTES)
# A private draft of a schema charges all of these, whatever it releases.
DRAFT = (
    "schema: formats of columns",
    *(f"schema: values of columns, round {number}" for number in range(1, 6)),
    "schema: values that are not released",
)
CONCEPTS = "schema: concepts of persons"  # which the schema of an OMOP database charges
DIFFERENT = "schema: numbers of different values"  # which some drafts charge besides


def count_uses(items: Iterable[Mapping[str, Any]], purpose: str) -> int:
    """Return how often mechanisms of a purpose are used, as plans and certificates list them."""
    return sum(item["count"] for item in items if item["purpose"] == purpose)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The statements of a certificate on a fit that decide what the fit must have charged.

    Attributes
    ----------
    columns : int or None
        Columns of the table; None where the certificate does not say.
    rows_declared : bool
        Whether the number of rows was declared to be public.
    warm_start : bool
        Whether the fit began from a fitted synthesizer.
    stopped : bool
        Whether the fit ended before its plan did, so that steps may be missing.
    private_autoencoder : bool
        Whether an autoencoder learned from private rows.
    counted_pairs : bool
        Whether an autoencoder learned from noisy counts of pairs of columns.
    class_votes : bool
        Whether teachers voted on classes besides.
    tables : tuple of str
        Of linked tables, those whose records are counted.
    declared_tables : bool
        Whether tables were declared that must be accurate.
    weighted : bool
        Whether rows have survey weights.
    """

    columns: int | None
    rows_declared: bool
    warm_start: bool
    stopped: bool
    private_autoencoder: bool = False
    counted_pairs: bool = False
    class_votes: bool = False
    tables: tuple[str, ...] = ()
    declared_tables: bool = False
    weighted: bool = False


# By name of a curve, the mechanisms whose uses its steps count; of two, each has half of them.
CRITIC_CURVES = {
    "critic's score of generated rows": (CRITIC,),
    "critic steps per generator step": (CRITIC,),
}
VOTE_CURVES = {"student's distance of generated rows, by labels": (VOTES, CLASS_VOTES)}
# Of each tuple, one purpose must be there.
Required = list[tuple[str, ...]]


def _of_margnet(fit: Fit) -> Required:
    # All counts are released before the first step, so a fit that stopped early has them too.
    tables: Required = [(TABLES,)] if fit.declared_tables else []
    return [*tables, (ONE_WAY,), *([] if fit.columns == 1 else [(JOINT,)])]


def _of_linked(fit: Fit) -> Required:
    return [(f"{table}: {stage}",) for table in fit.tables for stage in (ONE_WAY, JOINT)]


def _of_critic(fit: Fit) -> Required:
    counts: Required = [*_pairs(fit), *([] if fit.rows_declared else [(ONE_WAY, COUNT)])]
    if fit.weighted and not fit.warm_start:
        counts.append((ONE_WAY, TOTAL))
    return counts if fit.stopped else [*counts, *_autoencoder(fit), (CRITIC,)]


def _autoencoder(fit: Fit) -> Required:
    return [(AUTOENCODER,)] if fit.private_autoencoder else []


def _pairs(fit: Fit) -> Required:
    # All counts are released before the first step.
    return [(ONE_WAY,), (SCORES,), (JOINT,)] if fit.counted_pairs else []


def _of_pate_gan(fit: Fit) -> Required:
    return [*_pairs(fit), *([] if fit.stopped else [*_autoencoder(fit), (VOTES,)])]


def _of_pate_acgan(fit: Fit) -> Required:
    classes: Required = [(CLASS_VOTES,)] if fit.class_votes and not fit.stopped else []
    return [*([] if fit.warm_start else [(ONE_WAY,)]), *_of_pate_gan(fit), *classes]


@dataclass(frozen=True, kw_only=True)
class Method:
    """The facts of a method that are needed before its estimator is imported.

    Attributes
    ----------
    module, estimator : str
        Where the subclass of ``Synthesizer`` is, and its name.
    required : callable
        From what a certificate says of a fit to the purposes that the fit must have charged.
    curves : dict
        By name of a curve that a certificate prints, the purposes whose uses its steps count. The curves of rows that cost
        nothing are not among them.
    by_schema : bool
        Whether the noise depends on the columns. A plan then needs the schema.
    audit_fixture : str or None
        The module with the method's :class:`tabsynth.auditing.fixtures.AuditFixture`. None: audits fit the method as
        it is by default.
    """

    module: str
    estimator: str
    required: Callable[[Fit], Required]
    curves: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by_schema: bool = False
    audit_fixture: str | None = None


_DP_WGAN = Method(
    module="tabsynth.synthesizers.adversarial.dpwgan",
    estimator="DPWGAN",
    required=_of_critic,
    curves=CRITIC_CURVES,
    audit_fixture="tabsynth.auditing.fixtures.gan",
)
_PATE_GAN = Method(
    module="tabsynth.synthesizers.pate.estimator",
    estimator="PATEGAN",
    required=_of_pate_gan,
    curves=VOTE_CURVES,
    audit_fixture="tabsynth.auditing.fixtures.pate",
)
METHODS: dict[str, Method] = {
    "margnet": Method(
        module="tabsynth.synthesizers.margnet.estimator",
        estimator="MargNet",
        required=_of_margnet,
        by_schema=True,
        audit_fixture="tabsynth.auditing.fixtures.margnet",
    ),
    "dp-wgan": _DP_WGAN,
    "dp-gan": replace(
        _DP_WGAN, module="tabsynth.synthesizers.adversarial.dpgan", estimator="DPGAN"
    ),
    "pate-gan": _PATE_GAN,
    "pate-acgan": replace(_PATE_GAN, estimator="PATEACGAN", required=_of_pate_acgan),
}
# Methods of linked tables. They share model files, certificates and ledgers with the others, whose tables are single.
LINKED: dict[str, Method] = {
    "linked-margnet": Method(
        module="tabsynth.synthesizers.linked.estimator",
        estimator="LinkedMargNet",
        required=_of_linked,
        by_schema=True,
        audit_fixture="tabsynth.auditing.fixtures.margnet",
    ),
}


def registration_of(method: str) -> Method:
    """Return the registration of a method, of single or of linked tables.

    Raises
    ------
    KeyError
    """
    return METHODS[method] if method in METHODS else LINKED[method]
