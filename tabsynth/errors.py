"""Every way a user can be wrong: one line that names the thing, its value and the remedy."""


class TabsynthError(ValueError):
    """Base of all errors that tabsynth raises on purpose; the command line exits with code 2."""


class InputError(TabsynthError):
    """A table, a schema or a parameter that cannot be used as it is."""


class TableError(InputError):
    """A table with several problems.

    Attributes
    ----------
    what : str
        The table.
    problems : list of str
        A line for each, which names the column, the value and the remedy. They show values of the table.
    """

    def __init__(self, what: str, problems: list[str], first: str) -> None:
        self.what, self.problems, self.first = what, problems, first
        lines = [f"- {problem}" for problem in problems]
        super().__init__("\n".join([first, f"In all, {what} has {len(lines)} problems:", *lines]))


class DraftWarning(UserWarning):
    """A private draft that left out a column, or keeps one that does not represent many of its rows."""


class PlanWarning(UserWarning):
    """A fit by settings that its plan advises against, such as votes that are little more than noise."""


class ConvergenceWarning(UserWarning):
    """A fit that a time limit ended before its model came near what it is fitted to."""


class BudgetError(TabsynthError):
    """A private read that the ledger does not allow."""


class FileFormatError(TabsynthError):
    """A file that is not what it should be: damaged, tampered with, or of another version."""


def one_line(error: Exception) -> str:
    """Return an error's text in one line, cut if it is long."""
    return " ".join(str(error).split())[:160]
