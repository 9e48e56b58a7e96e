"""Pending confirmations of a destination, by host: one message confirms all publishers of a host.

A confirmation is due when `EVERY` notifications of a host have arrived since the last one, when the host is asked to
resend, and otherwise `AFTER_S` after the first unconfirmed one. Until then it costs only a count. Repeats count as
well: a host that resends has not received its confirmation.
"""

EVERY = 128
# If publishers send rarely, each confirmation is for few notifications and takes as many hops. In the burst at a tenth
# of its size, confirmations are 25 % of the messages of publishing with 5 s.
AFTER_S = 30.0


class Account:
    """Pending confirmations for one host. `left`: due after this many more notifications.

    `is_open`: its confirmation has not been sent. As long as that is so, further notifications of a publisher that is
    listed need only be counted (`Owed.counted`).
    """

    __slots__ = ("due", "is_open", "left", "publishers")

    def __init__(self, due: float, left: int, is_open: bool = True) -> None:
        self.due = due
        self.left = left
        self.is_open = is_open
        self.publishers: dict[str, None] = {}


# For a stream without one.
SETTLED = Account(0.0, 0, False)


class Owed:
    """Pending confirmations by host (place). `due` is when the first is due."""

    __slots__ = ("_after_s", "_every", "_hosts", "due")

    def __init__(self, every: int = EVERY, after_s: float = AFTER_S) -> None:
        self._every = every
        self._after_s = after_s
        self._hosts: dict[int, Account] = {}
        self.due: float | None = None

    def __len__(self) -> int:
        return len(self._hosts)

    def came(self, host: int, publisher: str, now: float) -> bool:
        """A notification of this publisher arrived. Returns whether something may be due earlier than before."""
        owed = self._hosts.get(host)
        is_new = owed is None
        if owed is None:
            owed = self._hosts[host] = self._new(now + self._after_s)
        owed.publishers[publisher] = None
        return self.counted(owed, 1, now) or is_new

    def counted(self, owed: Account, count: int, now: float) -> bool:
        """So many notifications of a listed publisher arrived. Returns whether something is due earlier than before."""
        before, owed.left = owed.left, owed.left - count
        if before > 0 >= owed.left:
            self._hurry(owed, now)
            return True
        return False

    def account(self, host: int, publisher: str) -> Account:
        """The account of a host, if this publisher is listed there; else `SETTLED`."""
        owed = self._hosts.get(host, SETTLED)
        return owed if publisher in owed.publishers else SETTLED

    def by(self, host: int, publisher: str, due: float) -> None:
        """Confirm this publisher by this time."""
        owed = self._hosts.get(host)
        if owed is None:
            owed = self._hosts[host] = self._new(due)
        owed.publishers[publisher] = None
        self._hurry(owed, due)

    def hurry_all(self, now: float) -> None:
        """Make all pending confirmations due now."""
        for owed in self._hosts.values():
            self._hurry(owed, now)

    def forget(self, host: int) -> None:
        owed = self._hosts.pop(host, None)
        if owed is not None:
            owed.is_open = False
            self._renew_due()

    def take_due(self, now: float) -> list[tuple[int, list[str]]]:
        """Hosts whose confirmation is due now, and the publishers to list; afterwards nothing is pending for them."""
        if self.due is None or now < self.due:
            return []
        taken = []
        next_due = None
        for host, owed in self._hosts.items():
            if owed.due <= now:
                owed.is_open = False
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
