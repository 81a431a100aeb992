"""R27: a dossier that version 0.2 wrote verifies as it did then. It is of a private draft, with a published report."""

import json
from pathlib import Path

from tabsynth.dossier.checking import verify_dossier

STORED = json.loads(Path(__file__).with_name("dossier_of_0_2.json").read_text("utf-8"))


def test_a_dossier_of_version_0_2_verifies_as_it_did(tmp_path: Path) -> None:
    for name, text in STORED.items():
        (tmp_path / name).write_bytes(text.encode())
    assert (tmp_path / "registry_record.yaml").exists()  # which is not written any more
    verification = verify_dossier(tmp_path)
    assert verification.problems == () and verification.state.value == "not authenticated"
