"""The certificate: what it claims follows from its mechanisms, and tampering shows."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tabsynth.errors import FileFormatError, TabsynthError
from tabsynth.privacy.accounting import accountants as accounting
from tabsynth.privacy.accounting import accountants as renyi
from tabsynth.privacy.accounting.mechanisms import (
    ACCOUNTINGS,
    Gaussian,
    Mechanism,
    NoisyVote,
    NoPrivacy,
    SubsampledGaussian,
    mechanism_from,
)
from tabsynth.privacy.certificate import verification
from tabsynth.privacy.certificate.certificate import (
    beside,
    describe_mechanism,
    make_certificate,
    read_certificate,
    write_beside,
)
from tabsynth.privacy.certificate.verification import AccountantResult, second_epsilon, verify
from tabsynth.privacy.ledger.ledger import Ledger


def certificate(
    *,
    noise: bool = True,
    seeded: bool = False,
    vote: NoisyVote | None = None,
    votes: int = 11,
    gaussians: bool = True,
    drafted: Sequence[str] = (),
) -> dict[str, Any]:
    ledger = Ledger(8.0 if noise else math.inf, 1e-5)
    mechanisms: list[tuple[str, Mechanism, int]] = [
        ("one-way counts", Gaussian(noise_multiplier=4.0), 1),
        ("critic", SubsampledGaussian(noise_multiplier=1.5, sampling_rate=1.0), 3),
    ]
    mechanisms = mechanisms if gaussians else []
    if not noise:
        mechanisms.append(("autoencoder", NoPrivacy(), 2))
    if vote is not None:
        mechanisms.append(("votes", vote, votes))
    for purpose, mechanism, count in mechanisms:
        account = ledger.open(purpose, mechanism, count)
        for _ in range(count):
            ledger.spend(account)
    return make_certificate(
        ledger,
        {
            "public": {"rows": None, **({"drafted": list(drafted)} if drafted else {})},
            "versions": {"tabsynth": "0.2.0"},
            "training": {},
        },
        method="dp-wgan" if gaussians else "pate-gan",
        seeded=seeded,
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n")
    write_beside(certificate(), path, 1)
    return path


def edit(table: Path, /, **changes: Any) -> None:
    path = beside(table)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_what_it_says() -> None:
    private = certificate()
    assert private["private"] is True and private["statement"].startswith("Private: (")
    assert 0 < private["epsilon"] < 8 == private["epsilon_asked"]
    seeded = certificate(seeded=True)
    assert seeded["private"] is False and seeded["statement"].startswith("Not private: seeded.")
    free = certificate(noise=False)
    assert free["private"] is False and free["epsilon"] == "inf" == free["epsilon_asked"]
    assert "infinite" in free["statement"]
    for created in (private, seeded, free):
        assert json.loads(json.dumps(created, allow_nan=False)) == created


def test_a_claim_on_drafted_columns_is_conditional(tmp_path: Path) -> None:
    names = ["age", "job", *(f"column {i}" for i in range(40))]
    stated = certificate(drafted=names)
    assert stated["private"] is False and stated["conditional"] == names
    statement = stated["statement"]
    assert statement.startswith("CONDITIONAL: (") and "Private" not in statement
    assert "'age', 'job', 'column 0'" in statement and "and 22 more is public" in statement
    assert len(certificate(drafted=["x" * 300] * 50)["statement"]) < 2_000
    for changes in ({"seeded": True}, {"noise": False}):
        other = certificate(drafted=names, **changes)  # type: ignore[arg-type]
        assert other["statement"].startswith("Not private") and other["conditional"] == names
    assert certificate()["conditional"] == []
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    write_beside(stated, path, 1)
    assert verify(path).consistent
    for changed, says in (
        ({"private": True}, "depends on drafted columns"),
        ({"conditional": []}, "list of conditional columns"),
        ({"statement": certificate()["statement"]}, "its statement"),
        ({"public": {"rows": None}}, "list of conditional columns"),
    ):
        write_beside({**stated, **changed}, path, 1)
        assert any(says in problem for problem in verify(path).problems)


@pytest.mark.parametrize(("noise", "seeded"), [(True, False), (True, True), (False, False)])
def test_untouched_is_valid(tmp_path: Path, noise: bool, seeded: bool) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    written = write_beside(certificate(noise=noise, seeded=seeded), path, 1)
    assert written == beside(path) == tmp_path / "t.csv.certificate.json"
    checked = verify(path)
    assert checked.consistent and checked.problems == ()
    assert math.isinf(checked.epsilon) is not noise


@pytest.mark.parametrize("accounting", ACCOUNTINGS)
def test_votes_are_verified(tmp_path: Path, accounting: str) -> None:
    """The round trip of a vote, the accountant's true name, and edits that show."""
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    vote = NoisyVote(noise=12.5, teachers=80, accounting=accounting)
    stated = certificate(vote=vote)
    write_beside(stated, path, 1)
    assert verify(path).consistent
    listed = stated["mechanisms"][2]
    ledgers = {
        **{"purpose": "votes", "mechanism": "noisy-vote", "noise": 12.5, "teachers": 80},
        **{"accounting": accounting, "count": 11, "details": {}},
    }
    assert {**listed, **ledgers} == listed and listed["sensitivity"]["unit"] == "votes"
    name = "exact Gaussian" if accounting == "gaussian" else "RDP"
    assert stated["accountant"]["name"] == name
    for change in ({"noise": 30.0}, {"count": 3}):
        edit(path, mechanisms=[*stated["mechanisms"][:2], {**listed, **change}])
        assert "the mechanisms give" in verify(path).problems[0]
    edit(path, mechanisms=[*stated["mechanisms"][:2], {**listed, "accounting": "data-dependent"}])
    with pytest.raises(TabsynthError, match="accounting"):
        verify(path)


def test_the_accountant_is_named_truly() -> None:
    assert certificate()["accountant"]["name"] == "exact Gaussian"
    assert certificate(noise=False)["accountant"] == {"name": "none"}


def test_a_changed_table_shows(table: Path) -> None:
    table.write_text("a,b\n1,3\n")
    assert "SHA-256" in verify(table).problems[0]


def test_a_second_accountant_that_contradicts_shows(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past its own error, however well the first accountant agrees with the claim."""
    claimed = verify(table).epsilon
    for factor, error, valid in ((1.001, 0.0, True), (1.01, 0.0, False), (1.01, claimed, True)):
        opinion = AccountantResult("PLD (tabsynth)", factor * claimed, error)
        monkeypatch.setattr(verification, "second_epsilon", lambda *_, result=opinion: result)
        checked = verify(table)
        assert checked.consistent is valid and checked.accountants[1] is opinion
        assert valid or "a second accountant gives" in checked.problems[0]


def test_a_mistake_in_the_accounting_of_votes_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made in the first accountant itself, so that the claim and its recomputation agree."""
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    vote = NoisyVote(noise=57.9, teachers=381, accounting="exact-binary")
    right = renyi.vote_curve
    for part, valid in ((4, False), (1, True)):
        accounting._epsilon.cache_clear()
        monkeypatch.setattr(renyi, "vote_curve", lambda *a, part=part, **k: right(*a, **k) / part)
        write_beside(certificate(vote=vote, votes=300, gaussians=False), path, 1)
        checked = verify(path)
        assert checked.consistent is valid and checked.accountants[1].name.startswith("PLD"), (
            checked.problems
        )
    accounting._epsilon.cache_clear()


@pytest.mark.parametrize("votes", [1, 2, 3, 8])
def test_few_votes_are_believed_though_pld_is_looser(votes: int) -> None:
    for teachers, noise in ((5, 113.0), (12, 235.8), (3, 3.0), (381, 57.9)):
        spends = [(NoisyVote(noise=noise, teachers=teachers, accounting="exact-binary"), votes)]
        claimed = accounting.epsilon_of(spends, 1e-5)
        accountants = (AccountantResult("RDP", claimed), second_epsilon(spends, 1e-5))
        assert verification._epsilons(claimed, accountants) == []


def test_a_removed_mechanism_shows(table: Path) -> None:
    for i in range(2):
        data = json.loads(beside(table).read_text())
        kept = [item for j, item in enumerate(data["mechanisms"]) if j != i]
        edit(table, mechanisms=kept)
        assert any("the mechanisms give" in problem for problem in verify(table).problems)
        edit(table, mechanisms=data["mechanisms"])
        assert verify(table).consistent


GAUSSIAN = {"mechanism": "gaussian", "noise_multiplier": 1.0, "sampling_rate": 1.0}
MECHANISM = describe_mechanism({"purpose": "p", **GAUSSIAN, "count": 1, "details": {}})


@pytest.mark.parametrize(
    "changes",
    [
        *({"epsilon": v} for v in (-1, math.nan, None, "8", True, [], 10**400)),
        *(
            {"delta": v}
            for v in (0, 1, 2.0, -1e-5, 0.0, 1.0, math.nan, math.inf, "1e-5", None, True)
        ),
        *({"mechanisms": v} for v in (None, {}, "x", [5], [None], [[]], [{}])),
        *({"mechanisms": [{**MECHANISM, "count": v}]} for v in (-1, math.nan, True, 1.5, 10**400)),
        *(
            {"mechanisms": [{**MECHANISM, "noise_multiplier": v}]}
            for v in (0, -1, math.nan, 1e-300)
        ),
        *({"mechanisms": [{**MECHANISM, "details": v}]} for v in ("text", 5)),
        {"seeded": None},
        {"table": None},
        {"table": {"sha256": 5}},
        {"format": "tabsynth-certificate/3"},
        {"format": None},
        {"format": ["tabsynth-certificate/1"]},
    ],
    ids=lambda changes: repr(changes)[:70],
)
def test_rubbish_is_one_line(table: Path, changes: dict[str, Any]) -> None:
    edit(table, **changes)
    with pytest.raises(TabsynthError) as error:
        verify(table)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


@pytest.mark.parametrize("count", [10**9, 10**15])
def test_huge_numbers_are_answered(table: Path, count: int) -> None:
    for rate in (1.0, 0.5):
        item = {
            **MECHANISM,
            "mechanism": "subsampled-gaussian",
            "sampling_rate": rate,
            "noise_multiplier": 1e-49,
            "count": count,
        }
        edit(table, mechanisms=[item])
        assert not verify(table).consistent


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"5", b"null", b'"x"', b"\xff\xfe\x00", b"[" * 100_000, b"1" * 9000]
)
def test_what_is_no_certificate(table: Path, text: bytes) -> None:
    beside(table).write_bytes(text)
    with pytest.raises(FileFormatError) as error:
        verify(table)
    assert "\n" not in str(error.value)


def test_missing_files(table: Path, tmp_path: Path) -> None:
    table.unlink()
    with pytest.raises(TabsynthError, match="Cannot read"):
        verify(table)
    with pytest.raises(FileFormatError, match="Cannot read certificate"):
        verify(tmp_path / "nothing.csv")
    with pytest.raises(FileFormatError, match="Cannot read certificate"):
        read_certificate(tmp_path)


@pytest.mark.parametrize("change", [{"noise": -1.0}, {"accounting": "none"}, {"teachers": 0}])
def test_a_vote_that_cannot_be_is_a_damaged_file(change):
    listed = NoisyVote(noise=3.0, teachers=9).to_dict()
    assert mechanism_from(listed) == NoisyVote(noise=3.0, teachers=9)
    with pytest.raises(FileFormatError, match="listed that cannot be"):
        mechanism_from({**listed, **change})
