"""The columns of a table that say how its rows were drawn: weights, replicate weights, strata and clusters.

All problems of these columns are in one error. Of linked tables they are columns of the root, such as the weight of a
household, which counts for its other records.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tabsynth._validate import positive, quote
from tabsynth.errors import InputError, TableError
from tabsynth.evaluation.utility.survey import Design, Linearised, Replicated
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.number_texts import numbers_of

Frames = Mapping[str, pd.DataFrame]
ROW = "row"  # what the number of the row of the root is called
SURVEY = "the description of the survey"  # what problems are of


@dataclass(frozen=True, kw_only=True, eq=False)
class Survey:
    """The columns that say how the rows of a table were drawn; they need not be columns of the schema.

    Parameters
    ----------
    weights : str or array-like of shape (rows,), optional
        Survey weights, 0 or more: the name of a column of the training table and the hold-out, or the weights of the training
        rows (then without a hold-out). A synthetic table with such a column is weighted by it; any other is
        self-weighting. Default: the weight of the schema. Every metric of utility then compares weighted tables, and
        classifiers are fitted with the weights. The attacks use no weights: they count people, each of whom is one
        row. Weights are not clipped at the cap of the schema. Of linked tables: a column of the root, whose weight counts
        for its other records.
    replicate_weights : str or sequence of str, optional
        Columns of replicate weights of the training table, or the text before their numbers, such as ``"PWGTP"`` for
        ``PWGTP1`` to ``PWGTP80``. The result then has intervals of the training table's weighted estimates by replication;
        otherwise by Taylor linearisation. See :mod:`tabsynth.evaluation.utility.survey`.
    replicate_factor : float, optional
        Factor of the sum of squared differences of the replicates. Default: 4 over their number, for the successive
        difference replication of the American Community Survey. Balanced repeated replication of R replicates has 1/R,
        a jackknife that leaves out one of R clusters (R − 1)/R.
    strata, clusters : str, optional
        Columns of the training table with the stratum and the primary cluster of each row, for Taylor linearisation.
        Clusters are numbered within strata. Default: one stratum; each row is a cluster. Not for linked tables, where each
        root is a cluster.

    Raises
    ------
    InputError
        If an argument has another type, or two arguments exclude each other.
    """

    weights: Any = None
    replicate_weights: str | Sequence[str] | None = None
    replicate_factor: float | None = None
    strata: str | None = None
    clusters: str | None = None

    def __post_init__(self) -> None:
        """Check the arguments; weights become an array, and names a tuple."""
        if self.weights is not None and not isinstance(self.weights, str):
            object.__setattr__(self, "weights", _array(self.weights))
        for name, value in (("strata", self.strata), ("clusters", self.clusters)):
            if value is not None and not isinstance(value, str):
                raise InputError(f"Expected {name} to be the name of a column, got {quote(value)}.")
        replicates = self.replicate_weights
        if replicates is not None and not isinstance(replicates, str):
            if not isinstance(replicates, Sequence) or not all(
                isinstance(name, str) for name in replicates
            ):
                raise InputError(
                    "Expected replicate_weights to be names of columns, or the text before their numbers such as"
                    f" 'PWGTP'; got {quote(replicates)}."
                )
            if len(set(replicates)) < max(2, len(replicates)):
                raise InputError(
                    f"replicate_weights needs two columns or more, all different; got {quote(list(replicates))}."
                )
            object.__setattr__(self, "replicate_weights", tuple(replicates))
        if replicates is not None and (self.strata or self.clusters):
            raise InputError(
                "Replicate weights hold the design of the survey; leave out strata= and clusters=, or replicate_weights=."
            )
        if self.replicate_factor is not None:
            if replicates is None:
                raise InputError("replicate_factor goes with replicate_weights; name these, too.")
            positive("replicate_factor", self.replicate_factor)

    def weighted_by(self, column: str | None) -> "Survey":
        """Return the survey with the schema's column of weights, if it names none itself.

        Raises
        ------
        InputError
            If neither names weights, but the survey names replicate weights, strata or clusters.
        """
        if self.weights is not None:
            return self
        if column is not None:
            return replace(self, weights=column)
        for name in ("replicate_weights", "replicate_factor", "strata", "clusters"):
            if getattr(self, name) is not None:
                raise InputError(f"{name}= goes with weights=; name the column of weights, too.")
        return self

    @property
    def label(self) -> str:
        """The name of the weights: that of their column, or "given"."""
        return self.weights if isinstance(self.weights, str) else "given"

    def replicates(self, names: Sequence[str]) -> list[str]:
        """Return the columns of replicate weights among those of a table, in the order of their numbers."""
        if not isinstance(self.replicate_weights, str):
            return list(self.replicate_weights or ())
        pattern = re.compile(re.escape(self.replicate_weights) + r"_?(\d{1,6})")
        numbered = [(int(match[1]), name) for name in names if (match := pattern.fullmatch(name))]
        return [name for _, name in sorted(numbered) if name != self.weights]

    def takes(self, name: str) -> bool:
        """Return whether a column of this name is the survey's."""
        single = (self.weights, self.strata, self.clusters)
        return name in [s for s in single if isinstance(s, str)] or name in self.replicates([name])


def _array(weights: object) -> np.ndarray:
    try:
        array = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise InputError(
            f"Expected weights to be the name of a column or a number for each row, got {quote(weights)}."
        )
    return array


def apart(
    frame: pd.DataFrame, names: Survey, declared: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table without the survey's columns that the schema does not have, and all of the survey's columns."""
    texts = [str(name) for name in frame.columns]
    of_survey = [names.takes(name) for name in texts]
    is_table = [not of_it or name in declared for of_it, name in zip(of_survey, texts, strict=True)]
    aside = frame.loc[:, of_survey]
    aside = aside.set_axis([str(name) for name in aside.columns], axis=1).reset_index(drop=True)
    return frame.loc[:, is_table], aside


@dataclass(frozen=True)
class SurveyReader:
    """Reads the survey's columns of tables, and collects what is wrong with them."""

    names: Survey
    decimal: str | None = None
    problems: list[str] = field(default_factory=list)

    def weights(self, aside: pd.DataFrame, rows: int, what: str) -> np.ndarray:
        """Return weights of a table, shape (rows,); of a problem, ones."""
        if isinstance(self.names.weights, np.ndarray):
            values = pd.Series(self.names.weights, name="weights")
            if len(values) != rows:
                self.problems.append(
                    f"weights has {len(values):,} numbers, and the {what} has {rows:,} rows; give one for each row."
                )
                return np.ones(rows)
            return self._check_weights(values, "weights", what)
        name = str(self.names.weights)
        column = self._column(aside, name, "weights", what)
        return (
            np.ones(rows)
            if column is None
            else self._check_weights(column, f"column {name!r}", what)
        )

    def design_columns(self, aside: pd.DataFrame, what: str) -> "DesignColumns":
        """Return replicate weights, or strata and clusters, of all rows of the training table."""
        names = self.names
        return DesignColumns(
            replicates=None if names.replicate_weights is None else self._replicates(aside, what),
            strata=self._groups(aside, names.strata, "strata", what),
            clusters=self._groups(aside, names.clusters, "clusters", what),
        )

    def refuse(self) -> None:
        """Raise what is wrong, if anything is."""
        if len(self.problems) == 1:
            raise InputError(self.problems[0])
        if self.problems:
            raise TableError(SURVEY, self.problems, self.problems[0])

    def _column(self, aside: pd.DataFrame, name: str, argument: str, what: str) -> pd.Series | None:
        count = list(aside.columns).count(name)
        if count == 1:
            return aside[name]
        problem = "has no column" if count == 0 else "has more than one column"
        remedy = "name another column" if count == 0 else "rename or drop one"
        self.problems.append(f"The {what} {problem} {quote(name)} ({argument}); {remedy}.")
        return None

    def _numbers(
        self, values: pd.Series, name: str, what: str, *, negative: bool = False
    ) -> np.ndarray | None:
        """Return finite numbers, from 0 unless ``negative``; None if some are none, which is a problem."""
        out = numbers_of(values, decimal=self.decimal)
        wrong = np.isnan(out) if negative else ~(out >= 0)
        if not wrong.any():
            return out
        value = values.iloc[int(wrong.argmax())]
        expected = "finite numbers" if negative else "numbers from 0"
        example = "a null" if pd.isna(value) else quote(value)
        self.problems.append(
            f"The {what} has {example} among the weights of {name} ({int(wrong.sum()):,} such{' row' if wrong.sum() == 1 else ' rows'}), and weights are"
            f" {expected}; correct it, or take the row out."
        )
        return None

    def _check_weights(self, values: pd.Series, name: str, what: str) -> np.ndarray:
        numbers = self._numbers(values, name, what)
        if numbers is None:
            return np.ones(len(values))
        if len(numbers) and numbers.sum() == 0:
            self.problems.append(
                f"The {what} has only weights of 0 in {name}; give rows that stand for somebody."
            )
            return np.ones(len(values))
        return numbers

    def _replicates(self, aside: pd.DataFrame, what: str) -> np.ndarray:
        """Return replicate weights, shape (rows, replicates)."""
        names = self.names.replicates(list(aside.columns))
        if isinstance(self.names.replicate_weights, str) and len(names) < 2:
            self.problems.append(
                f"The {what} has no columns {quote(self.names.replicate_weights + '1')},"
                f" {quote(self.names.replicate_weights + '2')}, … (replicate_weights); name the columns."
            )
        columns = []
        for name in names:
            values = self._column(aside, name, "replicate_weights", what)
            if values is None:
                continue
            numbers = self._numbers(values, f"column {name!r}", what, negative=True)
            if numbers is None:
                continue
            if len(numbers) and numbers.sum() <= 0:
                self.problems.append(
                    f"The replicate weights of column {name!r} of the {what} add up to {numbers.sum():g}, and must to"
                    " more than 0; correct the column, or leave it out."
                )
            columns.append(numbers)
        return np.column_stack(columns) if columns else np.ones((len(aside), 2))

    def _groups(
        self, aside: pd.DataFrame, name: str | None, argument: str, what: str
    ) -> np.ndarray | None:
        """Return numbers of strata or clusters, shape (rows,)."""
        if name is None:
            return None
        values = self._column(aside, name, argument, what)
        if values is None:
            return None
        if values.isna().any():
            self.problems.append(
                f"Column {quote(name)} of the {what} has a null among its {argument}; give each such row one of its own."
            )
            return None
        return np.asarray(pd.factorize(values.astype(object).map(str))[0], dtype=np.int64)


class DesignColumns(NamedTuple):
    """The survey's columns of each row of the training table, shape (rows,) or (rows, replicates)."""

    replicates: np.ndarray | None
    strata: np.ndarray | None
    clusters: np.ndarray | None

    def design(
        self, names: Survey, weights: np.ndarray, used: np.ndarray, what: str
    ) -> Design | None:
        """Return the survey's design, of the rows that are kept, by their numbers; None of a single row.

        Raises
        ------
        InputError
            If a stratum has one cluster, whose variance is unknown.
        """
        if self.replicates is not None:
            return Replicated(weights[used], self.replicates[used], names.replicate_factor)
        strata, clusters = (None if c is None else c[used] for c in (self.strata, self.clusters))
        if strata is None and clusters is None and len(used) < 2:
            return None
        of_rows = np.zeros(len(used), dtype=np.int64)
        if strata is not None:
            of_rows = np.unique(strata, return_inverse=True)[1]
        cluster_of = np.arange(len(used))
        if clusters is not None:
            both = np.column_stack([of_rows, clusters])
            cluster_of = np.unique(both, axis=0, return_inverse=True)[1].ravel()
        sizes = np.bincount(of_rows[np.unique(cluster_of, return_index=True)[1]])
        if (sizes == 1).any() and strata is None:
            raise InputError(
                f"The {what} has one cluster, from which no interval follows; leave out clusters=."
            )
        if (sizes == 1).any():
            unit = "row" if clusters is None else "cluster"
            raise InputError(
                f"{int((sizes == 1).sum()):,} strata of column {quote(names.strata)} of the {what} have one {unit} each,"
                " from which no variance follows; join them with others."
            )
        return Linearised(
            weights[used],
            None if strata is None else of_rows,
            None if clusters is None else cluster_of,
        )


@dataclass(frozen=True)
class RootSurvey:
    """The survey's columns of the root, by their names.

    Attributes
    ----------
    schema : LinkedSchema
    names : Survey
        Without strata and clusters: each row of the root is a cluster.
    """

    schema: LinkedSchema
    names: Survey

    @classmethod
    def of(cls, schema: LinkedSchema, survey: Survey) -> "RootSurvey | None":
        """Return the survey's columns of the root, checked; None without weights.

        Raises
        ------
        InputError
        """
        if survey.weights is not None and not isinstance(survey.weights, str):
            raise InputError(
                f"Expected weights to be the name of a column of table {schema.root}, got numbers."
            )
        if survey.strata or survey.clusters:
            raise InputError(
                f"Each row of table {schema.root} is a cluster of the survey; leave out strata= and clusters=."
            )
        names = survey.weighted_by(schema.design.weight)
        return None if names.weights is None else cls(schema, names)

    @property
    def column(self) -> str:
        """The column of the weights."""
        return str(self.names.weights)

    def weights(self, frames: Frames, what: str, *, needed: bool = True) -> np.ndarray | None:
        """Return weights of the rows of the root, shape (rows,); None where it has none and none are ``needed``.

        Raises
        ------
        InputError
            With all problems of the survey's columns.
        """
        columns = self._columns(frames)
        if not needed and self.column not in columns:
            return None
        root = self.schema.root
        reader = SurveyReader(self.names, self.schema.tables[root].decimal)
        weights = reader.weights(columns, len(columns), f"table {root} of the {what}")
        reader.refuse()
        return weights

    def beside(self, frames: Frames, table: str, names: Survey) -> pd.DataFrame:
        """Return the survey's columns of the root that ``names`` has, for each row of a table; see :meth:`survey_of`.

        Synthetic rows without a root have a weight of 0.
        """
        columns = self._columns(frames)
        if table == self.schema.root:
            return columns
        rows = self._roots(frames, table)
        out = columns.reindex(rows).reset_index(drop=True)
        out.loc[rows < 0] = 0
        out = out.rename(columns={name: self._beside(name) for name in columns})
        out = out.assign(**{self._beside(ROW): rows})
        return out.loc[:, [names.takes(name) for name in out]]

    def survey_of(self, frames: Frames, table: str) -> Survey:
        """Return the survey's columns by their names beside a table; without replicate weights each root is a cluster."""
        if table == self.schema.root:
            return self.names
        replicates = self.names.replicates([str(name) for name in self._columns(frames)])
        several = len(np.unique(self._roots(frames, table))) > 1
        return Survey(
            weights=self._beside(self.column),
            replicate_weights=tuple(map(self._beside, replicates)) or None,
            replicate_factor=self.names.replicate_factor,
            clusters=self._beside(ROW) if several and not replicates else None,
        )

    def _columns(self, frames: Frames) -> pd.DataFrame:
        return apart(frames[self.schema.root], self.names, ())[1]

    def _beside(self, name: str) -> str:
        return f"{self.schema.root}.{name}"

    def _roots(self, frames: Frames, table: str) -> np.ndarray:
        """Return, for each row of a table, the number of the row of the root that it belongs to, −1 for none."""
        keys = self.schema.keys[table]
        if keys.parent is None:
            return np.arange(len(frames[table]))
        above = frames[keys.parent][self.schema.keys[keys.parent].key]
        place = pd.Series(self._roots(frames, keys.parent), index=above)
        place = place[place.index.notna() & ~place.index.duplicated()]
        return frames[table][keys.parent_key].map(place).fillna(-1).to_numpy(dtype=np.int64)
