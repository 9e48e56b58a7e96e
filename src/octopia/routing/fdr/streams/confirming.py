"""Confirmations: those that a destination owes, and those that wait for others that go the same way.

A destination confirms all publishers of a host together: when `EVERY` notifications of that host have arrived since the
last confirmation, when the host is asked to resend, and otherwise `AFTER_S` after the first unconfirmed one. Until then
it costs only a count. Repeats count as well: a host that resends has not received its confirmation.

A message takes along all confirmations that go to the same neighbour: what this broker owes since `AFTER_S` / 2 or
more, and what it was given to pass on. What it was given waits for such a message, for `PASS_ON_AFTER_S` at most. What
is due for another reason than time does not wait anywhere: while much is published, the host's log must not grow.
"""

from collections.abc import Callable

from octopia.protocol import Confirmation, Confirmed
from octopia.topology import BrokerId

EVERY = 128
# If publishers send rarely, each confirmation is for few notifications and takes as many hops. In the burst at a tenth
# of its size, confirmations are 25 % of the messages of publishing with 5 s.
AFTER_S = 30.0
# How long a confirmation waits at each broker on its path for others that go the same way.
PASS_ON_AFTER_S = 5.0
# Publishers in waiting confirmations; at more, nothing waits.
WAITING_MAX = 10_000


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

    def by(self, host: int, publisher: str, due: float, *, at_once: bool = False) -> None:
        """Confirm this publisher by this time; `at_once`: the host waits for it."""
        owed = self._hosts.get(host)
        if owed is None:
            owed = self._hosts[host] = self._new(due)
        if at_once:
            owed.left = 0
        owed.publishers[publisher] = None
        self._hurry(owed, due)

    def hurry_all(self, now: float) -> None:
        """Make all pending confirmations due now, and not because of time."""
        for owed in self._hosts.values():
            owed.left = 0
            self._hurry(owed, now)

    def forget(self, host: int) -> None:
        owed = self._hosts.pop(host, None)
        if owed is not None:
            owed.is_open = False
            self._renew_due()

    def take_due(self, now: float) -> list[tuple[int, list[str], bool]]:
        """Hosts whose confirmation is due now, the publishers to list, and whether it is due for another reason than
        time; afterwards nothing is pending for them."""
        if self.due is None or now < self.due:
            return []
        return self._take(lambda _, owed: owed.due <= now)

    def take_along(self, now: float, goes: Callable[[int], bool]) -> list[tuple[int, list[str], bool]]:
        """Take what has waited for half of its time, for hosts of which `goes` is true."""
        latest = now + self._after_s / 2
        return self._take(lambda host, owed: owed.due <= latest and goes(host))

    def _take(self, wanted: Callable[[int, Account], bool]) -> list[tuple[int, list[str], bool]]:
        taken = [(host, owed) for host, owed in self._hosts.items() if wanted(host, owed)]
        for host, owed in taken:
            owed.is_open = False
            del self._hosts[host]
        self._renew_due()
        return [(host, list(owed.publishers), owed.left <= 0) for host, owed in taken]

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


class Together:
    """Confirmations that wait to be sent, by host broker and destination. `due` is when the first of them is due."""

    __slots__ = ("_after_s", "_count", "_due", "_waiting", "due")

    def __init__(self, after_s: float = PASS_ON_AFTER_S) -> None:
        self._after_s = after_s
        self._waiting: dict[tuple[BrokerId, BrokerId], dict[str, Confirmed]] = {}
        self._due: dict[tuple[BrokerId, BrokerId], tuple[float, bool, int]] = {}
        self._count = 0
        self.due: float | None = None

    def __len__(self) -> int:
        return self._count

    def owe(self, confirmation: Confirmation, now: float) -> None:
        """One from here, due now."""
        self._add(confirmation, now)

    def pass_on(self, confirmation: Confirmation, now: float) -> None:
        """One from a neighbour."""
        self._add(confirmation, now if confirmation.at_once else now + self._after_s)

    def _add(self, confirmation: Confirmation, due: float) -> None:
        """Later confirmations of the same notifications replace earlier ones."""
        by, to, streams, at_once, life = confirmation
        waiting = self._waiting.setdefault((to, by), {})
        self._count -= len(waiting)
        for publisher, upto, again in streams:
            _, earlier, asked = waiting.get(publisher, (publisher, 0, False))
            waiting[publisher] = Confirmed(publisher, max(upto, earlier), again or asked)
        self._count += len(waiting)
        before, was_at_once, earlier_life = self._due.get((to, by), (due, False, life))
        self._due[to, by] = min(due, before), at_once or was_at_once, max(life, earlier_life)
        if self.due is None or due < self.due:
            self.due = due

    def hurry_all(self, now: float) -> None:
        """Make all due now, here and at the brokers on their paths."""
        if self._due:
            self._due = {each: (now, True, life) for each, (_, _, life) in self._due.items()}
            self.due = now

    def due_by(self, now: float) -> list[BrokerId]:
        """The host brokers whose confirmations are due."""
        if self._count > WAITING_MAX:
            return list(dict.fromkeys(to for to, _ in self._due))
        if self.due is None or now < self.due:
            return []
        return list(dict.fromkeys(to for (to, _), (due, _, _) in self._due.items() if due <= now))

    def take(self, goes: Callable[[BrokerId], bool]) -> list[Confirmation]:
        """Take all for host brokers of which `goes` is true."""
        taken = []
        for to, by in [each for each in self._waiting if goes(each[0])]:
            streams = self._waiting.pop((to, by))
            self._count -= len(streams)
            _, at_once, life = self._due.pop((to, by))
            taken.append(Confirmation(by, to, tuple(streams.values()), at_once, life))
        self.due = min((due for due, _, _ in self._due.values()), default=None)
        return taken
