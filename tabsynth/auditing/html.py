"""Results of audits as one self-contained HTML file."""

from collections.abc import Sequence
from pathlib import Path

from tabsynth._files import write_text
from tabsynth.auditing.outcomes import INCONCLUSIVE, REFUTED, AuditResult
from tabsynth.report.page import Row, Table, format_number, render_page

ABOUT = {
    "white-box": "The attacker sees every release and knows all rows but one and all randomness but the noise. It"
    " must tell a dataset from its neighbouring dataset. This is the strongest attacker that differential privacy"
    " considers, so the audit detects noise that is too small.",
    "black-box": "The attacker sees only synthetic rows and must tell fits to a dataset from fits to its"
    " neighbouring dataset. This attacker is weaker than differential privacy allows, so the lower bound is usually"
    " far below the claim. The audit can detect leakage outside the mechanisms.",
    "replay": "A small fit to an artificial table is recorded and repeated with the same releases on a neighbouring"
    " dataset, in which one record is added or removed. All outputs must be equal bit for bit: model, files,"
    " certificate, logs and sample.",
}
READING = (
    "An audit can refute a claim but cannot prove it. The proof follows from the mechanisms. Each result states what the"
    " audit could have detected. ε and μ bound how well anyone can tell whether one record was in the table. μ is the"
    " parameter of Gaussian differential privacy: the distance between the means of two normal distributions with"
    " standard deviation 1 that are as hard to distinguish. A claim is refuted if the lower bound exceeds it. A white-box"
    " audit that measures significantly less than 85% of the μ that theory predicts is inconclusive. A replay refutes"
    " the claim if any output of the fit differs, or an input of a mechanism changes by more than one sensitivity."
)
FIGURES = ("epsilon_claimed", "epsilon_lower", "mu_claimed", "mu_estimate", "mu_lower")
HEADER = (
    *("Verdict", "ε claimed", "ε lower bound", "μ claimed", "μ estimate"),
    *("μ lower bound", "Runs on each dataset", "Confidence"),
)
REPLAY_HEADER = (
    *("Neighbour", "Record that only one of the two datasets contains", "Replays"),
    *("Values compared", "Largest change, in sensitivities", "First difference"),
)


def summarize_verdicts(results: Sequence[AuditResult]) -> str:
    """Return a sentence for all results."""
    refuted = [r for r in results if r.verdict == REFUTED]
    inconclusive = [r for r in results if r.verdict == INCONCLUSIVE]
    if refuted:
        return f"Refuted: {len(refuted)} of {len(results)} audits contradict the claim."
    if inconclusive:
        return f"No audit contradicts the claim, but {len(inconclusive)} of {len(results)} are inconclusive."
    audits = "1 audit" if len(results) == 1 else f"{len(results)} audits"
    return f"No evidence against the claim in {audits}."


def render(results: Sequence[AuditResult], method: str, epsilon: float, delta: float) -> str:
    """Return the HTML text; ``epsilon`` and ``delta`` are the claim of a whole fit."""
    kinds, first = dict.fromkeys(r.kind for r in results), results[0]
    versions = ", ".join(f"{name} {version}" for name, version in first.versions.items())
    sentences = [
        summarize_verdicts(results),
        f"Claimed: ({epsilon:g}, {delta:g})-differential privacy for adding or removing one record.",
        *(f"{r.kind}, {r.part}: {r.sentence} {r.power}".rstrip() for r in results),
        READING,
        *(f"{kind}: {ABOUT[kind]}" for kind in kinds),
        f"Made on {first.created} with {versions}, code {first.code[:12]}. The same figures are in audit.json.",
    ]
    tables = []
    for kind in kinds:
        rows = [_row(result) for result in results if result.kind == kind]
        tables.append(Table((kind, *HEADER), rows))
    tables += [_replay_table(r) for r in results if "neighbours" in r.details]
    return render_page(f"{method}: audits of the privacy claim", "audit", sentences, tables)


def _row(result: AuditResult) -> Row:
    figures = [format_number(getattr(result, name), style="significant") for name in FIGURES]
    runs = "–" if result.runs is None else f"{result.runs:,}"
    confidence = "–" if result.confidence is None else f"{result.confidence:.1%}"
    cells = [result.verdict, *figures, runs, confidence]
    return Row(result.part, cells, warning=result.is_refuted)


def _replay_table(result: AuditResult) -> Table:
    """Return a table of a replay with a row for each kind of neighbouring dataset."""
    rows = [
        Row(
            item["neighbour"],
            [
                *(item["about"], str(item["replays"]), f"{item['compared']:,}"),
                *(f"{item['worst_move']:.3f}", item["first_difference"] or "none"),
            ],
            warning=item["differ"] > 0,
        )
        for item in result.details["neighbours"]
    ]
    return Table(REPLAY_HEADER, rows)


def write_page(
    results: Sequence[AuditResult],
    method: str,
    epsilon: float,
    delta: float,
    path: str | Path,
    *,
    overwrite: bool = False,
) -> None:
    """Write the page atomically; a file that is there already is replaced with ``overwrite`` only."""
    write_text(path, render(results, method, epsilon, delta), overwrite=overwrite)
