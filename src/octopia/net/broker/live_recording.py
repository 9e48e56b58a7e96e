"""Recording brokers, for watching an overlay in production.

The recorder is that of `recording.py`; production adds:

- **Sampling.** A `share` of all notifications is recorded, chosen by publisher and number, so that all brokers choose
  the same ones and the record of each is complete. Registrations are always recorded.
- **Deliveries and drops.** The queues of clients are recorded, too. A delivery is recorded when it is handed to the
  socket.
- **Contents.** The host broker records the content of a notification, so that its rightful recipients can be computed
  without asking any broker.
- **Bounds.** A separate thread writes facts to files every `FLUSH_S`, or when there are `FACTS_MAX`. If more than
  `PARTS_WAITING_MAX` parts wait for the disk, the next one is left out, and a fact `gap` gives its number of facts.
  Beyond `bytes_max`, the oldest files of this process are deleted. A broker never waits for any of this.

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
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from octopia.errors import InputError
from octopia.net.broker.operations.log import Log
from octopia.net.broker.recording import (
    CLIENT,
    NO_WORD,
    SECOND_NS,
    SENT_COLUMNS,
    NotingOutbox,
    Queued,
    RecordedRouter,
    Recording,
)
from octopia.net.broker.router import Router
from octopia.net.outbox import Outbox
from octopia.routing import Action, Advertised, ClientLeft, Event, Refuse, Subscribed, Unadvertised, Unsubscribed
from octopia.topology import BrokerId
from octopia.wire import Kind, Parcels, delivered_for, named_in

FLUSH_S: Final = 2.0
FACTS_MAX: Final = 50_000
PARTS_WAITING_MAX: Final = 8
QUEUE_SAMPLE_NS: Final = SECOND_NS
# A broker without facts writes that as a fact: otherwise readers could not tell when a quiet minute is over.
ALIVE_NS: Final = 10 * SECOND_NS
SHARE_UNITS: Final = 1 << 32
# The log of registrations is rewritten, with only those in force, once it is this many times longer.
_REWRITE_FACTOR: Final = 4
_REWRITE_ROWS_MIN: Final = 1000
_S = {name: at for at, name in enumerate(SENT_COLUMNS)}

# Facts about no message in particular: they have no times of their own.
_UNTIMED: Final = ("queue", "gap", "start", "alive")
# Logs of registrations, each a folder.
SUBSCRIBED: Final = "registered"
ADVERTISED: Final = "advertised"
# client, id, filter, since, until
_Registered = tuple[str, str, str, int, int | None]
# fact, peer, publisher, sequence, serial, from_ns, until_ns, queue, text; names and texts as they are
_Fact = tuple[str, str, str, int, int, int, int, int, str | None]


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


class LiveRecording(Recording):
    """The facts about one broker."""

    def __init__(self, id: BrokerId, neighbours: Iterable[BrokerId], files: "FactFiles", share: float) -> None:
        known = tuple(neighbours)
        super().__init__(known, lambda recording: self.flush(), reads=True)
        self.id = _named(id)
        self.share = share
        self._neighbours = [_named(neighbour) for neighbour in known]
        self._below = round(share * SHARE_UNITS)
        self._files = files
        self.facts: list[_Fact] = []
        self.subscribed = RegistrationLog()
        self.advertised = RegistrationLog()
        self._sampled_ns: dict[str, int] = {}
        self._alive_ns = -ALIVE_NS
        # Facts from before this process may be missing.
        self.facts.append(("start", "", "", 0, 0, 0, 0, 0, None))

    def takes(self, publisher: str, sequence: int) -> bool:
        return crc32(b"%d" % sequence, crc32(publisher.encode())) < self._below

    def note_full(self) -> None:
        if len(self.facts) + len(self.sent) // len(SENT_COLUMNS) >= FACTS_MAX:
            self.flush()

    def make_router(self, *arguments: Any) -> Router:
        return LiveRouter(self, *arguments)

    def make_client_box(self, client: str, *arguments: Any) -> Outbox:
        return RecordedClientBox(self, client, *arguments)

    # -- queues

    def sample(self, neighbour: str, queue: int, entered: int, left: int) -> None:
        """Record queue lengths towards neighbours, from time to time."""
        now = self.clock()
        if queue and now - self._sampled_ns.get(neighbour, -QUEUE_SAMPLE_NS) >= QUEUE_SAMPLE_NS:
            self._sampled_ns[neighbour] = now
            self.facts.append(("queue", neighbour, "", 0, 0, entered, left, queue, None))

    # -- files

    def flush(self) -> None:
        """Hand over the recorded facts."""
        self._files.write_facts([self.take_part()])
        self.flush_registered()

    def take_part(self) -> "Part":
        """The recorded facts. Words are dropped with them, so that they do not grow forever."""
        sent, _, _ = self.take()
        facts, self.facts = self.facts, []
        words, self.words, self._word_of = self.words, [], {}
        now = self.clock()
        if now - self._alive_ns >= ALIVE_NS:
            self._alive_ns = now
            facts.append(("alive", "", "", 0, 0, 0, 0, 0, None))
        return Part(self.id, self.share, self.names, sent, facts, words, time.time_ns() - now)

    def flush_registered(self) -> None:
        """Hand over registrations and departures."""
        for folder, log in ((SUBSCRIBED, self.subscribed), (ADVERTISED, self.advertised)):
            rows, anew = log.take()
            if rows:
                self._files.write_registered(self.id, rows, anew=anew, folder=folder)

    def names(self, link: int) -> str:
        return self._neighbours[link]


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


@dataclass(frozen=True, slots=True)
class Part:
    """The facts of one broker since the last call, and the offset of its clock from wall time."""

    broker: str
    share: float
    name_of: Callable[[int], str]
    sent: "array[int]"
    facts: list[_Fact]
    words: list[str]
    offset_ns: int

    def __len__(self) -> int:
        return len(self.sent) // len(SENT_COLUMNS) + len(self.facts)


class RecordedClientBox(NotingOutbox):
    """The queue for a client, which records deliveries and drops."""

    __slots__ = ("_client", "_live")

    def __init__(self, recording: LiveRecording, client: str, *arguments: Any) -> None:
        super().__init__(recording, *arguments)
        self._live = recording
        self._client = client

    def _what(self, frame: bytes) -> tuple[str, str, int] | None:
        if frame[4] != Kind.DELIVER:
            return None
        publisher, sequence = named_in(frame)
        return ("", publisher, sequence) if self._live.takes(publisher, sequence) else None

    def _left(self, frame: bytes, queued: Queued, now: int) -> None:
        self._fact("delivered", queued, now, json.dumps(delivered_for(frame)))

    def _lost(self, queued: Queued, now: int) -> None:
        self._fact("dropped", queued, now, None)

    def _fact(self, fact: str, queued: Queued, now: int, text: str | None) -> None:
        name, sequence, serial = queued.name, queued.sequence, queued.serial
        self._live.facts.append((fact, self._client, name, sequence, serial, queued.queued_ns, now, queued.found, text))


class LiveRouter(RecordedRouter):
    """A router that records facts about sampled notifications, and none about other messages."""

    def __init__(self, recording: LiveRecording, *arguments: Any) -> None:
        super().__init__(recording, *arguments)
        self._live = recording

    def handle(self, event: Event, now: float) -> list[Action]:
        actions = super(RecordedRouter, self).handle(event, now)
        self._note_registration(event, actions)
        return actions

    def restore(self, event: Event, now: float) -> None:
        super().restore(event, now)
        self._note_registration(event, ())

    def _note_registration(self, event: Event, actions: Iterable[Action]) -> None:
        live = self._live
        match event:
            case Subscribed() | Advertised():
                if not any(isinstance(action, Refuse) for action in actions):
                    log = live.subscribed if isinstance(event, Subscribed) else live.advertised
                    log.begins(event.client, event.id, str(event.filter), live.clock())
            case Unsubscribed():
                live.subscribed.ends(event.client, event.id, live.clock())
            case Unadvertised():
                live.advertised.ends(event.client, event.id, live.clock())
            case ClientLeft():
                live.subscribed.all_end(event.client, live.clock())
                live.advertised.all_end(event.client, live.clock())

    def receive(self, sender: BrokerId, message: Any, now: float) -> None:
        super(RecordedRouter, self).receive(sender, message, now)

    def link_sampled(self, neighbour: BrokerId, sample: tuple[int, int, int], now: float) -> None:
        super().link_sampled(neighbour, sample, now)
        self._live.sample(_named(neighbour), *sample)

    def _note_each(self, first: int, link: int, batch: Parcels, now: float, kind: str, civ: str) -> None:
        live = self._live
        arrived_ns, handled_ns = int(now * SECOND_NS), live.clock()
        fact, peer = ("publish", "") if link == CLIENT else ("received", live.names(link))
        decisions = self._decisions
        for at, (publisher, sequence) in enumerate(zip(batch.publishers, batch.sequences, strict=True)):
            if live.takes(publisher, sequence):
                text, refused = civ or None, 0
                if link == CLIENT:
                    reason = getattr(decisions[at], "reason", None) if at < len(decisions) else None
                    refused = int(reason is not None)
                    text = str(reason) if refused else json.dumps(batch.values[at], default=str)
                live.facts.append((fact, peer, publisher, sequence, 0, arrived_ns, handled_ns, refused, text))


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
                part.facts.append(("gap", "", "", 0, 0, 0, 0, missing, None))
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
            self._kept.append((path, _replace(path, table)))
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
    import numpy as np
    import pyarrow as pa

    from octopia.trace import FACTS

    words, facts, offset_ns = part.words, list(part.facts), part.offset_ns
    sent = np.frombuffer(part.sent, dtype=np.int64).reshape(-1, len(SENT_COLUMNS)).tolist() if part.sent else []
    for row in sent:
        if row[_S["name"]] == NO_WORD:
            continue
        fact = "sent" if row[_S["connection"]] != NO_WORD else "dropped"
        name, sequence, serial = words[row[_S["name"]]], row[_S["sequence"]], row[_S["serial"]]
        times = row[_S["queued_ns"]], row[_S["left_ns"]]
        facts.append((fact, part.name_of(row[_S["link"]]), name, sequence, serial, *times, row[_S["queue"]], None))
    columns: list[Any] = list(zip(*facts, strict=True)) if facts else [()] * 9
    kinds, peers, publishers, sequences, serials, since, until, queues, texts = columns
    # a queue sample has counts in place of times
    timed = [kind not in _UNTIMED for kind in kinds]
    now_ns = time.monotonic_ns() + offset_ns
    since = [ns + offset_ns if is_time else ns for ns, is_time in zip(since, timed, strict=True)]
    until = [ns + offset_ns if is_time else ns for ns, is_time in zip(until, timed, strict=True)]
    at_us = [(ns if is_time else now_ns) // 1000 for ns, is_time in zip(until, timed, strict=True)]
    given: dict[str, Any] = {
        "fact": kinds,
        "at_time": pa.array(at_us, pa.int64()),
        "broker": [part.broker] * len(facts),
        "peer": [peer or None for peer in peers],
        "publisher": [name or None for name in publishers],
        "sequence": sequences,
        "serial": serials,
        "from_ns": since,
        "until_ns": until,
        "queue": queues,
        "share": [part.share] * len(facts),
        "text": texts,
    }
    arrays = []
    for field in FACTS:
        values = given[field.name]
        if pa.types.is_dictionary(field.type):
            arrays.append(pa.array(values, pa.string()).dictionary_encode())
        elif isinstance(values, pa.Array):
            arrays.append(values.cast(field.type))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=FACTS)


def _replace(path: Path, table: Any) -> int:
    """Write a file under a name that readers ignore, then rename it; returns its size."""
    import pyarrow.parquet as pq

    partial = path.with_name(f".{path.name}.partial")
    # Spark reads timestamps of microseconds; nanoseconds stay numbers
    pq.write_table(table, partial, compression="zstd", coerce_timestamps="us")
    size = partial.stat().st_size
    os.replace(partial, path)
    return size
