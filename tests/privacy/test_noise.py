"""R4, R17: noise has exactly its law, is on its grid, and comes from a cryptographic generator."""

import os
import pickle
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from rounded import as_normal, pmf
from scipy import stats

from tabsynth.privacy.noise import samplers as noise
from tabsynth.privacy.noise.samplers import (
    QUARTER,
    Keystream,
    bernoulli,
    grid,
    nearest,
    noisy,
    on_grid,
    rounded_gaussian,
    uniform,
)
from tabsynth.training import sums as noising
from tabsynth.training.sums import TensorNoise, draw_rounded

torch.set_num_threads(1)
DRAWS = 101_000
STDS = (0.3, 1.0, 7.3, 1e4)


class Tape:
    """Given bytes first, and then those of a keystream."""

    def __init__(self, given: bytes, key: bytes = bytes(32)) -> None:
        self.given, self.then, self.asked = given, Keystream(key), 0

    def bytes(self, length: int) -> bytes:
        self.asked += length
        result, self.given = self.given[:length], self.given[length:]
        return result + self.then.bytes(length - len(result))


def tensor_noise(bits: Any = None) -> TensorNoise:
    return TensorNoise(bits or Keystream(bytes(32)), torch.Generator().manual_seed(0))


# The law.


@pytest.mark.parametrize("std", STDS)
def test_the_law_of_counts(std: float) -> None:
    """R4: P(k) = Φ((k + ½)/s) − Φ((k − ½)/s), by chi-square on every k that is common; and N(0, 1) of it."""
    counts = np.arange(DRAWS) % 7.0
    result = noisy(counts, std, Keystream(bytes(32)), whole=True)
    step = grid(std, whole=True)
    assert step == (64.0 if std == 1e4 else 1.0) and (result % step == 0).all()
    if step == 1:
        error = (result - counts).astype(int)
        low, high = error.min(), error.max()
        seen = np.bincount(error - low)
        wanted = DRAWS * pmf(np.arange(low, high + 1), std)
        common = wanted > 5
        wanted = wanted[common] * seen[common].sum() / wanted[common].sum()
        assert stats.chisquare(seen[common], wanted).pvalue > 1e-4
        normal = as_normal(error, std)
    else:
        normal = (result - counts) / std  # steps are so fine that rounding does not show
    assert abs(normal.var() - 1) < 0.015 and abs(normal.mean()) < 4 / np.sqrt(DRAWS)
    assert stats.kstest(normal, "norm").pvalue > 1e-4
    assert abs(np.corrcoef(normal[1:], normal[:-1])[0, 1]) < 0.015


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("std", [0.3, 7.3, 1e-6])
def test_the_law_of_sums_of_gradients(std: float, dtype: torch.dtype) -> None:
    """R4: the same on tensors, of any size next to the noise; independent across entries and calls."""
    values = torch.linspace(-50, 50, DRAWS // 2, dtype=dtype) * std
    room, size = tensor_noise(), torch.tensor(std, dtype=dtype)
    result = torch.stack([room.noisy(values, size) for _ in range(2)])
    step = grid(float(size))
    assert float(size) / 256 < step <= float(size) / 128
    assert bool((result.double() / step == (result.double() / step).round()).all())
    normal = ((result.double() - values.double()) / float(size)).numpy()
    assert abs(normal.var() - 1) < 0.015 and stats.kstest(normal.ravel(), "norm").pvalue > 1e-4
    for one, other in (
        (normal[0], normal[1]),
        (normal[:, 1:], normal[:, :-1]),
        (normal[:, : DRAWS // 4], normal[:, DRAWS // 4 : DRAWS // 4 * 2]),  # of one right angle
    ):
        for f in (np.asarray, np.abs):
            assert abs(np.corrcoef(f(one).ravel(), f(other).ravel())[0, 1]) < 0.015


@pytest.mark.parametrize("centre", [0.0, 0.31, -0.5, 1e6 + 0.125])
def test_the_law_between_the_points_of_the_grid(centre: float) -> None:
    """A value off the grid: bins are as far from it as they are. In float32 for what float32 holds."""
    for ratio in (0.6, 3.0):
        roads = [rounded_gaussian(np.full(DRAWS, centre), ratio, Keystream(bytes(32)))]
        single = torch.full((DRAWS,), centre)
        roads.append(draw_rounded(single, 1.0, ratio, Keystream(bytes(32))).numpy().astype(float))
        for result, exact in zip(roads, (centre, float(single[0])), strict=True):
            steps = np.arange(result.min(), result.max() + 1)
            seen = np.array([(result == k).sum() for k in steps])
            wanted = DRAWS * pmf(steps, ratio, exact)
            common = wanted > 5
            wanted = wanted[common] * seen[common].sum() / wanted[common].sum()
            assert stats.chisquare(seen[common], wanted).pvalue > 1e-4


# Exactness.


def by_mpmath(centre: float, ratio: float, first: int, turn: int, digits: int = 0) -> Any:
    """The value at the middle of what the digits leave open, to 60 places."""
    with mpmath.workdps(60):
        u = (mpmath.mpf(first) + 0.5) / 2 ** (63 + digits)
        v = (mpmath.mpf(turn) + 0.5) / 2 ** (64 + digits)
        return centre + ratio * mpmath.sqrt(-2 * mpmath.log(u)) * mpmath.cos(2 * mpmath.pi * v)


def test_the_error_in_float64_is_below_its_bound() -> None:
    """The bound that decisions rest on, with room to spare: over the whole range and at its ends."""
    rng = np.random.default_rng(0)
    first = np.concatenate(
        [rng.integers(2**39, 2**63, 300), 2 ** rng.integers(39, 63, 60), 2**63 - 1 - 2 ** rng.integers(39, 62, 60)]
    )  # fmt: skip
    turn = rng.integers(-(2**63), 2**63, len(first))
    with_bound = np.sqrt(-2 * np.log(first * 2.0**-63)) * np.cos(turn * (np.pi * 2.0**-63))
    for i, z in enumerate(with_bound):
        assert abs(by_mpmath(0.0, 1.0, int(first[i]), int(turn[i])) - z) < noise.ERROR / 2


def test_the_error_in_float32_is_below_its_bound() -> None:
    """As float32 and torch compute it, against float64: over the whole range and at its ends."""
    rng = np.random.default_rng(1)
    ends = [2**31 - np.arange(2**19, 2**21, 299), np.arange(2**19, 2**21, 299)]
    first = np.concatenate([rng.integers(2**19, 2**31 - 2**19, 200_000), *ends]).astype(np.int32)
    turn = rng.integers(-(2**31), 2**31, len(first)).astype(np.int32)
    ratio = 100.0
    u = torch.from_numpy(first).float().mul_(2.0**-31)
    v = torch.from_numpy(turn.astype(np.float32)).mul_(np.pi * 2.0**-31)
    radius = u.log().mul_(-2 * ratio**2).sqrt_()
    exact = ratio * np.sqrt(-2 * np.log(first * 2.0**-31))
    for wave, true in ((v.cos(), np.cos), (v.sin(), np.sin)):
        error = (radius * wave).numpy() - exact * true(turn * (np.pi * 2.0**-31))
        assert np.abs(error).max() < ratio * noising.ERROR / 2


@settings(max_examples=150, deadline=None)
@given(
    first=st.integers(1, 2**63 - 1),
    turn=st.integers(-(2**63), 2**63 - 2),
    ratio=st.floats(0.01, 500),
    near=st.sampled_from([0.0, 1e-18, -1e-18, 1e-16, -1e-16, 1e-13, -1e-13, 1e-10]),
    edge=st.integers(-1000, 1000),
)
def test_no_edge_is_decided_wrongly(
    first: int, turn: int, ratio: float, near: float, edge: int
) -> None:
    """Values put next to an edge, nearer than float64 can tell: what is decided is what 60 places say.

    The digits that were drawn, with those that the decision took, are replayed by mpmath.
    """
    centre = float(edge + 0.5 + near - by_mpmath(0.0, ratio, first, turn))
    key = bytes([first % 251] * 32)
    with pytest.MonkeyPatch.context() as patch:
        further = Tape(b"", key)
        patch.setattr(noise, "Keystream", lambda _: further)
        (result,) = nearest(
            np.array([centre]), ratio, np.array([first]), np.array([turn]), np.zeros(1, int), key
        )
    drawn = Keystream(key).bytes(further.asked)
    digits = 0
    for place in range(0, further.asked, 16):
        first = first << 64 | int.from_bytes(drawn[place : place + 8], "little")
        turn = turn << 64 | int.from_bytes(drawn[place + 8 : place + 16], "little")
        digits += 64
    with mpmath.workdps(60):
        assert result == mpmath.floor(by_mpmath(centre, ratio, first, turn, digits) + 0.5)


def test_what_is_far_from_an_edge_takes_no_more_digits_and_what_is_near_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    further = Tape(b"")
    monkeypatch.setattr(noise, "Keystream", lambda _: further)
    parameters = {
        "first": np.array([2**62]),
        "turn": np.array([QUARTER]),
        "owner": np.zeros(1, int),
    }
    z = float(by_mpmath(0.0, 1.0, 2**62, QUARTER))
    nearest(np.array([0.25 - z]), 1.0, **parameters, spare=bytes(32))
    assert further.asked == 0
    nearest(np.array([0.5 - z]), 1.0, **parameters, spare=bytes(32))
    assert further.asked >= 16


def test_how_far_a_stream_is_used_up_does_not_follow_from_values() -> None:
    """Else the noise of later releases, and their coins, would hang on rows."""
    for values in (np.zeros(999), np.linspace(-1e9, 1e9, 999), np.full(999, np.nan)):
        streams = [Tape(b"") for _ in range(4)]
        noisy(values, 3.0, streams[0], whole=True)
        noisy(values, 1e-9, streams[1])
        bernoulli(np.clip(values, 0, 1), lambda i, library: library.mpf(0), streams[2])
        tensor_noise(streams[3]).noisy(torch.from_numpy(values).float(), torch.tensor(1.0))
        assert [s.asked for s in streams] == [16 * 999 + 32] * 2 + [8 * 999 + 32, 8 * 500 + 32]


def test_doubt_in_single_precision_is_settled_in_double() -> None:
    """All of float32's answers are those of float64 on the same digits, both sides of the right angle."""
    count, ratio, key = 40_001, 100.0, bytes(32)
    centres = torch.linspace(-3000, 3000, count)
    result = draw_rounded(centres, 1.0, ratio, Keystream(key)).numpy()
    half = (count + 1) // 2
    words = np.frombuffer(Keystream(key).bytes(8 * half), dtype="<i4").reshape(2, half).astype(int)
    radius = ratio * np.sqrt(-2 * np.log(((words[0] & 2**31 - 1) + 0.5) * 2.0**-31))
    angle = (words[1] + 0.5) * np.pi * 2.0**-31
    total = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
    total += centres.numpy().astype(float)
    clear = (
        np.abs(total - np.rint(total)) < 0.5 - 1e-4
    )  # the digits not drawn may decide the others
    clear &= np.tile((radius > 0.1 * ratio) & (radius < 4 * ratio), 2)[:count]
    assert clear.mean() > 0.98
    np.testing.assert_array_equal(result[clear], np.rint(total)[clear])
    assert (np.abs(result - total)[~clear] < 0.502 + 0.01 * ratio).all()


def test_tails_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """First digits all 0: past every float64 tail, from as many more digits as it takes."""
    monkeypatch.setattr(noise, "Keystream", lambda _: Tape(b"\0" * 16))
    far = nearest(
        np.zeros(2), 1e3, np.zeros(2, int), np.array([0, QUARTER]), np.zeros(2, int), bytes(32)
    )  # fmt: skip
    assert 13_000 < far[0] < 25_000 and far[1] == 0  # cos 0 and cos of a right angle


@pytest.mark.parametrize("chance", [0.0, 1e-30, 0.1, 1 / 3, 0.5, 1 - 1e-12, 1.0])
def test_coins_have_their_chance(chance: float) -> None:
    """Also where it lies within a rounding of the number drawn: by the first digit that differs."""

    def digits(_: int, library: Any) -> Any:
        return library.mpf(chance)

    result = bernoulli(np.full((101, 1000), chance), digits, Keystream(bytes(32)))
    assert result.shape == (101, 1000) and result.dtype == bool
    assert abs(result.mean() - chance) <= 4.5 * np.sqrt(chance * (1 - chance) / result.size)
    with mpmath.workdps(60):
        word = int(mpmath.floor(mpmath.mpf(chance) * 2**64)) % 2**64
        for other in (max(0, word - 1), word, min(2**64 - 1, word + 1)):
            bits = Tape(other.to_bytes(8, "little"))
            (won,) = bernoulli(np.array([chance]), digits, bits)
            further = Keystream(Keystream(bytes(32)).bytes(32)).bytes(64)
            drawn = other.to_bytes(8, "little") + further
            u = mpmath.mpf(0)
            for i in range(0, len(drawn), 8):
                u += mpmath.mpf(int.from_bytes(drawn[i : i + 8], "little")) / 2 ** (8 * i + 64)
            assert won == (u < mpmath.mpf(chance))


# The grid.


@settings(max_examples=60, deadline=None)
@given(std=st.floats(1e-9, 1e9), value=st.floats(-1e6, 1e6), fineness=st.integers(2, 20))
def test_what_is_released_is_on_a_grid_that_follows_from_the_noise(
    std: float, value: float, fineness: int
) -> None:
    step = grid(std, fineness=fineness)
    assert std / 2 < step * 2**fineness <= std and np.log2(step) == int(np.log2(step))
    bits = Keystream(bytes(32))
    (result,) = noisy([value], std, bits, fineness=fineness)
    assert result / step == round(result / step)
    (result,) = noisy([float(round(value))], std, bits, whole=True)
    assert result == int(result)


@pytest.mark.parametrize("size", [0.0, 1.0, 300.0, 1e5])
def test_the_grid_does_not_follow_from_the_values(size: float) -> None:
    """However large or small a value is, every point of the noise's own grid is released, odd and even."""
    for std in (2.3, 40.0):
        for whole in (False, True):
            result = noisy(np.full(1000, round(size) * std), std, Keystream(bytes(32)), whole=whole)
            points = result / grid(std, whole=whole)
            assert (points == points.round()).all() and 0.3 < (points % 2).mean() < 0.7
        values = torch.full((1000,), size * std, dtype=torch.float64)
        points = tensor_noise().noisy(values, torch.tensor(std)) / grid(float(np.float32(std)))
        assert bool((points == points.round()).all()) and 0.3 < float((points % 2).mean()) < 0.7


def test_zero_has_one_sign() -> None:
    """A negative zero would tell the sign of what was rounded to it."""
    result = noisy(np.zeros(3000), 0.3, Keystream(), whole=True)
    assert (result == 0).mean() > 0.8 and not np.signbit(result[result == 0]).any()
    for dtype in (torch.float32, torch.float64):
        room = tensor_noise(Keystream())
        for release in (room.noisy, room._elsewhere):
            created = release(torch.zeros(30_000, dtype=dtype), torch.tensor(1.0))
            assert 20 < (created == 0).sum() < 800 and not bool(
                torch.signbit(created[created == 0]).any()
            )


def test_without_noise_values_come_back_and_noise_without_bound_leaves_none() -> None:
    values = np.array([0.1, -3.0])
    np.testing.assert_array_equal(noisy(values, 0.0, Tape(b"")), values)
    room = tensor_noise()
    for bad in (np.nan, np.inf):
        assert bool(room.noisy(torch.ones(5), torch.tensor(bad)).isnan().all())
    odd = torch.tensor([np.nan, np.inf, 1.0, -np.inf, 1e30])
    result = room.noisy(odd, torch.tensor(1.0))
    assert result.isfinite().tolist() == [False, False, True, False, True]


def test_sums_on_the_public_grid_are_exact() -> None:
    rng = np.random.default_rng(0)
    gaps = np.abs(rng.integers(0, 10**6, 5000) - on_grid(rng.uniform(0, 1e6, 5000)))
    sums = {float(rng.permutation(gaps).sum()) for _ in range(20)}
    assert sums == {float(sum(map(mpmath.mpf, gaps)))}


def test_on_another_device_noise_is_on_the_same_grid() -> None:
    """The road that CUDA takes, here on the CPU: the same law and grid, whatever the size of the noise."""
    room, values = tensor_noise(), torch.linspace(-3, 3, DRAWS)
    for std in (0.7, 1.0, 1e-5):
        result = room._elsewhere(values * std, torch.tensor(std)).double() / grid(
            float(np.float32(std))
        )
        assert bool((result == result.round()).all())
        normal = result.numpy() * grid(std) / std - values.numpy()
        assert abs(normal.var() - 1) < 0.015 and stats.kstest(normal, "norm").pvalue > 1e-4


# The generator.


def test_the_keystream_is_aes_in_counter_mode() -> None:
    """NIST's block cipher by another call: each block is the counter, enciphered; and it is uniform."""
    key = bytes(range(32))
    drawn = b"".join(Keystream(key).bytes(16 * 3) for _ in range(1))
    blocks = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    assert drawn == blocks.update(b"".join(i.to_bytes(16, "big") for i in range(3)))
    parts = Keystream(key)
    assert parts.bytes(5) + parts.bytes(0) + parts.bytes(43) == drawn
    numbers = uniform(DRAWS, Keystream(key))
    assert numbers.min() > 0 and numbers.max() <= 1
    assert stats.kstest(numbers, "uniform").pvalue > 1e-4


def test_no_stream_repeats() -> None:
    """Unseeded streams differ, calls of one stream differ, no block comes twice."""
    drawn = [Keystream().bytes(16) for _ in range(50)]
    stream = Keystream()
    drawn += [stream.bytes(16) for _ in range(20_000)]
    assert len(set(drawn)) == len(drawn)
    one, other = (noisy(np.zeros(64), 9.0, Keystream(), whole=True) for _ in range(2))
    assert (one != other).any()
    with pytest.raises(TypeError):
        pickle.dumps(stream)


def test_a_forked_process_has_a_stream_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, seeded = Keystream(), Keystream(bytes(32))
    calm = Keystream(bytes(32))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    key = bytes([7] * 32)
    monkeypatch.setattr(os, "urandom", lambda _: key)
    assert stream.bytes(32) == Keystream(key).bytes(32)
    assert seeded.bytes(32) == calm.bytes(32)


def test_the_same_key_gives_the_same_noise() -> None:
    values = np.arange(500.0)
    for std in (0.3, 50.0):
        one, second, other = (
            noisy(values, std, Keystream(bytes([k] * 32)), whole=True) for k in (1, 1, 2)
        )
        np.testing.assert_array_equal(one, second)
        assert (one != other).any()
