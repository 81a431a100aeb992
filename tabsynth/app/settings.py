"""The settings that a person chooses for a fit."""

import re
from dataclasses import dataclass
from pathlib import Path

from tabsynth._validate import in_range, one_of, quote
from tabsynth.errors import InputError
from tabsynth.methods import METHODS as ALL_METHODS
from tabsynth.privacy.accounting.labels import check_budget

METHODS = [name for name in ALL_METHODS if name != "pate-acgan"]  # which needs a column of classes


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The method and the privacy budget of a fit.

    Parameters
    ----------
    method : str
        A name of :data:`METHODS`.
    epsilon, delta : float
        The privacy budget.
    rows : int
        The number of rows that the plan is for, which a person knows from elsewhere. It is never counted here.
    rows_are_public : bool
        Whether ``rows`` is the exact number and public. The fit then takes it, and does not measure it.
    holdout : float
        The share of rows, from 0 to 0.9, that are kept apart for the report: a public choice. Each row, or unit, is drawn by
        itself. The fit reads the others only.
    accept_drafted : bool
        Whether a person accepts a claim that is conditional on drafted columns.
    ledger : path, optional
        A project ledger.
    name : str
        What the files of the fit are called. Fits with different settings need different names.
    """

    method: str = "margnet"
    epsilon: float = 1.0
    delta: float = 1e-5
    rows: int
    rows_are_public: bool = False
    holdout: float = 0.25
    accept_drafted: bool = False
    ledger: Path | None = None
    name: str = "fit"

    def __post_init__(self) -> None:
        """Check the values of the fields."""
        one_of("method", self.method, METHODS)
        check_budget(self.rows, self.epsilon, self.delta)
        in_range("holdout", self.holdout, 0, 0.9)
        if self.rows_are_public and self.holdout:
            raise InputError(
                "The number of fitted rows is random where some are kept apart; keep 0% apart, or do not declare it."
            )
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", self.name):
            raise InputError(
                f"Expected a name of the fit of letters, digits, - and _, got {quote(self.name)}."
            )

    @property
    def fitted_rows(self) -> int:
        """The number of rows that the plan is for, less those that are kept apart."""
        return max(1, round(self.rows * (1 - self.holdout)))

    @property
    def public_rows(self) -> int | None:
        """The number of rows as the fit takes it."""
        return self.rows if self.rows_are_public else None
