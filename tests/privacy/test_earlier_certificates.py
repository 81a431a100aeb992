"""R27: certificates that version 0.2 wrote verify as they did then.

``certificates_of_0_2.json`` has tables and certificates of small fits: 6 rows of each kind, from the code of that version.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tabsynth.privacy.certificate.certificate import NAMES_AND_TYPES, NAMES_ONLY, beside
from tabsynth.privacy.certificate.completeness import NO_PLAN
from tabsynth.privacy.certificate.verification import Verification, verify

STORED = json.loads(Path(__file__).with_name("certificates_of_0_2.json").read_text("utf-8"))
STATES = {"seeded": "not private", "conditional": "conditional"}


def verified(folder: Path, table: str, certificate: dict[str, Any]) -> Verification:
    path = folder / "t.csv"
    path.write_bytes(table.encode())
    beside(path).write_text(json.dumps(certificate), "utf-8")
    return verify(path)


@pytest.mark.parametrize("kind", STORED)
def test_a_certificate_of_version_0_2_verifies_as_it_did(kind: str, tmp_path: Path) -> None:
    stored = STORED[kind]
    assert stored["certificate"]["versions"]["tabsynth"] == "0.2.0"
    verification = verified(tmp_path, **stored)
    assert verification.problems == ()
    assert verification.state.value == STATES.get(kind, "not authenticated")
    assert NO_PLAN in verification.notes


def test_a_certificate_of_a_later_version_states_its_plan(tmp_path: Path) -> None:
    """Version 0.2.0 stated none. A later certificate whose plan was deleted is refused."""
    table, data = STORED["declared"]["table"], copy.deepcopy(STORED["declared"]["certificate"])
    for version in ("0.3.0", "0.20.0"):
        data["versions"]["tabsynth"] = version
        problems = verified(tmp_path, table, data).problems
        assert any("it does not state its plan" in problem for problem in problems), version


def test_the_former_words_are_accepted_of_former_certificates_only(tmp_path: Path) -> None:
    """The statement of a certificate with a plan says that the types of released columns are public too."""
    table, data = STORED["draft"]["table"], copy.deepcopy(STORED["draft"]["certificate"])
    assert NAMES_ONLY in data["statement"] and NAMES_AND_TYPES not in data["statement"]
    listed = [
        "purpose",
        "mechanism",
        "noise_multiplier",
        "sampling_rate",
        "threshold_delta",
        "count",
    ]
    items = [
        ({name: item[name] for name in listed if name in item}, item.get("earlier"))
        for item in data["mechanisms"]
    ]
    data["plan"] = {
        "before": [item for item, earlier in items if earlier],
        "fit": [item for item, earlier in items if not earlier],
    }
    problems = verified(tmp_path, table, data).problems
    assert problems == ("its statement does not follow from its figures",)
    data["statement"] = data["statement"].replace(NAMES_ONLY, NAMES_AND_TYPES)
    assert verified(tmp_path, table, data).problems == ()
    data["statement"] = data["statement"].replace(NAMES_AND_TYPES, "nothing")
    del data["plan"]
    assert verified(tmp_path, table, data).problems == problems
