"""Results of audits, for an HTML page, a JSON file and a certificate."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tabsynth._files import json_ready, write_text
from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import quote
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.certificate.certificate import code

FORMAT = "tabsynth-audit/1"
REFUTED, NOT_REFUTED, INCONCLUSIVE = "refuted", "not refuted", "inconclusive"
EPSILON_TOLERANCE = 1.01  # ratio; a fit uses its budget to within 1%
WHOLE = "whole fit"  # the part that is all releases of a fit
# Kinds that audit the whole fit only; the last two are of version 0.2.
WHOLE_KINDS = ("replay", "black-box", "one-run")
MIN_MU_RATIO = (
    0.85  # of the μ that theory predicts; a white-box audit that measures less is inconclusive
)


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """One audit of one claim.

    Attributes
    ----------
    kind : {"white-box", "replay"}
    method, part : str
        What was audited: a method, and which of its releases.
    verdict : {"refuted", "not refuted", "inconclusive"}
        ``"not refuted"``: no evidence against the claim. ``"inconclusive"``: the attack measured too little of what
        theory predicts to support a conclusion.
    sentence : str
        The result in one sentence.
    epsilon_claimed, delta : float
    epsilon_lower : float
        Lower bound of ε that holds with ``confidence``.
    mu_claimed, mu_estimate, mu_lower : float, optional
        Claim, point estimate and lower bound of μ in Gaussian differential privacy, where the claim has a μ.
    confidence : float
    runs : int
        Runs on each neighbouring dataset that the bound uses.
    power : str
        What the audit could have detected, in one sentence.
    details : dict
        Settings, counts of errors, seconds; JSON-ready.
    created : str
    versions : dict
    code : str
        SHA-256 of the package's source files, as in a certificate.
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
    details: JsonObject = field(default_factory=dict)
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    versions: dict[str, str] = field(
        default_factory=lambda: {name: version(name) for name in ("tabsynth", "torch", "numpy")}
    )
    code: str = field(default_factory=lambda: str(code()["sha256"]))

    @property
    def is_refuted(self) -> bool:
        """True if the claim is refuted at the audit's confidence."""
        return self.verdict == REFUTED

    def to_dict(self) -> JsonObject:
        """Return a JSON-ready mapping; an infinite figure is the text "inf"."""
        return dict(json_ready(asdict(self), not_finite=str))


def decide_verdict(
    epsilon_lower: float,
    epsilon_claimed: float,
    mu_lower: float = 0.0,
    mu_claimed: float | None = None,
    mu_upper: float = math.inf,
    mu_expected: float | None = None,
) -> str:
    """Return the verdict.

    A claim is refuted if a lower bound exceeds it. An audit is inconclusive if its estimate of μ, plus two standard
    errors, which is ``mu_upper``, is below ``MIN_MU_RATIO`` times the expected one.
    """
    if epsilon_lower > epsilon_claimed or (mu_claimed is not None and mu_lower > mu_claimed):
        return REFUTED
    if mu_expected is not None and mu_upper < MIN_MU_RATIO * mu_expected:
        return INCONCLUSIVE
    return NOT_REFUTED


def write_json(
    results: Sequence[AuditResult], path: str | Path, *, overwrite: bool = False
) -> None:
    """Write ``audit.json`` atomically; a file that is there already is replaced with ``overwrite`` only."""
    content = {"format": FORMAT, "results": [result.to_dict() for result in results]}
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    write_text(path, text, overwrite=overwrite)


def certificate_entries(
    data: JsonMapping, path: str | Path, method: str, epsilon: float, delta: float
) -> list[JsonMapping]:
    """Return the results of a file that ``tabsynth audit`` wrote as entries of a fit's certificate.

    An audit of a whole fit must be of the certified claim; an audit of a part must not be of a larger claim.

    Parameters
    ----------
    data : dict
        Content of the file.
    path : path
        Its name, for messages.
    method, epsilon, delta
        The certificate's method and claim, with which the audits must agree.

    Raises
    ------
    InputError, FileFormatError
    """
    results = data.get("results")
    if not isinstance(results, list) or not all(isinstance(item, dict) for item in results):
        raise FileFormatError(f"{path}: expected a list of results, got {quote(results)}.")
    for item in results:
        claimed = item.get("epsilon_claimed")
        if isinstance(claimed, bool) or not isinstance(claimed, int | float):
            raise FileFormatError(
                f"{path}: {quote(item.get('part'))} has no number as epsilon_claimed, so it is unknown which claim"
                " was audited; attach the audit.json that tabsynth audit wrote."
            )
        whole_fit = _of_whole_fit(item)
        comparable = (
            (epsilon / EPSILON_TOLERANCE if whole_fit else 0)
            <= claimed
            <= EPSILON_TOLERANCE * epsilon
        )
        if (
            item.get("method") != method
            or not comparable
            or (whole_fit and item.get("delta") != delta)
        ):
            raise InputError(
                f"{path}: {quote(item.get('part'))} is an audit of {quote(item.get('method'))} at"
                f" epsilon={quote(claimed)}, delta={quote(item.get('delta'))}; the certificate is of {method} at"
                f" epsilon={epsilon:.4g}, delta={delta:g}. Audit its claim: tabsynth audit --method {method}"
                f" --epsilon {epsilon:.4g} --delta {delta:g}."
            )
    fields = ["part", "verdict", "sentence", "epsilon_claimed", "delta", "confidence", "runs"]
    fields += ["versions", "code"]
    return [
        {
            "method": str(item.get("kind")),
            **{name: item[name] for name in fields if item.get(name) is not None},
            **(
                {"epsilon_lower_bound": item["epsilon_lower"]}
                if item.get("epsilon_lower") is not None
                else {}
            ),
            "date": str(item.get("created")),
        }
        for item in results
    ]


def _of_whole_fit(item: JsonMapping) -> bool:
    """Return True for an audit of all releases of a fit, in any mode."""
    return item.get("kind") in WHOLE_KINDS or str(item.get("part")).split(",")[0] == WHOLE
