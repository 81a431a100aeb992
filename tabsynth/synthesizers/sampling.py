"""Samples of a fitted model: conditions, rules, tables of any kind, and large Parquet files written as they are drawn."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch

from tabsynth._files import replacing
from tabsynth._random import Randomness
from tabsynth._threads import limit_threads
from tabsynth._typing import JsonObject
from tabsynth._validate import integer, one_of
from tabsynth.encoding.holding import MIN_ROWS
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.encoding.table import TableEncoder
from tabsynth.errors import InputError
from tabsynth.privacy.certificate.attached import attach
from tabsynth.privacy.certificate.certificate import write_beside
from tabsynth.schema.column import Column
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.conditions import Condition, rows_where
from tabsynth.synthesizers.method import FittedModel
from tabsynth.tables.frames import CHOICES, in_kind
from tabsynth.tables.parquet_files import write_parquet_parts

MAX_CELLS = 2 * 10**9  # of one sampled table: past it, memory is what fails
STREAMED = 2**19  # rows past which a Parquet file is written in parts, each of at most so many …
STREAMED_CELLS = 2**22  # … and of so many cells
POPULATION = "population"  # weights of a sample that add up to the noisy total
MOST_IMPLICATES = 1_000  # Rubin's rules gain nothing from more
T = TypeVar("T")
Fitted = FittedModel[TableEncoder]
AnyFitted = FittedModel[TableEncoder] | FittedModel[LinkedEncoder]


def check_size(n: int, columns: int) -> None:
    """Refuse a number of rows to sample that is none, or too many at a time."""
    integer("n", n)
    if n * columns > MAX_CELLS:
        raise InputError(
            f"Expected n of at most {MAX_CELLS // columns:,} rows at a time, got n={n:,}; sample in"
            " parts."
        )


def check_implicates(count: Any) -> int:
    """Return a number of implicates; refuse too many."""
    if integer("implicates", count) > MOST_IMPLICATES:
        raise InputError(
            f"Expected implicates to be at most {MOST_IMPLICATES:,}, got {count:,}; 5 to 20 are enough."
        )
    return int(count)


def numbered_paths(path: str | Path, count: int) -> list[Path]:
    """Return the files of several implicates: ``name-1.csv`` and on beside ``name.csv``."""
    path = Path(path)
    end = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    stem = path.name.removesuffix(end)
    return [path.with_name(f"{stem}-{i + 1}{end}") for i in range(count)]


def number_of_rows(model: AnyFitted, n: int | None) -> int:
    """Return the number of rows of a sample: ``n``, else that of the fit."""
    number = model.row_count if n is None else n
    if number is None:
        raise InputError(
            "This fit released no number of rows; give n=, or declare rows when fitting."
        )
    return number


def random_streams(
    model: AnyFitted, seed: int | None
) -> tuple[torch.Generator, np.random.Generator]:
    """Return the streams of one draw: for category codes, on the model's device, and for numbers in cells."""
    # Streams of their own: the draws must not repeat those of the fit.
    randomness = Randomness(None if seed is None else int(seed) + 2**64)
    device = next(iter(model.weights().values())).device
    return randomness.torch(device), randomness.numpy()


# Weights of the population.


def check_weights(
    model: AnyFitted, schema: Schema | LinkedSchema, weights: str | None, where: object
) -> None:
    """Refuse weights of samples that there cannot be."""
    one_of("weights", weights, (None, POPULATION))
    if weights is None:
        return
    if schema.design.weight is None or model.population is None:
        raise InputError(
            "This fit released no total of survey weights; leave out weights=, or fit with a schema that"
            " declares a weight."
        )
    if where:
        raise InputError(
            "Rows under a condition are a part of the population whose size was not released; leave out"
            " weights= or where=."
        )


def add_weights(
    table: pd.DataFrame, model: AnyFitted, schema: Schema | LinkedSchema, n: int
) -> Column:
    """Add the column of weights to rows of a sample of ``n`` rows; return the column."""
    assert model.population is not None
    weight = model.population.total / n
    column = Column(
        name=str(schema.design.weight), kind="numeric", dtype="float64", low=0.0, high=weight
    )
    table[column.name] = weight
    return column


def state_weights(certificate: JsonObject) -> None:
    """Let the certificate of a table state that it has a column of weights."""
    design = {**certificate["public"]["design"], "weights_in_table": True}
    certificate["public"] = {**certificate["public"], "design": design}


# Tables.


def enforce_rules(
    encoder: TableEncoder,
    draw: Callable[[int], np.ndarray],
    n: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return ``n`` rows of codes that satisfy the schema's rules, from a sampler."""
    rows = draw(n)
    if encoder.whole.has_rules and encoder.rules.violations(rows).any():
        if n < MIN_ROWS:  # exchanges need rows to exchange with
            rows = np.concatenate([rows, draw(MIN_ROWS - n)])
        rows = encoder.rules.hold(rows, rng)[:n]
    return rows


@dataclass(frozen=True, kw_only=True)
class Request:
    """The request for a sample; see :meth:`Synthesizer.sample`."""

    n: int | None = None
    where: Mapping[str, Any] | None = None
    max_draws: int | None = None
    dataframe: str = "fitted"
    weights: str | None = None


@limit_threads()
def sample_table(model: Fitted, seed: int | None, request: Request) -> Any:
    """Draw a table, with its certificate where it is a pandas DataFrame."""
    encoder, where, weights = model.encoder, request.where, request.weights
    one_of("dataframe", request.dataframe, CHOICES)
    check_weights(model, encoder.whole, weights, where)
    n = number_of_rows(model, request.n)
    check_size(n, len(encoder.schema.columns))
    if request.max_draws is not None:
        integer("max_draws", request.max_draws)
    unconditional = where is None or (isinstance(where, Mapping) and not where)
    condition = None if unconditional else Condition(encoder.whole, where)
    for_codes, for_cells = random_streams(model, seed)
    sampler, exact = model.sampler(condition)

    def draw(rows: int) -> np.ndarray:
        return enforce_rules(encoder, lambda more: sampler(more, for_codes), rows, for_cells)

    if condition is None:
        table = encoder.from_index(draw(n), for_cells)
    else:
        table = rows_where(condition, n, request.max_draws, encoder, draw, for_cells, exact=exact)
    columns: dict[str, Column] = {c.name: c for c in encoder.whole.columns}
    if weights is not None:
        column = add_weights(table, model, encoder.whole, n)
        columns[column.name] = column
    sample = in_kind(table, columns, model.table_kind, request.dataframe)
    if isinstance(sample, pd.DataFrame):
        certificate = model.certificate()
        if weights is not None:
            state_weights(certificate)
        attach(sample, certificate)
        if condition is not None:
            sample.attrs["certificate"]["condition"] = condition.stated
    return sample


def sample_unrounded(model: Fitted, n: int, seed: int | None) -> pd.DataFrame:
    """Draw a table as a part of a larger one: MargNet draws its rows independently."""
    for_codes, for_cells = random_streams(model, seed)
    sampler = model.stream_sampler()
    codes = enforce_rules(model.encoder, lambda more: sampler(more, for_codes), n, for_cells)
    return model.encoder.from_index(codes, for_cells)


def draw_ahead(parts: Iterator[T]) -> Iterator[T]:
    """Yield the items of an iterator, each made in another thread while the one before it is used."""
    nothing: Any = object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, parts, nothing)
        while (part := coming.result()) is not nothing:
            coming = thread.submit(next, parts, nothing)
            yield part


@limit_threads()
def stream_to_parquet(
    model: Fitted,
    path: Path,
    n: int,
    seed: int | None,
    weights: str | None,
    *,
    overwrite: bool = False,
) -> Path:
    """Write rows to a Parquet file as they are drawn, and the certificate beside it; return the certificate's path.

    A part is drawn while the one before it is written.
    """
    encoder = model.encoder
    check_weights(model, encoder.whole, weights, None)
    part_rows = max(MIN_ROWS, min(STREAMED, STREAMED_CELLS // len(encoder.schema.columns)))
    for_codes, for_cells = random_streams(model, seed)
    sampler = model.stream_sampler()
    parts = -(-n // part_rows)
    lengths = [n // parts + (i < n % parts) for i in range(parts)]

    def decode(rows: np.ndarray) -> pd.DataFrame:
        if encoder.whole.has_rules and encoder.rules.violations(rows).any():
            rows = encoder.rules.hold(rows, for_cells)
        table = encoder.from_index(rows, for_cells)
        if weights is not None:
            add_weights(table, model, encoder.whole, n)
        return table

    certificate = model.certificate()
    confidential = not certificate["private"]
    with replacing(path, overwrite=overwrite, confidential=confidential) as temporary:
        drawn = draw_ahead(sampler(length, for_codes) for length in lengths)
        write_parquet_parts(map(decode, drawn), temporary)
    if weights is not None:
        state_weights(certificate)
    return write_beside(certificate, path, n)


def draw_implicates(
    model: Fitted, count: int, seed: int | None
) -> Iterator[tuple[int | None, Fitted]]:
    """Yield models that differ as much as their noise leaves open, and a seed for a table of each."""
    check_implicates(count)
    for i, implicate in enumerate(model.implicates(count, seed)):
        yield None if seed is None else (seed + 1) * 2**67 + i, implicate
