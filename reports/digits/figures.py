"""The pictures of this report: ``python reports/style.py digits`` draws them."""

from pathlib import Path

import numpy as np
import style

RESULTS = style.load("digits")
SYSTEMS = {
    "GAN, not private": "free",
    "MargNet, ε = 10": "margnet eps 10",
    "MargNet, ε = 4": "margnet eps 4",
    "advanced, 25 public rows, ε = 10": "advanced eps 10",
    "advanced, 25 public rows, ε = 4": "advanced eps 4",
    "GAN of the 25 public rows alone": "slice",
    "basic, ε = 10": "basic eps 10",
    "basic, ε = 4": "basic eps 4",
}


def draw(path: Path, title: str, images: dict[str, list[str]], notes: dict[str, str]) -> None:
    """Draw a row of images for each name; an image is a text of 64 levels to the base 17."""
    height = 0.47 * len(images) + 0.6
    with style.plot(path, height=height, rows=len(images), columns=10, title=title) as (_, axes):
        for row, (name, texts) in zip(axes, images.items(), strict=True):
            for axis, text in zip(row, texts, strict=True):
                levels = [int(level, 17) for level in text]
                axis.imshow(np.reshape(levels, (8, 8)), cmap="Greys", vmin=0, vmax=16)
                axis.set(xticks=[], yticks=[])
                axis.spines[:].set_visible(False)
            row[0].set_ylabel(name, rotation=0, ha="right", va="center")
            if notes and name == next(iter(images)):
                for digit, axis in enumerate(row):
                    axis.set_title(str(digit))
            if name in notes:
                row[-1].yaxis.set_label_position("right")
                row[-1].set_ylabel(notes[name], rotation=0, ha="left", va="center")


def digits(path: Path) -> None:
    """Draw the first sample of each digit, with the accuracy of a classifier that learns from the table."""
    reference = RESULTS["references"]["handwritten"]
    name = "real rows"
    images = {name: [each[0] for each in reference["samples"].values()]}
    notes = {name: f"accuracy\n{reference['real']:.2f}"}
    for name, key in SYSTEMS.items():
        runs = [RESULTS["runs"][f"{key} seed {seed}"] for seed in range(3)]
        images[name] = [runs[0]["samples"][str(digit)][0] for digit in range(10)]
        notes[name] = f"{np.mean([run['accuracy'] for run in runs]):.2f}"
    draw(path, "A private GAN draws readable digits only with public rows", images, notes)


def document(path: Path) -> None:
    """Draw the images of the document's tests, before and after its training with noise."""
    tests = [RESULTS["document"][f"test {test} seed 0"] for test in range(3)]
    images = {"pretrained, before": tests[1]["samples_before"]}
    images |= {f"after test {number}": test["samples"][2] for number, test in enumerate(tests)}
    draw(path, "The document's training with noise leaves no digit", images, {})


PICTURES = (digits, document)
