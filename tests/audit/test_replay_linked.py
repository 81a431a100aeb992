"""R1, R2, R26: a fit of linked tables is a function of its releases, on neighbours that differ by a whole root row."""

import pytest
from linked_tables import TINY, schema, tables
from record_replay import replay
from record_replay.linked import linked_neighbours

from tabsynth import LinkedMargNet
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.linked import network

pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
PAIRS = {pair.kind.split()[-1]: pair for pair in linked_neighbours(tables(25), schema(), seed=1)}


@pytest.fixture(autouse=True)
def few_contexts(monkeypatch):
    monkeypatch.setattr(network, "CONTEXTS", 64)
    monkeypatch.setattr("tabsynth.synthesizers.linked.generator.GROUPS", 50)


@pytest.mark.parametrize("kind", PAIRS)
def test_replay_of_a_whole_root_row(kind):
    """All else is the same to the bit, and no input moves by more than 1, however many rows hang on the root row."""
    pair = PAIRS[kind]
    moved = sum(abs(len(pair.table[name]) - len(pair.neighbour[name])) for name in pair.table)
    assert kind == "alone" or moved > 1
    model = LinkedMargNet(schema(), epsilon=3.0, config=TINY, device="cpu")
    interrupted = 4 if kind == "full" else None
    result = replay(model, pair.table, pair.neighbour, seed=len(kind), interrupted=interrupted)
    assert result.passes, result.first_difference
    assert 0.5 < result.worst_move <= 1 + 1e-9
    assert len({m.purpose.split(":")[0] for m in result.mechanisms}) == 3


def test_replay_with_scores_and_a_declared_number():
    settings = {"components": 20, "latent_dim": 5, "hidden": (8,), "steps": 5, "max_unscored": 0}
    config = MargNetConfig(**settings)
    model = LinkedMargNet(
        schema(), epsilon=3.0, config=config, rows=25, device="cpu", root_share=0.3
    )
    result = replay(model, PAIRS["beyond"].table, PAIRS["beyond"].neighbour, seed=2)
    assert result.passes, result.first_difference
    assert any("scores" in m.purpose for m in result.mechanisms)
