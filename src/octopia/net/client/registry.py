"""A client's advertisements, subscriptions, and unanswered requests.

There are two views. The program's view (`advertisements`, `subscriptions`) changes with each call. The broker's
view (`_standing`), with which a new session begins, holds the confirmed registrations: it changes in the order of the
journal, as far as the journal is confirmed. Later requests are still in the journal and follow the registrations, in
their order among publications. So a publication always finds the advertisement that it was published under, even if
that has since been withdrawn.

A request is answered once: in its own session or, if it was confirmed but not answered when that ended, by the
registration in the next one. If a registration is refused there, its subscription ends, or the client's next call
raises the refusal. No caller waits forever for an answer: `end` wakes them all.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from octopia.errors import InputError, OctopiaError, RefusedError, UnconfirmedError
from octopia.language import Conformity, Filter
from octopia.net.client.journal import Journal
from octopia.net.client.life import Life
from octopia.net.client.subscription import Subscription
from octopia.wire import (
    FlushRequest,
    advertise_frame,
    message_frame,
    subscribe_frame,
    unadvertise_frame,
    unsubscribe_frame,
)

_Key = tuple[str, str]  # request and id
# Requests that leave no registration behind.
PROBE = "probe"
FLUSH = "flush"
# The request that each withdrawal reverses.
_WITHDRAWS = {"unadvertise": "advertise", "unsubscribe": "subscribe"}


@dataclass(slots=True, eq=False)
class _Request:
    """A request that is not answered or not confirmed."""

    name: str
    id: str
    frame: bytes
    position: int
    answer: "asyncio.Future[None]"
    refused: bool = False
    before: bytes | None = None  # the registration it replaced

    @property
    def key(self) -> _Key:
        return self.name, self.id


class Registry:
    """The registrations of one client."""

    def __init__(self, journal: Journal, life: Life) -> None:
        self.advertisements: dict[str, Filter] = {}
        self.promises: dict[str, Conformity] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self._journal = journal
        self._life = life
        self._ids = {"a": 0, "s": 0}
        self._flushes = 0
        self._standing: dict[_Key, bytes] = {}
        self._unconfirmed: deque[_Request] = deque()
        self._unanswered: dict[_Key, deque[_Request]] = {}
        self._registering: dict[_Key, None] = {}

    @property
    def is_registering(self) -> bool:
        """Whether registrations of a new session are still unanswered."""
        return bool(self._registering)

    def standing(self) -> dict[tuple[str, str], bytes]:
        """The registrations of a new session: frames by request and id, in order."""
        return dict(self._standing)

    def standing_subscriptions(self) -> list[Subscription]:
        """The subscriptions that were in force in the last session."""
        return [s for s in self.subscriptions.values() if ("subscribe", s.id) in self._standing]

    def is_settled(self, position: int) -> bool:
        """Whether all requests up to this position of the journal are confirmed and answered."""
        if self._registering or (self._unconfirmed and self._unconfirmed[0].position <= position):
            return False
        return all(queue[0].position > position for queue in self._unanswered.values())

    # -- requests of the program

    async def advertise(self, filter: Filter, id: str | None) -> str:
        id = self._new_id("a", self.advertisements) if id is None else id
        frame = self._fits(advertise_frame(id, filter), "the advertisement")
        self._life.check()
        before = self.advertisements.get(id)
        self._promise(id, filter)
        asked = self._ask("advertise", id, frame)
        try:
            await asked.answer
        except (RefusedError, asyncio.CancelledError) as error:
            if self.advertisements.get(id) is filter:
                self._promise(id, before)
                if before is None and not isinstance(error, RefusedError) and not self._life.is_over:
                    # The caller never got its id: withdraw it.
                    self._ask("unadvertise", id, unadvertise_frame(id))
            raise
        return id

    async def unadvertise(self, id: str) -> None:
        self._life.check()
        self._promise(id, None)
        await self._ask("unadvertise", id, unadvertise_frame(id)).answer

    async def probe(self, id: str, frame: bytes) -> None:
        self._life.check()
        await self._ask(PROBE, id, self._fits(frame, "the probe")).answer

    async def flush(self, timeout_ms: int) -> None:
        """Return when everything published has arrived at the hosts of its subscribers; or `UnconfirmedError`."""
        self._life.check()
        self._flushes += 1
        id = str(self._flushes)
        await self._ask(FLUSH, id, message_frame(FlushRequest(id, timeout_ms))).answer

    def _promise(self, id: str, filter: Filter | None) -> None:
        if filter is None:
            self.advertisements.pop(id, None)
            self.promises.pop(id, None)
        else:
            self.advertisements[id] = filter
            self.promises[id] = Conformity(filter)

    def new_subscription_id(self, id: str | None) -> str:
        """A free id, or this one if it is free."""
        if id is None:
            return self._new_id("s", self.subscriptions)
        self._check_free(id)
        return id

    def _check_free(self, id: str) -> None:
        if id in self.subscriptions:
            raise InputError(f"subscription id {id!r} is in use")

    def ask_for(self, subscription: Subscription) -> "asyncio.Future[None]":
        """Register a subscription, whose inbox is open from now on; await the result for the answer."""
        s = subscription
        self._check_free(s.id)
        frame = self._fits(subscribe_frame(s.id, s.filter, *s.quality), "the subscription")
        self.subscriptions[s.id] = s
        return self._ask("subscribe", s.id, frame).answer

    async def subscribe(self, subscription: Subscription) -> None:
        self._life.check()
        answer = self.ask_for(subscription)
        try:
            await answer
        except (OctopiaError, asyncio.CancelledError) as error:
            if self._forget(subscription) and not isinstance(error, OctopiaError) and not self._life.is_over:
                # Nobody reads this inbox: it would fill up and stop all reading.
                self._ask("unsubscribe", subscription.id, unsubscribe_frame(subscription.id))
            raise

    async def unsubscribe(self, subscription: Subscription, *, drain: bool = False) -> None:
        id = subscription.id
        known = self.subscriptions.get(id) is subscription if drain else self._forget(subscription)
        try:
            if known and not self._life.is_over:
                await self._ask("unsubscribe", id, unsubscribe_frame(id)).answer
        finally:
            self._forget(subscription)

    def _forget(self, subscription: Subscription) -> bool:
        subscription.leave_channel()
        if self.subscriptions.get(subscription.id) is not subscription:
            return False
        del self.subscriptions[subscription.id]
        return True

    def _ask(self, name: str, id: str, frame: bytes) -> _Request:
        self._journal.put(frame)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The caller may have been cancelled, and then nobody retrieves the answer.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        asked = _Request(name, id, frame, self._journal.position, answer)
        self._unconfirmed.append(asked)
        self._unanswered.setdefault(asked.key, deque()).append(asked)
        return asked

    # -- answers of the broker

    def note_confirmed(self) -> None:
        """Update the broker's view with all requests up to the confirmed position of the journal."""
        confirmed = self._journal.confirmed
        while self._unconfirmed and self._unconfirmed[0].position <= confirmed:
            asked = self._unconfirmed.popleft()
            if asked.name in _WITHDRAWS:
                self._standing.pop((_WITHDRAWS[asked.name], asked.id), None)
            elif not asked.refused and asked.name not in (PROBE, FLUSH):
                asked.before = self._standing.get(asked.key)
                self._standing[asked.key] = asked.frame

    def answered(self, name: str, id: str, refusal: RefusedError | UnconfirmedError | None) -> None:
        """A request, or a registration of a new session, was carried out or refused."""
        key = name, id
        if self._registering:
            # Nothing else was sent on this session.
            if self._registering.pop(key, 0) is None:
                self._registered_anew(key, refusal)
            return
        asked = self._next_unanswered(key)
        if asked is None:
            return
        if refusal is not None:
            asked.refused = True
            if self._standing.get(key) is asked.frame:
                self._stand(key, asked.before)
        # A refused request must not be repeated in another session, where it might be granted.
        self._journal.confirm(asked.position)
        self.note_confirmed()
        _settle(asked, refusal)

    def _registered_anew(self, key: _Key, refusal: OctopiaError | None) -> None:
        if refusal is not None:
            self._standing.pop(key, None)
        told = False
        while (asked := self._next_unanswered(key, self._journal.confirmed)) is not None:
            told = True
            _settle(asked, refusal)
        if refusal is not None and not told:
            self._tell_refusal(key, refusal)
        if not self._registering:
            self._journal.open()

    def _tell_refusal(self, key: _Key, refusal: OctopiaError) -> None:
        """Report the refusal of a registration that was in force, when no caller waits for the answer."""
        name, id = key
        if name == "subscribe":
            subscription = self.subscriptions.get(id)
            if subscription is not None:
                self._forget(subscription)
                subscription.end(refusal)
        elif id in self.advertisements:
            self._promise(id, None)
            self._life.refuse(RefusedError(f"advertisement {id!r} was refused when it was registered again: {refusal}"))

    def _stand(self, key: _Key, frame: bytes | None) -> None:
        if frame is None:
            del self._standing[key]
        else:
            self._standing[key] = frame

    def _next_unanswered(self, key: _Key, confirmed: int | None = None) -> _Request | None:
        """Remove and return the oldest request of this key; with `confirmed`, the oldest confirmed one."""
        queue = self._unanswered.get(key)
        if not queue or (confirmed is not None and queue[0].position > confirmed):
            return None
        asked = queue.popleft()
        if not queue:
            del self._unanswered[key]
        return asked

    def begin_anew(self) -> list[bytes]:
        """The registrations to send at the start of a new session. `Journal.begin` must follow."""
        self._registering = dict.fromkeys(self._standing)
        for key in list(self._unanswered):
            if key not in self._standing:
                # Confirmed, with no registration left to answer for it: withdrawn, or itself a withdrawal.
                while (asked := self._next_unanswered(key, self._journal.confirmed)) is not None:
                    _settle(asked, None)
        return list(self._standing.values())

    # -- the end

    def end(self, error: OctopiaError, *, quietly: bool = False) -> None:
        """End all requests and subscriptions with this error; if `quietly`, iterators end without it."""
        unanswered, self._unanswered = self._unanswered, {}
        for queue in unanswered.values():
            for asked in queue:
                _settle(asked, error)
        for subscription in self.subscriptions.values():
            subscription.end(None if quietly else error)

    # -- helpers

    def _new_id(self, letter: str, taken: dict[str, Filter] | dict[str, Subscription]) -> str:
        while True:
            self._ids[letter] += 1
            id = f"{letter}{self._ids[letter]}"
            if id not in taken:
                return id

    def _fits(self, frame: bytes, what: str) -> bytes:
        most = self._journal.frame_bytes_max
        if len(frame) > most:
            raise InputError(f"{what} is {len(frame):,} bytes, at most {most:,} are accepted")
        return frame


def _settle(asked: _Request, error: OctopiaError | None) -> None:
    if asked.answer.done():
        return
    if error is None:
        asked.answer.set_result(None)
    else:
        asked.answer.set_exception(error)
