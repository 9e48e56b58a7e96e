"""Access control of the console: checks on requests, and security headers on every answer.

Three checks, before anything else sees a request. The Host header must name this console, so that a foreign name that
resolves to loopback reaches nothing (DNS rebinding). A request that a page of another origin caused is refused, for
WebSockets too. If an access token is set, a request must carry it as a bearer token, or the cookie that `/login` gave
for it. Every answer carries a strict content security policy: scripts and styles come only from this console.

The answer to a wrong token is late, as that of brokers (`octopia.net.Failures`): the delay grows with each failure from
the same address, and few such answers wait at a time. The right token is accepted at once, whatever failed before it.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from octopia.errors import InputError
from octopia.net import Failures

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "::1")
COOKIE: Final = "octopia_console"
ACCESS_TOKEN_CHARS_MIN: Final = 16
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_UNAUTHORIZED: Final = 401
TOO_MANY: Final = (429, "too many wrong tokens; try again later")
# Paths needed to get a cookie.
_OPEN_PATHS: Final = frozenset({"/login", "/login.html", "/login.js", "/style.css", "/icon.svg", "/healthz"})


def host_name(header: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


class Access:
    """Access to the console: open to everyone who reaches it, or only with its access token."""

    def __init__(
        self,
        token: str = "",
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if token and len(token) < ACCESS_TOKEN_CHARS_MIN:
            raise InputError(f"the access token is too short: at least {ACCESS_TOKEN_CHARS_MIN} characters are needed")
        self._token = token.encode()
        # The cookie is not the token: it means nothing to another console, nor to this one after a restart.
        self._key = secrets.token_bytes(32)
        self._failures = Failures()
        self._now, self._sleep = now, sleep

    @property
    def needed(self) -> bool:
        return bool(self._token)

    def cookie_for(self, token: str) -> str | None:
        """The cookie for a request with the right token; None otherwise."""
        if not self.needed or not hmac.compare_digest(token.encode(), self._token):
            return None
        return self._cookie()

    def _cookie(self) -> str:
        return hmac.new(self._key, self._token, hashlib.sha256).hexdigest()

    def admits(self, connection: HTTPConnection) -> bool:
        """Whether a request brings the token or the cookie."""
        if not self.needed:
            return True
        given = bearer_of(connection)
        if given is not None and hmac.compare_digest(given.encode(), self._token):
            return True
        return hmac.compare_digest(connection.cookies.get(COOKIE, "").encode(), self._cookie().encode())

    async def delay(self, connection: HTTPConnection) -> bool:
        """Wait before the answer to a wrong token; returns False at once if too many wait already."""
        address = connection.client.host if connection.client is not None else ""
        delay_s = self._failures.failed(address, self._now())
        if delay_s is None:
            return False
        try:
            await self._sleep(delay_s)
        finally:
            self._failures.answered(address)
        return True


def bearer_of(connection: HTTPConnection) -> str | None:
    """The bearer token of a request, if it has one."""
    scheme, _, given = connection.headers.get("authorization", "").partition(" ")
    return given if scheme.lower() == "bearer" else None


class Guard:
    """ASGI middleware in front of everything."""

    def __init__(self, app: ASGIApp, *, names: Iterable[str], origins: Iterable[str], access: Access) -> None:
        """`names`: names under which the console may be addressed.

        `origins`: other pages that may use the WebSocket.
        """
        self._app = app
        self._names = frozenset(name.lower() for name in names)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refused = self._why_not(scope)
        if refused is not None and refused[0] == _UNAUTHORIZED:
            connection = HTTPConnection(scope)
            if bearer_of(connection) is not None and not await self._access.delay(connection):
                refused = TOO_MANY
        if refused is None:
            await self._app(scope, receive, _protected(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refused[1]})
        else:
            answer = JSONResponse({"error": refused[1]}, refused[0])
            await answer(scope, receive, _protected(send))

    def _why_not(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host_name(host) not in self._names:
            return 421, f"this console is not called {host_name(host) or 'that'!r}; name it with --name"
        if self._is_foreign(scope["type"], headers):
            return 403, "a page of another origin may not use this console; --origin allows its WebSocket"
        if scope["path"] not in _OPEN_PATHS and not self._access.admits(HTTPConnection(scope)):
            return _UNAUTHORIZED, "log in first, at /login.html, or send the access token as a bearer token"
        return None

    def _is_foreign(self, kind: str, headers: Headers) -> bool:
        """Whether a page of another origin caused the request. The console's own name was checked already."""
        origin = headers.get("origin")
        if origin is None:
            # Browsers send no Origin with a plain GET, but name its site. Following a link is allowed.
            foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
            return foreign and headers.get("sec-fetch-mode") != "navigate"
        scheme, separator, rest = origin.lower().partition("://")
        if separator and scheme in ("http", "https") and rest == headers.get("host", "").lower():
            return False
        return kind != "websocket" or origin.lower() not in self._origins


def _protected(send: Send) -> Send:
    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return protected
