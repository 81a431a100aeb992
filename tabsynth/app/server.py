"""The local page as a whole: its server, the browser that it opens, its routes and its end."""

import os
import socket
import webbrowser
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from tabsynth.app.guard import HOST, Guard
from tabsynth.app.session import Session
from tabsynth.errors import InputError, TabsynthError

OPENING = "open-tabsynth.html"
FIT_PATIENCE = 20.0  # seconds for a fit to reach its next step after Ctrl-C
# Reports and statements are pages of their own: without scripts, and with pictures that are part of them.
ALONE = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox allow-same-origin; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
PATIENCE = 3  # seconds that connections have to end after Ctrl-C


def need_extra() -> None:
    """Refuse where the extra ``app`` is not installed.

    Raises
    ------
    InputError
    """
    try:
        import nicegui  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise InputError(
            "tabsynth app needs NiceGUI; install it with: pip install 'tabsynth[app]'."
        ) from None


def need_browser() -> None:
    """Refuse where no browser can be opened.

    Raises
    ------
    InputError
    """
    displays = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    try:
        webbrowser.get()
        available = any(os.environ.get(name) for name in displays)
    except webbrowser.Error:
        available = False
    if not available:
        raise InputError(
            "There is no display or no browser to open the page in; use --no-browser, and open the address that is shown."
        )


def listen(port: int) -> socket.socket:
    """Return a socket at 127.0.0.1 on which nothing else listens; with port 0 on a free port.

    Raises
    ------
    InputError
    """
    if not 0 <= port <= 65535:
        raise InputError(f"Expected --port from 0 to 65535, got {port}.")
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # After an end, a port is kept for a minute; this takes it at once, and fails where another program listens.
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind((HOST, port))
        server.listen()
    except OSError as error:
        server.close()
        raise InputError(
            f"Cannot listen on port {port} of {HOST}: {error.strerror}; give another --port, or 0 for a free one."
        ) from None
    return server


def open_browser(guard: Guard, folder: Path) -> Callable[[], None]:
    """Open the page by a file that only its owner can read: other users can see the arguments of a command.

    Returns a function that removes the file.
    """
    path = folder / OPENING
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(guard.url)}">'
            f'<title>tabsynth</title><a href="{escape(guard.url)}">Open tabsynth</a>'
        )
    webbrowser.open(path.absolute().as_uri())
    return lambda: path.unlink(missing_ok=True)


def serve(
    build: Callable[[], None], server_socket: socket.socket, ready: Callable[[Guard], None]
) -> None:
    """Serve the page until Ctrl-C.

    Parameters
    ----------
    build : callable
        Makes the page of each visit.
    server_socket : socket
        As of :func:`listen`.
    ready : callable
        Called with the guard once the server takes connections.
    """
    import uvicorn
    from fastapi import FastAPI
    from nicegui import ui

    port = server_socket.getsockname()[1]
    inner = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    guard = Guard(inner, port)
    ui.run_with(
        inner,
        root=build,
        title="tabsynth",
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=30.0,
        language="en-US",
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            ready(guard)

    config = uvicorn.Config(
        guard,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
    )
    Server(config).run(sockets=[server_socket])


def run(
    folder: Path, table: Path | None, port: int, browser: bool, say: Callable[[str], None]
) -> None:
    """Serve the page until Ctrl-C.

    Parameters
    ----------
    folder : Path
        Where everything is written.
    table : Path, optional
        A table to begin with.
    port : int
        0 for a free one.
    browser : bool
        Whether to open a browser.
    say : callable
        Prints a line.

    Raises
    ------
    InputError
        If the extra is not installed, there is no display for a browser, the port is in use, or the folder cannot be
        written to.
    """
    need_extra()
    from tabsynth.app.page import Page, Place
    from tabsynth.app.stages import STAGES

    if browser:
        need_browser()
    session = Session(folder)
    if table is not None:
        session.choose(table)
    server_socket = listen(port)
    try:
        session.state.make_folder()
    except TabsynthError:
        server_socket.close()
        raise
    done: list[Callable[[], None]] = []
    place = Place()

    def ready(guard: Guard) -> None:
        say(f"The page is at {guard.url}")
        say("It is for one browser on this computer. End it with Ctrl-C.")
        if browser:
            done.append(open_browser(guard, folder))

    def build() -> None:
        while done:
            done.pop()()
        Page(session, STAGES, place).build()

    _routes(session)
    try:
        serve(build, server_socket, ready)
    except KeyboardInterrupt:
        pass
    finally:
        while done:
            done.pop()()
        session.close(FIT_PATIENCE)
    job = session.job
    if job is not None and job.title == "Fit" and job.state != "done":
        for line in job.lines or ["The fit was interrupted; its checkpoint keeps what was spent."]:
            say(line)
    say("tabsynth app has ended.")


def _routes(session: Session) -> None:
    """Serve what the page opens besides itself: the report, and the statement of a release."""
    from fastapi.responses import PlainTextResponse, Response
    from nicegui import app

    def alone(path: Path, there: object) -> Response:
        """Return a page that tabsynth has written, as it is."""
        if not session.state.confirmed or not there or not path.is_file():
            return PlainTextResponse("There is no such page yet.", 404)
        headers = {"content-security-policy": ALONE}
        return Response(path.read_bytes(), media_type="text/html; charset=utf-8", headers=headers)

    @app.get("/report")
    def report() -> Response:
        return alone(session.state.report_folder / "report.html", session.state.summary)

    @app.get("/statement")
    def statement() -> Response:
        from tabsynth.dossier.making import STATEMENT

        return alone((session.state.released or Path()) / STATEMENT, session.state.released)
