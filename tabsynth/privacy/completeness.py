"""Which mechanisms a certificate must list: what every fit of a method charges to its ledger.

``REQUIRED`` is the one place that knows them, by the method's name and by the purpose of an account. Settings that
a certificate states (a private autoencoder, votes on classes) require theirs. Options that it does not state (scores
of pairs; in certificates without settings, all of them) may add mechanisms; those are not required, because their
absence cannot be told from an option that was not used.

A complete list is consistent with the method. It does not prove that the listed mechanisms ran as listed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabsynth._validate import shown

ONE_WAY, JOINT, COUNT = "one-way counts", "joint counts", "row count"
OVERLAP, CRITIC, VOTES = "overlap with the public table", "critic", "votes"
AUTOENCODER, CLASS_VOTES = "autoencoder", "class votes"


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What a certificate says of a fit, as far as it decides what the fit must have charged.

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
    class_votes : bool
        Whether teachers voted on classes besides.
    """

    columns: int | None
    rows_declared: bool
    warm_start: bool
    stopped: bool
    private_autoencoder: bool = False
    class_votes: bool = False


# Of each tuple, one purpose must be there.
Required = list[tuple[str, ...]]


def _margnet(fit: Fit) -> Required:
    # All counts are released before the first step, so a fit that stopped early has them too.
    return [(ONE_WAY,)] if fit.columns == 1 else [(ONE_WAY,), (JOINT,)]


def _critical(fit: Fit) -> Required:
    counts: Required = [] if fit.rows_declared else [(ONE_WAY, COUNT)]
    return counts if fit.stopped else [*counts, *_autoencoder(fit), (CRITIC,)]


def _autoencoder(fit: Fit) -> Required:
    return [(AUTOENCODER,)] if fit.private_autoencoder else []


def _pate_gan(fit: Fit) -> Required:
    return [] if fit.stopped else [*_autoencoder(fit), (VOTES,)]


def _pate_acgan(fit: Fit) -> Required:
    classes: Required = [(CLASS_VOTES,)] if fit.class_votes and not fit.stopped else []
    return [*([] if fit.warm_start else [(ONE_WAY,)]), *_pate_gan(fit), *classes]


REQUIRED: dict[str, Callable[[Fit], Required]] = {
    "dp-gan": _critical,
    "dp-wgan": _critical,
    "margnet": _margnet,
    "pate-acgan": _pate_acgan,
    "pate-gan": _pate_gan,
}


def incomplete(certificate: Mapping[str, Any]) -> list[str]:
    """What the list of mechanisms lacks, a sentence each; empty if a fit of the method can have made it.

    Parameters
    ----------
    certificate : dict
        Of any format; its other fields need not have been checked.
    """
    items = _charged(certificate.get("mechanisms"))
    if not items:
        return ["it lists no mechanism that read private rows, so its claim has no basis"]
    method = certificate.get("method")
    if not isinstance(method, str) or method not in REQUIRED:
        return [
            f"its method {shown(method)} is unknown, so its list of mechanisms cannot be checked"
        ]
    public, training = _section(certificate, "public"), _section(certificate, "training")
    warm, settings = _section(public, "warm_start"), _section(certificate, "settings")
    fit = Fit(
        columns=columns_of(certificate),
        rows_declared=public.get("rows") is not None,
        warm_start=bool(warm),
        stopped=training.get("stopped") is not None,
        private_autoencoder=settings.get("autoencoder") in ("dp-sgd", "no-noise"),
        class_votes=settings.get("mode") == "B",
    )
    own = {
        str(item.get("purpose")) for item in items if "warm_start" not in _section(item, "details")
    }
    required = REQUIRED[method](fit)
    if isinstance(_section(public, "public_table").get("overlap"), Mapping):
        required.append((OVERLAP,))
    problems = _lacking(method, required, own)
    return problems if not warm else [*problems, *_of_warm_start(warm, items, fit.columns)]


def columns_of(certificate: Mapping[str, Any]) -> int | None:
    """How many columns the certificate says that the table has, or None."""
    public = _section(certificate, "public")
    lists = [public.get(name) for name in ("declared", "drafted")]
    found = [names for names in lists if isinstance(names, list)]
    return sum(map(len, found)) if len(found) == len(lists) else None


def _of_warm_start(
    warm: Mapping[str, Any], items: Sequence[Mapping[str, Any]], columns: int | None
) -> list[str]:
    """What lacks of the mechanisms of a warm start, which are listed under its name."""
    method, public = warm.get("method"), _section(warm, "public")
    if not isinstance(method, str) or method not in REQUIRED:
        return [f"the method {shown(method)} of its warm start is unknown"]
    listed = [item for item in items if _section(item, "details").get("warm_start") == method]
    if not listed:
        return [f"it lists no mechanism of its warm start, {method}"]
    fit = Fit(
        columns=columns,
        rows_declared=public.get("rows") is not None,
        warm_start=bool(_section(public, "warm_start")),
        stopped=True,  # nothing says whether it was
    )
    purposes = {str(item.get("purpose")) for item in listed}
    return _lacking(f"its warm start, {method},", REQUIRED[method](fit), purposes)


def _lacking(who: str, required: Required, purposes: set[str]) -> list[str]:
    return [
        f"its list of mechanisms is incomplete: a fit of {who} charges {' or '.join(map(repr, names))}"
        for names in required
        if purposes.isdisjoint(names)
    ]


def _charged(items: Any) -> list[Mapping[str, Any]]:
    """Mechanisms that were used at least once."""
    found = items if isinstance(items, list) else []
    counted = [item for item in found if isinstance(item, Mapping)]
    return [i for i in counted if isinstance(n := i.get("count"), int) and n > 0]


def _section(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}
