"""``release``: gather the files of a publication in one new folder."""

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabsynth._files import json_ready, new_folder, sha256, write_text
from tabsynth._typing import JsonObject
from tabsynth.dossier import answers as questions
from tabsynth.dossier.answers import Answers, check_answers, read_answers, template
from tabsynth.dossier.codebooks import ddi
from tabsynth.dossier.croissant import croissant
from tabsynth.dossier.healthdcat import healthdcat
from tabsynth.dossier.material import Material, certified_files, gather
from tabsynth.dossier.statement import statement
from tabsynth.errors import InputError
from tabsynth.omop.database import is_omop
from tabsynth.privacy.certificate.certificate import beside, certify
from tabsynth.report.page import Row, Table, render_page

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.signature.json"
STATEMENT, CROISSANT = "privacy-statement.html", "croissant.json"
HEALTHDCAT = "healthdcat-ap.jsonld"
CODEBOOK, SCHEMA = "codebook.xml", "schema.json"
REPORT, REPORT_PAGE = "report.json", "report.html"
SIGNED = "tabsynth-dossier/1"


def release(
    table: str | Path,
    out: str | Path,
    *,
    answers: str | Path | Mapping[str, Any] | None = None,
    key: str | Path | None = None,
    sign: "Ed25519PrivateKey | None" = None,
    expires: date | None = None,
) -> Path:
    """Make the release dossier of a synthetic table, or of linked tables.

    The dossier is a new folder with the table and its certificate, a privacy statement, Croissant metadata, a codebook in
    DDI, of OMOP tables a HealthDCAT-AP record, the schema, the published report if there is one, the answers, and checksums. The same input gives the same bytes. :func:`tabsynth.verify` checks its certificates,
    ``tabsynth verify FOLDER`` all of it.

    Parameters
    ----------
    table : path
        A table with its certificate beside it, as ``sample_to`` and ``tabsynth sample`` write them, or a folder of linked
        tables.
    out : path
        The folder to make; it must not be there.
    answers : path or mapping, optional
        What only people know: a ``release.yaml``, or its content. Default: the file ``release.yaml`` beside the table.
    key : path, optional
        The public key of a signer: the certificate must be signed with it.
    sign : private key, optional
        Signs the checksums, and certificates that are not signed, in the dossier.
    expires : date, optional
        The last day on which these signatures hold.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        If the table has no certificate or does not agree with it; if answers are missing, all of which are named; if the report
        is confidential; if ``out`` is there. Nothing is written then.
    """
    source, folder = Path(table), Path(out)
    if folder.exists():
        raise InputError(f"{folder} is there already; name a folder that is not.")
    if expires is not None and sign is None:
        raise InputError("An expiry is of a signature; give sign=, the key to sign with.")
    certified_files(source)
    read = _answers(source, answers)
    material = gather(source, read, None if key is None else Path(key))
    if sign is not None:
        _check_signer(material, sign)
    _check_names(material)
    with new_folder(folder) as temporary:
        for item in material.tables:
            shutil.copyfile(item.file, temporary / item.name)
            shutil.copyfile(beside(item.file), beside(temporary / item.name))
            if sign is not None:
                certify(temporary / item.name, key=sign, expires=expires)
        write_text(temporary / questions.NAME, read.to_yaml())
        write_text(temporary / SCHEMA, material.schema.to_json())
        if material.report is not None:
            _write_json(temporary / REPORT, material.report)
        copied = gather(temporary, read, None, folder_of_files=temporary)
        for name, text in contents(copied).items():
            write_text(temporary / name, text)
        write_text(temporary / SUMS, checksums(temporary))
        if sign is not None:
            _write_json(temporary / SIGNATURE, signature_of(temporary / SUMS, sign, expires))
    return folder


def contents(material: Material) -> dict[str, str]:
    """Return the texts of the files that follow from the others, by name."""
    out = {
        STATEMENT: statement(material),
        CROISSANT: _json(croissant(material)),
        CODEBOOK: ddi(material),
    }
    if is_omop(material.schema):
        out[HEALTHDCAT] = _json(healthdcat(material))
    if material.report is not None:
        out[REPORT_PAGE] = report_page(material.report)
    return out


def report_page(report: Mapping[str, Any]) -> str:
    """Return a page of a published report, made from its file: a page beside it may hold exact figures."""

    def figure(estimate: Any) -> str:
        numbers = [
            estimate.get(k) if isinstance(estimate, dict) else None
            for k in ("value", "low", "high")
        ]
        value, low, high = (None if n is None else f"{n:,.4g}" for n in numbers)
        return "–" if value is None else value if low is None else f"{value} ({low} to {high})"

    rows = [
        Row(metric["title"], [figure(metric["synthetic"]), figure(metric["baseline"])])
        for metric in report["metrics"]
    ]
    header = ("Figure, with noise", "Synthetic", "Independent columns")
    tables = [Table(header, rows)]
    return render_page(str(report["label"]), "published report", report["summary"], tables)


def checksums(folder: Path) -> str:
    """Return a line for each file, as ``sha256sum`` writes and checks them."""
    files = sorted(path for path in folder.iterdir() if path.name not in (SUMS, SIGNATURE))
    return "".join(f"{sha256(path)}  {path.name}\n" for path in files)


def signature_of(sums: Path, key: "Ed25519PrivateKey", expires: date | None) -> JsonObject:
    """Return a signature over the checksums, and with them over every file."""
    from tabsynth.privacy.certificate.signing import sign

    data = {"format": SIGNED, "file": SUMS, "sha256": sha256(sums)}
    return sign({**data, **({} if expires is None else {"expires": expires.isoformat()})}, key)


def write_template(table: Path, path: Path) -> Path:
    """Write a ``release.yaml`` to fill in, which must not be there."""
    if path.exists():
        raise InputError(f"{path} is there already and is not written over.")
    near = path.parent / SCHEMA
    text = template(datetime.now(UTC).date(), near.name if near.exists() else None)
    write_text(path, text)
    return path


def answers_file(table: Path) -> Path:
    """Return where the answers of a table lie by default: beside it."""
    return table.absolute().parent / questions.NAME


def _answers(table: Path, answers: str | Path | Mapping[str, Any] | None) -> Answers:
    if isinstance(answers, Mapping):
        return check_answers(answers, "answers", Path())
    path = answers_file(table) if answers is None else Path(answers)
    if not path.exists():
        raise InputError(
            f"{path} is not there; tabsynth release --template writes it, with the questions to answer."
        )
    return read_answers(path)


def _check_signer(material: Material, sign: "Ed25519PrivateKey") -> None:
    """Refuse to replace the signature of somebody else."""
    from tabsynth.privacy.certificate.signing import fingerprint

    signer = fingerprint(sign.public_key())
    for table in material.tables:
        verification = table.verification
        signed = verification.certificate.get("signature") is not None
        if signed and signer not in verification.signature:
            raise InputError(
                f"The certificate of {table.file} is {verification.signature}; sign with that key, or leave out the key."
            )


def _check_names(material: Material) -> None:
    """Refuse a table whose file would take the place of another file of the dossier."""
    for name in (table.name for table in material.tables):
        ours = name in (SUMS, STATEMENT, REPORT_PAGE, questions.NAME)
        if ours or name.startswith(".") or any(ord(sign) < 32 or sign == "\\" for sign in name):
            raise InputError(f"A dossier can have no table of the name {name!r}; rename the file.")


def _json(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _write_json(path: Path, data: object) -> None:
    write_text(path, _json(json_ready(data)))
