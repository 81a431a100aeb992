"""The whole way in a real browser, by the keyboard alone; every control has a name for screen readers."""

import shutil
import stat
from pathlib import Path

import page_server
import pytest

from tabsynth import Schema
from tabsynth.dossier.answers import LISTS, QUESTIONS
from tabsynth.dossier.checking import verify_dossier

pytest.importorskip("nicegui", reason="the page needs the extra app")
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright drives the browser")
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
if CHROMIUM is None:
    pytest.skip("there is no Chromium for Playwright to drive", allow_module_level=True)

PRIVATE = ("Quarnstedt", "Wobbenbuell", "Zzyzx", "private.example", "begin", "evil")
EVIL = "<img id=evil src=x> {{7*7}} " + "w" * 120
CONTROLS = {
    *(
        "button",
        "checkbox",
        "combobox",
        "link",
        "listbox",
        "option",
        "progressbar",
        "radio",
        "region",
    ),
    *("searchbox", "spinbutton", "switch", "textbox", "navigation", "DisclosureTriangle"),
}


# The labels that reach into the answers below them, and cells that reach out of their table.
OVERLAPS = """() => [
  ...[...document.querySelectorAll('.field')].filter(field => field.querySelector('.label').getBoundingClientRect().bottom >
    field.querySelector('.q-field__control').getBoundingClientRect().top + 1),
  ...[...document.querySelectorAll('table.plain td')].filter(cell => cell.getBoundingClientRect().right > innerWidth),
].map(element => element.innerText)"""


class Keyboard:
    """A person with a keyboard: reaches controls by Tab, by their role and name, and types."""

    def __init__(self, page):
        self.page = page

    def reach(self, role, name, exact=True):
        """Press Tab until the control has the focus."""
        if role == "summary":  # Playwright has no role of it
            control = self.page.locator("summary", has_text=name)
        else:
            control = self.page.get_by_role(role, name=name, exact=exact)
        control.wait_for(timeout=120_000)
        for _ in range(15):
            element = (
                control.element_handle()
            )  # the page may draw it anew, and finding it takes time
            for _ in range(10):
                if element.evaluate("e => e.contains(document.activeElement)"):
                    return control
                self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not reach {role} {name!r}")

    def press(self, name, role="button"):
        self.reach(role, name)
        self.page.keyboard.press("Space" if role == "checkbox" else "Enter")

    def type(self, name, text):
        self.reach("textbox", name)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Tab")

    def choose(self, name, downs):
        """An option of a list, so many places below the present one."""
        self.reach("combobox", name)
        self.page.keyboard.press("Enter")
        self.page.get_by_role("listbox").wait_for()
        for _ in range(downs):
            self.page.keyboard.press("ArrowDown")
        self.page.keyboard.press("Enter")
        self.page.get_by_role("listbox").wait_for(state="hidden")

    def see(self, text):
        self.page.get_by_text(text, exact=False).first.wait_for(timeout=120_000)

    def refused(self, text):
        """An error is shown and has the focus, which would else be taken from the next field."""
        self.see(text)
        self.page.wait_for_function("document.activeElement?.matches('.step-errors')")

    def column(self, text):
        """The form of a column is there, and its heading has the focus, which would else be taken from the next field."""
        self.see(text)
        self.page.wait_for_function("document.activeElement?.matches('.column-heading')")

    def step(self, heading):
        """The heading of a step has the focus, every control has a name, and nothing is wider than the page."""
        title = self.page.get_by_role("heading", name=heading, level=2)
        title.wait_for(timeout=120_000)
        self.page.wait_for_function("document.activeElement?.matches('.step-heading')")
        self.named()

    def named(self):
        tree = self.page.context.new_cdp_session(self.page).send("Accessibility.getFullAXTree")
        controls = [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree["nodes"]
            if not node.get("ignored") and node.get("role", {}).get("value") in CONTROLS
        ]
        assert len(controls) > 8
        assert [control for control in controls if not control[1].strip()] == []
        for width in (400, 1100):
            self.page.set_viewport_size({"width": width, "height": 800})
            wide = self.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            assert wide[0] <= wide[1]
            assert self.page.evaluate(OVERLAPS) == []


def asked():
    """The answers that a release needs, and the labels of their fields."""
    for name, (question, needed) in QUESTIONS.items():
        if needed and name not in ("schema", "report"):
            hint = " One item in a line." if name in LISTS else ""
            yield name, f"{name.capitalize()}: {question}.{hint}"


@pytest.fixture
def folder(tmp_path):
    people = page_server.people()
    people[EVIL] = ["yes", "no", "no"] * 50
    people.to_csv(tmp_path / "people.csv", index=False)
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\necho "$1" > opened\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    return tmp_path


@pytest.mark.slow
def test_from_a_table_to_a_release_by_keyboard(folder):
    with (
        page_server.running(folder, browser=folder / "browser") as served,
        playwright.sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            page = browser.new_context(viewport={"width": 1100, "height": 800}).new_page()
            page.set_default_timeout(120_000)
            _walk(folder, served, browser, page)
        finally:
            browser.close()
    found = verify_dossier(folder / "out", folder / "tabsynth-app" / "signing.key.pub")
    assert found.authenticated and found.problems == ()


def _walk(folder, served, browser, page):
    received, outside, errors = [], [], []
    page.on("websocket", lambda ws: ws.on("framereceived", lambda data: received.append(str(data))))
    page.on(
        "response", lambda r: received.append(r.text()) if r.url == f"{served.origin}/" else None
    )
    page.on("request", lambda r: outside.append(r.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    keys = Keyboard(page)

    # The command opens a file that only its owner can read; the arguments of commands are seen by all users.
    opened = (folder / "opened").read_text().strip()
    file = folder / "tabsynth-app" / "open-tabsynth.html"
    assert opened == file.as_uri() and served.token not in opened
    assert file.stat().st_mode & 0o777 == 0o600
    page.goto(opened)
    page.get_by_role("heading", name="Choose the table").wait_for()
    assert page.url == f"{served.origin}/" and not file.exists()
    cookie = page.context.cookies()[0]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"

    second = browser.new_context().new_page()
    assert second.goto(served.url).status == 403
    assert "another browser uses this page" in second.content()
    second.context.close()

    keys.named()
    keys.type("Path of the table", "gone.csv")
    keys.press("Use this table")
    keys.refused("There is no file 'gone.csv'")
    keys.type("Path of the table", "people.csv")
    keys.press("Use this table")
    keys.step("Confirm that this screen is confidential")
    keys.press("Confirm")
    keys.refused("Tick the box if it is so")
    assert page.get_by_role("button", name="3. Schema").is_disabled()
    seen = "".join(received) + page.content()
    assert "Confirm" in seen and [text for text in PRIVATE if text in seen] == []
    keys.press("Only people who may see the private table can see this screen", "checkbox")
    keys.press("Confirm")

    keys.step("Make and review the schema")
    keys.press("Draft a schema to review")
    keys.see("4 of 4 columns have facts that were read from the rows")
    keys.named()
    assert page.locator("#evil").count() == 0 and EVIL in page.inner_text("body")
    keys.press("Edit town")
    keys.column("Column 3 of 4: town")
    keys.type("Categories, with commas between", "Quarnstedt,Wobbenbuell,Zzyzx,Elsewhere")
    keys.press("I declare that these facts are public, as the source has them", "checkbox")
    keys.press("Save this column")
    keys.refused("Declared facts need a source")
    keys.type("Public source, such as: codebook 2019", "list of towns")
    keys.press("Save this column")
    keys.see("3 of 4 columns have facts")
    assert page.get_by_text("Declare all").count() == 0  # each is looked at
    for number in (4, 1, 2):
        keys.press("Next column")
        keys.column(f"Column {number} of 4: ")
        keys.see("You vouch that every fact of this column is public")
        keys.type("Public source, such as: codebook 2019", "code book")
        keys.press("I declare that these facts are public, as the source has them", "checkbox")
        keys.press("Save this column")
        keys.see("Provenance: declared, unchanged from a draft of the rows (")
    keys.see("4 of 4 columns are declared, unchanged from a draft of the rows")
    schema = Schema.load(folder / "tabsynth-app" / "schema.json")
    assert schema["town"].categories == ("Quarnstedt", "Wobbenbuell", "Zzyzx", "Elsewhere")
    assert schema.drafted == () and "categories" not in schema["town"].facts_from_rows

    keys.press("Go on to constraints")
    keys.step("Add constraints")
    keys.choose("Column with the smaller value", 2)
    keys.choose("Column with the larger value", 1)
    keys.press("Add this order")
    keys.see("begin <= age")
    keys.press("Go on to the plan")

    keys.step("Plan the privacy cost")
    keys.type("Number of rows for the plan", "many")
    keys.press("Show the plan")
    keys.refused("Expected a whole number for the number of rows, got 'many'")
    keys.type("Number of rows for the plan", "150")
    keys.type("ε", "4")
    assert page.get_by_role("combobox", name="Column of classes").count() == 0  # margnet has none
    keys.type("Rows kept apart for the report, in %", "95")
    keys.press("Show the plan")
    keys.refused("Expected holdout in [0, 0.9], got holdout=0.95")
    keys.type("Rows kept apart for the report, in %", "30")
    keys.press("Show the plan")
    keys.see("spends epsilon = 4 at delta = 1e-05")
    keys.named()
    page.reload()  # nothing is lost, and the cookie is enough
    keys.see("spends epsilon = 4 at delta = 1e-05")
    keys.press("Go on to the fit")

    keys.step("Fit")
    keys.press("Start the fit")
    keys.see("Fit: done.")
    keys.press("Make a key pair")
    keys.see("signing.key secret")
    keys.press("Draw the table")
    keys.see("Draw: done.")
    keys.press("Go on to the report")

    keys.step("Look at the report")
    keys.press("Evaluate")
    keys.see("Evaluation: done.")
    picture = page.get_by_role("img", name="Map of")
    assert picture.evaluate("image => image.naturalWidth") > 100
    with page.context.expect_page() as tab:
        keys.press("Open the whole report in a new tab", "link")
    tab.value.get_by_text("treat it as confidential").first.wait_for()
    tab.value.close()
    keys.press("Go on to the release")

    keys.step("Write the release")
    keys.type("Folder to write, which is not there yet", "out")
    keys.press("Write the release")
    keys.refused("answers are missing: name, description, curators, use")
    for name, question in asked():
        if name != "published":
            keys.type(question, f"Answer to {name}")
    keys.press("Write the release")
    keys.see("Verified: authenticated")
    with page.context.expect_page() as tab:
        keys.press("Open the privacy statement in a new tab", "link")
    tab.value.get_by_text("Answer to justification").first.wait_for()
    tab.value.close()
    allowed = (served.origin, "data:", Path(folder).as_uri(), f"ws://127.0.0.1:{served.port}")
    assert [url for url in outside if not url.startswith(allowed)] == [] and len(outside) > 10
    assert errors == []
