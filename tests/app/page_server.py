"""The local page in a process of its own, and requests to it as a browser or an attacker sends them."""

import http.client
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Page:
    """A running page."""

    folder: Path
    port: int
    token: str
    process: subprocess.Popen

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"{self.origin}/?token={self.token}"


@contextmanager
def running(folder, *words, browser=None):
    """``tabsynth app`` in ``folder``; it must end by Ctrl-C with exit code 0, without a traceback.

    ``browser``: a program that it opens the page with.
    """
    command = [sys.executable, "-W", "error::DeprecationWarning:tabsynth", "-m", "tabsynth", "app"]
    process = subprocess.Popen(
        [*command, *["--no-browser"] * (browser is None), *map(str, words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "BROWSER": str(browser)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", line)
        assert found, line + process.communicate(timeout=30)[0]
        yield Page(folder, int(found[1]), found[2], process)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
        assert "Traceback" not in output and output.endswith("tabsynth app has ended.\n"), output
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def ask(page, path="/", *, method="GET", host=None, body=None, **headers):
    """A request with exactly these headers; ``sec_fetch_site`` is the header Sec-Fetch-Site. Status, headers and text."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    if host != "":
        connection.putheader("Host", host or f"127.0.0.1:{page.port}")
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    text = answer.read().decode("utf-8", "replace")
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, text


def people(n=150, seed=0):
    """A table in which a value of each column is in no other text of the page."""
    rng = np.random.default_rng(seed)
    age = rng.integers(31, 78, n)
    return pd.DataFrame(
        {
            "age": age,
            "begin": age - rng.integers(0, 11, n),
            "town": rng.choice(["Quarnstedt", "Wobbenbuell", "Zzyzx"], n, p=[0.5, 0.3, 0.2]),
            "email": [f"person{i}@private.example" for i in range(n)],
        }
    )
