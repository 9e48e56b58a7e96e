"""Random stories of two neighbouring brokers, each with both engines: tables grow and shrink between reads.

Subscriptions, clients, publishers, advertisements, attribute names and headers come and go, in small and in large
numbers, so that every array that compiled code reads is made anew, made longer, or shrinks again.
"""

from random import Random
from typing import Any

from octopia.language import parse_filter, parse_notification
from octopia.protocol import Civ, Dests, Key, Notify, Route, Routes, Subscribe, TreeHeader, Unsubscribe
from octopia.routing import (
    POLICIES,
    Advertised,
    ClientLeft,
    LinkSampled,
    Received,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import PLAIN, CopyHeader, encode_parcel, link_frames, probe_frame, publish_frame, wire_notification
from tests.by_hand import Words
from tests.native.engines import Twins, sent

SCOT = Scot(parse_tree("path:2"), 3)
HERE, THERE = BrokerId("a", 0), BrokerId("b", 0)
ROUTINGS = ("snr", "idr", "fdr", "tid", "tid-dynamic")


class Story:
    """Clients and neighbours that are played, at two brokers that are real."""

    def __init__(self, routing: str, draw: Random) -> None:
        self.draw = draw
        self.routing = routing
        self.words = Words(draw, more=draw.choice((0, 4, 80)), rare=draw.random() < 0.5)
        timed, observed = draw.random() < 0.3, draw.random() < 0.5
        self.twins = {id: Twins(id, SCOT, routing, timed=timed, observed=observed) for id in (HERE, THERE)}
        self.now = 0.0
        self.serial = 0
        self.sequences: dict[str, int] = {}
        self.advertised: dict[tuple[BrokerId, str], list[str]] = {}
        self.subscribed: dict[tuple[BrokerId, str], list[str]] = {}
        self.remote: dict[BrokerId, list[tuple[BrokerId, Subscribe]]] = {HERE: [], THERE: []}
        for id in self.twins:
            for name in ("p", "q"):
                self.join(id, f"{name}{id.region}")

    # -- what happens

    def join(self, id: BrokerId, name: str) -> None:
        right = None
        if self.draw.random() < 0.2:
            listed = ", ".join(f"'{text}'" for text in ("A", "AA", "AAPL", "AMD", "IBM", "é", "日", "B%", "x", "y"))
            right = parse_filter(f"price is not null or symbol in ({listed}) and size is not null")
        self.twins[id].connect(name, right)
        self.advertised.setdefault((id, name), [])
        self.subscribed.setdefault((id, name), [])

    def advertise(self) -> None:
        id, name = self.draw.choice(sorted(self.advertised))
        own = self.advertised[id, name]
        if own and self.draw.random() < 0.4:
            self.tell(id, Unadvertised(name, own.pop(self.draw.randrange(len(own)))))
            return
        for _ in range(self.draw.choice((1, 1, 1, 70))):
            self.serial += 1
            own.append(str(self.serial))
            self.tell(id, Advertised(name, own[-1], parse_filter(self.words.promise().text)))

    def subscribe(self) -> None:
        draw = self.draw
        clients = sorted(self.subscribed)
        for _ in range(draw.choice((1, 1, 3, 40, 300))):
            id, name = draw.choice(clients)
            self.serial += 1
            # subscribers to the same things share their bytes if their ids are equal
            text = draw.choice(("", "s" * draw.randrange(1, 60), "é")) + str(self.serial % draw.choice((5, 10**6)))
            if text in self.subscribed[id, name]:
                continue
            self.subscribed[id, name].append(text)
            filter = parse_filter(self.words.subscription().text)
            self.tell(id, Subscribed(name, text, filter, draw.random() < 0.8, draw.choice((0, 0, 0, 1, 3))))

    def unsubscribe(self) -> None:
        draw = self.draw
        for _ in range(draw.choice((1, 3, 200))):
            holders = [key for key, ids in sorted(self.subscribed.items()) if ids]
            if not holders:
                return
            id, name = draw.choice(holders)
            own = self.subscribed[id, name]
            self.tell(id, Unsubscribed(name, own.pop(draw.randrange(len(own)))))

    def crowd(self) -> None:
        """Many clients come, each with a subscription."""
        id = self.draw.choice((HERE, THERE))
        filter = parse_filter(self.words.subscription().text)
        for _ in range(self.draw.choice((3, 60))):
            self.serial += 1
            self.join(id, f"c{self.serial}")
            self.subscribed[id, f"c{self.serial}"].append("s")
            self.tell(id, Subscribed(f"c{self.serial}", "s", filter))

    def leave(self) -> None:
        """Clients leave for good."""
        draw = self.draw
        crowd = [key for key in sorted(self.subscribed) if key[1].startswith("c")]
        for id, name in crowd if draw.random() < 0.3 else crowd[:2]:
            del self.subscribed[id, name], self.advertised[id, name]
            self.tell(id, ClientLeft(name))
            self.twins[id].disconnect(name)

    def subscribe_far(self) -> None:
        """A neighbour that is played subscribes, or withdraws: new ways."""
        draw = self.draw
        id = draw.choice((HERE, THERE))
        known = self.remote[id]
        for _ in range(draw.choice((1, 5, 90))):
            if known and draw.random() < 0.4:
                sender, message = known.pop(draw.randrange(len(known)))
                self.tell(id, Received(sender, Unsubscribe(message.key, message.tids)))
                continue
            # any broker may be the host, so that a routing that distinguishes hosts has many ways
            sender = BrokerId("b", 0) if id == HERE else BrokerId("a", 0)
            self.serial += 1
            host = BrokerId(sender.region, 0)
            tids = tuple(entry.key for entry in self.twins[id].core.state.srt) if "tid" in self.routing else ()
            if "tid" in self.routing and not tids:
                return
            some = tuple(tid for tid in tids if draw.random() < 0.7) or tids
            subscription = parse_filter(self.words.subscription().text)
            made = Subscribe(Key(host, 10**6 + self.serial), subscription, some, draw.choice((0, 0, 2)))
            known.append((sender, made))
            self.tell(id, Received(sender, made))

    def sample(self) -> None:
        """The queue of a link is long, or empty again."""
        id = self.draw.choice((HERE, THERE))
        neighbour = self.draw.choice(tuple(self.twins[id].core.state.neighbours))
        length = self.draw.choice((0, 0, 50, 1000))
        self.tell(id, LinkSampled(neighbour, length, length, 0))

    def pass_time(self) -> None:
        self.now += self.draw.choice((0.01, 0.5, 3.0))
        for twins in self.twins.values():
            due = twins.core.due
            if due is not None and due <= self.now:
                twins.tick(self.now)
            twins.check_time(self.now)

    def tell(self, id: BrokerId, event: Any) -> None:
        """An event, and whatever the brokers that are real tell each other because of it."""
        waiting = [(id, event)]
        while waiting:
            at, happened = waiting.pop(0)
            actions = self.twins[at].handle(happened, self.now)
            other = THERE if at == HERE else HERE
            waiting += [(other, Received(at, message)) for message in sent(actions, other)]

    # -- reads

    def publish(self) -> None:
        """A client publishes, and the copies for the other broker arrive there."""
        draw = self.draw
        id, name = draw.choice(sorted(self.advertised))
        count = draw.choice((1, 1, 2, 5, 30, 200))
        data = self.frames(name, count if self.is_steady(id) else 1)
        if draw.random() < 0.05:
            data = self.broken(data)
        copies = self.twins[id].publish(name, data, self.now)
        self.pass_on(id, copies)

    def is_steady(self, id: BrokerId) -> bool:
        """Whether it does not matter which notifications are decided about together.

        Otherwise those that are take one tree, and the next may take another.
        """
        steady = POLICIES[self.routing].is_steady
        return steady is None or steady(self.twins[id].core.state, self.now)

    def pass_on(self, id: BrokerId, copies: dict[BrokerId, bytes]) -> None:
        other = THERE if id == HERE else HERE
        if copies.get(other):
            data = self.broken(copies[other]) if self.draw.random() < 0.05 else copies[other]
            self.twins[other].receive(id, data, self.now)

    def receive(self) -> None:
        """Copies from neighbours that are played, with headers of all kinds."""
        draw = self.draw
        id = draw.choice((HERE, THERE))
        sender = draw.choice(tuple(self.twins[id].core.state.neighbours))
        frames = []
        for _ in range(draw.choice((1, 3, 20, 150))):
            publisher = f"far{draw.randrange(draw.choice((1, 3, 900)))}"
            sequence = self.next_of(publisher)
            seen = wire_notification(parse_notification(self.words.values()), publisher, sequence)
            said = draw.choice((PLAIN, PLAIN, PLAIN, PLAIN, CopyHeader(traced=True), CopyHeader(earlier=3, hold_ms=50)))
            frames += link_frames(Notify(publisher, str(sequence), seen, self.header(id)), said)
        self.pass_on(id, self.twins[id].receive(sender, b"".join(frames), self.now))

    def header(self, id: BrokerId) -> Any:
        draw, kind = self.draw, POLICIES[self.routing].header
        keys = [entry.key for entry in self.twins[id].core.state.srt] or [Key(THERE, 0)]
        if kind is Civ:
            return Civ(draw.choice((0, 0, 0, 0b010, 0b100, 0b110)))
        if kind is TreeHeader:
            return TreeHeader(draw.choice(keys))
        if kind is Dests:
            return Dests(1 << draw.randrange(SCOT.broker_count))
        return Routes((Route(draw.choice(SCOT.brokers), draw.choice(keys), ()),))

    def frames(self, name: str, count: int) -> bytes:
        draw = self.draw
        made = []
        for _ in range(count):
            values = self.words.values()
            if draw.random() < 0.02:
                # names that nobody has used
                values = {**values, f"n{self.serial}-{draw.randrange(10**6)}": 1}
            sequence = self.next_of(name) if draw.random() < 0.99 else max(0, self.sequences.get(name, 0) - 1)
            owner = name if draw.random() < 0.998 else "somebody"
            parcel = encode_parcel(parse_notification(values), owner, sequence)
            how = draw.random()
            made.append(
                publish_frame(parcel) if how < 0.98 else publish_frame(parcel, traced=how < 0.99) if how < 0.995
                else probe_frame(parcel)
            )  # fmt: skip
        return b"".join(made)

    def next_of(self, publisher: str) -> int:
        self.sequences[publisher] = self.sequences.get(publisher, 0) + self.draw.choice((1, 1, 1, 2))
        return self.sequences[publisher]

    def broken(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.draw.randint(1, 3)):
            changed[self.draw.randrange(len(changed))] = self.draw.randrange(256)
        return bytes(changed)

    def play(self, steps: int) -> None:
        rare = (
            self.advertise, self.subscribe, self.unsubscribe, self.crowd, self.leave, self.subscribe_far, self.sample,
            self.pass_time,
        )  # fmt: skip
        for _ in range(3):
            self.advertise()
        for _ in range(steps):
            if self.draw.random() < 0.4:
                self.draw.choice(rare)()
            else:
                self.draw.choice((self.publish, self.publish, self.receive))()
