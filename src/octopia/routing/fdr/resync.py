"""Resynchronisation after link failures and restarts: which subscriptions a broker may not know, and whom it tells.

The tables are resynchronised as in SCOT routing, whose messages and proof hold here as well (`scot/resync.py`). In
addition, no subscriber is missed in the meantime: a host broker counts as destinations all brokers whose subscriptions
it may not know. So registrations and withdrawals made during an outage need no special path, and cannot overtake each
other: a broker that may not know of them sends everything to that broker, which matches for itself.

**Who may not know.** A broker u has `unlearnt`, the brokers of its cluster whose subscriptions it may not have been
told in full. When its aLink to v goes down, or comes up as a fresh connection, all beyond v join them. u tells its
other primary neighbours, SubscriptionsIncomplete(hosts), which do the same and pass it on; and it tells its secondary
neighbours. When v's word for a host comes, SubscriptionsComplete(hosts), u sweeps what is stale, takes the host out of
`unlearnt`, and passes the word on the same way. A host broker keeps, by cluster, the brokers that the region mate there
named (`untold`). When an iLink comes up, all of that cluster is unknown for every advertisement, until the answer to
it; and the mate names its `unlearnt` anew.

**It is exact.** Let h be a broker and u, v two next to each other on the way to it, v nearer to h. Claim: while the
link is up at u, *u has h in `unlearnt`, or u's table has of h's subscriptions what v's had when v sent what u handled
last; and if v had h in `unlearnt` then, so has u*. When the link comes up, u puts all beyond v into `unlearnt`. v sends
all it has, and then its word for those that are not in its own `unlearnt`: when that comes, u has what v has. From then
on each change of v's table and of its `unlearnt` is sent when it happens, and links keep order. A change of v's table
for h that is caused by a resync beyond v is a change like any other. When the link goes down at u, u puts all beyond v
into `unlearnt` again. By induction along the way to h, which is the only one in a tree: once all is quiet, u has h in
`unlearnt` exactly if a link of that way is down as seen from its end away from h, or has come up and h's word has not
yet come over it; and if not, it has exactly h's subscriptions. The last step, from the mate to the host broker, is the
same: `untold` follows the mate's `unlearnt`, and what is borrowed follows its table (`interest.py`), from the mate's
answer on; before that, the cluster is unknown. So **no broker that has heard of a link failure on the way misses a
subscription**, and in an overlay that is whole and quiet no broker is in doubt.

**No broker waits or gives up**: `LinkGivenUp` changes no table, since doubt costs only copies, and copies to a broker
known to be out of reach are not sent (`FdrState.unreachable`). Entries of a broker that stays away remain in the
tables; its first word when it is back sweeps them. Each link that goes down costs at most one message on every link of
the cluster and of its regions, and one more when it is back.
"""

from octopia.errors import RemoteProtocolError
from octopia.protocol import SubscriptionsComplete, SubscriptionsIncomplete
from octopia.routing.actions import Action, Send
from octopia.routing.fdr import flood
from octopia.routing.fdr.state import FdrState
from octopia.routing.scot import resync as scot
from octopia.routing.scot.advertise import check_i_link
from octopia.routing.scot.interest import parts
from octopia.topology import BrokerId

start_apart = scot.start_apart


def link_went_down(state: FdrState, neighbour: BrokerId, now: float, out: list[Action]) -> None:
    state.link_went_down(neighbour)
    if neighbour in state.a_links:
        _unlearn(state, neighbour, _beyond(state, neighbour), out)
    flood.link_is_down(state, neighbour, now, out)


def link_came_up(state: FdrState, neighbour: BrokerId, now: float, out: list[Action]) -> None:
    if neighbour in state.up:
        # the previous connection ended unnoticed, and messages on it may be lost: everyone has to know
        link_went_down(state, neighbour, now, out)
    if neighbour in state.a_links:
        _unlearn(state, neighbour, _beyond(state, neighbour), out)
    else:
        state.untold.pop(neighbour.cluster, None)
        for entry in state.srt:
            if entry.last_hop is None:
                state.prt.gives_back_all(entry.key, neighbour.cluster)
            elif entry.last_hop == neighbour:
                entry.unknown = state.own_bit
        out.extend(Send(neighbour, SubscriptionsIncomplete(part)) for part in parts(list(state.unlearnt)))
    scot.link_came_up(state, neighbour, now, out)
    flood.link_is_up(state, neighbour, now, out)


def link_given_up(state: FdrState, neighbour: BrokerId, now: float, out: list[Action]) -> None:
    """Leave the tables and the brokers in doubt as they are, but tell all that the link is down."""
    if neighbour not in state.up:
        flood.link_is_down(state, neighbour, now, out)


def receive_subscriptions_incomplete(
    state: FdrState, sender: BrokerId, message: SubscriptionsIncomplete, now: float, out: list[Action]
) -> None:
    if sender in state.a_links:
        beyond = frozenset(_beyond(state, sender))
        for host in message.hosts:
            if host not in beyond:
                raise RemoteProtocolError(f"{sender} spoke for {host} to {state.id}, which does not reach it that way")
        _unlearn(state, sender, list(message.hosts), out)
    else:
        hosts = _hosts_of_mate(state, sender, message)
        state.untold[sender.cluster] = state.untold.get(sender.cluster, 0) | hosts
        state.unlearnt_changed()


def receive_subscriptions_complete(
    state: FdrState, sender: BrokerId, message: SubscriptionsComplete, now: float, out: list[Action]
) -> None:
    if sender in state.a_links:
        scot.receive_subscriptions_complete(state, sender, message, now, out)
        return
    hosts = _hosts_of_mate(state, sender, message)
    left = state.untold.pop(sender.cluster, 0) & ~hosts if message.hosts else 0
    if left:
        state.untold[sender.cluster] = left
    else:
        state.untold.pop(sender.cluster, None)
    state.unlearnt_changed()


def _unlearn(state: FdrState, neighbour: BrokerId, hosts: list[BrokerId], out: list[Action]) -> None:
    """Hosts beyond a neighbour may have subscriptions unknown to this broker: pass on what is new."""
    news = [host for host in hosts if host not in state.unlearnt]
    if not news:
        return
    state.unlearnt.update(dict.fromkeys(news, neighbour))
    state.unlearnt_changed()
    for other in (*state.up_a_links, *state.up_i_links):
        if other != neighbour:
            out.extend(Send(other, SubscriptionsIncomplete(part)) for part in parts(news))


def _beyond(state: FdrState, neighbour: BrokerId) -> list[BrokerId]:
    """The brokers of this cluster to which a primary neighbour leads."""
    if not state.branches:
        scot.know_branches(state, state.overlay)
    return [host for host, branch in state.branches.items() if branch == neighbour]


def _hosts_of_mate(state: FdrState, sender: BrokerId, message: SubscriptionsComplete | SubscriptionsIncomplete) -> int:
    check_i_link(state, sender, message.kind)
    hosts = 0
    for host in message.hosts:
        if host.cluster != sender.cluster or host not in state.places.brokers:
            raise RemoteProtocolError(f"{sender} spoke for {host}, which is not a broker of its cluster")
        hosts |= state.places.brokers[host]
    return hosts
