"""The local server of ``tabsynth app``: its socket, the browser that it opens, and its end."""

import os
import socket
import webbrowser
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from tabsynth.app.guard import HOST, Guard
from tabsynth.errors import InputError

OPENING = "open-tabsynth.html"
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
