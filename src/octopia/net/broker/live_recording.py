"""Recording brokers, for watching an overlay in production.

The broker is the one that users run, and is observed (`recorder.py`):

- **Sampling.** A `share` of all notifications is recorded, chosen by publisher and number, so that all brokers choose
  the same ones and the record of each is complete. Registrations are always recorded.
- **Deliveries and drops.** The queues of clients are recorded, too. A delivery is recorded when it is handed to the
  socket.
- **Contents.** The host broker records the content of a notification, so that its rightful recipients can be computed
  without asking any broker.
- **Columns.** The event loop keeps what engines and queues say as it is: a table for each read, and a line of numbers
  for each bundle. The thread that writes makes facts of them.
- **Bounds.** A separate thread writes facts to files every `FLUSH_S`, or when there are `FACTS_MAX` or
  `KEPT_BYTES_MAX` bytes for them. If more than `PARTS_WAITING_MAX` parts wait for the disk, the next one is left out,
  and a fact `gap` gives its number of facts. Beyond `bytes_max`, the oldest files of this process are deleted. A broker
  never waits for any of this.

Files are in `FOLDER/facts`, and for subscriptions and advertisements in `FOLDER/registered` and `FOLDER/advertised`, in
the schemas of `trace/live.py`. `FOLDER/overlay.json` describes the overlay. A file gets its name when it is complete,
so a listing of the folder shows only whole files. Times are those of the machine's clock: between machines, delays are
as accurate as their clocks.
"""

import json
import os
import secrets
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from octopia.errors import InputError
from octopia.net.broker.engine.outcome import (
    ALL,
    IDS_END,
    NOTE_DECISION,
    NOTE_END,
    NOTE_HEADER,
    NOTE_PUBLISHER,
    NOTE_SEQUENCE,
    PLACE,
    PUBLISHER,
    SEQUENCE,
    Carried,
    Numbers,
    Outcome,
    Sample,
)
from octopia.net.broker.operations.log import Log
from octopia.net.broker.recorder import FrameTag, QueueObserver, Tagger
from octopia.net.frame_queue import FrameObserver, FrameQueue
from octopia.routing import (
    Action,
    Advertised,
    ClientLeft,
    Event,
    Refusal,
    Refuse,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from octopia.topology import BrokerId
from octopia.wire import COPIES, Kind, subscriptions_in

FLUSH_S: Final = 2.0
FACTS_MAX: Final = 50_000
# The most bytes of contents and subscriptions that wait to be made facts.
KEPT_BYTES_MAX: Final = 64 << 20
PARTS_WAITING_MAX: Final = 8
SECOND_NS: Final = 1_000_000_000
QUEUE_SAMPLE_NS: Final = SECOND_NS
# A broker without facts writes that as a fact: otherwise readers could not tell when a quiet minute is over.
ALIVE_NS: Final = 10 * SECOND_NS
# The log of registrations is rewritten, with only those in force, once it is this many times longer.
_REWRITE_FACTOR: Final = 4
_REWRITE_ROWS_MIN: Final = 1000
_DELIVERIES: Final = frozenset((Kind.DELIVER,))

# Kinds of facts, by number.
PUBLISHED, RECEIVED, SENT, DELIVERED, DROPPED, QUEUE, GAP, START, ALIVE = range(9)
FACT_NAMES: Final = ("publish", "received", "sent", "delivered", "dropped", "queue", "gap", "start", "alive")
# Columns of `Part.ranges`, one line for frames of a bundle that left or were lost: the kind of fact, the number of the
# peer, the number of the table of frames, the first line and the last but one there, the serial number of the first
# line of the table, when they were queued and when they left, and what their place adds to as the length of the queue.
_FACT, _PEER, _TABLE, _FIRST, _STOP, _SERIAL, _FROM, _UNTIL, _SHIFT = range(9)
_RANGE_COLUMNS: Final = 9
# Logs of registrations, each a folder.
SUBSCRIBED: Final = "registered"
ADVERTISED: Final = "advertised"
# client, id, filter, since, until
_Registered = tuple[str, str, str, int, int | None]


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The folder for facts, the share of notifications to record, and the maximum size."""

    folder: Path
    share: float = 1.0
    bytes_max: int = 1 << 30

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"a share of {self.share:g} cannot be recorded: give one above 0 and up to 1")
        if self.bytes_max < 1 << 20:
            raise InputError("recording needs room: give 1 MiB or more")


def _named(broker: BrokerId) -> str:
    return f"{broker.region},{broker.cluster}"


class LiveRecording(Tagger):
    """The facts about one broker."""

    def __init__(self, id: BrokerId, neighbours: Iterable[BrokerId], files: "FactFiles", share: float) -> None:
        super().__init__(time.monotonic_ns, round(share * ALL))
        self.id = _named(id)
        self.share = share
        self._files = files
        self._peers: dict[str, int] = {}
        for neighbour in neighbours:
            self.peer(_named(neighbour))
        self.subscribed = RegistrationLog()
        self.advertised = RegistrationLog()
        self._reads: list[tuple[Sample | None, BrokerId | None, float]] = []  # being put into queues
        self._sampled_ns: dict[str, int] = {}
        self._alive_ns = -ALIVE_NS
        self._parts = 0
        self._part = Part(self.id, share)
        # Facts from before this process may be missing.
        self._part.plain.append((START, "", 0, 0, 0))

    def peer(self, name: str) -> int:
        """The number of a client or neighbour, in the present part."""
        return self._peers.setdefault(name, len(self._peers))

    def _note_full(self) -> None:
        if self._part.facts >= FACTS_MAX or self._part.kept_bytes >= KEPT_BYTES_MAX:
            self.flush()

    # -- notifications

    def routed(self, sender: BrokerId | None, outcome: Outcome, now: float) -> None:
        self._reads.append((self.tag_all(outcome, parcels=sender is None), sender, now))

    def ended(self) -> None:
        sample, sender, now = self._reads.pop()
        if sample is not None:
            part = self._part
            peer = "" if sender is None else _named(sender)
            part.reads.append(Read(sample, peer, int(now * SECOND_NS), self.clock()))
            part.facts += len(sample.notes)
            part.kept_bytes += len(sample.parcels)
            self._note_full()

    def note_frames(self, fact: int, peer: str, tag: FrameTag, until_ns: int) -> None:
        """Note frames that left or were lost."""
        lines, part = tag.lines, self._part
        if lines.part != self._parts:
            lines.part, lines.place = self._parts, len(part.tables)
            part.tables.append(lines.carried)
            part.kept_bytes += len(lines.carried.ids)
        number = self.peer(peer)
        place = lines.place, tag.first, tag.stop, lines.serial
        part.ranges.extend((fact, number, *place, tag.queued_ns, until_ns, tag.shift))
        part.facts += tag.stop - tag.first
        self._note_full()

    # -- queues

    def client_observer(self, client: str) -> FrameObserver:
        return FactObserver(self, client, DELIVERED, _DELIVERIES)

    def observe_link(self, neighbour: BrokerId, queue: FrameQueue) -> None:
        queue.observer = FactObserver(self, _named(neighbour), SENT, COPIES)

    def sampled(self, neighbour: BrokerId, queue: int, entered: int, left: int) -> None:
        """Record queue lengths towards neighbours, from time to time."""
        name, now = _named(neighbour), self.clock()
        if queue and now - self._sampled_ns.get(name, -QUEUE_SAMPLE_NS) >= QUEUE_SAMPLE_NS:
            self._sampled_ns[name] = now
            self._part.plain.append((QUEUE, name, entered, left, queue))

    # -- registrations

    def began(self, event: Event) -> None:
        """Facts have no causes."""

    def handled(self, event: Event, actions: Sequence[Action], now: float) -> None:
        match event:
            case Subscribed() | Advertised():
                if not any(isinstance(action, Refuse) for action in actions):
                    log = self.subscribed if isinstance(event, Subscribed) else self.advertised
                    log.begins(event.client, event.id, str(event.filter), self.clock())
            case Unsubscribed():
                self.subscribed.ends(event.client, event.id, self.clock())
            case Unadvertised():
                self.advertised.ends(event.client, event.id, self.clock())
            case ClientLeft():
                self.subscribed.all_end(event.client, self.clock())
                self.advertised.all_end(event.client, self.clock())

    # -- files

    def flush(self) -> None:
        """Hand over the recorded facts."""
        self._files.write_facts([self.take_part()])
        self.flush_registered()

    def take_part(self) -> "Part":
        """The recorded facts."""
        part, now = self._part, self.clock()
        if now - self._alive_ns >= ALIVE_NS:
            self._alive_ns = now
            part.plain.append((ALIVE, "", 0, 0, 0))
        part.offset_ns = time.time_ns() - now
        part.peers = list(self._peers)
        # dropped with the part, so that they do not grow forever
        self._peers = {}
        self._parts += 1
        self._part = Part(self.id, self.share)
        return part

    def flush_registered(self) -> None:
        """Hand over registrations and departures."""
        for folder, log in ((SUBSCRIBED, self.subscribed), (ADVERTISED, self.advertised)):
            rows, anew = log.take()
            if rows:
                self._files.write_registered(self.id, rows, anew=anew, folder=folder)


class FactObserver(QueueObserver):
    """Records what becomes of the frames for a client or a neighbour."""

    __slots__ = ("_fact", "_live", "_peer")

    def __init__(self, live: LiveRecording, peer: str, fact: int, kinds: frozenset[Kind]) -> None:
        super().__init__(live, kinds)
        self._live = live
        self._peer = peer
        self._fact = fact  # when they leave

    def _left(self, queue: FrameQueue, tag: FrameTag, now_ns: int) -> None:
        self._live.note_frames(self._fact, self._peer, tag, now_ns)

    def _lost(self, tag: FrameTag, now_ns: int) -> None:
        self._live.note_frames(DROPPED, self._peer, tag, now_ns)


class RegistrationLog:
    """Registrations of one kind that began or ended since they were last handed over, and all that are in force."""

    def __init__(self) -> None:
        self._news: list[_Registered] = []
        self._in_force: dict[tuple[str, str], tuple[str, int]] = {}
        self._logged = 0

    def begins(self, client: str, id: str, filter: str, at_ns: int) -> None:
        self._in_force[client, id] = (filter, at_ns)
        self._news.append((client, id, filter, at_ns, None))

    def ends(self, client: str, id: str, at_ns: int) -> None:
        begun = self._in_force.pop((client, id), None)
        if begun is not None:
            self._news.append((client, id, *begun, at_ns))

    def all_end(self, client: str, at_ns: int) -> None:
        for name, id in [key for key in self._in_force if key[0] == client]:
            self.ends(name, id, at_ns)

    def take(self) -> tuple[list[_Registered], bool]:
        """New rows, and whether they replace all earlier ones."""
        log, self._news = self._news, []
        self._logged += len(log)
        anew = bool(log) and self._logged > max(_REWRITE_ROWS_MIN, _REWRITE_FACTOR * len(self._in_force))
        if anew:
            # registrations that ended since the last call come before those in force
            log = [row for row in log if row[4] is not None]
            log += [(*key, *begun, None) for key, begun in self._in_force.items()]
            self._logged = len(log)
        return log, anew


class Read(Struct, eq=False):
    """Recorded notifications of one read: of a client, or of the neighbour `peer`."""

    sample: Sample
    peer: str
    arrived_ns: int
    handled_ns: int


@dataclass(slots=True)
class Part:
    """The facts of one broker since the last one, and the offset of its clock from wall time.

    `plain` facts have no notification: the kind, the peer, two numbers, and the length of a queue.
    """

    broker: str
    share: float
    reads: list[Read] = field(default_factory=list)
    tables: list[Carried] = field(default_factory=list)
    ranges: "array[int]" = field(default_factory=lambda: array("q"))
    plain: list[tuple[int, str, int, int, int]] = field(default_factory=list)
    peers: list[str] = field(default_factory=list)
    offset_ns: int = 0
    facts: int = 0  # about notifications
    kept_bytes: int = 0

    def __len__(self) -> int:
        return self.facts + len(self.plain)


class FactFiles:
    """The files of one process, written by a separate thread."""

    def __init__(self, options: RecordOptions) -> None:
        self._options = options
        self._facts = options.folder / "facts"
        for folder in ("facts", SUBSCRIBED, ADVERTISED):
            (options.folder / folder).mkdir(parents=True, exist_ok=True)
        # Names sort by time, and two lives of a broker never choose the same name.
        self._life = f"{time.time_ns() // 1_000_000:015d}-{secrets.token_hex(4)}"
        self._count = 0
        self._kept: list[tuple[Path, int]] = []
        self._logs: dict[tuple[str, str], list[Path]] = {}
        self._missing: dict[str, int] = {}
        self._thread = ThreadPoolExecutor(1, "facts")
        self._writing: list[Future[None]] = []
        self._log = Log("recording")
        self.left_out = self.deleted = 0
        self.failure = ""

    def _name(self) -> str:
        self._count += 1
        return f"{self._life}-{self._count:08d}.parquet"

    def write_facts(self, parts: list[Part]) -> None:
        """Write these soon, as one file, or leave them out and record a gap."""
        self._writing = [one for one in self._writing if not one.done()]
        if len(self._writing) >= PARTS_WAITING_MAX:
            for part in parts:
                self.left_out += len(part)
                self._missing[part.broker] = self._missing.get(part.broker, 0) + len(part)
            return
        for part in parts:
            missing = self._missing.pop(part.broker, 0)
            if missing:
                part.plain.append((GAP, "", 0, 0, missing))
        if any(map(len, parts)):
            path = self._facts / self._name()
            self._submit(lambda: self._write_parts(path, parts))

    def write_registered(self, broker: str, log: list[_Registered], *, anew: bool, folder: str) -> None:
        offset_ns = time.time_ns() - time.monotonic_ns()
        path = self._options.folder / folder / self._name()
        self._submit(lambda: self._write_log(path, broker, log, offset_ns, anew))

    def _submit(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
                self.failure = ""
            except OSError as error:
                if not self.failure:
                    self._log.warning("facts not written", reason=error.strerror, folder=str(self._options.folder))
                self.failure = str(error)

        self._writing.append(self._thread.submit(guarded))

    def _write_parts(self, path: Path, parts: list[Part]) -> None:
        import pyarrow as pa

        table = pa.concat_tables([fact_table(part) for part in parts]).unify_dictionaries()
        if table.num_rows:
            self._kept.append((path, _replace(path, table, **_encodings())))
        total = sum(size for _, size in self._kept)
        while total > self._options.bytes_max and len(self._kept) > 1:
            oldest, size = self._kept.pop(0)
            # a reader may have deleted it
            if oldest.exists():
                oldest.unlink(missing_ok=True)
                self.deleted += 1
                if self.deleted == 1:
                    self._log.warning("facts deleted", reason="nobody read them in time", bytes_max=total)
            total -= size

    def _write_log(self, path: Path, broker: str, log: list[_Registered], offset_ns: int, anew: bool) -> None:
        import pyarrow as pa

        from octopia.trace import REGISTERED

        rows = [
            (broker, client, id, filter, since + offset_ns, None if until is None else until + offset_ns)
            for client, id, filter, since, until in log
        ]
        columns = zip(*rows, strict=True) if rows else ((),) * len(REGISTERED)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, REGISTERED, strict=True)]
        _replace(path, pa.Table.from_arrays(arrays, schema=REGISTERED))
        files = self._logs.setdefault((path.parent.name, broker), [])
        if anew:
            for older in files:
                older.unlink(missing_ok=True)
            files.clear()
        files.append(path)

    def close(self) -> None:
        """Write everything that waits."""
        self._thread.shutdown(wait=True)


def fact_table(part: Part) -> Any:
    """The facts of one part as a table."""
    import pyarrow as pa

    from octopia.trace import FACTS

    texts = Words(), Words(), Words()
    notes, ends = _facts_of_reads(part, *texts)
    every = [notes, _facts_of_frames(part, *texts), _facts_of_brokers(part, texts[0])]
    columns: dict[str, Any] = {name: np.concatenate([facts[name] for facts in every]) for name in notes}
    rows = len(columns["fact"])
    # a queue sample has counts in place of times
    timed = columns["fact"] < QUEUE
    columns["from_ns"] = np.where(timed, columns["from_ns"] + part.offset_ns, columns["from_ns"])
    columns["until_ns"] = np.where(timed, columns["until_ns"] + part.offset_ns, columns["until_ns"])
    at_ns = np.where(timed, columns["until_ns"], time.monotonic_ns() + part.offset_ns)
    columns["at_time"] = pa.array(at_ns // 1000, pa.int64()).cast(FACTS.field("at_time").type)
    columns["broker"] = np.zeros(rows, dtype=np.int64)
    columns["share"] = np.full(rows, part.share)
    columns["content"] = _contents(part, ends, columns["fact"] == PUBLISHED)
    words = dict(zip(("peer", "publisher", "text"), (each.texts for each in texts), strict=True))
    words |= {"fact": list(FACT_NAMES), "broker": [part.broker]}
    arrays = []
    for field_ in FACTS:
        values = columns[field_.name]
        arrays.append(_coded(values, words[field_.name]) if field_.name in words else pa.array(values))
    return pa.Table.from_arrays(arrays, schema=FACTS)


class Words:
    """Texts by number, for a column that repeats them."""

    __slots__ = ("_number_of", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._number_of: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text; -1 for none."""
        if not text:
            return -1
        known = self._number_of.get(text)
        if known is None:
            known = self._number_of[text] = len(self.texts)
            self.texts.append(text)
        return known

    def numbers(self, lists: Iterable[Iterable[str]]) -> tuple[Numbers, Numbers]:
        """The numbers of texts in several lists, one list after the other, and where each list begins."""
        counts, found = [0], list[int]()
        for texts in lists:
            found += map(self.number, texts)
            counts.append(len(found))
        return np.array(found, dtype=np.int64), np.array(counts, dtype=np.int64)


def _facts_of_reads(part: Part, peers: Words, publishers: Words, texts: Words) -> tuple[dict[str, Numbers], Numbers]:
    """Facts about notifications that came, and where the content of each ends."""
    reads = part.reads
    samples = [read.sample for read in reads]
    notes = _joined([sample.notes for sample in samples], 5)
    counts = [len(sample.notes) for sample in samples]
    of_read = np.repeat(np.arange(len(reads)), counts)
    names, names_at = publishers.numbers(sample.carried.publishers for sample in samples)
    civs, civs_at = texts.numbers(
        [f"{header.civ:x}" if header.civ and read.peer else "" for header in read.sample.headers] for read in reads
    )
    # one that is refused comes alone
    refused = np.array([_refusal(sample) is not None for sample in samples], dtype=np.int64)
    reasons = np.array([texts.number(_refusal(sample) or "") for sample in samples], dtype=np.int64)
    from_peers = np.array([peers.number(read.peer) for read in reads], dtype=np.int64)
    facts = {
        "fact": np.where(from_peers < 0, PUBLISHED, RECEIVED)[of_read],
        "peer": from_peers[of_read],
        "publisher": names[names_at[of_read] + notes[:, NOTE_PUBLISHER]],
        "sequence": notes[:, NOTE_SEQUENCE],
        "serial": np.zeros(len(notes), dtype=np.int64),
        "from_ns": np.array([read.arrived_ns for read in reads], dtype=np.int64)[of_read],
        "until_ns": np.array([read.handled_ns for read in reads], dtype=np.int64)[of_read],
        "queue": refused[of_read],
        "text": np.where(refused, reasons, -1)[of_read],
    }
    is_copy = facts["fact"] == RECEIVED
    if is_copy.any():
        facts["text"] = np.where(is_copy, civs[civs_at[of_read] + notes[:, NOTE_HEADER]], facts["text"])
    sizes = np.diff(notes[:, NOTE_END], prepend=0)
    starts = np.cumsum([0, *counts])[:-1]
    sizes[starts] = notes[starts, NOTE_END]
    return facts, np.cumsum(sizes)


def _refusal(sample: Sample) -> str | None:
    """Why the notification of a sample was refused."""
    decision = sample.decisions[int(sample.notes[0, NOTE_DECISION])]
    return decision.reason if isinstance(decision, Refusal) else None


def _facts_of_frames(part: Part, peers: Words, publishers: Words, texts: Words) -> dict[str, Numbers]:
    """Facts about frames that left or were lost."""
    ranges = np.frombuffer(part.ranges, dtype=np.int64).reshape(-1, _RANGE_COLUMNS)
    tables = part.tables
    frames = _joined([table.frames for table in tables], 5)
    tables_at = np.cumsum([0, *(len(table.frames) for table in tables)])
    names, names_at = publishers.numbers(table.publishers for table in tables)
    counts = ranges[:, _STOP] - ranges[:, _FIRST]
    of_range = np.repeat(np.arange(len(ranges)), counts)
    within = np.arange(len(of_range)) - np.repeat(np.cumsum(counts) - counts, counts)
    line = ranges[:, _FIRST][of_range] + within
    table = ranges[:, _TABLE][of_range]
    at = tables_at[table] + line
    numbers = np.array([peers.number(name) for name in part.peers], dtype=np.int64)
    facts = {
        "fact": ranges[:, _FACT][of_range],
        "peer": numbers[ranges[:, _PEER]][of_range],
        "publisher": names[names_at[table] + frames[at, PUBLISHER]],
        "sequence": frames[at, SEQUENCE],
        "serial": ranges[:, _SERIAL][of_range] + line,
        "from_ns": ranges[:, _FROM][of_range],
        "until_ns": ranges[:, _UNTIL][of_range],
        "queue": ranges[:, _SHIFT][of_range] + frames[at, PLACE],
        "text": np.full(len(at), -1, dtype=np.int64),
    }
    delivered = facts["fact"] == DELIVERED
    if delivered.any():
        numbers = _numbered_ids(tables, frames, texts)
        facts["text"] = np.where(delivered, numbers[at], -1)
    return facts


def _numbered_ids(tables: Sequence[Carried], frames: Numbers, texts: Words) -> Numbers:
    """For each frame of these tables, the number of the text with its subscriptions; few are distinct."""
    import pyarrow as pa

    before = np.cumsum([0, *(len(table.ids) for table in tables)])[:-1]
    ends = frames[:, IDS_END] + np.repeat(before, [len(table.frames) for table in tables])
    offsets = pa.py_buffer(np.concatenate([[0], ends]).astype(np.int32))
    ids = pa.py_buffer(b"".join([table.ids for table in tables]))
    coded = pa.Array.from_buffers(pa.binary(), len(frames), [None, offsets, ids]).dictionary_encode()
    distinct = [json.dumps(subscriptions_in(header)) if header else "" for header in coded.dictionary.to_pylist()]
    numbers = np.array([texts.number(text) for text in distinct], dtype=np.int64)
    found: Numbers = numbers[coded.indices.to_numpy()]
    return found


def _facts_of_brokers(part: Part, peers: Words) -> dict[str, Numbers]:
    """Facts without a notification."""
    rows = np.array(
        [(fact, peers.number(peer), -1, 0, 0, *rest, -1) for fact, peer, *rest in part.plain], dtype=np.int64
    ).reshape(-1, 9)
    names = ("fact", "peer", "publisher", "sequence", "serial", "from_ns", "until_ns", "queue", "text")
    return {name: rows[:, at] for at, name in enumerate(names)}


def _joined(tables: Sequence[Numbers], columns: int) -> Numbers:
    return np.concatenate(tables) if tables else np.empty((0, columns), dtype=np.int64)


def _coded(numbers: Numbers, texts: list[str]) -> Any:
    """A column of texts by number; -1 is null."""
    import pyarrow as pa

    codes = pa.array(numbers.astype(np.int32), mask=numbers < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(texts, pa.string()))


def _contents(part: Part, ends: Numbers, published: npt.NDArray[np.bool_]) -> Any:
    """The column of contents: the first facts have one each, where they were published."""
    import pyarrow as pa

    offsets = np.zeros(len(published) + 1, dtype=np.int32)
    offsets[1 : len(ends) + 1] = ends
    offsets[len(ends) + 1 :] = ends[-1] if len(ends) else 0
    parcels = pa.py_buffer(b"".join([read.sample.parcels for read in part.reads]))
    valid = pa.array(published).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), len(published), [valid, pa.py_buffer(offsets), parcels])


def _encodings() -> dict[str, Any]:
    """Few distinct texts are written once each, numbers as differences, which are small."""
    import pyarrow as pa

    from octopia.trace import FACTS

    repeated = [each.name for each in FACTS if pa.types.is_dictionary(each.type)]
    numbers = [each.name for each in FACTS if pa.types.is_int64(each.type) or pa.types.is_timestamp(each.type)]
    return {"use_dictionary": [*repeated, "share"], "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED")}


def _replace(path: Path, table: Any, **options: Any) -> int:
    """Write a file under a name that readers ignore, then rename it; returns its size."""
    import pyarrow.parquet as pq

    partial = path.with_name(f".{path.name}.partial")
    # Spark reads timestamps of microseconds; nanoseconds stay numbers
    pq.write_table(table, partial, compression="zstd", coerce_timestamps="us", **options)
    size = partial.stat().st_size
    os.replace(partial, path)
    return size
