"""The compiled engine: everyday notifications in a few compiled calls per read, everything else by the reference.

    bytes ─ read ─▶ columns ─ match ─▶ rows and groups ─ decide ─▶ plans ─ make frames ─▶ a piece of bytes per queue
          read_numba         read_numba              Python: once per group        frames_numba

A *group* is what the core decides about at once: notifications of a read that go the same ways under the same header.
Python is involved once per read, per group and per queue.

A read is taken up to a notification that is not for compiled code: one that is refused, traced or a probe, has a value
of more than 64 bits or very many attributes, or whose copy takes a detour. At its turn it goes through the reference,
alone. So does everything while copies of earlier notifications are out of order (`order.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from octopia.matching.tokens import HEADER, SEQUENCE, SIGNATURE, STOP
from octopia.net.broker.engine.arrays import (
    CHOSEN_BYTES,
    CHOSEN_FRAMES,
    CHOSEN_NOTES,
    CHOSEN_STARTS,
    DELIVERS,
    DEST_STARTS,
    DESTS,
    EXPECTED,
    FIRSTS,
    FOUND,
    GROUPS,
    HEADER_BYTES,
    HEADERS,
    LANES,
    LATE,
    LOCAL,
    LOG,
    MASKS,
    PLAN,
    PLAN_STARTS,
    SENT_TO,
    SETS,
    STAMP_FLAGS,
    STAMP_SETS,
    STAMP_SETS_AT,
    STAMPS,
    STREAM_COUNT,
    STREAM_HOST,
    STREAM_LAST,
    Arrays,
)
from octopia.net.broker.engine.order import Order
from octopia.net.broker.engine.outcome import (
    NOTE_PUBLISHER,
    Addressed,
    Carried,
    Destination,
    Numbers,
    Outcome,
    Sample,
)
from octopia.net.broker.engine.publisher import Publisher
from octopia.net.broker.engine.reference import EngineClient, EngineLink, ReferenceEngine
from octopia.net.broker.engine.terms import Programs, Promise
from octopia.net.broker.operations.cases import CaseCounts
from octopia.net.frame_queue import Bundle
from octopia.protocol import PLAIN, Header
from octopia.routing import Broker, Decision, Registered, Values
from octopia.sheets import Sheet
from octopia.topology import BrokerId, civ
from octopia.wire import (
    Codec,
    Heads,
    Kind,
    Scanner,
    Unread,
    WireNotification,
    copy_heads,
    msgpack_text,
    read_parcel,
    split_frames,
    split_stamp,
    stamp_set_of,
)
from octopia.wire.scanner import HEADERS as READ_HEADERS
from octopia.wire.scanner import NOTES, PUBLISHERS

# Programs that publishers share, and plans of decisions; at the bound all are forgotten.
PROGRAMS_MAX: Final = 256
PLANS_MAX: Final = 16_384
# How often a read is scanned again from its beginning after something was learnt; then it is taken in pieces.
LESSONS_MAX: Final = 16
# Headers of copies that are kept for compiled code; at the bound all are forgotten, with all plans.
HEADERS_MAX: Final = 4_096
# The room for the output of a read may be larger than this, which thousands of recipients need, for this long.
OUTPUT_KEPT_BYTES: Final = 64 * 1024 * 1024
SHRINK_S: Final = 1.0
# Of a frame with a notification, before its header.
_HEAD_BYTES: Final = 9
# Copies with one header from one neighbour all get the same decision.
_ONE: tuple[Values, ...] = ({},)
_ONE_GROUP: Final = [(0, b"")]
_PLAIN_ONLY: Final[list[Header]] = [PLAIN]
# In place of a number of ways: do not match, or match without groups.
NO_MATCH: Final = -2
NO_GROUPS: Final = -1


class Plan:
    """What a decision means for a group of notifications.

    `copies`: the destinations of copies, and their headers, by number. `delivers`: local matches are delivered to.
    `is_unusual`: they are for the reference, since copies take a detour or cannot be sent. Of a routing with streams,
    for publications: `dests` are the places of destinations, `stamp_flags` and `stamp_set` what stamps have of them.
    """

    __slots__ = ("copies", "decision", "delivers", "dests", "is_unusual", "stamp_flags", "stamp_set")

    def __init__(self, decision: Decision, copies: list[tuple[int, int]], delivers: bool, is_unusual: bool) -> None:
        self.decision = decision
        self.copies = copies
        self.delivers = delivers
        self.is_unusual = is_unusual
        self.dests: tuple[int, ...] = ()
        self.stamp_flags = 0
        self.stamp_set = b""


class LoggedFrames:
    """Notifications of a read that are kept until they are confirmed, as stamped frames."""

    __slots__ = ("_data", "_frames")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._frames: list[bytes] = []

    def id(self, at: int) -> str:
        return str(self.notification(at).sequence)

    def notification(self, at: int) -> WireNotification:
        self._frames = self._frames or split_frames(self._data)
        return read_parcel(split_stamp(self._frames[at][_HEAD_BYTES:])[1])


class Expected:
    """What was decided about the last read of a source that was one group: most often the next is like it.

    It holds in its epoch. `mask` are the advertisements that were satisfied, `ways` those of the group, of
    `ways_count` that there are.
    """

    __slots__ = ("epoch", "mask", "plans", "ways", "ways_count")

    def __init__(self, epoch: int, mask: int, ways: bytes, ways_count: int, plans: list[Plan]) -> None:
        self.epoch = epoch
        self.mask = mask
        self.ways = ways
        self.ways_count = ways_count
        self.plans = plans


# No epoch.
_NEVER: Final = -2
_NOTHING: Final = Expected(_NEVER, -1, b"", 0, [])


class Own:
    """What the engine keeps for a publisher: its programs, as long as its advertisements stay as they are."""

    __slots__ = ("_satisfied", "advertised", "epoch", "expected", "name", "names", "programs")

    def __init__(self, name: str, advertised: list[Registered], programs: Programs, names: object) -> None:
        self.name = np.frombuffer(name.encode(), dtype=np.uint8)
        self.advertised = advertised
        self.programs = programs
        self.names = names  # those that the signatures of the programs are of
        self._satisfied: dict[int, list[Registered]] = {}
        self.epoch = _NEVER  # in which all this is right
        self.expected = _NOTHING

    def satisfied(self, mask: int) -> list[Registered]:
        """The advertisements that a notification satisfies, given as bits."""
        known = self._satisfied.get(mask)
        if known is None:
            known = self._satisfied[mask] = [own for at, own in enumerate(self.advertised) if mask >> at & 1]
        return known


class CopyHeaders:
    """Headers of copies in the form that compiled code takes. Few distinct ones occur."""

    def __init__(self, arrays: Arrays) -> None:
        self._sheet = arrays.sheet
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._end = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, heads: Heads) -> int:
        """The number of the header with these heads."""
        key = (int(heads.kind), heads.header)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            begin, self._end = self._end, self._end + len(heads.header)
            if number >= len(self._sheet[HEADERS]):
                self._sheet.grow(HEADERS, 2 * number)
            if self._end > len(self._sheet[HEADER_BYTES]):
                self._sheet.grow(HEADER_BYTES, 2 * self._end)
            self._sheet[HEADERS][number] = begin, len(heads.header), key[0]
            self._sheet[HEADER_BYTES][begin : self._end] = np.frombuffer(heads.header, dtype=np.uint8)
        return number

    def forget(self) -> None:
        self._numbers.clear()
        self._end = 0


class ReadNotes(Struct, eq=False):
    """The notifications of a read, for observers; valid until the next read.

    `found`: how many destinations have frames; `spans` are those of the bundles. `publisher`: that of all, or None.
    """

    kernel: Any
    scan: Sheet
    arrays: Arrays
    data: npt.NDArray[np.uint8]
    count: int
    found: int
    spans: list[int]
    plans: list[Plan]
    heads: Sequence[Header]
    publisher: str | None

    @property
    def told(self) -> int:
        return len(self.spans)

    def sample(self, below: int, parcels: bool) -> Sample | None:
        sheet = self.arrays.sheet
        while True:
            notes, frames, of_parcels, size = self.kernel(
                self.data, self.count, self.found, below, parcels, self.scan.address, sheet.address
            )
            if size <= len(sheet[CHOSEN_BYTES]):
                break
            sheet.put(CHOSEN_BYTES, np.zeros(2 * size, dtype=np.uint8))
        if not notes:
            return None
        lines = sheet[CHOSEN_NOTES][:notes].copy()
        chosen = bytes(sheet[CHOSEN_BYTES].data[:size])
        names = [self.publisher] if self.publisher is not None else self._names(lines)
        return Sample(
            lines,
            chosen[:of_parcels],
            self.heads,
            [plan.decision for plan in self.plans],
            Carried(names, sheet[CHOSEN_FRAMES][:frames].copy(), chosen[of_parcels:]),
            sheet[CHOSEN_STARTS][: self.found + 1].tolist(),
            self.spans,
        )

    def _names(self, lines: Numbers) -> list[str]:
        """The publishers by number; those that are not chosen have none."""
        numbers = dict.fromkeys(lines[:, NOTE_PUBLISHER].tolist())
        names = [""] * (max(numbers) + 1)
        places = self.scan[PUBLISHERS]
        for number in numbers:
            at, size, _ = places[number].tolist()
            names[number] = self.data[at : at + size].tobytes().decode()
        return names


class CompiledEngine:
    """Routes the notifications of one broker."""

    def __init__(
        self,
        core: Broker,
        codec: Codec,
        reference: ReferenceEngine,
        *,
        clients: Mapping[str, EngineClient],
        links: Mapping[BrokerId, EngineLink],
        order: Order | None,
        cases: CaseCounts,
        wall: Callable[[], float] | None,
    ) -> None:
        from octopia.net.broker.engine import frames_numba, read_numba, sample_numba, streams_numba
        from octopia.wire import scan_numba

        self._read_publications: Any = read_numba.read_publications
        self._read_copies: Any = read_numba.read_copies
        self._match: Any = read_numba.match
        self._sample: Any = sample_numba.sample
        self._kernels_of_frames: Any = frames_numba
        self._kernels_of_streams: Any = streams_numba
        self._ended, self._new, self._no_program = scan_numba.ENDED, scan_numba.NEW, read_numba.NO_PROGRAM
        self._core = core
        self._streams = core.streams
        self._ways = core.by_ways(msgpack_text)
        self._rows = self._ways.rows
        self._index = self._ways.index
        self._batches = codec.batches
        self._brokers = codec.dests.brokers
        self._reference = reference
        self._clients = clients
        self._order = order
        self._cases = cases
        self._wall = wall
        neighbours = tuple(core.state.neighbours)
        self._links: list[Destination] = [links[neighbour].outgoing for neighbour in neighbours]
        self._number_of = {neighbour: number for number, neighbour in enumerate(neighbours, 1)}
        self._scanner = Scanner(codec.limits)
        self._notes = self._scanner.sheet[NOTES]
        self._arrays = Arrays(self._brokers)
        self._masks, self._groups = self._arrays.sheet[MASKS], self._arrays.sheet[GROUPS]
        self._headers = CopyHeaders(self._arrays)
        self._programs: dict[Promise, Programs] = {}
        self._plans: dict[Decision, Plan] = {}
        self._planned: list[Plan] = []  # what the arrays have
        self._forgotten = 0  # times that plans were forgotten
        self._expected = dict.fromkeys(neighbours, _NOTHING)
        self._expected_ways = b""  # what the arrays have
        self._names_expected = 0  # clients for which they have room
        self._logged = b""  # what the last frames say about the log
        self._shrunk_s = 0.0
        self.observed = False

    def withdrawn(self, client: str, subscription: str | None) -> Outcome | None:
        return self._reference.withdrawn(client, subscription)

    def check_time(self, now: float) -> Outcome | None:
        if self._arrays.room > OUTPUT_KEPT_BYTES and now - self._shrunk_s >= SHRINK_S:
            self._shrunk_s = now
            self._arrays.need_bytes(OUTPUT_KEPT_BYTES // 2)
        return self._reference.check_time(now)

    # -- publications

    def publish(self, publisher: Publisher, unread: Unread, now: float, lessons: int = 0) -> Outcome:
        order = self._order
        if order is not None and (order.ways.taken or order.reorder.waiting):
            return self._reference.publish(publisher, unread, now)
        scanner, arrays, raw, epoch = self._scanner, self._arrays, unread.data, self._epoch(now)
        own: Own | None = publisher.terms
        if own is None or own.epoch != epoch:
            own = self._own(publisher, epoch)
        expected, programs = own.expected, own.programs
        ways, mask = self._expect(expected) if expected.epoch == epoch else self._ways_now(), expected.mask
        accepted_ms = -1 if self._wall is None else int(self._wall() * 1000)
        data = np.frombuffer(raw, np.uint8)
        scanner.scans += 1
        count, after, why, sequence, groups, found, deliveries, size, last = self._read_publications(
            data, unread.at, unread.frame_bytes_max, *scanner.limits, scanner.scans, scanner.sheet.address,
            programs.sheet.address, programs.predicates.sheet.address, arrays.sheet.address, own.name,
            publisher.last_sequence, ways, self._index.ready(scanner.names), self._rows.sheet.address,
            mask if expected.epoch == epoch else -1, len(self._links), accepted_ms,
        )  # fmt: skip
        if why != self._ended and lessons < LESSONS_MAX and self._learns(unread, count, why, own, publisher):
            return self.publish(publisher, unread, now, lessons + 1)
        if not count:
            return self._reference.publish(publisher, unread, now, most=1)
        if found >= 0 and size < arrays.room:
            self._index.attend(count)
            plans = expected.plans
        else:
            all_groups = self._found(data, count, ways, True, groups)
            plans = self._plans_of_publications(own, all_groups, count, now)
            if len(plans) == 1 and not plans[0].dests and not plans[0].is_unusual and epoch >= 0:
                own.expected = Expected(epoch, int(self._masks[0]), all_groups[0][1], ways, plans)
            if self._may_be_unusual and (cut := self._first_unusual(plans, count)) < count:
                if not cut:
                    return self._reference.publish(publisher, unread, now, most=1)
                count, after, sequence = cut, int(self._notes[cut - 1, STOP]), int(self._notes[cut - 1, SEQUENCE])
            if self._streams is not None and any(plan.dests for plan in plans):
                publisher.last_sequence = sequence
                publisher.published += count
                return self._stamped(publisher.name, data, count, after, plans, accepted_ms)
            found, deliveries, last = self._frames(data, count, plans, accepted_ms)
        publisher.last_sequence = sequence
        publisher.published += count
        if self._order is not None and last >= 0:
            self._order.reorder.last[publisher.name] = int(self._notes[last, SEQUENCE])
        return self._outcome(data, count, after, plans, found, deliveries, publisher=publisher.name)

    def _epoch(self, now: float) -> int:
        """A number that stays as long as decisions and their plans do; -1 if they may differ from read to read."""
        epoch = self._ways.epoch(now)
        # both only increase, so their sum stays only if both do
        return epoch if epoch < 0 else epoch + self._forgotten

    def _expect(self, expected: Expected) -> int:
        """Put what is expected into the arrays, unless it is there; returns how many ways there are."""
        if expected.plans is not self._planned:
            self._write_plans(expected.plans)
            self._planned = expected.plans
        if len(self._rows.names) > self._names_expected:
            # a client's first subscription changes no plan
            self._names_expected = len(self._rows.names)
            self._need_destinations()
        if expected.ways is not self._expected_ways:
            self._expected_ways = expected.ways
            words = np.frombuffer(expected.ways, dtype=np.uint64)
            self._arrays.sheet[EXPECTED][: len(words)] = words
        return expected.ways_count

    def _plans_of_publications(self, own: Own, groups: list[tuple[int, bytes]], count: int, now: float) -> list[Plan]:
        """The plan of each group, given its first notification and its ways."""
        headers: dict[int, Header] = {}
        plans = []
        for first, ways in groups:
            mask = int(self._masks[first])
            header = headers.get(mask)
            if header is None:
                counts = count if len(groups) == 1 else int((self._masks[:count] == mask).sum())
                header = headers[mask] = self._ways.first_header(own.satisfied(mask), now, counts)
            decision = self._ways.decide(ways, header, None)
            plans.append(self._plans.get(decision) or self._plan(decision))
        return plans

    def _stamped(
        self,
        publisher: str,
        data: npt.NDArray[np.uint8],
        count: int,
        after: int,
        plans: list[Plan],
        accepted_ms: int,
    ) -> Outcome:
        """Like `_frames`, for a routing with streams: those with destinations are stamped, and kept until confirmed."""
        arrays, streams = self._arrays, self._streams
        assert streams is not None  # noqa: S101  otherwise there are no destinations
        sheet = arrays.sheet
        groups = self._groups[:count]
        union = 0
        for group in range(len(plans)) if len(plans) == 1 else np.unique(groups).tolist():
            union |= plans[group].decision.dests
        self._write_plans(plans)
        sequence, before = streams.log.begin(publisher, union)
        sent_to = sheet[SENT_TO]
        while True:
            for place, last in before.items():
                sent_to[place] = last
            if self._kernels_of_streams.stamp(count, sequence, sheet.address) >= 0:
                break
            sheet.put(STAMPS, np.zeros(2 * len(sheet[STAMPS]), dtype=np.uint8))
        found, deliveries, _ = self._frames(data, count, plans, accepted_ms, stamped=True)
        outcome = self._outcome(data, count, after, plans, found, deliveries, publisher=publisher)
        if not union:
            return outcome
        with_dests = np.array([bool(plan.dests) for plan in plans])
        last_sent = {place: int(sent_to[place]) for place in before}
        streams.sent_together(
            publisher,
            sequence + 1,
            LoggedFrames(self._logged),
            [plan.decision for plan in plans],
            groups[with_dests[groups]].tolist(),
            before,
            last_sent,
            len(self._logged),
        )
        return outcome

    def _own(self, publisher: Publisher, epoch: int) -> Own:
        """The programs of a publisher, with its present advertisements and right."""
        own: Own | None = publisher.terms
        advertised = self._ways.advertised(publisher.name)
        if own is not None and own.advertised is advertised and own.names is self._scanner.names:
            own.epoch = epoch if epoch >= 0 else _NEVER
            return own
        right = None if publisher.permit is None else publisher.permit.right
        promise = tuple(registered.filter for registered in advertised), right
        programs = self._programs.get(promise)
        if programs is None:
            if len(self._programs) >= PROGRAMS_MAX:
                self._programs.clear()
            programs = self._programs[promise] = Programs()
        made = publisher.terms = Own(publisher.name, advertised, programs, self._scanner.names)
        return made

    def _learns(self, unread: Unread, count: int, why: int, own: Own, publisher: Publisher) -> bool:
        """Learn what stopped a scan after `count` notifications, if it can be learnt; returns whether it could."""
        scanner = self._scanner
        if why == self._no_program:
            signature = int(self._notes[count, SIGNATURE])
            names = scanner.signatures[signature]
            terms = self._ways.terms(publisher.name, names)
            own.programs.add(signature, names, terms, own.advertised, publisher.permit)
            return True
        return why == self._new and self._learns_names(unread, count)

    def _learns_names(self, unread: Unread, count: int) -> bool:
        """Learn the names of the notification after `count` others."""
        scanner = self._scanner
        at = int(self._notes[count - 1, STOP]) if count else unread.at
        try:
            batch = self._batches.read(unread.data, at, unread.frame_bytes_max, 1)
        except Exception:  # noqa: BLE001  the reference raises it at its turn
            return False
        names = tuple(batch.values[0])
        if not scanner.can_learn(names):
            return False
        known = scanner.names
        scanner.learn(names)
        if scanner.names is not known:
            # programs are by signature, and those have other numbers now
            self._programs.clear()
            self._forgotten += 1
        return True

    # -- copies

    def receive(self, sender: BrokerId, unread: Unread, now: float, lessons: int = 0) -> Outcome:
        order = self._order
        if order is not None and (order.ways.taken or order.reorder.waiting):
            return self._reference.receive(sender, unread, now)
        scanner, raw = self._scanner, unread.data
        data = np.frombuffer(raw, np.uint8)
        scanner.scans += 1
        expected, epoch = self._expected[sender], self._epoch(now)
        expects = expected.epoch == epoch
        if self._streams is not None:
            # copies that name their destinations are matched there only
            self._ways_now()
            ways = NO_MATCH
        else:
            ways = self._expect(expected) if expects else self._ways_now()
        read = self._read_copies(
            data, unread.at, unread.frame_bytes_max, *scanner.limits, scanner.scans, scanner.sheet.address,
            self._arrays.sheet.address, ways, self._index.ready(scanner.names), self._rows.sheet.address, expects,
            len(self._links),
        )  # fmt: skip
        count, after, why, publishers, headers, groups, found, deliveries, size, last = read
        if why == self._new and lessons < LESSONS_MAX and self._learns_names(unread, count):
            return self.receive(sender, unread, now, lessons + 1)
        if found >= 0 and size < self._arrays.room:
            self._core.check_copies(sender, PLAIN)
            self._index.attend(count)
            plans, heads = expected.plans, _PLAIN_ONLY
        else:
            heads = self._heads(sender, raw, headers, now)
            cut = count
            if len(heads) < headers:
                # up to the first with a header that is not for us
                cut = int(np.flatnonzero(self._notes[:count, HEADER] >= len(heads))[0])
            if cut and self._streams is not None:
                return self._passed_on(sender, heads, data, unread, cut, publishers, now)
            plans = []
            if cut:
                all_groups = self._found(data, count, ways, False, groups)
                plans = self._plans_of_copies(sender, heads, all_groups)
                if len(plans) == 1 and heads[0] == PLAIN and not plans[0].is_unusual and epoch >= 0:
                    self._expected[sender] = Expected(epoch, 0, all_groups[0][1], ways, plans)
            cut = self._first_unusual(plans, cut) if self._may_be_unusual else cut
            if not cut:
                return self._reference.receive(sender, unread, now, most=1)
            count, after = cut, int(self._notes[cut - 1, STOP])
            found, deliveries, last = self._frames(data, count, plans, -1)
        if self._order is not None and last >= 0:
            self._note_delivered(raw, deliveries, publishers)
        return self._outcome(data, count, after, plans, found, deliveries, heads)

    def _plans_of_copies(self, sender: BrokerId, heads: list[Header], groups: list[tuple[int, bytes]]) -> list[Plan]:
        """The plan of each group, given its first notification and its ways; those behind the last head have none."""
        plans = []
        for first, ways in groups:
            header = int(self._notes[first, HEADER])
            if header >= len(heads):
                plans.append(_NO_PLAN)
                continue
            decision = self._ways.decide(ways, heads[header], sender)
            plans.append(self._plans.get(decision) or self._plan(decision))
        return plans

    def _passed_on(
        self,
        sender: BrokerId,
        heads: list[Header],
        data: npt.NDArray[np.uint8],
        unread: Unread,
        count: int,
        publishers: int,
        now: float,
    ) -> Outcome:
        """Copies that name their destinations: a group for each header; here they pass the gate, in order."""
        plans, here = [], False
        for header in heads:
            decision = self._core.receive(sender, header, _ONE)[0]
            here = here or decision.here
            plans.append(self._plans.get(decision) or self._plan(decision, delivers=decision.here))
        self._groups[:count] = self._notes[:count, HEADER]
        late: list[int] = []
        if here:
            self._write_plans(plans)
            late = self._pass_gate(data, unread.data, count, publishers, now)
            self._find(data, count, NO_GROUPS, False)
        after = int(self._notes[count - 1, STOP])
        found, deliveries, _ = self._frames(data, count, plans, -1, matched=here)
        outcome = self._outcome(data, count, after, plans, found, deliveries, heads)
        if here:
            self._arrays.sheet[LOCAL][:count] = 1
        if late:
            starts = [unread.at, *self._notes[: count - 1, STOP].tolist()]
            bundles = list(outcome.bundles)
            for event in late:
                batch = self._batches.read(unread.data, starts[event], unread.frame_bytes_max, 1)
                delivered = self._reference.deliver(batch, now)
                bundles += delivered.bundles
                outcome.deliveries += delivered.deliveries
            outcome.bundles = bundles
        return outcome

    def _pass_gate(self, data: npt.NDArray[np.uint8], raw: bytes, count: int, publishers: int, now: float) -> list[int]:
        """Let copies through that are the next in order; returns those that are not."""
        sheet, streams = self._arrays.sheet, self._streams
        assert streams is not None  # noqa: S101  otherwise copies do not name destinations
        known = []
        hosts, lasts, passed = sheet[STREAM_HOST], sheet[STREAM_LAST], sheet[STREAM_COUNT]
        for number, (at, size, _) in enumerate(self._scanner.sheet[PUBLISHERS][:publishers].tolist()):
            stream = streams.in_order(raw[at : at + size].decode())
            known.append(stream)
            hosts[number], lasts[number] = (-1, 0) if stream is None else (stream.host, stream.last)
        passed[:publishers] = 0
        late = self._kernels_of_streams.gate(
            data, count, self._brokers, streams.place, self._scanner.sheet.address, sheet.address
        )
        after = zip(known, lasts[:publishers].tolist(), passed[:publishers].tolist(), strict=True)
        for stream, last, times in after:
            if stream is not None and times:
                streams.passed(stream, last, times, now)
        found: list[int] = sheet[LATE][:late].tolist()
        return found

    def _heads(self, sender: BrokerId, data: bytes, headers: int, now: float) -> list[Header]:
        """The headers of a read, by number, up to one that needs Python: wrong, traced, a probe, or out of order."""
        found = []
        for at, size, kind in self._scanner.sheet[READ_HEADERS][:headers].tolist():
            try:
                carried, said = self._batches.head(kind, data[at : at + size])
                if self._streams is None:
                    self._core.check_copies(sender, carried)
                else:
                    # the decision, which checks more, is the same for all that have the header
                    self._core.receive(sender, carried, _ONE)
            except Exception:  # noqa: BLE001  the reference raises it at its turn
                break
            if said is not None:
                break
            found.append(carried)
        return found

    def _note_delivered(self, data: bytes, deliveries: int, publishers: int) -> None:
        """Note for each publisher of a read its last notification delivered here."""
        last = np.full(publishers, -1, dtype=np.int64)
        sheet = self._scanner.sheet
        self._kernels_of_frames.last_delivered(deliveries, sheet.address, self._arrays.sheet.address, last)
        for number, place in enumerate(last.tolist()):
            if place >= 0:
                at, size, _ = sheet[PUBLISHERS][number].tolist()
                self._order.reorder.last[data[at : at + size].decode()] = int(sheet[NOTES][place, SEQUENCE])  # type: ignore[union-attr]

    # -- both

    def _ways_now(self) -> int:
        """How many ways there are, with room for sets of them. Before a read, what is kept too long is forgotten."""
        if len(self._plans) >= PLANS_MAX or len(self._headers) >= HEADERS_MAX:
            self._forget_plans()
        ways = len(self._rows.stand_ins)
        if ways:
            self._arrays.need_set_words(-(-ways // 64) + 1)
        return ways

    def _found(
        self, data: npt.NDArray[np.uint8], count: int, ways: int, by_mask: bool, groups: int
    ) -> list[tuple[int, bytes]]:
        """For each group of the notifications that were matched last, its first one and its ways."""
        if groups < 0:
            groups = self._find(data, count, ways, by_mask)
        self._index.attend(count)
        words = -(-ways // 64)
        if groups == 1 and not words:
            return _ONE_GROUP
        sheet = self._arrays.sheet
        sets, firsts = sheet[SETS], sheet[FIRSTS][:groups].tolist()
        return [(first, sets[first * (words + 1) : first * (words + 1) + words].tobytes()) for first in firsts]

    def _find(self, data: npt.NDArray[np.uint8], count: int, ways: int, by_mask: bool) -> int:
        """Match the notifications that were read last, with as much room as it takes; returns how many groups."""
        arrays = self._arrays
        while True:
            groups: int = self._match(
                data, count, ways, by_mask, self._scanner.sheet.address, self._index.ready(self._scanner.names),
                self._rows.sheet.address, arrays.sheet.address,
            )  # fmt: skip
            if groups >= 0:
                return groups
            arrays.need_rows(2 * len(arrays.sheet[FOUND]))

    @property
    def _may_be_unusual(self) -> bool:
        """Whether a decision may ask for what compiled code does not do."""
        return self._order is not None or self._streams is not None

    def _first_unusual(self, plans: list[Plan], count: int) -> int:
        """The first notification whose plan is not for compiled code; `count` if there is none."""
        unusual = [group for group, plan in enumerate(plans) if plan.is_unusual]
        if not unusual:
            return count
        places = np.flatnonzero(np.isin(self._groups[:count], unusual))
        return int(places[0]) if len(places) else count

    def _plan(self, decision: Decision, delivers: bool = True) -> Plan:
        """What a decision means for compiled code."""
        lines = [
            (LANES * self._number_of[to] + priority, self._headers.number(copy_heads(header)))
            for (to, header), priority in zip(decision.copies, decision.priorities or repeat(0), strict=False)
        ]
        diverts = self._order is not None and any(header.civ for _, header in decision.copies)
        made = Plan(decision, lines, delivers and decision.delivers, bool(decision.missed) or diverts)
        if decision.dests and self._streams is not None:
            made.copies.append((LOG, self._headers.number(Heads(Kind.NOTIFY_DESTS))))
            made.dests = tuple(civ.bits(decision.dests))
            made.stamp_flags, made.stamp_set = stamp_set_of(self._streams.place, decision.dests)
        self._plans[decision] = made
        return made

    def _forget_plans(self) -> None:
        self._plans.clear()
        self._headers.forget()
        self._planned = []
        self._forgotten += 1

    def _write_plans(self, plans: list[Plan]) -> None:
        """Put the plans of groups into the arrays, unless they are there."""
        if plans == self._planned:
            return
        arrays = self._arrays
        lines = [line for plan in plans for line in plan.copies]
        if lines:
            arrays.fill(PLAN, lines)
        arrays.fill(PLAN_STARTS, _starts([len(plan.copies) for plan in plans]))
        arrays.fill(DELIVERS, [plan.delivers for plan in plans])
        if self._streams is not None:
            arrays.fill(DEST_STARTS, _starts([len(plan.dests) for plan in plans]))
            arrays.fill(DESTS, [dest for plan in plans for dest in plan.dests])
            arrays.fill(STAMP_SETS_AT, _starts([len(plan.stamp_set) for plan in plans]))
            arrays.fill(STAMP_SETS, np.frombuffer(b"".join([plan.stamp_set for plan in plans]), dtype=np.uint8))
            arrays.fill(STAMP_FLAGS, [plan.stamp_flags for plan in plans])
        self._planned = plans

    def _need_destinations(self) -> None:
        self._arrays.need_destinations(LANES * (1 + len(self._links) + len(self._rows.names)))

    def _frames(
        self,
        data: npt.NDArray[np.uint8],
        count: int,
        plans: list[Plan],
        accepted_ms: int,
        *,
        matched: bool = True,
        stamped: bool = False,
    ) -> tuple[int, int, int]:
        """Make the frames that the plans of groups ask for.

        Returns the number of destinations, of deliveries, and the last notification delivered here, or -1.
        """
        arrays = self._arrays
        self._write_plans(plans)
        self._need_destinations()
        while True:
            found, deliveries, size, last = self._kernels_of_frames.make_frames(
                data, count, matched, len(self._links), accepted_ms, stamped, self._scanner.sheet.address,
                self._rows.sheet.address, arrays.sheet.address,
            )  # fmt: skip
            if found < 0:
                arrays.need_lines(size)
            elif size >= arrays.room:
                arrays.need_bytes(size)
            else:
                return found, deliveries, last

    def _outcome(
        self,
        data: npt.NDArray[np.uint8],
        count: int,
        after: int,
        plans: list[Plan],
        found: int,
        deliveries: int,
        heads: Sequence[Header] = _PLAIN_ONLY,
        publisher: str | None = None,
    ) -> Outcome:
        if self._cases.names:
            self._count_cases(plans, count)
        spans: list[int] = []
        outcome = Outcome(after, count, self._bundles(found, spans) if found else (), (), deliveries)
        if self.observed:
            outcome.notes = ReadNotes(
                self._sample, self._scanner.sheet, self._arrays, data, count, found, spans, plans, heads, publisher
            )
        return outcome

    def _bundles(self, found: int, spans: list[int]) -> list[Addressed]:
        """A bundle for each destination that there are frames for; those for the log are kept.

        `spans` gets the number of the destination of each bundle, if observed.
        """
        view, links, names = self._arrays.view, len(self._links), self._rows.names
        pieces: list[bytes] = []
        made: list[Addressed] = []
        for to, size, frames, end, oldest_ms, same in self._arrays.spans[:found].tolist():
            data = bytes(view[end - size : end]) if same < 0 else pieces[same]
            pieces.append(data)
            number = to // LANES - 1
            if number < 0:
                self._logged = data
                continue
            if number < links:
                destination: Destination = self._links[number]
            elif (client := self._clients.get(names[number - links])) is not None:
                destination = client.deliveries
            else:
                continue
            made.append((destination, to % LANES, Bundle(data, frames, oldest_ms)))
            if self.observed:
                spans.append(len(pieces) - 1)
        return made

    def _count_cases(self, plans: list[Plan], count: int) -> None:
        times = np.bincount(self._groups[:count], minlength=len(plans)).tolist()
        for plan, number in zip(plans, times, strict=True):
            if plan.decision.case:
                self._cases.count_many(plan.decision, number)


_NO_PLAN: Final = Plan(Decision(), [], False, True)


def _starts(sizes: list[int]) -> list[int]:
    """Where pieces of these sizes begin, one after the other, and where the last ends."""
    return [0, *accumulate(sizes)]
