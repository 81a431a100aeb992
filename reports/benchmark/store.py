"""The rows of a benchmark by run: which are there, and which need not be measured."""

from collections.abc import Mapping

from config import Config, Run

NOT_DONE = "not done in "  # … so many CPU seconds: the reason of a row that was stopped
REFERENCES = {
    "real": "the private rows themselves",
    "fresh": "the test rows",
    "shuffled": "independent columns",
}


def is_stale(config: Config, row: Mapping) -> bool:
    """Return whether a row was stopped before the limit of the benchmark: then its run is still to be made."""
    reason = row.get("stopped", "")
    if not reason.startswith(NOT_DONE):
        return False
    seconds = int(reason.removeprefix(NOT_DONE).split()[0].replace(",", ""))
    return seconds < config.limit


def stopped_by(config: Config, results: Mapping[str, dict], run: Run) -> dict | None:
    """Return the row whose end at the limit says that this run would not end either, or None.

    A system that did not end on a table at some epsilon is not tried there at a larger one, nor with
    another seed: the counts of steps and of marginals grow with epsilon, and no seed changes them.
    Of several such rows that of the largest epsilon is returned: that of the run itself, where it was tried with another seed.
    """
    rows = [
        row
        for row in results.values()
        if row.get("stopped", "").startswith(NOT_DONE)
        and (row["table"], row["system"]) == (run.table, run.system)
        and row["epsilon"] <= run.epsilon
        and not is_stale(config, row)
    ]
    return max(rows, key=lambda row: row["epsilon"], default=None)


def was_tried(row: Mapping, epsilon: float) -> bool:
    """Return whether a row that was stopped is of this epsilon, and not inferred from a smaller one."""
    return row["epsilon"] == epsilon


def reason(row: Mapping, epsilon: float) -> str:
    """Return why there is no table at an epsilon: "stopped" of the limit, "not tried", or an error."""
    if not was_tried(row, epsilon):
        return "not tried"
    return "stopped" if row["stopped"].startswith(NOT_DONE) else row["stopped"]


def row_of(config: Config, results: Mapping[str, dict], run: Run) -> dict | None:
    """Return the row of a run, or one that stands for it; None where the run is still to be made."""
    row = results.get(run.key)
    if row is None or is_stale(config, row):
        return stopped_by(config, results, run)
    return row


def missing_runs(config: Config, results: Mapping[str, dict]) -> list[Run]:
    """Return the runs that are still to be made, in the order of the plan."""
    return [run for run in config.runs() if row_of(config, results, run) is None]
