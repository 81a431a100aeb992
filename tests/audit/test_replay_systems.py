"""R1, R2, R8–R16: a fit is a function of what its mechanisms released, and of nothing else."""

import inspect
from collections.abc import Mapping

import pandas as pd
import pytest
import torch
from record_replay import neighbours, replay
from replayed_tables import EPSILON, ROUNDING, SCHEMA, checked, frame, pairs_of
from systems import list_systems, make_tiny_model, system_names

from tabsynth.synthesizers.estimator import METHODS

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
# What a replay sets itself, or refuses; the budget's delta is an ordinary number.
# Drafts are replayed by tests of their own.
OF_NO_SYSTEM = {
    *("delta", "draft_options", "random_state"),
    *("time_budget", "time_limit", "verbose"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in system_names() if not name.startswith("pate")])
def test_replay_of_every_system(name: str) -> None:
    """All else comes out the same, and no input moves by more than its sensitivity.

    Those of PATE are in ``test_replay_pate``.
    """
    for pair, interrupted in zip(pairs_of(name), (None, 2), strict=False):
        checked(name, pair, interrupted)  # a method's default is interrupted too, and goes on


def test_every_method_and_option_is_covered() -> None:
    """A new method, variant, mode or step rule must come into the list of systems.

    So must, of each method, every argument, every encoding and every way of the autoencoder to learn.
    """
    systems = list_systems()
    assert {method for method, _ in systems.values()} == set(METHODS)
    assert set(METHODS) <= set(systems)
    text = repr(list(systems.values()))
    from tabsynth.encoding.table import SCHEMES
    from tabsynth.synthesizers.adversarial.autoencoder import TRAININGS
    from tabsynth.synthesizers.adversarial.dpgan import VARIANTS
    from tabsynth.synthesizers.pate.config import ACCOUNTINGS
    from tabsynth.training.clipping import BOUNDS, GROUPINGS
    from tabsynth.training.private_step import STEP_RULES

    default = {"advanced", "dp-sgd", "exact-binary", "fixed", "public"}
    for names in (VARIANTS, ACCOUNTINGS, STEP_RULES, BOUNDS):
        for option in names:
            assert option in default or repr(option) in text, option
    grouped = [make_tiny_model(name, SCHEMA, epsilon=EPSILON) for name in system_names("dp-gan")]
    assert {m.make_method(SCHEMA).learning.config.clipping.grouping for m in grouped} == set(
        GROUPINGS
    )
    for method, kind in METHODS.items():
        models = [make_tiny_model(name, SCHEMA, epsilon=EPSILON) for name in system_names(method)]
        defaults = {n: p.default for n, p in inspect.signature(kind).parameters.items()}
        chosen = {n for n, v in defaults.items() if any(getattr(m, n) is not v for m in models)}
        assert set(defaults) - chosen <= OF_NO_SYSTEM, method
        if "network_encoding" not in defaults:
            continue
        used = {s for m in models for s in _schemes(m.make_method(SCHEMA).network_encoding)}
        assert used == {"base-N" if s.startswith("base-") else s for s in SCHEMES}, method
        assert {m.make_method(SCHEMA).training for m in models} == {*TRAININGS, None} - {
            "no-noise"
        }, method


def _schemes(encoding: str | Mapping[str, str]) -> set[str]:
    listed = {encoding} if isinstance(encoding, str) else {"one-hot", *encoding.values()}
    return {"base-N" if scheme.startswith("base-") else scheme for scheme in listed}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["margnet", "dp-wgan", "dp-wgan, source", "pate-gan"])
def test_a_tenth_more_rows(name: str) -> None:
    """R14: the number of rows enters nothing; six records more move an input by six at most."""
    more = pd.concat([frame(6, seed=5), frame(60)], ignore_index=True)
    result = replay(make_tiny_model(name, SCHEMA, epsilon=EPSILON), frame(60), more, seed=4)
    assert result.passes, result.first_difference
    assert 1.5 < result.worst_move <= 6 * (1 + ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [*METHODS, "dp-wgan, no autoencoder", "pate-gan, networks"],
)
def test_an_empty_table_and_one_row(name: str) -> None:
    """R25: a fit of no row succeeds as that of its neighbour, and all else is the same."""
    for table, neighbour in ((frame(0), frame(1)), (frame(1), frame(0))):
        result = replay(make_tiny_model(name, SCHEMA, epsilon=EPSILON), table, neighbour, seed=2)
        assert result.passes, result.first_difference
        assert 0.9 < result.worst_move <= 1 + ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_an_extreme_record(name: str) -> None:
    """R22: whole numbers that floats cannot hold, and a long text, are taken in as the schema says."""
    result = neighbours(frame(60), SCHEMA, seed=system_names().index(name))
    added, removed = (pair for pair in result if pair.kind == "extreme")
    checked(name, added)
    checked(name, removed)
