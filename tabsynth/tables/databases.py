"""A table of a DuckDB file."""

from pathlib import Path

from tabsynth._validate import quote
from tabsynth.errors import InputError, one_line
from tabsynth.tables.engines import EngineCounter


def duckdb_table(database: str | Path, table: str) -> EngineCounter:
    """Return a table or view of a DuckDB file, which is opened for reading only.

    Parameters
    ----------
    database : path
    table : str
        Its name, or ``schema.name``.

    Raises
    ------
    InputError
        If duckdb is not installed, the file cannot be opened, or it has no such table.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise InputError("A DuckDB file needs duckdb; install tabsynth[duckdb].") from None
    if not Path(database).is_file():
        raise InputError(f"Cannot read {database}: there is no such file.")
    try:
        connection = duckdb.connect(str(database), read_only=True)
        connection.execute("SET python_enable_replacements = false")  # views read no variables
        rows = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
        ).fetchall()
    except duckdb.Error as error:
        raise InputError(
            f"Cannot read {database}: {one_line(error)}; name a DuckDB file that no program has open."
        ) from None
    matches = [(s, n) for s, n in rows if table in (n, f"{s}.{n}")]
    if len(matches) != 1:
        names = ", ".join(quote(name) for _, name in rows[:8]) or "none"
        what = "several tables" if matches else "no table"
        raise InputError(f"{database} has {what} {quote(table)}; its tables are {names}.")
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in matches[0])
    try:
        return EngineCounter(connection.sql(f"SELECT * FROM {quoted}"))
    except duckdb.Error as error:
        raise InputError(
            f"Cannot read table {quote(table)} of {database}: {one_line(error)}; correct it."
        ) from None
