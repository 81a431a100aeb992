"""R27: what consistency is worth, and what only a signature that the reader can check makes of it."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_lines import refused
from typer.testing import CliRunner, Result

from tabsynth.cli import app
from tabsynth.cli.verify import EXIT
from tabsynth.errors import FileFormatError, InputError
from tabsynth.methods import METHODS as registered
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.certificate.certificate import beside, certify, make_certificate, write_beside
from tabsynth.privacy.certificate.completeness import find_missing_mechanisms
from tabsynth.privacy.certificate.signing import (
    fingerprint,
    make_keys,
    read_private,
    read_public,
    sign,
)
from tabsynth.privacy.certificate.verification import State, verify
from tabsynth.privacy.ledger.ledger import Ledger

ROWS = "a,b\n1,2\n3,4\n"
COUNTS = ("one-way counts", "joint counts")
OWN: dict[str, Any] = {"own_configuration": []}


def made(
    purposes: tuple[str, ...] = COUNTS,
    *,
    epsilon: float = 3.0,
    public: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A certificate that agrees with itself, of a fit that charged ``purposes``."""
    ledger = Ledger(epsilon, 1e-5)
    noise = NoPrivacy() if epsilon == float("inf") else Gaussian(noise_multiplier=4.0)
    for purpose in purposes:
        details = {"l2_sensitivity": 1.0, "unit": "counts"}
        ledger.spend(ledger.open(purpose, noise, 1, details))
    facts: dict[str, Any] = {"versions": {"tabsynth": "0.2.0"}}
    facts |= {"public": {"declared": ["a", "b"], "drafted": [], **(public or {})}}
    facts |= {"training": training or {"stopped": None}}
    claim = {"method": changes.pop("method", "margnet"), "seeded": changes.pop("seeded", False)}
    return make_certificate(ledger, {**facts, **changes}, **claim)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "evil"):
        make_keys(folder / name)
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(ROWS)
    return path


def told(*words: Any) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def test_every_state_has_an_exit_code_of_its_own() -> None:
    assert sorted(EXIT) == sorted(state.value for state in State)
    assert EXIT == {
        **{"authenticated": 0, "refused": 2, "conditional": 3},
        **{"not authenticated": 4, "not private": 5},
    }


@pytest.mark.parametrize("words", [["--help"], ["verify", "t.csv"]])
def test_help_and_verification_of_gaussians_import_no_heavy_library(
    table: Path, words: list[str]
) -> None:
    write_beside(made(), table, 2)
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules)); import tabsynth.cli as c; c.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=table.parent,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, EXIT["not authenticated"]), done.stderr
    assert "tabsynth.cli" in done.stdout.split()
    heavy = {"torch", "pandas", "scipy", "sklearn", "pyarrow", "cryptography", "rich.progress"}
    assert heavy & set(done.stdout.split()) == set()


@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n", "a,b\n1,2\n3,4\n5,6\n", "a\n1\n2\n", "a,b\n1,2\n3\n"]
)
def test_rows_and_columns_are_those_of_the_file(table: Path, text: str) -> None:
    table.write_text(text)
    write_beside(made(), table, 2)
    done = told("verify", table)
    assert done.exit_code == 2 and (
        "the certificate says 2" in done.stderr or "cell" in done.stderr
    )


def test_a_certificate_moved_to_real_rows_is_not_authenticated(table: Path, keys: Path) -> None:
    """Whoever holds the rows can write all of it: hash, rows, mechanisms. It ends in 4, or with a key in 2."""
    write_beside(made(), table, 2)
    done = told("verify", table)
    assert done.exit_code == 4 and verify(table).state is State.NOT_AUTHENTICATED
    assert "Private" not in done.stdout and "privacy for adding" not in done.stdout
    assert "consistent, not authenticated" in done.stdout
    assert "anyone who can write a table can write such a certificate" in done.stdout
    done = told("verify", table, "--key", keys / "ours.pub")
    assert done.exit_code == 2 and "not signed" in done.stderr and "Private" not in done.stdout

    data = json.loads(beside(table).read_text())
    beside(table).write_text(json.dumps(sign(data, read_private(keys / "evil"))))
    done = told("verify", table)
    evil = fingerprint(read_public(keys / "evil.pub"))
    assert done.exit_code == 4 and "Private" not in done.stdout
    assert f"signed by an unknown signer, fingerprint {evil}" in done.stdout
    done = told("verify", table, "--key", keys / "ours.pub")
    assert done.exit_code == 2 and evil in done.stderr and "Private" not in done.stdout
    assert verify(table, keys / "ours.pub").state is State.REFUSED


def test_the_key_of_the_signer_authenticates(table: Path, keys: Path) -> None:
    write_beside(made(), table, 2, read_private(keys / "ours"))
    assert verify(table).state is State.NOT_AUTHENTICATED
    verification = verify(table, keys / "ours.pub")
    assert verification.state is State.AUTHENTICATED and verification.authenticated
    done = told("verify", table, "--key", keys / "ours.pub")
    assert done.exit_code == 0 and done.stdout.splitlines()[-1].startswith("Private: (")
    facts = json.loads(told("verify", table, "--key", keys / "ours.pub", "--json").stdout)
    assert (facts["state"], facts["authenticated"]) == ("authenticated", True)
    # A signature that belongs to it does not mend a certificate that is wrong.
    wrong = {**made(), "epsilon": 0.1, "table": json.loads(beside(table).read_text())["table"]}
    beside(table).write_text(json.dumps(sign(wrong, read_private(keys / "ours"))))
    verification = verify(table, keys / "ours.pub")
    assert verification.state is State.REFUSED and not verification.authenticated


def test_a_claim_on_drafted_facts_is_conditional(table: Path, keys: Path) -> None:
    drafted = made(public={"declared": ["a"], "drafted": ["b"], "accepted_drafted_domain": True})
    write_beside(drafted, table, 2, read_private(keys / "ours"))
    for words, vouched in (
        ((), "It is not authenticated"),
        (("--key", keys / "ours.pub"), "The certificate is authenticated"),
    ):
        done = told("verify", table, *words)
        assert done.exit_code == 3 and vouched in done.stdout
        first = (
            "CONDITIONAL: the claim holds only if what the schema says of column 'b' is public.\n"
        )
        assert done.stdout.startswith(first)
        assert "Private" not in done.stdout
        assert json.loads(told("verify", table, *words, "--json").stdout)["conditional"] == ["b"]
        assert told("verify", table, *words, "--json").exit_code == 3
    assert verify(table, keys / "ours.pub").state is State.CONDITIONAL


@pytest.mark.parametrize("changes", [{"seeded": True}, {"epsilon": float("inf")}])
def test_what_claims_no_privacy_has_its_own_code(
    table: Path, keys: Path, changes: dict[str, Any]
) -> None:
    """Signed or not, and whether or not its domains were drafted."""
    for public in ({}, {"declared": ["a"], "drafted": ["b"]}):
        write_beside(made(public=public, **changes), table, 2, read_private(keys / "ours"))
        for words in ((), ("--key", keys / "ours.pub")):
            done = told("verify", table, *words)
            assert done.exit_code == 5 and done.stdout.splitlines()[-1].startswith("Not private")
            assert "makes no privacy claim" in done.stdout


@pytest.mark.parametrize(
    ("certificate", "lacks"),
    [
        (made(()), "lists no mechanism"),
        (made(COUNTS[:1]), "charges 'joint counts'"),
        (made(COUNTS[1:]), "charges 'one-way counts'"),
        (made(COUNTS[:1], training={"stopped": "time limit"}), "charges 'joint counts'"),
        (made(method="dp-wgan"), "charges 'critic'"),
        (made(("critic",), method="dp-gan"), "charges 'one-way counts' or 'row count'"),
        (made(method="pate-gan"), "charges 'votes'"),
        (made(("votes",), method="pate-acgan"), "charges 'one-way counts'"),
        (made(method="nothing we have"), "'nothing we have' is unknown"),
        (
            made(public={"public_table": {"overlap": {"rows": 3.0}}}),
            "charges 'overlap with the public table'",
        ),
        (made(public={"warm_start": {"method": "margnet", "public": {}}}), "of its warm start"),
        (made(public={"warm_start": {"method": "?"}}), "of its warm start is unknown"),
        (
            made(("one-way counts", "votes"), method="pate-acgan", settings={**OWN, "mode": "B"}),
            "charges 'class votes'",
        ),
        *(
            (
                made(("row count", last), method=method, settings={**OWN, "autoencoder": coder}),
                "charges 'autoencoder'",
            )
            for method, last in (("dp-gan", "critic"), ("pate-gan", "votes"))
            for coder in ("dp-sgd", "no-noise")
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_incomplete_lists_are_refused_signed_or_not(
    table: Path, keys: Path, certificate: dict[str, Any], lacks: str
) -> None:
    write_beside(certificate, table, 2)
    done = told("verify", table)
    assert done.exit_code == 2 and lacks in done.stderr and "Private" not in done.stdout
    with pytest.raises(InputError, match="cannot be signed"):
        certify(table, key=read_private(keys / "ours"))
    data = json.loads(beside(table).read_text())
    assert "signature" not in data
    beside(table).write_text(json.dumps(sign(data, read_private(keys / "ours"))))
    done = told("verify", table, "--key", keys / "ours.pub")
    assert done.exit_code == 2 and lacks in done.stderr and "Private" not in done.stdout


def test_uses_that_never_were_complete_no_list() -> None:
    whole = made()
    assert find_missing_mechanisms(whole) == []
    for count in (0, None, "1"):
        items = [whole["mechanisms"][0], {**whole["mechanisms"][1], "count": count}]
        assert "joint counts" in find_missing_mechanisms({**whole, "mechanisms": items})[0]
    assert find_missing_mechanisms({**whole, "mechanisms": None}) == find_missing_mechanisms(
        {**whole, "mechanisms": []}
    )


def test_settings_that_add_no_mechanism() -> None:
    for mode in ("A", "C"):
        settings = {**OWN, "mode": mode, "autoencoder": "rows of the public table"}
        purposes = ("one-way counts", "votes")
        assert find_missing_mechanisms(made(purposes, method="pate-acgan", settings=settings)) == []


def in_groups(**details: Any) -> dict[str, Any]:
    """A certificate of a critic, whose figures follow from ``details``."""
    ledger = Ledger(9.0, 1e-5)
    for purpose, about in (("row count", {}), ("critic", details)):
        ledger.spend(ledger.open(purpose, Gaussian(noise_multiplier=2.0), 1, about))
    facts: dict[str, Any] = {"versions": {"tabsynth": "0.2.0"}, "settings": OWN}
    facts |= {"public": {"declared": ["a", "b"], "drafted": []}, "training": {"stopped": None}}
    return make_certificate(ledger, facts, method="dp-gan", seeded=False)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        ({"l2_sensitivity": 0.5}, "not that of its bound and groups"),
        ({"groups": 1}, "not that of its bound and groups"),
        ({"max_norm": 1.0}, "not that of its bound and groups"),
        ({"max_norm": None}, "mechanisms.1.details.max_norm"),
        ({"groups": 4.5}, "mechanisms.1.details.groups"),
        ({"groups": ...}, "not that of its bound and groups"),
        ({"l2_sensitivity": ...}, "not that of its bound and groups"),
    ],
)
def test_sensitivity_follows_from_bound_and_groups(
    table: Path, changes: dict[str, Any], says: str
) -> None:
    """Whoever prints the numbers of one group for those of four is refused, though their ratio is right."""
    details = {"l2_sensitivity": 1.0, "max_norm": 0.5, "groups": 4, "unit": "gradient norm"}
    details |= {"grouping": "weight-bias", "bound": "fixed"}
    created = {name: v for name, v in {**details, **changes}.items() if v is not ...}
    write_beside(in_groups(**created), table, 2)
    if "mechanisms." in says:
        with pytest.raises(FileFormatError, match=says):
            verify(table)
        return
    verification = verify(table)
    assert verification.consistent == (not says) and all(
        says in problem for problem in verification.problems
    )


@pytest.mark.parametrize("grouping", ["flat", "weight-bias", "clusters"])
def test_a_certificate_of_before_is_of_one_group(table: Path, grouping: str) -> None:
    """It is accepted, for ε is right, and what it prints is said to be of one group."""
    write_beside(in_groups(l2_sensitivity=0.5, unit="norms", grouping=grouping), table, 2)
    verification = verify(table)
    assert verification.consistent
    assert any("of one group" in note for note in verification.notes) == (grouping != "flat")


@pytest.mark.parametrize(("processes", "consistent"), [(2, True), (60, True), (61, False)])
def test_several_processes_of_version_0_2_are_noted(
    table: Path, processes: int, consistent: bool
) -> None:
    """No later fit has several; each needed a row of its own."""
    public = {"declared": ["a", "b"], "drafted": [], "rows": 60, "processes": processes}
    write_beside(made(public=public), table, 2)
    verification = verify(table)
    assert verification.consistent is consistent
    assert any(note.startswith(f"{processes} processes trained") for note in verification.notes)


def test_what_a_stopped_fit_need_not_have() -> None:
    """The counts come first; steps may be missing, so that a fit without any is known by its counts alone."""
    stopped = {"stopped": "time limit"}
    for method in ("dp-gan", "dp-wgan", "pate-gan", "pate-acgan"):
        assert find_missing_mechanisms(made(COUNTS[:1], method=method, training=stopped)) == []
        assert find_missing_mechanisms(made(COUNTS[:1], method=method)) != []
        assert find_missing_mechanisms(made((), method=method, training=stopped)) != []


def test_one_column_has_no_joint_counts(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    write_beside(made(COUNTS[:1], public={"declared": ["a"]}), path, 1)
    assert verify(path).consistent
    # … and a certificate that says so of a wider table is not that table's.
    path.write_text("a,b\n1,2\n")
    entry = {"file": "t.csv", "rows": 1, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    data = json.loads(beside(path).read_text())
    beside(path).write_text(json.dumps({**data, "table": entry}))
    assert verify(path).problems == ("the table has 2 columns, the certificate says 1",)


def test_a_warm_starts_mechanisms_do_not_stand_for_the_fits_own() -> None:
    counts = made()["mechanisms"]
    labelled = [{**m, "details": {"warm_start": "margnet"}} for m in counts]
    warm = {"warm_start": {"method": "margnet", "public": {"rows": None}}}
    critic = {**counts[0], "purpose": "critic"}
    result = made(method="dp-wgan", public={"rows": 9, **warm})
    assert find_missing_mechanisms({**result, "mechanisms": [*labelled, critic]}) == []
    for items in ([*counts, critic], labelled, [*labelled[:1], critic]):
        assert len(find_missing_mechanisms({**result, "mechanisms": items})) == 1


def test_methods_and_requirements_are_the_same() -> None:
    from tabsynth.synthesizers import METHODS

    assert sorted(registered) == sorted(METHODS)


def test_certify_says_that_a_signature_vouches(table: Path, keys: Path) -> None:
    """A certificate of unknown origin is signed with a warning, one's own without."""
    write_beside(made(), table, 2, read_private(keys / "evil"))
    done = told("certify", table, "--key", keys / "ours")
    assert done.exit_code == 0 and "with your signature you vouch for it" in done.stderr
    assert fingerprint(read_public(keys / "evil.pub")) in done.stderr
    done = told("certify", table, "--key", keys / "ours")
    assert done.exit_code == 0 and done.stderr == ""
    assert told("verify", table, "--key", keys / "ours.pub").exit_code == 0
    write_beside(made(()), table, 2)
    refused("certify", table, "--key", keys / "ours", cwd=table.parent, says="no mechanism")
