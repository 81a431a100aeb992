"""R1, R2, R8–R16: a fit is a function of what its mechanisms released, and of nothing else."""

import pandas as pd
import pytest
import torch
from replayed_tables import EPSILON, SCHEMA, frame

from tabsynth.audit.replay import replay
from tabsynth.audit.replay_neighbours import neighbours
from tabsynth.audit.replay_systems import SYSTEMS, systems, tiny
from tabsynth.synthesizers import released
from tabsynth.synthesizers.loading import METHODS

torch.set_num_threads(1)
ROUNDING = 1e-4  # of gradients in float32


@pytest.fixture(autouse=True)
def few_released_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warm start draws a thousand rows, not fifty thousand."""
    monkeypatch.setattr(released, "RELEASED_ROWS", 1000)


@pytest.mark.parametrize("name", systems())
def test_replay_of_every_system(name: str) -> None:
    """All else comes out the same, and no input moves by more than its sensitivity.

    Two neighbours each: over the systems, all kinds, added and removed, come up many times.
    """
    model = tiny(name, SCHEMA, epsilon=EPSILON)
    number = systems().index(name)
    pairs = neighbours(frame(60), SCHEMA, seed=number)
    assert len(pairs) == 16
    for pair in (pairs[2 * (number % 8)], pairs[2 * ((number + 3) % 8) + 1]):
        found = replay(model, pair.table, pair.neighbour, seed=number)
        assert found.first_difference is None, (pair.kind, pair.change, found.first_difference)
        assert found.compared > 300
        assert 0.9 < found.worst_move <= 1 + ROUNDING
        used: dict[str, int] = {}
        moved: dict[str, float] = {}
        for mechanism in found.mechanisms:
            purpose = mechanism.purpose
            used[purpose] = used.get(purpose, 0) + mechanism.uses
            moved[purpose] = max(moved.get(purpose, 0.0), mechanism.move)
        # Every use that the plan charges passed the seam, and the neighbour was seen by each sum.
        plan = model.plan(estimate_time=False)
        earlier = {} if model.get_params(deep=False).get("warm_start") is None else used
        assert used == {spend.purpose: spend.count for spend in plan.spends} or earlier == used
        assert all(moved[p] > 0.2 for p in moved if "votes" not in p and "overlap" not in p)


def test_every_method_and_option_is_covered() -> None:
    """A new method, variant, mode or step rule must come into the list of systems."""
    assert {method for method, _ in SYSTEMS.values()} == set(METHODS)
    for method in METHODS:
        assert method in SYSTEMS
    text = repr(list(SYSTEMS.values()))
    from tabsynth.generators.dpgan import VARIANTS
    from tabsynth.generators.pate_config import ACCOUNTINGS
    from tabsynth.synthesizers.pateacgan import MODES
    from tabsynth.training.bounds import BOUNDS, GROUPINGS
    from tabsynth.training.rules import STEP_RULES

    default = {"advanced", "dp-sgd", "exact-binary", "fixed", "public", "flat", "weight-bias"}
    for names in (VARIANTS, MODES, ACCOUNTINGS, STEP_RULES, BOUNDS, GROUPINGS):
        for option in names:
            assert option in default or repr(option) in text, option


@pytest.mark.parametrize("name", ["margnet", "dp-wgan", "dp-wgan, source", "pate-gan"])
def test_a_tenth_more_rows(name: str) -> None:
    """R14: the number of rows enters nothing; six records more move an input by six at most."""
    more = pd.concat([frame(6, seed=5), frame(60)], ignore_index=True)
    found = replay(tiny(name, SCHEMA, epsilon=EPSILON), frame(60), more, seed=4)
    assert found.passed, found.first_difference
    assert 1.5 < found.worst_move <= 6 * (1 + ROUNDING)
