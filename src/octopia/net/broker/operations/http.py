"""`/metrics`, `/healthz` and `/traces`: a few lines of HTTP/1.1, parsed by h11.

Rules of this file: only GET, no body, one answer per connection; a request that takes too long or is too large is
closed, and so is the oldest connection when there are too many (`http_connections_max`). It shows what the broker
counts and changes nothing. Where a token is configured, `/metrics` and `/traces` want it (`Authorization: Bearer …`);
`/healthz` never does, so that whatever watches the process need not know it.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import h11

from octopia.net.broker.operations.health import health
from octopia.net.broker.operations.report import Report
from octopia.net.broker.operations.traces import Traces
from octopia.net.secret import is_same

REQUEST_S = 5.0
REQUEST_BYTES_MAX = 16 * 1024
_PROTECTED = frozenset({b"/metrics", b"/traces"})


class HttpPeer(asyncio.Protocol):
    """One request and its answer."""

    def __init__(
        self, report: Callable[[], Report], traces: Traces, token: str, gone: Callable[["HttpPeer"], None]
    ) -> None:
        """`gone` is told when the connection is."""
        self._report = report
        self._traces = traces
        self._token = token
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_BYTES_MAX)
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._gone = gone
        self._aborted = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._timer = asyncio.get_running_loop().call_later(REQUEST_S, self.transport.abort)
        if self._aborted:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._gone(self)

    def abort(self) -> None:
        """Others need its place."""
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
        path = request.target.split(b"?")[0]
        if request.method not in (b"GET", b"HEAD"):
            self._send(405, "text/plain", b"only GET\n", request.method)
        elif path in _PROTECTED and not self._knows_token(request):
            self._send(401, "application/json", b'{"error": "this needs the http_token"}\n', request.method)
        elif path == b"/metrics":
            # Loading Prometheus' library takes longer than everything else here: not before someone asks.
            from octopia.net.broker.operations.metrics import render

            kind, body = render(self._report())
            self._send(200, kind, body, request.method)
        elif path == b"/healthz":
            well, body = health(self._report())
            self._send(200 if well else 503, "application/json", body, request.method)
        elif path == b"/traces":
            self._send(200, "application/json", self._traces.as_json(), request.method)
        else:
            self._send(404, "text/plain", b"there are /metrics, /healthz and /traces\n", request.method)

    def _knows_token(self, request: h11.Request) -> bool:
        given = dict(request.headers).get(b"authorization", b"").decode("utf-8", "replace")
        return not self._token or is_same(self._token, given.removeprefix("Bearer "))

    def _send(self, status: int, kind: str, body: bytes, method: bytes) -> None:
        headers = [("content-type", kind), ("content-length", str(len(body))), ("connection", "close")]
        if status == 401:
            headers.append(("www-authenticate", "Bearer"))
        parts = [self._http.send(h11.Response(status_code=status, headers=headers))]
        if method != b"HEAD":
            parts.append(self._http.send(h11.Data(data=body)))
        self.transport.write(b"".join(part for part in parts if part))
        self.transport.close()
