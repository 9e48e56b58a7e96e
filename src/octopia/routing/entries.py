"""The entries of a broker's tables: one advertisement or one subscription each.

Plain records, modified only by the routing functions. A last hop of None means that a client of this broker registered
the entry.
"""

from collections.abc import Iterable
from operator import attrgetter

from octopia.language import Filter
from octopia.protocol import PRIORITY_MAX, Key
from octopia.routing.actions import Recipient
from octopia.topology import BrokerId


class SrtEntry:
    """An advertisement. `civ` and `interest` are used in SCOT routing only.

    `civ`: at the host broker its own bit (the context bit) and the bits of clusters that want it; at a secondary
    neighbour the host cluster's bit and this cluster's own, ON while `interest` is not 0. `interest` counts the
    subscriptions in this broker's PRT that overlap it. `unknown`, at the host broker: the bits of clusters that have
    not answered since their iLink came up; they count as ON, whatever `civ` says. In full dynamic routing: of clusters
    whose subscriptions it does not hold in full; and at a secondary neighbour the own bit, if the host does not.

    Priorities, None or 0 while nobody has any: `urgent_interest` counts, of `interest`, the subscriptions of priority
    1, 2, …; `told` is, at a secondary neighbour, the priority that the host broker was told last. `urgent`, at the host
    broker, has for each priority from 1 on the bits of clusters that have a subscription of at least that priority.
    """

    __slots__ = ("civ", "filter", "interest", "key", "last_hop", "told", "unknown", "urgent", "urgent_interest")

    def __init__(self, key: Key, filter: Filter, last_hop: BrokerId | None, civ: int = 0) -> None:
        self.key = key
        self.filter = filter
        self.last_hop = last_hop
        self.civ = civ
        self.interest = 0
        self.unknown = 0
        self.urgent: tuple[int, ...] | None = None
        self.urgent_interest: list[int] | None = None
        self.told = 0

    def count_urgent(self, priority: int, more: int) -> None:
        """Change the count of overlapping subscriptions with this priority, which is not 0; `more` may be negative."""
        if self.urgent_interest is None:
            self.urgent_interest = [0] * PRIORITY_MAX
        self.urgent_interest[priority - 1] += more

    @property
    def priority(self) -> int:
        """The priority of the most urgent subscription that is counted in `interest`."""
        if self.urgent_interest is not None:
            for priority in range(PRIORITY_MAX, 0, -1):
                if self.urgent_interest[priority - 1]:
                    return priority
        return 0


class PrtEntry:
    """A subscription. `client` and `id` are set where `last_hop` is None: at its host broker.

    Its priority is the same at every broker and never changes: to change it, withdraw and subscribe again.
    """

    __slots__ = ("client", "filter", "id", "key", "last_hop", "priority")

    def __init__(
        self,
        key: Key,
        filter: Filter,
        last_hop: BrokerId | None,
        client: str = "",
        id: str = "",
        priority: int = 0,
    ) -> None:
        self.key = key
        self.filter = filter
        self.last_hop = last_hop
        self.client = client
        self.id = id
        self.priority = priority


def recipients_of(local: Iterable[PrtEntry]) -> tuple[Recipient, ...]:
    """One recipient per client of this broker, with all its matching subscriptions; both in order of subscription."""
    by_client: dict[str, list[str]] = {}
    for entry in sorted(local, key=_serial):
        by_client.setdefault(entry.client, []).append(entry.id)
    return tuple(Recipient(client, tuple(ids)) for client, ids in by_client.items())


_serial = attrgetter("key.serial")
