"""R17: streams of their own, from all of the entropy; the global generators are left alone."""

import os
import random

import numpy as np
import pytest
import torch
from scipy import stats

from tabsynth._random import MT_START, MT_WORDS, Randomness, keystream
from tabsynth.errors import InputError


def draws(randomness: Randomness, n: int = 8) -> tuple[list[float], list[float]]:
    numbers = randomness.numpy().random(n).tolist()
    return numbers, torch.rand(n, generator=randomness.torch(), dtype=torch.float64).tolist()


def global_states() -> tuple[object, ...]:
    legacy = np.random.get_state()[1].tolist()  # noqa: NPY002
    return random.getstate(), legacy, torch.get_rng_state().tolist()


def test_a_seed_repeats_and_none_does_not() -> None:
    assert draws(Randomness(5)) == draws(Randomness(5))
    assert draws(Randomness(np.int64(5))) == draws(Randomness(5))
    streams = [draws(Randomness(s)) for s in (None, None, None, 0, 5, 6, 5 + 2**32, 5 + 2**64)]
    for part in zip(*streams, strict=True):
        assert len({tuple(d) for d in part}) == len(streams)


def test_noise_repeats_with_a_seed_and_not_without() -> None:
    """Unseeded, its key is the system's own entropy and not a seed's: 32 bytes of it."""
    drawn = [Randomness(s).noise().bytes(32) for s in (5, 5, 6, 5 + 2**64, None, None)]
    assert drawn[0] == drawn[1] and len(set(drawn)) == 5
    requests: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", lambda n: requests.append(n) or bytes(n))
        Randomness(5).noise()
        assert not requests
        Randomness(None).noise()
        assert requests == [32]
    one, other = torch.Generator().manual_seed(7), torch.Generator().manual_seed(7)
    assert keystream(one).bytes(32) == keystream(other).bytes(32) != keystream(one).bytes(32)


def test_streams_of_one_run_differ() -> None:
    randomness = Randomness(1)
    results = [torch.rand(4, generator=randomness.torch()).tolist() for _ in range(4)]
    results += [randomness.numpy().random(4).tolist() for _ in range(4)]
    results += [list(randomness.noise().bytes(16)) for _ in range(4)]
    assert len({tuple(d) for d in results}) == 12


def test_more_than_the_32_bits_that_torch_keeps() -> None:
    """A seed of torch's CPU generator counts modulo 2³²: the noise could be found by trying them
    all. Here the whole state is drawn."""
    one, other = torch.Generator().manual_seed(7), torch.Generator().manual_seed(7 + 2**32)
    assert torch.equal(torch.rand(9, generator=one), torch.rand(9, generator=other))
    generator = Randomness(None).torch()
    words = generator.get_state().numpy().view(np.uint64)[MT_START : MT_START + MT_WORDS]
    torch_words = torch.Generator().manual_seed(generator.initial_seed()).get_state()
    from_seed = torch_words.numpy().view(np.uint64)[MT_START : MT_START + MT_WORDS]
    assert words.max() < 2**32 and len(set(words.tolist())) > 620
    assert (words[1:] != from_seed[1:]).mean() > 0.99
    # torch's own layout: that of a seeded state obeys the recurrence of init_genrand.
    state = [int(w) for w in from_seed]
    for i in range(1, MT_WORDS):
        assert state[i] == (1812433253 * (state[i - 1] ^ state[i - 1] >> 30) + i) % 2**32


def test_the_first_draws_follow_from_the_words() -> None:
    """The state that is set is the state that draws: the twister by numpy, from the same words."""
    generator = Randomness(3).torch()
    words = generator.get_state().numpy().view(np.uint64)[MT_START : MT_START + MT_WORDS]
    reference = np.random.MT19937(0)
    reference.state = {
        "bit_generator": "MT19937",
        "state": {"key": words.astype(np.uint32), "pos": MT_WORDS},
    }
    raw = reference.random_raw(40)
    result = torch.rand(40, generator=generator, dtype=torch.float32).numpy()
    np.testing.assert_array_equal(
        result, (raw & (2**24 - 1)).astype(np.float32) / np.float32(2**24)
    )


def test_the_law_of_the_draws() -> None:
    generator = Randomness(0).torch()
    assert stats.kstest(torch.randn(100_000, generator=generator).numpy(), "norm").pvalue > 1e-4
    assert stats.kstest(torch.rand(100_000, generator=generator).numpy(), "uniform").pvalue > 1e-4


def test_global_generators_are_left_alone() -> None:
    before = global_states()
    draws(Randomness(4))
    draws(Randomness(None))
    assert before == global_states()


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True])
def test_seeds_that_are_none(seed: object) -> None:
    with pytest.raises(InputError, match="random_state"):
        Randomness(seed)  # type: ignore[arg-type]
