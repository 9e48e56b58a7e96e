"""Reports to the host brokers of a region: the subscriptions of the reporting broker's cluster that overlap their
advertisements, so that a host broker knows the destinations of its clients' publications.

    CIB_SET(advertisements, subscriptions)   each of these subscriptions overlaps each of these advertisements
    CIB_SET(advertisements)                  some that you do not hold overlap them: any broker of my cluster may host
                                             one, of the priority given here
    CIB_CLEAR(advertisements)                you now hold all that overlap these: those I named, or none if I named none
    CIB_CLEAR((), subscriptions)             these are gone

    SUBSCRIPTIONS_INCOMPLETE(hosts)          I may not know all subscriptions of these, so you do not either
    SUBSCRIPTIONS_COMPLETE(hosts)            now I do; no host named: of all brokers of my cluster

For each advertisement, the neighbour knows whether the host holds all overlapping subscriptions that it knows itself.
If so, each subscription that comes or goes is sent at once, and links keep order, so the host holds exactly those that
overlap once the link is quiet. If not (`SrtEntry.unknown` has our own bit), nothing is sent until all are sent again:
when an iLink came up, and while there are too many of them. A subscription is named together with advertisements, whose
keys are never reused, so a message that crosses a withdrawal leaves nothing behind. Nothing is sent on a link that is
down; the resync after it sends everything again (`resync.py`).
"""

from octopia.protocol import CibClear, CibSet, Lent, SubscriptionsComplete
from octopia.routing.actions import Action, Send
from octopia.routing.entries import PrtEntry, SrtEntry
from octopia.routing.fdr.state import FdrState
from octopia.routing.scot.interest import by_host, cib_set, host_of, parts, tell, tell_lower
from octopia.routing.scot.state import Tells
from octopia.topology import BrokerId

# Subscriptions of one cluster that a host broker holds for one advertisement; if there are more, all brokers of that
# cluster count as destinations, until they are down to half as many. So an advertisement takes at most (k - 1) times
# this many entries.
LENT_MAX = 2_000
# Subscriptions in one message; more make more messages.
LENT_PER_MESSAGE_MAX = 100


def advertised(state: FdrState, entry: SrtEntry, out: list[Action]) -> None:
    if host_of(entry) in state.stale:
        # everything is sent when the resync is complete
        entry.unknown = state.own_bit
    else:
        _lend_all(state, entry, out)


def grew(state: FdrState, subscription: PrtEntry, overlapped: list[SrtEntry], out: list[Action]) -> None:
    if subscription.priority:
        doubtful = _told_in_part(state, overlapped)
        tell(state, (entry for entry in doubtful if subscription.priority > entry.told), out)
    known = [entry for entry in overlapped if not entry.unknown]
    named = by_host(entry for entry in known if entry.interest <= LENT_MAX)
    lent = (_lent(subscription),)
    out.extend(Send(host, CibSet(tuple(named[host]), lent)) for host in state.up_i_links if host in named)
    for entry in known:
        if entry.interest > LENT_MAX and host_of(entry) in state.up:
            _not_in_full(state, entry, out)


def fell(state: FdrState, subscription: PrtEntry, overlapped: list[SrtEntry], out: list[Action]) -> None:
    named = by_host(entry for entry in overlapped if not entry.unknown)
    gone = CibClear((), (subscription.key,))
    out.extend(Send(host, gone) for host in state.up_i_links if host in named)
    for entry in overlapped:
        host = host_of(entry)
        if entry.unknown and entry.interest <= LENT_MAX // 2 and host in state.up and host not in state.stale:
            _lend_all(state, entry, out)
    if subscription.priority:
        tell_lower(state, _told_in_part(state, overlapped), out)


def _told_in_part(state: FdrState, overlapped: list[SrtEntry]) -> list[SrtEntry]:
    """Advertisements whose host was told that it does not hold all overlapping subscriptions."""
    return [entry for entry in overlapped if entry.unknown and host_of(entry) not in state.stale]


def _lent(subscription: PrtEntry) -> Lent:
    return Lent(subscription.key, subscription.filter, subscription.priority)


def answers(state: FdrState, host: BrokerId, out: list[Action]) -> None:
    for entry in state.srt:
        if entry.last_hop == host and entry.unknown:
            _lend_all(state, entry, out)


def learnt(state: FdrState, hosts: list[BrokerId], out: list[Action]) -> None:
    named = list(parts(hosts)) if state.unlearnt else [()]
    out.extend(Send(host, SubscriptionsComplete(part)) for host in state.up_i_links for part in named)


def _lend_all(state: FdrState, entry: SrtEntry, out: list[Action]) -> None:
    host = host_of(entry)
    if entry.interest > LENT_MAX:
        _not_in_full(state, entry, out)
        return
    own = sorted(state.prt.overlapping(entry.filter), key=_key)
    lent = [_lent(subscription) for subscription in own]
    out.extend(Send(host, CibSet((entry.key,), part)) for part in parts(lent, LENT_PER_MESSAGE_MAX))
    if entry.unknown:
        entry.unknown = entry.told = 0
        out.append(Send(host, CibClear((entry.key,))))


def _not_in_full(state: FdrState, entry: SrtEntry, out: list[Action]) -> None:
    entry.unknown = state.own_bit
    out.append(Send(host_of(entry), cib_set([entry])))


def _key(entry: PrtEntry) -> tuple[BrokerId, int]:
    return entry.key


LENDS = Tells(advertised, grew, fell, answers, learnt)
