"""Privacy costs: mechanisms and accountants, exact noise, ledgers, and certificates with their verification."""

from typing import TYPE_CHECKING

from tabsynth._lazy import exports

if TYPE_CHECKING:
    from tabsynth.privacy.ledger.project import ProjectLedger

__all__ = ["ProjectLedger"]

__getattr__, __dir__ = exports("tabsynth.privacy", {"ProjectLedger": "ledger.project"})
