"""Made-up linked tables for audits, and neighbours of them with one root row more: the canary, with its other records."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tabsynth.schema.categorical import Categorical, Ordinal
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema

Tables = dict[str, pd.DataFrame]
PATIENTS, STAYS, EVENTS = "patients", "stays", "events"
MOST = {STAYS: 3, EVENTS: 2}
CANARY = 1_000_000  # the key of the canary, and of its first stay
SCHEMA = LinkedSchema(
    {
        PATIENTS: Schema([Categorical(name="sex", dtype="str", categories=("f", "m", "x"))]),
        STAYS: Schema(
            [
                Numeric(name="day", dtype="int64", low=0, high=99, bins=5, resolution=1),
                Ordinal(name="ward", dtype="str", categories=("a", "b", "c")),
            ]
        ),
        EVENTS: Schema([Categorical(name="code", dtype="str", categories=("u", "v", "w", "x"))]),
    },
    {
        PATIENTS: {"key": "patient"},
        STAYS: {
            **{"key": "stay", "parent": PATIENTS, "parent_key": "patient"},
            **{"order": "day", "max_children": MOST[STAYS]},
        },
        EVENTS: {
            **{"parent": STAYS, "parent_key": "stay"},
            **{"order": "number", "max_children": MOST[EVENTS]},
        },
    },
)


@dataclass(frozen=True, eq=False)
class LinkedDatasets:
    """Two sets of linked tables that differ in one root row with its other records, the canary.

    Attributes
    ----------
    schema : LinkedSchema
    without, canary : dict of str to DataFrame
        By table. The canary has equal rows in each table.
    """

    schema: LinkedSchema
    without: Tables
    canary: Tables

    def table(self, present: bool) -> Tables:
        """Return the tables with the canary's rows as the last ones if ``present``, else those without it."""
        if not present:
            return self.without
        return {
            name: pd.concat([table, self.canary[name]], ignore_index=True)
            for name, table in self.without.items()
        }


def make_tables(seed: int, patients: int = 25) -> Tables:
    """Draw tables of so many patients, some with more stays and events than are used."""
    rng = np.random.default_rng([seed, patients])
    owner = np.repeat(np.arange(patients), rng.integers(0, MOST[STAYS] + 2, patients))
    stay = np.repeat(np.arange(len(owner)), rng.integers(0, MOST[EVENTS] + 2, len(owner)))
    return _tables(
        rng.choice(["f", "m", "x"], patients, p=[0.5, 0.45, 0.05]),
        owner,
        rng.integers(0, 90, len(owner)),
        rng.choice(["a", "b", "c"], len(owner), p=[0.6, 0.35, 0.05]),
        stay,
        rng.choice(["u", "v", "w", "x"], len(stay), p=[0.5, 0.3, 0.15, 0.05]),
    )


def small_datasets() -> LinkedDatasets:
    """Return six similar patients, and a canary of two stays, the second with an event: it has one record in each table."""
    return LinkedDatasets(SCHEMA, _alike(6, 2, 2), make_canary(2, (0, 1)))


def _alike(patients: int, stays: int, events: int) -> Tables:
    """Return equal patients with so many equal stays, and events of each."""
    of, stay = np.repeat(np.arange(patients), stays), np.repeat(np.arange(patients * stays), events)
    sex, ward, code = (np.full(len(of), v) for v in "fau")
    return _tables(sex[:patients], of, np.full(len(of), 10), ward, stay, code.repeat(events))


def make_canary(stays: int, events: int | Sequence[int] = MOST[EVENTS]) -> Tables:
    """Return a patient with so many equal stays, and so many equal events of all or of each, all of rare values."""
    of = np.zeros(stays, dtype=np.int64)
    stay = np.repeat(np.arange(stays), events)
    ward, code = np.full(stays, "c"), np.full(len(stay), "x")
    return _tables(np.array(["x"]), of, np.full(stays, 95), ward, stay, code, CANARY)


def _tables(
    sex: np.ndarray,
    owner: np.ndarray,
    day: np.ndarray,
    ward: np.ndarray,
    stay: np.ndarray,
    code: np.ndarray,
    first: int = 1,
) -> Tables:
    """Return tables of these columns; keys begin with ``first``."""
    return {
        PATIENTS: pd.DataFrame({"patient": first + np.arange(len(sex)), "sex": sex}),
        STAYS: pd.DataFrame(
            {
                "stay": first + np.arange(len(owner)),
                "patient": first + owner,
                "day": day,
                "ward": ward,
            }
        ),
        EVENTS: pd.DataFrame({"stay": first + stay, "number": np.arange(len(stay)), "code": code}),
    }
