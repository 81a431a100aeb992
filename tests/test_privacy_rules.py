"""docs/design/privacy-rules.md defines every rule that is cited, and names tests and mutants that exist."""

import re

import pytest
from mutants.patches import ROOT, mutants, there

PAGE = (ROOT / "docs" / "design" / "privacy-rules.md").read_text(encoding="utf-8")
# From the number of each rule to its section.
RULES = {
    int(section[0]): section[1]
    for section in re.findall(r"^### R(\d+) (.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
MUTANTS = {mutant.name[:3]: {*re.findall(r"R(\d+)", mutant.rule)} for mutant in mutants()}
# A rule as code cites it, "R4" or the range "R2–R5"; not a part of another word, and not R² or R0.
CITED = re.compile(r"\bR([1-9]\d?)(?:–R([1-9]\d?))?\b")


def cited(text: str) -> set[int]:
    """The rules that a text cites, those within a range included."""
    return {
        rule
        for first, last in CITED.findall(text)
        for rule in range(int(first), int(last or first) + 1)
    }


def named(section: str) -> list[str]:
    """The mutants that a section names, by number or as ranges such as "013–015"."""
    (line,) = re.findall(r"^Mutants: (.*?)\.$", section, re.MULTILINE | re.DOTALL)
    parts = [] if line == "none" else re.split(r",\s+", line)
    ends = [(part.split("–")[0], part.split("–")[-1]) for part in parts]
    return [f"{n:03}" for first, last in ends for n in range(int(first), int(last) + 1)]


def test_rules_are_numbered_without_a_gap():
    assert list(RULES) == list(range(1, len(RULES) + 1))
    assert PAGE.count("\n### R") == len(RULES), "a rule is defined twice"


def test_citations_are_found():
    assert cited("R2–R5, R10 (R12); XR3, R0, R²") == {2, 3, 4, 5, 10, 12}


# Letters and digits of other meanings: examples, and codes of diagnoses.
WITHOUT_RULES = ("test_privacy_rules.py", "catalogue.toml")


@pytest.mark.parametrize("folder", ["tabsynth", "tests", "reports", "docs"])
def test_every_cited_rule_is_defined(folder):
    results = {
        f"{path.relative_to(ROOT)} cites R{rule}"
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".toml", ".md", ".html") and path.name not in WITHOUT_RULES
        for rule in cited(path.read_text(encoding="utf-8")) - set(RULES)
    }
    assert results == set()


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_reason_and_tests_that_exist(rule):
    assert "**Reason.** " in RULES[rule]
    tests = re.findall(r"^`((?:tests|reports)/\S+\.py::\w+)`\\?$", RULES[rule], re.MULTILINE)
    assert tests and len(tests) == RULES[rule].count("::")
    assert [test for test in tests if not there(test)] == [], "not defined in that file"


@pytest.mark.parametrize("rule", RULES)
def test_mutants_of_a_rule_are_those_that_state_it(rule):
    """A new mutant is added to the section of each rule in its ``rule``."""
    assert named(RULES[rule]) == sorted(n for n, rules in MUTANTS.items() if str(rule) in rules)
