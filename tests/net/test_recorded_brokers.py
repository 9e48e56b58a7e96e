"""A recorded broker is the broker that users run: it sends the same bytes, and what is recorded is what happened.

The random histories of `stories.py`, told to two overlays with the same engine, one of them recorded. Queues of
clients are short, so that deliveries are dropped; links break, so that copies are sent again or lost; links count as
overloaded, so that copies take detours. The oracle are the bytes at the ends of all connections.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from octopia.language import parse_filter
from octopia.matching import kernels_in_use
from octopia.net import EVENT_COLUMNS, SENT_COLUMNS, NetLimits, Recording, RecordOptions
from octopia.net.broker.live_recording import FactFiles, LiveRecording, fact_table
from octopia.topology import BrokerId
from octopia.trace import content_of
from octopia.wire import (
    COPIES,
    Dropped,
    Kind,
    TooOld,
    advertise_frame,
    delivered_for,
    named_in,
    read_parcel,
    split_frames,
)
from tests.by_hand import Condition
from tests.effort import cases
from tests.net.piped import CODEC, End, PipedOverlay, StoppedLoop
from tests.net.stories import SECRETS, Story

NAMED = frozenset((*COPIES, Kind.DELIVER, Kind.PUBLISH, Kind.PROBE))
# Frames that links exchange beside routing messages.
BESIDE = frozenset(
    kind for kind in Kind if not kind.name.startswith("LINK_") and kind not in (*COPIES, Kind.CONFIRM, Kind.WAITS)
)


class RecordedStory(Story):
    """A history of brokers with one engine; those of the first overlay are recorded. More goes wrong than usual."""

    shapes = (("path:1", 1), ("path:2", 2), ("path:3", 1), ("path:2", 3), ("path:3", 2))
    routings = ("snr", "idr", "idr", "idr", "fdr", "tid")
    has_rights = has_leavers = False

    def __init__(self, seed: int, loop: StoppedLoop, compiled: bool, folder: Path, share: float | None) -> None:
        """`share`: of notifications whose facts are recorded; None: everything is, as in an experiment."""
        self.compiled = compiled
        self.share = share
        self.files = FactFiles(RecordOptions(folder, share or 1.0))
        self.recorders: dict[BrokerId, Any] = {}
        self.told: dict[str, int] = {}
        super().__init__(seed, loop)
        self.same_bytes = True

    def make_overlay(self, number: int, limits: NetLimits, options: dict[str, Any]) -> PipedOverlay:
        limits = limits_with(limits, client_queue_frames_max=self.draw_bound())
        clock = lambda: self.loop.now_s  # noqa: E731
        if number:
            return PipedOverlay(self.scot, self.compiled, clock, limits, **options)
        for id in self.scot.brokers:
            neighbours = self.scot.a_links(id) + self.scot.i_links(id)
            if self.share is None:
                self.recorders[id] = Recording(neighbours, reads=True)
            else:
                self.recorders[id] = LiveRecording(id, neighbours, self.files, self.share)
        return PipedOverlay(self.scot, self.compiled, clock, limits, self.recorders, **options)

    @property
    def steps(self) -> list[Callable[[], Any]]:
        steps = [*super().steps, *[self.advertise, self.publish] * 2]
        if self.lose_a_link in steps:
            steps += [self.lose_a_link, self.find_links, self.queues_are_long, self.queues_are_long] * 3
        return steps

    async def prepare(self) -> None:
        """Little is refused, and much is delivered."""
        await super().prepare()
        names = " and ".join(f"{name} is not null" for name in self.words.names)
        for name in self.known:
            await self.write(name, advertise_frame("all", parse_filter(names)))
            if self.draw.random() < 0.5:
                await self.subscribe_to(name, Condition("true", lambda _: True))
        await self.rest()

    def draw_bound(self) -> int:
        if not hasattr(self, "bound"):
            self.bound = self.draw.choice((4, 30, 1000))
        return self.bound

    async def judge_a_round(self) -> None:
        """Some are dropped: others judge who gets what."""
        for name in self.known:
            await self.write(name, b"".join(self.publications(name)))
        await self.rest()
        self.judge_what_came()

    def judge_what_came(self) -> None:
        for name, client in self.overlays[0].clients.items():
            for told in client.told:
                if isinstance(told, Dropped | TooOld):
                    self.told[name] = self.told.get(name, 0) + told.count
        for overlay in self.overlays:
            for client in overlay.clients.values():
                client.got.clear()
                client.told.clear()

    # -- the oracle

    def is_chosen(self, publisher: str, sequence: int) -> bool:
        return crc32(str(sequence).encode(), crc32(publisher.encode())) / 2**32 < (self.share or 1.0)

    def named(self, data: bytes | bytearray) -> list[tuple[bytes, str, int]]:
        """The frames with chosen notifications."""
        frames = [frame for frame in whole(data) if frame[4] in NAMED]
        return [(frame, *about) for frame in frames if self.is_chosen(*(about := named_in(frame)))]

    def wanted(self) -> dict[str, Counter[Any]]:
        """The facts, as the bytes at the ends of connections tell them."""
        wanted: dict[str, Counter[Any]] = {fact: Counter() for fact in ("publish", "received", "sent", "delivered")}
        for here, there in self.overlays[0].made:
            if "," in here.name.split(" > ")[0]:
                self.add_link(here, wanted)
                self.add_link(there, wanted)
            else:
                self.add_client(there, wanted)
        return wanted

    def add_link(self, end: End, wanted: dict[str, Counter[Any]]) -> None:
        broker, peer = (name.strip("()") for name in end.name.split(" > "))
        for _, *about in self.named(end.said):
            wanted["sent"][broker, peer, *about] += 1
        for frame, *about in self.named(heard_by(end)):
            civ = CODEC.batches.head(frame[4], header_of(frame))[0].civ if frame[4] == Kind.NOTIFY else 0
            wanted["received"][broker, peer, *about, f"{civ:x}" if civ else None] += 1

    def add_client(self, end: End, wanted: dict[str, Counter[Any]]) -> None:
        broker, client = (name.strip("()") for name in end.name.split(" > "))
        for frame, *about in self.named(end.said):
            wanted["delivered"][broker, client, *about, delivered_for(frame)] += 1
        last = -1
        for frame, publisher, sequence in self.named(heard_by(end)):
            if frame[4] == Kind.PUBLISH:
                if sequence <= last:
                    continue
                last = sequence
            values = read_parcel(frame[9 + len(header_of(frame)) :]).to_dict()
            wanted["publish"][broker, publisher, sequence, shown(values)] += 1

    def compare_facts(self) -> None:
        wanted = self.wanted()
        found: dict[str, Counter[Any]] = {fact: Counter() for fact in (*wanted, "dropped")}
        for recorder in self.recorders.values():
            for row in fact_table(recorder.take_part()).to_pylist():
                fact, broker, peer = row["fact"], row["broker"], row["peer"]
                if fact not in found:
                    continue
                assert row["queue"] >= 0
                assert fact in ("publish", "received") or row["from_ns"] <= row["until_ns"]
                whom = row["publisher"], row["sequence"]
                if fact == "publish":
                    found[fact][broker, *whom, shown(content_of(row["content"]))] += 1
                    assert (row["text"] is None) == (row["queue"] == 0)
                elif fact == "delivered":
                    found[fact][broker, peer, *whom, tuple(json.loads(row["text"]))] += 1
                else:
                    found[fact][(broker, peer, *whom, row["text"])[: 5 if fact == "received" else 4]] += 1
        for fact, rows in wanted.items():
            assert found[fact] == rows, (fact, found[fact] - rows, rows - found[fact])
        if self.share == 1:
            dropped = Counter[str]()
            for (_, peer, *_), times in found["dropped"].items():
                dropped[peer] += times
            assert {name: dropped[name] for name in self.overlays[0].clients if dropped[name]} == self.told

    def compare_rows(self) -> None:
        """An experiment: messages in the order in which they left, and what came, with what caused it."""
        overlay = self.overlays[0]
        for id, recording in self.recorders.items():
            sent, events, _ = recording.take()
            words = [*recording.words, ""]
            neighbours = self.scot.a_links(id) + self.scot.i_links(id)
            left = [row for row in lines(sent, SENT_COLUMNS) if row["connection"] >= 0]
            came = lines(events, EVENT_COLUMNS)
            for link, neighbour in enumerate(neighbours):
                ends = [end for pair in overlay.made for end in pair if end.name == f"{id} > {neighbour}"]
                frames = [frame for end in ends for frame in whole(end.said) if frame[4] not in BESIDE]
                wanted = [named_in(frame) if frame[4] in COPIES else ("", 0) for frame in frames]
                rows = [row for row in left if row["link"] == link]
                assert [(words[row["name"]], row["sequence"]) for row in rows] == wanted
                heard = [frame for end in ends for frame in whole(heard_by(end)) if frame[4] not in BESIDE]
                wanted = [named_in(frame) if frame[4] in COPIES else ("", 0) for frame in heard]
                rows = [row for row in came if row["link"] == link]
                assert [(words[row["name"]], row["sequence"]) for row in rows] == wanted
            assert [row["event"] for row in sorted(came, key=lambda row: row["event"])] == list(range(len(came)))
            kinds = {row["event"]: (words[row["kind"]], row["batch"]) for row in came}
            for row in left:
                if words[row["kind"]] == "notify" and row["cause"] >= 0 and self.routing not in ("fdr", "idr"):
                    batch = [r for r in came if r["batch"] == kinds[row["cause"]][1]]
                    assert (row["name"], row["sequence"]) in {(r["name"], r["sequence"]) for r in batch}


def limits_with(limits: NetLimits, **changes: int) -> NetLimits:
    return NetLimits(**{**{name: getattr(limits, name) for name in limits.__dataclass_fields__}, **changes})


def header_of(frame: bytes) -> bytes:
    return frame[9 : 9 + int.from_bytes(frame[5:9], "big")]


def heard_by(end: End) -> bytes | bytearray:
    """What a broker took in: nothing of a connection that it closed in the handshake."""
    return b"" if any(frame[4] == Kind.GOODBYE for frame in whole(end.said)) else end.heard


def whole(data: bytes | bytearray) -> list[bytes]:
    """The frames that are there as a whole."""
    found, at = [], 0
    while at + 4 <= len(data) and at + 4 + int.from_bytes(data[at : at + 4], "big") <= len(data):
        size = 4 + int.from_bytes(data[at : at + 4], "big")
        found += split_frames(bytes(data[at : at + size]))
        at += size
    return found


def shown(values: dict[str, Any]) -> str:
    return repr(sorted(values.items()))


def lines(rows: Any, columns: tuple[str, ...]) -> list[dict[str, int]]:
    width = len(columns)
    return [dict(zip(columns, rows[at : at + width], strict=True)) for at in range(0, len(rows), width)]


def tell(seed: int, compiled: bool, folder: Path, share: float | None) -> None:
    loop = StoppedLoop()

    async def told() -> None:
        SECRETS.begin()
        story = RecordedStory(seed, loop, compiled, folder, share)
        try:
            await story.run()
            story.compare_rows() if share is None else story.compare_facts()
        except Exception as error:
            error.add_note(f"seed {seed}: {story.scot.brokers}, {story.routing}")
            raise
        finally:
            story.files.close()

    try:
        loop.run_until_complete(told())
    finally:
        loop.close()


@pytest.mark.parametrize("share", [1.0, 0.1, None])
@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_a_recorded_broker_sends_the_same_and_records_what_happened(
    engine: str, share: float | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if engine == "compiled" and kernels_in_use() != "numba":
        pytest.skip("numba is not installed")
    monkeypatch.setattr("octopia.net.broker.identity.secrets", SECRETS)
    monkeypatch.setattr("octopia.net.broker.link_proof.secrets", SECRETS)
    monkeypatch.setattr("octopia.net.broker.channels.SLICE_MAX", 0)
    monkeypatch.setattr("octopia.net.broker.host.time.time_ns", lambda: 10**18)
    # facts of a history are one part
    monkeypatch.setattr("octopia.net.broker.live_recording.FACTS_MAX", 1 << 40)
    for seed in range(cases(90)):
        tell(seed, engine == "compiled", tmp_path / str(seed), share)
