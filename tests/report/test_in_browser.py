"""The pages in a real browser, headless: no console message, no request beyond the file itself."""

import json
import shutil
import subprocess

import pytest
from report_tables import certificate, schema, table

from tabsynth import evaluate
from tabsynth.evaluation import EvaluationConfig

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000"),
    "--host-resolver-rules=MAP * ~NOTFOUND",  # whatever it asks for, nothing leaves
)
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser on the PATH: none of {', '.join(NAMES)}"
)


def visit(page, folder):
    """Console lines, the addresses that the page asked for, and its DOM."""
    log = folder / "net.json"
    own = (f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", "--dump-dom")
    done = subprocess.run(
        [BROWSER, *FLAGS, *own, page.as_uri()], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(log.read_text("utf-8"))
    start = result["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    jobs = [e.get("params", {}) for e in result["events"] if e["type"] == start]
    # A browser calls home of its own accord: such requests have no origin, a page's have one.
    requests = [
        job["url"]
        for job in jobs
        if "url" in job
        and job.get("initiator") != "not an origin"
        and not job["url"].startswith(("file:", "data:", "blob:"))
    ]
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return console, requests, done.stdout


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    facts = {"schema": schema(), "config": EvaluationConfig(m=10, k=(1,))}
    real, holdout = table(120, 0), table(80, 2)
    report = evaluate(real, table(100, 1), holdout, certificate=certificate(), **facts)
    report.to_html(folder / "report.html")
    return folder


@pytest.mark.slow
def test_a_page_is_silent_and_asks_for_nothing(pages, tmp_path):
    console, requested, dom = visit(pages / "report.html", tmp_path)
    assert console == [] and requested == []
    assert "</svg>" in dom and dom.rstrip().endswith("</html>")


@pytest.mark.slow
def test_a_page_that_does_both_is_caught(pages, tmp_path):
    """The check itself: a picture from elsewhere and a script, without and under the pages' policy."""
    bad = "<img src='http://elsewhere.invalid/x.png'><script>console.error('oh')</script></body>"
    free = tmp_path / "free.html"
    free.write_text(f"<!DOCTYPE html><html><body>{bad}</html>", "utf-8")
    console, requested, _ = visit(free, tmp_path)
    assert any('"oh"' in line for line in console)
    assert requested == ["http://elsewhere.invalid/x.png"]
    holdout = tmp_path / "held.html"
    text = (pages / "report.html").read_text("utf-8")
    holdout.write_text(text.replace("</body>", bad), "utf-8")
    (tmp_path / "again").mkdir()
    console, requested, _ = visit(holdout, tmp_path / "again")
    assert requested == [] and all("Content Security Policy" in line for line in console)
    assert len(console) == 2
