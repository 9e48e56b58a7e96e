"""What a broker tells the host brokers of its region about its cluster's interest: a bit for each advertisement.

`Tells` is all that differs between routings in this: each says what it sends when an advertisement came, when a
subscription came or went, and in a resync. `snr` and `idr` send a bit, here; `fdr` sends the subscriptions themselves
(`fdr/interest.py`).

Rules of this file: CIB_SET when the first overlapping subscription comes, CIB_CLEAR when the last has gone. No
CIB_CLEAR is sent while this broker has yet to learn subscriptions of its cluster: what it has yet to learn may be what
the bit is ON for. `learnt` makes that good.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from octopia.routing.actions import Action, Send
from octopia.routing.entries import PrtEntry, SrtEntry
from octopia.routing.messages import CibClear, CibSet, Key
from octopia.topology import BrokerId

if TYPE_CHECKING:
    from octopia.routing.scot.state import ScotState

# Keys or hosts in one message of a resync; more make more messages.
NAMED_PER_MESSAGE_MAX = 1_000

Named = TypeVar("Named", Key, BrokerId)


class Tells(NamedTuple):
    """Each appends to `out` what is to be sent. Entries of advertisements are those of secondary neighbours."""

    # an advertisement came that was not here; its interest is counted
    advertised: "Callable[[Any, SrtEntry, list[Action]], None]"
    # a subscription came that overlaps these advertisements; it is counted
    grew: "Callable[[Any, PrtEntry, list[SrtEntry], list[Action]], None]"
    # a subscription went that overlapped these advertisements; it is no longer counted
    fell: "Callable[[Any, PrtEntry, list[SrtEntry], list[Action]], None]"
    # on an iLink that came up, the neighbour told all its advertisements
    answers: "Callable[[Any, BrokerId, list[Action]], None]"
    # word came of all subscriptions of these brokers of this cluster; others may be left to learn from
    learnt: "Callable[[Any, list[BrokerId], list[Action]], None]"


def advertised(state: "ScotState", entry: SrtEntry, out: list[Action]) -> None:
    host = host_of(entry)
    # Who has yet to learn the subscriptions of its cluster cannot know; it takes back what turns out to be wrong. In
    # the midst of a resync the host knows that by itself.
    if entry.interest or (state.unlearnt and host not in state.stale):
        out.append(Send(host, CibSet((entry.key,))))


def grew(state: "ScotState", subscription: PrtEntry, overlapped: list[SrtEntry], out: list[Action]) -> None:
    turned = by_host(entry for entry in overlapped if entry.interest == 1)
    out.extend(Send(host, CibSet(tuple(turned[host]))) for host in state.up_i_links if host in turned)


def fell(state: "ScotState", subscription: PrtEntry, overlapped: list[SrtEntry], out: list[Action]) -> None:
    if not state.unlearnt:
        turned = by_host(entry for entry in overlapped if entry.interest == 0)
        out.extend(Send(host, CibClear(tuple(turned[host]))) for host in state.up_i_links if host in turned)


def answers(state: "ScotState", host: BrokerId, out: list[Action]) -> None:
    wanted = [entry.key for entry in state.srt if entry.last_hop == host and entry.interest]
    out.extend(Send(host, CibSet(part)) for part in parts(wanted))
    if not state.unlearnt:
        _take_back(state, host, out)


def learnt(state: "ScotState", hosts: list[BrokerId], out: list[Action]) -> None:
    if not state.unlearnt:
        for host in state.up_i_links:
            _take_back(state, host, out)


def _take_back(state: "ScotState", host: BrokerId, out: list[Action]) -> None:
    unwanted = [entry.key for entry in state.srt if entry.last_hop == host and not entry.interest]
    out.extend(Send(host, CibClear(part)) for part in parts(unwanted))


def host_of(entry: SrtEntry) -> BrokerId:
    """The host broker of a secondary neighbour's advertisement: it came from there."""
    return entry.key.host


def by_host(entries: Iterator[SrtEntry]) -> dict[BrokerId, list[Key]]:
    found: dict[BrokerId, list[Key]] = {}
    for entry in entries:
        found.setdefault(host_of(entry), []).append(entry.key)
    return found


def parts(named: Sequence[Named]) -> Iterator[tuple[Named, ...]]:
    for start in range(0, len(named), NAMED_PER_MESSAGE_MAX):
        yield tuple(named[start : start + NAMED_PER_MESSAGE_MAX])


BITS = Tells(advertised, grew, fell, answers, learnt)
