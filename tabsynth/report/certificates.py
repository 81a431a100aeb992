"""The privacy section of a report: the claims of a certificate in words, whatever fields it lacks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tabsynth.evaluation.claims import (
    ClaimCheck,
    check_claim,
    is_conditional,
    items_of,
    number_of,
    section_of,
)
from tabsynth.privacy.certificate.certificate import UNCHANGED_FACTS, condition, conditional_of
from tabsynth.report.page import format_number

NO_CERTIFICATE = "No certificate came with this table: nothing is claimed about its privacy."


@dataclass(frozen=True)
class PrivacyPanel:
    """The contents of the privacy section.

    Attributes
    ----------
    authenticated : bool
        Whether its signature was checked against a key that the reader gave.
    statement : str
        The certificate's own, if it is authenticated or claims no privacy.
    private : bool
        Whether privacy is claimed without a condition.
    condition : str
        What a conditional claim depends on, in a sentence; empty without a condition.
    warnings : tuple of str
        What a reader must not overlook: no privacy, a seed, a domain drafted from private data.
    facts : tuple of (term, text)
    mechanisms : tuple of dicts
        ``purpose``, ``mechanism``, ``noise``, ``rate``, ``count``, ``details``, all texts.
    """

    private: bool
    authenticated: bool
    statement: str
    warnings: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    mechanisms: tuple[dict[str, str], ...]
    condition: str = ""


def privacy_panel(
    certificate: Mapping[str, Any] | None,
    rows: int,
    schema_sha256: str,
    *,
    authenticated: bool = False,
) -> PrivacyPanel:
    """Return the panel of a certificate, held against the table and schema that were evaluated."""
    if certificate is None:
        return PrivacyPanel(False, False, NO_CERTIFICATE, (), (), ())
    check = check_claim(certificate, rows, schema_sha256)
    statement = certificate.get("statement") or "The certificate makes no statement in words."
    depends_on = condition_sentence(certificate)
    if depends_on and not str(statement).startswith("CONDITIONAL"):
        statement = depends_on  # of a certificate that does not follow from its own facts
    if (check.private or depends_on) and not authenticated:
        statement = " ".join(filter(None, (depends_on, unauthenticated_claim(certificate))))
    return PrivacyPanel(
        check.private,
        authenticated,
        str(statement),
        tuple(_warnings(certificate, check)),
        tuple(certificate_facts(certificate, authenticated)),
        tuple(_mechanism(item) for item in items_of(certificate.get("mechanisms"))),
        depends_on,
    )


def unauthenticated_claim(certificate: Mapping[str, Any]) -> str:
    """Return the claim of a certificate that nobody vouches for, in sentences."""
    return (
        f"The certificate that came with the table claims ε = {epsilon_text(certificate.get('epsilon'))} with"
        f" δ = {_text(certificate.get('delta'))}. It is not authenticated: no signature of it was checked"
        " against a key, so nobody vouches for this claim."
    )


def condition_sentence(certificate: Mapping[str, Any]) -> str:
    """Return what a conditional claim depends on; empty for any other."""
    if not is_conditional(certificate):
        return ""
    names = conditional_of(certificate.get("public"))
    return (
        f"CONDITIONAL: ε holds only if {condition(names)}. It was copied from the rows of a table, and these"
        " real values appear in the synthetic table as they are."
    )


def epsilon_text(value: object) -> str:
    """Return ε to four figures, or ∞."""
    number = number_of(value)
    if number is None:
        return "not stated"
    return "∞ (no privacy)" if math.isinf(number) else f"{number:.4g}"


def _warnings(certificate: Mapping[str, Any], check: ClaimCheck) -> list[str]:
    out = []
    epsilon = number_of(certificate.get("epsilon"))
    if certificate.get("seeded"):
        out.append(
            "The fit was seeded: whoever knows the seed can subtract the noise. The table is not"
            " private and must be treated as the training data itself."
        )
    if not (check.private or check.conditional or certificate.get("seeded")):
        reason = "ε is infinite" if epsilon == math.inf else "the certificate claims no finite ε"
        out.append(
            f"NOT PRIVATE: {reason}. No noise protects the people in the training data; treat the"
            " table as confidential."
        )
    for audit in check.refuting_audits:
        out.append(f"An audit ({_text(audit.get('method'))}) REFUTED the claim: {_audit(audit)}.")
    noise = section_of(certificate, "noise")
    if noise.get("exact") is False:
        out.append(
            f"The noise was not exactly that which is accounted for: {_text(noise.get('law'))}."
        )
    public = section_of(certificate, "public")
    if public.get("accepted_drafted_domain") and not check.conditional:
        out.append(
            "The domain of some columns was read off the private table and accepted as it was: ε"
            " does not cover what the categories and bounds themselves reveal."
        )
    if check.other_rows is not None:
        out.append(
            f"The certificate speaks of a table of {check.other_rows} rows; this one has {check.rows}."
        )
    if check.other_schema:
        out.append("The certificate speaks of another schema than the one used in this report.")
    return out


def certificate_facts(
    certificate: Mapping[str, Any], authenticated: bool = False
) -> list[tuple[str, str]]:
    """Return terms and texts; what a certificate of an older format does not have is left out."""
    sections = ("accountant", "training", "table", "versions", "project", "code", "noise")
    accountant, training, table, versions, project, code, noise = (
        section_of(certificate, name) for name in sections
    )
    library = " ".join(str(accountant[key]) for key in ("library", "version") if key in accountant)
    facts = {
        "Method": _text(certificate.get("method")),
        "Settings": _settings(section_of(certificate, "settings")),
        "ε spent": epsilon_text(certificate.get("epsilon")),
        "ε asked for": epsilon_text(certificate.get("epsilon_asked")),
        "δ": _text(certificate.get("delta")),
        "Neighbouring tables": _text(certificate.get("adjacency")),
        "Privacy unit": _text(certificate.get("privacy_unit")),
        "Composition": _text(certificate.get("composition"), ""),
        "Accountant": _text(accountant.get("name")) + (f" ({library})" if library else ""),
        "Seeded": "yes" if certificate.get("seeded") else "no",
        **_public_facts(section_of(certificate, "public")),
        "Training stopped by": _text(training.get("stopped"), ""),
        "Table": f"{_text(table.get('file'))}, SHA-256 {_text(table['sha256'])}"
        if table.get("sha256")
        else "",
        "Made with": ", ".join(f"{key} {value}" for key, value in versions.items()),
        "Certificate of": _text(certificate.get("created"), ""),
    }
    # What a reader can hold the claim against.
    if project:
        composition = section_of(project, "composition").get("name")
        together = f"{epsilon_text(project.get('limit'))}, kept by a {_text(composition)}"
        facts["ε of all fits under its ledger"] = f"{together}, {_text(project.get('ledger'))}"
    if code:
        facts["Code of tabsynth, SHA-256"] = _text(code.get("sha256"))
    if noise:
        facts |= {"Noise from": _text(noise.get("generator")), "Noise is": _text(noise.get("law"))}
    # Two audits may be of one method.
    audits = items_of(certificate.get("audit"))
    audited = [(f"Audit: {_text(audit.get('method'))}", _audit(audit)) for audit in audits]
    stated = [(term, text) for term, text in facts.items() if text]
    return [*stated, *audited, ("Signature", _signature(certificate, authenticated))]


def relations(certificate: Mapping[str, Any], columns: Sequence[str]) -> list[tuple[str, str]]:
    """Return which relations between columns a fit of MargNet measured, as terms and texts; none where the certificate has no list."""
    listed = section_of(certificate, "training").get("counted")
    if not isinstance(listed, list):
        return []
    sets = [
        sorted(names, key=columns.index)
        for names in listed
        if isinstance(names, list) and all(name in columns for name in names)
    ]
    shown = {pair for names in sets for pair in combinations(names, 2)}
    pairs = [pair for pair in combinations(columns, 2) if pair in shown]
    others = [pair for pair in combinations(columns, 2) if pair not in shown]
    larger = [" × ".join(names) for names in sets if len(names) > 2]
    measured = [
        "each column",
        *(_pairs(pairs) if others else ["each pair of columns"] * bool(pairs)),
    ]
    return [
        ("Measured, with noise", "; ".join([*measured, *larger])),
        ("From the model only", "; ".join(_pairs(others)) or "no pair of columns"),
        ("Not supported", "relations of three and more columns that no measured set has"),
    ]


def _pairs(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return pairs of columns as texts, one for each first column."""
    first = dict.fromkeys(pair[0] for pair in pairs)
    return [f"{a} × {', '.join(c for b, c in pairs if b == a)}" for a in first]


def _signature(certificate: Mapping[str, Any], authenticated: bool) -> str:
    signature = section_of(certificate, "signature")
    if not signature:
        return "none"
    how = "checked against the key that was given"
    if not authenticated:
        how = "not checked; `tabsynth evaluate --key` and `tabsynth verify --key` check it"
    return f"by key {_text(signature.get('public_key'))}, {how}"


def _audit(audit: Mapping[str, Any]) -> str:
    parts = [_text(audit["verdict"])] if audit.get("verdict") else []
    if audit.get("epsilon_lower_bound") is not None:
        bound = f"ε is at least {epsilon_text(audit['epsilon_lower_bound'])}"
        confidence = number_of(audit.get("confidence"))
        parts.append(bound if confidence is None else f"{bound} ({confidence:.4g} confidence)")
    return (
        ", ".join([*parts, *([_text(audit["date"])] if audit.get("date") else [])]) or "no result"
    )


def _public_facts(public: Mapping[str, Any]) -> dict[str, str]:
    if not public:
        return {}
    hints = ("class_shares", "workload", "target", "tables")  # optional and data-independent
    return {
        "Public: declared columns": _names(public.get("declared")),
        "Drafted columns, copied from rows": _names(public.get("drafted")),
        "Declared, unchanged from a draft of the rows": _text(
            public.get(UNCHANGED_FACTS) or None, ""
        ),
        "Columns left out": _names(public.get("left_out")),
        "Drafted domain accepted": "yes" if public.get("accepted_drafted_domain") else "no",
        "Public: number of rows": _text(public.get("rows"), "no, not used"),
        "Public: what rows stand for": _text(public.get("design"), ""),
        "Public: other table": _text(public.get("public_table"), "none"),
        **{f"Public: {name.replace('_', ' ')}": _text(public.get(name), "") for name in hints},
        "Schema, SHA-256": _text(public.get("schema_sha256") or None, ""),
    }


def _settings(settings: Mapping[str, Any]) -> str:
    """Return the settings in the order of the certificate; an older one has none."""
    return _text(
        {
            name.replace("_", " "): _names(value)
            if isinstance(value, list)
            else _text(value, "none")
            for name, value in settings.items()
        }
    )


def _names(value: object) -> str:
    names = [str(name) for name in value] if isinstance(value, list | tuple) else []
    return ", ".join(names) or "none"


def _text(value: object, absent: str = "not stated") -> str:
    if value is None:
        return absent
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(item)}" for key, item in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _mechanism(item: Mapping[str, Any]) -> dict[str, str]:
    accounting, noise = item.get("accounting"), _figures(item.get("noise_multiplier"))
    if item.get("mechanism") == "noisy-vote":
        noise = f"{_figures(item.get('noise'))} of {_text(item.get('teachers'))} votes"
    return {
        "purpose": _text(item.get("purpose")),
        "mechanism": _text(item.get("mechanism"))
        + (f", {accounting} accounting" if accounting else ""),
        "noise": noise,
        "rate": _figures(item.get("sampling_rate")),
        "count": _text(item.get("count"), "–"),
        "details": _text(section_of(item, "details")),
    }


def _figures(value: object) -> str:
    return format_number(number_of(value), 4, "significant")
