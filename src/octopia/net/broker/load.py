"""Whether a broker is overloaded, and which of its clients it asks to move.

A broker is overloaded if one of these holds for a whole period of `overload_s`: its ticks came at most half as often as
planned (the event loop cannot keep up), three quarters of its memory are used, or four fifths of its client connections
are in use. It stays overloaded until all of them have been below lower thresholds for two periods in a row, so that its
state does not flap.

An overloaded broker says so to clients that ask (`Load`), in `/healthz` and in its metrics. At the end of each such
period it asks an eighth of the connected clients that can move, and at least one, to do so (`Crowded`), starting with
those not asked before. So it never sends away all clients at once, and stops asking as soon as the load drops. Moving
is voluntary: a client that finds no better broker stays.

No I/O and no clock. Time in which the process did not run does not count: a gap between two ticks counts as at most
`GAP_S_MAX`.
"""

from collections.abc import Iterable
from typing import Protocol

# One in this many of the clients that can move is asked at a time.
SHARE = 8
CALM_SPANS = 2
GAP_S_MAX = 1.0


class Movable(Protocol):
    """A connection of a client that can move."""

    def say(self, message: object) -> None: ...


class LoadWatch:
    """The load of one broker."""

    def __init__(self, tick_s: float, overload_s: float) -> None:
        self.overloaded = False
        self.reason = ""
        self._tick_s = tick_s
        self._span_s = overload_s
        self._passed_s = 0.0
        self._ticks = 0
        self._calm = 0
        self._checked_s: float | None = None
        self._asked: dict[Movable, None] = {}

    def check(self, now: float, memory_share: float, places_share: float) -> bool:
        """Process a tick with the shares of memory and connections in use. Whether an overloaded period ended."""
        passed_s = self._tick_s if self._checked_s is None else now - self._checked_s
        self._checked_s = now
        self._passed_s += min(passed_s, GAP_S_MAX)
        self._ticks += 1
        if self._passed_s < self._span_s:
            return False
        pace = self._ticks * self._tick_s / self._passed_s
        self._passed_s, self._ticks = 0.0, 0
        self._judge(pace, memory_share, places_share)
        return self.overloaded

    def _judge(self, pace: float, memory_share: float, places_share: float) -> None:
        reasons = {
            f"it works at {pace:.0%} of its intended pace": pace <= 0.5,
            f"{memory_share:.0%} of its memory is used": memory_share >= 0.75,
            f"{places_share:.0%} of its client connections are in use": places_share >= 0.8,
        }
        reason = next((words for words, holds in reasons.items() if holds), "")
        if reason:
            self.overloaded, self.reason, self._calm = True, reason, 0
        elif pace >= 0.67 and memory_share < 0.5 and places_share < 0.7:
            self._calm += 1
            if self._calm >= CALM_SPANS:
                self.overloaded, self.reason = False, ""
                self._asked.clear()
        else:
            self._calm = 0

    def chosen(self, movable: Iterable[Movable]) -> list[Movable]:
        """Choose which of these clients to ask to move, and note that they were asked."""
        present = list(movable)
        count = -(-len(present) // SHARE)
        fresh = [one for one in present if one not in self._asked][:count]
        if len(fresh) < count:
            # All were asked, and it did not help: start again.
            self._asked = dict.fromkeys(fresh)
            fresh += [one for one in present if one not in self._asked][: count - len(fresh)]
        else:
            self._asked = {one: None for one in present if one in self._asked}
        self._asked |= dict.fromkeys(fresh)
        return fresh
