"""Results of audits as one self-contained HTML file."""

from collections.abc import Sequence
from functools import partial
from importlib import resources
from pathlib import Path

from markupsafe import Markup

from tabsynth._files import write_text
from tabsynth.auditing.outcomes import INCONCLUSIVE, REFUTED, AuditResult
from tabsynth.report.page import environment, format_number, packaged_text

WIDTH, LEFT, RIGHT = 300, 6, 6  # of a figure, in px
CHANGE = "change, in sensitivities"  # the quantity that figures of replays show
TONES = {REFUTED: "bad", INCONCLUSIVE: "mixed"}
ABOUT = {
    "white-box": "The attacker sees every release and knows all rows but one and all randomness but the noise. It"
    " must tell a dataset from its neighbouring dataset. This is the strongest attacker that differential privacy"
    " considers, so the audit detects noise that is too small.",
    "black-box": "The attacker sees only synthetic rows and must tell fits to a dataset from fits to its"
    " neighbouring dataset. This attacker is weaker than differential privacy allows, so the lower bound is usually"
    " far below the claim. The audit can detect leakage outside the mechanisms.",
    "one-run": "Many canaries are each inserted into one table with probability 1/2. From the releases of one fit"
    " the attacker guesses which ones were inserted.",
    "replay": "A small fit to an artificial table is recorded and repeated with the same releases on a neighbouring"
    " dataset, in which one record is added or removed. All outputs must be equal bit for bit: model, files,"
    " certificate, logs and sample.",
}


def summarize_verdicts(results: Sequence[AuditResult]) -> tuple[str, str]:
    """Return a style class and a sentence for all results."""
    refuted = [r for r in results if r.verdict == REFUTED]
    inconclusive = [r for r in results if r.verdict == INCONCLUSIVE]
    if refuted:
        return (
            "bad",
            f"Refuted: {len(refuted)} of {len(results)} audits contradict the claim.",
        )
    if inconclusive:
        return (
            "mixed",
            f"No audit contradicts the claim, but {len(inconclusive)} of {len(results)} are inconclusive.",
        )
    return "good", f"No evidence against the claim in {len(results)} audits."


def render(results: Sequence[AuditResult], method: str, epsilon: float, delta: float) -> str:
    """Return the HTML text; ``epsilon`` and ``delta`` are the claim of a whole fit."""
    template = resources.files("tabsynth.auditing").joinpath("page.html").read_text("utf-8")
    kinds = list(dict.fromkeys(r.kind for r in results))
    tone, sentence = summarize_verdicts(results)
    first = results[0]
    return (
        environment()
        .from_string(template)
        .render(
            method=method,
            tone=tone,
            verdict=sentence,
            claim=f"Claimed: ({epsilon:g}, {delta:g})-differential privacy for adding or removing one record.",
            groups=[
                (kind, ABOUT.get(kind, ""), [(r, draw_claim(r)) for r in results if r.kind == kind])
                for kind in kinds
            ],
            tones=TONES,
            number=partial(format_number, style="significant"),
            created=first.created,
            versions=first.versions,
            code=first.code,
            css=Markup(packaged_text("style.css")),  # our own file, never data
        )
    )


def write_page(
    results: Sequence[AuditResult], method: str, epsilon: float, delta: float, path: str | Path
) -> None:
    """Write the page atomically."""
    write_text(path, render(results, method, epsilon, delta))


def _figures(result: AuditResult) -> tuple[str, float | None, float | None, float | None]:
    """Return a quantity's name, claim, lower bound and estimate; for replays the largest change of an input."""
    if "worst_move" in result.details:
        return CHANGE, 1.0, result.details["worst_move"], None
    if result.mu_claimed is not None:
        return "μ", result.mu_claimed, result.mu_lower, result.mu_estimate
    return "ε", result.epsilon_claimed, result.epsilon_lower, None


def draw_claim(result: AuditResult) -> Markup:
    """Draw the claim as a vertical line, the lower bound as a bar and the estimate as a dot."""
    unit, claimed, lower, estimate = _figures(result)
    if claimed is None or lower is None:
        return Markup("")
    top = 1.15 * max(claimed, min(lower, 3 * claimed), min(estimate or 0.0, 3 * claimed)) or 1.0

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(value, 0.0) / top, 1.0)

    about = f"{unit} claimed {claimed:.3g}, at least {lower:.3g}"
    if estimate is not None:
        about += f", estimated {estimate:.3g}"
    dot = Markup("")
    if estimate is not None:
        dot = Markup('<circle cx="{x:.1f}" cy="16" r="5" class="holdout"/>').format(x=x(estimate))
    return Markup(
        '<svg class="claim" role="img" viewBox="0 0 {w} 44" aria-label="{about}"><title>{about}</title>'
        '<line x1="{a}" x2="{b}" y1="16" y2="16" class="axis"/>'
        '<line x1="{a}" x2="{low:.1f}" y1="16" y2="16" class="bar {tone}"/>{dot}'
        '<line x1="{c:.1f}" x2="{c:.1f}" y1="4" y2="28" class="mark"/>'
        '<text x="{c:.1f}" y="41" text-anchor="{anchor}" class="tick">{tick}</text></svg>'
    ).format(
        w=WIDTH,
        a=LEFT,
        b=WIDTH - RIGHT,
        low=x(lower),
        c=x(claimed),
        dot=dot,
        about=about,
        tick="one sensitivity" if unit == CHANGE else f"claimed {unit} = {claimed:.3g}",
        tone="over" if result.verdict == REFUTED else "holdout",
        anchor="end" if x(claimed) > 2 * WIDTH / 3 else "middle",
    )
