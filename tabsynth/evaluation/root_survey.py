"""Survey weights of linked tables: columns of the root, such as the weight of a household.

The weight of a row of the root counts for all that hangs on it, so every row of a child has that of its root.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tabsynth.errors import InputError
from tabsynth.evaluation.survey_columns import Survey, SurveyReader, apart
from tabsynth.schema.linked import LinkedSchema

Frames = Mapping[str, pd.DataFrame]
ROW = "row"  # what the number of the row of the root is called


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
                f"Each row of table {schema.root} is a cluster of the survey; leave out strata and clusters."
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
        """Return the survey's columns of the root that ``names`` has, for each row of a table; see :meth:`named`.

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

    def named(self, frames: Frames, table: str) -> Survey:
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
        """Return, for each row of a table, the number of the row of the root that it hangs on, −1 for none."""
        keys = self.schema.keys[table]
        if keys.parent is None:
            return np.arange(len(frames[table]))
        above = frames[keys.parent][self.schema.keys[keys.parent].key]
        place = pd.Series(self._roots(frames, keys.parent), index=above)
        place = place[place.index.notna() & ~place.index.duplicated()]
        return frames[table][keys.parent_key].map(place).fillna(-1).to_numpy(dtype=np.int64)
