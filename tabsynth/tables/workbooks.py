"""Sheets of Excel workbooks (.xlsx), read through openpyxl.

Cells are read as text, each by itself: whole numbers and reals as Python writes them, dates and times in ISO 8601. So what a
cell becomes follows from that cell and the schema, as in a CSV file. Of a formula the value that was stored with it is read. The error
value #N/A is a null; rows without any cell are no rows.
"""

import datetime
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pandas as pd

from tabsynth._validate import quote
from tabsynth.errors import InputError, one_line
from tabsynth.tables.delimited import check_header
from tabsynth.tables.limits import Limits

if TYPE_CHECKING:
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet

ROWS, COLUMNS = 2**20, 2**14  # of a sheet, by the format
MISSING = "#N/A"  # the error value that stands for a missing one


def _openpyxl(path: str | Path) -> ModuleType:
    try:
        import openpyxl
    except ImportError:
        raise InputError(
            f"{path}: Excel files need openpyxl; install it with pip install 'tabsynth[excel]'."
        ) from None
    return openpyxl


def read_sheet(path: str | Path, null_values: tuple[str, ...], sheet: str | None) -> pd.DataFrame:
    """Read a sheet, every column as text, ``null_values`` and empty cells as nulls.

    Parameters
    ----------
    path : path
    null_values : tuple of str
    sheet : str, optional
        The name of the sheet; a workbook of one sheet needs none.

    Raises
    ------
    InputError
    """
    openpyxl, limits = _openpyxl(path), Limits(path)
    try:
        with zipfile.ZipFile(path) as parts:
            limits.check(unpacked=sum(part.file_size for part in parts.infolist()))
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    except InputError:
        raise
    except Exception as error:  # openpyxl has no common base for "this is no workbook"
        raise InputError(f"{path} is not an Excel workbook: {one_line(error)}.") from None
    try:
        rows = _rows(path, book[_sheet_of(path, book.sheetnames, sheet)], limits)
        header = [_text(cell) for cell in next(rows, ())]
        while header and not header[-1]:
            header.pop()
        header = check_header(path, header)
        cells = [_cells(path, number, row, len(header)) for number, row in enumerate(rows, 2)]
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} is not an Excel workbook: {one_line(error)}.") from None
    finally:
        book.close()
    nulls = {"", *null_values}
    columns = {
        j: pd.Series(
            [None if row[j] in nulls else row[j] for row in cells if row is not None], dtype="str"
        )
        for j in range(len(header))
    }
    return pd.DataFrame(columns).set_axis(header, axis=1)


def _sheet_of(path: str | Path, names: list[str], sheet: str | None) -> str:
    """Return the sheet that is meant; more than one need a choice."""
    if sheet is None and len(names) == 1:
        return names[0]
    if sheet not in names:
        what = "has several sheets" if sheet is None else f"has no sheet {quote(sheet)}"
        raise InputError(f"{path} {what}; name one of {quote(', '.join(names), 200)} with sheet=.")
    return str(sheet)


def _rows(
    path: str | Path, sheet: "ReadOnlyWorksheet", limits: Limits
) -> Iterator[tuple[object, ...]]:
    """Return rows of values, up to the limits of the format: a file may state any number of them."""
    sheet.reset_dimensions()  # else rows are filled up to what the file states
    cells = 0
    for number, cells_of_row in enumerate(sheet.iter_rows(), 1):
        row = tuple(
            "" if cell.data_type == "e" and cell.value == MISSING else cell.value
            for cell in cells_of_row
        )
        cells += len(row)
        limits.check(cells=cells)
        if number > ROWS or len(row) > COLUMNS:
            raise InputError(f"{path}: the sheet is larger than an Excel sheet may be.")
        yield row


def _cells(path: str | Path, number: int, row: tuple[object, ...], width: int) -> list[str] | None:
    """Return the texts of a row; None for one without a cell, such as formatted rows below a table."""
    texts = [_text(cell) for cell in row]
    if any(texts[width:]):
        raise InputError(
            f"{path}, row {number}: it has cells to the right of the last column name; name the column, or remove"
            " them."
        )
    if all(cell is None for cell in row):
        return None
    return [*texts[:width], *[""] * (width - len(texts))]


def _text(cell: object) -> str:
    """Return a cell as text, by itself alone."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    if isinstance(cell, datetime.datetime):
        midnight = cell.time() == datetime.time()
        return cell.date().isoformat() if midnight else cell.isoformat(sep=" ")
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell)
