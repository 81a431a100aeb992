"""Record and replay (R1): is a run a function of what its mechanisms released, and of nothing else?

A run on a table is recorded: what goes into each mechanism, and all that comes of it. It is replayed on
a neighbour, a table with one record more or less, with the same seed, with the same coins for each record,
and with each mechanism's input set back to the recorded one just before the noise. Then

* every release, the state after every step, logs, progress, model, certificate, file, sample, and all
  that its checkpoint and a project's ledger hold must come out the same to the bit, and
* what goes into each mechanism may differ by its sensitivity at most, and
* the noise, and how far the input moved, must be those that the certificate prints, in its unit.

The first thing that is otherwise is named. What passes is no proof, but a leak that a table and its
neighbour show is found by one run, without statistics.

A result tells how far a record moved each sum, without noise: of a private table it is itself private.
"""

import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sklearn.base import clone

from tabsynth.auditing.replay_files import Note, fit_with_files
from tabsynth.auditing.replay_neighbours import Neighbour, neighbours
from tabsynth.auditing.replay_printed import misprinted
from tabsynth.auditing.replay_recorder import Coins, Mechanism, Tape, logged
from tabsynth.auditing.replay_systems import tiny
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.privacy.ledger.ledger import recorded_by
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.model_file import read_model
from tabsynth.tables.counter import RowCounter
from tabsynth.tables.frames import to_pandas

SAMPLED = 40  # rows of the model that are compared
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """What a replay found.

    Attributes
    ----------
    mechanisms : tuple of Mechanism
        Every call of one, in order.
    first_difference : str or None
        The first thing that differed, in a line; None where the run passed.
    compared : int
        Numbers, texts and arrays that were compared.
    """

    mechanisms: tuple[Mechanism, ...]
    first_difference: str | None
    compared: int

    @property
    def passed(self) -> bool:
        """Whether nothing differed."""
        return self.first_difference is None

    @property
    def worst_move(self) -> float:
        """The farthest that any mechanism's input moved, in its sensitivities; at most 1 is right.

        0 says that the neighbour showed the mechanisms nothing, and so that little was tested.
        """
        return max((m.move for m in self.mechanisms), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; without the single mechanisms."""
        worst = self.worst_move
        return {
            "passed": self.passed,
            "worst_move": worst if math.isfinite(worst) else str(worst),
            "first_difference": self.first_difference,
            "mechanisms": len(self.mechanisms),
            "compared": self.compared,
        }


def replay(
    model: Synthesizer,
    table: Any,
    neighbour: Any,
    *,
    seed: int = 0,
    sampled: int = SAMPLED,
    interrupted: int | None = None,
) -> ReplayResult:
    """Fit a clone of ``model`` to a table, and replay the fit on its neighbour.

    Parameters
    ----------
    model : Synthesizer
        Of finite epsilon; it is not fitted itself. A time limit would make a fit depend on the clock.
    table, neighbour : DataFrame or RowCounter
        The same records in any order, but for those that only one of them holds.
    seed : int
        Takes the place of the model's ``random_state``, and seeds the records' coins.
    sampled : int
        Rows of the fitted model that are compared.
    interrupted : int, optional
        Interrupt the fit after so many reports of progress, and let another object go on from its
        checkpoint.

    Raises
    ------
    InputError
        If the fit has no finite epsilon or has a time limit, or cannot use ``table``.
    """
    if math.isinf(model.epsilon) or model.time_limit is not None:
        raise InputError("A replay needs a finite epsilon and no time_limit; change the model.")
    coins = None  # a counter shows no record, and the one method that takes it draws no batch
    if not isinstance(table, RowCounter):
        encoder = TableEncoder(model.schema, model._encoding())
        one, other = (encoder.to_index(to_pandas(t)) for t in (table, neighbour))
        coins = Coins(one, other, seed)

    def fresh() -> Synthesizer:
        return clone(model).set_params(random_state=seed)

    certificates: list[dict[str, Any]] = []

    def fit(rows: Any, note: Note) -> None:
        def look(fitted: Synthesizer) -> None:
            for what, value in seen(fitted, sampled):
                note(what, value)
            certificates.append(fitted.certificate())

        fit_with_files(fresh, rows, place, note, interrupted=interrupted, look=look)

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "fit"
        found = replay_run(fit, table, neighbour, coins=coins)
    if not found.passed:
        return found
    most = 1.0 if coins is None else float(coins.alone.sum())
    return replace(found, first_difference=misprinted(certificates[-1], found.mechanisms, most))


def replay_run(
    run: Callable[[Any, Note], None],
    table: Any,
    neighbour: Any,
    *,
    coins: Coins | None = None,
) -> ReplayResult:
    """Record any run that reads private rows by the library's mechanisms, and replay it on a neighbour.

    Parameters
    ----------
    run : callable
        ``run(table, note)``; it tells ``note(what, value)`` all that it lets be seen. What it draws
        must be seeded.
    coins : Coins, optional
        For a run that draws batches of records.
    """
    recorded = Tape(coins)
    _play(run, table, recorded)
    replayed = Tape(coins, recorded)
    try:
        _play(run, neighbour, replayed)
    except Exception as error:  # whatever went wrong, on the table it did not
        replayed.differs(f"{type(error).__name__}: {error}")
    return ReplayResult(
        mechanisms=tuple(replayed.mechanisms),
        first_difference=replayed.difference or recorded.difference,
        compared=replayed.compared,
    )


def _play(run: Callable[[Any, Note], None], table: Any, tape: Tape) -> None:
    with recorded_by(tape), logged(tape):
        run(table, tape.note)
        tape.end()


def seen(model: Synthesizer, sampled: int = SAMPLED) -> Iterable[tuple[str, Any]]:
    """All that a person could see of a fitted model, part by part: and all that the object holds."""
    yield "model", vars(model)
    yield "certificate", model.certificate()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        yield "model file", (*read_model(path), path.read_bytes())
    yield "sample", model.sample(sampled, random_state=1)


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """One line of :func:`audit_replay`: the method, the neighbour, the seed, and what was found."""

    method: str
    kind: str
    change: str
    seed: int
    result: ReplayResult

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        about = {"method": self.method, "kind": self.kind, "change": self.change, "seed": self.seed}
        return {**about, **self.result.to_dict()}


def audit_replay(
    method: str,
    table: Any,
    schema: Schema,
    epsilon: float,
    seeds: int | Sequence[int] = 1,
    *,
    delta: float = 1e-5,
    label: str | None = None,
    model: Synthesizer | None = None,
    progress: Progress | None = None,
) -> list[Replayed]:
    """Replay a method on every kind of neighbour of a table, once a seed.

    Parameters
    ----------
    method : str
        As ``tabsynth fit`` names it, or a system of :func:`tabsynth.auditing.replay_systems.systems`.
    table : DataFrame
        A few hundred rows tell as much as many. What is found is of these very rows, without noise.
    seeds : int or sequence of int
        Their number, or which.
    label : str, optional
        The column whose rarest class is the minority, and the class of PATE-ACGAN.
    model : Synthesizer, optional
        What to fit, where it is not a tiny network of that method.
    progress : callable, optional
        ``progress(what, done, total)``.

    Raises
    ------
    InputError
        For an unknown method, or a table or schema that it cannot use.
    """
    frame = to_pandas(table)
    if model is None:
        model = tiny(method, schema, epsilon=epsilon, delta=delta, label=label)
        schema = model.schema
    listed = range(seeds) if isinstance(seeds, int) else seeds
    found: list[Replayed] = []
    pairs: list[tuple[int, Neighbour]] = [
        (seed, pair)
        for seed in listed
        for pair in neighbours(frame, schema, label=label, seed=seed)
    ]
    for seed, pair in pairs:
        result = replay(model, pair.table, pair.neighbour, seed=seed)
        found.append(
            Replayed(method=method, kind=pair.kind, change=pair.change, seed=seed, result=result)
        )
        if progress is not None:
            progress("replay", len(found), len(pairs))
    return found
