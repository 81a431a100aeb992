"""Identifiers and free text: never read, left out or generated."""

import uuid

import numpy as np
import pandas as pd
import pytest

from tabsynth import Categorical, Identifier, MargNet, Schema, Text
from tabsynth.errors import InputError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("dtype", "pattern", "form"),
    [
        ("str", "MRN-{8 digits}", r"MRN-\d{8}"),
        ("str", "{2 letters}{3 digits}/{4 hex}", r"[A-Z]{2}\d{3}/[0-9a-f]{4}"),
        ("int64", "1{7 digits}", r"1\d{7}"),
        ("str", "{4 digits}", r"\d{4}"),
    ],
)
def test_made_identifiers_are_different_and_of_the_pattern(dtype, pattern, form) -> None:
    values = Identifier(name="id", dtype=dtype, pattern=pattern).generate(5_000, RNG)
    assert values.is_unique and str(values.dtype) == dtype
    assert values.astype(str).str.fullmatch(form).all()


def test_uuids() -> None:
    values = Identifier(name="id", dtype="str", pattern="{uuid}").generate(100, RNG)
    assert values.is_unique and all(str(uuid.UUID(value)) == value for value in values)


def test_a_pattern_of_too_few_is_refused() -> None:
    with pytest.raises(InputError, match="has 100 identifiers, fewer than 101 rows"):
        Identifier(name="id", dtype="str", pattern="{2 digits}").generate(101, RNG)
    assert Identifier(name="id", dtype="str", pattern="{2 digits}").generate(100, RNG).is_unique


@pytest.mark.parametrize("pattern", ["plain", "{digits}", "a{3 digits", "{0x digits}"])
def test_patterns_that_are_not_understood(pattern: str) -> None:
    with pytest.raises(InputError, match="is not understood"):
        Identifier(name="id", dtype="str", pattern=pattern)


def test_identifiers_of_whole_numbers_are_whole_numbers() -> None:
    with pytest.raises(InputError, match="are whole numbers"):
        Identifier(name="id", dtype="int64", pattern="M{3 digits}")


class Unreadable(pd.api.extensions.ExtensionArray):
    """Values that cannot be looked at."""

    dtype = pd.StringDtype()

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def copy(self) -> "Unreadable":
        return Unreadable(self._rows)

    def take(self, *args, **kwargs):
        raise AssertionError("an identifier was read")

    def __getitem__(self, item):
        if isinstance(item, slice):
            return self
        raise AssertionError("an identifier was read")

    def isna(self):
        raise AssertionError("an identifier was read")


def test_a_fit_does_not_read_identifiers_and_text() -> None:
    schema = Schema(
        [
            Identifier(name="mrn", dtype="str", pattern="MRN-{8 digits}"),
            Identifier(name="email", dtype="str"),
            Categorical(name="sex", dtype="str", categories=("f", "m")),
            Text(name="note"),
        ]
    )
    table = pd.DataFrame({"sex": RNG.choice(["f", "m"], 500)})
    for name in ("mrn", "email", "note"):
        table[name] = pd.Series(Unreadable(500), copy=False)
    model = MargNet(schema, epsilon=1).fit(table)
    made = model.sample(300)
    public = model.certificate()["public"]
    assert public["declared"] == ["mrn", "sex"] and public["left_out"] == ["email", "note"]
    assert list(made.columns) == ["mrn", "sex"]
    assert made["mrn"].is_unique and made["mrn"].str.fullmatch(r"MRN-\d{8}").all()
    # The columns may be missing, too.
    assert len(MargNet(schema, epsilon=1).fit(table[["sex"]]).sample(10)) == 10


def test_a_table_of_identifiers_alone_is_refused() -> None:
    schema = Schema([Identifier(name="mrn", dtype="str"), Text(name="note")])
    with pytest.raises(InputError, match="has no column that can be learned"):
        MargNet(schema, epsilon=1).fit(pd.DataFrame({"mrn": ["a"], "note": ["b"]}))
