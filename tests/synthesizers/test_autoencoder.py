"""The medGAN autoencoder: it reconstructs, without batch statistics, at the document's widths."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from contexts import context_of
from fitted_tables import small

from tabsynth import Schema
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.privacy.ledger.ledger import Account, Ledger
from tabsynth.privacy.noise.counts import Measured, NoisyCounts, number_of
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial import method as counting
from tabsynth.synthesizers.adversarial.autoencoder import (
    Autoencoder,
    AutoencoderConfig,
    source_autoencoder,
)
from tabsynth.synthesizers.adversarial.generator import TrainingContext
from tabsynth.synthesizers.method import with_settings
from tabsynth.training.private_step import CodedInputs, StepConfig

torch.set_num_threads(1)


@pytest.mark.slow
@pytest.mark.parametrize("source", [False, True])
def test_it_reconstructs_a_structured_table(source: bool) -> None:
    """R11: trained without noise, over 95% of the cells come back (the document's widths as well)."""
    schema = Schema(
        [
            Column(name=f"c{i}", kind="categorical", dtype="int64", categories=tuple(range(4)))
            for i in range(6)
        ]
    )
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, 300)
    index = np.stack([(kind + i) % 4 for i in range(5)] + [rng.integers(0, 4, 300)], axis=1)
    if source:
        config = AutoencoderConfig(
            hidden=(9, 16, 32),
            latent_dim=64,
            activation="relu",
            step=StepConfig(count=600, sampling_rate=0.5),
            lr=4e-3,
        )
    else:
        config = with_settings(AutoencoderConfig(), step__sampling_rate=0.2)
    layout = TableEncoder(schema).layout
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("autoencoder", NoPrivacy(), config.step.count)
    model = Autoencoder(config, layout, torch.Generator().manual_seed(0))
    codes = torch.from_numpy(layout.encode(index))
    before = layout.decode(model(codes).detach().numpy())
    done = model.fit(
        context_of(codes, account, ledger, 300.0), account, torch.Generator().manual_seed(1), None
    )
    assert done == config.step.count == account.spent
    after = layout.decode(model(codes).detach().numpy())
    assert (before == index).mean() < 0.6 and (after == index).mean() > 0.95


def test_no_batch_statistics() -> None:
    """R11, R13."""
    layout = TableEncoder(
        Schema([Column(name="a", kind="categorical", dtype="str", categories=("x", "y"))])
    ).layout
    for config in (AutoencoderConfig(), source_autoencoder(500)):
        model = Autoencoder(config, layout, torch.Generator().manual_seed(0))
        assert not list(model.buffers())
        latents = model.encoder(torch.eye(2))
        assert latents.shape == (2, config.latent_dim) and latents.abs().max() <= 1


def test_source_numbers() -> None:
    """Appendix A: 9–16–32–64, Adam 1e-3, batches of 16, 50 epochs."""
    config = source_autoencoder(13_508)
    assert (*config.hidden, config.latent_dim) == (9, 16, 32, 64)
    assert config.lr == 1e-3
    assert config.step.sampling_rate * 13_508 == pytest.approx(16)
    assert config.step.count == 50 * 13_508 // 16
    assert source_autoencoder(5).step.sampling_rate == 1.0


def test_rows_of_counts_follow_from_the_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """R11: of two tables with the same noisy counts an autoencoder learns from the same rows; scores and counts are charged."""
    learned: list[np.ndarray] = []
    fit_public = Autoencoder.fit_public

    def fit(model: Autoencoder, context: TrainingContext, rows: CodedInputs, stage: str) -> int:
        learned.append(rows.codes.numpy().copy())
        return fit_public(model, context, rows, stage)

    def distances(counts: NoisyCounts[Any], account: Account, sets: Any, *_: Any) -> np.ndarray:
        counts.table.read(account)
        return np.arange(len(sets), dtype=float)

    def measure(
        counts: NoisyCounts[Any], account: Account, sets: Any, shares: Any, bits: Any, groups: Any
    ) -> list[Measured]:
        counts.table.read(account)
        sizes = [[number_of(by[j]) for j in s] for s, by in zip(sets, groups, strict=True)]
        made_up = [60.0 * np.random.default_rng(1).random(shape) for shape in sizes]
        return [Measured(tuple(s), c, 1.0) for s, c in zip(sets, made_up, strict=True)]

    monkeypatch.setattr(Autoencoder, "fit_public", fit)
    monkeypatch.setattr(NoisyCounts, "distances", distances)
    monkeypatch.setattr(NoisyCounts, "measure", measure)
    monkeypatch.setattr(counting, "noisy_marginals", lambda *a: [np.ones(s) * 10 for s in a[2]])
    schema = Schema(
        [
            Column(name=name, kind="ordinal", dtype="bool", categories=(False, True))
            for name in "abc"
        ]
    )
    half, other = np.arange(60) % 2 == 0, np.arange(60) % 3 == 0
    for c in (other, half):  # the strongest pair is of a and b, or of b and c
        a = half if c is other else other
        table = pd.DataFrame({"a": a, "b": half, "c": c})
        model = small(schema, autoencoder="counts", rows=60, random_state=3).fit(table)
        used = {a.purpose: a.spent for a in model.ledger_.accounts}
        steps = {"autoencoder": 5, "critic": 8}
        assert used == {"scores of pairs": 1, "joint counts": 1, "one-way counts": 0, **steps}
    assert learned[0].shape == (60, 3)
    np.testing.assert_array_equal(*learned)


def test_rows_of_counts_have_the_relations_of_the_table() -> None:
    """Of a table in which one column follows another, rows of its counts do too; of a single column there are rows as well."""
    names = ("a", "b", "c")
    schema = Schema(
        [
            Column(name=name, kind="ordinal", dtype="int64", categories=tuple(range(6)))
            for name in names
        ]
    )
    rng = np.random.default_rng(0)
    first = rng.integers(0, 6, 3000)
    table = pd.DataFrame({"a": first, "b": (first + 2) % 6, "c": rng.integers(0, 6, 3000)})
    learned = []
    for columns in (names, names[:1]):
        part = Schema([schema[name] for name in columns])
        model = small(part, autoencoder="counts", epsilon=20.0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                Autoencoder, "fit_public", lambda _, c, rows, s: learned.append(rows.codes)
            )
            model.fit(table[[*columns]])
    a, b, c = learned[0].numpy().T
    assert ((a + 2) % 6 == b).mean() > 0.95
    assert ((a + 2) % 6 == c).mean() < 0.3
    shares = np.bincount(learned[1].numpy()[:, 0], minlength=6) / len(learned[1])
    assert np.abs(shares - 1 / 6).max() < 0.05


def test_rows_of_counts_need_one_way_counts() -> None:
    """The settings of a source that starts from nothing refuse them in one line."""
    model = small(autoencoder="counts", preset="source")
    with pytest.raises(InputError, match="needs the one-way counts"):
        model.plan(estimate_time=False)


@pytest.mark.parametrize(
    "bad",
    [
        {"hidden": (0,)},
        {"hidden": (1.5,)},
        {"latent_dim": 0},
        {"activation": "gelu"},
        {"step__sampling_rate": 0},
        {"step__sampling_rate": 1.1},
        {"step__count": 0},
        {"lr": 0},
        {"lr": math.nan},
        {"max_norm": -1},
        {"max_norm": math.inf},
        {"share": 0},
        {"share": 1},
    ],
)
def test_configurations_that_are_none(bad: dict[str, object]) -> None:
    with pytest.raises(InputError):
        with_settings(AutoencoderConfig(), **bad)
