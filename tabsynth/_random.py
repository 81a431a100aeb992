"""Randomness of one run: streams of its own, the global generators are never touched (R17).

With ``random_state=None`` every stream is seeded by the operating system's entropy. A seed makes the
run reproducible, and its certificate says "not private: seeded", for whoever knows the seed can
subtract the noise.
"""

import numpy as np
import torch

from tabsynth._validate import integer

# Where torch keeps the words of its Mersenne Twister: in 64 bits each, after three others.
MT_START, MT_WORDS = 3, 624


class Randomness:
    """Independent streams, one a purpose.

    Parameters
    ----------
    random_state : int or None
    """

    def __init__(self, random_state: int | None = None) -> None:
        if random_state is not None:
            integer("random_state", random_state, least=0)
        self._sequence = np.random.SeedSequence(random_state)

    def numpy(self) -> np.random.Generator:
        """The next stream, for numpy."""
        return np.random.default_rng(self._sequence.spawn(1)[0])

    def torch(self, device: torch.device | str = "cpu") -> torch.Generator:
        """The next stream, for torch on ``device``."""
        return _stream(self._sequence.spawn(1)[0].generate_state(MT_WORDS, np.uint32), device)


def host_stream(generator: torch.Generator) -> torch.Generator:
    """A stream on the CPU: the one given, or one drawn from it where it lives on another device."""
    if generator.device.type == "cpu":
        return generator
    return _stream(words_of(generator, MT_WORDS), "cpu")


def numpy_stream(generator: torch.Generator) -> np.random.Generator:
    """A stream for numpy, drawn from one for torch."""
    return np.random.default_rng(np.random.SeedSequence(words_of(generator).tolist()))


def words_of(generator: torch.Generator, count: int = 16) -> np.ndarray:
    """So many words of 32 random bits, uint32."""
    words = torch.empty(count, dtype=torch.int64, device=generator.device)
    words.random_(0, 2**32, generator=generator)
    return words.cpu().numpy().astype(np.uint32)


def _stream(words: np.ndarray, device: torch.device | str) -> torch.Generator:
    seed = int(words[0]) | int(words[1]) << 32
    generator = torch.Generator(device=device).manual_seed(seed & (2**63 - 1))
    if generator.device.type == "cpu":
        # Of a seed, torch's CPU generator keeps 32 bits, few enough to try them all: so the
        # whole state of its Mersenne Twister is drawn.
        state = generator.get_state()
        state.numpy().view(np.uint64)[MT_START : MT_START + MT_WORDS] = words
        generator.set_state(state)
    return generator
