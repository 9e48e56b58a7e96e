"""Resynchronisation of SCOT routing tables after links go down and come up, and after brokers restart.

A link that came up is a fresh connection: messages in flight were lost, and order starts afresh. Both ends mark the
entries they have from the other, resend what the other should have from them, say when that is complete, and then sweep
the entries that are still marked. The event starts a resync, and a message ends it:

    aLink   Subscribe … for all that did not come from that neighbour, but for what these cover (`spread.py`),
            SubscriptionsComplete(hosts)
    iLink   Advertise … for all of this broker's own clients, AdvertisementsComplete; the answer is CIB_SET for all
            advertisements that are wanted here and CIB_CLEAR for all that are not, so that every bit is renewed; until
            the answer names it, an advertisement's bit is unknown to its host broker and counts as ON

A swept entry goes as if it had been withdrawn: passed on, counted, reported with CIB_CLEAR. An entry that is not swept
was never gone: no broker beyond notices, and no CIB message is sent for it.

**Each host broker vouches for its own subscriptions; the others pass its word on.** A broker that restarted knows
nothing of its cluster. It must not claim to have sent everything, or its neighbours would forget what lies beyond it
merely because it is still learning. So it names the hosts whose subscriptions it has sent in full: first itself alone;
then, as word comes on one aLink, it passes that on along the others (`unlearnt` has the hosts it has not had word of
since it started). An entry is swept only by the word for its host. A broker that has had word of all hosts names none:
"all on my side". Having had word of a host once is enough until the next restart: should its own table be behind,
because a link beyond is down, then its neighbour's is now behind in the same way, and each change is passed on when it
comes.

**No broker waits.** Word of a host begins at that host, which depends on no other, and moves away from it along the
tree: a broker passes it on when it comes, and to a link that comes up later at once. In a tree the only way from a host
to a broker is the path between them. So when all links of that path have come up and are quiet, the word has been given
on the present connection of each, and by induction along the path every broker has exactly that host's subscriptions:
the first has what the host has; each next has what the one before has, since it was told all of it, swept the rest, and
got all later changes in order. A link that goes down on the way only ends the induction there: beyond it nothing is
swept or forgotten. Stale subscriptions from before a restart of the host itself go with its first word.

**While it learns**, a broker sends every notification to the neighbours it has yet to learn from (they know better), so
nothing is lost that could have arrived. It also holds CIB_CLEAR back, since the bit may be ON because of a subscription
it has yet to learn, and sends it when the last word comes. A neighbour that stays away would prolong this, so after
`LinkGivenUp` everything beyond it counts as learnt. Brokers that know its subscriptions through this broker then forget
them, and get them again with the link.

**No duplicates, whatever the tables hold.** The last hop of a subscription is the neighbour towards its host, the only
one it can ever come from; a resync adds and drops entries and moves none. Inside a cluster a copy never returns by the
aLink it came by, so in a tree it visits no broker twice; and each bit rides on one copy, so a cluster is entered once.
None of this looks into a table, so a resync can only lose or save a copy, never make a second.
"""

from octopia.protocol import Advertise, AdvertisementsComplete, SubscriptionsComplete
from octopia.routing.actions import Action, Send
from octopia.routing.scot.advertise import check_i_link
from octopia.routing.scot.interest import parts
from octopia.routing.scot.spread import subscribe_message
from octopia.routing.scot.state import ScotState
from octopia.routing.scot.subscribe import check_a_link, drop
from octopia.topology import BrokerId, Scot, civ


def start_apart(state: ScotState, overlay: Scot) -> None:
    """Start with all links down and nothing known of the other brokers of the cluster."""
    state.all_links_down()
    know_branches(state, overlay)
    state.unlearnt = dict(state.branches)
    state.unlearnt_changed()


def know_branches(state: ScotState, overlay: Scot) -> None:
    for region, parent, _ in overlay.tree.walk(state.id.region):
        if parent is not None:
            host = BrokerId(region, state.id.cluster)
            state.branches[host] = host if parent == state.id.region else state.branches[BrokerId(parent, host.cluster)]


def link_went_down(state: ScotState, neighbour: BrokerId, now: float, out: list[Action]) -> None:
    state.link_went_down(neighbour)


def link_came_up(state: ScotState, neighbour: BrokerId, now: float, out: list[Action]) -> None:
    state.link_came_up(neighbour)
    if neighbour in state.a_links:
        state.stale[neighbour] = {entry.key: None for entry in state.prt if entry.last_hop == neighbour}
        entries = state.spread.all_for(state, neighbour)
        out.extend(Send(neighbour, subscribe_message(entry)) for entry in entries)
        learnt = [host for host, branch in state.branches.items() if branch != neighbour and host not in state.unlearnt]
        _vouch(state, neighbour, [state.id, *learnt], out)
    else:
        state.stale[neighbour] = {entry.key: None for entry in state.srt if entry.last_hop == neighbour}
        for advertisement in state.srt:
            if advertisement.last_hop is None:
                advertisement.unknown |= civ.bit(neighbour.cluster)
                out.append(Send(neighbour, Advertise(advertisement.key, advertisement.filter)))
        out.append(Send(neighbour, AdvertisementsComplete()))


def link_given_up(state: ScotState, neighbour: BrokerId, now: float, out: list[Action]) -> None:
    if neighbour not in state.up:
        _learn(state, neighbour, (), out)


def receive_subscriptions_complete(
    state: ScotState, sender: BrokerId, message: SubscriptionsComplete, now: float, out: list[Action]
) -> None:
    check_a_link(state, sender)
    hosts = frozenset(message.hosts)
    stale = state.stale.get(sender, {})
    for key in [key for key in stale if not hosts or key.host in hosts]:
        del stale[key]
        drop(state, key, out)
    _learn(state, sender, message.hosts, out)


def receive_advertisements_complete(
    state: ScotState, sender: BrokerId, message: AdvertisementsComplete, now: float, out: list[Action]
) -> None:
    check_i_link(state, sender, message.kind)
    stale = state.stale.pop(sender, None)
    if stale is None:
        return
    for key in stale:
        state.srt.remove(key)
    state.tells.answers(state, sender, out)


def _learn(state: ScotState, neighbour: BrokerId, hosts: tuple[BrokerId, ...], out: list[Action]) -> None:
    """Handle the word for these hosts, or for all beyond a neighbour, and pass on what is new."""
    named = frozenset(hosts)
    news = [host for host, branch in state.unlearnt.items() if branch == neighbour and (not named or host in named)]
    if not news:
        return
    for host in news:
        del state.unlearnt[host]
    state.unlearnt_changed()
    for other in state.up_a_links:
        if other != neighbour:
            _vouch(state, other, news, out)
    state.tells.learnt(state, news, out)


def _vouch(state: ScotState, neighbour: BrokerId, hosts: list[BrokerId], out: list[Action]) -> None:
    """Announce that these hosts' subscriptions have been sent, or all of them if nothing is left to learn."""
    if all(branch == neighbour for branch in state.unlearnt.values()):
        out.append(Send(neighbour, SubscriptionsComplete()))
    elif state.spread.names_hosts:
        out.extend(Send(neighbour, SubscriptionsComplete(part)) for part in parts(hosts))
