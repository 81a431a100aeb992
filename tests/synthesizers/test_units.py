"""Fits that protect a unit: what is used of it, what is charged, what certificates and ledgers say."""

import copy
import json
import logging
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabsynth import Identifier, InputError, MargNet, Schema
from tabsynth.drafting.private_schema import draft_private
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import Rows, key_of
from tabsynth.errors import FileFormatError
from tabsynth.privacy.accounting.mechanisms import mechanism_from
from tabsynth.privacy.certificate.certificate import beside, describe_mechanism
from tabsynth.privacy.certificate.completeness import FIGURES
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger.project import ProjectLedger
from tabsynth.schema import Column, Design
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.estimator import load

COLUMNS = [
    Column(name="ward", kind="categorical", dtype="str", categories=("a", "b", "c")),
    Column(name="days", kind="ordinal", dtype="int64", categories=(1, 2, 3, 4)),
]
SMALL = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=12)
UNIT = "patient"


def schema(most: int = 2, **more: Any) -> Schema:
    return Schema(COLUMNS, unit=UNIT, max_rows_per_unit=most, **more)


def stays(patients: int = 200, seed: int = 0) -> pd.DataFrame:
    """Patients with one to five stays, in random order."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(patients), rng.integers(1, 6, patients))
    rng.shuffle(who)
    days, ward = rng.integers(1, 5, len(who)), rng.choice(["a", "b", "c"], len(who))
    return pd.DataFrame({UNIT: who, "ward": pd.Series(ward, dtype="str"), "days": days})


def fitted(most: int = 2, table: pd.DataFrame | None = None, **more: Any) -> MargNet:
    given = {"epsilon": 1.0, "config": SMALL, **more}
    return MargNet(schema(most), **given).fit(stays() if table is None else table)


@pytest.fixture(scope="module")
def model() -> MargNet:
    return fitted()


def test_noise_is_that_of_a_unit(model: MargNet) -> None:
    """All rows of a unit may be in one cell: the noise on counts is the bound times that of a row, in L2 no less."""
    for item in model.certificate()["mechanisms"]:
        assert item["sensitivity"]["value"] == 2.0
        assert item["noise_added"]["standard_deviation"] == pytest.approx(
            2 * item["noise_multiplier"]
        )
    spends = {
        s.purpose: s.mechanism
        for s in MargNet(schema(), epsilon=1.0, config=SMALL).plan(estimate_time=False).spends
    }
    alone = MargNet(Schema(COLUMNS), epsilon=1.0, config=SMALL).plan(estimate_time=False)
    assert spends == {s.purpose: s.mechanism for s in alone.spends}


def test_the_unit_is_neither_learned_nor_sampled(model: MargNet) -> None:
    assert list(model.sample(10)) == ["ward", "days"]
    assert UNIT not in model.feature_names_in_


def test_certificates_name_the_unit(model: MargNet, tmp_path: Any) -> None:
    certificate = model.certificate()
    assert certificate["adjacency"] == "add or remove all records of one 'patient'"
    assert certificate["privacy_unit"] == (
        "all rows of the fitted table with one value of column 'patient'; at most 2 of them were used, and rows beyond"
        " were left out"
    )
    assert "for adding or removing all records of one 'patient'" in certificate["statement"]
    assert certificate["public"]["design"] == {
        "unit": {"column": UNIT, "max_rows": 2},
        "largest_contribution": 2.0,
    }
    path = tmp_path / "t.csv"
    model.sample_to(path, 50)
    assert verify(path).consistent
    for change, problem in (
        ({"privacy_unit": "one row of the fitted table"}, "unit of privacy"),
        ({"adjacency": "add or remove one record"}, "unit of privacy"),
        ({"public": {**certificate["public"], "design": {**certificate["public"]["design"],
          "largest_contribution": 1.0}}}, "largest contribution"),
    ):  # fmt: skip
        written = json.loads(beside(path).read_text())
        beside(path).write_text(json.dumps({**written, **change}))
        assert any(problem in text for text in verify(path).problems), change
        beside(path).write_text(json.dumps(written))
    written = json.loads(beside(path).read_text())
    honest = copy.deepcopy(written)
    for item in written["mechanisms"]:  # a row's sensitivity and noise, where a unit adds two rows
        item["details"]["l2_sensitivity"] = 1.0
    written["mechanisms"] = [
        describe_mechanism(
            {**{k: v for k, v in i.items() if k not in FIGURES}, **mechanism_from(i).to_dict()}
        )
        for i in written["mechanisms"]
    ]
    beside(path).write_text(json.dumps(written))
    assert any("below what one unit may add" in text for text in verify(path).problems)
    honest["public"]["design"]["unit"]["max_rows"] = 10**9
    beside(path).write_text(json.dumps(honest))
    with pytest.raises(FileFormatError, match=f"{beside(path).name}: Expected max_rows_per_unit"):
        verify(path)
    rows = MargNet(Schema(COLUMNS), epsilon=1.0, config=SMALL).fit(stays()[["ward", "days"]])
    assert rows.certificate()["adjacency"] == "add or remove one record"
    assert rows.certificate()["privacy_unit"] == "one row of the fitted table"
    assert "design" not in rows.certificate()["public"]


def test_a_plan_names_the_unit() -> None:
    text = str(MargNet(schema(3), epsilon=1.0, config=SMALL).plan(estimate_time=False))
    assert "add or remove all records of one 'patient'" in text
    assert "at most 3 rows of each are used" in text and "without being counted" in text


def test_the_key_is_in_no_artefact(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the key nor a name or a hash of a unit is in the model, its file, its checkpoint or its certificate."""
    key, kept = b"\x11\x93secret key\x02\x7f\x01\x55", []
    monkeypatch.setattr("tabsynth.synthesizers.session.key_of", lambda seed: key)
    encode = TableEncoder.to_rows
    monkeypatch.setattr(TableEncoder, "to_rows", lambda *a: kept.append(encode(*a)) or kept[-1])
    table = stays().assign(**{UNIT: lambda t: "patient-" + t[UNIT].astype(str)})
    model = MargNet(schema(), epsilon=1.0, config=SMALL)
    model.fit(table, checkpoint=tmp_path / "c")
    model.save(tmp_path / "m")
    model.sample_to(tmp_path / "t.csv", 20)
    (rows,) = kept
    assert isinstance(rows, Rows) and rows.units is not None
    secrets = [key, key.hex().encode(), b"patient-", *(u.tobytes() for u in rows.units[:50])]
    secrets += [str(u).encode() for u in rows.units[:50]]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 3
    for path in files:
        assert not any(secret in path.read_bytes() for secret in secrets), path
    left = [
        *vars(model).values(),
        *vars(model.model_).values(),
        *vars(model.model_.encoder).values(),
    ]
    assert not any(isinstance(value, Rows | bytes) for value in left)


def test_a_seed_chooses_the_same_rows_and_none_chooses_others() -> None:
    assert key_of(3) == key_of(3) != key_of(4)
    assert key_of(None) != key_of(None) and len(key_of(None)) == 16
    encoder, table = TableEncoder(schema(1)), stays()
    one, other = (encoder.to_rows(table, key_of(None)) for _ in range(2))
    assert len(one) == len(other) == 200 and not np.array_equal(one.codes, other.codes)


def test_without_noise_the_counts_are_of_the_rows_that_are_used() -> None:
    """Every unit of at most so many rows counts whole, and the others as the bound says."""
    model = fitted(2, epsilon=math.inf)
    assert model.rows_ == stays()[UNIT].value_counts().clip(upper=2).sum()
    whole = fitted(5, epsilon=math.inf)
    assert whole.rows_ == len(stays())


# Ledgers.


def test_a_project_ledger_has_one_unit(tmp_path: Any) -> None:
    """Fits of its unit compose, whatever their bounds; others are refused, both ways, before anything is charged."""
    for name, unit in (("rows", None), ("patients", UNIT)):
        ProjectLedger.create(tmp_path / name, epsilon=2.0, unit=unit)
    before = {name: (tmp_path / name).read_bytes() for name in ("rows", "patients")}
    with pytest.raises(
        InputError,
        match="Ledger rows protects one record, and this run all records of one 'patient'",
    ):
        MargNet(schema(), epsilon=1.0, config=SMALL).fit(stays(), ledger=tmp_path / "rows")
    plain = MargNet(Schema(COLUMNS), epsilon=1.0, config=SMALL)
    with pytest.raises(InputError, match="Give a ledger that was made without a unit"):
        plain.fit(stays()[["ward", "days"]], ledger=tmp_path / "patients")
    with pytest.raises(InputError, match="protects all records of one 'patient'"):
        draft_private(stays()[["ward"]], 0.5, ledger=tmp_path / "patients")
    assert before == {name: (tmp_path / name).read_bytes() for name in before}
    for most in (1, 3):
        model = MargNet(schema(most), epsilon=0.5, config=SMALL)
        project = model.fit(stays(), ledger=tmp_path / "patients").certificate()["project"]
        assert project["unit"] == UNIT
    ledger = ProjectLedger.read(tmp_path / "patients")
    assert ledger.unit == UNIT and len(ledger.runs()) == 2
    path = tmp_path / "t.csv"
    model.sample_to(path, 20)
    assert verify(path).consistent
    written = json.loads(beside(path).read_text())
    del written["project"]["unit"]
    beside(path).write_text(json.dumps(written))
    assert "another unit of privacy" in " ".join(verify(path).problems)


@pytest.mark.parametrize("unit", ["", 3])
def test_a_ledger_takes_a_column_as_unit(unit: Any, tmp_path: Any) -> None:
    with pytest.raises(InputError, match="Expected unit to be the name of a column"):
        ProjectLedger.create(tmp_path / "l", epsilon=1.0, unit=unit)
    assert not (tmp_path / "l").exists()


def test_a_refit_under_another_unit_is_refused(model: MargNet, tmp_path: Any) -> None:
    """The cost of the first fit is not one of the other unit; a loaded model knows its unit, too."""
    model.save(tmp_path / "m")
    for one in (model, load(tmp_path / "m")):
        other = one.set_params(schema=Schema(COLUMNS), epsilon=8.0)
        with pytest.raises(
            InputError, match="protects all records of one 'patient', and this fit one record"
        ):
            other.fit(stays()[["ward", "days"]])
        one.set_params(schema=schema(), epsilon=1.0)


@pytest.mark.parametrize("weight", [None, "days"])
def test_a_refit_under_another_bound_is_refused(weight: str | None, tmp_path: Any) -> None:
    """R28: its certificate would state the bound of the last fit for the charges of both."""
    columns = COLUMNS if weight is None else COLUMNS[:1]
    caps = {} if weight is None else {"weight": weight, "max_weight": 9}

    def declared(most: int, **more: Any) -> Schema:
        return Schema(columns, unit="patient", max_rows_per_unit=most, **{**caps, **more})

    first, table = declared(2), stays().assign(days=1.0 if weight else 1)
    model = MargNet(first, epsilon=1.0, config=SMALL).fit(table)
    model.save(tmp_path / "m")
    others = [declared(5), declared(1)] + ([declared(2, max_weight=30)] if weight else [])
    for one in (model, load(tmp_path / "m")):
        before = one.ledger_.to_list()
        for other in others:
            one.set_params(schema=other, epsilon=8.0, config=SMALL)
            with pytest.raises(InputError, match="other bounds of a unit, or another cap"):
                one.fit(table)
        assert one.ledger_.to_list() == before
        one.set_params(schema=first, epsilon=2.0).fit(table)  # the same bound goes on
        assert "at most 2 of them" in one.certificate()["privacy_unit"]
        assert len(one.ledger_.to_list()) > len(before)


def test_a_refit_of_units_after_records_is_refused() -> None:
    """Nothing is released, and the cost of the first fit stays that of single records."""
    model = MargNet(Schema(COLUMNS), epsilon=1.0, config=SMALL).fit(stays()[["ward", "days"]])
    before = model.ledger_.to_list()
    model.set_params(schema=schema(), epsilon=8.0)
    with pytest.raises(InputError, match="protects one record, and this fit all records of one"):
        model.fit(stays())
    assert model.ledger_.to_list() == before and model.ledger_.unit is None


def test_what_protects_records_is_refused_under_a_unit() -> None:
    """A private draft without the unit, and one of a unit without it or with another."""
    unit, other = ({"column": name, "max_rows": 2} for name in (UNIT, "other"))
    drafted = draft_private(stays()[["ward"]], 5.0).to_dict()
    with pytest.raises(
        InputError, match="protects one record, and a fit with it would protect all"
    ):
        Schema.from_dict({**drafted, "unit": unit})
    with_unit = draft_private(
        stays()[["ward", UNIT]], 5.0, design=Design(unit=UNIT, max_rows_per_unit=3)
    )
    for change in ({"unit": other}, {"released": {**with_unit.released, "unit": ["x"]}}):
        with pytest.raises(InputError, match="privacy costs do not add up"):
            Schema.from_dict({**with_unit.to_dict(), **change})
    without = {n: part for n, part in with_unit.to_dict().items() if n != "unit"}
    with pytest.raises(InputError, match="protects all records of one 'patient', and a fit"):
        Schema.from_dict(without)
    with pytest.raises(InputError, match="used at most 3 rows of each unit, and it declares 2"):
        Schema.from_dict({**with_unit.to_dict(), "unit": unit})


# Identifiers without a unit.

IDENTIFIED = Schema([*COLUMNS, Identifier(name=UNIT, dtype="int64")])


def messages(caplog: Any, table: pd.DataFrame, of: Schema) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="tabsynth"):
        MargNet(of, epsilon=1.0, config=SMALL, random_state=0).fit(table)
    return [text for text in caplog.messages if "identifier" in text]


def test_the_warning_follows_from_the_schema_alone(caplog: Any) -> None:
    """It is the same whether identifiers repeat or not, and where the table has none."""
    repeated = stays()
    single = repeated.assign(**{UNIT: range(len(repeated))})
    said = [messages(caplog, t, IDENTIFIED) for t in (repeated, single, single.drop(columns=UNIT))]
    assert said[0] == said[1] == said[2] and len(said[0]) == 1
    assert "identifier 'patient' and no unit" in said[0][0]
    assert "follows from the schema alone" in said[0][0]
    assert not messages(caplog, repeated, schema())
    assert not messages(caplog, repeated[["ward", "days"]], Schema(COLUMNS))
