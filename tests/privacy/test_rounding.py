"""A claim in print is never below the claim in numbers."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from tabsynth.privacy.certificate.certificate import rounded_up


@given(epsilon=st.floats(1e-6, 1e4))
@example(epsilon=0.30000000000000004)
@example(epsilon=2.99949)
@example(epsilon=9999.01)
def test_epsilon_is_rounded_up(epsilon: float) -> None:
    """R6: at least ε but for the dust of floats, and at most a thousandth above it."""
    shown = float(rounded_up(epsilon))
    assert epsilon * (1 - 2e-12) <= shown <= epsilon * 1.0011
    assert len(f"{shown:.10g}".replace(".", "").strip("0").split("e")[0]) <= 4


def test_round_claims_stay() -> None:
    for text in ("0.1", "1", "3.14", "12.5", "100", "8.001"):
        assert rounded_up(float(text)) == text
    assert (rounded_up(0.0), rounded_up(math.inf)) == ("0", "inf")
    assert (rounded_up(1.0001), rounded_up(7.9991), rounded_up(0.99991)) == ("1.001", "8", "1")


def test_the_least_of_numbers_are_written_too() -> None:
    """A damaged certificate may claim any of them: a power of ten below them is 0."""
    for tiny in (5e-324, 1e-322, 1e-308, 1e-300):
        assert tiny <= float(rounded_up(tiny)) <= 1e-299
    for huge in (1e300, 1.7976931348623157e308):
        assert float(rounded_up(huge)) >= huge
