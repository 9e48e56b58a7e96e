"""The broker's HTTP port, for reading only: health, metrics, state, tables, events and traces.

h11 parses requests: only GET, no body, one answer per connection. A request that takes too long to arrive or is too
large is closed; so is the oldest connection if there are too many (`http_connections_max`). If a token is configured,
every path except `/healthz` requires it (`Authorization: Bearer …`), so a process monitor need not know it; the answer
to a wrong token is late, as for clients. Tables are answered in small steps (`paging.py`); everything else just reads
the broker's counters.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, cast
from urllib.parse import parse_qsl

import h11

from octopia.net.broker.operations.events import EVENTS_MAX, Events
from octopia.net.broker.operations.health import health, whole_state
from octopia.net.broker.operations.paging import BadQueryError, Pages, number, read_query
from octopia.net.broker.operations.process import process_report
from octopia.net.broker.operations.report import Report
from octopia.net.broker.operations.traces import Traces
from octopia.net.secret import is_same

REQUEST_S = 5.0
# How long computing and writing an answer may take.
ANSWER_S = 30.0
REQUEST_BYTES_MAX = 16 * 1024
PARAMETERS_MAX = 10
JSON = "application/json"
PATHS = ("/healthz", "/metrics", "/state", "/overlay", "/tables", "/events", "/traces")


@dataclass(frozen=True)
class Exhibits:
    """Everything that one broker shows; each function is called on request."""

    report: Callable[[], Report]
    traces: Traces
    events: Events
    pages: Pages
    overlay: Callable[[], bytes]
    brokers: int  # of this process


class Delays(Protocol):
    """How late the answers to wrong tokens are."""

    def failed(self, address: str, now: float) -> float | None: ...

    def answered(self, address: str) -> None: ...


class HttpPeer(asyncio.Protocol):
    """One request and its answer."""

    def __init__(self, shown: Exhibits, token: str, delays: Delays, gone: Callable[["HttpPeer"], None]) -> None:
        """`gone` is called when the connection is gone."""
        self._shown = shown
        self._token = token
        self._delays = delays
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_BYTES_MAX)
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._gone = gone
        self._aborted = False
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._wait(REQUEST_S)
        if self._aborted:
            self.transport.abort()

    def _wait(self, most_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(most_s, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._gone(self)

    def abort(self) -> None:
        """Close it: others need its place."""
        self._aborted = True
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            while True:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    self._answer(event)
                    return
                if event in (h11.NEED_DATA, h11.PAUSED):
                    return
        except h11.RemoteProtocolError:
            self.transport.close()

    def _answer(self, request: h11.Request) -> None:
        path, _, query = request.target.decode("ascii", "replace").partition("?")
        method = request.method
        if method not in (b"GET", b"HEAD"):
            self._send(405, "text/plain", b"only GET\n", method)
        elif path not in PATHS:
            self._send(404, "text/plain", f"there are {', '.join(PATHS)}\n".encode(), method)
        elif path != "/healthz" and not self._knows_token(request):
            self._refuse(method, late=b"authorization" in dict(request.headers))
        else:
            try:
                self._show(path, _parameters(query), method)
            except BadQueryError as error:
                self._send_error(error, method)

    def _refuse(self, method: bytes, *, late: bool) -> None:
        answer = (401, JSON, b'{"error": "this needs the http_token"}\n', method)
        if not late:
            self._send(*answer)
            return
        loop = asyncio.get_running_loop()
        address = str((self.transport.get_extra_info("peername") or ("",))[0])
        delay_s = self._delays.failed(address, loop.time())
        if delay_s is None:
            self.transport.abort()
            return
        self._wait(ANSWER_S)
        loop.call_later(delay_s, self._send, *answer)
        # Even if it is gone by then: leaving early does not make room for another try.
        loop.call_later(delay_s, self._delays.answered, address)

    def _show(self, path: str, given: Mapping[str, str], method: bytes) -> None:
        shown = self._shown
        if path == "/tables":
            if "table" in given:
                self._wait(ANSWER_S)
                self._task = asyncio.create_task(self._show_table(given, method))
            else:
                self._send(200, JSON, shown.pages.overview(), method)
            return
        status, kind = 200, JSON
        if path == "/metrics":
            # Loading the Prometheus library takes longer than everything else here, so it waits for the first request.
            from octopia.net.broker.operations.metrics import render

            kind, body = render(shown.report())
        elif path == "/healthz":
            well, body = health(shown.report())
            status = 200 if well else 503
        elif path == "/state":
            body = whole_state(shown.report(), process_report(shown.brokers), round(time.time(), 6))
        elif path == "/events":
            since = number(given, "since", 0, 1 << 53) if "since" in given else None
            limit = number(given, "limit", EVENTS_MAX, EVENTS_MAX)
            body = shown.events.as_json(shown.report().broker, since, limit)
        elif path == "/overlay":
            body = shown.overlay()
        else:
            body = shown.traces.as_json(given.get("publisher"), number(given, "sequence", 0, 1 << 63))
        self._send(status, kind, body, method)

    async def _show_table(self, given: Mapping[str, str], method: bytes) -> None:
        try:
            body = await self._shown.pages.answer(read_query(given))
        except BadQueryError as error:
            self._send_error(error, method)
        else:
            self._send(200, JSON, body, method)

    def _knows_token(self, request: h11.Request) -> bool:
        given = dict(request.headers).get(b"authorization", b"").decode("utf-8", "replace")
        return not self._token or is_same(self._token, given.removeprefix("Bearer "))

    def _send_error(self, error: BadQueryError, method: bytes) -> None:
        self._send(400, JSON, json.dumps({"error": str(error)}).encode() + b"\n", method)

    def _send(self, status: int, kind: str, body: bytes, method: bytes) -> None:
        if self.transport.is_closing():
            return
        headers = [
            ("content-type", kind),
            ("content-length", str(len(body))),
            ("connection", "close"),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
        ]
        if status == 401:
            headers.append(("www-authenticate", "Bearer"))
        parts = [self._http.send(h11.Response(status_code=status, headers=headers))]
        if method != b"HEAD":
            parts.append(self._http.send(h11.Data(data=body)))
        self.transport.write(b"".join(part for part in parts if part))
        self.transport.close()


def _parameters(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=PARAMETERS_MAX))
    except ValueError:
        raise BadQueryError(f"at most {PARAMETERS_MAX} parameters are allowed") from None
