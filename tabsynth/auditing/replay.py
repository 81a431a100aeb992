"""Record and replay: test that the outputs of a run depend on private rows only through its mechanisms.

A run on a table is recorded: the inputs of its mechanisms and all outputs. It is replayed on a neighbouring dataset,
with the same seed, the same random numbers for each record, and each mechanism's input replaced by the recorded one
just before the noise. The replay passes if

* every release, the state after every step, logs, progress, model, certificate, files, sample, checkpoint and project
  ledger are equal bit for bit,
* the input of each mechanism changes by at most its sensitivity, and
* the noise and the change of the input agree with the certificate, in its unit.

Otherwise the result names the first difference. A replay that passes is no proof. A leak that shows on a pair of
neighbouring datasets is found by a single replay, without statistics.

A result states the change of each sum without noise. For a private table it is itself private information.
"""

import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sklearn.base import clone

from tabsynth._typing import JsonMapping, JsonObject
from tabsynth.auditing.run_trace import (
    ROUNDING,
    MechanismCall,
    RecordRandomness,
    RunTrace,
    record_logs,
)
from tabsynth.privacy.accounting.mechanisms import LAPLACE
from tabsynth.privacy.ledger.ledger import recorded_by
from tabsynth.privacy.ledger.project import ProjectLedger
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.method import read_model
from tabsynth.training import checkpoint as index

DRAFTS = "schema: "  # with which purposes of drafts begin
CHECKPOINT, LEDGER = "checkpoint", "project.ledger"
LEDGERS = (LEDGER, index.LEDGER)
Note = Callable[[str, object], None]
Fit = Callable[[Callable[[], Synthesizer], object, Path, Note], Iterator[Synthesizer]]


def make_files(model: Synthesizer, place: Path) -> JsonObject:
    """Make the files that :meth:`Synthesizer.fit` takes in an empty folder, at the same path in a replay."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    unit = model.design.unit
    ProjectLedger.create(place / LEDGER, epsilon=math.inf, delta=model.delta, unit=unit)
    return {"checkpoint": place / CHECKPOINT, "ledger": place / LEDGER}


def note_files(place: Path, note: Note) -> None:
    """Note all files of the folder, by their parts and by their bytes."""
    files = sorted(path for path in place.rglob("*") if path.is_file())
    note("files", [str(path.relative_to(place)) for path in files])
    # Ledgers come first, because their chain hash is in the model and in the checkpoint.
    for path in sorted(files, key=lambda path: path.name not in LEDGERS):
        data, parts = path.read_bytes(), None
        if path.name in LEDGERS:
            parts = [_line(line) for line in data.splitlines()]
        elif path.suffix == ".json":
            parts = json.loads(data)
        note(path.name, [parts, data])


def fit_with_files(
    fresh: Callable[[], Synthesizer], table: object, place: Path, note: Note
) -> Iterator[Synthesizer]:
    """Fit with a checkpoint and a ledger, note the files, and yield the fitted model."""

    def progress(*report: object) -> None:
        note("progress", report)

    model = fresh()
    model.fit(table, progress=progress, **make_files(model, place))
    note_files(place, note)
    yield model


def _line(line: bytes) -> JsonObject:
    """Return a line of a ledger without its chain hash, which depends on all earlier lines."""
    return {name: value for name, value in json.loads(line).items() if name != "chain"}


FLOAT32 = 1e-5  # relative; bounds and standard deviations are float32


def find_misprint(
    certificate: JsonMapping, mechanisms: Sequence[MechanismCall], changed_units: float = 1.0
) -> str | None:
    """Describe the first number of a certificate that disagrees with the run; None if all agree.

    Every call of a mechanism must have the standard deviation that the certificate states, in its unit. No input may
    change by more than ``changed_units`` times the stated sensitivity.

    Parameters
    ----------
    certificate : dict
        Certificate of the fit. Earlier charges are not of this run, but for the draft of the
        schema.
    mechanisms : sequence of Mechanism
        Calls of the run, with the distance to the inputs on the neighbouring dataset.
    changed_units : float
        Number of records, or units, that only one of the two datasets contains.
    """
    listed = [
        item
        for item in certificate["mechanisms"]
        if not item.get("earlier") or item["purpose"].startswith(DRAFTS)
    ]
    for number, call in enumerate(mechanisms, 1):
        label = f"mechanism {number} ({call.purpose})"
        items = [item for item in listed if item["purpose"] == call.purpose]
        if not items:
            return f"{label}: the certificate does not list it"
        for item in items:
            problem = _compare_with_item(item, call, changed_units)
            if problem is not None:
                return f"{label}: {problem}"
    return None


def _compare_with_item(item: JsonMapping, call: MechanismCall, changed_units: float) -> str | None:
    if "selection" in item.get("details", {}):
        return None  # the scores of an exponential mechanism have no sensitivity that a certificate states
    sensitivity, deviation = item["sensitivity"]["value"], item["noise_added"]["standard_deviation"]
    unit = item["sensitivity"]["unit"]
    if sensitivity is None or deviation is None:
        return "the certificate states no sensitivity or no noise"
    # A Laplace vote passes one count with the scale of its noise. The other count is the rest and changes as much.
    laplace = item.get("accounting") == LAPLACE
    used, moved = (
        (call.deviation * math.sqrt(2), 2 * call.distance)
        if laplace
        else (call.deviation, call.distance)
    )
    if not math.isclose(used, deviation, rel_tol=FLOAT32):
        return (
            f"the certificate states a standard deviation of {deviation:.6g}, and {used:.6g} was used"
            f" (unit: {unit})"
        )
    if not moved <= changed_units * sensitivity * (1 + ROUNDING + FLOAT32):
        return (
            f"the certificate states a sensitivity of {sensitivity:.6g}, and the input changed by {moved:.6g}"
            f" (unit: {unit})"
        )
    return None


SAMPLED = 40  # synthetic rows that are compared


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """The result of a replay.

    Attributes
    ----------
    mechanisms : tuple of Mechanism
        Every call of a mechanism, in order.
    first_difference : str or None
        The first difference, in one line; None if the replay passed.
    compared : int
        Number of compared numbers, texts and arrays.
    """

    mechanisms: tuple[MechanismCall, ...]
    first_difference: str | None
    compared: int

    @property
    def passes(self) -> bool:
        """True if there was no difference."""
        return self.first_difference is None

    @property
    def worst_move(self) -> float:
        """The largest change of a mechanism's input, in sensitivities; a correct mechanism has at most 1.

        If it is 0, the record changed no input and little was tested.
        """
        return max((m.move for m in self.mechanisms), default=0.0)

    def to_dict(self) -> JsonObject:
        """Return a JSON-ready summary without the single calls."""
        worst = self.worst_move
        return {
            "passed": self.passes,
            "worst_move": worst if math.isfinite(worst) else str(worst),
            "first_difference": self.first_difference,
            "mechanisms": len(self.mechanisms),
            "compared": self.compared,
        }


def replay(
    model: Synthesizer,
    table: object,
    neighbour: object,
    randomness: RecordRandomness | None = None,
    *,
    seed: int = 0,
    fit: Fit = fit_with_files,
) -> ReplayResult:
    """Fit a clone of ``model`` to a table, and replay the fit on its neighbour.

    Parameters
    ----------
    model : Synthesizer
        With finite epsilon and no time limit, on which a fit would depend. It is cloned, not fitted.
    table, neighbour : object
        Neighbouring datasets, or linked tables.
    randomness : RecordRandomness, optional
        For a method that draws batches of records.
    seed : int
        Replaces the model's ``random_state``.
    fit : callable
        Fits, and yields the model at each moment at which its outputs are compared.
    """
    certificates: list[JsonObject] = []

    def run(rows: object, note: Note) -> None:
        for fitted in fit(lambda: clone(model).set_params(random_state=seed), rows, place, note):
            for what, value in visible_outputs(fitted):
                note(what, value)
            certificates.append(fitted.certificate())

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "fit"
        result = replay_run(run, table, neighbour, randomness=randomness)
    if not result.passes:
        return result
    changed_units = 1.0 if randomness is None else float(randomness.most)
    return replace(
        result, first_difference=find_misprint(certificates[-1], result.mechanisms, changed_units)
    )


def replay_run(
    run: Callable[[object, Note], None],
    table: object,
    neighbour: object,
    *,
    randomness: RecordRandomness | None = None,
) -> ReplayResult:
    """Record any run that reads private rows by the library's mechanisms, and replay it on a neighbouring dataset.

    Parameters
    ----------
    run : callable
        ``run(table, note)``. It calls ``note(what, value)`` for all its outputs and must be seeded.
    randomness : RecordRandomness, optional
        For a run that draws batches of records.
    """
    recorded = RunTrace(randomness)
    _play(run, table, recorded)
    replayed = RunTrace(randomness, recorded)
    try:
        _play(run, neighbour, replayed)
    except Exception as error:  # the recorded run had no error
        replayed.report_difference(f"{type(error).__name__}: {error}")
    return ReplayResult(
        mechanisms=tuple(replayed.mechanisms),
        first_difference=replayed.difference or recorded.difference,
        compared=replayed.compared,
    )


def _play(run: Callable[[object, Note], None], table: object, trace: RunTrace) -> None:
    with recorded_by(trace), record_logs(trace):
        run(table, trace.note)
        trace.end()


def visible_outputs(model: Synthesizer) -> Iterable[tuple[str, object]]:
    """Yield all outputs of a fitted model: its attributes, certificate, file and a sample."""
    yield "model", vars(model)
    yield "certificate", model.certificate()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        yield "model file", (*read_model(path), path.read_bytes())
    yield "sample", model.sample(SAMPLED, random_state=1)


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """Two datasets that one record tells apart, or one unit or row of the root with all of its records.

    Attributes
    ----------
    kind : str
        Of that record.
    change : {"added", "removed"}
        Whether it is in the neighbour or in the table.
    table, neighbour : DataFrame or dict of DataFrame
    """

    kind: str
    change: str
    table: Any
    neighbour: Any


@dataclass(frozen=True, kw_only=True)
class NeighbourReplay:
    """The result of the replay of a method on one neighbour."""

    method: str
    kind: str
    change: str
    seed: int
    result: ReplayResult

    def to_dict(self) -> JsonObject:
        """Return a JSON-ready dict."""
        about = {"method": self.method, "kind": self.kind, "change": self.change, "seed": self.seed}
        return {**about, **self.result.to_dict()}
