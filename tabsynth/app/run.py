"""The local page as a whole: session, routes, server and end."""

import os
from collections.abc import Callable
from pathlib import Path

from tabsynth.app.guard import Guard
from tabsynth.app.server import listen, need_browser, need_extra, open_browser, serve
from tabsynth.app.session import Session
from tabsynth.errors import InputError, TabsynthError

LARGEST = 4 * 2**30  # bytes of an uploaded table
PATIENCE = 20.0  # seconds for a fit to reach its next step after Ctrl-C
# Reports and statements are pages of their own: without scripts, and with pictures that are part of them.
ALONE = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox allow-same-origin; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


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
        session.close(PATIENCE)
    job = session.job
    if job is not None and job.title == "Fit" and job.state != "done":
        for line in job.lines or ["The fit was interrupted; its checkpoint keeps what was spent."]:
            say(line)
    say("tabsynth app has ended.")


def _routes(session: Session) -> None:
    """Return what the page needs besides itself: uploads, and the report."""
    from fastapi import Request
    from fastapi.responses import PlainTextResponse, Response
    from nicegui import app

    from tabsynth.app.stages import UPLOAD

    @app.post(UPLOAD)
    async def upload(request: Request, name: str) -> Response:

        try:
            path = session.receive(name)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except (TabsynthError, OSError) as error:
            return PlainTextResponse(str(error), 400)
        size, complete = 0, False
        try:
            with os.fdopen(handle, "wb") as file:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > LARGEST:
                        raise InputError(f"{name} is larger than {LARGEST:,} bytes; give its path.")
                    file.write(chunk)
            complete = True
        except (InputError, OSError) as error:
            return PlainTextResponse(str(error), 400)
        finally:
            if not complete:  # also where the browser went away
                path.unlink(missing_ok=True)
        return PlainTextResponse("Received.")

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
