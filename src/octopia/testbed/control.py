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
    """A process is there. `boot` names the life of its machine: processes with the same share a clock."""

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
    delays_ns: tuple[tuple[str, str, int], ...] = ()  # of links, by sender and receiver, where there is one
    covering: str = "none"
    mortal: tuple[str, ...] = ()  # brokers that will be killed
    reads: bool = False  # whether links will break, so that senders must say what they sent
    timed: bool = False  # whether notifications say when they were accepted, for deadlines


class Listening(Struct, frozen=True, tag=True):
    """Where the brokers listen."""

    addresses: dict[str, str]


class Meet(Struct, frozen=True, tag=True):
    """These are the addresses of all brokers: look for neighbours. The answer is `Done`."""

    addresses: dict[str, str]


class Ask(Struct, frozen=True, tag=True):
    """How far are you? The answer is `Status`."""


class Status(Struct, frozen=True, tag=True):
    """Sums over the brokers of a process, since `Begin`."""

    links_down: int
    waiting: int  # frames in queues, those that clients have not confirmed, and notifications that are held back
    sent: int
    received: int
    requests: int
    deliveries: int
    too_old: int = 0  # deliveries that were dropped because their deadline had passed
    unconfirmed: int = 0  # frames that were sent to neighbours, who have not said that they have them


class Begin(Struct, frozen=True, tag=True):
    """Nothing is under way: record from now on. The answer is `Done`."""


class Alive(Struct, frozen=True, tag=True):
    """Kill a broker, without a goodbye; or start it again, knowing nothing. The answer is `Done`."""

    broker: str
    is_up: bool


class LinkState(Struct, frozen=True, tag=True):
    """What is the matter with a link, at its end `sender`. The answer is `Done`."""

    sender: str
    receiver: str
    is_up: bool
    delay_ns: int
    per_message_ns: int
    per_byte_ns: int


class AskTables(Struct, frozen=True, tag=True):
    """What is in the tables? The answer is `Tables`."""


class Bits(Struct, frozen=True, tag=True):
    """The CIV of an advertisement at its host broker, and the overlapping subscriptions of its cluster."""

    client: str
    id: str
    broker: str
    civ: str
    interest: int


class Tables(Struct, frozen=True, tag=True):
    """Sizes of the SRT and the PRT by broker, and the bits of what was advertised there."""

    sizes: dict[str, tuple[int, int]]
    bits: tuple[Bits, ...]


class AskTime(Struct, frozen=True, tag=True):
    """What time is it? The answer is `Time`."""


class Time(Struct, frozen=True, tag=True):
    """CLOCK_MONOTONIC of the machine."""

    now_ns: int


class AskParts(Struct, frozen=True, tag=True):
    """What did you record? The answer is `Parts`; then one `AskPart` after the other, each answered by a `Part`."""


class Parts(Struct, frozen=True, tag=True):
    """How many files there are, the words that rows of each broker refer to, and what the process needed."""

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
    """It was done."""


class Failed(Struct, frozen=True, tag=True):
    """It could not be done."""

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
        """`EOFError` where the other end is gone."""
        return _decoded(await self._frame(), _QUESTIONS)

    async def hear_answer(self) -> Answer:
        """`EOFError` where the other end is gone."""
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
        raise RemoteProtocolError(f"the other end says what makes no sense: {error}") from None
