"""Randomness of one run: streams of its own, the global generators are never touched.

With ``random_state=None`` every stream is seeded by the operating system's entropy; noise has a
cryptographic generator (:mod:`tabsynth.privacy.noise.samplers`). A seed makes the
run reproducible, and its certificate says "not private: seeded", for whoever knows the seed can
subtract the noise.
"""

import numpy as np
import torch

from tabsynth._validate import integer
from tabsynth.privacy.noise.samplers import Keystream

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
        self.seeded = random_state is not None
        self._sequence = np.random.SeedSequence(random_state)

    def noise(self) -> Keystream:
        """Return the next stream, for noise and for the coins of private batches."""
        words = self._sequence.spawn(1)[0].generate_state(8, np.uint32)
        return Keystream(_bytes(words) if self.seeded else None)

    def numpy(self) -> np.random.Generator:
        """Return the next stream, for numpy."""
        return np.random.default_rng(self._sequence.spawn(1)[0])

    def torch(self, device: torch.device | str = "cpu") -> torch.Generator:
        """Return the next stream, for torch on ``device``."""
        return _stream(self._sequence.spawn(1)[0].generate_state(MT_WORDS, np.uint32), device)


def keystream(generator: torch.Generator) -> Keystream:
    """Return a stream for noise whose key is drawn from a generator: as good as that one's seed."""
    if torch.equal(generator.get_state(), torch.Generator(generator.device).get_state()):
        raise ValueError("this generator was never seeded: its bits are known to everybody")
    words = torch.empty(8, dtype=torch.int64, device=generator.device)
    words.random_(0, 2**32, generator=generator)
    return Keystream(_bytes(words.cpu().numpy()))


def _bytes(words: np.ndarray) -> bytes:
    return words.astype("<u4").tobytes()


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
