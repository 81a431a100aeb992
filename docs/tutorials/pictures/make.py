"""Make all screenshots of the documentation: ``python docs/tutorials/pictures/make.py [FOLDER]``, three minutes on two cores.

Without a folder they replace those of the repository (``make pictures``).

Three reports on the bundled census table are written and photographed in headless Chromium: a good table, one with too
little budget for its rows, and a copy of the real rows, which leaks. So is a page of ``tabsynth app``. The program needs
playwright, nicegui and the system's Chromium.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tabsynth import MargNet, evaluate, load_census, verify, write_table
from tabsynth.privacy.certificate.certificate import write_beside
from tabsynth.privacy.certificate.signing import make_keys, read_private

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent.parent
sys.path.insert(0, str(DOCS.parent / "tests" / "app"))

import page_server  # noqa: E402  (how the tests run the page)

WIDTH, MARGIN = 980, 12
# By file: the report, the element to photograph, and the height in pixels after which it is cut off.
SHOTS = {
    "result-good": ("good", "#first", 900),
    "result-poor": ("poor", "#first", 900),
    "utility-good": ("good", "#utility table", 560),
    "utility-poor": ("poor", "#utility table", 560),
    "attacks-copy": ("copy", "#attacks table", 470),
    "disclosure-good": ("good", "#disclosure figure", 900),
    "disclosure-copy": ("copy", "#disclosure figure", 900),
    "column-good": ("good", "#columns figure:has(img[alt*='values of AGEP'])", 900),
    "column-poor": ("poor", "#columns figure:has(img[alt*='values of AGEP'])", 900),
}
PLACES = {"app": DOCS / "how-to"}  # of the repository; those of the others are here


def write_reports(folder: Path) -> None:
    """Return the reports ``good.html``, ``poor.html`` and ``copy.html``."""
    table, schema = load_census()
    train, test = table[:7000], table[7000:]
    few = MargNet(schema, epsilon=0.05, time_limit=15).fit(train[:700])
    good = MargNet(schema, epsilon=3.0, time_limit=40).fit(train)
    synthetic = {
        "good": good.sample(7000),
        "poor": few.sample(700),
        "copy": train.sample(7000, replace=True, random_state=0, ignore_index=True),
    }
    write_table(synthetic["good"], folder / "synthetic.csv")
    public, _ = make_keys(folder / "project.key")
    key = read_private(folder / "project.key")
    write_beside(good.certificate(), folder / "synthetic.csv", 7000, key)
    certificates = {"good": verify(folder / "synthetic.csv", public)}
    for name, rows in synthetic.items():
        facts = {"schema": schema, "label": "synthetic.csv", "certificate": certificates.get(name)}
        report = evaluate(train[:700] if name == "poor" else train, rows, test, **facts)
        report.to_html(folder / f"{name}.html")


def path_of(name: str, folder: Path | None) -> Path:
    """Return where a picture is written: in the folder, or else at its place in the repository."""
    return (folder or PLACES.get(name, HERE)) / f"{name}.png"


def reduce_colours(file: Path) -> None:
    """Write a picture again, in 256 colours."""
    picture = Image.open(file).convert("RGB").quantize(method=Image.Quantize.FASTOCTREE)
    picture.save(file, optimize=True)


def photograph_reports(browser: Browser, reports: Path, folder: Path | None) -> None:
    """Make every picture of ``SHOTS``."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
    for name, (report, selector, height) in SHOTS.items():
        page.goto((reports / f"{report}.html").as_uri())
        box = page.locator(selector).first.bounding_box()
        assert box is not None, f"{report}.html has no {selector}"
        clip = {
            "x": box["x"] - MARGIN,
            "y": box["y"] - MARGIN,
            "width": box["width"] + 2 * MARGIN,
            "height": min(box["height"], height) + 2 * MARGIN,
        }
        page.screenshot(path=path_of(name, folder), clip=clip, full_page=True)
        reduce_colours(path_of(name, folder))


def photograph_app(browser: Browser, workplace: Path, folder: Path | None) -> None:
    """Make the picture of the app: the review of a drafted schema."""
    page_server.people().to_csv(workplace / "people.csv", index=False)
    with page_server.running(workplace, "people.csv") as served:
        page = browser.new_context(viewport={"width": 1180, "height": 1150}).new_page()
        page.set_default_timeout(120_000)
        page.goto(served.url)
        page.get_by_role("button", name="Use this table").click()
        page.get_by_text("Only people who may see the private table").click()
        page.get_by_role("button", name="Confirm", exact=True).click()
        page.get_by_role("button", name="Draft a schema to review").click()
        page.get_by_role("button", name="Edit town").click()
        page.get_by_text("Column 3 of 3").wait_for()
        page.evaluate("window.scrollTo(0, 0)")
        page.screenshot(path=path_of("app", folder), full_page=True)
        page.context.close()
    reduce_colours(path_of("app", folder))


def main(folder: Path | None = None) -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as made, sync_playwright() as driver:
        write_reports(Path(made))
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        try:
            photograph_reports(browser, Path(made), folder)
            photograph_app(browser, Path(made), folder)
        finally:
            browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
