"""Who may talk to the local page: one browser that came with the token, from the page itself, by the right name.

Every HTTP request and every websocket passes :class:`Guard` before any code of the page runs.
"""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HOST = "127.0.0.1"
SAFE = ("GET", "HEAD")
REFUSED, POLICY_VIOLATION = 403, 1008  # of HTTP, and of websockets
OPENED = b"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>tabsynth</title>
<meta http-equiv="refresh" content="0; url=/"></head><body><p><a href="/">Open the page</a></p></body></html>"""


class Guard:
    """An ASGI application around another one, which refuses all requests but those of one browser.

    The page is at ``http://127.0.0.1:port``. A request is refused

    * unless its ``Host`` is exactly that: a name that an attacker's DNS points to 127.0.0.1 is another one;
    * if its ``Origin`` or ``Sec-Fetch-Site`` names another site. Websockets, and all methods that change something, must
      name an ``Origin``;
    * unless it carries the cookie of this run, which the first request with the token gets. The token is then used up:
      a second browser is refused even with the right token.

    Responses forbid the browser to load anything from elsewhere, to show the page in a frame, and to keep it.

    Parameters
    ----------
    app : ASGI application
    port : int
    """

    def __init__(self, app: App, port: int) -> None:
        self.app, self.port = app, port
        self.address = f"{HOST}:{port}"
        self.origin = f"http://{self.address}"
        self.name = f"tabsynth-{port}"  # cookies of all ports are in one jar
        self.token = secrets.token_urlsafe(32)
        self._value: str | None = None

    @property
    def url(self) -> str:
        """The address with the token, for the first request."""
        return f"{self.origin}/?token={self.token}"

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every response."""
        # NiceGUI compiles its templates in the browser, which needs inline scripts and eval.
        policy = (
            "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline';"
            f" img-src 'self' data:; font-src 'self'; connect-src 'self' ws://{self.address};"
            " frame-src 'none'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'; object-src 'none'"
        )
        return [
            (b"content-security-policy", policy.encode()),
            (b"x-frame-options", b"DENY"),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, answer the one with the token, or refuse."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        token = self._token(scope)
        reason = self._refusal(scope, opening=token is not None)
        if reason is None and token is not None:
            reason = self._open(scope, token)
            if reason is None:
                await self._answer(send, 200, OPENED, "text/html; charset=utf-8", cookie=True)
                return
        if reason is None and not self._knows(scope):
            reason = "open the address with the token that the terminal shows"
        if reason is not None:
            await self._refuse(scope, send, reason)
            return
        gone = False

        async def watch() -> MutableMapping[str, Any]:
            nonlocal gone
            message = await receive()
            gone = gone or message["type"] == "http.disconnect"
            return message

        try:
            await self.app(scope, watch, self._add_headers(send))
        except RuntimeError:  # of Starlette, for want of a response to a browser that has left
            if not gone:
                raise

    def _token(self, scope: Scope) -> str | None:
        """Return the token of a request for the page itself; None of all others."""
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            return None
        return next(iter(parse_qs(scope["query_string"].decode("latin-1")).get("token", [])), None)

    def _refusal(self, scope: Scope, opening: bool) -> str | None:
        """Return why a request is refused by where it comes from; None if it is not."""
        if _values(scope, b"host") != [self.address]:
            return f"this page is at {self.origin} only"
        origins, sites = _values(scope, b"origin"), _values(scope, b"sec-fetch-site")
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE
        if (changes and not origins) or any(origin != self.origin for origin in origins):
            return "the request comes from another site"
        # The browser is sent here by a file or by the terminal, which are other sites; then only the token counts.
        if not opening and any(site not in ("same-origin", "none") for site in sites):
            return "the request comes from another site"
        return None

    def _open(self, scope: Scope, token: str) -> str | None:
        """Let the browser with the token in; the reason if it is refused."""
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return "the token is wrong"
        if self._value is None:
            self._value = secrets.token_urlsafe(32)
        elif not self._knows(scope):
            return (
                "another browser uses this page already; if that is not you, end tabsynth with Ctrl-C and look who can use"
                " this computer"
            )
        return None

    def _knows(self, scope: Scope) -> bool:
        """Return whether a request carries the cookie. There may be others of its name, which other ports have set."""
        if self._value is None:
            return False
        matched = False
        for line in _values(scope, b"cookie"):
            for part in line.split(";"):
                name, _, value = part.strip().partition("=")
                right = secrets.compare_digest(value.encode(), self._value.encode())
                matched = matched or (name == self.name and right)
        return matched

    def _add_headers(self, send: Send) -> Send:
        """Return ``send`` with our headers on every response; a page may have a policy that is stricter than ours."""

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower(): value for name, value in message.get("headers", [])}
                added = [(name, value) for name, value in self.headers if name not in present]
                added = [pair for pair in added if pair[0] != b"cache-control"]
                headers = [pair for pair in message["headers"] if pair[0] != b"cache-control"]
                message["headers"] = [*headers, *added, (b"cache-control", b"no-store")]
            await send(message)

        return send_with_headers

    async def _refuse(self, scope: Scope, send: Send, reason: str) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "refused"})
            return
        await self._answer(send, REFUSED, f"Refused: {reason}.\n".encode(), "text/plain")

    async def _answer(
        self, send: Send, status: int, body: bytes, kind: str, *, cookie: bool = False
    ) -> None:
        headers = [
            *self.headers,
            (b"content-type", kind.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        if cookie:
            text = f"{self.name}={self._value}; Path=/; HttpOnly; SameSite=Strict"
            headers.append((b"set-cookie", text.encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _values(scope: Scope, name: bytes) -> list[str]:
    """Return all values of a header."""
    headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]
