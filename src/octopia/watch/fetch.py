"""One GET over HTTP/1.1 for asyncio: h11 parses the answer, and every wait has a timeout."""

import asyncio
import json
import os
from typing import Any
from urllib.parse import urlsplit

import h11

from octopia.errors import InputError, RefusedError, UnreachableError

ANSWER_S = 1.5
ANSWER_BYTES_MAX = 64 * 1024 * 1024
_READ_BYTES = 256 * 1024


async def get(url: str, token: str = "", within_s: float = ANSWER_S) -> tuple[int, bytes]:
    """The status and the body of the answer; `UnreachableError` if none arrives in time."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        host, port = None, 0
    if parts.scheme not in ("http", "https") or not host:
        raise InputError(f"{url!r} is not the address of a broker's HTTP port: write http://host:port")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        async with asyncio.timeout(within_s):
            return await _get(host, port, parts.scheme == "https", parts.netloc, target, token)
    except TimeoutError:
        raise UnreachableError(f"no answer from {parts.netloc} within {within_s:g} s") from None
    except (OSError, h11.RemoteProtocolError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number and number > 0 else str(error) or type(error).__name__
        raise UnreachableError(f"no answer from {parts.netloc}: {reason}") from None


async def _get(host: str, port: int, tls: bool, netloc: str, target: str, token: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection(host, port, ssl=True if tls else None)
    try:
        http = h11.Connection(h11.CLIENT)
        headers = [("host", netloc), ("accept", "application/json"), ("connection", "close")]
        if token:
            headers.append(("authorization", f"Bearer {token}"))
        writer.write(
            (http.send(h11.Request(method="GET", target=target, headers=headers)) or b"")
            + (http.send(h11.EndOfMessage()) or b"")
        )
        status, body = 0, bytearray()
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > ANSWER_BYTES_MAX:
                    raise UnreachableError(f"the answer of {netloc} has more than {ANSWER_BYTES_MAX:,} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return status, bytes(body)
            elif isinstance(event, h11.ConnectionClosed):
                raise UnreachableError(f"{netloc} closed the connection without an answer")
    finally:
        writer.close()


async def get_json(url: str, token: str = "", within_s: float = ANSWER_S) -> Any:
    """A broker's answer. Raises `RefusedError` if it requires a token, otherwise `UnreachableError` with the reason."""
    status, body = await get(url, token, within_s)
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if status in (200, 503) and answer is not None:
        return answer
    why = answer.get("error", "") if isinstance(answer, dict) else body[:200].decode("utf-8", "replace").strip()
    place = urlsplit(url)
    line = f"{place.netloc} answered {status} for {place.path}{f': {why}' if why else ''}"
    raise RefusedError(line) if status == 401 else UnreachableError(line)
