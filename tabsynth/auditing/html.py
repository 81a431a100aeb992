"""What audits found, as one HTML file: nothing in it is fetched from anywhere."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from markupsafe import Markup

from tabsynth._files import write_text
from tabsynth.auditing.outcomes import INVALID, REFUTED, AuditResult
from tabsynth.report.page import environment, packaged

WIDTH, LEFT, RIGHT = 300, 6, 6  # of the strip, in px
MOVE = "move, in sensitivities"  # what is drawn of replays
TONES = {REFUTED: "bad", INVALID: "mixed"}
ABOUT = {
    "white-box": "An attacker who sees every release, and knows all rows but one and all coins but the"
    " noise, tells a table from its neighbour. It sees as much as differential privacy lets anyone see, so"
    " noise that is too small shows.",
    "black-box": "An attacker who sees nothing but synthetic rows tells fits of a table from fits of its"
    " neighbour. It sees less than differential privacy allows, so its bound is far below the claim; a"
    " leak outside of the mechanisms would show here.",
    "one-run": "Many made-up rows are put into one table, each by the toss of a coin, and the auditor"
    " guesses from what one fit released which were in.",
    "replay": "A small fit to a made-up table is recorded, and played back, with the same releases, on a"
    " neighbour: a record is added or removed. Everything else must come out the same, bit for bit: model,"
    " file, certificate, logs, sample.",
}


def verdict(results: Sequence[AuditResult]) -> tuple[str, str]:
    """A tone and a sentence for all of them."""
    refuted = [r for r in results if r.verdict == REFUTED]
    invalid = [r for r in results if r.verdict == INVALID]
    if refuted:
        return (
            "bad",
            f"Refuted: {len(refuted)} of {len(results)} audits contradict what is claimed.",
        )
    if invalid:
        return (
            "mixed",
            f"Not refuted, but {len(invalid)} of {len(results)} audits saw too little to say so.",
        )
    return "good", f"Not refuted: none of {len(results)} audits contradicts what is claimed."


def render(results: Sequence[AuditResult], method: str, epsilon: float, delta: float) -> str:
    """The HTML text; ``epsilon`` and ``delta`` are those that a whole fit was asked for."""
    template = resources.files("tabsynth.auditing").joinpath("page.html").read_text("utf-8")
    kinds = list(dict.fromkeys(r.kind for r in results))
    tone, sentence = verdict(results)
    first = results[0]
    return (
        environment()
        .from_string(template)
        .render(
            method=method,
            tone=tone,
            verdict=sentence,
            claim=f"Asked for: ({epsilon:g}, {delta:g})-differential privacy, for adding or"
            " removing one record.",
            groups=[
                (kind, ABOUT.get(kind, ""), [(r, strip(r)) for r in results if r.kind == kind])
                for kind in kinds
            ],
            tones=TONES,
            number=number,
            created=first.created,
            versions=first.versions,
            code=first.code,
            css=Markup(packaged("style.css")),  # our own file, never data
        )
    )


def write_page(
    results: Sequence[AuditResult], method: str, epsilon: float, delta: float, path: str | Path
) -> None:
    """Write the page, whole or not at all."""
    write_text(path, render(results, method, epsilon, delta))


def number(value: float | None) -> str:
    """Three figures; an en dash for what there is not."""
    return "–" if value is None else f"{value:.3g}"


def _figures(result: AuditResult) -> tuple[str, float | None, float | None, float | None]:
    """What is measured, and of it the claim, the bound and the estimate; of replays, how far sums moved."""
    if "worst_move" in result.details:
        return MOVE, 1.0, result.details["worst_move"], None
    if result.mu_claimed is not None:
        return "μ", result.mu_claimed, result.mu_lower, result.mu_estimate
    return "ε", result.epsilon_claimed, result.epsilon_lower, None


def strip(result: AuditResult) -> Markup:
    """The claim as a line, the bound as a bar up to it, the estimate as a dot; in μ where that is claimed."""
    unit, claimed, lower, estimate = _figures(result)
    if claimed is None or lower is None:
        return Markup("")
    top = 1.15 * max(claimed, min(lower, 3 * claimed), min(estimate or 0.0, 3 * claimed)) or 1.0

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(value, 0.0) / top, 1.0)

    about = f"{unit} claimed {claimed:.3g}, at least {lower:.3g}"
    if estimate is not None:
        about += f", seen {estimate:.3g}"
    dot = Markup("")
    if estimate is not None:
        dot = Markup('<circle cx="{x:.1f}" cy="16" r="5" class="fresh"/>').format(x=x(estimate))
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
        tick="one sensitivity" if unit == MOVE else f"claimed {unit} = {claimed:.3g}",
        tone="over" if result.verdict == REFUTED else "fresh",
        anchor="end" if x(claimed) > 2 * WIDTH / 3 else "middle",
    )
