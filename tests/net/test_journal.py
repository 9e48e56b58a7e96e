"""The journal of a client: whatever holds entries back, they are sent in order, each once, after the registrations."""

import asyncio
from random import Random

import pytest

from octopia.language import parse_notification
from octopia.net.client.journal import Journal
from octopia.wire import encode_parcel, publish_frame
from tests.effort import cases


class Wire(asyncio.WriteTransport):
    """What was written."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += bytes(data)

    def is_closing(self) -> bool:
        return False


def entry(number: int) -> bytes:
    return publish_frame(encode_parcel(parse_notification({"n": number}), "p", number))


@pytest.mark.parametrize("seed", range(cases(60)))
def test_entries_follow_the_registrations_in_order_however_they_came_and_were_held(seed: int) -> None:
    async def main() -> None:
        draw, journal, wire = Random(seed), Journal(), Wire()
        registrations = [entry(10_000)]
        journal.begin(wire, registrations)
        put: list[bytes] = []
        for _ in range(40):
            match draw.choice(("one", "many", "pause", "unpause", "open", "begin")):
                case "one":
                    put.append(entry(len(put)))
                    journal.put(put[-1])
                case "many":
                    more = [entry(len(put) + n) for n in range(draw.randint(1, 5))]
                    put += more
                    journal.put_many(b"".join(more), len(more))
                case "pause":
                    assert journal.pause() == len(put)
                case "unpause":
                    journal.unpause()
                case "open":
                    journal.open()
                case "begin" if draw.random() < 0.2:
                    # Nothing is confirmed here, so a new session begins with all of them.
                    wire = Wire()
                    journal.begin(wire, registrations)
            assert journal.position == len(put)
        journal.open()
        journal.unpause()
        journal.queue.flush()
        assert wire.data == b"".join([*registrations, *put])

    asyncio.run(main())
