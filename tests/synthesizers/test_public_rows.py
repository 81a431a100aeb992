"""R8, R12, R14: what is public stays public: numbers of rows, the domain, and the generator's step.

Record and replay (R1) is in tests/audit.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, coder, facts, fixed_counts, frame, row, small, wgan

from tabsynth import MargNet
from tabsynth.encoding import TableEncoder
from tabsynth.privacy.noise.counts import NoisyCounts
from tabsynth.synthesizers.adversarial import method as counting
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.training.private_step import PrivateStep

torch.set_num_threads(1)
RATE = 0.2


@pytest.mark.slow
def test_declared_rows_are_the_divisor(monkeypatch: pytest.MonkeyPatch) -> None:
    """R14: rows= takes the place of the measured count, wherever a number of rows is used."""
    divisors: list[float] = []
    real = PrivateStep.gradient

    def gradient(step: PrivateStep, *args: Any, **given: Any) -> None:
        divisors.append(step.expected_batch)
        real(step, *args, **given)

    monkeypatch.setattr(PrivateStep, "gradient", gradient)
    for preset in ("default", "source"):
        model = small(rate=RATE, rows=500, preset=preset, random_state=4, epsilon=60.0)
        certificate = model.fit(frame(60)).certificate()
        assert set(divisors) == {100}
        assert "row count" not in [item["purpose"] for item in certificate["mechanisms"]]
        assert certificate["public"]["rows"] == 500


@pytest.mark.slow
@pytest.mark.parametrize("edge", [row("x", -1), row("x", 21), row("new"), row("x", 3, 1.0001)])
def test_domain_does_not_follow_the_rows(edge: pd.DataFrame) -> None:
    """R12: a row past the bounds or outside the categories changes neither layout nor spends."""
    plain, edged = small(random_state=0), small(random_state=0)
    plain.fit(frame(30))
    edged.fit(pd.concat([frame(30), edge], ignore_index=True))
    for one, other in zip(
        plain.model_.encoder.layout.blocks, edged.model_.encoder.layout.blocks, strict=True
    ):
        assert (one.column, one.start, one.stop, one.head) == (
            other.column,
            other.start,
            other.stop,
            other.head,
        )
        np.testing.assert_array_equal(one.codebook, other.codebook)
    assert facts(plain)["mechanisms"] == facts(edged)["mechanisms"]
    encoder = TableEncoder(SCHEMA)
    both = encoder.to_index(pd.concat([frame(30), edge], ignore_index=True))
    np.testing.assert_array_equal(both[:-1], encoder.to_index(frame(30)))


def test_the_generator_step_reads_no_row() -> None:
    """R8: with the critic's gradients frozen at zero the table is irrelevant."""
    results = []
    for table in (frame(40), frame(55, seed=8)):
        with pytest.MonkeyPatch.context() as patch:

            def zero(step: PrivateStep, *_: Any, **__: Any) -> None:
                step.table.read(step.account)
                for p in step.clipper.parameters:
                    p.grad = torch.zeros_like(p)

            patch.setattr(PrivateStep, "gradient", zero)
            patch.setattr(counting, "noisy_marginals", lambda *a: [np.ones(s) * 10 for s in a[2]])
            model = small(random_state=0, config=wgan(), autoencoder_config=coder())
            model.fit(table)
        results.append([w.cpu().numpy().tobytes() for w in model.model_.weights().values()])
    assert results[0] == results[1]


@pytest.mark.parametrize(("scored", "public"), [(False, False), (True, False), (False, True)])
def test_frozen_counts_freeze_margnet(scored: bool, public: bool) -> None:
    """R12, R19: of two quite different tables, the same noisy counts make the same groups, shares and model.

    With a public table too: its drift and weights follow from it and from noisy counts alone.
    """
    config = MargNetConfig(
        components=20, latent_dim=5, hidden=(8,), steps=12, max_unscored=0 if scored else 66,
        largest_drift=1e9,
    )  # fmt: skip
    # Some private rows of the first table are public.
    known = pd.concat([frame(30, seed=4), frame(40).iloc[:5]], ignore_index=True)
    prior = {"public": known, "public_source": "made up"} if public else {}
    seen = []
    for table in (frame(40), frame(55, seed=8)):
        asked: list[Any] = []

        def distances(
            self: Any, account: Any, sets: Any, expected: Any, *_: Any, asked: Any = asked
        ) -> np.ndarray:
            self.table.read(account)
            asked.append([expected(s).tolist() for s in sets])
            return 1e4 - np.arange(len(sets))

        def contrasts(
            self: Any, account: Any, sets: Any, signs: Any, bits: Any, wide: Any
        ) -> tuple[np.ndarray, np.ndarray]:
            self.table.read(account)
            size = 1e6 if public else 20.0  # beyond the noise
            return np.full((len(sets), len(signs[0])), size), np.full(len(wide), size)

        with pytest.MonkeyPatch.context() as patch:
            fixed = fixed_counts(
                asked, lambda size: 30.0 * np.random.default_rng(len(size)).random(size) ** 4, 1.0
            )
            patch.setattr(NoisyCounts, "measure", fixed)
            patch.setattr(NoisyCounts, "distances", distances)
            patch.setattr(NoisyCounts, "contrasts", contrasts)
            model = MargNet(
                SCHEMA, epsilon=1.0, random_state=0, device="cpu", config=config, **prior
            ).fit(table)
        assert len(asked) == 2 + scored
        weights = [w.cpu().numpy().tobytes() for w in model.model_.weights().values()]
        seen.append((asked, facts(model), weights, model.sample(40, random_state=3).to_csv()))
    assert (model.model_.generator.rows is not None) == public
    assert seen[0] == seen[1]
    joint = seen[0][0][-1][2]
    assert min(len({*by[1]}) for by in joint) < 22  # values of column v were merged into groups
