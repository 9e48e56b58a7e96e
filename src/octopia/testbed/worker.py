"""A process that runs brokers for an experiment: it connects to the experiment and follows its orders.

Brokers run as in `octopia serve`, with a recording each. A separate thread writes recordings to files in a folder of
this process, so brokers do not wait for a disk; when more than `PARTS_WAITING_MAX` files are pending, brokers wait, so
memory stays bounded. The process ends with the experiment. A broker that will be killed has its own server
(`brokers.py`).
"""

import asyncio
import io
import os
import resource
import tempfile
import time
from array import array
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from octopia.errors import InputError, OctopiaError, UnreachableError
from octopia.matching import kernels_in_use
from octopia.net import (
    EVENT_COLUMNS,
    EXPIRED_COLUMNS,
    SENT_COLUMNS,
    Address,
    BrokerHost,
    NetLimits,
    Qos,
    Recording,
    Weather,
    collect_garbage_rarely,
    run_loop,
)
from octopia.routing import CongestionParameters
from octopia.testbed.brokers import Brokers
from octopia.testbed.control import (
    Alive,
    Answer,
    Ask,
    AskParts,
    AskTables,
    AskTime,
    Begin,
    Bits,
    Done,
    Failed,
    Hello,
    LinkState,
    Listening,
    Meet,
    Part,
    Parts,
    Question,
    Setup,
    Status,
    Tables,
    Talk,
    Time,
)
from octopia.topology import BrokerId, Scot, Tree, civ

PARTS_WAITING_MAX: Final = 8
# The tables of a recording.
COLUMNS: Final = {"sent": SENT_COLUMNS, "events": EVENT_COLUMNS, "expired": EXPIRED_COLUMNS}
# Without kills, no peer has to be noticed by its silence, and on a busy machine a process may be silent for seconds.
_PATIENT: Final = NetLimits(link_heartbeat_s=10.0)
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_STATUS: Final = Path("/proc/self/status")
_KIB: Final = 1024


def join(experiment: Address, secret: str, machine: str) -> None:
    """Run brokers for the experiment that listens there, until it ends."""
    run_loop(_join(experiment, secret, machine))


async def _join(experiment: Address, secret: str, machine: str) -> None:
    try:
        reader, writer = await asyncio.open_connection(experiment.host, experiment.port)
    except OSError as error:
        raise UnreachableError(f"no experiment at {experiment}: {error.strerror or error}") from None
    talk = Talk(reader, writer)
    with tempfile.TemporaryDirectory(prefix="octopia-testbed-") as folder:
        worker = Worker(Path(folder))
        try:
            await talk.say(Hello(secret, machine, boot_id(), os.getpid()))
            while True:
                question = await talk.hear_question()
                if isinstance(question, Begin):
                    # Everything is registered, and this process does nothing but run brokers.
                    collect_garbage_rarely()
                await talk.say(await worker.answer(question))
        except EOFError:
            pass
        finally:
            worker.stop()
            talk.close()


def boot_id() -> str:
    """The same for all processes of a machine until it is rebooted."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


class Worker:
    """The brokers of one process."""

    def __init__(self, folder: Path) -> None:
        self._scot: Scot
        self._brokers: Brokers | None = None
        self._deliveries_before = 0
        self._parts = PartFiles(folder)

    async def answer(self, question: Question) -> Answer:
        try:
            return await self._answer(question)
        except OctopiaError as error:
            return Failed(str(error))
        except OSError as error:
            return Failed(error.strerror or str(error))

    async def _answer(self, question: Question) -> Answer:
        if isinstance(question, Setup):
            return await self._listen(question)
        if isinstance(question, AskTime):
            return Time(time.monotonic_ns())
        brokers = self._running
        if isinstance(question, Meet):
            brokers.meet({BrokerId.parse(id): Address.parse(at) for id, at in question.addresses.items()})
            return Done()
        if isinstance(question, Ask):
            return self._status()
        if isinstance(question, Begin):
            return self._begin()
        if isinstance(question, Alive | LinkState):
            return await self._trouble(question)
        if isinstance(question, AskTables):
            return _tables(brokers.hosts, self._scot.clusters)
        if isinstance(question, AskParts):
            return await self._finish()
        return await asyncio.to_thread(self._parts.read, question.number)

    @property
    def _running(self) -> Brokers:
        if self._brokers is None:
            raise InputError("there are no brokers yet")
        return self._brokers

    async def _listen(self, setup: Setup) -> Answer:
        self._scot = scot = Scot(Tree.from_edges(setup.edges, setup.nodes), setup.clusters)
        addresses = {BrokerId.parse(id): Address.parse(at) for id, at in setup.brokers.items()}
        recordings = {}
        for id in addresses:
            neighbours = scot.a_links(id) + scot.i_links(id)
            delays = {BrokerId.parse(to): ns for sender, to, ns in setup.delays_ns if sender == str(id)}
            recordings[id] = Recording(neighbours, partial(self._parts.write, id), delays_ns=delays, reads=setup.reads)
        self._brokers = brokers = Brokers(
            scot,
            addresses,
            recordings,
            routing=setup.routing,
            covering=setup.covering,
            congestion=CongestionParameters(setup.tau, setup.window_s),
            net_limits=NetLimits() if setup.reads else _PATIENT,
            qos=(Qos(is_timed=True),) * setup.clusters if setup.timed else (),
            # uvloop's own clock has a resolution of a millisecond
            now=time.monotonic,
            # from the start, so that the engine does not change during a run
            compiled=kernels_in_use() == "numba",
        )
        mortal = [BrokerId.parse(id) for id in setup.mortal if BrokerId.parse(id) in addresses]
        others = [id for id in addresses if id not in mortal]
        for share in (*([others] if others else []), *([id] for id in mortal)):
            await brokers.listen(share)
        return Listening({str(id): str(brokers.addresses[id]) for id in addresses})

    def _begin(self) -> Answer:
        brokers = self._running
        for recording in brokers.recordings.values():
            recording.begin()
        self._deliveries_before = sum(host.counters.deliveries for host in brokers.hosts.values())
        return Done()

    def _status(self) -> Status:
        brokers = self._running
        hosts, recordings = brokers.hosts.values(), brokers.recordings.values()
        links = [link for host in hosts for link in host.links.values()]
        return Status(
            # of a broker that is dead all are
            links_down=sum(not link.is_up or link.channel is None for link in links)
            + len(brokers.recordings)
            - len(hosts),
            waiting=sum(map(_waiting, hosts)),
            sent=sum(recording.sent_total for recording in recordings),
            received=sum(recording.received_total for recording in recordings),
            requests=sum(recording.requests_total for recording in recordings),
            deliveries=sum(host.counters.deliveries for host in hosts) - self._deliveries_before,
            too_old=sum(host.sessions.too_old_total() for host in hosts),
            unconfirmed=sum(link.queue.held - link.queue.waits for link in links),
        )

    # -- faults

    async def _trouble(self, asked: Alive | LinkState) -> Answer:
        brokers = self._running
        if isinstance(asked, LinkState):
            weather = Weather(asked.delay_ns, asked.per_message_ns, asked.per_byte_ns, asked.is_up)
            brokers.set_weather(BrokerId.parse(asked.sender), BrokerId.parse(asked.receiver), weather)
        elif asked.is_up:
            await brokers.revive(BrokerId.parse(asked.broker))
        else:
            brokers.kill(BrokerId.parse(asked.broker), self._parts.write)
        return Done()

    async def _finish(self) -> Answer:
        recordings = self._running.recordings
        for id, recording in recordings.items():
            self._parts.write(id, recording)
        await asyncio.to_thread(self._parts.wait)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return Parts(
            len(self._parts),
            {str(id): recording.words for id, recording in recordings.items()},
            _memory_bytes(),
            round((usage.ru_utime + usage.ru_stime) * 1e9),
        )

    def stop(self) -> None:
        """The process ends, and so do neighbours and clients, so no goodbyes are needed."""
        if self._brokers is not None:
            self._brokers.abort()
        self._parts.close()


def _memory_bytes() -> int:
    """The peak memory of this process; `getrusage` may report its parent's, from before this process started."""
    for line in _STATUS.read_text(encoding="ascii").splitlines() if _STATUS.exists() else ():
        name, _, rest = line.partition(":")
        if name == "VmHWM":
            return int(rest.split()[0]) * _KIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB


def _waiting(host: BrokerHost) -> int:
    streams: Any = host.broker.streams
    held = 0 if host.order is None else len(host.order.reorder)
    if streams is not None:
        held += len(streams.owed) + (streams.log.filled > 0)
    links = sum(link.queue.waits for link in host.links.values())
    return held + links + sum(session.queue.held for session in host.sessions.values())


def _tables(hosts: Mapping[BrokerId, BrokerHost], clusters: int) -> Tables:
    sizes, bits = {}, []
    for id, host in hosts.items():
        state: Any = host.broker.state
        sizes[str(id)] = (len(state.srt), len(state.prt))
        for client in host.sessions:
            for name, registered in state.advertisements.of(client).items():
                entry = state.srt.get(registered.key)
                if entry is not None and entry.civ:
                    text = civ.to_string(entry.civ, clusters)
                    bits.append(Bits(client, name, str(id), text, entry.interest))
    return Tables(sizes, tuple(bits))


class PartFiles:
    """The recordings, in files of one table of one broker each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1, "parts")
        self._writing: list[Future[None]] = []
        self._files: list[tuple[str, str]] = []

    def __len__(self) -> int:
        return len(self._files)

    def write(self, broker: BrokerId, recording: Recording) -> None:
        """Take the rows recorded so far, to be written soon."""
        for table, rows in zip(COLUMNS, recording.take(), strict=True):
            if rows:
                self._files.append((str(broker), table))
                self._writing.append(self._thread.submit(_write, self._path(len(self) - 1), table, rows))
        while len(self._writing) > PARTS_WAITING_MAX:
            self._writing.pop(0).result()

    def wait(self) -> None:
        """Wait until everything is written."""
        while self._writing:
            self._writing.pop(0).result()

    def read(self, number: int) -> Part:
        return Part(*self._files[number], self._path(number).read_bytes())

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.parquet"


def _write(path: Path, table: str, rows: "array[int]") -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = COLUMNS[table]
    numbers = np.frombuffer(rows, dtype=np.int64).reshape(-1, len(columns))
    content = io.BytesIO()
    pq.write_table(pa.table({name: numbers[:, at] for at, name in enumerate(columns)}), content, compression="zstd")
    path.write_bytes(content.getvalue())
