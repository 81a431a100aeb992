"""The shadow-model attack of `evaluate`: a copier is caught; a real synthesizer is run and is not."""

import numpy as np
import pandas as pd
import pytest

from tabsynth import InputError, MargNet, Schema
from tabsynth.evaluation import EvaluationConfig
from tabsynth.evaluation.attacks.shadow import unusual
from tabsynth.report import evaluate
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet.config import MargNetConfig

SCHEMA = Schema(
    [
        Column(name="a", kind="categorical", dtype="str", categories=("x", "y", "z")),
        Column(name="n", kind="numeric", dtype="int64", low=0, high=9),
    ]
)


def table(rows, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.choice(["x", "y"], rows), "n": rng.integers(0, 5, rows)})


def with_outliers():
    real = table(60, 0)
    real.loc[0] = ["z", 9]
    real.loc[1] = ["z", 8]
    return real


def test_a_copier_is_caught_and_the_report_says_so():
    shares = []
    evaluation = evaluate(
        with_outliers(),
        table(50, 1),
        table(40, 2),
        schema=SCHEMA,
        config=EvaluationConfig(
            m=20,
            k=(1,),
            shadow=lambda frame: frame,
            progress=lambda stage, share: (
                shares.append(share) if stage == "shadow models" else None
            ),
        ),
    )
    metric = evaluation.evaluation["shadow_membership"]
    assert metric.kind == "privacy" and metric.value > 0.95 and metric.low > 0.75
    assert metric.n == 20 and len(metric.parts) == 2
    assert len(shares) == 40 and shares[-1] == 1.0 and shares == sorted(shares)
    assert any("Membership by shadow models" in line for line in evaluation.summary())
    assert "shadow_membership" in evaluation.to_frame().to_string()
    assert "groundhog" in evaluation.to_markdown()


@pytest.mark.slow
def test_a_synthesizer_of_ours_is_fitted_for_every_shadow_and_is_private(tmp_path):
    config = MargNetConfig(components=4, latent_dim=2, hidden=(4,), steps=5)
    model = MargNet(SCHEMA, epsilon=0.5, config=config)
    evaluation = evaluate(
        with_outliers(),
        table(50, 1),
        schema=SCHEMA,
        config=EvaluationConfig(m=20, k=(1,), shadow=model, shadow_fits=16),
    )
    metric = evaluation.evaluation["shadow_membership"]
    assert metric.low <= 0.5 and metric.n == 8
    copier = evaluate(
        with_outliers(),
        table(50, 1),
        schema=SCHEMA,
        config=EvaluationConfig(m=20, k=(1,), shadow=lambda frame: frame, shadow_fits=16),
    )
    assert copier.evaluation["shadow_membership"].low > 0.5  # so few fits catch a copier, too
    assert not hasattr(model, "model_")  # the user's own was copied
    evaluation.to_html(tmp_path / "report.html")
    assert "shadow models" in (tmp_path / "report.html").read_text("utf-8")
    assert any(
        "None of 1 other attacks (shadow membership)" in line for line in evaluation.summary()
    )


def test_the_most_unusual_people_are_attacked():
    rows = np.array([[0, 0]] * 5 + [[0, 1]] * 3 + [[1, 1], [1, 1], [2, 0]])
    assert unusual(rows, (3, 2), 2).tolist() == [[2, 0], [1, 1]]
    assert unusual(rows[:5], (3, 2), 2).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shadow": "margnet"}, "margnet"),
        ({"shadow": lambda frame: frame, "shadow_fits": 20}, "20"),
        ({"shadow": lambda frame: frame, "shadow_fits": 8}, "shadow_fits"),
        ({"shadow": lambda frame: frame.drop(columns="n")}, "'n'"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(InputError, match=words):
        evaluate(with_outliers(), table(50, 1), schema=SCHEMA, config=EvaluationConfig(**options))


def test_it_needs_other_people():
    with pytest.raises(InputError, match="4 real rows"):
        evaluate(
            table(2, 0),
            table(50, 1),
            schema=SCHEMA,
            config=EvaluationConfig(m=20, k=(1,), shadow=lambda frame: frame),
        )
