"""Texts of the catalogue in private drafts: what noisy sums release of them, and what completes them."""

import math

import numpy as np
import pandas as pd
import pytest

from tabsynth import MargNet
from tabsynth.drafting.known_texts import FAR, KnownTexts
from tabsynth.drafting.private_schema import draft_private

STD = 10.0


def learned(column: str, rows: dict[str, float], released: tuple[str, ...] = ()) -> KnownTexts:
    """What one round of these exact sums leaves, at noise of ten rows."""
    known = KnownTexts(column, ())
    known.learn(np.array([rows.get(text, 0.0) for text in known.texts]), STD, released)
    return known


def first_round(column: str, rows: dict[str, float]) -> list[str]:
    known = KnownTexts(column, ())
    return known.learn(np.array([rows.get(text, 0.0) for text in known.texts]), STD, ())


def test_a_text_is_released_where_it_is_far_above_its_noise() -> None:
    assert first_round("x", {"weekly": 900}) == []  # not of the catalogue
    assert first_round("x", {"married": 60, "widowed": 40}) == ["married"]
    assert FAR * STD == 55


def test_a_set_is_released_where_its_sum_is() -> None:
    assert first_round("x", {"no": 45, "yes": 35}) == ["no", "yes"]
    assert first_round("x", {"no": 45, "yes": 5}) == []
    assert first_round("x", {"N": 300, "S": 200}) == ["N"]  # of the compass: no Y


def test_rounds_add_up() -> None:
    known = KnownTexts("x", ())
    sums = np.array([40.0 if text == "married" else 0.0 for text in known.texts])
    assert known.learn(sums, STD, ()) == []
    assert known.learn(sums, STD, ()) == ["married"]  # 40 of 10 / √2
    assert known.learn(np.zeros(len(sums)), STD, ("married",)) == []
    assert known.completion(["married"]) == [
        "single"
    ]  # what was released before is not asked again


@pytest.mark.parametrize(
    ("rows", "released", "added"),
    [
        ({"no": 400, "yes": 10}, ["no"], ["yes"]),
        ({"II": 400, "III": 150, "I": 10}, ["II", "III"], ["I"]),  # the one that is missing
        ({"no": 4_000, "yes": 0}, ["no"], []),  # hardly any row may have it
        ({"no": 300}, ["no", "unknown"], ["yes"]),
        ({"no": 400}, ["no", "perhaps"], []),  # of another set
        ({"poor": 300, "good": 300, "fair": 25}, ["poor", "good"], ["fair"]),  # likely
        ({"F": 300, "M": 45}, ["F"], ["M"]),  # not F and T
        ({"F": 300, "T": 45}, ["F"], ["T"]),
        ({}, [], []),
    ],
)  # fmt: skip
def test_what_completes_released_texts(
    rows: dict[str, float], released: list[str], added: list[str]
) -> None:
    assert learned("x", rows).completion(released) == added


def test_a_name_asks_for_sets_of_its_own() -> None:
    assert "WY" in KnownTexts("state", ()).texts and "WY" not in KnownTexts("x", ()).texts
    assert "NA" not in KnownTexts("country", ("", "NA")).texts  # Namibia cannot be told from null


def small_study(rows: int = 686) -> pd.DataFrame:
    """Ten columns as those of a clinical study."""
    rng = np.random.default_rng(0)
    numbers = {f"lab{i}": rng.normal(100, 15, rows).round().astype(int) for i in range(6)}
    return pd.DataFrame(
        {
            "therapy": rng.choice(["no", "yes"], rows, p=[0.64, 0.36]),
            "grade": rng.choice(["I", "II", "III"], rows, p=[0.12, 0.65, 0.23]),
            "menopause": rng.choice(["Pre", "Post"], rows, p=[0.42, 0.58]),
            "constant": "same",
            **numbers,
        }
    ).astype(str)


@pytest.mark.slow
def test_a_small_study_keeps_its_values() -> None:
    right = {"therapy": ("no", "yes"), "grade": ("I", "II", "III"), "menopause": ("Post", "Pre")}
    found = dict.fromkeys(right, 0)
    for seed in range(10):
        schema = draft_private(small_study(), 0.45, 1e-5, random_state=seed)
        for name, categories in right.items():
            found[name] += name in schema.names and schema[name].categories == categories
    assert found["therapy"] >= 8 and found["menopause"] >= 8 and found["grade"] >= 6, found


def test_a_column_with_texts_of_no_set_names_none() -> None:
    """Where y is beside x, and m beside k, nothing was taken of sets that have n and f."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"g": rng.choice(["x", "y"], 3_000), "h": rng.choice(["m", "k"], 3_000)})
    schema = draft_private(table.assign(sex=rng.choice(["f", "m"], 3_000)), 3.0, random_state=0)
    assert [c.categories for c in schema.columns] == [("x", "y"), ("k", "m"), ("f", "m")]
    assert [c.source for c in schema.columns] == [None, None, "catalogue: f, m"]


def test_the_certificate_and_the_schema_say_what_the_catalogue_gave() -> None:
    model = MargNet(epsilon=1).fit(small_study(2_000)[["therapy", "constant"]])
    assert model.schema_["therapy"].source == "catalogue: no, yes"
    assert model.certificate()["public"]["sources"] == {"therapy": "catalogue: no, yes"}
    assert math.isfinite(model.certificate()["epsilon"])
