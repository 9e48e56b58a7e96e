"""How subscriptions spread along the tree of their cluster: all of them, or those that others do not cover.

    none   every subscription, on every aLink except the one it came from
    host   like none, but of its own clients' subscriptions, a broker sends only those that no other one covers
    link   on each aLink, of the subscriptions from elsewhere, only those that no other one sent there covers

Only senders decide; receivers store everything, and neighbours may have different settings. On each link, new
subscriptions are sent before withdrawals (`covering.py`), so no path is lost and no bit goes OFF even for a moment.
Nothing is sent on a link that is down. The subscriptions in force on it are still tracked, so that a fresh connection
gets the current ones (`resync.py`), and no additional state is kept.

**Words for hosts.** A broker that covers per host sends, for each host, subscriptions of that host that cover all its
subscriptions. Its word for a host therefore has the meaning of `resync.py`: it is enough to sweep the entries of that
host. A broker that covers per link may let one host's subscription represent another's. A neighbour that swept by hosts
would then drop, with a subscription of the one, entries that the other still needs. So such a broker does not name
hosts (`names_hosts`): it gives its word once, for its whole side, when it has had word of all hosts there. Words still
move away from each end of the tree and never wait for the opposite direction.
"""

from collections.abc import Iterator, Sequence

from octopia.protocol import Subscribe, Unsubscribe
from octopia.routing.actions import Action, Send
from octopia.routing.covering import Change, CoverSet, Pool
from octopia.routing.entries import PrtEntry
from octopia.routing.scot.state import ScotState
from octopia.topology import BrokerId


class SendAll:
    """Every subscription, to every primary neighbour."""

    names_hosts = True

    def changed(self, state: ScotState, entry: PrtEntry, came: bool, out: list[Action]) -> None:
        message = subscribe_message(entry) if came else Unsubscribe(entry.key)
        out.extend(Send(neighbour, message) for neighbour in state.up_a_links if neighbour != entry.last_hop)

    def all_for(self, state: ScotState, neighbour: BrokerId) -> Iterator[PrtEntry]:
        return (entry for entry in state.prt if entry.last_hop != neighbour)


class PerHost(SendAll):
    """One set of the broker's own clients' subscriptions, for all its aLinks."""

    def __init__(self) -> None:
        self._own: CoverSet[PrtEntry] = CoverSet()

    def changed(self, state: ScotState, entry: PrtEntry, came: bool, out: list[Action]) -> None:
        if entry.last_hop is None:
            _send(state.up_a_links, self._own.change(entry, came), out)
        else:
            super().changed(state, entry, came, out)

    def all_for(self, state: ScotState, neighbour: BrokerId) -> Iterator[PrtEntry]:
        yield from self._own.sent()
        yield from (entry for entry in state.prt if entry.last_hop not in (None, neighbour))


class PerLink(SendAll):
    """One set per aLink, of all subscriptions that did not come by it."""

    names_hosts = False

    def __init__(self, a_links: tuple[BrokerId, ...]) -> None:
        pool: Pool[PrtEntry] = Pool()
        self._sets: dict[BrokerId, CoverSet[PrtEntry]] = {neighbour: CoverSet(pool) for neighbour in a_links}

    def changed(self, state: ScotState, entry: PrtEntry, came: bool, out: list[Action]) -> None:
        for neighbour, beyond in self._sets.items():
            if neighbour != entry.last_hop:
                change = beyond.change(entry, came)
                if neighbour in state.up:
                    _send((neighbour,), change, out)

    def all_for(self, state: ScotState, neighbour: BrokerId) -> Iterator[PrtEntry]:
        return self._sets[neighbour].sent()


def subscribe_message(entry: PrtEntry) -> Subscribe:
    return Subscribe(entry.key, entry.filter, priority=entry.priority)


def _send(neighbours: Sequence[BrokerId], change: Change[PrtEntry], out: list[Action]) -> None:
    messages: list[Subscribe | Unsubscribe] = [*map(subscribe_message, change.send)]
    messages += map(Unsubscribe, change.withdraw)
    out.extend(Send(neighbour, message) for neighbour in neighbours for message in messages)


def per_host(state: ScotState) -> None:
    state.spread = PerHost()


def per_link(state: ScotState) -> None:
    state.spread = PerLink(state.a_links)
