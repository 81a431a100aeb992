"""Tables of a DuckDB file."""

from pathlib import Path
from typing import Any

from tabsynth._validate import quote
from tabsynth.errors import InputError, one_line

Place = tuple[str, str]  # the schema and the name of a table


def open_duckdb(database: str | Path) -> tuple[Any, list[Place]]:
    """Return a connection to a DuckDB file, for reading only, and the places of its tables and views.

    Raises
    ------
    InputError
        If duckdb is not installed, or the file cannot be opened.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise InputError("A DuckDB file needs duckdb; install tabsynth[duckdb].") from None
    if not Path(database).is_file():
        raise InputError(
            f"Cannot read {database}: there is no such file; name a folder, or a DuckDB file."
        )
    try:
        connection = duckdb.connect(str(database), read_only=True)
        connection.execute("SET python_enable_replacements = false")  # views read no variables
        rows = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
        ).fetchall()
    except duckdb.Error as error:
        raise InputError(
            f"Cannot read {database}: {one_line(error)}; name a folder, or a DuckDB file that no program has open."
        ) from None
    return connection, rows


def relation_of(connection: Any, database: str | Path, place: Place) -> Any:
    """Return a table of a connection of :func:`open_duckdb` as a relation."""
    import duckdb

    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in place)
    try:
        return connection.sql(f"SELECT * FROM {quoted}")
    except duckdb.Error as error:  # of a view
        raise InputError(
            f"Cannot read table {quote(place[1])} of {database}: {one_line(error)}; correct it."
        ) from None
