"""Tables in and out of files, and tables that count their own rows."""

from typing import TYPE_CHECKING

from tabsynth._lazy import exports

if TYPE_CHECKING:
    from tabsynth.tables.counter import RowCounter
    from tabsynth.tables.files import read_sample, read_table, write_table
    from tabsynth.tables.parquet_counter import ParquetCounter

__all__ = ["ParquetCounter", "RowCounter", "read_sample", "read_table", "write_table"]

__getattr__, __dir__ = exports(
    "tabsynth.tables",
    {
        **dict.fromkeys(("read_sample", "read_table", "write_table"), "files"),
        "ParquetCounter": "parquet_counter",
        "RowCounter": "counter",
    },
)
