"""The report of PATE: classifiers' scores, agreement of rankings, and the page's tables."""

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "reports" / "pate"


@pytest.fixture
def modules(script):
    """Parts of the report, as its run.py imports them."""
    run = script("pate")
    return run.presets, run.presets.settings, run.without_noise


def scored(*values):
    return {str(i): {"auroc": value, "auprc": 0.5} for i, value in enumerate(values)}


def test_agreement_of_rankings(modules):
    """The share of ordered pairs of classifiers that both settings rank alike; a tie is not alike."""
    _, settings, _ = modules
    one = scored(0.5, 0.6, 0.7)
    assert settings.agreement(one, scored(0.1, 0.8, 0.9)) == 1
    assert settings.agreement(one, scored(0.9, 0.8, 0.1)) == 0
    assert settings.agreement(one, scored(0.8, 0.1, 0.9)) == pytest.approx(2 / 3)
    assert settings.agreement(one, scored(0.5, 0.5, 0.7)) == pytest.approx(2 / 3)


def test_scores_of_a_label_that_the_rows_tell_and_of_one_that_they_do_not(modules, monkeypatch):
    _, settings, _ = modules
    quick = ("logistic regression", "linear SVM", "Gaussian naive Bayes", "decision tree")
    kept = {name: settings.CLASSIFIERS[name] for name in quick}
    monkeypatch.setattr(settings, "CLASSIFIERS", kept)
    schema = settings.census_rows.frame()[1]
    label, sex = (schema.names.index(name) for name in (settings.LABEL, "SEX"))
    rows = settings.census_rows.codes()[:600].copy()
    rows[:, label] = np.where(rows[:, sex] == 1, 9, 0)
    train, test = rows[:400], rows[400:]
    coin, one_class = test.copy(), test.copy()
    coin[:, label] = np.random.default_rng(0).permutation(test[:, label])
    one_class[:, label] = 9
    result = settings.scores(train, {"real": test, "coin": coin, "one class": one_class})
    assert all(score["auroc"] > 0.99 for score in result["real"].values())
    assert abs(settings.mean(result["coin"], "auroc") - 0.5) < 0.12
    assert {score["auroc"] for score in result["one class"].values()} == {0.5}
    nothing = settings.scores(one_class, {"B": test})["B"]
    share = np.isin(test[:, label], settings.YES).mean()
    assert all(score["auroc"] == 0.5 for score in nothing.values())
    assert settings.mean(nothing, "auprc") == pytest.approx(share, abs=1e-4)


def test_real_rows_to_test_on_are_not_fitted(modules):
    _, settings, _ = modules
    train, test = settings.real()
    assert (len(train), len(test)) == (4000, 2000)
    whole = settings.census_rows._shuffled()[0]
    fitted = settings.census_rows.frame()[0]
    assert len(fitted) + len(test) == len(whole) == 10_000


def test_the_page_has_the_tables_of_its_results(modules):
    presets, _, without_noise = modules
    page = (PAGE / "README.md").read_text("utf-8")
    kept, noiseless = (
        json.loads((PAGE / f"{name}.json").read_text("utf-8"))
        for name in ("presets", "without_noise")
    )
    for table in (
        presets.lines(kept, without_noise.gans(noiseless)),
        presets.classifier_lines(kept),
        without_noise.lines(noiseless),
    ):
        assert "\n".join(table) in page
    planned = {presets.key_of(*run) for run in presets.missing({})}
    assert kept.keys() <= planned | {presets.REFERENCE}


def test_the_paper_presets_learn_without_noise(modules):
    """The criterion: at least as near as a GAN of the same size that is not private."""
    presets, _, without_noise = modules
    rows = json.loads((PAGE / "without_noise.json").read_text("utf-8"))
    own = [rows[without_noise.key_of("preset", s)]["tvd2"] for s in without_noise.SEEDS]
    gan = [rows[without_noise.key_of(without_noise.GAN, s)]["tvd2"] for s in without_noise.SEEDS]
    kept = json.loads((PAGE / "presets.json").read_text("utf-8"))
    keys = [presets.key_of("acgan-paper", presets.EPSILONS[0], s) for s in presets.SEEDS]
    conditional = [kept[key]["tvd2"] for key in keys]
    assert max(own) < min(gan) and max(conditional) < min(gan)
