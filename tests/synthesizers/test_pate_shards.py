"""R8, R15, R16 for PATE: shards by coins, a generator that reads the student, and no leak of answers.

Record and replay of PATE is in tests/audit/test_replay_pate.py.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fitted_tables import frame, small_pate

from tabsynth.synthesizers.pate import pairs as pate_marginals
from tabsynth.synthesizers.pate import rounds
from tabsynth.synthesizers.pate import teachers as pate_networks
from tabsynth.synthesizers.pate.rounds import deal

torch.set_num_threads(1)


def test_shards_are_coins_of_the_records() -> None:
    """R15: a record more or less, wherever it stands, is one record of one shard; the law is uniform."""
    key = np.arange(16, dtype=np.uint32)
    rows = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (300, 3))).float()
    assert len(rows.unique(dim=0)) <= 64  # most records have equals

    def shards(table: torch.Tensor) -> list[list[bytes]]:
        results: list[list[bytes]] = [[] for _ in range(7)]
        for record, k in zip(*deal(table, 7, key), strict=True):
            results[k].append(record.numpy().tobytes())
        return results

    whole = shards(rows)
    assert shards(rows[torch.randperm(300, generator=torch.Generator().manual_seed(0))]) == whole
    for i in (0, 1, 150, 299):
        fewer = shards(torch.cat([rows[:i], rows[i + 1 :]]))
        changed = [([*a], b) for a, b in zip(whole, fewer, strict=True) if a != b]  # in order, too
        ((one, other),) = changed
        one.remove(rows[i].numpy().tobytes())
        assert one == other
    alike = torch.zeros(20_000, 2)
    _, drawn = deal(alike, 10, key)
    counts = torch.bincount(drawn, minlength=10)
    assert len(counts) == 10 and (counts - 2000).abs().max() < 4.5 * (20_000 * 0.09) ** 0.5
    _, others = deal(alike, 10, key + 1)
    assert 0.08 < (others == drawn).double().mean() < 0.12


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        (pate_marginals.PATEMarginals, "marginals"),
        (pate_networks.PATENetworks, "networks"),
    ],
)
def test_the_generator_step_reads_the_student_alone(
    module: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8: in a generator step neither teachers nor rows are there to be read."""
    real = module.move

    def move(self: Any, *args: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rounds.NoisyAggregator, "open", None)
            if kind == "networks":
                patch.setattr(self, "_teachers", None)
                patch.setattr(self, "_trainer", None)
            real(self, *args)

    monkeypatch.setattr(module, "move", move)
    model = small_pate(teachers=kind).fit(frame(40))
    assert len(model.sample(5)) == 5


def test_frozen_answers_freeze_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """R16: of two quite different tables, the same answers make the same model."""
    for kind in ("marginals", "networks"):
        seen = []
        for table in (frame(40), frame(55, seed=8)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    rounds, "majority", lambda counts, *_: np.arange(len(counts)) % 3 == 0
                )
                patch.setattr(
                    "tabsynth.synthesizers.adversarial.method.noisy_marginals",
                    lambda *a: [np.ones(s) * 10 for s in a[2]],
                )
                # Batches of the student so large that it learns from every row that was asked about.
                config = {"networks__student_batch": 300}
                model = small_pate(
                    random_state=0, teachers=kind, config=config, autoencoder=None
                ).fit(table)
            weights = model.model_.weights().values()
            seen.append(([w.cpu().numpy().tobytes() for w in weights], model.model_.curves))
        assert seen[0] == seen[1]
