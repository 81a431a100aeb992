"""A declared fact that no person has stated since a draft read it off the rows keeps that trace, wherever the schema goes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_lines import run
from hypothesis import given
from hypothesis import strategies as st

from tabsynth import Categorical, InputError, MargNet, Numeric, Schema
from tabsynth.drafting import draft_schema
from tabsynth.errors import FileFormatError
from tabsynth.privacy.certificate.certificate import certify
from tabsynth.privacy.certificate.signing import make_keys, read_private
from tabsynth.privacy.certificate.verification import State, verify
from tabsynth.schema.column import COPIED, provenance_in_words
from tabsynth.schema.editing import Edit, differences, edit
from tabsynth.schema.linked import LinkedSchema
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.linked.estimator import LinkedMargNet
from tabsynth.synthesizers.method import Trained

WORDS = "declared, unchanged from a draft of the rows"


def table(rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, rows),
            "sex": rng.choice(["p", "q"], rows),
            "n": rng.integers(0, 4, rows),
        }
    )


DRAFT = draft_schema(table())
FACTS = {name: set(DRAFT[name].facts_from_rows) for name in DRAFT.names}
# Of each edit that states a fact: the edit of that column, and the facts that it states.
STATED: list[tuple[dict[str, Any], set[str]]] = [
    ({"age": {"low": 0, "high": 120}}, {"low", "high"}),
    ({"age": {end: DRAFT["age"].to_dict()[end] for end in ("low", "high")}}, {"low", "high"}),
    ({"age": {"dtype": "Int64"}}, {"dtype"}),
    ({"age": {"nulls": True}}, {"nulls"}),
    ({"sex": {"categories": ["p", "q", "x"]}}, {"categories"}),
    ({"sex": {"nulls": False}}, {"nulls"}),
]


@given(st.lists(st.sampled_from([*range(len(STATED)), "age", "sex", "all"]), max_size=6))
def test_the_trace_is_of_the_facts_that_no_edit_has_stated(steps: list[Any]) -> None:
    """In whatever order a person states facts and declares columns, in one edit or in several."""
    schema, left = DRAFT, {name: set(facts) for name, facts in FACTS.items()}
    declared: set[str] = set()
    for step in steps:
        if isinstance(step, int):
            change, facts = STATED[step]
            schema = edit(schema, Edit(facts=change))
            for name in change:
                left[name] -= facts
        else:
            names = schema.names if step == "all" else [step]
            schema = edit(schema, Edit(source="codebook", declare=names))
            declared |= set(names)
    schema = Schema.from_dict(json.loads(schema.to_json()))
    assert {name: set(schema[name].facts_from_rows) for name in schema.names} == left
    assert set(schema.drafted) == set(schema.names) - declared
    assert {n: set(f) for n, f in schema.unchanged_facts.items()} == {
        name: facts for name, facts in left.items() if name in declared and facts
    }
    for column in schema.columns:
        unchanged = column.name in declared and left[column.name]
        assert provenance_in_words(column).startswith(WORDS) == bool(unchanged)


def test_one_edit_states_and_declares() -> None:
    stated = {"age": {"low": 0, "high": 120}}
    schema = edit(DRAFT, Edit(facts=stated, declare=DRAFT.names, source="codebook"))
    assert set(schema["age"].facts_from_rows) == FACTS["age"] - {"low", "high"}
    line = next(x for x in differences(DRAFT, schema) if x.startswith("column 'sex', provenance"))
    assert WORDS in line and "categories" in line


def test_columns_from_another_source_are_plainly_declared(tmp_path: Path) -> None:
    column = Numeric(name="age", dtype="int64", low=0, high=120)
    assert column.facts_from_rows == () and provenance_in_words(column) == "declared"
    replaced = DRAFT.replace(columns=[column, *DRAFT.columns[1:]])
    assert "age" not in edit(replaced, Edit(declare=DRAFT.names, source="s")).unchanged_facts


def test_a_file_that_is_edited_by_hand_keeps_the_list(tmp_path: Path) -> None:
    """One word makes a drafted column a declared one; what is copied is still listed, until a person takes it out."""
    data = DRAFT.to_dict()
    for column in data["columns"]:
        column["provenance"] = "declared"
    assert Schema.from_dict(data).unchanged_facts.keys() == set(DRAFT.names)
    data["columns"][0][COPIED].remove("low")
    assert "low" not in Schema.from_dict(data)["age"].facts_from_rows
    changed = Schema.from_dict(data)
    for wrong in ("low", [1]):
        data["columns"][0][COPIED] = wrong
        with pytest.raises(FileFormatError):
            Schema.from_dict(data)
    with pytest.raises(InputError, match="list of facts"):
        Categorical(name="a", dtype="str", categories=("x",), copied_from_private_rows="dtype")
    del data["columns"][0][COPIED]
    plain = Schema.from_dict(data)
    assert "age" not in plain.unchanged_facts and plain.fingerprint() != changed.fingerprint()


def test_older_files_are_read_as_before() -> None:
    """Their drafted columns list all facts, or none; both mean all of them."""
    data = DRAFT.to_dict()
    assert all(column[COPIED] for column in data["columns"])
    for column in data["columns"]:
        del column[COPIED]
    assert (
        Schema.from_dict(data) == DRAFT
        and Schema.from_dict(data).fingerprint() == DRAFT.fingerprint()
    )


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of a schema that was drafted, of which one column was declared by one word."""
    folder = tmp_path_factory.mktemp("unchanged")
    listed = {"categories": ["0", "1", "2", "3"]}
    stated: dict[str, dict[str, Any]] = {
        "sex": {"dtype": "str", "nulls": False, "categories": ["p", "q"]},
        "n": {"dtype": "int64", "nulls": False}
        | (listed if DRAFT["n"].categories else {"low": 0, "high": 3}),
    }
    schema = edit(DRAFT, Edit(facts=stated, declare=DRAFT.names, source="s"))
    assert set(schema.unchanged_facts) - {"n"} == {"age"}
    schema.save(folder / "s.json")
    model = MargNet(schema, epsilon=1.0, config=MargNetConfig(steps=1, components=5), device="cpu")
    assert WORDS in " ".join(model.plan(estimate_time=False).notes)
    model.fit(table()).save(folder / "m")
    model.sample_to(folder / "t.csv", 40)
    return folder


def test_certificate_statement_and_verification_say_so(release: Path) -> None:
    certificate = json.loads((release / "t.csv.certificate.json").read_text())
    facts = certificate["public"]["unchanged_from_draft"]
    assert set(facts["age"]) == FACTS["age"] and "age" in certificate["public"]["declared"]
    assert certificate["private"] and certificate["conditional"] == []
    assert certificate["statement"].startswith("Private: (")
    assert "'age'" in certificate["statement"] and f"are {WORDS}" in certificate["statement"]
    assert "'sex'" not in certificate["statement"]
    make_keys(release / "key")
    certify(release / "t.csv", key=read_private(release / "key"))
    found = verify(release / "t.csv", release / "key.pub")
    assert found.state is State.AUTHENTICATED
    assert any("column 'age'" in note and WORDS in note and "low" in note for note in found.notes)
    said = run("verify", "t.csv", "--key", "key.pub", cwd=release).stdout
    assert said.count(WORDS) >= 2  # a note, and the statement
    from tabsynth import load

    assert load(release / "m").schema_.unchanged_facts.keys() == facts.keys()


def test_a_statement_without_it_is_refused(release: Path) -> None:
    path = release / "t.csv.certificate.json"
    before = path.read_text()
    certificate = json.loads(before)
    certificate.pop("signature", None)
    certificate["statement"] = certificate["statement"].partition(" Facts of")[0]
    path.write_text(json.dumps(certificate))
    assert "its statement does not follow from its figures" in verify(release / "t.csv").problems
    path.write_text(before)


def test_linked_tables_say_so_by_table() -> None:
    own = edit(DRAFT, Edit(declare=DRAFT.names, source="s"))
    child = {"parent": "homes", "parent_key": "home", "max_children": 2}
    schema = LinkedSchema(
        {"homes": own, "people": own}, {"homes": {"key": "home"}, "people": child}
    )
    model = LinkedMargNet(schema, epsilon=1.0)
    public = model.make_method(schema).public_facts(Trained(generator=None, curves={}))
    assert set(public["unchanged_from_draft"]) == {
        f"{t}.{c}" for t in schema.names for c in own.names
    }
