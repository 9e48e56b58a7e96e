"""The streams of one broker in full dynamic routing: see `routing/streams.py` for the host's part.

At the publisher's host (`sending.py`), a notification stays in the log until all its destinations have confirmed it. It
is resent if it may have been lost, without guessing: the links of its path are known as long as nothing is down. On the
news that a link is down, the host resends every unconfirmed notification whose path crosses that link, or that was sent
while something was down, since then it may have taken any path. A copy that met a dead link before its host knew had
that link on its path, so it is among them. Notifications that a destination requests are resent as well. No timer
decides that something is lost.

At a destination (`receiving.py`, `confirming.py`), copies pass the gate. A copy is matched when it arrives, whether or
not it has to wait, as under every routing. When a subscription is withdrawn, what waits for it is delivered before the
answer, ahead of its turn; if another subscription of the client matches, it keeps its turn, for that one. What waits
has no memory of its own for its recipients, as long as the tables do not change: notifications that match the same
subscriptions share them.

The receipt of copies is confirmed to the host by the same routing: a confirmation takes the path of a copy for one
broker, from neighbour to neighbour together with others, and may be lost like any copy. So on the news that a link is
down, the destination confirms again to hosts whose path from here crosses that link, or that it last confirmed to while
something was down. The next neighbour is chosen when a confirmation is sent on, since it may have waited; the receiver
then knows what its sender knew, as for copies, so confirmations do not run in circles either.

**Nobody is written off.** What a destination that cannot be reached has not confirmed waits in the log, together with
what is published for it meanwhile, until there is no room (`sending.py`). Whatever waits at a destination for something
from a host that cannot be reached waits as well, for `RELEASE_AFTER_S`: the host may have it in its log.

When a destination is back, the host asks for a confirmation first, since the destination may have restarted: then its
registrations are new, and what was published for those of its earlier life is dropped, and counted (`missed`). A
confirmation names the life of its sender, by a serial number that is above all that it used before. The host compares
that with the largest serial number that it had heard from the destination when that went away: in a confirmation, or of
a subscription. If it had heard none, nothing is dropped. In the same life, or if there is anything that was sent since
the destination is back, the host resends what is not confirmed, oldest first.

**Asking.** A host that wants to know what has arrived, before it stops or for a client, asks all destinations that have
not confirmed something (`ask`). They confirm when they have it. A request may be lost like any copy, so it is repeated
on the news that a link is down.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from octopia.errors import RemoteProtocolError
from octopia.language import Notification
from octopia.protocol import AskConfirm, Asked, Confirm, Confirmation, Confirmed, Key, LinkReport, Notify, Stamp
from octopia.routing.actions import Action, Deliver, Recipient, Send, withdraw_from
from octopia.routing.decision import Decision
from octopia.routing.fdr import flood, notify
from octopia.routing.fdr.state import FdrState
from octopia.routing.fdr.streams.confirming import SETTLED, Owed, Together
from octopia.routing.fdr.streams.receiving import Gate, Stream
from octopia.routing.fdr.streams.sending import Block, Entry, StreamLog, places
from octopia.routing.scot.interest import parts
from octopia.routing.streams import Items, OpenStream, Released, Unconfirmed, Unproved
from octopia.topology import BrokerId

# News of a dead broker comes from each of its neighbours; resending waits for all of them.
AGAIN_AFTER_S = 0.05
# A destination that does not know a stream, and has to wait for its beginning, asks for it after this time: it may have
# restarted without the host's noticing.
ASK_AFTER_S = 2.0
# Notifications resent in one call, so that a host has time for others in between.
AGAIN_PER_TICK_MAX = 1_000
# Most brokers that fall silent are back by then: hosts send what others wait for, destinations what they confirm.
RELEASE_AFTER_S = 30.0
# Confirmations in one message, and publishers in one request for them; more make more messages.
CONFIRMATIONS_PER_MESSAGE_MAX = 100
# Publishers of a host that are confirmed again if a confirmation may have been lost: the most recent ones. Unconfirmed
# notifications of others stay in the log until their publisher sends the next one.
CONFIRMED_ANEW_MAX = 1_000

_NOTHING: tuple[Released, ...] = ()
# Avoids the Python call of `Released(...)`: it is made for every copy.
_make = tuple.__new__


class DestStreams:
    """The streams that begin and end at one broker.

    `misaddressed` counts copies whose stamp was not made for this broker; they are dropped.
    `confirmations_total` counts messages with confirmations that were sent from here, `again_total` resent
    notifications.
    """

    __slots__ = (
        "_again",
        "_again_due",
        "_any_order",
        "_ask_due",
        "_asked",
        "_below",
        "_epochs",
        "_found",
        "_heard",
        "_life",
        "_match_key",
        "_me",
        "_prt",
        "_recent",
        "_release_at",
        "_returning",
        "_state",
        "_to_ask",
        "_unreachable",
        "_unsure",
        "again_total",
        "confirmations_total",
        "due",
        "gate",
        "log",
        "misaddressed",
        "owed",
        "place",
        "together",
    )

    def __init__(self, state: FdrState, first_sequence: int = 0) -> None:
        self._state = state
        self._life = first_sequence
        self._prt = state.prt
        self._any_order = state.prt.any_order
        self._match_key, self._found = state.prt.match_key, state.prt.found
        self._me = state.me
        self._below = state.me - 1
        self.place = state.me.bit_length() - 1
        self.log = StreamLog(self.place, first_sequence)
        # what waits has the recipients it had when it arrived, except for those that need not wait
        self.gate: Gate[Released] = Gate()
        self._recent = self.gate.recent
        self.owed = Owed()
        self.together = Together()
        # entries to resend by key, oldest first, and their destinations
        self._again: dict[tuple[int, int], tuple[Entry, int]] = {}
        self._again_due: float | None = None
        self.due: float | None = None
        # hosts that were confirmed to while something was down
        self._unsure: dict[int, None] = {}
        # unreachable brokers, as bits; by place, when that is released which waits for something of theirs
        self._unreachable = 0
        self._release_at: dict[int, float] = {}
        # by place, the largest serial number heard
        self._heard: dict[int, int] = {}
        # by place of a destination that went away: the last block when it was back for the first time after that, since
        # it may have restarted in between (0: it is not back), and the largest serial number heard when it went away
        self._epochs: dict[int, list[tuple[int, int]]] = {}
        # destinations that are back, as bits, of which it is unknown whether they restarted
        self._returning = 0
        # by place, up to which number publishers are to be confirmed; those that were not asked yet
        self._asked: dict[int, dict[str, int]] = {}
        self._to_ask: dict[int, None] = {}
        self._ask_due: float | None = None
        self.misaddressed = 0
        self.confirmations_total = 0
        self.again_total = 0

    @property
    def held_bytes(self) -> int:
        return self.gate.held_bytes

    @property
    def missed(self) -> dict[int, int]:
        """By destination (place), notifications that were dropped while it could not be reached, or restarted."""
        return self.log.missed

    # -- at the publisher's host

    def sent(
        self, publisher: str, id: str, notification: Notification, decision: Decision, size: int = 0
    ) -> Stamp | None:
        dests = decision.dests | decision.missed
        if not dests:
            return None
        unsure = self._state.links.any_down
        priority = max(decision.priorities) if decision.priorities else 0
        return self.log.add(publisher, id, notification, dests, decision.tree, unsure, size, priority)

    def sent_together(
        self,
        publisher: str,
        first: int,
        items: Items,
        decisions: Sequence[Decision],
        which: Sequence[int],
        before: dict[int, int],
        last: dict[int, int],
        size: int,
    ) -> None:
        dests = [decision.dests for decision in decisions]
        trees = [decision.tree for decision in decisions]
        priorities = [max(decision.priorities) if decision.priorities else 0 for decision in decisions]
        unsure = self._state.links.any_down
        self.log.add_block(Block(publisher, first, items, dests, which, before, last, trees, unsure, size, priorities))

    def confirmed(self, by: BrokerId, streams: Iterable[Confirmed], life: int, now: float) -> None:
        """Process a destination's confirmation."""
        dest = self._state.places.brokers[by]
        place = dest.bit_length() - 1
        asked, wanted = self._asked.get(place, {}), list[tuple[Entry, int]]()
        for publisher, upto, again in streams:
            self.log.confirm(publisher, place, upto)
            if asked and asked.get(publisher, upto + 1) <= upto:
                del asked[publisher]
            if again:
                wanted += [(entry, dest) for entry in self.log.pending_at(publisher, place)]
        self._heard[place] = max(life, self._heard.get(place, life))
        if self._returning & dest:
            wanted = self._is_back(place, life)
        if place in self._asked and not asked:
            del self._asked[place]
        self._to_send_again(wanted, now)
        self.renew_due()

    def _is_back(self, place: int, life: int) -> list[tuple[Entry, int]]:
        """It turned out whether a destination that is back restarted: returns what to resend."""
        dest = 1 << place
        self._returning &= ~dest
        ended = [upto for upto, serial in self._epochs.pop(place, ()) if life > serial]
        if ended:
            self.log.drop(place, max(ended))
        # these were only to make it answer
        asked = self._asked.get(place, {})
        for publisher in [publisher for publisher, upto in asked.items() if not upto]:
            del asked[publisher]
        return [(entry, dest) for entry in self.log if entry.pending & dest]

    def ask(self, publisher: str | None, now: float) -> int:
        publishers = None if publisher is None else (publisher,)
        unconfirmed, waits = self.log.unconfirmed(publishers), 0
        for place, wanted in unconfirmed.items():
            waits |= 1 << place
            if self._returning >> place & 1:
                # it is asked already, and gets what it has to confirm after its answer
                continue
            asked = self._asked.setdefault(place, {})
            fresh = {name: upto for name, upto in wanted.items() if asked.get(name, 0) < upto}
            if fresh:
                asked.update(fresh)
                self._to_ask[place] = None
                self._ask_due = now
        self.renew_due()
        return waits & ~self._unreachable

    def _ask(self, out: list[Action]) -> None:
        self._ask_due = None
        to_ask, self._to_ask = self._to_ask, {}
        for place in to_ask:
            asked = self._asked.get(place, {})
            for publisher in [each for each in asked if not self.log.has_unconfirmed(each, place)]:
                del asked[publisher]
            to = self._state.overlay.brokers[place]
            for part in parts([Asked(*each) for each in asked.items()], CONFIRMATIONS_PER_MESSAGE_MAX):
                self.pass_on_request(AskConfirm(self._state.id, to, part), out)
            if not asked:
                self._asked.pop(place, None)

    def unproved(self, publisher: str, upto: int) -> Unproved:
        waits, lost = self.log.waits_for(publisher, upto), self.log.lost.get(publisher, 0)
        brokers = self._state.overlay.brokers
        missing = tuple(brokers[place] for place in places(waits | lost))
        may_come = any(not self._unreachable >> place & 1 or place in self._release_at for place in places(waits))
        return Unproved(missing, not may_come)

    def _to_send_again(self, wanted: list[tuple[Entry, int]], now: float) -> None:
        """Resend these entries to these destinations, soon."""
        if not wanted:
            return
        again = self._again
        for entry, dests in wanted:
            _, earlier = again.get(entry.key, (entry, 0))
            again[entry.key] = entry, earlier | dests
        # as in the log: older ones first
        self._again = dict(sorted(again.items()))
        if self._again_due is None:
            self._again_due = now + AGAIN_AFTER_S

    def _send_again(self, now: float, out: list[Action]) -> None:
        state = self._state
        for key in list(islice(self._again, AGAIN_PER_TICK_MAX)):
            entry, dests = self._again.pop(key)
            dests &= self.log.pending(entry)
            if not dests:
                continue
            tree = state.tree(now)
            stamp = self.log.again(entry, dests, tree, state.links.any_down)
            self.again_total += 1
            notification, id = entry.notification, entry.id
            for to, header in notify.copies_for(state, dests, tree, entry.priority):
                again = Notify(entry.publisher, id, notification, header, stamp)
                out.append(Send(to, again, entry.priority))
        self._again_due = now if self._again else None

    # -- at a destination

    def at_once(self, publisher: str, stamp: Stamp, notification: Notification) -> tuple[Recipient, ...] | None:
        stream = self._recent.get(publisher)
        if stream is None:
            return None
        account, last, number, dests = stream.account, stream.last, stamp.sequence, stamp.dests
        if (
            account.left <= 1
            or not account.is_open
            or number <= last
            or stream.host != stamp.host
            or not dests & self._me
            or number - stamp.gaps[(dests & self._below).bit_count()] > last
        ):
            return None
        account.left -= 1
        stream.last = number
        key = self._match_key(notification)
        return (self._found.get(key) or self._prt.find(key)).recipients

    def in_order(self, publisher: str) -> "OpenStream | None":
        stream = self._recent.get(publisher)
        return stream if stream is not None and stream.account.is_open else None

    def passed(self, stream: "OpenStream", last: int, count: int, now: float) -> None:
        assert isinstance(stream, Stream)  # noqa: S101  one that `in_order` gave
        stream.last = last
        if self.owed.counted(stream.account, count, now):
            self.renew_due()

    def arrived(
        self, publisher: str, stamp: Stamp, notification: Notification, kept: Any, now: float, size: int = 0
    ) -> Sequence[Released]:
        host, number, dests = stamp.host, stamp.sequence, stamp.dests
        if not dests & self._me:
            self.misaddressed += 1
            return _NOTHING
        gate = self.gate
        stream = self._recent.get(publisher)
        if stream is None or stream.host != host:
            stream = gate.stream(host, publisher)
        before = number - stamp.gaps[(dests & self._below).bit_count()]
        last = stream.last
        key = self._match_key(notification)
        recipients = (self._found.get(key) or self._prt.find(key)).recipients
        arrival = _make(Released, (publisher, notification, kept, recipients))
        ready = gate.take(stream, number, before, arrival, size)
        if stream.asks or 0 < stream.wanted <= stream.last:
            wanted = 0 < stream.wanted <= stream.last
            if wanted:
                stream.wanted = 0
            self.owed.by(host, publisher, now, at_once=wanted)
            self.renew_due()
        elif ready or number <= last:
            if self.owed.came(host, publisher, now):
                self.renew_due()
        elif not last and not stream.asked:
            self.owed.by(host, publisher, now + ASK_AFTER_S)
            self.renew_due()
        if stream.order or stream.refused or stream.wanted:
            stream.account = SETTLED
        else:
            stream.account = self.owed.account(host, publisher)
        if ready:
            return [each for each in ready if each.recipients]
        if self._any_order and number in stream.held and stream.held[number][1] is arrival:
            return self._overtake(stream, number)
        return _NOTHING

    def takes_any(self, subscription: Key) -> None:
        self._state.prt.takes_any(subscription)

    def _overtake(self, stream: Stream[Released], number: int) -> Sequence[Released]:
        """Deliver at once to clients that accept any order; the others wait."""
        before, arrival, size = stream.held[number]
        early = self._prt.out_of_order(arrival.recipients)
        if not early:
            return _NOTHING
        rest = tuple(each for each in arrival.recipients if each not in early)
        stream.held[number] = before, arrival._replace(recipients=rest), size
        return (arrival._replace(recipients=early),)

    def withdrawn(self, client: str, subscription: str | None) -> list[Deliver]:
        orders: list[Deliver] = []
        # many have the same recipients, and these may be many
        known: dict[int, tuple[tuple[Recipient, ...], ...]] = {}

        def revised(waiting: Released) -> Released:
            publisher, notification, kept, recipients = waiting
            found = known.get(id(recipients))
            if found is None:
                found = known[id(recipients)] = (*withdraw_from(recipients, client, subscription), recipients)
            rest, last, _ = found
            if last:
                orders.append(Deliver(publisher, kept, notification, last))
            return waiting if rest is recipients else waiting._replace(recipients=rest)

        self.gate.revise(revised)
        return orders

    def asked(self, host: BrokerId, streams: Iterable[Asked], now: float) -> None:
        """A host broker wants to know what has arrived here."""
        place = self._state.places.brokers[host].bit_length() - 1
        for publisher, upto in streams:
            stream = self.gate.stream(place, publisher)
            if upto <= stream.last:
                self.owed.by(place, publisher, now, at_once=True)
            else:
                stream.wanted = max(stream.wanted, upto)
                stream.account = SETTLED
        self.renew_due()

    def _confirm(self, now: float, out: list[Action]) -> None:
        """Send what is due, and everything else that goes to the same neighbours."""
        for owed in self.owed.take_due(now):
            self._owe(*owed, now)
        due = self.together.due_by(now)
        if not due:
            return
        towards = {self._towards(host) for host in due}
        brokers = self._state.overlay.brokers
        for owed in self.owed.take_along(now, lambda host: self._towards(brokers[host]) in towards):
            self._owe(*owed, now)
        going: dict[BrokerId, list[Confirmation]] = {}
        for each in self.together.take(lambda host: self._towards(host) in towards):
            to = self._towards(each.to)
            # without a path, it is confirmed again when there is one
            if to is not None:
                going.setdefault(to, []).append(each)
        for to, confirmations in going.items():
            for part in parts(confirmations, CONFIRMATIONS_PER_MESSAGE_MAX):
                self.confirmations_total += 1
                out.append(Send(to, Confirm(part)))

    def _owe(self, host: int, publishers: list[str], at_once: bool, now: float) -> None:
        """A confirmation of these publishers of a host is to be sent now."""
        state, known = self._state, self.gate.hosts[host]
        told = []
        for publisher in publishers:
            stream = known.get(publisher)
            if stream is not None:
                nothing_yet = not stream.last and bool(stream.order) and not stream.asked
                told.append(Confirmed(publisher, stream.last, stream.asks or nothing_yet))
                stream.asks = False
                stream.asked = stream.asked or nothing_yet
        if state.links.any_down:
            self._unsure[host] = None
        if told:
            to, at_once = state.overlay.brokers[host], at_once or any(each.again for each in told)
            self.together.owe(Confirmation(state.id, to, tuple(told), at_once, self._life), now)

    def _towards(self, broker: BrokerId) -> BrokerId | None:
        """The neighbour to which a confirmation for this broker is given."""
        bit = self._state.places.brokers[broker]
        return next((to for to, reached in self._state.ways if reached & bit), None)

    def pass_on_request(self, request: AskConfirm, out: list[Action]) -> None:
        """A request for another broker. Without a path, its host asks again when there is one."""
        to = self._towards(request.to)
        if to is not None:
            out.append(Send(to, request))

    def pass_on(self, confirmations: Sequence[Confirmation], now: float, out: list[Action]) -> None:
        """Confirmations from a neighbour, for hosts farther on."""
        for each in confirmations:
            self.together.pass_on(each, now)
        self._confirm(now, out)
        self.renew_due()

    # -- time and links

    def renew_due(self) -> None:
        """`due` is kept up to date, since hosts read it after every call; so this is called wherever it may change."""
        again, confirm, spread = self._again_due, self.owed.due, self._state.unspread.due
        waiting, ask = self.together.due, self._ask_due
        if again is None and spread is None and waiting is None and ask is None and not self._release_at:
            self.due = confirm
        else:
            first = (again, confirm, spread, waiting, ask, min(self._release_at.values(), default=None))
            self.due = min(at for at in first if at is not None)

    def tick(self, now: float) -> list[Action]:
        out: list[Action] = []
        flood.spread_due(self._state, now, out)
        self._confirm(now, out)
        if self._again_due is not None and self._again_due <= now:
            self._send_again(now, out)
        if self._ask_due is not None and self._ask_due <= now:
            self._ask(out)
        for place in [place for place, at in self._release_at.items() if at <= now]:
            del self._release_at[place]
            self._release(place, out)
        self.renew_due()
        return out

    def taken(self) -> dict[int, dict[str, int]]:
        return self.gate.taken()

    def unconfirmed(self) -> Iterator[Unconfirmed]:
        for entry in self.log:
            yield Unconfirmed(
                entry.publisher, entry.id, entry.notification, entry.sequence, entry.pending, entry.priority
            )

    def take_up(self, taken: Mapping[int, Mapping[str, int]], unconfirmed: Iterable[tuple[Unconfirmed, int]]) -> None:
        for host, publishers in taken.items():
            for publisher, last in publishers.items():
                self.gate.stream(host, publisher).last = last
        for each, size in unconfirmed:
            self.log.take_up(each, size)

    def leaves(self, now: float) -> bool:
        """Prepare to stop: confirm everything received now. Returns whether nothing is left to confirm."""
        self.owed.hurry_all(now)
        self.together.hurry_all(now)
        self.renew_due()
        return not len(self.owed) and not len(self.together)

    def links_changed(self, reports: Sequence[LinkReport], now: float, out: list[Action]) -> None:
        """Process news of links that the state already has: resend, ask and confirm again."""
        unreachable = self._state.unreachable
        if unreachable != self._unreachable:
            self._reach_changed(unreachable, now)
        down = [(report.reporter, report.neighbour) for report in reports if not report.is_up]
        if down:
            self._send_again_what_crosses(down, now)
            self._confirm_anew(down, now)
            if self._asked:
                self._to_ask.update(dict.fromkeys(self._asked))
                self._ask_due = now + AGAIN_AFTER_S
        self.renew_due()

    def _reach_changed(self, unreachable: int, now: float) -> None:
        gone, back = unreachable & ~self._unreachable, self._unreachable & ~unreachable
        self._unreachable = unreachable
        if gone:
            self._went_away(gone, now)
        if back:
            self._came_back(back, now)

    def _went_away(self, gone: int, now: float) -> None:
        self.log.leave_behind(gone)
        self._returning &= ~gone
        hosts = {self._state.overlay.brokers[place]: place for place in places(gone)}
        for entry in self._prt.matched_with():
            place = hosts.get(entry.key.host)
            if place is not None:
                self._heard[place] = max(entry.key.serial, self._heard.get(place, 0))
        for place in hosts.values():
            self._release_at[place] = now + RELEASE_AFTER_S
            self._asked.pop(place, None)
            epochs, heard = self._epochs.setdefault(place, []), self._heard.get(place)
            if heard is not None and not (epochs and epochs[-1][1] == heard):
                epochs.append((0, heard))

    def _came_back(self, back: int, now: float) -> None:
        self.log.catch_up(back)
        unconfirmed = self.log.unconfirmed()
        for place in places(back):
            self._release_at.pop(place, None)
            for publisher in islice(reversed(self.gate.hosts.get(place, {})), CONFIRMED_ANEW_MAX):
                self.owed.by(place, publisher, now + AGAIN_AFTER_S)
            epochs = self._epochs[place]
            if epochs and not epochs[-1][0]:
                epochs[-1] = self.log.serial, epochs[-1][1]
            if place not in unconfirmed:
                del self._epochs[place]
                continue
            self._returning |= 1 << place
            self._asked[place] = dict.fromkeys(islice(unconfirmed[place], CONFIRMATIONS_PER_MESSAGE_MAX), 0)
            self._to_ask[place] = None
            self._ask_due = now + AGAIN_AFTER_S

    def _send_again_what_crosses(self, down: list[tuple[BrokerId, BrokerId]], now: float) -> None:
        links, cut = self._state.links, dict[int, int]()
        # they get it when they have answered
        later = self._unreachable | self._returning
        wanted = []
        for entry in self.log:
            lost = 0
            for dests, tree, unsure in entry.ways:
                if not unsure and tree not in cut:
                    cut[tree] = _union(links.cut_by(link, tree) for link in down)
                lost |= dests if unsure else dests & cut[tree]
            lost &= entry.pending & ~later
            if lost:
                wanted.append((entry, lost))
        self._to_send_again(wanted, now)

    def _confirm_anew(self, down: list[tuple[BrokerId, BrokerId]], now: float) -> None:
        state = self._state
        cut = _union(state.links.cut_by(link, state.id.cluster) for link in down)
        for host, streams in self.gate.hosts.items():
            if host in self._unsure or cut >> host & 1:
                self._unsure.pop(host, None)
                for publisher in islice(reversed(streams), CONFIRMED_ANEW_MAX):
                    self.owed.by(host, publisher, now + AGAIN_AFTER_S)

    def _release(self, place: int, out: list[Action]) -> None:
        """Deliver what waits for something from a host that stays away."""
        for stream in self.gate.hosts.get(place, {}).values():
            for publisher, notification, kept, recipients in self.gate.release_all(stream):
                if recipients:
                    out.append(Deliver(publisher, kept, notification, recipients))


def make(state: FdrState, first_sequence: int) -> DestStreams:
    """The streams of a broker, which its state knows from now on."""
    state.streams = DestStreams(state, first_sequence)
    return state.streams


def _union(sets: Iterable[int]) -> int:
    union = 0
    for each in sets:
        union |= each
    return union


def receive_confirm(state: FdrState, sender: BrokerId, message: Confirm, now: float, out: list[Action]) -> None:
    """Confirmations on their way to hosts of publishers, or there."""
    brokers = state.places.brokers
    for each in message.confirmations:
        if each.by not in brokers or each.to not in brokers:
            unknown = each.to if each.by in brokers else each.by
            raise RemoteProtocolError(f"{sender} sent a confirmation that names {unknown}, which is not in the overlay")
    for each in message.confirmations:
        if each.to == state.id:
            state.streams.confirmed(each.by, each.streams, each.life, now)
    others = [each for each in message.confirmations if each.to != state.id]
    if others:
        state.streams.pass_on(others, now, out)


def receive_ask_confirm(state: FdrState, sender: BrokerId, message: AskConfirm, now: float, out: list[Action]) -> None:
    """A request to confirm on its way to the destination, or there."""
    brokers = state.places.brokers
    if message.host not in brokers or message.to not in brokers:
        unknown = message.to if message.host in brokers else message.host
        raise RemoteProtocolError(f"{sender} sent a request that names {unknown}, which is not in the overlay")
    if message.to == state.id:
        state.streams.asked(message.host, message.streams, now)
    else:
        state.streams.pass_on_request(message, out)
