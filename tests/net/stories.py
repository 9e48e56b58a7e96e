"""Random histories of whole overlays, told to two of them that should not differ.

Clients come with filters of all shapes, advertise, publish in reads of all sizes, change their minds and leave; some
have rights that test values, priorities or deadlines; links are lost and found, or count as overloaded; queues are
full; some notifications are traced, some refused, and some are probes. Bytes arrive when and in what pieces the history
says, the same in both overlays. Two judges:

- After every step, every connection in both overlays was written the same bytes, and every queue holds as much.
- Whenever a history comes to rest, what is published next reaches exactly the clients whose conditions hold, with the
  subscriptions that match, or they are told how many were dropped. `by_hand.py` works that out; it shares nothing with
  the brokers. Before that, nobody may get what he did not ask for, or anything twice.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter, methodcaller
from typing import Any

from octopia.language import parse_filter, parse_notification
from octopia.net import Authority, BrokerHost, ClientEntry, NetLimits, Rights
from octopia.net.broker.qos import Qos
from octopia.routing import LinkSampled
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import (
    Dropped,
    Kind,
    Refused,
    TooOld,
    WireLimits,
    advertise_frame,
    encode_parcel,
    probe_frame,
    publish_frame,
    publisher_of,
    split_frames,
    subscribe_frame,
    unadvertise_frame,
    unsubscribe_frame,
)
from tests.by_hand import TEXTS, USUAL, Condition, Promise, Words, both, either, present
from tests.net.piped import PipedClient, PipedOverlay, StoppedLoop, settled

# One broker costs little, and tables come and go there as in any other.
OVERLAYS = (
    *[("path:1", 1)] * 4,
    ("path:2", 1),
    ("path:2", 2),
    ("path:3", 1),
    ("star:4", 1),
    ("path:2", 3),
    ("path:3", 2),
)
MANY = WireLimits(predicates_max=4_096, patterns_max=10_000)
ROUTINGS = ("snr", "idr", "idr", "fdr", "fdr", "tid", "tid-dynamic")
READS = (1, 30, 200, 1_000, 5_000, 1 << 20)
NANOSECONDS = 1_700_000_000_000_000_000
TOKEN = "a token of the tests"  # noqa: S105


class EverydayWords(Words):
    """As people send them: texts that never repeat, times in nanoseconds, and names in any language."""

    def __init__(self, draw: random.Random, more: int, rare: bool) -> None:
        super().__init__(draw, more, rare)
        self.fresh = draw.choice((0.0, 0.2, 0.9))
        self.names = (*self.names, "größe", "日付")

    def constant(self, name: str) -> Any:
        drawn, draw = super().constant(name), self.draw
        if self.fresh and draw.random() < self.fresh:
            if isinstance(drawn, str):
                return draw.choice(TEXTS) + str(draw.randrange(10**6))
            if not isinstance(drawn, bool):
                return NANOSECONDS + draw.randint(-3, 3)
        return drawn


@dataclass
class Known:
    """What the history knows of one client: its registrations in force, and those that it ever had."""

    subscriptions: dict[str, Condition] = field(default_factory=dict)
    ever: dict[str, Condition] = field(default_factory=dict)
    promises: dict[str, Promise] = field(default_factory=dict)
    sequence: int = 0
    unordered: bool = False
    got: set[tuple[int, str, str]] = field(default_factory=set)


class Story:
    """One history, told to two overlays."""

    shapes: Sequence[tuple[str, int]] = OVERLAYS
    routings: Sequence[str] = ROUTINGS
    has_rights = True  # some stories have
    has_leavers = True

    def __init__(self, seed: int, loop: StoppedLoop) -> None:
        self.loop = loop
        self.draw = draw = random.Random(seed)
        tree, clusters = draw.choice(self.shapes)
        self.scot = Scot(parse_tree(tree), clusters)
        self.routing = draw.choice(self.routings)
        rare = draw.random() < 0.5
        self.words = EverydayWords(draw, more=draw.choice((0, 0, 4, 80)), rare=rare)
        # Values of more than 64 bits end a run for the compiled reader, and `fdr` chooses trees by run: what waits has
        # changed by the next.
        #
        # The compiled reader takes copies with different headers together. A queue over its mark is flushed in the
        # midst of a read, so where an urgent delivery overtakes others depends on that, too: those are left to the
        # second judge.
        self.same_bytes = self.routing != "fdr" or not rare
        self.has_qos = draw.random() < 0.4
        self.fickle = draw.choice((1, 4))  # how often clients change their minds
        self.numbered = 0
        self.wall_s = 1_700_000_000.0
        options: dict[str, Any] = {"routing": self.routing, "wall": lambda: self.wall_s, "wire_limits": MANY}
        if self.has_qos:
            options["qos"] = (Qos(is_timed=True),) * clusters
        # What publications must match, as alternatives of conditions by attribute; None: there are no rights.
        self.right: tuple[dict[str, Condition], ...] = ()
        if self.has_rights and draw.random() < 0.3:
            names = [draw.sample(list(USUAL), draw.choice((1, 1, 2))) for _ in range(draw.choice((1, 1, 2, 5)))]
            self.right = tuple({name: self.words.simple(name) for name in each} for each in names)
            anything = parse_filter("true")
            right = parse_filter(either([both(list(each.values())) for each in self.right]).text)
            rights = Rights("desk", right, anything, probe=True)
            options["authority"] = Authority((ClientEntry(rights, token=TOKEN),), link_token=TOKEN)
        if self.is_covering:
            options["covering"] = draw.choice(("none", "none", "host", "host" if self.routing == "fdr" else "link"))
        # Queues so short that deliveries are dropped, and publishers pause.
        self.is_tight = draw.random() < 0.25
        self.same_bytes = self.same_bytes and not (self.routing == "fdr" and self.is_tight and self.has_qos)
        limits = NetLimits(
            window_frames=draw.choice((8, 4096)),
            heartbeat_s=1e6,
            overload_s=1e6,
            stall_s=1e6,
            link_grace_s=0.5,
            link_give_up_s=2.0,
            client_queue_frames_max=draw.choice((5, 40)) if self.is_tight else 10_000,
            link_queue_frames_max=200 if self.is_tight else 50_000,
        )
        self.overlays: list[PipedOverlay] = []
        for number in range(2):
            SECRETS.use(number)
            self.overlays.append(self.make_overlay(number, limits, options))
        self.known = {f"desk/c{n}": Known() for n in range(draw.randint(3, 6))}
        # by publisher and number
        self.published: dict[tuple[str, str], dict[str, Any]] = {}
        self.refused_wanted: dict[str, list[str]] = {}

    def make_overlay(self, number: int, limits: NetLimits, options: dict[str, Any]) -> PipedOverlay:
        return PipedOverlay(self.scot, number == 0, lambda: self.loop.now_s, limits, **options)

    @property
    def is_covering(self) -> bool:
        return not self.routing.startswith("tid")

    # -- the same for both

    async def tell(self, what: Callable[[PipedOverlay], Any]) -> list[Any]:
        said = []
        for number, overlay in enumerate(self.overlays):
            SECRETS.use(number)
            said.append(what(overlay))
        await settled()
        compiled, reference = (overlay.written() for overlay in self.overlays)
        for name in {**compiled, **reference} if self.same_bytes else ():
            one, other = compiled.get(name, b""), reference.get(name, b"")
            # under fdr, those that must wait for their turn may do so behind those of other publishers
            if one != other and (self.routing != "fdr" or by_publisher(one) != by_publisher(other)):
                raise AssertionError(f"{name}: {shown(one)[-3000:]} instead of {shown(other)[-3000:]}")
        if self.same_bytes:
            compiled_queues, reference_queues = map(queues_of, self.overlays)
            assert compiled_queues == reference_queues
        return said

    async def run(self) -> None:
        for pair in self.overlays[0].pairs:
            await self.tell(methodcaller("link", *pair))
        for name in self.known:
            await self.connect(name)
        await self.rest()
        await self.prepare()
        for _ in range(3):
            for _ in range(self.draw.randint(10, 30)):
                await self.draw.choice(self.steps)()
                self.judge_what_came()
            await self.rest()
            self.judge_what_came()
            await self.judge_a_round()
            if self.draw.random() < 0.3:
                await self.all_change_their_minds()
        self.compare_ends()

    async def prepare(self) -> None:
        if self.draw.random() < 0.5:
            # whatever comes later finds tables that know all usual attributes
            await self.subscribe_to(next(iter(self.known)), self.words.of_all_kinds())

    @property
    def steps(self) -> list[Callable[[], Any]]:
        steps = [
            *[self.subscribe] * 4,
            *[self.unsubscribe] * self.fickle,
            *[self.advertise] * 2,
            self.unadvertise,
            *[self.publish] * 5,
            *[self.some_arrives] * 12,
            self.confirm,
            self.time_passes,
            *[self.leave] * self.has_leavers,
        ]
        if len(self.scot.brokers) > 1 and self.is_covering:
            steps += [self.lose_a_link, self.find_links, self.find_links]
        if len(self.scot.brokers) > 1 and self.routing != "tid":
            steps.append(self.queues_are_long)
        return steps

    # -- what clients do

    def client(self) -> tuple[str, Known]:
        return self.draw.choice(list(self.known.items()))

    async def write(self, name: str, data: bytes) -> None:
        await self.tell(lambda overlay: overlay.clients[name].end.write(data))

    async def connect(self, name: str) -> None:
        at = self.draw.choice(list(self.scot.brokers))
        await self.tell(methodcaller("connect", name, at, TOKEN if self.right else ""))

    async def leave(self) -> None:
        """A client is gone with whatever it has not read, and another comes."""
        name, _ = self.client()
        del self.known[name]
        await self.tell(methodcaller("leave", name))
        self.numbered += 1
        name = f"desk/d{self.numbered}"
        self.known[name] = Known()
        await self.connect(name)

    def new_id(self) -> str:
        self.numbered += 1
        return self.draw.choice(("s", "é", "subscription-")) + str(self.numbered)

    async def subscribe(self) -> None:
        name, _ = self.client()
        await self.subscribe_to(name, *(self.words.subscription() for _ in range(self.draw.choice((1, 1, 3)))))

    async def subscribe_to(self, name: str, *conditions: Condition) -> None:
        draw, known, frames = self.draw, self.known[name], []
        for wanted in conditions:
            id = self.new_id()
            qos: dict[str, int] = {}
            if self.has_qos and draw.random() < 0.6:
                qos = {"priority": draw.randint(0, 3), "deadline_ms": draw.choice((0, 1000, 60_000))}
            ordered = draw.random() < 0.9
            known.unordered |= not ordered
            policy = draw.choice(("block", "drop_oldest", "drop_newest"))
            frames.append(subscribe_frame(id, parse_filter(wanted.text), policy, ordered, **qos))
            known.subscriptions[id] = known.ever[id] = wanted
        await self.write(name, b"".join(frames))

    async def unsubscribe(self) -> None:
        name, known = self.client()
        if known.subscriptions:
            # the latest mostly: old ones keep tables as they are
            id = self.draw.choice([*known.subscriptions, *[list(known.subscriptions)[-1]] * 5])
            del known.subscriptions[id]
            await self.write(name, unsubscribe_frame(id))

    async def all_change_their_minds(self) -> None:
        for name, known in self.known.items():
            await self.write(name, b"".join(map(unsubscribe_frame, known.subscriptions)))
            known.subscriptions.clear()

    async def advertise(self) -> None:
        name, known = self.client()
        id, promise = self.new_id(), self.promise()
        known.promises[id] = promise
        await self.write(name, advertise_frame(id, parse_filter(promise.text)))

    def promise(self) -> Promise:
        """An advertisement, within the right if there is one."""
        drawn = self.words.promise()
        if not self.right:
            return drawn
        allowed = [self.draw.choice(self.right) for _ in drawn.alternatives]
        return Promise(
            tuple(
                {**each, **{name: (condition,) for name, condition in within.items()}}
                for each, within in zip(drawn.alternatives, allowed, strict=True)
            )
        )

    def may_publish(self, publisher: str, values: dict[str, Any]) -> bool:
        if self.right and not any(all(c.holds(values) for c in each.values()) for each in self.right):
            return False
        return any(promise.allows(values) for promise in self.known[publisher].promises.values())

    async def unadvertise(self) -> None:
        name, known = self.client()
        if known.promises:
            id = self.draw.choice(list(known.promises))
            del known.promises[id]
            await self.write(name, unadvertise_frame(id))

    async def publish(self) -> None:
        name, _ = self.client()
        await self.write(name, b"".join(self.publications(name)))

    def publications(self, name: str) -> list[bytes]:
        """Frames for a read: most are plain, some traced, some repeated, some are probes."""
        draw, known, frames = self.draw, self.known[name], []
        for _ in range(draw.choice((1, 1, 2, 4, 6, 15, 40, draw.randint(1, 200)))):
            values = self.words.values()
            if draw.random() < 0.02:
                frames.append(probe_frame(encode_parcel(parse_notification(values), name, 1)))
                continue
            known.sequence += draw.choice((1, 1, 1, 1, 1, 1, 1, 1, 7))
            parcel = encode_parcel(parse_notification(values), name, known.sequence)
            frames.append(publish_frame(parcel, traced=draw.random() < 0.03))
            if draw.random() < 0.02:
                frames.append(frames[-1])
            self.published[name, str(known.sequence)] = values
        return frames

    # -- what happens to connections

    async def some_arrives(self) -> None:
        count = len(list(self.overlays[0].ends()))
        which = self.draw.choices(range(count), k=self.draw.randint(1, count))
        sizes = [self.draw.choice(READS) for _ in which]
        for at, size in zip(which, sizes, strict=True):
            await self.tell(methodcaller("take", at, size))

    async def confirm(self) -> None:
        name, _ = self.client()
        await self.tell(lambda overlay: overlay.clients[name].confirm())

    async def time_passes(self) -> None:
        self.loop.now_s += self.draw.choice((0.05, 0.3, 1.0))
        self.wall_s += self.draw.choice((0.0, 0.05, 2.0))
        await self.tell(PipedOverlay.tick)

    async def lose_a_link(self) -> None:
        pair = self.draw.choice(self.overlays[0].pairs)
        await self.tell(lambda overlay: overlay.lose(pair))

    async def find_links(self) -> None:
        for pair in self.overlays[0].pairs:
            await self.tell(methodcaller("link", *pair))

    async def queues_are_long(self) -> None:
        """Some links count as overloaded until their queues are looked at again."""
        self.loop.now_s += 0.01
        pairs = self.overlays[0].pairs
        for one, other in [*pairs, *((other, one) for one, other in pairs)]:
            queue = self.draw.choice((0, 0, 5, 40))

            def sample(overlay: PipedOverlay, one: BrokerId = one, other: BrokerId = other, queue: int = queue) -> None:
                host = overlay.hosts[one]
                left = host.links[other].queue.left_total
                host.broker.handle(LinkSampled(other, queue, left + queue, left), self.loop.now_s)

            await self.tell(sample)

    async def rest(self) -> None:
        """Everything arrives, and time passes, until nothing happens any more."""
        await self.find_links()
        quiet = 0
        for _ in range(2_000):
            moved = await self.tell(PipedOverlay.take_all)
            await self.tell(PipedOverlay.confirm_all)
            self.loop.now_s += 0.05 if any(moved) else 0.6
            await self.tell(PipedOverlay.tick)
            await self.find_links()
            quiet = 0 if any(moved) else quiet + 1
            if quiet == 8:
                return
        raise AssertionError("it does not come to rest")

    # -- judges

    def judge_what_came(self) -> None:
        """Nothing that was not asked for, nothing twice."""
        for number, overlay in enumerate(self.overlays):
            for name, client in overlay.clients.items():
                known = self.known[name]
                for delivery in client.got:
                    about = delivery.publisher, delivery.id
                    assert (number, *about) not in known.got, "twice"
                    known.got.add((number, *about))
                    assert dict(delivery.notification) == self.published[about]
                    for id in delivery.subscriptions:
                        assert known.ever[id].holds(self.published[about]), (name, id, known.ever[id].text)
                for each in client.told:
                    assert not isinstance(each, Refused) or each.request in ("publish", "probe"), each
                client.got.clear()
                client.told.clear()

    async def judge_a_round(self) -> None:
        """With all at rest, everyone publishes: who gets what is known."""
        before = set(self.published)
        refusals: dict[str, list[str]] = {name: [] for name in self.known}
        for name in self.known:
            await self.write(name, b"".join(self.publications(name)))
        fresh = {about: values for about, values in self.published.items() if about not in before}
        for (publisher, id), values in fresh.items():
            if not self.may_publish(publisher, values):
                refusals[publisher].append(id)
        await self.rest()
        for overlay in self.overlays:
            for name, client in overlay.clients.items():
                told = [each.id for each in client.told if isinstance(each, Refused) and each.request == "publish"]
                assert told == refusals[name], (name, "refused")
                self.judge_deliveries(name, client, fresh, refusals)
        self.judge_what_came()

    def judge_deliveries(
        self, name: str, client: PipedClient, fresh: dict[tuple[str, str], Any], refusals: dict[str, list[str]]
    ) -> None:
        known, got = self.known[name], client.got
        wanted = {}
        for (publisher, id), values in fresh.items():
            ids = tuple(each for each, condition in known.subscriptions.items() if condition.holds(values))
            if ids and id not in refusals[publisher]:
                wanted[publisher, id] = ids
        came = {(each.publisher, each.id): each.subscriptions for each in got}
        dropped = sum(each.count for each in client.told if isinstance(each, Dropped | TooOld))
        if self.is_tight and dropped:
            assert came.items() <= wanted.items(), (name, self.differences(came, wanted))
            assert dropped == len(wanted) - len(came), name
        else:
            assert came == wanted, (name, self.differences(came, wanted))
        # an urgent copy overtakes others, also on its way to clients that are in no hurry; with `tid`, notifications
        # that satisfy different advertisements take different trees
        if not known.unordered and not self.has_qos and self.is_covering:
            for publisher in self.known:
                numbers = [int(each.id) for each in got if each.publisher == publisher]
                assert numbers == sorted(numbers), (name, publisher, "out of order")

    def differences(self, came: dict[Any, Any], wanted: dict[Any, Any]) -> list[tuple[Any, Any]]:
        return [
            (about, (self.published[about], "came", came.get(about), "wanted", wanted.get(about)))
            for about in {**came, **wanted}
            if came.get(about) != wanted.get(about)
        ]

    def compare_ends(self) -> None:
        """What brokers count and trace is the same, and nothing failed."""
        for id in self.scot.brokers:
            compiled, reference = (overlay.hosts[id] for overlay in self.overlays)
            assert compiled.counters.faults == compiled.counters.peers_at_fault == 0
            if self.same_bytes:
                assert counted(compiled) == counted(reference)
                assert compiled.traces.as_json() == reference.traces.as_json()
                assert compiled.report().cases == reference.report().cases
        for overlay in self.overlays:
            overlay.end()


class OverloadedStory(Story):
    """Notifications are published, and arrive, while links count as overloaded, so that copies take detours."""

    shapes = (("path:2", 3), ("path:3", 2), ("path:3", 3))
    routings = ("idr", "idr", "idr", "tid-dynamic", "fdr")
    has_rights = False

    async def prepare(self) -> None:
        """Much is delivered."""
        await super().prepare()
        # trees are chosen by read while links are slow, and each engine divides reads in its own way
        self.same_bytes = self.same_bytes and self.routing != "fdr"
        for name, known in self.known.items():
            id, promise = self.new_id(), Promise(({each: (present(each),) for each in self.words.names},))
            known.promises[id] = promise
            await self.write(name, advertise_frame(id, parse_filter(promise.text)))
            await self.subscribe_to(name, Condition("true", lambda _: True))
        await self.rest()

    @property
    def steps(self) -> list[Callable[[], Any]]:
        return [*super().steps, *[self.publish_while_queues_are_long] * 8]

    async def publish_while_queues_are_long(self) -> None:
        await self.queues_are_long()
        await self.publish()
        for _ in range(self.draw.randint(1, 4)):
            await self.tell(PipedOverlay.take_all)


def by_publisher(data: bytes) -> list[tuple[str, bytes]]:
    """The frames that were written, with deliveries sorted by publisher where nothing else comes between them."""
    found: list[tuple[str, bytes]] = []
    run: list[tuple[str, bytes]] = []
    for frame in split_frames(data):
        if frame[4] == Kind.DELIVER:
            run.append((publisher_of(frame), frame))
        else:
            found += [*sorted(run, key=itemgetter(0)), ("", frame)]
            run = []
    return found + sorted(run, key=itemgetter(0))


def shown(data: bytes) -> str:
    """Frames, for the message of a failed test."""
    return ", ".join(f"{Kind(frame[4]).name} {frame[5:].hex()}" for frame in split_frames(data))


def queues_of(overlay: PipedOverlay) -> dict[Any, Any]:
    """How much every queue holds, and what became of the rest."""
    found: dict[Any, Any] = {}
    for id, host in overlay.hosts.items():
        queues = {name: session.queue for name, session in host.sessions.items()}
        links = {str(neighbour): link.queue for neighbour, link in host.links.items()}
        for name, queue in {**queues, **links}.items():
            found[id, name] = (
                (queue.waits_by_priority, queue.waiting_bytes, queue.sent, queue.confirmed),
                (queue.left_total, queue.untold, queue.dropped_total, queue.too_old_total),
            )
        found[id] = counted(host)
    return found


def counted(host: BrokerHost) -> dict[str, int]:
    return {name: getattr(host.counters, name) for name in host.counters.__slots__}


class Secrets:
    """Stands in for the module `secrets` of brokers: both overlays draw the same."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._drawn = [0, 0]
        self._now = 0

    def use(self, overlay: int) -> None:
        self._now = overlay

    def token_bytes(self, size: int) -> bytes:
        self._drawn[self._now] += 1
        return self._drawn[self._now].to_bytes(size, "big")


SECRETS = Secrets()


def tell(seed: int, kind: type[Story] = Story) -> None:
    loop = StoppedLoop()
    try:
        loop.run_until_complete(_tell(seed, loop, kind))
    finally:
        loop.close()


async def _tell(seed: int, loop: StoppedLoop, kind: type[Story]) -> None:
    SECRETS.begin()
    story = kind(seed, loop)
    try:
        await story.run()
    except Exception as error:
        error.add_note(f"seed {seed}: {story.scot.brokers}, {story.routing}")
        raise
