"""The protocol between an experiment and the processes that run its brokers.

The experiment listens; every process connects, identifies itself, and then answers each question once. When the
connection ends, for any reason, the process stops its brokers: nothing is left behind when an experiment is interrupted
or killed.

Messages are plain values in msgpack, prefixed with a length of four bytes, at most `FRAME_BYTES_MAX`; received data is
never executed. A process is accepted if it knows the secret of the run.
"""

import asyncio
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from octopia.errors import RemoteProtocolError

FRAME_BYTES_MAX: Final = 1 << 28
_LENGTH_BYTES: Final = 4
T = TypeVar("T")


class Hello(Struct, frozen=True, tag=True):
    """A process connected. `boot` identifies the boot of its machine: processes with the same one share a clock."""

    secret: str
    machine: str
    boot: str
    pid: int


class Setup(Struct, frozen=True, tag=True):
    """Run these brokers, each at its address. The answer is `Listening`."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    clusters: int
    routing: str
    tau: float
    window_s: float
    brokers: dict[str, str]
    delays_ns: tuple[tuple[str, str, int], ...] = ()  # of links, by sender and receiver, if any
    covering: str = "none"
    mortal: tuple[str, ...] = ()  # brokers that will be killed
    reads: bool = False  # whether links will break, so that senders must record contents
    timed: bool = False  # whether notifications carry their time of acceptance, for deadlines


class Listening(Struct, frozen=True, tag=True):
    """The addresses of the listening brokers."""

    addresses: dict[str, str]


class Meet(Struct, frozen=True, tag=True):
    """The addresses of all brokers: dial neighbours. The answer is `Done`."""

    addresses: dict[str, str]


class Ask(Struct, frozen=True, tag=True):
    """Asks for progress. The answer is `Status`."""


class Status(Struct, frozen=True, tag=True):
    """Sums over the brokers of a process, since `Begin`."""

    links_down: int
    waiting: int  # frames in queues, frames not confirmed by clients, and notifications held back
    sent: int
    received: int
    requests: int
    deliveries: int
    too_old: int = 0  # deliveries dropped because their deadline had passed
    unconfirmed: int = 0  # frames sent to neighbours and not confirmed


class Begin(Struct, frozen=True, tag=True):
    """Nothing is in flight: start recording. The answer is `Done`."""


class Alive(Struct, frozen=True, tag=True):
    """Kill a broker without a goodbye, or restart it with empty tables. The answer is `Done`."""

    broker: str
    is_up: bool


class LinkState(Struct, frozen=True, tag=True):
    """Set the weather of a link, at its end `sender`. The answer is `Done`."""

    sender: str
    receiver: str
    is_up: bool
    delay_ns: int
    per_message_ns: int
    per_byte_ns: int


class AskTables(Struct, frozen=True, tag=True):
    """Asks for the tables. The answer is `Tables`."""


class Bits(Struct, frozen=True, tag=True):
    """The CIV of an advertisement at its host broker, and the overlapping subscriptions of its cluster."""

    client: str
    id: str
    broker: str
    civ: str
    interest: int


class Tables(Struct, frozen=True, tag=True):
    """Sizes of the SRT and the PRT by broker, and the bits of its advertisements."""

    sizes: dict[str, tuple[int, int]]
    bits: tuple[Bits, ...]


class AskTime(Struct, frozen=True, tag=True):
    """Asks for the time. The answer is `Time`."""


class Time(Struct, frozen=True, tag=True):
    """CLOCK_MONOTONIC of the machine."""

    now_ns: int


class AskParts(Struct, frozen=True, tag=True):
    """Asks for the recording. The answer is `Parts`; then follow `AskPart`s, each answered by a `Part`."""


class Parts(Struct, frozen=True, tag=True):
    """The number of files, the words that rows of each broker refer to, and the resources that the process used."""

    count: int
    words: dict[str, list[str]]
    memory_bytes: int
    cpu_ns: int


class AskPart(Struct, frozen=True, tag=True):
    number: int


class Part(Struct, frozen=True, tag=True):
    """Rows of one table of one broker, as Parquet."""

    broker: str
    table: str
    content: bytes


class Done(Struct, frozen=True, tag=True):
    """Done."""


class Failed(Struct, frozen=True, tag=True):
    """It failed."""

    reason: str


Question: TypeAlias = Setup | Meet | Ask | Begin | Alive | LinkState | AskTables | AskTime | AskParts | AskPart
Answer: TypeAlias = Hello | Listening | Status | Tables | Time | Parts | Part | Done | Failed


class Talk:
    """One end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, message: Question | Answer) -> None:
        body = msgspec.msgpack.encode(message)
        self._writer.write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)
        await self._writer.drain()

    async def hear_question(self) -> Question:
        """Raises `EOFError` if the other end is gone."""
        return _decoded(await self._frame(), _QUESTIONS)

    async def hear_answer(self) -> Answer:
        """Raises `EOFError` if the other end is gone."""
        return _decoded(await self._frame(), _ANSWERS)

    async def _frame(self) -> bytes:
        try:
            length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), "big")
            if length > FRAME_BYTES_MAX:
                raise RemoteProtocolError(f"{length:,} bytes are said at once; at most {FRAME_BYTES_MAX:,} are heard")
            return await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise EOFError("the other end is gone") from error

    def close(self) -> None:
        self._writer.close()


_QUESTIONS: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_ANSWERS: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def _decoded(frame: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    try:
        return decoder.decode(frame)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the other end sent something invalid: {error}") from None
