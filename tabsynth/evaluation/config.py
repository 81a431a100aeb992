"""The settings of an evaluation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tabsynth._shown import Shown
from tabsynth._validate import integer, quote
from tabsynth.errors import InputError

Progress = Callable[[str, float], None]


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Shown):
    """The settings of an evaluation: how much it measures, and its random draws.

    Parameters
    ----------
    m : int, optional
        Records attacked in each group of attribute disclosure (default: 1,000) and attribute reconstruction (default: 4,000),
        or roots attacked in each group (default: 500).
    k : sequence of int
        Numbers of neighbours that vote in attribute disclosure. Linked tables do not use them.
    known : sequence of str
        Columns that the attacker knows in attribute reconstruction, such as quasi-identifiers (default: the first seven
        columns; of a table of fewer than 14 columns the first half). Linked tables do not use them.
    random_state : int
        Seed of the evaluation's own draws, 0 or more: the same tables give the same numbers. It has nothing to do with the
        privacy of the synthesizer, whose noise is never seeded.
    sampled_from : dict of int, optional
        Number of rows of the whole table, where ``train`` (the real table), ``synthetic`` or ``holdout`` is a uniform sample
        of a table that is too large to be read. The result then has the standard error of each distance by the drawing of
        rows. :func:`tabsynth.tables.read_sample` draws rows.
    each_table : bool
        Whether each linked table is evaluated by itself and beside the tables above it, which takes most of the time.
    progress : callable, optional
        Called with the name of a stage and its finished share in [0, 1].

    Raises
    ------
    InputError
        If a setting is not valid.
    """

    m: int | None = None
    k: Sequence[int] = (1, 5, 10, 100)
    known: Sequence[str] = ()
    random_state: int = 0
    sampled_from: Mapping[str, int] | None = None
    each_table: bool = True
    progress: Progress | None = None

    def __post_init__(self) -> None:
        """Check the settings, and sort ``k``."""
        k = self.k
        if isinstance(k, int | str) or not isinstance(k, Sequence) or len(k) == 0:
            raise InputError(f"Expected k to be whole numbers such as (1, 5, 10), got {quote(k)}.")
        object.__setattr__(self, "k", tuple(sorted({integer("k", item) for item in k})))
        if isinstance(self.known, str):
            raise InputError(
                f"Expected known to be names of columns such as ('age', 'sex'), got {quote(self.known)}."
            )
        object.__setattr__(self, "known", tuple(self.known))
        if self.m is not None:
            integer("m", self.m)
        integer("random_state", self.random_state, least=0)

    def report_progress(self, stage: str, share: float = 1.0) -> None:
        """Call ``progress``, if there is one."""
        if self.progress is not None:
            self.progress(stage, share)

    def stage(self, name: str) -> Callable[[float], None] | None:
        """Return a function of the finished share of one stage; None without ``progress``."""
        progress = self.progress
        return None if progress is None else lambda share: progress(name, share)

    def of_table(self, name: str) -> "EvaluationConfig":
        """Return the settings of the evaluation of one of several linked tables: its seed, and the name in its stages."""
        progress = self.progress
        named = (
            None if progress is None else lambda stage, share: progress(f"{name}: {stage}", share)
        )
        return EvaluationConfig(random_state=self.random_state, progress=named)
