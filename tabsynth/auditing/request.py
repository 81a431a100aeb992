"""The request for an audit: the method, the claim, and the settings of every kind of audit."""

from dataclasses import dataclass, field

from tabsynth._validate import in_range, integer, one_of, positive
from tabsynth.auditing.neighbouring_datasets import (
    NeighbouringDatasets,
    small_neighbouring_datasets,
)
from tabsynth.synthesizers.estimator import LINKED, METHODS
from tabsynth.training.loop import Progress

WHITE_BOX, REPLAY = "white-box", "replay"
MIN_RUNS = 20  # on each dataset, half of which choose a threshold


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """The method, the claim and the settings of an audit.

    Attributes
    ----------
    method : str
    epsilon, delta : float
        The claim.
    runs : int
        For white-box audits: runs on each neighbouring dataset.
    seeds : int
        For replays: number of artificial tables.
    datasets : NeighbouringDatasets
        For white-box audits of single tables: those that are fitted. Default: eight rows of three columns.
    progress : callable, optional
    """

    method: str
    epsilon: float
    delta: float = 1e-5
    runs: int = 4000
    seeds: int = 1
    datasets: NeighbouringDatasets = field(default_factory=small_neighbouring_datasets)
    progress: Progress | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        one_of("method", self.method, (*METHODS, *LINKED))
        positive("epsilon", self.epsilon)
        in_range("delta", self.delta, 0, 1, low_open=True, high_open=True)
        integer("runs", self.runs, least=MIN_RUNS)
        integer("seeds", self.seeds, least=1)

    def report(self, kind: str, done: int, total: int) -> None:
        """Report progress to whoever asked for it."""
        if self.progress is not None:
            self.progress(f"{kind} {self.method}", done, total)
