"""The console's HTTP API for the page. Read-only, except for probes and Play.

An error is JSON with `message`, as in the WebSocket protocol. Bodies, pages and texts are bounded.
"""

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from octopia.console import frames
from octopia.console.advertised import Advertisements
from octopia.console.guard import COOKIE, TOO_MANY, Access
from octopia.console.service import Service
from octopia.console.tables import read_table
from octopia.console.trouble import EVENTS_SHOWN_MAX, select, summary
from octopia.errors import InputError, OctopiaError, UnreachableError
from octopia.hints import one_line
from octopia.language import parse_filter, parse_notification
from octopia.topology import BrokerId

BODY_BYTES_MAX: Final = 256 * 1024
SERIES_MAX: Final = 40
POINTS_MAX: Final = 720

Handler = Callable[[Request], Awaitable[Response]]


def told(handler: Handler) -> Handler:
    """Turns errors about the request into answers."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except (OctopiaError, TypeError) as error:
            if isinstance(error, TypeError) and "notification" not in str(error) and "value" not in str(error):
                raise
            status = 502 if isinstance(error, UnreachableError) else 400
            return JSONResponse(frames.failure(error), status)

    return answered


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object that was posted. A form of another site cannot send this type."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise InputError("send JSON, as application/json")
    size = 0
    parts = []
    async for part in request.stream():
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise InputError(f"at most {BODY_BYTES_MAX:,} bytes are accepted")
        parts.append(part)
    try:
        content = json.loads(b"".join(parts))
        # JSON can spell halves of a character, and nothing can be done with them.
        json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is not JSON: {one_line(str(error))}") from None
    if not isinstance(content, dict):
        raise InputError("send a JSON object")
    return content


def text_of(content: dict[str, Any], name: str) -> str:
    value = content.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"{name} must be text")
    return value


def number_of(request: Request, name: str, default: int) -> int:
    try:
        return int(request.query_params.get(name, default))
    except ValueError:
        raise InputError(f"{name} must be a whole number") from None


class Api:
    """The handlers."""

    def __init__(self, service: Service, access: Access, *, secure: bool) -> None:
        self._service = service
        self._access = access
        self._secure = secure
        self._advertisements = Advertisements()

    async def stream(self, request: Request) -> Response:
        """The state of the overlay, as server-sent events."""
        return StreamingResponse(
            self._service.hub.follow(), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    async def login(self, request: Request) -> Response:
        cookie = self._access.cookie_for(text_of(await body_of(request), "token"))
        if cookie is None:
            if not await self._access.delay(request):
                return JSONResponse({"message": TOO_MANY[1]}, TOO_MANY[0])
            return JSONResponse({"message": "that is not the access token"}, 403)
        answer = JSONResponse({"ok": True})
        answer.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=self._secure)
        return answer

    async def broker(self, request: Request) -> Response:
        """Facts of one broker that are not in every row."""
        id = BrokerId.parse(request.query_params.get("id", ""))
        view = self._service.hub.view
        if view is None or id not in view.brokers:
            raise InputError(f"there is no broker {id}")
        seen, place = view.brokers[id], self._service.hub.watched.places[id]
        facts: dict[str, Any] = {"broker": str(id), "url": place.url, "http": place.http}
        for name in ("status", "reason", "version", "uptime_s", "shares", "dropped", "around", "client_queue"):
            facts[name] = getattr(seen, name)
        facts["links"] = [
            {"neighbour": str(each.receiver), "sent": each.sent, "lost": each.lost} for each in seen.links
        ]
        return JSONResponse(facts)

    async def tables(self, request: Request) -> Response:
        given = request.query_params
        page = await read_table(
            self._service.reader,
            given.get("broker", ""),
            given.get("table", ""),
            q=given.get("q", "")[:200],
            sort=given.get("sort", ""),
            offset=number_of(request, "offset", 0),
            limit=number_of(request, "limit", 50),
        )
        return JSONResponse(page)

    async def history(self, request: Request) -> Response:
        """Series by name: times once, numbers per series, thinned to what a chart shows."""
        names = request.query_params.getlist("name")[:SERIES_MAX]
        seconds = min(max(number_of(request, "seconds", 3600), 10), 7200)
        history = self._service.hub.watcher.history
        since_s = time.time() - seconds
        found = {name: [point for point in history.series(name) if point[0] >= since_s] for name in names}
        longest = max(map(len, found.values()), default=0)
        step = max(1, -(-longest // POINTS_MAX))
        return JSONResponse(
            {
                "step_s": history.step_s * step,
                "series": {name: _thinned(points, step) for name, points in found.items()},
            }
        )

    async def parse(self, request: Request) -> Response:
        """Parse a filter or a notification as the product does. A parse error is an answer, not a failure."""
        content = await body_of(request)
        text = text_of(content, "filter")
        try:
            if "notification" in content:
                seen = parse_notification(content["notification"])
                return JSONResponse({"ok": True, "notification": seen.to_dict()})
            wanted = parse_filter(text)
        except (OctopiaError, TypeError) as error:
            pointer = getattr(error, "pointer", lambda: None)()
            return JSONResponse({"ok": False, **frames.failure(error), "pointer": pointer})
        answer: dict[str, Any] = {"ok": True, "filter": str(wanted)}
        if content.get("overlaps"):
            answer["overlaps"] = await self._advertisements.overlapping(self._service.reader, wanted)
        return JSONResponse(answer)

    async def events(self, request: Request) -> Response:
        given = request.query_params
        seconds, offset = number_of(request, "seconds", 3600), max(0, number_of(request, "offset", 0))
        found = select(
            self._service.hub.watcher.events,
            since_s=time.time() - seconds,
            q=given.get("q", ""),
            broker=given.get("broker", ""),
            level=given.get("level", ""),
        )
        return JSONResponse({"matched": len(found), "events": found[offset : offset + EVENTS_SHOWN_MAX]})

    async def trouble(self, request: Request) -> Response:
        seconds = number_of(request, "seconds", 900)
        hub = self._service.hub
        answer = summary(select(hub.watcher.events, since_s=time.time() - seconds), hub.view)
        answer["slowest"] = await self._service.slowest()
        return JSONResponse(answer)

    async def probe(self, request: Request) -> Response:
        content = await body_of(request)
        given = parse_notification(content.get("notification") or {})
        return JSONResponse(await self._service.probe(given, text_of(content, "publisher")))

    async def why(self, request: Request) -> Response:
        content = await body_of(request)
        given = parse_notification(content.get("notification") or {})
        client, publisher = text_of(content, "client"), text_of(content, "publisher")
        return JSONResponse(await self._service.why(client, given, publisher))

    async def play(self, request: Request) -> Response:
        return JSONResponse(await self._service.play(await body_of(request)))


def _thinned(points: list[tuple[float, float | None]], step: int) -> list[list[float | None]]:
    """The maximum of each group of points: charts must show the peaks."""
    thinned: list[list[float | None]] = []
    for start in range(0, len(points), step):
        group = points[start : start + step]
        known = [value for _, value in group if value is not None]
        thinned.append([round(group[-1][0], 2), round(max(known), 6) if known else None])
    return thinned
