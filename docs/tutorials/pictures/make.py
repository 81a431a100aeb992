"""Makes the pictures of the tutorials, and docs/report.png: ``python docs/tutorials/pictures/make.py``, three minutes on two cores.

Three reports on the bundled census table are written and photographed in headless Chromium: a good table, one with too
little budget for its rows, and a copy of the real rows, which leaks. Needs playwright and the system's Chromium.
"""

import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tabsynth import MargNet, evaluate, load_census

HERE = Path(__file__).resolve().parent
WIDTH, MARGIN = 980, 12
# By file: the report, the element to photograph, and the height in pixels after which it is cut off.
SHOTS = {
    "result-good": ("good", "#result", 900),
    "result-poor": ("poor", "#result", 900),
    "privacy": ("good", "#privacy", 900),
    "utility-good": ("good", "#utility table", 560),
    "utility-poor": ("poor", "#utility table", 560),
    "attacks-copy": ("copy", "#attacks table", 420),
    "disclosure-good": ("good", "#disclosure figure", 900),
    "disclosure-copy": ("copy", "#disclosure figure", 900),
    "column-good": ("good", "#columns figure:has(img[alt*='values of AGEP'])", 900),
    "column-poor": ("poor", "#columns figure:has(img[alt*='values of AGEP'])", 900),
    "pairs-good": ("good", "#distances figure", 900),
    "pairs-poor": ("poor", "#distances figure", 900),
    "../../report": ("good", "body", 1150),  # of the README and the first page
}


def write_reports(folder: Path) -> None:
    """The reports ``good.html``, ``poor.html`` and ``copy.html``."""
    table, schema = load_census()
    train, test = table[:7000], table[7000:]
    few = MargNet(schema, epsilon=0.05, time_limit=15).fit(train[:700])
    synthetic = {
        "good": MargNet(schema, epsilon=3.0, time_limit=40).fit(train).sample(7000),
        "poor": few.sample(700),
        "copy": train.sample(7000, replace=True, random_state=0, ignore_index=True),
    }
    for name, rows in synthetic.items():
        real = train[:700] if name == "poor" else train
        report = evaluate(real, rows, test, schema=schema, label="synthetic.csv")
        report.to_html(folder / f"{name}.html")


def photograph(folder: Path) -> None:
    """Every picture of ``SHOTS``, in 256 colours."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
        for name, (report, selector, height) in SHOTS.items():
            page.goto((folder / f"{report}.html").as_uri())
            box = page.locator(selector).first.bounding_box()
            assert box is not None, f"{report}.html has no {selector}"
            file = HERE / f"{name}.png"
            clip = {
                "x": box["x"] - MARGIN,
                "y": box["y"] - MARGIN,
                "width": box["width"] + 2 * MARGIN,
                "height": min(box["height"], height) + 2 * MARGIN,
            }
            page.screenshot(path=file, clip=clip, full_page=True)
            picture = Image.open(file).convert("RGB").quantize(method=Image.Quantize.FASTOCTREE)
            picture.save(file, optimize=True)
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        write_reports(Path(made))
        photograph(Path(made))
