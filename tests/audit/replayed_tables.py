"""Tables of the audit's schema, and the check that all systems have to stand."""

import numpy as np
import pandas as pd
from record_replay import neighbours, replay
from systems import make_tiny_model, system_names

from tabsynth.auditing.replay import DRAFTS, Neighbour, ReplayResult
from tabsynth.auditing.replay_audit import SCHEMA
from tabsynth.synthesizers.estimator import METHODS

EPSILON = 60.0  # where accounting is quick: a replay is of control flow, whatever the noise
ROUNDING = 1e-4  # of gradients in float32


def frame(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    v = pd.array(rng.integers(0, 21, rows), dtype="Int64")
    v[rng.random(rows) < 0.1] = pd.NA
    return pd.DataFrame(
        {
            "k": pd.Series(rng.choice(["x", "y"], rows, p=[0.8, 0.2]), dtype="str"),
            "v": v,
            "r": rng.uniform(-1, 1, rows),
            "b": rng.random(rows) < 0.5,
        }
    )


def pairs_of(name: str) -> list[Neighbour]:
    """A neighbour for a system, two for a method's default: over the systems, all kinds, both changes.

    But for ``extreme``, which has a test of its own. All of them for each system are in reports/audits.
    """
    number = system_names().index(name)
    schema = make_tiny_model(name, SCHEMA, epsilon=EPSILON).schema or SCHEMA
    result = neighbours(frame(60), schema, seed=number)
    result = [pair for pair in result if pair.kind != "extreme"]
    assert len(result) == 16 or schema.impossible
    first, second = (result[k % len(result)] for k in (7 * number, 7 * number + 5))
    return [first, second] if name in METHODS else [first]


def checked(name: str, pair: Neighbour, interrupted: int | None = None) -> ReplayResult:
    """A replay of a system that must pass, and in which every mechanism took part."""
    model, seed = make_tiny_model(name, SCHEMA, epsilon=EPSILON), system_names().index(name)
    result = replay(model, pair.table, pair.neighbour, seed=seed, interrupted=interrupted)
    assert result.first_difference is None, (pair.kind, pair.change, result.first_difference)
    assert result.compared > 300
    assert result.worst_move <= 1 + ROUNDING
    used: dict[str, int] = {}
    moved: dict[str, float] = {}
    for mechanism in result.mechanisms:
        purpose = mechanism.purpose
        used[purpose] = used.get(purpose, 0) + mechanism.uses
        moved[purpose] = max(moved.get(purpose, 0.0), mechanism.move)
    # Every use that the plan charges passed the seam, and each sum saw the neighbour.
    if (
        model.schema is None
    ):  # what a record has in common with others is released in the first rounds
        model.set_params(schema=SCHEMA)
        used = {purpose: uses for purpose, uses in used.items() if not purpose.startswith(DRAFTS)}
        moved = {purpose: move for purpose, move in moved.items() if purpose in used}
    assert used == {s.purpose: s.count for s in model.plan(estimate_time=False).spends}
    assert all(moved[p] > 0.2 for p in moved if "votes" not in p)
    if any("votes" not in purpose for purpose in moved):  # a teacher's vote may be what it was
        assert result.worst_move > 0.9
    return result
