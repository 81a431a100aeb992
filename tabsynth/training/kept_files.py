"""The files of a checkpoint and the index that lists them: at any moment a kill leaves one or the other whole."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabsynth.privacy.journal import Journal
from tabsynth.training.index import INDEX, write_index
from tabsynth.training.states import write_state


class KeptFiles:
    """What a checkpoint has kept, by kind and name.

    Attributes
    ----------
    path : Path
        The folder.
    journal : Journal
        The index says up to where it was written.
    """

    path: Path
    journal: Journal
    _index: dict[str, Any]

    def _find(self, kind: str, name: str) -> dict[str, Any] | None:
        for item in self._index["kept"]:
            if (item["kind"], item["name"]) == (kind, name):
                return dict(item)
        return None

    def _keep(self, kind: str, name: str, value: Any, done: int) -> None:
        """A new file, then the index that lists it, then the end of the file it replaces."""
        self.journal.check_process()
        file = f"state-{self._index['next']}.safetensors"
        self._index["next"] += 1
        item = {"kind": kind, "name": name, "file": file, "done": done}
        item["sha256"] = write_state(self.path / file, value)
        before = self._find(kind, name)
        kept = list(self._index["kept"])
        if before is None:
            kept.append(item)
        else:
            kept[kept.index(before)] = item
        self._index["kept"] = kept
        self._write_index()
        if before is not None:
            self._drop([before["file"]])

    def _drop(self, files: Sequence[str]) -> None:
        self.journal.check_process()
        for file in files:
            (self.path / file).unlink(missing_ok=True)

    def _write_index(self) -> None:
        self.journal.check_process()
        write_index(self.path / INDEX, {**self._index, "chain": self.journal.chain})
