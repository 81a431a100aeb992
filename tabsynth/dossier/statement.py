"""The privacy statement: one page for people, in the order of NIST SP 800-226, which loads nothing else."""

import hashlib
from collections.abc import Mapping
from typing import Any

from tabsynth.dossier.material import Material
from tabsynth.evaluation.claims import section_of
from tabsynth.privacy.accounting.attackers import AttackBounds, percent
from tabsynth.privacy.accounting.attackers import rounded_up as short
from tabsynth.privacy.certificate.certificate import code, conditional_of, rounded_up
from tabsynth.report.certificates import certificate_facts
from tabsynth.report.page import render

BELIEFS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75)
IMPLEMENTATION = (  # of the facts of a certificate
    *("Method", "Settings", "Composition", "Accountant", "Noise from", "Noise is", "Made with"),
    *("Code of tabsynth, SHA-256", "Certificate of"),
)
UNSIGNED = "The certificate is not signed. Anyone who can write these files can write such a certificate; ask the curator."


def statement(material: Material) -> str:
    """Return the HTML text of the page."""
    bounds, report = material.bounds, material.report
    costs = {**material.costs, "total": material.total}
    return render(
        "dossier/statement.html",
        generator=code()["sha256"],
        material=material,
        answers=material.answers,
        certificate=material.certificate,
        conditional=bool(conditional_of(material.public)),
        notes=_notes(material),
        tables=material.tables,
        report=report,
        costs={name: f"ε = {rounded_up(e)}, δ = {d:g}" for name, (e, d) in costs.items()},
        bounds=bounds,
        advantage=short(bounds.advantage),
        odds=short(bounds.odds),
        beliefs=[
            (f"{belief:.0%}", percent(bounds.posterior(belief)), _least(bounds, belief))
            for belief in BELIEFS
        ],
        implementation=[
            (term, text)
            for term, text in certificate_facts(material.certificate)
            if term in IMPLEMENTATION or term.startswith("Audit: ")
        ],
        signature=_signature(material),
        figures=[] if report is None else _figures(report),
    )


def _least(bounds: AttackBounds, belief: float) -> str:
    """Return the smallest probability that may come out, rounded down: the largest one of the opposite."""
    opposite = float(percent(bounds.posterior(1 - belief)).removesuffix("%"))
    return f"{round(100 - opposite, 5):g}%"


def _notes(material: Material) -> list[str]:
    noise = section_of(material.certificate, "noise")
    inexact = noise.get("exact") is False
    text = f"The noise was not exactly the one that is accounted for: {noise.get('law')}."
    return [text] if inexact else []


def _signature(material: Material) -> str:
    signature = section_of(material.certificate, "signature")
    if not signature:
        return UNSIGNED
    fingerprint = hashlib.sha256(bytes.fromhex(str(signature["public_key"]))).hexdigest()
    until = material.certificate.get("expires")
    return f"Signed with the key of fingerprint {fingerprint}" + (
        f", until {until}." if until else "."
    )


def _figures(report: Mapping[str, Any]) -> list[str]:
    """Return the figures of a published report, as its summary states them."""
    claims = {report["statement"], *(f"Warning: {text}" for text in report["warnings"])}
    return [line for line in report["summary"] if line not in claims]
