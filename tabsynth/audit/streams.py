"""What the mechanisms draw from in an audit: the system's entropy, never a seed."""

import numpy as np
import torch

from tabsynth._random import Randomness


def noise_stream() -> np.random.Generator:
    """For noise on counts and votes."""
    return Randomness().numpy()


def coin_stream() -> torch.Generator:
    """For Poisson batches."""
    return Randomness().torch()
