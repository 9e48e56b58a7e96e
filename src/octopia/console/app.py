"""The console as an ASGI application: the page, its HTTP, the WebSocket of browser clients, behind the guard."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from octopia.console.api import Api, Handler, told
from octopia.console.browser import BrowserClient, SocketClosedError
from octopia.console.frames import FrameError
from octopia.console.guard import LOOPBACK_NAMES, Access, Guard
from octopia.console.service import Service

SOCKETS_MAX: Final = 100
_KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


def page_files() -> dict[str, bytes]:
    """The files of the page by name."""
    folder = files("octopia.console") / "page"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in _KINDS}


class AcceptedSocket:
    """Starlette's WebSocket with one error for a browser that is gone."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def receive_text(self) -> str:
        try:
            return await self._socket.receive_text()
        except KeyError:
            raise FrameError("frames are text, not binary") from None
        except (WebSocketDisconnect, RuntimeError):
            raise SocketClosedError from None

    async def send_text(self, data: str) -> None:
        try:
            await self._socket.send_text(data)
        except (WebSocketDisconnect, RuntimeError):
            raise SocketClosedError from None

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        try:
            await self._socket.close(code, reason)
        except (WebSocketDisconnect, RuntimeError):
            raise SocketClosedError from None


def create_app(service: Service) -> Starlette:
    """The application of one console."""
    settings = service.settings
    access = Access(settings.access_token)
    api = Api(service, access, secure=settings.is_tls)
    sockets = 0

    async def browser(socket: WebSocket) -> None:
        nonlocal sockets
        if sockets >= SOCKETS_MAX:
            await socket.close(1013, f"{SOCKETS_MAX} browsers are connected")
            return
        await socket.accept()
        sockets += 1
        try:
            await BrowserClient(AcceptedSocket(socket), service.client, may_publish=settings.allow_publish).run()
        finally:
            sockets -= 1

    async def healthz(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    routes: list[BaseRoute] = [
        *_page_routes(),
        Route("/healthz", healthz),
        Route("/login", told(api.login), methods=["POST"]),
        Route("/api/stream", api.stream),
        WebSocketRoute("/ws", browser),
    ]
    for name in ("broker", "tables", "history", "events", "trouble"):
        routes.append(Route(f"/api/{name}", told(getattr(api, name))))
    for name in ("parse", "probe", "why", "play"):
        routes.append(Route(f"/api/{name}", told(getattr(api, name)), methods=["POST"]))
    names = {*LOOPBACK_NAMES, settings.host} if settings.is_loopback else {settings.host}
    guard = Middleware(Guard, names=names | set(settings.names), origins=settings.origins, access=access)
    return Starlette(routes=routes, middleware=[guard], lifespan=lifespan)


def _page_routes() -> list[BaseRoute]:
    return [
        Route("/" if name == "index.html" else f"/{name}", _file(name, content))
        for name, content in page_files().items()
    ]


def _file(name: str, content: bytes) -> Handler:
    """A file of the page; a browser that has it already is told so."""
    headers = {"etag": f'"{hashlib.sha256(content).hexdigest()[:20]}"', "cache-control": "no-cache"}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=_KINDS[name.rpartition(".")[2]])

    return answer
