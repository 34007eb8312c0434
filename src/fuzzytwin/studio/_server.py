"""Serve the page to this computer only.

The server listens on the loopback address. Every address begins with a random token. Requests
without it, for another host, or from a page of another origin, websockets included, get nothing.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import secrets
import socket
import tempfile
import threading
import urllib.parse
import webbrowser
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
AWAY_SECONDS = 120.0  # that a page may be out of reach, by load or sleep, and keep what it shows
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

# The page may load from its own server only, and no other page may frame it.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "connect-src 'self' ws://{host}; form-action 'none'; base-uri 'self'; frame-ancestors 'none'"
)


class Guard:
    """An ASGI application that passes on what has the token, the right host and origin.

    The token is the first part of every path; `port` is where the server listens.
    """

    def __init__(self, app: Asgi, token: str, port: int) -> None:
        self.app = app
        self.token = token
        self.hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif not self._allows(scope):
            await _refuse(scope, receive, send)
        else:
            await self.app(scope, receive, self._with_headers(send, scope))

    def _allows(self, scope: Message) -> bool:
        """Return whether a request has the host, the origin and the token."""
        headers: dict[bytes, list[str]] = {}
        for name, value in scope.get("headers", ()):
            headers.setdefault(name.lower(), []).append(value.decode("latin-1"))
        hosts = headers.get(b"host", [])
        origins = headers.get(b"origin", [])
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return False
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return False
        first = scope["path"].lstrip("/").partition("/")[0]
        return hmac.compare_digest(first.encode(), self.token.encode())

    def _with_headers(self, send: Send, scope: Message) -> Send:
        host = next(v.decode("latin-1") for k, v in scope["headers"] if k.lower() == b"host")
        extra = [
            (b"referrer-policy", b"no-referrer"),
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"DENY"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"content-security-policy", POLICY.format(host=host).encode()),
        ]

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        return send_more


async def _refuse(scope: Message, receive: Receive, send: Send) -> None:
    """Close a websocket, or answer 403 with nothing in it."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "http.response.start", "status": 403, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def without_closed_tabs(app: Asgi) -> Asgi:
    """Silence the last request of a tab that was closed.

    Engine.IO raises a KeyError if a browser closes a connection that has ended already. The server
    would print 200 lines about it.
    """

    async def call(scope: Message, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except KeyError as error:
            if "/socket.io/" not in scope.get("path", "") or "Session" not in str(error):
                raise

    return call


def listen(port: int = 0) -> socket.socket:
    """Listen on the loopback address; port 0 takes a free one."""
    try:
        return socket.create_server((HOST, port), backlog=128)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise OSError(
            f"port {port} of {HOST} cannot be used ({reason}); use another --port, or omit it "
            "for a free one."
        ) from error


@contextlib.contextmanager
def private_page(address: str) -> Iterator[str]:
    """Write a page that leads to an address and that only this user can read; yield its URL.

    Other users of the computer can read the command line of a browser: it gets this URL, which is
    worth nothing to them, and not the address with its token.
    """
    with tempfile.TemporaryDirectory(prefix="fuzzytwin-") as folder:  # of mode 0700
        page = Path(folder) / "studio.html"
        page.touch(mode=0o600)
        page.write_text(f'<meta http-equiv="refresh" content="0; url={address}">', "utf-8")
        yield page.as_uri()


def serve(
    build: Callable[[], None],
    files: Callable[[str], Callable[[], tuple[str, str, bytes] | None]],
    port: int,
    browser: bool,
    ready: Callable[[str], None],
) -> None:
    """Serve pages until Ctrl-C.

    `build` fills one page and is called for each browser. `files` returns a function for a kind of
    file to download, which is called in a thread and returns its name, type and bytes, or None.
    Port 0 takes a free one, `browser` opens the page, and `ready` is called with its address.
    """
    import uvicorn
    from fastapi import FastAPI, Response
    from nicegui import app, run, ui

    logging.getLogger("nicegui").setLevel(logging.ERROR)  # it warns of a 404 with its address
    listener = listen(port)
    token = secrets.token_urlsafe(24)
    port = int(listener.getsockname()[1])
    outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    ui.page("/", title="fuzzytwin studio")(build)

    @app.get("/export/{kind}")
    async def export(kind: str) -> Response:
        file = await run.io_bound(files(kind))  # decisions do not wait for it
        if file is None:
            return Response(status_code=404)
        name, media, content = file
        quoted = urllib.parse.quote(name)
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quoted}"}
        return Response(content, media_type=media, headers=headers)

    ui.run_with(
        outer,
        mount_path=f"/{token}",
        show_welcome_message=False,
        reconnect_timeout=AWAY_SECONDS,
    )
    address = f"http://{HOST}:{port}/{token}/"
    guard = Guard(without_closed_tabs(outer), token, port)
    config = uvicorn.Config(
        guard,
        log_level="error",
        access_log=False,
        server_header=False,
        ws_max_size=1 << 20,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    ready(address)
    with contextlib.suppress(KeyboardInterrupt), private_page(address) as page:
        if browser:
            threading.Timer(0.5, webbrowser.open, [page]).start()
        server.run(sockets=[listener])
