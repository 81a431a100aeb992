"""Draw the diagrams of the pages on methods: python docs/explanation/methods/figures.py [NAME ...].

Orange boxes read private rows, blue boxes are charged releases with noise, grey boxes process what is released or public.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle, FancyBboxPatch, Patch

FOLDER = Path(__file__).parent
PRIVATE, RELEASED, PUBLIC = "#f3c08b", "#a9cbee", "#dddfe3"
LEGEND = {
    PRIVATE: "reads private rows",
    RELEASED: "charged release with noise",
    PUBLIC: "public or post-processing",
}
WIDTH, HEIGHT = 1.62, 0.62

# Of each diagram: boxes as name -> (column, row, text, colour), and arrows between names, with a label or "".
DIAGRAMS = {
    "dp-wgan": (
        {
            "rows": (0, 0, "private rows", PRIVATE),
            "encode": (1, 0, "codes by the\nschema", PRIVATE),
            "critic": (2, 0, "critic: gradient of\neach row, clipped at C", PRIVATE),
            "noise": (3, 0, "sum + N(0, (σC)²)\nis released", RELEASED),
            "coder": (0, 1, "autoencoder, clipped\ngradients + noise", RELEASED),
            "counts": (1, 1, "one-way counts\n+ noise", RELEASED),
            "others": (2, 1, "row count, weights\n+ noise", RELEASED),
            "update": (3, 1, "step of the critic", PUBLIC),
            "z": (0, 2, "z ~ N(0, I)", PUBLIC),
            "generator": (1, 2, "generator g(z)", PUBLIC),
            "decoder": (2, 2, "medGAN decoder\n(optional), softmax", PUBLIC),
            "fake": (3, 2, "synthetic rows", PUBLIC),
        },
        [
            ("rows", "encode", ""), ("encode", "critic", ""), ("critic", "noise", ""), ("noise", "update", ""),
            ("encode", "counts", ""), ("counts", "generator", "start, anchor"), ("z", "generator", ""),
            ("generator", "decoder", ""), ("decoder", "fake", ""), ("update", "generator", ""),
            ("rows", "coder", ""), ("coder", "decoder", ""), ("encode", "others", ""),
        ],
    ),
    "dp-gan": (
        {
            "rows": (0, 0, "private rows", PRIVATE),
            "loss": (1, 0, "D(G(z)) − D(x)\n+ gradient penalty", PRIVATE),
            "basic": (2, 0, "basic: one bound C\nfor all weights", PRIVATE),
            "advanced": (2, 1, "advanced: bound C_g of\neach group of weights", PRIVATE),
            "sum": (3, 0, "sum + noise,\none release", RELEASED),
            "public": (1, 1, "public or\ngenerated rows", PUBLIC),
            "critic": (3, 1, "step of D (Adam)", PUBLIC),
            "first": (1, 2, "counts and autoencoder,\nwith noise", RELEASED),
            "generator": (2, 2, "step of G after\n4 steps of D", PUBLIC),
            "fake": (3, 2, "synthetic rows", PUBLIC),
        },
        [
            ("rows", "loss", ""), ("loss", "basic", ""), ("loss", "advanced", ""), ("public", "advanced", ""),
            ("basic", "sum", ""), ("advanced", "sum", ""), ("sum", "critic", ""), ("critic", "generator", ""),
            ("generator", "fake", ""), ("rows", "first", ""), ("first", "generator", ""),
        ],
    ),
    "pate-gan": (
        {
            "rows": (0, 0, "private rows", PRIVATE),
            "shards": (1, 0, "K shards by a\nkeyed hash", PRIVATE),
            "teachers": (2, 0, "K teachers, one\nfor each shard", PRIVATE),
            "vote": (3, 0, "noisy majority:\nreal or not?", RELEASED),
            "generator": (1, 1, "generator G(z)", PUBLIC),
            "questions": (2, 1, "generated rows\nas questions", PUBLIC),
            "student": (3, 1, "student learns from\nlabels", PUBLIC),
            "fake": (1, 2, "synthetic rows", PUBLIC),
            "first": (0, 1, "counts and autoencoder,\nwith noise", RELEASED),
            "generator2": (3, 2, "step of the generator\nagainst the student", PUBLIC),
        },
        [
            ("rows", "shards", ""), ("shards", "teachers", ""), ("teachers", "vote", ""), ("vote", "student", "labels"),
            ("generator", "questions", ""), ("questions", "teachers", ""), ("questions", "student", ""),
            ("generator", "fake", ""), ("student", "generator2", ""), ("generator2", "generator", ""),
            ("rows", "first", ""), ("first", "generator", ""),
        ],
    ),
    "pate-acgan": (
        {
            "rows": (0, 0, "private rows", PRIVATE),
            "teachers": (1, 0, "K teachers with a source\nand a class head", PRIVATE),
            "source": (2, 0, "noisy vote: real?", RELEASED),
            "class": (2, 1, "noisy vote: which\nclass? (networks)", RELEASED),
            "first": (1, 2, "counts and autoencoder,\nwith noise", RELEASED),
            "student": (3, 1, "student with source\nand class head", PUBLIC),
            "generator": (2, 2, "generator G(z, class)", PUBLIC),
            "fake": (3, 2, "rows of each class", PUBLIC),
        },
        [
            ("rows", "teachers", ""), ("teachers", "source", ""), ("teachers", "class", ""), ("source", "student", ""),
            ("class", "student", ""), ("rows", "first", ""), ("first", "generator", ""),
            ("student", "generator", ""), ("generator", "fake", ""),
        ],
    ),
    "margnet": (
        {
            "rows": (0, 0, "private rows", PRIVATE),
            "one": (1, 0, "1: one-way counts\n+ noise", RELEASED),
            "tables": (0, 1, "declared tables\n+ noise", RELEASED),
            "scores": (2, 0, "2: scores of pairs, sign\ninteractions + noise", RELEASED),
            "joint": (3, 0, "3: counts of pairs and\ntriples + noise; with a\ntarget, in two parts", RELEASED),
            "select": (2, 1, "which sets, which groups\nof rare values", PUBLIC),
            "fit": (3, 1, "4: network fitted to all\nnoisy counts", PUBLIC),
            "mixture": (3, 2, "5: mixture of products\nof columns", PUBLIC),
            "fake": (2, 2, "rows,\nconditions", PUBLIC),
            "hints": (1, 1, "hints: workload,\ntarget", PUBLIC),
        },
        [
            ("rows", "tables", ""), ("tables", "one", ""), ("rows", "one", ""), ("one", "scores", ""), ("scores", "select", ""), ("select", "joint", ""),
            ("joint", "fit", ""), ("fit", "mixture", ""), ("mixture", "fake", ""), ("hints", "select", ""),
        ],
    ),
    "linked-margnet": (
        {
            "root": (0, 0, "root rows with the\nnumber of children", PRIVATE),
            "child": (0, 1, "child rows with their\ncontext", PRIVATE),
            "countsr": (1, 0, "counts + noise, one\ncharge for each root", RELEASED),
            "countsc": (1, 1, "counts + noise, for at\nmost m rows of a parent", RELEASED),
            "mixture": (2, 0, "mixture of roots", PUBLIC),
            "network": (2, 1, "network: child given\nroot and sibling", PUBLIC),
            "roots": (3, 0, "synthetic roots and\nnumbers of children", PUBLIC),
            "children": (3, 1, "synthetic children,\none after another", PUBLIC),
            "profile": (0, 2, "what a root has in\nall its rows", PRIVATE),
            "countsp": (1, 2, "counts + noise, one\ncharge for each root", RELEASED),
            "chances": (2, 2, "chances of roots,\nby their profiles", PUBLIC),
            "chosen": (3, 2, "chosen roots with\ntheir children", PUBLIC),
        },
        [
            ("profile", "countsp", ""), ("countsp", "chances", ""), ("chances", "chosen", ""), ("children", "chosen", ""),
            ("root", "countsr", ""), ("child", "countsc", ""), ("countsr", "mixture", ""), ("countsc", "network", ""),
            ("mixture", "roots", ""), ("network", "children", ""), ("roots", "children", "context"),
        ],
    ),
}  # fmt: skip

# Of each diagram: the reads of private rows that its boxes of releases show, by their names in a certificate.
FIRST = ("one-way counts", "row count", "total of the survey weights")
PAIRS = ("scores of pairs", "joint counts")  # that an autoencoder learns from
STAGES = ("one-way counts", "scores of pairs", "sign interactions", "joint counts")
READS = {
    "dp-wgan": {"counts": FIRST[:1], "others": (*FIRST[1:], *PAIRS), "coder": ("autoencoder",), "noise": ("critic",)},
    "dp-gan": {"first": (*FIRST, *PAIRS, "autoencoder"), "sum": ("critic",)},
    "pate-gan": {"first": (*FIRST, *PAIRS, "autoencoder"), "vote": ("votes",)},
    "pate-acgan": {
        "first": (*FIRST[:2], *PAIRS, "autoencoder"), "source": ("votes",), "class": ("class votes",),
    },
    "margnet": {
        "tables": ("declared tables",), "one": STAGES[:1], "scores": STAGES[1:3],
        "joint": (*STAGES[3:], "departure from the pairs", "joint counts again"),
    },
    "linked-margnet": {
        "countsr": STAGES, "countsc": STAGES, "countsp": ("profiles", "codes by the first event"),
    },
}  # fmt: skip


def diagram(name: str) -> plt.Figure:
    """Return boxes on a grid, with arrows."""
    boxes, arrows = DIAGRAMS[name]
    rows = 1 + max(row for _, row, _, _ in boxes.values())
    fig, axis = plt.subplots(figsize=(9.2, 1.15 * rows + 0.5))
    place = {key: (2.3 * column, -1.15 * row) for key, (column, row, _, _) in boxes.items()}
    for key, (_, _, text, colour) in boxes.items():
        x, y = place[key]
        corner = (x - WIDTH / 2 - 0.1, y - HEIGHT / 2)
        shape = FancyBboxPatch(
            corner, WIDTH + 0.2, HEIGHT, "round,pad=0.03", facecolor=colour, edgecolor="#555"
        )
        axis.add_patch(shape)
        axis.text(x, y, text, ha="center", va="center", fontsize=8)
    for start, end, label in arrows:
        (x0, y0), (x1, y1) = place[start], place[end]
        dx, dy = x1 - x0, y1 - y0
        share = min(
            (WIDTH / 2 + 0.16) / abs(dx) if dx else np.inf,
            (HEIGHT / 2 + 0.06) / abs(dy) if dy else np.inf,
        )
        ends = (x0 + share * dx, y0 + share * dy), (x1 - share * dx, y1 - share * dy)
        axis.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "->", "color": "#444"})
        if label:
            x, y = (np.add(*ends)) / 2
            axis.text(x + 0.06, y + 0.05, label, fontsize=7.5, color="#444")
    used = {colour for *_, colour in boxes.values()}
    handles = [Patch(facecolor=c, edgecolor="#555", label=LEGEND[c]) for c in LEGEND if c in used]
    axis.legend(
        handles=handles, ncol=3, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8
    )
    axis.set(xlim=(-1.1, 8.05), ylim=(-1.15 * rows + 0.7, 0.42))
    axis.axis("off")
    return fig


def arrow(axis: plt.Axes, start: np.ndarray, end: np.ndarray, colour: str, label: str = "") -> None:
    """Return an arrow with a label at its end."""
    properties = {"arrowstyle": "->", "color": colour, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
    axis.annotate("", end, start, arrowprops=properties)
    if label:
        axis.text(end[0] + 0.05, end[1] + 0.05, label, fontsize=9, color=colour)


GRADIENTS = np.array([(1.9, 0.5), (0.6, 0.9), (0.4, 0.25), (-0.3, 1.7)])


def dp_sgd() -> plt.Figure:
    """Return gradients of rows, clipped, and their noisy mean."""
    fig, axes = plt.subplots(1, 3, figsize=(9.2, 3.2), sharex=True, sharey=True)
    lengths = np.linalg.norm(GRADIENTS, axis=1, keepdims=True)
    clipped = GRADIENTS / np.maximum(1, lengths)
    titles = ("1: the gradient of each row", "2: clipped to the bound C", "3: mean with noise")
    for axis, title in zip(axes, titles, strict=True):
        axis.add_patch(Circle((0, 0), 1, fill=False, linestyle=":", color="#888"))
        axis.set(xlim=(-1.2, 2.2), ylim=(-1.2, 2.0), aspect="equal", xticks=[], yticks=[])
        axis.set_title(title, fontsize=10)
    axes[0].text(-0.95, -0.95, "circle: norm C", fontsize=8, color="#666")
    for i, (own, short) in enumerate(zip(GRADIENTS, clipped, strict=True), start=1):
        arrow(axes[0], (0, 0), own, "#c46a10", f"g{i}")
        arrow(axes[1], (0, 0), short, "#c46a10")
    mean, biased = GRADIENTS.mean(axis=0), clipped.mean(axis=0)
    arrow(axes[2], (0, 0), mean, "#888", "mean of 1")
    arrow(axes[2], (0, 0), biased, "#c46a10", "mean of 2")
    arrow(axes[2], biased, biased + np.array((0.35, -0.75)), "#3b6ea5", "noise N(0, (σC)²)")
    return fig


def moves(which: str) -> plt.Figure:
    """Return where a step takes the gradients of its rows: DP-SAT, one move of all rows; BAM, a move of each row."""
    fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.3), sharex=True, sharey=True)
    title = {"dp-sat": "DP-SAT: one move for all rows", "bam": "BAM: a move for each row"}[which]
    for axis, name in zip(axes, ("DP-SGD: at the weights θ", title), strict=True):
        axis.set(xlim=(-1.4, 2.6), ylim=(-1.1, 2.2), aspect="equal", xticks=[], yticks=[])
        axis.set_title(name, fontsize=10)
        axis.plot(0, 0, "ko", markersize=5)
        axis.text(-0.22, -0.28, "θ", fontsize=11)
    for i, own in enumerate(GRADIENTS, start=1):
        arrow(axes[0], (0, 0), own, "#c46a10", f"g{i}(θ)")
    unit = GRADIENTS / np.linalg.norm(GRADIENTS, axis=1, keepdims=True)
    if which == "dp-sat":
        start = 0.75 * np.array((-0.8, -0.6))
        arrow(axes[1], (0, 0), start, "#3b6ea5")
        axes[1].text(
            -1.3, -0.95, "ρ along the previous private gradient", fontsize=8, color="#3b6ea5"
        )
        axes[1].plot(*start, "o", color="#3b6ea5", markersize=4)
        for i, own in enumerate(GRADIENTS, start=1):
            arrow(axes[1], start, start + 0.85 * own, "#c46a10", f"g{i}(θ′)")
    else:
        for i, (own, direction) in enumerate(zip(GRADIENTS, unit, strict=True), start=1):
            start = 0.45 * direction
            arrow(axes[1], (0, 0), start, "#3b6ea5")
            axes[1].plot(*start, "o", color="#3b6ea5", markersize=4)
            turned = 0.55 * (own + np.array((0.35, -0.2)))
            arrow(axes[1], start, start + turned, "#c46a10", f"g{i}(θ{i}′)")
        axes[1].text(-1.3, -0.95, "λ along the row's own gradient", fontsize=8, color="#3b6ea5")
    return fig


def autoencoder() -> plt.Figure:
    """Return the widths of medGAN's autoencoder in preset ``source``, and where the generator joins."""
    widths = (
        ("row", 10),
        ("9", 9),
        ("16", 16),
        ("32", 32),
        ("code 64", 64),
        ("32", 32),
        ("16", 16),
        ("9", 9),
        ("row", 10),
    )
    fig, axis = plt.subplots(figsize=(9.2, 2.6))
    for i, (label, width) in enumerate(widths):
        colour = PRIVATE if i < 4 else PUBLIC if i > 4 else RELEASED
        axis.bar(i, width, 0.55, bottom=-width / 2, color=colour, edgecolor="#555")
        axis.text(i, -width / 2 - 7, label, ha="center", fontsize=9)
    axis.text(1.5, 34, "encoder, used in training only", ha="center", fontsize=9)
    axis.text(6.5, 34, "decoder, a part of the generator", ha="center", fontsize=9)
    axis.annotate(
        "g(z)", (4, 33), (4, 47), ha="center", arrowprops={"arrowstyle": "->"}, fontsize=10
    )
    axis.set(ylim=(-46, 54), xlim=(-0.6, 8.6))
    axis.axis("off")
    return fig


def drawings() -> dict[str, plt.Figure]:
    """Return every figure by its name."""
    out = {name: diagram(name) for name in DIAGRAMS}
    out |= {"dp-sgd": dp_sgd(), "dp-sat": moves("dp-sat"), "bam": moves("bam")}
    return out | {"medgan-autoencoder": autoencoder()}


if __name__ == "__main__":
    mpl.use("svg")
    mpl.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "tabsynth", "font.family": "sans-serif"}
    )
    for name, figure in drawings().items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        path = FOLDER / f"{name}.svg"
        figure.savefig(path, bbox_inches="tight", facecolor="white", metadata={"Date": None})
        print(path.name)
