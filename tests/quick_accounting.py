"""Accounting for tests of everything else: RDP at a few whole orders, an upper bound that takes no time."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import pytest

from tabsynth.privacy.accounting import accountants as accounting

FEW_ORDERS = [2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0]


@contextmanager
def quick_accounting() -> Iterator[None]:
    """What is spent is composed, calibrated and refused as ever, at a looser bound. Results are kept apart
    from those of other tests, for the accountant remembers them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounting, "SUBSAMPLED_ORDERS", FEW_ORDERS)
        patch.setattr(accounting, "PRV_LIMIT", 0.0)
        patch.setattr(accounting, "_epsilon", lru_cache(4096)(accounting._epsilon.__wrapped__))
        yield
