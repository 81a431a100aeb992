"""What a certificate prints of each mechanism, against what passed on the way to the noise."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tabsynth.auditing.replay_recorder import ROUNDING, Mechanism
from tabsynth.privacy.accounting.mechanisms import LAPLACE

FLOAT32 = 1e-5  # relative: bounds, and with them standard deviations, come in float32


def misprinted(
    certificate: Mapping[str, Any], mechanisms: Sequence[Mechanism], most: float = 1.0
) -> str | None:
    """The first number of a certificate that is not that of the run, in a line; None if all are.

    Every call of a mechanism must have used the standard deviation that is printed, in the unit that is
    printed, and no input may have moved by more than ``most`` times the sensitivity that is printed.

    Parameters
    ----------
    certificate : dict
        Of the fit; what was spent earlier, as by a warm start, is not of this run.
    mechanisms : sequence of Mechanism
        Calls of the run, and how far the neighbour's inputs lay from them.
    most : float
        Records that only one of the two tables holds.
    """
    listed = [item for item in certificate["mechanisms"] if not item.get("earlier")]
    for number, call in enumerate(mechanisms, 1):
        label = f"mechanism {number} ({call.purpose})"
        items = [item for item in listed if item["purpose"] == call.purpose]
        if not items:
            return f"{label}: the certificate does not list it"
        for item in items:
            found = _compared(item, call, most)
            if found is not None:
                return f"{label}: {found}"
    return None


def _compared(item: Mapping[str, Any], call: Mechanism, most: float) -> str | None:
    sensitivity, deviation = item["sensitivity"]["value"], item["noise_added"]["standard_deviation"]
    unit = item["sensitivity"]["unit"]
    if sensitivity is None or deviation is None:
        return "the certificate prints no sensitivity and no noise"
    # Of Laplace votes one count passes, its scale with it. The other is the rest, and moves as far: L1.
    laplace = item.get("accounting") == LAPLACE
    used, moved = (
        (call.deviation * math.sqrt(2), 2 * call.distance)
        if laplace
        else (call.deviation, call.distance)
    )
    if not math.isclose(used, deviation, rel_tol=FLOAT32):
        return (
            f"the certificate prints a standard deviation of {deviation:.6g}, and {used:.6g} was used"
            f" (unit: {unit})"
        )
    if not moved <= most * sensitivity * (1 + ROUNDING + FLOAT32):
        return (
            f"the certificate prints a sensitivity of {sensitivity:.6g}, and the input moved by {moved:.6g}"
            f" (unit: {unit})"
        )
    return None
