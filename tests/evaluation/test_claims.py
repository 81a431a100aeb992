"""What a certificate claims of the table that was evaluated, and what contradicts it."""

from typing import Any

import pytest

from tabsynth.evaluation.claims import check_claim, is_conditional, is_private

CLAIM: dict[str, Any] = {
    "private": True,
    "epsilon": 1.0,
    "seeded": False,
    "public": {"schema_sha256": "ab", "declared": ["a"], "drafted": []},
    "table": {"rows": 100},
    "audit": [],
}


def check(rows: int = 100, schema: str = "ab", **changes: Any) -> Any:
    return check_claim({**CLAIM, **changes}, rows, schema)


def test_a_claim_that_nothing_contradicts() -> None:
    checked = check()
    assert checked.private and not checked.conditional
    assert checked.refuting_audits == () and checked.other_rows is None
    assert not checked.other_schema


@pytest.mark.parametrize(
    ("changes", "private", "conditional"),
    [
        ({"seeded": True}, False, False),
        ({"epsilon": "inf"}, False, False),
        ({"epsilon": None}, False, False),
        ({"epsilon": "nan"}, False, False),
        ({"private": False}, False, False),
        ({"public": {"drafted": ["a"], "schema_sha256": "ab"}}, False, True),
        ({"public": {"drafted": ["a"]}, "seeded": True}, False, False),
    ],
)
def test_a_claim_holds_without_condition_with_one_or_not_at_all(
    changes: dict[str, Any], private: bool, conditional: bool
) -> None:
    certificate = {**CLAIM, **changes}
    assert (is_private(certificate), is_conditional(certificate)) == (private, conditional)
    checked = check(**changes)
    assert (checked.private, checked.conditional) == (private, conditional)


def test_an_audit_refutes_by_its_verdict_or_by_a_bound_above_the_claim() -> None:
    audits = [
        {"method": "below", "epsilon_lower_bound": 1.0},
        {"method": "above", "epsilon_lower_bound": 1.01},
        {"method": "verdict", "verdict": "refuted"},
        {"method": "not", "verdict": "not refuted", "epsilon_lower_bound": "x"},
        "no audit",
    ]
    assert [item["method"] for item in check(audit=audits).refuting_audits] == ["above", "verdict"]
    unknown = check(audit=audits, epsilon=None)
    assert [item["method"] for item in unknown.refuting_audits] == ["verdict"]


def test_another_table_and_another_schema_are_noticed() -> None:
    assert check(rows=99).other_rows == 100 and check(rows=99).rows == 99
    assert check(schema="cd").other_schema
    silent = check_claim({}, 5, "ab")
    assert silent.other_rows is None and not silent.other_schema and not silent.private
    assert check_claim({"table": 7, "public": [], "audit": 3}, 5, "ab").other_rows is None
