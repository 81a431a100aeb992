"""The privacy statement: one page for people, in the order of NIST SP 800-226, which loads nothing else."""

import hashlib
import math
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
CERTAINTY = 0.95  # of a decision between two counts
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
        threshold=suppression_threshold(float(short(bounds.advantage))),
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


def suppression_threshold(advantage: float) -> int:
    """Return N such that nobody tells two counts of units with a difference of N − 1 apart with more than 95% certainty.

    A table that hides counts below N leaves 0 to N − 1 alike. Releases on tables that differ by k units are at a total
    variation distance of at most k times the attacker's advantage, so that a decision between two such tables, equally
    likely, is right with probability (1 + k · advantage) / 2 at most (Wasserman & Zhou 2010; Kulynych et al. 2024). With
    an advantage above 0.9 the result is 1, which is no threshold. The page "ε in terms of cell suppression" of the
    documentation has the proof.
    """
    return math.floor((2 * CERTAINTY - 1) / max(advantage, 1e-9) + 1e-9) + 1


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
