"""Format 2 of the certificate: schema, documents, signatures, audits, and what tampering does."""

import copy
import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from command_lines import refused
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from tabsynth.cli import app
from tabsynth.errors import FileFormatError, InputError, TabsynthError
from tabsynth.privacy.accounting.mechanisms import (
    MOST_MECHANISMS,
    Gaussian,
    NoisyVote,
    SubsampledGaussian,
)
from tabsynth.privacy.certificate.certificate import (
    EXACT,
    ON_GPU,
    beside,
    code,
    describe_mechanism,
    make_certificate,
    schema,
    versions,
    write_beside,
)
from tabsynth.privacy.certificate.signing import (
    PRIME,
    SMALL_ORDER,
    canonical,
    fingerprint,
    make_keys,
    read_private,
    read_public,
    signer,
)
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger.ledger import Ledger

ROOT = Path(__file__).resolve().parents[2]
ROW = b"a,b\n1,2\n"
ONE_ROW = hashlib.sha256(ROW).hexdigest()
AUDIT = {"method": "canary", "epsilon_lower_bound": 0.5, "confidence": 0.999, "date": "2026-11-21"}


def planned(item: dict[str, Any]) -> dict[str, Any]:
    """A mechanism as a plan lists it."""
    return {name: value for name, value in item.items() if name != "details"}


def made(**changes: Any) -> dict[str, Any]:
    ledger = Ledger(8.0, 1e-5)
    accounts: list[tuple[str, Any, int, dict[str, Any]]] = [
        (
            "one-way counts",
            Gaussian(noise_multiplier=4.0),
            1,
            {"l2_sensitivity": 2.0, "unit": "counts", "columns": 4},
        ),
        (
            "critic",
            SubsampledGaussian(noise_multiplier=1.5, sampling_rate=1.0),
            3,
            {"unit": "gradient norm, clipped by record"},
        ),
        ("votes", NoisyVote(noise=12.5, teachers=80, accounting="gaussian"), 9, {"unit": "votes"}),
    ]
    for purpose, mechanism, count, details in accounts:
        ledger.spend(ledger.open(purpose, mechanism, count, details), count)
    ledger.epsilon = ledger.spent  # a plan that leaves nothing of its budget
    facts: dict[str, Any] = {
        "public": {
            "schema_sha256": "ab" * 32,
            "declared": ["a", "b"],
            "drafted": [],
            "sources": {"a": "codebook", "b": None},
        },
        "versions": versions(),
        "training": {"stopped": None, "curves": {}},
        "code": code(),
        "noise": EXACT,
        "plan": {"before": [], "fit": [planned(item) for item in ledger.to_list()]},
    }
    claim = {"method": changes.pop("method", "dp-wgan"), "seeded": changes.pop("seeded", False)}
    return make_certificate(ledger, {**facts, **changes}, **claim)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "project.key"
    make_keys(path)
    return path


@pytest.fixture
def table(tmp_path: Path, keys: Path) -> Path:
    """A table with a signed certificate."""
    path = tmp_path / "table.csv"
    path.write_bytes(ROW)
    results = {**made(), "condition": {"a": [1]}, "audit": [AUDIT]}
    write_beside(results, path, 1, read_private(keys))
    return path


def rewrite(table: Path, data: Any) -> None:
    beside(table).write_text(json.dumps(data))


def tell(*words: Any) -> Any:
    return CliRunner().invoke(app, [*map(str, words)])


def test_the_schema_is_one_and_describes_every_field() -> None:
    Draft202012Validator.check_schema(schema())

    def walk(node: Any) -> None:
        for name, item in node.get("properties", {}).items():
            assert item.get("description", "").strip(), name
            walk(item)
            walk(item.get("items", {}))

    walk(schema())


def test_the_documents_recipe_verifies_a_signature(table: Path, monkeypatch: Any) -> None:
    """Nothing of ours is needed: the block runs as it stands."""
    text = (ROOT / "docs" / "reference" / "certificate.md").read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(table.parent)
    data = json.loads(beside(table).read_text())
    target = table.parent / "synthetic.csv.certificate.json"
    target.write_text(json.dumps(data))
    exec(block, {})
    target.write_text(json.dumps({**data, "seeded": True}))
    with pytest.raises(Exception, match=r"^$"):
        exec(block, {})


def test_untouched_is_valid_and_says_who_signed(table: Path, keys: Path) -> None:
    print_of_key = fingerprint(read_public(f"{keys}.pub"))
    verification = verify(table)
    assert verification.consistent and verification.notes == ()
    assert verification.signature == f"signed by an unknown signer, fingerprint {print_of_key}"
    assert verify(table, f"{keys}.pub").signature == f"signed by {print_of_key}, the key given"
    names = [opinion.name for opinion in verification.accountants]
    assert names == ["exact Gaussian (tabsynth)", "integral of the privacy loss (tabsynth)"]


def fields(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a JSON tree but the root."""
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [path for k, value in items for path in [(*at, k), *fields(value, (*at, k))]]


OTHERS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
    *(st.text(max_size=9), st.just([]), st.just({}), st.just("delete")),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_field_tampered_with_is_refused(tmp_path_factory: Any, keys: Path, data: Any) -> None:
    """Any value of a signed certificate changed or left out, the signature's own too."""
    path = tmp_path_factory.getbasetemp() / "tampered.csv"
    if not path.exists():
        path.write_text("a,b\n1,2\n")
        results = {**made(), "condition": {"a": [1]}, "audit": [AUDIT]}
        write_beside(results, path, 1, read_private(keys))
        beside(path).rename(path.with_suffix(".signed"))
    signed = json.loads(path.with_suffix(".signed").read_text())
    place = data.draw(st.sampled_from(fields(signed)))
    changed = copy.deepcopy(signed)
    node = changed
    for step in place[:-1]:
        node = node[step]
    value = data.draw(OTHERS)
    if value == "delete":
        del node[place[-1]]
    else:
        node[place[-1]] = value
    same = json.dumps(changed, sort_keys=True) == json.dumps(signed, sort_keys=True)
    rewrite(path, changed)
    try:
        assert verify(path, f"{keys}.pub").consistent is same
    except TabsynthError as error:
        assert not same and "\n" not in str(error)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epsilon": 0.5}, "claim is 0.5"),
        ({"epsilon": "inf"}, "the claim is inf"),
        ({"epsilon": 10**300}, "the claim is 1e+300"),
        ({"delta": 1e-3}, "the claim is"),
        ({"mechanisms": []}, "the mechanisms give epsilon=0"),
        ({"epsilon_asked": 0.1}, "than was asked for"),
        ({"statement": "Private: perfectly."}, "statement"),
        ({"composition": "magic"}, "composition"),
        ({"private": False}, "not to be private"),
        ({"seeded": True}, "claims to be private"),
        ({"audit": [{**AUDIT, "epsilon_lower_bound": 9.0}]}, "an audit"),
        ({"audit": [{**AUDIT, "epsilon_lower_bound": "inf"}]}, "an audit"),
        ({"table": {"file": "t", "sha256": "ab" * 32, "rows": 1}}, "SHA-256"),
        ({"table": {"file": "t", "sha256": ONE_ROW, "rows": 2}}, "1 rows, the certificate says 2"),
    ],
)
def test_tampering_shows_without_a_signature(
    table: Path, changes: dict[str, Any], says: str
) -> None:
    data = json.loads(beside(table).read_text())
    del data["signature"]
    rewrite(table, data)
    assert verify(table).consistent and verify(table).signature == "unsigned"
    rewrite(table, {**data, **changes})
    verification = verify(table)
    assert not verification.consistent and any(says in problem for problem in verification.problems)


@pytest.mark.parametrize(
    "changes",
    [
        {"noise_multiplier": 40.0},
        {"sampling": "Poisson, rate 0.001"},
        {"sensitivity": {"norm": "L2", "value": 1.0, "unit": "counts"}},
        {"noise_added": {"distribution": "Gaussian", "standard_deviation": 9.0, "unit": "counts"}},
        {"count": 0},
    ],
)
def test_a_mechanism_edited_shows(table: Path, changes: dict[str, Any]) -> None:
    data = json.loads(beside(table).read_text())
    del data["signature"]
    data["mechanisms"][0] |= changes
    rewrite(table, data)
    assert not verify(table).consistent


def test_sensitivity_and_noise_have_their_units() -> None:
    counts, critic, votes = made()["mechanisms"]
    assert counts["sensitivity"] == {"norm": "L2", "value": 2.0, "unit": "counts"}
    assert counts["noise_added"]["standard_deviation"] == 8.0
    assert critic["sensitivity"]["value"] is None and critic["sampling"].startswith("none")
    assert votes["noise_added"] == {
        **{"distribution": "Gaussian", "standard_deviation": 12.5, "unit": "votes"}
    }
    laplace = describe_mechanism({**votes, "accounting": "laplace"})
    assert laplace["noise_added"]["standard_deviation"] == pytest.approx(12.5 * 2**0.5)
    part = SubsampledGaussian(noise_multiplier=1.0, sampling_rate=0.25).to_dict()
    assert describe_mechanism({**part, "details": {}})["sampling"] == "Poisson, rate 0.25"


def test_another_code_is_a_note(table: Path, monkeypatch: Any) -> None:
    data = json.loads(beside(table).read_text())
    sources = [*(ROOT / "tabsynth").rglob("*.py"), *(ROOT / "tabsynth").rglob("*.pyi")]
    assert data["code"]["files"] == len(sources)
    monkeypatch.setattr(
        "tabsynth.privacy.certificate.verification.code", lambda: {"sha256": "0" * 64, "files": 1}
    )
    verification = verify(table)
    assert verification.consistent and "another version of the code" in verification.notes[0]


def test_noise_that_was_not_exact_is_a_note(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(ROW)
    for noise, says in ((ON_GPU, "its noise was not exact"), (None, "does not state"), (EXACT, "")):
        write_beside(made(noise=noise), path, 1)
        verification = verify(path)
        assert verification.consistent and any(says in note for note in verification.notes) is bool(
            says
        )


def test_keys_locked_and_not(tmp_path: Path, keys: Path) -> None:
    assert os.stat(keys).st_mode & 0o777 == 0o600
    public, print_of_key = make_keys(tmp_path / "k", "secret ü")
    assert fingerprint(read_private(tmp_path / "k", "secret ü").public_key()) == print_of_key
    assert fingerprint(read_public(public)) == print_of_key
    with pytest.raises(InputError, match="TABSYNTH_PASSPHRASE"):
        read_private(tmp_path / "k")
    with pytest.raises(FileFormatError, match="passphrase does not fit"):
        read_private(tmp_path / "k", "wrong")
    with pytest.raises(InputError, match="exists"):
        make_keys(tmp_path / "k")
    for bad in (
        b"",
        b"x" * 20_000,
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ):
        (tmp_path / "bad").write_bytes(bad)
        for read in (read_private, read_public):
            with pytest.raises(FileFormatError):
                read(tmp_path / "bad")
    with pytest.raises(FileFormatError):
        read_private(public)
    with pytest.raises(FileFormatError, match="Cannot read"):
        read_public(tmp_path / "nowhere")


def test_canonical_form_is_fixed() -> None:
    data = {"b": [1.0, 1e-05, None, True], "a": {"ü": "\n", "b": 2}, "signature": {"x": 1}}
    assert canonical(data) == rb'{"a":{"b":2,"\u00fc":"\n"},"b":[1.0,1e-05,null,true]}'


def test_a_signature_covers_every_field() -> None:
    """Each that the form knows, and any that it does not: only the signature itself is left out."""
    names = [*schema()["properties"], "of a later form"]
    whole = canonical(dict.fromkeys(names, 1))
    covered = {n for n in names if canonical({**dict.fromkeys(names, 1), n: 2}) != whole}
    assert covered == {*names} - {"signature"}


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("y", sorted(SMALL_ORDER))
def test_keys_without_a_secret_sign_nothing(table: Path, y: int, sign: int) -> None:
    """Points of order 8 or less, by the curve's own arithmetic: R = S·B holds for them one time in eight."""
    d = -121665 * pow(121666, -1, PRIME) % PRIME

    def plus(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        (a, b), (c, e) = one, other
        k = d * a * b * c * e % PRIME
        x = (a * e + b * c) * pow(1 + k, -1, PRIME) % PRIME
        return x, (a * c + b * e) * pow(1 - k, -1, PRIME) % PRIME

    square = (y * y - 1) * pow(d * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    x = x if x * x % PRIME == square else x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    assert x * x % PRIME == square
    point = (x, y)
    for _ in range(3):
        point = plus(point, point)
    assert point == (0, 1)

    identity = (1).to_bytes(32, "little")
    key = (y | sign << 255).to_bytes(32, "little")
    forged = {
        "algorithm": "Ed25519",
        "public_key": key.hex(),
        "value": (identity + bytes(32)).hex(),
    }
    for n in range(40):
        data = {"n": n, "signature": forged}
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(identity + bytes(32), canonical(data))
        except InvalidSignature:
            continue
        with pytest.raises(InvalidSignature):
            signer(data)
        return
    pytest.fail("the library takes no such forgery any more: signer need not refuse it")


def test_certify_adds_audits_and_signs(table: Path, keys: Path, tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(json.dumps([AUDIT, {**AUDIT, "method": "one run"}]))
    refused("certify", table, "--audit", "audit.json", cwd=tmp_path, says="is signed")
    refused("certify", table, cwd=tmp_path, says="Nothing to certify")
    done = tell("certify", table, "--audit", tmp_path / "audit.json", "--key", keys)
    assert done.exit_code == 0, done.output
    data = json.loads(beside(table).read_text())
    assert [audit["method"] for audit in data["audit"]] == ["canary", "canary", "one run"]
    assert verify(table, f"{keys}.pub").consistent
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(data["signature"]["public_key"]))
    key.verify(bytes.fromhex(data["signature"]["value"]), canonical(data))
    for bad, says in (([5], "objects"), ([{"x": 1}], "method"), ({**AUDIT, "confidence": 7}, "7")):
        (tmp_path / "audit.json").write_text(json.dumps(bad))
        refused("certify", table, "--audit", "audit.json", "--key", keys, cwd=tmp_path, says=says)
    (tmp_path / "audit.json").write_text(json.dumps({**AUDIT, "epsilon_lower_bound": 30}))
    done = tell("certify", table, "--audit", tmp_path / "audit.json", "--key", keys)
    assert done.exit_code == 1 and "contradicted" in done.stderr


def test_verify_tells(table: Path, keys: Path, tmp_path: Path) -> None:
    done = tell("verify", table, "--key", f"{keys}.pub")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Claimed: ε = ") and "exact Gaussian" in lines[1]
    assert lines[2].startswith("Accountant 2: ") and "the key given" in lines[5]
    assert lines[3].startswith("Attacker's advantage: ") and "odds rise" in lines[4]
    assert "is authenticated" in lines[-2] and lines[-1].startswith("Private: (")
    facts = json.loads(tell("verify", table, "--json").stdout)
    assert (facts["state"], facts["authenticated"]) == ("not authenticated", False)
    assert facts["consistent"] and facts["signature"].startswith("signed by an unknown signer")
    make_keys(tmp_path / "other")
    refused("verify", table, "--key", "other.pub", cwd=tmp_path, says="the key given is")
    table.write_text("a\n")
    data = json.loads(beside(table).read_text())
    rewrite(table, {**data, "statement": "No."})
    done = tell("verify", table)
    reasons = [line for line in done.stdout.splitlines() if line.startswith("Refused: ")]
    assert done.exit_code == 2 and len(reasons) == 3  # the table, the statement, the signature
    del data["signature"]
    rewrite(table, data)
    refused("verify", table, "--key", f"{keys}.pub", cwd=tmp_path, says="not signed")


def test_keygen(tmp_path: Path, monkeypatch: Any) -> None:
    done = tell("keygen", tmp_path / "k")
    assert done.exit_code == 0 and "Fingerprint: " in done.stdout
    refused("keygen", "k", cwd=tmp_path, says="exists")
    refused("keygen", "l", "--passphrase", cwd=tmp_path, says="TABSYNTH_PASSPHRASE")
    monkeypatch.setenv("TABSYNTH_PASSPHRASE", "s")
    assert "encrypted" in tell("keygen", tmp_path / "l", "--passphrase").stdout
    assert b"ENCRYPTED" in (tmp_path / "l").read_bytes()


def hostile() -> list[tuple[str, str]]:
    """Texts of certificates that a stranger may hand us."""
    base = made()
    base["table"] = {"file": "t", "sha256": "ab" * 32, "rows": 1}
    text = json.dumps(base)
    item = base["mechanisms"][1]

    def listed(*items: Any) -> str:
        return json.dumps({**base, "mechanisms": [*items]})

    noises = [{**item, "noise_multiplier": 1.5 + i} for i in range(MOST_MECHANISMS + 1)]
    long = {**item, "count": 10**9, "mechanism": "subsampled-gaussian", "sampling_rate": 0.5}
    rare = {**long, "sampling_rate": 1e-6, "noise_multiplier": 0.6}
    vote = {**base["mechanisms"][2], "accounting": "exact-binary", "count": 10**15}
    return [
        ("NaN", text.replace('"epsilon_asked": 8.0', '"epsilon_asked": NaN')),
        ("infinity", text.replace('"epsilon_asked": 8.0', '"epsilon_asked": -Infinity')),
        ("huge", text.replace('"epsilon_asked": 8.0', f'"epsilon_asked": {10**400}')),
        ("digits", text.replace('"epsilon_asked": 8.0', '"epsilon_asked": ' + "9" * 9999)),
        ("twice", text.replace('"seeded": false', '"seeded": false, "seeded": false')),
        (
            "deep",
            text.replace('"training": {', '"training": {"x": ' + "[" * 5000 + "]" * 5000 + ","),
        ),
        ("many", listed(*[item] * 100_000)),
        ("kinds", listed(*noises)),
        ("counts", listed(long)),
        ("rare", listed(rare)),
        ("votes", listed(vote, {**vote, "teachers": 100_000, "noise": 77.0})),
        ("extra", json.dumps({**base, "surprise": 1})),
        ("surrogate", json.dumps({**base, "method": "\ud800"})),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), hostile(), ids=[name for name, _ in hostile()])
def test_hostile_files_are_answered_soon(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    beside(path).write_text(text)
    start = time.process_time()
    try:
        assert not verify(path).consistent
    except TabsynthError as error:
        assert "\n" not in str(error) and len(str(error)) < 600
    assert time.process_time() - start < 12


@pytest.mark.parametrize("name", ["census.csv", "hospital.csv"])
def test_shipped_certificates_of_before_still_verify(name: str) -> None:
    path = ROOT / "data" / name
    if not path.exists():
        pytest.skip(f"data/{name} does not ship in this tree")
    verification = verify(path)
    assert verification.consistent and verification.signature == "unsigned"
