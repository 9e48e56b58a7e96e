"""A browser as a client of the overlay: one WebSocket, one connection to a broker, the rights of that client.

The first frame identifies the client. The connection to the broker uses that name and token, so the broker checks every
advertisement, subscription and publication as for any client. Requests are handled one after the other; credit and rate
frames at once, since a request may wait for more credit. Each subscription has a task that sends its notifications as
far as there is credit. The subscription's inbox here and its queue at the broker bound the rest; beyond them its policy
decides.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from octopia.console import frames
from octopia.console.sampling import Sampler
from octopia.errors import InputError, OctopiaError, RefusedError
from octopia.net import Client, Subscription

HELLO_S: Final = 10.0
REQUESTS_MAX: Final = 256
REGISTRATIONS_MAX: Final = 100
INBOX_MAX: Final = 1000
BATCH_MAX: Final = 200
STATUS_S: Final = 0.5
# Close codes of the protocol.
BAD_FRAME: Final = 4400
NOT_ALLOWED: Final = 4403
NO_HELLO: Final = 4408
UNREACHABLE: Final = 4503
OUR_FAULT: Final = 1011

_log: Final = logging.getLogger("octopia.console")

READ_ONLY: Final = "this console is read-only; start it with --allow-publish"


class ReadOnlyError(RefusedError):
    """An operation that a read-only console refuses."""


class Socket(Protocol):
    """A WebSocket that was accepted."""

    async def receive_text(self) -> str: ...
    async def send_text(self, data: str) -> None: ...
    async def close(self, code: int = 1000, reason: str | None = None) -> None: ...


class SocketClosedError(Exception):
    """The browser is gone."""


@dataclass
class _Listening:
    """One subscription and its sending task."""

    subscription: Subscription
    sampler: Sampler
    told_s: float  # when the number of skipped ones was last reported
    more: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class BrowserClient:
    """One WebSocket from hello to goodbye."""

    def __init__(self, socket: Socket, connect: Callable[[str, str], Client], *, may_publish: bool) -> None:
        """`connect` makes a client of this name and token, not yet connected."""
        self._socket = socket
        self._connect = connect
        self._may_publish = may_publish
        self._client: Client | None = None
        self._sending = asyncio.Lock()
        self._requests: asyncio.Queue[frames.Frame] = asyncio.Queue(REQUESTS_MAX)
        self._listening: dict[str, _Listening] = {}
        self._advertised: set[str] = set()
        self._now = asyncio.get_running_loop().time

    async def run(self) -> None:
        """Serve the socket until either side ends it."""
        client = await self._greet()
        if client is None:
            return
        self._client = client
        tasks = [asyncio.create_task(self._work()), asyncio.create_task(self._tell_status(client))]
        try:
            while True:
                await self._take(await self._socket.receive_text())
        except frames.FrameError as error:
            await self._end(BAD_FRAME, error)
        except SocketClosedError:
            pass
        finally:
            tasks += [listening.task for listening in self._listening.values() if listening.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(OctopiaError):
                await client.close(1.0)

    async def _greet(self) -> Client | None:
        try:
            async with asyncio.timeout(HELLO_S):
                hello = frames.read_frame(await self._socket.receive_text())
            if not isinstance(hello, frames.Hello):
                raise frames.FrameError("the first frame must be hello")
            if hello.version != frames.VERSION:
                raise frames.FrameError(f"version {hello.version}: this console speaks version {frames.VERSION}")
        except TimeoutError:
            await self._end(NO_HELLO, frames.FrameError(f"no hello within {HELLO_S:g} s"))
            return None
        except frames.FrameError as error:
            await self._end(BAD_FRAME, error)
            return None
        except SocketClosedError:
            return None
        client = self._connect(hello.name, hello.token)
        try:
            await client.open()
        except OctopiaError as error:
            code = NOT_ALLOWED if isinstance(error, RefusedError) else UNREACHABLE
            await self._end(code, error, hello.id)
            return None
        try:
            await self._say(
                "welcome",
                id=hello.id or None,
                version=frames.VERSION,
                name=client.name,
                broker=client.broker,
                may_publish=self._may_publish,
                limits={
                    "frame_bytes": frames.FRAME_BYTES_MAX,
                    "requests": REQUESTS_MAX,
                    "registrations": REGISTRATIONS_MAX,
                    "credit": frames.CREDIT_MAX,
                },
            )
        except SocketClosedError:
            with suppress(OctopiaError):
                await client.close(1.0)
            return None
        return client

    # -- out

    async def _say(self, kind: str, **fields: Any) -> None:
        async with self._sending:
            await self._socket.send_text(frames.write(kind, **fields))

    async def _fail(self, error: Exception, id: str = "") -> None:
        told = frames.failure(error)
        if isinstance(error, ReadOnlyError):
            told["code"] = "read_only"
        await self._say("error", id=id or None, **told)

    async def _end(self, code: int, error: Exception, id: str = "") -> None:
        with suppress(SocketClosedError):
            await self._fail(error, id)
            await self._socket.close(code, str(error)[:100])

    async def _tell_status(self, client: Client) -> None:
        """Report when the connection to the broker is lost, restored, or lost for good, and what was dropped."""
        before: tuple[Any, ...] = (True, client.broker, 0, 0, 0)
        while True:
            await asyncio.sleep(STATUS_S)
            now = (client.is_connected, client.broker, client.dropped, client.too_old, client.gaps)
            if client.failure is not None:
                await self._end(UNREACHABLE, client.failure)
                return
            if now != before:
                before = now
                told = dict(zip(("connected", "broker", "dropped", "too_old", "gaps"), now, strict=True))
                await self._say("status", **told)

    # -- in

    async def _take(self, text: str) -> None:
        frame = frames.read_frame(text)
        if isinstance(frame, frames.Immediate):
            self._adjust(frame)
            return
        if isinstance(frame, frames.Hello):
            raise frames.FrameError("hello comes once, and first")
        try:
            self._requests.put_nowait(frame)
        except asyncio.QueueFull:
            full = InputError(f"{REQUESTS_MAX} requests are unanswered; wait for answers before you send more")
            await self._say("error", **(frames.failure(full) | {"id": frame.id or None, "code": "too_many"}))

    def _adjust(self, frame: frames.Immediate) -> None:
        listening = self._listening.get(frame.subscription)
        if listening is None:
            # It was withdrawn a moment ago.
            return
        if isinstance(frame, frames.Grant):
            listening.sampler.credit = min(listening.sampler.credit + frame.add, frames.CREDIT_MAX)
        else:
            listening.sampler.set_rate(frame.rate_max, self._now())
        listening.more.set()

    async def _work(self) -> None:
        while True:
            frame = await self._requests.get()
            try:
                answer = await self._carry_out(frame)
                if frame.id:
                    await self._say("ok", id=frame.id, **answer)
            except SocketClosedError:
                return
            except Exception as error:  # noqa: BLE001  told to the client, or logged
                if not frames.is_told(error):
                    _log.exception("request failed: %s", type(frame).__name__)
                    await self._end(OUR_FAULT, error, frame.id)
                    return
                await self._fail(error, frame.id)

    async def _carry_out(self, frame: frames.Frame) -> dict[str, Any]:
        match frame:
            case frames.Advertise():
                return await self._advertise(frame)
            case frames.Unadvertise():
                return await self._unadvertise(frame)
            case frames.Subscribe():
                return await self._subscribe(frame)
            case frames.Unsubscribe():
                return await self._unsubscribe(frame)
            case frames.Publish():
                return await self._publish(frame)
            case _:
                await self._ready.flush()
                return {}

    @property
    def _ready(self) -> Client:
        if self._client is None:
            raise InputError("say hello first")
        return self._client

    def _check_room(self, count: int, what: str) -> None:
        if count >= REGISTRATIONS_MAX:
            raise InputError(f"{REGISTRATIONS_MAX} {what} are the maximum per connection")

    def _check_publishing(self) -> None:
        if not self._may_publish:
            raise ReadOnlyError(READ_ONLY)

    async def _advertise(self, frame: frames.Advertise) -> dict[str, Any]:
        self._check_publishing()
        self._check_room(len(self._advertised), "advertisements")
        id = await self._ready.advertise(frame.filter)
        self._advertised.add(id)
        return {"advertisement": id}

    async def _unadvertise(self, frame: frames.Unadvertise) -> dict[str, Any]:
        if frame.advertisement not in self._advertised:
            raise InputError(f"there is no advertisement {frame.advertisement!r}")
        await self._ready.unadvertise(frame.advertisement)
        self._advertised.discard(frame.advertisement)
        return {}

    async def _subscribe(self, frame: frames.Subscribe) -> dict[str, Any]:
        self._check_room(len(self._listening), "subscriptions")
        client = self._ready
        subscription = client.subscribe(
            frame.filter,
            policy=frame.policy,
            ordered=frame.ordered,
            priority=frame.priority,
            deadline_ms=frame.deadline_ms,
            inbox_max=INBOX_MAX,
        )
        await client.start_subscription(subscription)
        listening = _Listening(subscription, Sampler(frame.credit, frame.rate_max, self._now()), self._now())
        self._listening[subscription.id] = listening
        listening.task = asyncio.create_task(self._send_all(listening))
        return {"subscription": subscription.id}

    async def _unsubscribe(self, frame: frames.Unsubscribe) -> dict[str, Any]:
        listening = self._listening.pop(frame.subscription, None)
        if listening is None:
            raise InputError(f"there is no subscription {frame.subscription!r}")
        await listening.subscription.close()
        if listening.task is not None:
            listening.task.cancel()
        return {}

    async def _publish(self, frame: frames.Publish) -> dict[str, Any]:
        self._check_publishing()
        return {"notification": await self._ready.publish(frame.notification)}

    # -- notifications

    async def _send_all(self, listening: _Listening) -> None:
        with suppress(SocketClosedError):
            try:
                while await self._send_some(listening):
                    pass
            except OctopiaError as error:
                await self._fail(error)

    async def _send_some(self, listening: _Listening) -> bool:
        """Send what may be sent now; returns False when nothing more will arrive."""
        sampler, subscription = listening.sampler, listening.subscription
        if not sampler.skips and not sampler.credit:
            listening.more.clear()
            await listening.more.wait()
            return True
        try:
            # A count of skipped notifications must not wait for the next notification.
            async with asyncio.timeout(STATUS_S if sampler.skipped else None):
                batch = await subscription.next_batch(BATCH_MAX if sampler.skips else min(sampler.credit, BATCH_MAX))
        except TimeoutError:
            batch = []
        else:
            if not batch:
                return False
        sent = batch[: sampler.take(len(batch), self._now())]
        if sent or (sampler.skipped and self._now() - listening.told_s >= STATUS_S):
            listening.told_s = self._now()
            await self._say(
                "notifications",
                subscription=subscription.id,
                items=[
                    {"notification": each.notification.to_dict(), "publisher": each.publisher, "id": each.id}
                    for each in sent
                ],
                skipped=sampler.take_skipped() or None,
            )
        return True
