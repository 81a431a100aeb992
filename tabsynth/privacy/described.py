"""A mechanism in the words of a certificate: what was sampled, how sensitive, how much noise. Code, hashed."""

import hashlib
import math
import platform
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tabsynth.privacy.mechanisms import LAPLACE, NoisyVote, NoPrivacy, mechanism_from

PACKAGES = ("tabsynth", "torch", "opacus", "numpy", "scipy", "pandas")
# How mechanisms are composed, by the name of the accountant.
COMPOSITIONS = {
    "PRV": "adaptive, by privacy loss random variables (Gopi, Lee, Wutschitz 2021)",
    "PLD": "adaptive, by privacy loss distributions (Doroshenko et al. 2022)",
    "RDP": "adaptive, by Rényi differential privacy (Mironov 2017; Balle et al. 2020)",
    "exact Gaussian": "adaptive, of Gaussian mechanisms, exact (Dong, Roth, Su 2022)",
    "Rényi filter": "fully adaptive, by a privacy filter of one Rényi order that follows from the epsilon asked for"
    " (Feldman, Zrnic 2021; Lécuyer 2021); it holds if that epsilon was chosen before the first of these"
    " mechanisms ran",
    "none": "none",
}


# How noise is made: keys, law. Where gradients are summed on a GPU it is made there (tabsynth.training.noising).
EXACT = {
    "generator": "AES-256 in counter mode; its key is the operating system's, or comes from the seed",
    "law": "exactly as accounted for, rounded to a public grid",
    "exact": True,
}
ON_GPU = {
    "generator": "of gradients: Philox of torch, on CUDA, no cryptographic generator; of all else: "
    + str(EXACT["generator"]),
    "law": "of gradients: float64 normals rounded to a public grid, which over a whole fit may differ from what"
    " is accounted for by 2^-13 in total variation, and delta does not cover it; of all else: "
    + str(EXACT["law"]),
    "exact": False,
}


def described(item: Mapping[str, Any]) -> dict[str, Any]:
    """A ledger's line with what follows from it: sampling, sensitivity and noise, each in its unit.

    A ledger counts noise in units of the sensitivity; the sensitivity itself is among the details, where
    the fit wrote it down.
    """
    mechanism = mechanism_from(dict(item))
    details = item.get("details") or {}
    unit = str(details.get("unit", "not stated"))
    if isinstance(mechanism, NoisyVote):
        laplace = mechanism.accounting == LAPLACE
        sampling = "none: a record is in the shard of one teacher"
        sensitivity: float | None = 2.0 if laplace else 1.0
        norm, unit = ("L1" if laplace else "L2"), "votes"
        kind = "Laplace, on each of the two counts" if laplace else "Gaussian"
        deviation: float | None = mechanism.noise * (math.sqrt(2) if laplace else 1.0)
    else:
        rate = mechanism.sampling_rate
        sampling = f"Poisson, rate {rate!r}" if rate < 1 else "none: the whole table"
        norm, sensitivity = "L2", _number(details.get("l2_sensitivity"))
        noiseless = isinstance(mechanism, NoPrivacy)
        kind = "none" if noiseless else "Gaussian"
        deviation = None if sensitivity is None else sensitivity * mechanism.noise_multiplier
    return {
        **item,
        "sampling": sampling,
        "sensitivity": {"norm": norm, "value": sensitivity, "unit": unit},
        "noise_added": {"distribution": kind, "standard_deviation": deviation, "unit": unit},
    }


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


@lru_cache(maxsize=1)
def code() -> dict[str, Any]:
    """SHA-256 over the package's sources: for each, in order of its path, path, NUL, length, NUL, bytes."""
    root = Path(__file__).resolve().parent.parent
    digest, files = (
        hashlib.sha256(),
        sorted(root.rglob("*.py"), key=lambda p: p.relative_to(root).as_posix()),
    )
    for path in files:
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(data)}\0".encode() + data)
    return {"sha256": digest.hexdigest(), "files": len(files)}


def versions() -> dict[str, str]:
    """Of Python and of the packages that a fit's figures depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
