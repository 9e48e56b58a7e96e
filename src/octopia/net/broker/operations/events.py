"""The event log of a broker: recent events, numbered, for `/events`.

The last `EVENTS_MAX` events are kept, and their text is cut at `TEXT_CHARS_MAX`. Numbers increase by one, so a reader
that asks for events `since` its last number can tell whether it missed any. Repeated events of one client are reported
once and then summed up once per second, so that nobody can flood the log. Links change rarely, and each change is
reported. Accepted notifications never touch this code.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

EVENTS_MAX = 2_000
TEXT_CHARS_MAX = 300
# How long repeats are summed up, and how many different ones at a time; beyond that they are combined by text.
REPEAT_S = 1.0
REPEATS_MAX = 256
# A link that came up this often within this time is flapping.
FLAP_UPS = 3
FLAP_S = 60.0
LINK_UP = "link up"


class Events:
    """The last events of one broker."""

    __slots__ = ("_flapped_s", "_kept", "_repeats", "_ups", "_wall", "last")

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self.last = 0
        self._kept: deque[dict[str, Any]] = deque(maxlen=EVENTS_MAX)
        # by kind of event: when it was first reported, its repeats since, and the fields of the last one
        self._repeats: dict[tuple[str, str, str], tuple[float, int, dict[str, Any]]] = {}
        self._ups: dict[str, deque[float]] = {}
        self._flapped_s: dict[str, float] = {}

    def note(self, level: str, text: str, named: dict[str, Any]) -> None:
        """Log an event: a fixed text, and its subject."""
        now = self._wall()
        neighbour = named.get("neighbour")
        if neighbour is not None:
            self._add(now, level, text, named)
            if text == LINK_UP:
                self._came_up(str(neighbour), now)
            return
        key = (text, str(named.get("client", named.get("peer", ""))), str(named.get("request", "")))
        known = self._repeats.get(key)
        if known is None and len(self._repeats) >= REPEATS_MAX:
            key = (text, "", "")
            known = self._repeats.get(key)
            named = {name: value for name, value in named.items() if name not in ("client", "peer", "request")}
        if known is None:
            self._repeats[key] = (now, 0, {"level": level})
            self._add(now, level, text, named)
        else:
            self._repeats[key] = (known[0], known[1] + 1, {"level": level, **named})

    def check_time(self) -> None:
        """Report the sums of repeated events that are due."""
        if not self._repeats:
            return
        now = self._wall()
        for key, (first_s, count, named) in list(self._repeats.items()):
            # a clock that was set back also ends the period
            if not first_s <= now < first_s + REPEAT_S:
                del self._repeats[key]
                if count:
                    level = named.pop("level")
                    self._repeats[key] = (now, 0, {"level": level})
                    self._add(now, level, key[0], {**named, "count": count})

    def _came_up(self, neighbour: str, now: float) -> None:
        ups = self._ups.setdefault(neighbour, deque(maxlen=FLAP_UPS))
        ups.append(now)
        often = len(ups) == FLAP_UPS and now - ups[0] <= FLAP_S
        if often and now - self._flapped_s.get(neighbour, 0.0) > FLAP_S:
            self._flapped_s[neighbour] = now
            self._add(now, "warning", "link flaps", {"neighbour": neighbour, "count": FLAP_UPS, "within_s": FLAP_S})

    def _add(self, now: float, level: str, text: str, named: dict[str, Any]) -> None:
        self.last += 1
        said = {name: _short(value) for name, value in named.items()}
        self._kept.append({**said, "sequence": self.last, "time_s": round(now, 3), "level": level, "text": text})

    def since(self, sequence: int, limit: int) -> list[dict[str, Any]]:
        """Events after this number, oldest first, up to a limit."""
        kept = self._kept
        if not kept or sequence >= self.last:
            return []
        start = max(0, sequence - kept[0]["sequence"] + 1)
        return [kept[at] for at in range(start, min(start + limit, len(kept)))]

    def latest(self, limit: int) -> list[dict[str, Any]]:
        """The latest events, up to a limit."""
        return self.since(max(0, self.last - limit), limit)

    def as_json(self, broker: str, since: int | None, limit: int) -> bytes:
        """The body of `/events`: those after `since`, or the latest."""
        events = self.latest(limit) if since is None else self.since(since, limit)
        first = self._kept[0]["sequence"] if self._kept else self.last + 1
        body = {"broker": broker, "last": self.last, "first_kept": first, "events": events}
        return msgspec.json.encode(body) + b"\n"


def _short(value: Any) -> Any:
    if isinstance(value, int | float | bool) or value is None:
        return value
    text = str(value)
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"
