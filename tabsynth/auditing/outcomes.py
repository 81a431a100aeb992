"""What an audit found, in a form that a page, a JSON file and a certificate can carry."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tabsynth._files import write_text
from tabsynth._validate import shown
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.certificate.certificate import code

FORMAT = "tabsynth-audit/1"
REFUTED, NOT_REFUTED, INVALID = "refuted", "not refuted", "invalid"
CLOSE = 1.01  # a fit spends its budget to within a per cent
WHOLE = "whole fit"  # a part: all that a fit releases
WHOLE_KINDS = ("replay", "black-box", "one-run")  # these have no other
LEAST_SHARE = 0.85  # of the theory's μ: a white-box audit that sees less is not worth its name


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """One audit of one claim.

    Attributes
    ----------
    kind : {"white-box", "black-box", "one-run", "replay"}
    method, part : str
        What was audited: a method, and which of its releases.
    verdict : {"refuted", "not refuted", "invalid"}
        ``invalid``: the audit saw too little for its silence to mean anything.
    sentence : str
        The finding in plain words.
    epsilon_claimed, delta : float
    epsilon_lower : float
        What holds of ε with ``confidence``, whatever is claimed.
    mu_claimed, mu_estimate, mu_lower : float, optional
        The same in μ of Gaussian DP, where the claim is one in μ; and the estimate without a bound.
    confidence : float
    runs : int
        Runs (of one-run: canaries) that the bound rests on, in each world.
    power : str
        What the audit would have found, in words.
    details : dict
        JSON-ready: settings, counts of errors, seconds.
    created : str
    versions : dict
    code : str
        SHA-256 of the package's sources, as a certificate has it.
    """

    kind: str
    method: str
    part: str
    verdict: str
    sentence: str
    epsilon_claimed: float | None = None
    delta: float | None = None
    epsilon_lower: float | None = None
    mu_claimed: float | None = None
    mu_estimate: float | None = None
    mu_lower: float | None = None
    confidence: float | None = None
    runs: int | None = None
    power: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    versions: dict[str, str] = field(
        default_factory=lambda: {name: version(name) for name in ("tabsynth", "torch", "numpy")}
    )
    code: str = field(default_factory=lambda: str(code()["sha256"]))

    @property
    def refuted(self) -> bool:
        """Whether the claim cannot be true, at the audit's confidence."""
        return self.verdict == REFUTED

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; an infinite figure is the text "inf"."""
        return _plain(asdict(self))


def judged(
    epsilon_lower: float,
    epsilon_claimed: float,
    mu_lower: float | None = None,
    mu_claimed: float | None = None,
    mu_estimate: float | None = None,
    mu_error: float = 0.0,
) -> str:
    """The verdict: refuted where a lower bound passes the claim; invalid where the attack hardly saw.

    ``mu_error`` is the standard error of the estimate; two of them are put down to chance.
    """
    if epsilon_lower > epsilon_claimed:
        return REFUTED
    if mu_claimed is None:
        return NOT_REFUTED
    if mu_lower is not None and mu_lower > mu_claimed:
        return REFUTED
    if mu_estimate is not None and mu_estimate + 2 * mu_error < LEAST_SHARE * mu_claimed:
        return INVALID
    return NOT_REFUTED


def write_json(results: Sequence[AuditResult], path: str | Path) -> None:
    """Write ``audit.json``, whole or not at all."""
    content = {"format": FORMAT, "results": [result.to_dict() for result in results]}
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def certified(
    data: Mapping[str, Any], path: str | Path, method: str, epsilon: float, delta: float
) -> list[Mapping[str, Any]]:
    """Results of a file that ``tabsynth audit`` wrote, as the certificate of one fit has them.

    An audit of a whole fit must be of the claim that is certified; one of a part, of no larger one.

    Parameters
    ----------
    data : dict
        What the file holds.
    method, epsilon, delta
        Of the certificate: an audit of another method, or of another ε, says nothing of it.

    Raises
    ------
    InputError, FileFormatError
    """
    results = data.get("results")
    if not isinstance(results, list) or not all(isinstance(item, dict) for item in results):
        raise FileFormatError(f"{path}: expected a list of results, got {shown(results)}.")
    for item in results:
        claimed = item.get("epsilon_claimed")
        if isinstance(claimed, bool) or not isinstance(claimed, int | float):
            raise FileFormatError(
                f"{path}: {shown(item.get('part'))} has no number as epsilon_claimed, so that nobody knows what"
                " was audited; attach the audit.json that tabsynth audit wrote."
            )
        whole = _of_whole_fit(item)
        close = (epsilon / CLOSE if whole else 0) <= claimed <= CLOSE * epsilon
        if item.get("method") != method or not close or (whole and item.get("delta") != delta):
            raise InputError(
                f"{path}: {shown(item.get('part'))} is of {shown(item.get('method'))} at"
                f" epsilon={shown(claimed)}, delta={shown(item.get('delta'))}, the certificate of {method} at"
                f" epsilon={epsilon:.4g}, delta={delta:g}; audit that: tabsynth audit --method {method}"
                f" --epsilon {epsilon:.4g} --delta {delta:g}."
            )
    kept = ["part", "verdict", "sentence", "epsilon_claimed", "delta", "confidence", "runs"]
    kept += ["versions", "code"]
    return [
        {
            "method": str(item.get("kind")),
            **{name: item[name] for name in kept if item.get(name) is not None},
            **(
                {"epsilon_lower_bound": item["epsilon_lower"]}
                if item.get("epsilon_lower") is not None
                else {}
            ),
            "date": str(item.get("created")),
        }
        for item in results
    ]


def _of_whole_fit(item: Mapping[str, Any]) -> bool:
    """Whether an audit is of all that a fit releases, in any mode."""
    return item.get("kind") in WHOLE_KINDS or str(item.get("part")).split(",")[0] == WHOLE
