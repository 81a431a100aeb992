r"""Write the definitions of the report's figures into the pages on metrics: python docs/reference/figures.py.

The entries are those of ``tabsynth/evaluation/definitions.toml``, which the HTML reports show as well. The pages have their
formulas in LaTeX. A test fails if pages and entries differ.
"""

from pathlib import Path

from tabsynth.evaluation.definitions import DEFINITIONS, PRIVACY, Definition

FOLDER = Path(__file__).parent
BEGIN = "<!-- {}: written by figures.py, do not edit -->"
END = "<!-- end of {} -->"
OTHERS = DEFINITIONS["page"]
# By page, the definitions of each section.
PAGES: dict[Path, dict[str, tuple[Definition, ...]]] = {
    FOLDER / "utility-metrics.md": {
        "utility": DEFINITIONS["utility"],
        "page": tuple(item for item in OTHERS if item.kind != PRIVACY),
        "linked": DEFINITIONS["linked"],
    },
    FOLDER / "privacy-metrics.md": {
        "attacks": DEFINITIONS["attacks"],
        "privacy": tuple(item for item in OTHERS if item.kind == PRIVACY),
    },
    FOLDER / "evaluation.md": {"published": DEFINITIONS["published"]},
}
HOLD_OUT = "; other real rows reach the hold-out reference"  # the introductions of the pages say so
# Published figures have the formulas of confidential ones, and most of linked tables are total variation distances.
WITHOUT_FORMULA = [
    *DEFINITIONS["published"],
    *(item for item in DEFINITIONS["linked"] if item.formula.startswith("½ Σ")),
]
TVD = r"\frac{1}{2}\sum_{%s}\left|p(%s)-q(%s)\right|"
RISK = r"\frac{a_T-a_C}{1-a_C}"
F1 = r"F_1=\frac{2\cdot\mathrm{precision}\cdot\mathrm{recall}}{\mathrm{precision}+\mathrm{recall}}"
# From each formula in plain text to LaTeX, and a sentence on its symbols.
FORMULAS = {
    "½ Σ |p(c) − q(c)| over all combinations c of values; p and q are shares of rows in the two tables": (
        TVD % (("c",) * 3),
        "$p$ and $q$ are shares of rows with the values $c$ in the two tables.",
    ),
    "1000 · (1 − mean total variation distance of the pairs)": (
        r"1000\cdot\left(1-T\right)",
        "$T$ is the mean total variation distance of the pairs.",
    ),
    "F1 = 2 · precision · recall / (precision + recall)": (F1, ""),
    "Pearson's r of the pairs (p(v), q(v)) over all values v of all columns": (
        r"r\left(p(v),q(v)\right)",
        "$r$ is Pearson's correlation over all values $v$ of all columns.",
    ),
    "mean of |r(i, j; training) − r(i, j; synthetic)| over pairs of columns i, j": (
        r"\frac{1}{N}\sum_{i<j}\left|r_{ij}^{\mathrm{training}}-r_{ij}^{\mathrm{synthetic}}\right|",
        "$N$ is the number of pairs of columns $i$ and $j$.",
    ),
    "V = √(φ² / (min(rows, columns) − 1)) of the table of counts of a pair; φ² = χ² / n, bias-corrected": (
        r"V=\sqrt{\frac{\varphi^2}{\min(R,C)-1}},\quad\varphi^2=\frac{\chi^2}{n}",
        r"$R$ and $C$ are the numbers of values of the two columns. $\varphi^2$, $R$ and $C$ are bias-corrected.",
    ),
    "mean (p̂ − c)² / expected value; p̂ is the estimated chance that a row is synthetic, c the share of such rows": (
        r"\frac{1}{N E}\sum_{i}\left(\hat{p}_i-c\right)^2",
        r"$\hat{p}_i$ is the estimated probability that row $i$ of $N$ is synthetic, $c$ the share of synthetic rows,"
        " $E$ the expected mean square.",
    ),
    "max over groups − min over groups of max(0, tvd2 within the group − tvd2 expected by chance)": (
        r"\max_g d_g-\min_g d_g,\quad d_g=\max\left(0,\mathrm{tvd2}_g-\mathrm{tvd2}_g^{\mathrm{chance}}\right)",
        "",
    ),
    "P(score of a positive > score of a negative) + ½ P(equal)": (
        r"P(s_+>s_-)+\frac{1}{2}P(s_+=s_-)",
        "$s_+$ and $s_-$ are scores of rows with and without the value.",
    ),
    "Σ precision · increase in recall, over thresholds": (
        r"\sum_t P_t\left(R_t-R_{t-1}\right)",
        "Precision $P_t$ and recall $R_t$ are at threshold $t$.",
    ),
    "share right (training people) − share right (control people)": (
        r"a_T-a_C",
        "$a$ is the share of attributes guessed right.",
    ),
    "balanced accuracy (training people) − balanced accuracy (control people)": (
        r"\frac{1}{N}\sum_{j}\left(b_{T,j}-b_{C,j}\right)",
        "$b$ is the balanced accuracy in column $j$ of $N$ that are guessed: a right guess counts in inverse proportion to the frequency of the"
        " true value in both groups together.",
    ),
    "P(distance of a member < distance of a control) + ½ P(equal), with Gower's distance": (
        r"P(d_T<d_C)+\frac{1}{2}P(d_T=d_C)",
        "$d$ is Gower's distance to the nearest synthetic row.",
    ),
    "P(ratio at a member > ratio at a control) + ½ P(equal)": (
        r"P(r_T>r_C)+\frac{1}{2}P(r_T=r_C)",
        "$r$ is the ratio at a person.",
    ),
    "(attack − control) / (1 − control), with attack and control as shares of predicates": (
        RISK,
        "$a$ is the share of successful predicates.",
    ),
    "(attack − control) / (1 − control), with attack and control as shares of people": (
        RISK,
        "$a$ is the share of successes.",
    ),
    "(synthetic − independent columns) / (other real people − independent columns)": (
        r"\frac{x_{\mathrm{synthetic}}-x_{\mathrm{independent}}}{x_{\mathrm{others}}-x_{\mathrm{independent}}}",
        "$x_{\\mathrm{others}}$ is what other real people reach.",
    ),
    "F1 = 2 · precision · recall / (precision + recall); ratio = F1(synthetic) / F1(training)": (
        r"\mathrm{ratio}=F_1^{\mathrm{synthetic}}/F_1^{\mathrm{training}}",
        "",
    ),
    "½ Σ |p(v) − q(v)| over the values v of the column": (TVD % (("v",) * 3), ""),
    "P(result in S | table) ≤ e^ε · P(result in S | neighbouring table) + δ, for every set S of results": (
        r"P(M(D)\in S)\leq e^{\varepsilon}\,P(M(D')\in S)+\delta",
        "This holds for every set $S$ of results, and neighbouring tables $D$ and $D'$.",
    ),
    "max over x of |F(x) − G(x)|, with cumulative shares F and G of absolute differences": (
        r"\max_x\left|F(x)-G(x)\right|",
        "$F$ and $G$ are cumulative shares.",
    ),
}


def section(items: tuple[Definition, ...]) -> str:
    """Return the Markdown of definitions, with a heading each."""
    return "\n\n".join(map(entry, items))


def entry(item: Definition) -> str:
    """Return the Markdown of one definition."""
    keys = "" if item in OTHERS else f"{', '.join(f'`{key}`' for key in item.keys)}. "
    source = "" if item.source == "tabsynth" else f" [{item.source}]"
    parts = [f"### {item.name}", f"{keys}{plain(item.meaning + source)}"]
    if item.formula and item not in WITHOUT_FORMULA:
        latex, symbols = FORMULAS[item.formula]
        parts += [f"$${latex}$$", *filter(None, [symbols])]
    reading = f"{item.range}. {dict(item.facts)['Direction']}".replace(HOLD_OUT, "")
    parts.append(f"**Range**: {plain(reading)}\\\n**Caveat**: {plain(item.caveat)}")
    return "\n\n".join(parts)


def plain(text: str) -> str:
    """Return the text without characters that Markdown would act upon."""
    for sign in "*_<":
        text = text.replace(sign, "\\" + sign)
    return text


def page(text: str, sections: dict[str, tuple[Definition, ...]]) -> str:
    """Return a page with every section written again between its marks."""
    for name, items in sections.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = f"{before}{begin}\n\n{section(items)}\n\n{end}{after}"
    return text


if __name__ == "__main__":
    for path, sections in PAGES.items():
        path.write_text(page(path.read_text("utf-8"), sections), "utf-8")
