"""The privacy statement: one page for people, in the order of NIST SP 800-226, which loads nothing else."""

import hashlib
from importlib import resources
from typing import Any

from markupsafe import Markup

from tabsynth.dossier.material import Material
from tabsynth.evaluation.claims import items_of, section_of
from tabsynth.privacy.accounting.attackers import percent
from tabsynth.privacy.accounting.attackers import rounded_up as short
from tabsynth.privacy.certificate.certificate import code, condition, conditional_of, rounded_up
from tabsynth.report.page import environment, packaged_text

BELIEFS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75)
UNSIGNED = "The certificate is not signed. Anyone who can write these files can write such a certificate; ask the curator."


def statement(material: Material) -> str:
    """Return the HTML text of the page."""
    certificate, answers, bounds = material.certificate, material.answers, material.bounds
    report, total = material.report, material.total
    template = resources.files("tabsynth.dossier").joinpath("statement.html").read_text("utf-8")
    return (
        environment()
        .from_string(template)
        .render(
            css=Markup(packaged_text("style.css")),  # our own file, never data
            generator=code()["sha256"],
            answers=answers,
            certificate=certificate,
            statement=material.statement,
            conditional=bool(conditional_of(material.public)),
            notes=_notes(material),
            tables=material.tables,
            epsilon=rounded_up(material.epsilon),
            delta=f"{material.delta:g}",
            report=report,
            report_epsilon="" if report is None else rounded_up(float(report["epsilon"])),
            report_delta="" if report is None else f"{float(report['delta']):g}",
            total_epsilon=rounded_up(total[0]),
            total_delta=f"{total[1]:g}",
            project=_project(material),
            total_basis=material.total_basis,
            by_row=material.by_row,
            advantage=short(bounds.advantage),
            share_of_right_guesses=bounds.share_of_right_guesses,
            odds=short(bounds.odds),
            exception=bounds.exception_clause,
            beliefs=[
                (f"{belief:.0%}", percent(bounds.posterior(belief)), _least(bounds, belief))
                for belief in BELIEFS
            ],
            basis=bounds.basis,
            implementation=_implementation(material),
            mechanisms=_mechanisms(material),
            signature=_signature(material),
            unprotected=_unprotected(material),
            figures=[] if report is None else _figures(report),
        )
    )


def _least(bounds: Any, belief: float) -> str:
    """Return the smallest probability that may come out, rounded down: the largest one of the opposite."""
    opposite = float(percent(bounds.posterior(1 - belief)).removesuffix("%"))
    return f"{round(100 - opposite, 5):g}%"


def _notes(material: Material) -> list[str]:
    notes = []
    noise = section_of(material.certificate, "noise")
    if noise.get("exact") is False:
        notes.append(
            f"The noise was not exactly the one that is accounted for: {noise.get('law')}."
        )
    return notes


def _project(material: Material) -> str:
    project = section_of(material.certificate, "project")
    if not project:
        return ""
    kept = section_of(project, "composition").get("name")
    return f"ε = {project['limit']}, δ = {project['delta']:g}, kept by a {kept}"


def _implementation(material: Material) -> list[tuple[str, str]]:
    certificate = material.certificate
    accountant, code = section_of(certificate, "accountant"), section_of(certificate, "code")
    settings = section_of(certificate, "settings")
    stated = ", ".join(
        f"{name.replace('_', ' ')}: {', '.join(value) if isinstance(value, list) else value}"
        for name, value in settings.items()
        if value not in ([], None)
    )
    versions = section_of(certificate, "versions")
    noise = section_of(certificate, "noise")
    rows = [
        ("Method", str(certificate["method"]) + (f" ({stated})" if stated else "")),
        ("Composition", str(certificate["composition"])),
        ("Accountant", " ".join(str(v) for v in accountant.values())),
        ("Noise", f"{noise.get('law', 'not stated')}; from {noise.get('generator', 'not stated')}"),
        ("Software", ", ".join(f"{name} {text}" for name, text in versions.items())),
        ("Code of tabsynth, SHA-256", str(code.get("sha256", "not stated"))),
        ("Certificate of", str(certificate["created"])),
    ]
    for audit in items_of(certificate.get("audit")):
        bound = audit.get("epsilon_lower_bound")
        found = str(audit.get("verdict", "no verdict"))
        found += "" if bound is None else f", ε is at least {bound:.3g}"
        rows.append((f"Audit: {audit.get('method')}", found))
    return rows


def _mechanisms(material: Material) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for item in items_of(material.certificate["mechanisms"]):
        noise = section_of(item, "noise_added")
        scale = noise.get("standard_deviation")
        added = str(noise.get("distribution"))
        added += "" if scale is None else f", standard deviation {scale:.4g} {noise.get('unit')}"
        rows.append(
            (
                str(item["purpose"]),
                str(item["mechanism"]),
                f"{item['count']:,}",
                added,
                str(item["sampling"]),
            )
        )
    return rows


def _signature(material: Material) -> str:
    signature = section_of(material.certificate, "signature")
    if not signature:
        return UNSIGNED
    fingerprint = hashlib.sha256(bytes.fromhex(str(signature["public_key"]))).hexdigest()
    until = material.certificate.get("expires")
    return f"Signed with the key of fingerprint {fingerprint}" + (
        f", until {until}." if until else "."
    )


def _unprotected(material: Material) -> list[str]:
    public = material.public
    lines = [
        "The schema of the table: the names of its columns, their categories and bounds. It is taken as public, and it is in the"
        " codebook."
    ]
    drafted = conditional_of(public)
    if drafted:
        lines.append(
            f"The claim holds only if {condition(drafted)}. It was copied from the rows of a table."
        )
    rows = public.get("rows")
    if rows is not None:
        lines.append(f"The number of rows of the confidential table, {rows:,}: declared as public.")
    if public.get("public_table"):
        lines.append("The rows of a table that was declared public and used in training.")
    left = public.get("left_out")
    if isinstance(left, list) and left:
        lines.append(
            f"Columns that were left out, and are in no file: {', '.join(map(str, left))}."
        )
    lines.append("What holds for people in general, such as how columns are related.")
    return lines


def _figures(report: Any) -> list[str]:
    """Return the figures of a published report, as its summary states them."""
    claims = {report["statement"], *(f"Warning: {text}" for text in report["warnings"])}
    return [line for line in report["summary"] if line not in claims]
