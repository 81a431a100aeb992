"""Who may talk to the local page: requests and websockets as a second user, another site or another name sends them."""

import asyncio
import socket
import subprocess
import sys

import page_server
import pytest
from command_lines import refused
from page_server import ask

from tabsynth.app.guard import Guard

pytest.importorskip("nicegui", reason="the page needs the extra app")
websockets = pytest.importorskip("websockets.sync.client", reason="a client of websockets")

SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
POLLING = "/_nicegui_ws/socket.io/?EIO=4&transport=polling"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page to which one browser has come."""
    with page_server.running(tmp_path_factory.mktemp("page")) as page:
        status, headers, _ = ask(page, f"/?token={page.token}", sec_fetch_site="none")
        assert status == 200
        page.set_cookie = headers["set-cookie"]
        page.cookie = page.set_cookie.partition(";")[0]
        yield page


def test_the_browser_with_the_token_sees_the_page(page):
    status, headers, text = ask(page, cookie=page.cookie, sec_fetch_site="same-origin")
    assert status == 200 and "Choose the table" in text
    assert headers["cache-control"] == "no-store" and headers["x-frame-options"] == "DENY"
    policy = dict(part.split(None, 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == f"'self' ws://127.0.0.1:{page.port}"
    assert not any("http" in value or "*" in value for value in policy.values())
    assert page.token not in text


def test_the_cookie_is_for_this_site_and_for_no_script(page):
    parts = page.set_cookie.split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(parts)
    assert page.token not in page.cookie and len(page.cookie.partition("=")[2]) >= 40


@pytest.mark.parametrize("path", ["/", "/_nicegui/x/static/nicegui.js", POLLING, "/report", "/no"])
def test_without_the_cookie_there_is_nothing(page, path):
    for cookie in ({}, {"cookie": f"tabsynth-{page.port}=x"}, {"cookie": page.cookie[:-1]}):
        status, headers, text = ask(page, path, **cookie)
        assert (status, text) == (
            403,
            "Refused: open the address with the token that the terminal shows.\n",
        )
        assert "set-cookie" not in headers


@pytest.mark.parametrize("token", ["", "x", "é", "a&token=b"])
def test_a_wrong_token_is_refused(page, token):
    from urllib.parse import quote

    status, headers, text = ask(page, f"/?token={quote(token, safe='&=')}x")
    assert status == 403 and "token is wrong" in text and "set-cookie" not in headers


def test_a_second_browser_is_refused_even_with_the_token(page):
    status, headers, text = ask(page, f"/?token={page.token}")
    assert status == 403 and "another browser uses this page" in text
    assert "set-cookie" not in headers
    assert ask(page, f"/?token={page.token}", cookie=page.cookie)[0] == 200  # the first may reload


@pytest.mark.parametrize(
    "host",
    [
        "",
        "attacker.example",
        "attacker.example:{port}",
        "localhost:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
    ],
)
def test_another_name_is_refused(page, host):
    """A name whose DNS entry changes to 127.0.0.1 makes our page one of the attacker's site."""
    host = host.format(port=page.port)
    for path in ("/", f"/?token={page.token}", POLLING):
        status, _, text = ask(page, path, host=host, cookie=page.cookie)
        assert status == 403 and f"this page is at {page.origin} only" in text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://attacker.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost:{port}"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},  # another port of this computer
    ],
)
def test_another_site_is_refused(page, headers):
    headers = {name: value.format(port=page.port) for name, value in headers.items()}
    for path in ("/", POLLING):
        status, _, text = ask(page, path, cookie=page.cookie, **headers)
        assert status == 403 and "comes from another site" in text
    assert ask(page, POLLING, method="POST", body=b"a", cookie=page.cookie, **headers)[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_what_changes_something_names_its_origin(page, method):
    status, _, text = ask(page, POLLING, method=method, body=b"a", cookie=page.cookie)
    assert status == 403 and "comes from another site" in text


def socket_status(page, host=None, **headers):
    """The status with which a websocket is answered; 101 is a connection."""
    host = host or f"127.0.0.1:{page.port}"
    headers = {name.capitalize(): value for name, value in headers.items()}
    plain = socket.create_connection(("127.0.0.1", page.port), timeout=20)
    try:
        with websockets.connect(
            f"ws://{host}{SOCKET}", sock=plain, additional_headers=headers, open_timeout=20
        ) as connection:
            assert connection.recv(20).startswith("0{")  # the greeting of Engine.IO
            return 101
    except websockets.InvalidStatus as error:
        return error.response.status_code


def test_websockets_pass_the_same_checks(page):
    own = {"cookie": page.cookie, "origin": page.origin}
    assert socket_status(page, **own) == 101
    assert socket_status(page) == 403
    assert socket_status(page, origin=page.origin) == 403
    assert socket_status(page, cookie=page.cookie) == 403
    assert socket_status(page, cookie=page.cookie, origin="https://attacker.example") == 403
    assert socket_status(page, host=f"attacker.example:{page.port}", **own) == 403
    assert socket_status(page, **{**own, "cookie": "tabsynth=x"}) == 403
    assert socket_status(page, **own, **{"sec-fetch-site": "cross-site"}) == 403


def test_the_page_leaves_no_files_of_its_library(page):
    assert [path.name for path in page.folder.iterdir()] == ["tabsynth-app"]


def test_nothing_listens_elsewhere(page):
    """Only 127.0.0.1 is bound: no other address of this computer, not even of the loopback network."""
    addresses = {"127.0.0.2", socket.gethostbyname(socket.gethostname())} - {"127.0.0.1"}
    for address in addresses:
        with pytest.raises(OSError):
            socket.create_connection((address, page.port), timeout=2).close()


def test_a_cookie_of_the_same_name_from_another_port_does_not_lock_out():
    """Cookies are shared by all ports of a computer, and a page at another port may set one of ours."""
    guard, sent = Guard(None, 80), []

    def scope(**headers):
        headers = {"host": "127.0.0.1:80", **headers}
        listed = [(name.encode(), value.encode()) for name, value in headers.items()]
        return {
            "type": "http",
            "path": "/",
            "method": "GET",
            "query_string": b"",
            "headers": listed,
        }

    async def send(message):
        sent.append(message)

    opening = {**scope(), "query_string": f"token={guard.token}".encode()}
    asyncio.run(guard(opening, None, send))
    assert sent[0]["status"] == 200
    cookie = dict(sent[0]["headers"])[b"set-cookie"].decode().partition(";")[0]
    assert guard._knows(scope(cookie=f"a=b; tabsynth-80=evil; {cookie}"))
    assert not guard._knows(scope(cookie=f"x{cookie}"))
    twice = scope(cookie=cookie)
    twice["headers"].append((b"host", b"attacker.example"))
    asyncio.run(guard(twice, None, send))
    assert sent[2]["status"] == 403


def test_a_port_in_use_is_one_line(page, tmp_path):
    refused("app", "--no-browser", "--port", page.port, cwd=tmp_path, says="Address already in use")
    refused("app", "--no-browser", "--port", "70000", cwd=tmp_path, says="from 0 to 65535")


def test_what_is_missing_is_one_line(tmp_path, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    refused("app", cwd=tmp_path, says=("no display", "--no-browser"))
    refused("app", "gone.csv", "--no-browser", cwd=tmp_path, says="no file 'gone.csv'")
    refused(
        "app",
        "--no-browser",
        "--folder",
        "a/b",
        cwd=tmp_path,
        says="Cannot write a/b: there is no folder a; create it",
    )
    monkeypatch.setitem(sys.modules, "nicegui", None)
    refused("app", "--no-browser", cwd=tmp_path, says="pip install 'tabsynth[app]'")


def test_the_page_is_imported_by_its_command_alone():
    code = (
        "import sys, tabsynth.cli; sys.exit('nicegui' in sys.modules or 'uvicorn' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
