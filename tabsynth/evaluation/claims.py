"""The claim of a certificate for the table that was evaluated, and what contradicts it.

A certificate may come from anyone: a field that is missing or of another type claims nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tabsynth.privacy.certificate.certificate import conditional_of


@dataclass(frozen=True, kw_only=True)
class ClaimCheck:
    """A certificate's claim, held against its own audits and the table that was evaluated.

    Attributes
    ----------
    private : bool
        Whether it claims a finite ε, unseeded, without a condition.
    conditional : bool
        Whether it claims a finite ε, unseeded, that holds only if drafted columns are public.
    refuting_audits : tuple of dict
        Its audits whose verdict is "refuted", or whose lower bound of ε is above the claim.
    rows : int
        Of the evaluated table.
    other_rows : int or None
        Rows of the table that it describes, where the evaluated table has another number of rows.
    other_schema : bool
        Whether it describes a table of another schema.
    """

    private: bool
    conditional: bool
    refuting_audits: tuple[Mapping[str, object], ...]
    rows: int
    other_rows: int | None
    other_schema: bool


def check_claim(certificate: Mapping[str, object], rows: int, schema_sha256: str) -> ClaimCheck:
    """Hold a certificate against a table of so many rows, evaluated under a schema of that digest."""
    described = section_of(certificate, "table").get("rows")
    digest = section_of(certificate, "public").get("schema_sha256")
    return ClaimCheck(
        private=is_private(certificate),
        conditional=is_conditional(certificate),
        refuting_audits=_refuting_audits(certificate),
        rows=rows,
        other_rows=described if isinstance(described, int) and described != rows else None,
        other_schema=isinstance(digest, str) and digest != schema_sha256,
    )


def is_private(certificate: Mapping[str, object]) -> bool:
    """Return whether the certificate claims a finite ε, unseeded, without a condition."""
    return (
        bool(certificate.get("private", False))
        and _is_bounded(certificate)
        and not conditional_of(certificate.get("public"))
    )


def is_conditional(certificate: Mapping[str, object]) -> bool:
    """Return whether the certificate claims a finite ε, unseeded, that holds only if drafted columns are public."""
    return _is_bounded(certificate) and bool(conditional_of(certificate.get("public")))


def _is_bounded(certificate: Mapping[str, object]) -> bool:
    epsilon = number_of(certificate.get("epsilon"))
    return epsilon is not None and math.isfinite(epsilon) and not certificate.get("seeded", False)


def _refuting_audits(certificate: Mapping[str, object]) -> tuple[Mapping[str, object], ...]:
    epsilon = number_of(certificate.get("epsilon"))
    out = []
    for audit in items_of(certificate.get("audit")):
        bound = number_of(audit.get("epsilon_lower_bound"))
        exceeded = bound is not None and epsilon is not None and bound > epsilon
        if exceeded or audit.get("verdict") == "refuted":
            out.append(audit)
    return tuple(out)


def number_of(value: Any) -> float | None:
    """Return the value as a number; None where it is none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number


def section_of(certificate: Mapping[str, object], name: str) -> Mapping[str, Any]:
    """Return a section of a certificate; empty where it has none."""
    value = certificate.get(name)
    return value if isinstance(value, Mapping) else {}


def items_of(value: object) -> list[Mapping[str, Any]]:
    """Return the sections in a list; none where it is no list."""
    items = value if isinstance(value, list | tuple) else []
    return [item for item in items if isinstance(item, Mapping)]
