"""What a table's maker claims about it, in a form that a machine can check."""

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tabsynth._files import read_json, sha256, write_text
from tabsynth._validate import shown
from tabsynth.errors import FileFormatError
from tabsynth.privacy.accounting import accountant_of
from tabsynth.privacy.ledger import Ledger
from tabsynth.privacy.mechanisms import check_listed

FORMAT = "tabsynth-certificate/1"
ADJACENCY = "add or remove one record"


def make_certificate(
    ledger: Ledger,
    *,
    method: str,
    epsilon_asked: float,
    seeded: bool,
    public: dict[str, Any],
    versions: dict[str, str],
    training: dict[str, Any],
) -> dict[str, Any]:
    """The certificate of everything that ``ledger`` has spent; JSON-ready.

    ``public`` says what was taken as public and from where; ``training`` holds only what follows from
    privatised state (post-processing).
    """
    epsilon = ledger.spent
    return {
        "format": FORMAT,
        "method": method,
        "private": math.isfinite(epsilon) and not seeded,
        "statement": _statement(epsilon, ledger.delta, seeded, public),
        "epsilon": number(epsilon),
        "epsilon_asked": number(epsilon_asked),
        "delta": ledger.delta,
        "adjacency": ADJACENCY,
        "accountant": accountant_of(ledger.spends(), ledger.delta),
        "mechanisms": ledger.to_list(),
        "public": public,
        "seeded": seeded,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions,
        "training": training,
    }


def _statement(epsilon: float, delta: float, seeded: bool, public: Any) -> str:
    if math.isinf(epsilon):
        return "Not private: private rows were read without noise, so epsilon is infinite."
    claim = (
        f"({rounded_up(epsilon)}, {delta:g})-differential privacy for adding or removing one record"
    )
    if seeded:
        return (
            f"Not private: seeded. Without the seed this would be {claim}; whoever knows the seed"
            " can reproduce the noise and subtract it."
        )
    drafted = public.get("drafted") if isinstance(public, dict) else None
    if isinstance(drafted, list) and drafted:
        return (
            f"Private: {claim}, if the domains of the columns that were drafted from a table"
            f" ({len(drafted)} of them) are public as its maker accepted; their categories and bounds"
            " appear as they are."
        )
    return f"Private: {claim}, if the schema and all else listed under 'public' are public."


def rounded_up(epsilon: float, digits: int = 4) -> str:
    """ε to four digits, never rounded down: a claim may not shrink in print."""
    if epsilon == 0 or math.isinf(epsilon):
        return f"{epsilon:g}"
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - digits + 1)
    return f"{math.ceil(epsilon / unit - 1e-9) * unit:.{digits}g}"


def number(value: float) -> float | str:
    """JSON has no infinity: it is written ``"inf"``."""
    return "inf" if math.isinf(value) else value


def beside(table: str | Path) -> Path:
    """Where the certificate of a table lies: beside it."""
    return Path(f"{table}.certificate.json")


def write_beside(certificate: dict[str, Any], table: str | Path, rows: int) -> Path:
    """Write the certificate of a table that was just written, with the table's SHA-256."""
    entry = {"file": Path(table).name, "sha256": sha256(table), "rows": rows}
    path = beside(table)
    write_text(path, json.dumps({**certificate, "table": entry}, indent=2, allow_nan=False) + "\n")
    return path


def read_certificate(path: str | Path) -> dict[str, Any]:
    """Read a certificate; refuses what is not one."""
    file = Path(path)
    data = read_json(file, "certificate")
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise FileFormatError(f"{file}: expected format {FORMAT!r}, got {shown(found)}.")
    return data


@dataclass(frozen=True)
class Verification:
    """What `verify` found: the claim, and every reason not to believe it."""

    certificate: dict[str, Any]
    epsilon: float
    problems: tuple[str, ...] = field(default=())

    @property
    def valid(self) -> bool:
        """Whether nothing contradicts the certificate."""
        return not self.problems


def verify(table: str | Path) -> Verification:
    """Check the certificate beside a table: its hash, and ε recomputed from the mechanisms listed.

    Raises
    ------
    FileFormatError
        If there is no certificate or it cannot be read as one.
    """
    data = read_certificate(beside(table))
    problems = []
    entry = data.get("table")
    recorded = entry.get("sha256") if isinstance(entry, dict) else None
    found = sha256(table)
    if recorded != found:
        problems.append(f"the table has SHA-256 {found}, the certificate is for {shown(recorded)}")
    claimed, delta = _claimed(data.get("epsilon")), data.get("delta")
    items = data.get("mechanisms")
    if not isinstance(delta, float) or not 0 < delta < 1 or not isinstance(items, list):
        raise FileFormatError(f"{beside(table)}: delta or the list of mechanisms is not usable.")
    if not all(isinstance(item, dict) for item in items):
        raise FileFormatError(f"{beside(table)}: a mechanism must be an object.")
    check_listed(items)
    epsilon = Ledger.from_list(math.inf, delta, items).spent
    # Another build of the accountant may differ in the last digits, and be a little looser.
    low, high = claimed * (1 - 0.005) - 1e-6, claimed * (1 + 1e-4) + 1e-6
    if not (low <= epsilon <= high or epsilon == claimed):
        problems.append(f"the mechanisms give epsilon={epsilon:.4g}, the claim is {claimed:.4g}")
    if bool(data.get("private")) and (data.get("seeded") is not False or math.isinf(epsilon)):
        problems.append(
            "it claims to be private, but the run was seeded or read rows without noise"
        )
    seeded = data.get("seeded") is not False
    if data.get("statement") != _statement(claimed, delta, seeded, data.get("public")):
        problems.append("its statement is not the one that its figures make")
    return Verification(data, epsilon, tuple(problems))


def _claimed(value: Any) -> float:
    if value == "inf":
        return math.inf
    try:
        if not isinstance(value, bool) and isinstance(value, int | float) and value >= 0:
            return float(value)
    except OverflowError:  # a whole number that no float reaches
        pass
    raise FileFormatError(f"The certificate claims epsilon={shown(value)}.")
