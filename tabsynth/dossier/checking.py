"""Verify a dossier offline, without the confidential table: every file, and whether the files agree with each other."""

import html
import re
from dataclasses import dataclass
from pathlib import Path

from tabsynth._files import MAX_JSON_BYTES, read_json, read_json_text, sha256, size_of
from tabsynth._shown import Shown
from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.dossier import answers as questions
from tabsynth.dossier.answers import read_answers
from tabsynth.dossier.making import (
    CODEBOOK,
    CROISSANT,
    HEALTHDCAT,
    REPORT,
    REPORT_PAGE,
    SCHEMA,
    SIGNATURE,
    SIGNED,
    STATEMENT,
    SUMS,
    contents,
)
from tabsynth.dossier.material import Material, gather
from tabsynth.errors import FileFormatError, TabsynthError
from tabsynth.omop.database import is_omop
from tabsynth.privacy.certificate.certificate import beside, code, rounded_up
from tabsynth.privacy.certificate.verification import (
    UNSIGNED,
    State,
    Verification,
    expiry_problems,
    verify,
)
from tabsynth.schema.importers.ddi import parse

MOST_FILES = 200
GENERATOR = re.compile(r'<meta name="generator" content="tabsynth ([0-9a-f]{64})">')
FORMAT = '<meta name="format" content="tabsynth-privacy-statement/2">'
LINE = re.compile(r"([0-9a-f]{64})  ([^/\\\x00-\x1f]{1,255})")


@dataclass(frozen=True, kw_only=True)
class DossierVerification(Shown):
    """The result of the check of a dossier.

    Attributes
    ----------
    tables : dict from str to Verification
        Of each table with a certificate.
    problems : tuple of str
        Why the dossier is refused; empty if nothing contradicts it.
    signature : str
        Of the checksums, and with them of every file.
    authenticated : bool
        Whether the checksums are signed with the given key.
    material : Material or None
        What the dossier is made of, if nothing contradicts it. Its ``statement`` and ``total`` cover all that it holds.
    """

    tables: dict[str, Verification]
    problems: tuple[str, ...]
    signature: str
    authenticated: bool
    material: Material | None = None

    @property
    def state(self) -> State:
        """The state of the worst of its tables; without a trusted signature of all files it is not authenticated."""
        states = [verification.state for verification in self.tables.values()]
        if self.problems or not states or State.REFUSED in states:
            return State.REFUSED
        for state in (State.NOT_PRIVATE, State.CONDITIONAL, State.NOT_AUTHENTICATED):
            if state in states:
                return state
        return State.AUTHENTICATED if self.authenticated else State.NOT_AUTHENTICATED


def is_dossier(folder: Path) -> bool:
    """Return whether a folder is a dossier, whole or not."""
    return (folder / SUMS).exists() or (folder / STATEMENT).exists()


def verify_dossier(folder: str | Path, key: str | Path | None = None) -> DossierVerification:
    """Check everything that can be checked without the confidential table.

    That no file is missing, extra or changed; the certificates as :func:`tabsynth.verify` does; the signature; the answers;
    the published report; and that statement, Croissant and DDI are of these tables.

    Parameters
    ----------
    folder : path
    key : path, optional
        The public key of a signer whom you trust.

    Raises
    ------
    FileFormatError
        If it is no dossier, or ``key`` no key.
    """
    place = Path(folder)
    if not (place / SUMS).is_file():
        raise FileFormatError(f"{place} is no dossier: it has no file {SUMS}.")
    problems = _files(place)
    said, authenticated, wrong = _signature(place, key)
    problems += wrong
    tables: dict[str, Verification] = {}
    ending = beside("").name
    for certificate in sorted(place.glob(f"*{ending}")):
        name = certificate.name.removesuffix(ending)
        try:
            tables[name] = verify(place / name, key)
            problems += [f"{name}: {problem}" for problem in tables[name].problems]
        except TabsynthError as error:
            problems.append(str(error).rstrip("."))
    if not tables:
        problems.append("it has no table with a certificate")
    material = None
    if not problems:
        material, wrong = _agreement(place)
        problems += wrong
    return DossierVerification(
        tables=tables,
        problems=tuple(dict.fromkeys(problems)),
        signature=said,
        authenticated=authenticated and not problems,
        material=None if problems else material,
    )


def _files(place: Path) -> list[str]:
    """Return files that are missing, extra or changed, by the list of checksums."""
    size_of(place / SUMS, "list of checksums", MAX_JSON_BYTES)
    listed: dict[str, str] = {}
    for line in (place / SUMS).read_text("utf-8", errors="replace").splitlines():
        match = LINE.fullmatch(line)
        if match is None or match[2] in listed or len(listed) >= MOST_FILES:
            return [f"{SUMS} has the line {quote(line)}, which no dossier has"]
        listed[match[2]] = match[1]
    problems = []
    there = {path.name: path for path in place.iterdir()}
    for name, digest in listed.items():
        path = there.get(name)
        if path is None:
            problems.append(f"{name} is missing")
        elif path.is_symlink() or not path.is_file():
            problems.append(f"{name} is no regular file")
        elif sha256(path) != digest:
            problems.append(f"{name} was changed: it has another SHA-256 than {SUMS} says")
    extra = sorted(there.keys() - listed.keys() - {SUMS, SIGNATURE})
    return problems + [f"{quote(name)} is extra: {SUMS} does not list it" for name in extra]


def _signature(place: Path, key: str | Path | None) -> tuple[str, bool, list[str]]:
    """Return what to say of the signature of the checksums, whether it is that of ``key``, and what is wrong with it."""
    from cryptography.exceptions import InvalidSignature

    from tabsynth.privacy.certificate.signing import fingerprint, read_public, signer

    trusted = None if key is None else fingerprint(read_public(key))
    path = place / SIGNATURE
    if not path.exists():
        missing = [] if trusted is None else ["its checksums are not signed, and a key was given"]
        return UNSIGNED, False, missing
    data = read_json(path, "signature")
    try:
        whose = fingerprint(signer(data))
    except (InvalidSignature, TypeError):
        return "invalid signature", False, ["the signature of its checksums is invalid"]
    if data.get("format") != SIGNED or data.get("sha256") != sha256(place / SUMS):
        return "invalid signature", False, [f"its signature is of another {SUMS}"]
    over = [f"of its checksums, {problem}" for problem in expiry_problems(data)]
    if trusted is None:
        return f"signed by an unknown signer, fingerprint {whose}", False, over
    if whose != trusted:
        wrong = f"its checksums are signed by {whose}, the key given is {trusted}"
        return f"signed by another signer, fingerprint {whose}", False, [wrong, *over]
    return f"signed by {whose}, the key given", True, over


def _agreement(place: Path) -> tuple[Material | None, list[str]]:
    """Return the material of the dossier, and the contradictions between its files."""
    try:
        answers = read_answers(place / questions.NAME)
        material = gather(place, answers, None, folder_of_files=place)
        missing = [name for name in _file_names(material) if not (place / name).is_file()]
        if missing:
            return None, [f"{name} is missing" for name in missing]
        return material, [
            *_statement(place, material),
            *_croissant(place, material),
            *_codebook(place, material),
            *_same(place, material),
        ]
    except TabsynthError as error:
        return None, [str(error).rstrip(".")]
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        return None, [f"a file of it has not the form that it should have ({type(error).__name__})"]


def _file_names(material: Material) -> list[str]:
    names = [STATEMENT, CROISSANT, CODEBOOK, SCHEMA, *[HEALTHDCAT] * is_omop(material.schema)]
    return names if material.report is None else [*names, REPORT, REPORT_PAGE]


def _statement(place: Path, material: Material) -> list[str]:
    """Refuse a page without the claim for everything in the dossier or without the hash of a table.

    Release 0.2 stated no format of its page, and the claim of the table in its place, with the total below.
    """
    page = read_json_text(place / STATEMENT, "statement")
    unescaped = html.unescape(page)
    epsilon, delta = material.total
    earlier = [
        str(material.certificate["statement"]),
        f"ε = {rounded_up(epsilon)}, δ = {delta:g}",
    ]
    claims = [material.statement] if FORMAT in page else earlier
    needed = [*claims, *(table.sha256 for table in material.tables)]
    missing = [text for text in needed if text not in unescaped]
    return [f"{STATEMENT} lacks the text {quote(text)}" for text in missing]


def _croissant(place: Path, material: Material) -> list[str]:
    data = read_json(place / CROISSANT, "Croissant file")
    stated = {item["contentUrl"]: item["sha256"] for item in data["distribution"]}
    expected = {table.name: table.sha256 for table in material.tables}
    return [] if stated == expected else [f"{CROISSANT} is of other tables"]


def _codebook(place: Path, material: Material) -> list[str]:
    root = parse((place / CODEBOOK).read_bytes(), CODEBOOK)
    names = [e.get("name") for e in root.iter() if str(e.tag).endswith("}var")]
    same = names == [name for table in material.tables for name in table.header]
    return [] if same else [f"{CODEBOOK} has other columns than the tables"]


def _same(place: Path, material: Material) -> list[str]:
    """Return files that this version of the library writes otherwise, if it is the version that wrote them."""
    generator = GENERATOR.search(read_json_text(place / STATEMENT, "statement"))
    if generator is None or generator[1] != code()["sha256"]:
        return []
    return [
        f"{name} is not what follows from certificate, schema and answers"
        for name, text in contents(material).items()
        if (place / name).read_text("utf-8") != text
    ]


def facts(verification: DossierVerification) -> JsonObject:
    """Return a JSON-ready mapping, without the results of its tables."""
    material = verification.material
    claim: JsonObject = {}
    if material is not None:
        epsilon, delta = material.total
        claim = {
            "statement": material.statement,
            "epsilon": epsilon,
            "delta": delta,
            "attacker": material.bounds.to_dict(),
        }
    return {
        **claim,
        "state": verification.state.value,
        "problems": list(verification.problems),
        "signature": verification.signature,
        "authenticated": verification.authenticated,
    }
