"""What a destination is to confirm, to which host, and when: a message for all publishers of a host at once.

A confirmation is due when `EVERY` notifications of a host have come since the last one, when the host is asked to send
again, and else `AFTER_S` after the first that was not confirmed. Until then it costs nothing but a count. Repeats count
as well: who sends again has not heard.
"""

EVERY = 128
# Of publishers that send rarely each confirmation is for few notifications, and takes as many hops. In the burst at a
# tenth of its size confirmations are 25 % of publishing's messages with 5 s.
AFTER_S = 30.0


class Account:
    """What is owed to one host. `left`: when so many more have come, it is due; 0: it is, or it was settled.

    So whoever counts down itself for a publisher that is named here, and stops above 1, does what `Owed.came` would.
    """

    __slots__ = ("due", "left", "publishers")

    def __init__(self, due: float, left: int) -> None:
        self.due = due
        self.left = left
        self.publishers: dict[str, None] = {}


# Of a stream that has none.
SETTLED = Account(0.0, 0)


class Owed:
    """Confirmations that are owed, by host (place). `due` is when the first is."""

    __slots__ = ("_after_s", "_every", "_hosts", "due")

    def __init__(self, every: int = EVERY, after_s: float = AFTER_S) -> None:
        self._every = every
        self._after_s = after_s
        self._hosts: dict[int, Account] = {}
        self.due: float | None = None

    def __len__(self) -> int:
        return len(self._hosts)

    def came(self, host: int, publisher: str, now: float) -> bool:
        """A notification of this publisher came. Whether something may be due earlier than before."""
        owed = self._hosts.get(host)
        is_new = owed is None
        if owed is None:
            owed = self._hosts[host] = self._new(now + self._after_s)
        owed.publishers[publisher] = None
        if owed.left > 1:
            owed.left -= 1
            return is_new
        owed.left = 0
        self._hurry(owed, now)
        return True

    def account(self, host: int, publisher: str) -> Account:
        """What is owed to a host, if this publisher is named there; else `SETTLED`."""
        owed = self._hosts.get(host, SETTLED)
        return owed if publisher in owed.publishers else SETTLED

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
        owed = self._hosts.pop(host, None)
        if owed is not None:
            owed.left = 0
            self._renew_due()

    def take_due(self, now: float) -> list[tuple[int, list[str]]]:
        """Hosts whose confirmation is due now, and the publishers to be named; they are owed nothing any more."""
        if self.due is None or now < self.due:
            return []
        taken = []
        next_due = None
        for host, owed in self._hosts.items():
            if owed.due <= now:
                owed.left = 0
                taken.append((host, list(owed.publishers)))
            elif next_due is None or owed.due < next_due:
                next_due = owed.due
        for host, _ in taken:
            del self._hosts[host]
        self.due = next_due
        return taken

    def _new(self, due: float) -> Account:
        if self.due is None or due < self.due:
            self.due = due
        return Account(due, self._every)

    def _hurry(self, owed: Account, due: float) -> None:
        owed.due = min(owed.due, due)
        if self.due is None or owed.due < self.due:
            self.due = owed.due

    def _renew_due(self) -> None:
        self.due = min((owed.due for owed in self._hosts.values()), default=None)
