"""Reports to the host brokers of a region about the cluster's interest: a bit for each advertisement.

Routings differ in these reports (`Tells`). `snr` and `idr` send a bit, here; `fdr` sends the subscriptions themselves
(`fdr/interest.py`).

CIB_SET is sent when the first overlapping subscription comes, CIB_CLEAR when the last one has gone. CIB_CLEAR is held
back while this broker has yet to learn subscriptions of its cluster, since the bit may be ON because of one of these.
`learnt` sends what was held back.

CIB_SET also carries the priority of the most urgent of them, and is sent again when that changes (`SrtEntry.told` is
the last one sent). A lower priority is held back like CIB_CLEAR. Overlays without priorities send no additional
messages.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from octopia.protocol import CibClear, CibSet, Key
from octopia.routing.actions import Action, Send
from octopia.routing.entries import PrtEntry, SrtEntry
from octopia.routing.priorities import or_none
from octopia.routing.scot.state import ScotState, Tells
from octopia.topology import BrokerId

# Keys or hosts in one message of a resync; more make more messages.
NAMED_PER_MESSAGE_MAX = 1_000

Named = TypeVar("Named")


def advertised(state: ScotState, entry: SrtEntry, out: list[Action]) -> None:
    host = host_of(entry)
    # A broker that has yet to learn its cluster's subscriptions cannot know; it later takes back what was wrong. In the
    # middle of a resync the host knows that already.
    if entry.interest or (state.unlearnt and host not in state.stale):
        out.append(Send(host, cib_set([entry])))


def grew(state: ScotState, subscription: PrtEntry, overlapped: list[SrtEntry], out: list[Action]) -> None:
    tell(state, (entry for entry in overlapped if entry.interest == 1 or subscription.priority > entry.told), out)


def fell(state: ScotState, subscription: PrtEntry, overlapped: list[SrtEntry], out: list[Action]) -> None:
    if not state.unlearnt:
        turned = by_host(entry for entry in overlapped if entry.interest == 0)
        out.extend(Send(host, CibClear(tuple(turned[host]))) for host in state.up_i_links if host in turned)
        forget_told(entry for entry in overlapped if entry.interest == 0)
        if subscription.priority:
            tell_lower(state, overlapped, out)


def answers(state: ScotState, host: BrokerId, out: list[Action]) -> None:
    wanted = [entry for entry in state.srt if entry.last_hop == host and entry.interest]
    out.extend(Send(host, cib_set(part)) for part in parts(wanted))
    if not state.unlearnt:
        _take_back(state, host, out)


def learnt(state: ScotState, hosts: list[BrokerId], out: list[Action]) -> None:
    if not state.unlearnt:
        for host in state.up_i_links:
            _take_back(state, host, out)
        tell_lower(state, (entry for entry in state.srt if entry.last_hop is not None), out)


def cib_set(entries: Sequence[SrtEntry]) -> CibSet:
    """The priorities to send to the host broker of these; they count as told."""
    for entry in entries:
        entry.told = entry.priority
    return CibSet(tuple(entry.key for entry in entries), (), or_none(entry.told for entry in entries) or ())


def tell(state: ScotState, entries: Iterable[SrtEntry], out: list[Action]) -> None:
    """One CIB_SET to each host broker that can be reached."""
    found: dict[BrokerId, list[SrtEntry]] = {}
    for entry in entries:
        found.setdefault(host_of(entry), []).append(entry)
    out.extend(Send(host, cib_set(part)) for host in state.up_i_links if host in found for part in parts(found[host]))


def tell_lower(state: ScotState, entries: Iterable[SrtEntry], out: list[Action]) -> None:
    """The entries whose interest is less urgent than was told."""
    tell(state, (entry for entry in entries if entry.told and entry.interest and entry.priority < entry.told), out)


def forget_told(entries: Iterable[SrtEntry]) -> None:
    """Turn these bits OFF, and reset the priority."""
    for entry in entries:
        entry.told = 0


def _take_back(state: ScotState, host: BrokerId, out: list[Action]) -> None:
    unwanted = [entry for entry in state.srt if entry.last_hop == host and not entry.interest]
    forget_told(unwanted)
    out.extend(Send(host, CibClear(part)) for part in parts([entry.key for entry in unwanted]))


def host_of(entry: SrtEntry) -> BrokerId:
    """The host broker of a secondary neighbour's advertisement: it came from there."""
    return entry.key.host


def by_host(entries: Iterator[SrtEntry]) -> dict[BrokerId, list[Key]]:
    found: dict[BrokerId, list[Key]] = {}
    for entry in entries:
        found.setdefault(host_of(entry), []).append(entry.key)
    return found


def parts(named: Sequence[Named], most: int | None = None) -> Iterator[tuple[Named, ...]]:
    """What is named in each of several messages: in one at most `most`, or `NAMED_PER_MESSAGE_MAX`."""
    size = most or NAMED_PER_MESSAGE_MAX
    for start in range(0, len(named), size):
        yield tuple(named[start : start + size])


BITS = Tells(advertised, grew, fell, answers, learnt)
