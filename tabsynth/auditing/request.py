"""The request for an audit: the method, the claim, and the settings of every kind of audit."""

from dataclasses import dataclass
from pathlib import Path

from tabsynth._validate import in_range, integer, one_of, positive
from tabsynth.auditing.neighbouring_datasets import CASES, NeighbouringDatasets
from tabsynth.auditing.neighbouring_datasets import small_neighbouring_datasets as small_datasets
from tabsynth.errors import InputError
from tabsynth.synthesizers.loading import LINKED, METHODS
from tabsynth.training.loop import Progress

WHITE_BOX, REPLAY, BLACK_BOX, ONE_RUN = "white-box", "replay", "black-box", "one-run"
RUNS = {WHITE_BOX: 4000, BLACK_BOX: 500, ONE_RUN: 1000}  # defaults
MIN_RUNS = 20  # on each dataset; with fewer the attack of a black-box audit cannot be trained


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """The method, the claim and the settings of an audit.

    Attributes
    ----------
    method : str
    epsilon, delta : float
        The claim.
    runs : int, optional
        Runs on each neighbouring dataset; for one-run audits the number of canaries. Default: ``RUNS``.
    folder : Path
        The folder in which black-box audits store their runs.
    case : {"average", "worst"}
        For black-box audits.
    seeds : int
        For replays: number of artificial tables.
    unit_rows : int, optional
        For white-box audits of single tables: the bound of a schema with a unit. The canary is then a
        unit with two rows more than that, all of them equal.
    progress : callable, optional
    """

    method: str
    epsilon: float
    delta: float = 1e-5
    folder: Path = Path()
    runs: int | None = None
    case: str = "average"
    seeds: int = 1
    unit_rows: int | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        one_of("method", self.method, (*METHODS, *LINKED))
        one_of("case", self.case, CASES)
        positive("epsilon", self.epsilon)
        in_range("delta", self.delta, 0, 1, low_open=True, high_open=True)
        if self.runs is not None:
            integer("runs", self.runs, least=MIN_RUNS)
        integer("seeds", self.seeds, least=1)
        if self.unit_rows is not None:
            integer("unit_rows", self.unit_rows)
            if self.method in LINKED:
                raise InputError("Linked tables declare no unit; leave unit_rows out.")

    def count(self, kind: str) -> int:
        """Return the number of runs for a kind of audit."""
        return RUNS[kind] if self.runs is None else self.runs

    def report(self, kind: str, done: int, total: int) -> None:
        """Report progress to whoever asked for it."""
        if self.progress is not None:
            self.progress(f"{kind} {self.method}", done, total)

    @property
    def about_unit(self) -> str:
        """The words about the unit that follow the name of a part; empty without one."""
        return "" if self.unit_rows is None else f", unit of {self.unit_rows} rows"

    def small_datasets(self) -> NeighbouringDatasets:
        """Return the small neighbouring datasets of white-box audits, under the unit if there is one."""
        datasets = small_datasets()
        return datasets if self.unit_rows is None else datasets.as_unit(self.unit_rows)
