"""tabsynth as a single-table synthesizer of SDGym, the benchmark of the Synthetic Data Vault.

>>> from sdgym import benchmark_single_table                     # doctest: +SKIP
>>> from tabsynth.integrations.sdgym import create_synthesizer   # doctest: +SKIP
>>> MargNet = create_synthesizer("margnet", epsilon=1.0)         # doctest: +SKIP
>>> benchmark_single_table([], custom_synthesizers=[MargNet])    # doctest: +SKIP

SDGym asks for as many rows as the real table has, and scores the synthetic table against the real one without noise: both
are outside of the privacy claim. Each run is a fit of its own, and costs ε again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tabsynth._validate import one_of, positive, quote
from tabsynth.errors import InputError, TableError
from tabsynth.methods import METHODS
from tabsynth.schema.importers.sdv import declarations
from tabsynth.schema.linked import SchemaLike, read_table_schema


@dataclass(frozen=True)
class Columns:
    """Names and dtypes of a table, which are public, as for every fit without a schema; nothing of its rows.

    Attributes
    ----------
    dtypes : dict
        From the name of each column to its pandas dtype, in the order of the table.
    keys : frozenset of str
        Columns that identify records. They are not learned, and synthetic rows get new keys.
    """

    dtypes: dict[str, str]
    keys: frozenset[str] = frozenset()

    @classmethod
    def of(cls, table: pd.DataFrame, keys: Collection[str] = ()) -> "Columns":
        """Make it of a table whose columns have texts as names.

        Raises
        ------
        InputError
        """
        if not isinstance(table, pd.DataFrame):
            raise InputError(f"Expected a pandas DataFrame, got {quote(table)}.")
        for name in table.columns:
            if not isinstance(name, str):
                raise InputError(f"Column {quote(name)} has no text as its name; rename it.")
        named = zip(table.columns, table.dtypes, strict=True)
        # The categories of a categorical column would be values of rows.
        dtypes = {
            name: "object" if isinstance(dtype, pd.CategoricalDtype) else str(dtype)
            for name, dtype in named
        }
        return cls(dtypes, frozenset(keys) & dtypes.keys())

    @property
    def learned_columns(self) -> list[str]:
        """The columns that are no keys."""
        return [name for name in self.dtypes if name not in self.keys]

    def complete(self, sample: pd.DataFrame) -> pd.DataFrame:
        """Return a sample with all columns of the table, in its order and, where the values allow it, its dtypes.

        Keys are numbered again. A column that the fit left out is missing in every row.
        """
        series = {}
        for name, dtype in self.dtypes.items():
            if name in self.keys:
                series[name] = _row_numbers(sample.index, dtype)
            elif name in sample.columns:
                series[name] = _as(sample[name], dtype)
            else:
                series[name] = pd.Series(None, index=sample.index, dtype=object)
        return pd.DataFrame(series, columns=[*self.dtypes])


@dataclass(frozen=True)
class Trained:
    """The model that SDGym holds between fit and sample.

    Attributes
    ----------
    synthesizer : Synthesizer
        Fitted: ``synthesizer.certificate()`` states its privacy cost, and ``synthesizer.save`` writes its model.
    columns : Columns
    """

    synthesizer: Any
    columns: Columns

    def sample(self, n: int) -> pd.DataFrame:
        """Return ``n`` rows with the columns of the real table."""
        return self.columns.complete(self.synthesizer.sample(n, dataframe="pandas"))


def create_synthesizer(
    method: str = "margnet",
    *,
    epsilon: float,
    schema: SchemaLike | None = None,
    display_name: str | None = None,
    ledger: str | Path | None = None,
    **parameters: Any,
) -> type:
    """Return a synthesizer class for ``custom_synthesizers`` of SDGym.

    Parameters
    ----------
    method : {"margnet", "dp-wgan", "dp-gan", "pate-gan", "pate-acgan"}
    epsilon : float
        ε of each fit.
    schema : Schema, dict or path, optional
        Default: every fit drafts one privately as a part of its budget. Of the metadata that SDGym gives, it takes only
        which columns are keys or personal: SDV detects ranges and categories in the real rows, and they are not
        public. These columns are not learned, and synthetic rows get new keys.
    display_name : str, optional
        Default: ``tabsynth-`` and the method.
    ledger : path, optional
        A project's ledger that all fits are charged to.
    **parameters
        Further parameters of the estimator, such as ``delta`` or ``time_limit``.

    Raises
    ------
    InputError
        For parameters that cannot be used. The class raises one, in one line, for a table that the schema refuses.
    ImportError
        If sdgym is not installed.
    """
    from sdgym import create_single_table_synthesizer

    one_of("method", method, METHODS)
    positive("epsilon", epsilon, finite=False)

    def fit(data: Any, metadata: Mapping[str, Any]) -> Trained:
        return fit_synthesizer(
            data, metadata, method, ledger=ledger, schema=schema, epsilon=epsilon, **parameters
        )

    name = f"tabsynth-{method}" if display_name is None else display_name
    created: type = create_single_table_synthesizer(name, fit, Trained.sample)
    return created


def fit_synthesizer(
    data: Any,
    metadata: Mapping[str, Any],
    method: str,
    *,
    ledger: str | Path | None = None,
    schema: SchemaLike | None = None,
    **parameters: Any,
) -> Trained:
    """Fit one table of SDGym, which comes alone or as the one value of a dict, by the metadata of SDV as a dict.

    Raises
    ------
    InputError
        In one line, for a table that the schema refuses.
    """
    from tabsynth.synthesizers import METHODS as ESTIMATORS

    if isinstance(data, Mapping):
        if len(data) != 1:
            raise InputError(
                f"Expected one table, got {len(data)}; tabsynth fits single tables here."
            )
        (data,) = data.values()
    try:
        if schema is None:
            columns = Columns.of(data, _keys(metadata))
        else:
            schema = read_table_schema(schema)
            declared = {*schema.names, *schema.design.names}
            columns = Columns.of(data, [str(name) for name in data.columns if name not in declared])
        estimator = ESTIMATORS[method](schema, **parameters)
        estimator.fit(data[columns.learned_columns], ledger=ledger)
    except TableError as error:
        raise InputError(" ".join(error.first.split())) from None
    except TypeError as error:
        raise InputError(f"{method} does not take these parameters: {error}.") from None
    return Trained(estimator, columns)


def _keys(metadata: Mapping[str, Any]) -> list[str]:
    """Return the columns that metadata of SDV says to be keys, personal or free text."""
    if not isinstance(metadata, Mapping):
        raise InputError(f"Expected SDV metadata as a dict, got {quote(metadata)}.")
    return [
        item.name
        for item in declarations(dict(metadata), "the metadata")
        if item.left_out or item.facts.get("kind") == "identifier"
    ]


def _row_numbers(index: pd.Index, dtype: str) -> pd.Series:
    numbers = pd.Series(range(len(index)), index=index)
    if dtype.lower().startswith(("int", "uint", "float")):
        return _as(numbers, dtype)
    return "synthetic-" + numbers.astype(str)


def _as(values: pd.Series, dtype: Any) -> pd.Series:
    """Return values in a dtype; as they are where one of them has no place in it, such as a missing whole number."""
    try:
        return values.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        return values
