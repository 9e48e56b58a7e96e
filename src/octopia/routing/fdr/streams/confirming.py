"""What a destination is to confirm, to which host, and when: a message for all publishers of a host at once.

A confirmation is due when `EVERY` notifications of a host have come since the last one, when the host is asked to send
again, and else `AFTER_S` after the first that was not confirmed. Until then it costs nothing but a count. Repeats count
as well: who sends again has not heard.
"""

EVERY = 128
# Of publishers that send rarely each confirmation is for few notifications, and takes as many hops. In the burst at a
# tenth of its size confirmations are 25 % of publishing's messages with 5 s.
AFTER_S = 30.0


class _Owed:
    __slots__ = ("count", "due", "publishers")

    def __init__(self, due: float) -> None:
        self.due = due
        self.count = 0
        self.publishers: dict[str, None] = {}


class Owed:
    """Confirmations that are owed, by host (place). `due` is when the first is."""

    __slots__ = ("_after_s", "_every", "_hosts", "due")

    def __init__(self, every: int = EVERY, after_s: float = AFTER_S) -> None:
        self._every = every
        self._after_s = after_s
        self._hosts: dict[int, _Owed] = {}
        self.due: float | None = None

    def __len__(self) -> int:
        return len(self._hosts)

    def came(self, host: int, publisher: str, now: float) -> bool:
        """A notification of this publisher came. Whether something may be due earlier than before."""
        owed = self._hosts.get(host)
        if owed is None:
            owed = self._hosts[host] = self._new(now + self._after_s)
        elif owed.count < self._every - 1:
            # most often: it is one more
            owed.publishers[publisher] = None
            owed.count += 1
            return False
        owed.publishers[publisher] = None
        owed.count += 1
        if owed.count >= self._every:
            self._hurry(owed, now)
        return True

    def by(self, host: int, publisher: str, due: float) -> None:
        """This publisher is to be confirmed by then."""
        owed = self._hosts.get(host)
        if owed is None:
            owed = self._hosts[host] = self._new(due)
        owed.publishers[publisher] = None
        self._hurry(owed, due)

    def hurry_all(self, now: float) -> None:
        """Whatever is owed is due now."""
        for owed in self._hosts.values():
            self._hurry(owed, now)

    def forget(self, host: int) -> None:
        if self._hosts.pop(host, None) is not None:
            self._renew_due()

    def take_due(self, now: float) -> list[tuple[int, list[str]]]:
        """Hosts whose confirmation is due now, and the publishers to be named; they are owed nothing any more."""
        if self.due is None or now < self.due:
            return []
        ready = [host for host, owed in self._hosts.items() if owed.due <= now]
        taken = [(host, list(self._hosts.pop(host).publishers)) for host in ready]
        self._renew_due()
        return taken

    def _new(self, due: float) -> _Owed:
        if self.due is None or due < self.due:
            self.due = due
        return _Owed(due)

    def _hurry(self, owed: _Owed, due: float) -> None:
        owed.due = min(owed.due, due)
        if self.due is None or owed.due < self.due:
            self.due = owed.due

    def _renew_due(self) -> None:
        self.due = min((owed.due for owed in self._hosts.values()), default=None)
