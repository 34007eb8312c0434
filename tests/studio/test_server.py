"""Who gets an answer: this computer, with the token, from its own page."""

import asyncio
import stat
import urllib.parse
from pathlib import Path

import pytest

from fuzzytwin.studio._server import Guard, listen, private_page, without_closed_tabs

GOOD = {"path": "/secret/", "host": "127.0.0.1:81", "origin": "http://127.0.0.1:81"}


async def inner(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def ask(kind, guard=None, **changes):
    given = {**GOOD, **changes}
    headers = [
        (name.encode(), given[name].encode()) for name in ("host", "origin") if given.get(name)
    ]
    scope = {"type": kind, "path": given["path"], "headers": headers}
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    asyncio.run((guard or Guard(inner, "secret", 81))(scope, receive, send))
    return sent


@pytest.mark.parametrize(
    "good",
    [{}, {"origin": None}, {"path": "/secret/a/b"},
     {"host": "localhost:81", "origin": "http://localhost:81"}],
)  # fmt: skip
def test_what_has_the_token_passes(good):
    sent = ask("http", **good)
    assert sent[0]["status"] == 200
    policy = dict(sent[0]["headers"])[b"content-security-policy"]
    assert b"default-src 'self'" in policy


@pytest.mark.parametrize(
    "bad",
    [{"path": "/"}, {"path": "/wrong/"}, {"path": "/secre"}, {"path": "/secret2/"},
     {"path": "/a/../secret/"}, {"host": "evil.example"}, {"host": "127.0.0.1"},
     {"host": "evil.example:81"}, {"host": None}, {"origin": "http://evil.example"},
     {"origin": "null"}, {"origin": "https://127.0.0.1:81"}, {"origin": "http://127.0.0.1:82"},
     {"origin": "http://localhost:81"}],
)  # fmt: skip
def test_anything_else_gets_nothing(bad):
    sent = ask("http", **bad)
    assert sent[0]["status"] == 403
    assert b"".join(message.get("body", b"") for message in sent) == b""
    assert ask("websocket", **bad) == [{"type": "websocket.close", "code": 1008}]


def test_the_command_line_of_the_browser_leads_only_this_user_to_the_page():
    address = "http://127.0.0.1:81/secret/"
    with private_page(address) as url:
        assert "secret" not in url
        page = Path(urllib.parse.urlparse(url).path)
        assert address in page.read_text()
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (page, page.parent)]
        assert modes == [0o600, 0o700]
    assert not page.parent.exists()


def test_the_goodbye_of_a_closed_tab_raises_nothing():
    async def fails(scope, receive, send):
        raise KeyError(scope["error"])

    def call(path, error):
        scope = {"type": "http", "path": path, "error": error}
        asyncio.run(without_closed_tabs(fails)(scope, None, None))

    call("/token/_nicegui_ws/socket.io/", "Session is disconnected")
    with pytest.raises(KeyError, match="column"):
        call("/token/_nicegui_ws/socket.io/", "column")
    with pytest.raises(KeyError, match="Session"):
        call("/token/export/table", "Session is disconnected")


def test_the_server_listens_on_this_computer_alone():
    here = listen()
    try:
        assert here.getsockname()[0] == "127.0.0.1"
        with pytest.raises(OSError, match="--port"):
            listen(here.getsockname()[1]).listen()
    finally:
        here.close()
