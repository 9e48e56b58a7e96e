"""The streams that end at one broker: releases notifications in order, holds early ones, drops repeats.

For each stream, a publisher at its host, the broker knows the number of the `last` released notification. A copy
carries its own number and that of its predecessor for this destination (`before`; 0: none):

    number <= last, or it waits already   a repeat: dropped
    before <= last                        released, after all that wait with lower numbers, and then all that follow
    otherwise                             it waits

If lower numbers wait although `before` is not above `last`, the host gave something up in between, or restarted. They
are released first, so order holds in any case. A repeat of a waiting copy may name an earlier predecessor than the copy
did; the lowest counts.

Bounds: `HELD_PER_STREAM_MAX` notifications wait in one stream, `HELD_MAX` in all, and `HELD_BYTES_MAX` bytes if the
host knows sizes. At a bound, the youngest of the stream is refused: from then on nothing from its number on is accepted
until everything that waits was released; then the host is asked to resend the rest (`Stream.asks`). So waiting
notifications are always older than refused ones, and the stream moves on. For each host, `STREAMS_PER_HOST_MAX` streams
are remembered, plus those in which something waits; the least recently used one is forgotten. If it continues, its host
is asked.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from octopia.routing.fdr.streams.confirming import SETTLED, Account

Item = TypeVar("Item")

HELD_PER_STREAM_MAX = 50_000
HELD_MAX = 200_000
HELD_BYTES_MAX = 64 << 20
STREAMS_PER_HOST_MAX = 100_000
# From this many streams of a host on, their use is noted; before that, none is forgotten soon.
MANY_STREAMS = 1_000


class Stream(Generic[Item]):
    """One publisher at its host. `held` has the waiting notifications by number, with their predecessors and sizes.

    `order` has the same numbers, ascending; `jumps` has those that follow a lower one than the next lower that waits.
    `refused` is the lowest refused number, 0 if none was. `asks`: the host must resend everything after `last`.
    `asked`: it was asked, because nothing was released yet. `wanted`: the host wants a confirmation as soon as
    everything up to this number was released; 0: it does not. `account`: where its confirmation is counted, while
    nothing waits, nothing was refused and nothing is wanted; else `SETTLED`. It is kept by the code that passes copies
    through the gate.
    """

    __slots__ = ("account", "asked", "asks", "held", "host", "jumps", "last", "order", "refused", "wanted")

    def __init__(self, host: int) -> None:
        self.host = host
        self.account: Account = SETTLED
        self.last = 0
        self.held: dict[int, tuple[int, Item, int]] = {}
        self.order: list[int] = []
        self.jumps: list[int] = []
        self.refused = 0
        self.asks = False
        self.asked = False
        self.wanted = 0


class Gate(Generic[Item]):
    """All streams that end at one broker, by host (place) and publisher. `held` counts the waiting notifications in
    all, and `waiting` has the streams in which there are any.

    `recent` has by publisher the stream used last, for hosts that have few: none of them is forgotten soon.
    """

    __slots__ = (
        "_bytes_max",
        "_held_max",
        "_per_stream_max",
        "_streams_max",
        "held",
        "held_bytes",
        "hosts",
        "recent",
        "refusals",
        "repeats",
        "waiting",
    )

    def __init__(
        self,
        *,
        per_stream_max: int = HELD_PER_STREAM_MAX,
        held_max: int = HELD_MAX,
        bytes_max: int = HELD_BYTES_MAX,
        streams_max: int = STREAMS_PER_HOST_MAX,
    ) -> None:
        self._per_stream_max = per_stream_max
        self._held_max = held_max
        self._bytes_max = bytes_max
        self._streams_max = streams_max
        self.hosts: dict[int, OrderedDict[str, Stream[Item]]] = {}
        self.recent: dict[str, Stream[Item]] = {}
        self.waiting: dict[Stream[Item], None] = {}
        self.held = 0
        self.held_bytes = 0
        self.repeats = 0
        self.refusals = 0

    def stream(self, host: int, publisher: str) -> Stream[Item]:
        """A stream, created if unknown."""
        of_host = self.hosts.get(host)
        if of_host is None:
            of_host = self.hosts[host] = OrderedDict()
        stream = of_host.get(publisher)
        if stream is None:
            if len(of_host) >= self._streams_max:
                self._forget_oldest(of_host)
            stream = of_host[publisher] = Stream(host)
            if len(of_host) == MANY_STREAMS + 1:
                self._note_use_of(of_host)
        elif len(of_host) > MANY_STREAMS:
            of_host.move_to_end(publisher)
        if len(of_host) <= MANY_STREAMS:
            self.recent[publisher] = stream
        return stream

    def _note_use_of(self, of_host: OrderedDict[str, Stream[Item]]) -> None:
        """From now on, the use of a host's streams is noted, so each must be looked up."""
        for publisher, stream in of_host.items():
            if self.recent.get(publisher) is stream:
                del self.recent[publisher]

    def _forget_oldest(self, of_host: OrderedDict[str, Stream[Item]]) -> None:
        oldest = next((publisher for publisher, stream in of_host.items() if not (stream.order or stream.wanted)), None)
        if oldest is not None:
            stream = of_host.pop(oldest)
            if self.recent.get(oldest) is stream:
                del self.recent[oldest]

    def take(self, stream: Stream[Item], number: int, before: int, item: Item, size: int = 0) -> list[Item]:
        """Process a copy; returns the notifications it releases, in order."""
        last = stream.last
        if number <= last:
            self.repeats += 1
            return []
        if number in stream.held:
            self.repeats += 1
            return self._comes_again(stream, number, before)
        if before > last:
            self._hold(stream, number, before, item, size)
            return []
        released = self._release(stream, bisect_left(stream.order, number)) if stream.order else []
        released.append(item)
        stream.last = number
        if stream.order or stream.refused:
            self._go_on(stream, released)
        return released

    def taken(self) -> dict[int, dict[str, int]]:
        """The number of the last released notification of each stream, by host and publisher."""
        return {
            host: {publisher: stream.last for publisher, stream in streams.items() if stream.last}
            for host, streams in self.hosts.items()
        }

    def revise(self, change: Callable[[Item], Item]) -> None:
        """Replace each waiting notification; those of a stream in order."""
        for stream in self.waiting:
            for number in stream.order:
                before, item, size = stream.held[number]
                stream.held[number] = before, change(item), size

    def release_all(self, stream: Stream[Item]) -> list[Item]:
        """Release all waiting notifications in order: those they wait for will not come."""
        return self._release(stream, len(stream.order))

    def _hold(self, stream: Stream[Item], number: int, before: int, item: Item, size: int) -> None:
        if stream.refused and number >= stream.refused:
            self.refusals += 1
            return
        order = stream.order
        stream.held[number] = (before, item, size)
        self.waiting[stream] = None
        self.held += 1
        self.held_bytes += size
        if not order or number > order[-1]:
            # the most common case
            if order and before < order[-1]:
                stream.jumps.append(number)
            order.append(number)
        else:
            at = bisect_left(order, number)
            order.insert(at, number)
            if at and before < order[at - 1]:
                stream.jumps.append(number)
            if stream.held[order[at + 1]][0] < number:
                stream.jumps.append(order[at + 1])
        if len(order) > self._per_stream_max or self.held > self._held_max or self.held_bytes > self._bytes_max:
            youngest = order.pop()
            self.held -= 1
            self.held_bytes -= stream.held.pop(youngest)[2]
            self.refusals += 1
            stream.refused = youngest
            if not order:
                del self.waiting[stream]

    def _comes_again(self, stream: Stream[Item], number: int, before: int) -> list[Item]:
        earlier, item, size = stream.held[number]
        released: list[Item] = []
        if before < earlier:
            stream.held[number] = (before, item, size)
            stream.jumps.append(number)
            self._go_on(stream, released)
        return released

    def _go_on(self, stream: Stream[Item], released: list[Item]) -> None:
        """Release waiting notifications that now follow, with everything below them."""
        held, order = stream.held, stream.order
        moves = True
        while moves:
            reach, ready = stream.last, 0
            for number in order:
                if held[number][0] > reach:
                    break
                reach = number
                ready += 1
            released += self._release(stream, ready)
            moves = False
            if stream.jumps:
                stream.jumps = [number for number in stream.jumps if number in held]
                high = max((number for number in stream.jumps if held[number][0] <= stream.last), default=0)
                if high:
                    released += self._release(stream, bisect_left(order, high) + 1)
                    moves = True
        if stream.refused and not order:
            stream.refused = 0
            stream.asks = True

    def _release(self, stream: Stream[Item], count: int) -> list[Item]:
        """Release the first waiting notification."""
        if not count:
            return []
        released = []
        for number in stream.order[:count]:
            _, item, size = stream.held.pop(number)
            self.held_bytes -= size
            released.append(item)
        self.held -= count
        stream.last = stream.order[count - 1]
        del stream.order[:count]
        if not stream.order:
            del self.waiting[stream]
        return released
