"""Tables out of files as they are, and into files: the format follows from the suffix."""

import csv
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pandas as pd

from tabsynth._files import check_output, replacing
from tabsynth._typing import JsonObject
from tabsynth._validate import integer, one_of, quote
from tabsynth.errors import InputError
from tabsynth.privacy.certificate.attached import KEY, find_attached
from tabsynth.privacy.certificate.certificate import beside, write_beside
from tabsynth.schema.cells import base_dtype
from tabsynth.schema.conforming import conform
from tabsynth.schema.linked import LinkedSchema, SchemaLike, read_table_schema
from tabsynth.schema.number_texts import DECIMAL_MARKS, with_plain_numbers
from tabsynth.schema.schema import DEFAULT_NULL_VALUES, Schema, read_values
from tabsynth.tables.delimited import COMPRESSIONS, SEPARATORS, open_packed, read_texts
from tabsynth.tables.formulas import HANDLINGS, escape_formulas, refuse_formulas, unescape
from tabsynth.tables.frames import UNNAMED, with_declared_types
from tabsynth.tables.labelled import SUFFIXES as LABELLED
from tabsynth.tables.labelled import read_labelled
from tabsynth.tables.parquet_files import SUFFIX as PARQUET
from tabsynth.tables.parquet_files import read_parquet, write_parquet
from tabsynth.tables.workbooks import read_sheet

T = TypeVar("T")
TEXT = (".csv", ".tsv", ".txt")
WORKBOOK = ".xlsx"
WRITTEN = (*TEXT, PARQUET)
READ = (*WRITTEN, WORKBOOK, *LABELLED)


def suffix(path: str | Path, *, writing: bool = False) -> str:
    """Return the suffix that says how a table is stored, such as ``.csv`` or ``.csv.gz``; refuse all others.

    Parameters
    ----------
    path : path
    writing : bool
        Whether Excel, SPSS and Stata files, which are read only, are refused, too.
    """
    endings = [ending.lower() for ending in Path(path).suffixes[-2:]]
    last, packing = (endings[-1:] or [""])[0], ""
    if last in COMPRESSIONS[1:] and len(endings) == 2 and endings[0] in TEXT:
        last, packing = endings[0], last
    if last not in (WRITTEN if writing else READ):
        how, further = (" written as", "") if writing else ("", ", .xlsx, .sav or .dta")
        raise InputError(
            f"{path}: tables are{how} .csv, .tsv or .txt files (also with .gz or .zst), or .parquet{further} files, by"
            " their suffix."
        )
    return last + packing


def _format_of(path: str | Path) -> tuple[str, str]:
    """Return the suffix of the format, and that of the compression or nothing; a folder is one of Parquet files."""
    ending = PARQUET if Path(path).is_dir() else suffix(path)
    base = "." + ending.split(".")[1]
    return base, ending.removeprefix(base)


def _is_text(base: str) -> bool:
    """Return whether all cells of a format are read as text."""
    return base in TEXT or base == WORKBOOK


def _read(
    path: str | Path,
    null_values: Sequence[str],
    sep: str | None,
    encoding: str | None,
    sheet: str | None,
) -> pd.DataFrame:
    base, compression = _format_of(path)
    options = {"sep": sep, "encoding": encoding, "sheet": sheet}
    for name, value in options.items():
        if value is not None and name not in taken_by(path, options):
            raise InputError(f"{path} is no file that takes {name}=; leave it out.")
    nulls = tuple(null_values)
    if base in TEXT:
        separator = None if sep is None else separator_of(sep)
        return read_texts(path, compression, nulls, separator, encoding)
    if base == WORKBOOK:
        return read_sheet(path, nulls, sheet)
    if base in LABELLED:
        return read_labelled(path, base, nulls)
    return _with_nulls(read_parquet(path), nulls)


def _with_nulls(frame: pd.DataFrame, null_values: Collection[str]) -> pd.DataFrame:
    """Return a table with null in place of texts that mean it."""
    columns = {}
    for j in range(frame.shape[1]):  # names may be there twice
        values = frame.iloc[:, j]
        is_text = base_dtype(str(values.dtype)) == "text"
        columns[j] = values.mask(values.isin(["", *null_values])) if is_text else values
    return pd.DataFrame(columns, index=frame.index).set_axis(frame.columns, axis=1)


def taken_by(path: str | Path, options: Mapping[str, T]) -> dict[str, T]:
    """Return those of the options of :func:`read_table` that a file of this format takes."""
    base, _ = _format_of(path)
    accepted = ("sep", "encoding") if base in TEXT else ("sheet",) if base == WORKBOOK else ()
    return {name: value for name, value in options.items() if name in (*accepted, "decimal")}


def separator_of(text: str) -> str:
    """Return the separator that an option names: one character, or ``tab``."""
    sep = "\t" if text in ("tab", "\\t") else text
    if len(sep) != 1 or sep in '"\r\n\0' or ord(sep) > 127:
        raise InputError(
            f"Expected sep to be one character, such as , ; | or tab; got {quote(text)}."
        )
    return sep


def read_table(
    path: str | Path,
    schema: SchemaLike | None = None,
    *,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
    aside: Collection[str] = (),
) -> pd.DataFrame:
    """Read a table with the columns, dtypes and null texts of ``schema``, without identifiers and free text.

    Columns of weights and of units come last, as the file has them, and so do those of ``aside``. Without a schema, as for
    a private draft, all columns come: those of text files and workbooks as text, and others in dtypes that follow from
    the types of the file. The table carries these types, so that a draft takes them, and no dtype that pandas infers.

    A table may have no rows. What a row becomes follows from the schema, from the row, and from the types of the
    columns where a file declares them; never from another row.

    Parameters
    ----------
    path : path
        Of a format by its suffix: ``.csv``, ``.tsv`` or ``.txt``, also compressed (``.csv.gz``, ``.zst``);
        ``.parquet``, ``.xlsx``, ``.sav``, ``.dta``.
    schema : Schema, dict or path, optional
    sep : str, optional
        The separator of cells in a text file. Default: as the header says.
    encoding : str, optional
        Of a text file. Default: by its byte order mark; else UTF-8, and Windows-1252 for lines that are not.
    decimal : {".", ","}, optional
        The decimal mark of numbers that are texts. Default: that of the schema. It needs a schema; of a draft it is an
        option.
    sheet : str, optional
        The sheet of a workbook that has several.
    aside : collection of str
        Columns besides those that are modelled, such as identifiers and keys of linked tables. They are kept as the file
        has them.

    Raises
    ------
    InputError
        Naming all columns that do not fit at once: of each a value, and how many others have the same problem.
    """
    if schema is None:
        if decimal is not None:
            raise InputError(
                "decimal= needs a schema: without one, numbers in texts stay texts; give decimal= to the draft."
            )
        return read_any(path, sep=sep, encoding=encoding, sheet=sheet, ask=True)
    schema = read_table_schema(schema)
    if decimal is not None:
        one_of("decimal", decimal, DECIMAL_MARKS)
        if schema.decimal not in (None, decimal):
            raise InputError(
                f"The schema declares decimal mark {schema.decimal!r}, not {decimal!r}; leave out decimal=, or change"
                " the schema."
            )
    frame = _read(path, schema.null_values, sep, encoding, sheet)
    as_text = _is_text(_format_of(path)[0])
    return _as_declared(path, frame, schema, as_text, aside, decimal, check_sep=sep is None)


def _as_declared(
    path: str | Path,
    frame: pd.DataFrame,
    schema: Schema,
    as_text: bool,
    aside: Collection[str],
    decimal: str | None = None,
    *,
    check_sep: bool = False,
) -> pd.DataFrame:
    """Return the columns of a file as a schema declares them, and beside them those of its design and of ``aside``."""
    if as_text:
        frame.columns = [unescape(name, (*schema.names, *aside)) for name in frame.columns]
    columns_aside = frame.loc[:, [str(name) in aside for name in frame.columns]]
    declared = {*schema.names, *schema.names_left_out, *schema.design.names}
    frame = frame.drop(columns=[name for name in columns_aside.columns if name not in declared])
    if UNNAMED in frame.columns[:1] and UNNAMED not in declared:
        frame = frame.drop(columns=UNNAMED)
        warnings.warn(
            f"{path}: its first column is left out. It has no name, as the names of rows that R writes.",
            stacklevel=3,
        )
    if check_sep:
        _check_separator(path, frame, schema.names)
    marked = schema.with_decimal(decimal)
    try:
        schema.check_columns(frame, str(path))
        frame = conform(frame, marked)
        series = {
            column.name: frame[column.name]
            if column.provenance == "released"
            else read_values(column, frame[column.name], as_text, marked.decimal)
            for column in schema.columns
            if column.learned
        }
    except InputError as error:
        raise marked.refusal(frame, str(path), error, parse=True) from None
    extra = {name: frame[name] for name in schema.design.names if name in frame.columns}
    if schema.weight in extra and schema.decimal is None:  # a fit reads weights by the schema
        extra[schema.weight] = with_plain_numbers(extra[schema.weight], decimal)
    extra |= {name: columns_aside[name] for name in columns_aside.columns if name not in series}
    names = [c.name for c in schema.columns if c.learned]
    return with_declared_types(pd.DataFrame({**series, **extra}, columns=[*names, *extra]))


def read_sample(
    path: str | Path,
    schema: SchemaLike,
    rows: int,
    *,
    random_state: int = 0,
    aside: Collection[str] = (),
) -> tuple[pd.DataFrame, int]:
    """Read a uniform sample of the rows of a Parquet file, or of all ``.parquet`` files in a folder.

    The rows are drawn without replacement and come in their order in the files, which are read once, a batch at a time.

    Parameters
    ----------
    path : path
    schema : Schema, dict or path
    rows : int
        The number of rows to draw; all of them, where there are fewer.
    random_state : int
        The same files and number give the same rows.
    aside
        As of :func:`read_table`.

    Returns
    -------
    DataFrame
        As :func:`read_table` reads the drawn rows.
    int
        The number of all rows.

    Raises
    ------
    InputError
    """
    from tabsynth.tables.parquet_counter import sampled_rows  # which imports scikit-learn

    schema = read_table_schema(schema)
    integer("rows", rows)
    integer("random_state", random_state, least=0)
    parts, total = sampled_rows(Path(path), rows, random_state)
    tables = [
        _as_declared(file, _with_nulls(frame, schema.null_values), schema, False, aside)
        for file, frame in parts.items()
    ]
    return pd.concat(tables, ignore_index=True), total


def read_linked(
    folder: str | Path,
    schema: LinkedSchema,
    aside: Collection[str] = (),
    **reading: str | None,
) -> dict[str, pd.DataFrame]:
    """Read linked tables: of a folder with a file, of any suffix, or a folder of Parquet files for each table, by its name.

    ``reading`` as of :func:`read_table`. ``aside``: further columns of the root that are read, such as survey weights.

    Raises
    ------
    InputError
    """
    place = _folder_of_tables(folder, f", such as {schema.root}.csv")
    out = {}
    for name, of in schema.tables.items():
        path, keys = linked_file(place, name), schema.keys[name]
        aside_of_keys = (*keys.columns, *(keys.inherited or ()), keys.order)
        keys_and_order = [column for column in aside_of_keys if column is not None]
        further = aside if keys.parent is None else ()
        read = (*keys_and_order, *further)
        out[name] = read_table(path, of, aside=read, **taken_by(path, reading))
    return out


def read_folder(
    folder: str | Path, null_values: Sequence[str], **reading: str | None
) -> dict[str, pd.DataFrame]:
    """Read all tables of a folder without a schema, as :func:`read_any`; each is called as its file, without the suffix.

    Raises
    ------
    InputError
    """
    place = _folder_of_tables(folder)
    names = sorted({path.name.partition(".")[0] for path in place.iterdir()})
    found = [name for name in names if any(_is_table(path, name) for path in place.iterdir())]
    if len(found) < 2:
        raise InputError(
            f"{place} has {len(found) or 'no'} file of a table; linked tables are a file for each of two or more."
        )
    files = {name: linked_file(place, name) for name in found}
    options: JsonObject = {**reading}
    return {n: read_any(f, null_values, **taken_by(f, options)) for n, f in files.items()}


def _folder_of_tables(folder: str | Path, example: str = "") -> Path:
    """Return a folder of linked tables; refuse what is none."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(
            f"{place} is no folder; linked tables are a folder with a file for each table{example}."
        )
    return place


def linked_file(folder: Path, name: str) -> Path:
    """Return the one file of a table in a folder of linked tables.

    Raises
    ------
    InputError
        If there is none, or more than one.
    """
    path = find_file(folder, name)
    if path is None:
        raise InputError(
            f"{folder} has no file for table {quote(name)}; expected one, such as {name}.csv."
        )
    return path


def find_file(folder: Path, name: str) -> Path | None:
    """Return the file of a table in a folder, whatever the case of its name; None where there is none.

    Raises
    ------
    InputError
        If there are several.
    """
    files = [path for path in sorted(folder.iterdir()) if _is_table(path, name)]
    if len(files) > 1:
        names = ", ".join(path.name for path in files)
        raise InputError(
            f"{folder} has {names} for table {quote(name)}; expected one, such as {name}.csv."
        )
    return files[0] if files else None


def _is_table(path: Path, name: str) -> bool:
    """Return whether a file, or a folder of Parquet files, is a table of that name, in any case."""
    if path.is_dir():
        return path.name.lower() == name.lower() and any(path.rglob(f"*{PARQUET}"))
    if not path.is_file() or not path.name.lower().startswith(f"{name}.".lower()):
        return False
    try:
        return path.name.lower() == f"{name}{suffix(path)}".lower()
    except InputError:
        return False


def _check_separator(path: str | Path, frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Ask whether the separator is right, of a text file that parses into one column that is not meant."""
    if _format_of(path)[0] in TEXT and frame.shape[1] == 1 and frame.columns[0] not in names:
        raise InputError(
            f"{path} has a single column, {quote(str(frame.columns[0]))}; is the separator right? Name it with"
            " sep= (sep=',' if there is one column)."
        )


def read_any(
    path: str | Path,
    null_values: Sequence[str] = DEFAULT_NULL_VALUES,
    *,
    sep: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    ask: bool = False,
) -> pd.DataFrame:
    """Read a table without a schema; the columns of text files and workbooks come as text.

    Dtypes follow from the types that the file declares, whatever its rows are: whole numbers and booleans come in
    pandas' nullable dtypes. The parameters are those of :func:`read_table`; ``ask``: refuse a text file of one
    column unless ``sep`` is given.
    """
    frame = _read(path, null_values, sep, encoding, sheet)
    if ask and sep is None:
        _check_separator(path, frame, ())
    return with_declared_types(frame)


def write_table(
    table: pd.DataFrame,
    path: str | Path,
    *,
    formulas: str = "refuse",
    sep: str | None = None,
    decimal: str | None = None,
    overwrite: bool = False,
) -> None:
    """Write a table in the format that the suffix names, whole or not at all.

    The certificate of a sample is written beside the table, as :meth:`tabsynth.MargNet.sample_to` does. A table that
    was changed since it was sampled has none: a warning says so. Other ``attrs`` are not written.

    Parameters
    ----------
    table : DataFrame
    path : path
        As of :func:`read_table`, but for ``.xlsx``, ``.sav`` and ``.dta``.
    formulas : {"refuse", "escape", "keep"}
        What becomes of texts in a text file, column names too, that a spreadsheet would run as
        formulas: they begin with a tab or a line break, or a line of theirs begins with ``= + - @`` or a wide form of
        these, after white space and invisible characters or at once, and is no plain number. ``refuse``: the table is
        not written. ``escape``: an apostrophe comes before them, and before each such line;
        :func:`read_table` takes it off again.
        ``keep``: they are written as they are.
    sep : str, optional
        The separator of a text file. Default: a tab in ``.tsv`` files, else a comma, or a semicolon where ``decimal``
        is a comma.
    decimal : {".", ","}, optional
        The decimal mark of a text file; by default a point.
    overwrite : bool
        Replace a file that is there already, and its certificate. By default it is refused.

    Raises
    ------
    InputError
    """
    base, compression = _format_of(path)
    suffix(path, writing=True)
    one_of("formulas", formulas, HANDLINGS)
    if base not in TEXT and sep is not None:
        raise InputError(f"{path} is no file that takes sep=; leave it out.")
    mark = "." if decimal is None else one_of("decimal", decimal, DECIMAL_MARKS)
    stated = table.attrs.get(KEY)  # of a user's own table it may be anything
    certificate = find_attached(table) if isinstance(stated, Mapping) else None
    if certificate is not None:
        check_output(beside(path), overwrite=overwrite)
    if base in TEXT and formulas == "refuse":
        refuse_formulas(table)
    confidential = isinstance(stated, Mapping) and stated.get("private") is False
    if base in TEXT and formulas == "escape":
        table = escape_formulas(table)
    with replacing(path, overwrite=overwrite, confidential=confidential) as temporary:
        if base in TEXT:
            usual = "\t" if base == ".tsv" else ";" if mark == "," else ","
            separator = usual if sep is None else _written_separator(sep)
            _write_texts(table, temporary, compression, separator, mark)
        else:
            write_parquet(table, temporary)
    if certificate is not None:
        write_beside(certificate, path, len(table))


def _written_separator(text: str) -> str:
    """Return a separator that readers find by the header."""
    sep = separator_of(text)
    if sep not in SEPARATORS:
        raise InputError(f"Expected sep to be one of , ; | or tab; got {quote(text)}.")
    return sep


def _write_texts(table: pd.DataFrame, path: Path, compression: str, sep: str, decimal: str) -> None:
    """Quote names where one holds what may separate cells, so that a reader sees which character does."""
    names = [str(name) for name in table.columns]
    unclear = any(character in name for name in names for character in SEPARATORS)
    if decimal != ".":
        parts = {j: _with_mark(table.iloc[:, j], decimal) for j in range(table.shape[1])}
        table = pd.DataFrame(parts, index=table.index).set_axis(names, axis=1)
    with open_packed(path, compression) as file:
        header = csv.writer(
            file,
            delimiter=sep,
            quoting=csv.QUOTE_ALL if unclear else csv.QUOTE_MINIMAL,
            lineterminator="\n",
        )
        header.writerow(names)
        table.to_csv(file, index=False, header=False, na_rep="", sep=sep, lineterminator="\n")


def _with_mark(values: pd.Series, decimal: str) -> pd.Series:
    """Return a column with its reals as texts with another decimal mark; all have two decimals where some have, and none has more."""
    if not isinstance(values.dtype, pd.CategoricalDtype) and values.dtype.kind not in "fO":
        return values
    cells = values.astype(object)
    decimals = {len(str(v).partition(".")[2]) for v in cells.dropna() if isinstance(v, float)}
    form = "{:.2f}" if decimals == {1, 2} else "{}"

    def with_mark(value: object) -> object:
        return form.format(value).replace(".", decimal) if isinstance(value, float) else value

    return cells.map(with_mark, na_action="ignore")
