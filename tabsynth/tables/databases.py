"""Tables of databases and clusters, by their address: a DuckDB file, or the URL of a Spark cluster."""

import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tabsynth._validate import quote
from tabsynth.errors import InputError, one_line
from tabsynth.tables.engines import EngineCounter, SparkCounter

MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|sc|k8s)://.+")
STANDALONE, SPARK_CONNECT = 7077, 15002  # ports where a URL names none


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


def spark_table(url: str, table: str) -> SparkCounter:
    """Return a table that a Spark cluster knows.

    A Java process that this starts has no standard error, where Spark's log would go; a log4j2 file of yours
    (``SPARK_CONF_DIR``) may send the log elsewhere.

    Parameters
    ----------
    url : str
        The master, such as ``local[2]`` or ``spark://host:7077``, or a Spark Connect address, ``sc://host``.
    table : str
        Its name, such as ``db.people``; or ``format.`path``` as Spark's SQL has it, ``parquet.`/data/people```.

    Raises
    ------
    InputError
        If pyspark or Java are missing, there is no such cluster, or no such table.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise InputError("Spark needs pyspark; install tabsynth[spark].") from None
    connect = url.startswith("sc://")
    named = quote(url.partition(";")[0])  # what follows may be a token
    if not MASTER.fullmatch(url):
        raise InputError(
            f"{named} is no URL of Spark; write local[2], spark://HOST:7077, sc://HOST, k8s://HOST or yarn."
        )
    if SparkSession.getActiveSession() is None:
        home = os.environ.get("JAVA_HOME")
        java = Path(home) / "bin" / "java" if home else "java"
        if not connect and shutil.which(java) is None:
            raise InputError(
                f"Cannot start Spark at {named}: there is no Java runtime ({java}); install one of version 17 or newer,"
                " and set JAVA_HOME or PATH."
            )
        if url.startswith(("spark://", "sc://")):
            _check_reachable(url, named)
    if url.startswith("local"):  # its workers are processes of this Python, with its packages
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("tabsynth")
    if not connect:
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    try:
        with _silent_processes():
            session = (builder.remote(url) if connect else builder.master(url)).getOrCreate()
    except Exception as error:
        needed = "pyspark[connect] is installed" if connect else "Java is of version 17 or newer"
        remedy = f"check the URL, and that {needed}"
        raise InputError(f"Cannot start Spark at {named}: {one_line(error)}; {remedy}.") from None
    try:
        return SparkCounter(session.table(table))
    except Exception as error:
        raise InputError(
            f"Spark has no table {quote(table)}: {one_line(error)}; name one as db.table."
        ) from None


def _check_reachable(url: str, named: str) -> None:
    """Refuse a cluster of which no host takes connections; Spark itself would try for minutes."""
    problem = "it names no host"
    for host in url.partition("://")[2].partition("/")[0].split(","):
        try:
            address = urlsplit(f"//{host}")
            port = address.port or (SPARK_CONNECT if url.startswith("sc://") else STANDALONE)
            socket.create_connection((address.hostname or "", port), timeout=10).close()
        except (OSError, ValueError) as error:
            problem = one_line(error)
        else:
            return
    raise InputError(
        f"Cannot reach Spark at {named}: {problem}; check the URL, and that the cluster runs."
    )


@contextmanager
def _silent_processes() -> Iterator[None]:
    """Start processes without a standard error meanwhile."""
    stderr = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)
