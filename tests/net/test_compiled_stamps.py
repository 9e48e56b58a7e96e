"""Compiled code reads a stamp as `wire` does, in overlays of any size; a wrong one it leaves to the reference."""

import random

import numpy as np
import pytest

from octopia.errors import RemoteProtocolError
from octopia.matching import kernels_in_use
from octopia.protocol import Stamp
from octopia.wire import stamp_block
from octopia.wire.dests import DestsReader, split_stamp
from tests.effort import cases

pytestmark = pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")


def drawn(draw: random.Random, brokers: int) -> Stamp:
    count = min(brokers, draw.choice((1, 1, 2, 5, 20, brokers // 10 + 1, brokers // 2 + 1, brokers)))
    dests = sum(1 << place for place in draw.sample(range(brokers), count))
    sequence = draw.choice((1, 7, 300, 2**62))
    gaps = [draw.choice((1, min(sequence, 200), sequence))] * count
    if draw.random() < 0.5:
        gaps = [draw.randint(1, min(sequence, 2**40)) for _ in range(count)]
    return Stamp(draw.randrange(brokers), sequence, dests, tuple(gaps))


def read(block: bytes, brokers: int, me: int) -> tuple[int, int, int]:
    from octopia.net.broker.engine import streams_numba

    data = np.frombuffer(block + b"parcel", dtype=np.uint8)
    start = data.ctypes.data
    sequence, host, before = streams_numba._read_stamp(start, start + len(block), brokers, me)
    return int(sequence), int(host), int(before)


@pytest.mark.parametrize("brokers", [3, 12, 70, 1000])
def test_a_stamp_is_read_as_by_the_reference(brokers: int) -> None:
    draw = random.Random(brokers)
    for _ in range(cases(300)):
        stamp = drawn(draw, brokers)
        block = stamp_block(stamp)
        places = [place for place in range(brokers) if stamp.dests >> place & 1]
        me = draw.choice(places)
        assert read(block, brokers, me) == (stamp.sequence, stamp.host, stamp.sequence - stamp.gaps[places.index(me)])
        stranger = draw.randrange(brokers)
        if stranger not in places:
            assert read(block, brokers, stranger)[0] == 0


@pytest.mark.parametrize("brokers", [3, 12, 70, 1000])
def test_what_is_wrong_is_left_to_the_reference(brokers: int) -> None:
    draw, reader = random.Random(brokers), DestsReader(brokers)
    found = 0
    for _ in range(cases(1500)):
        stamp = drawn(draw, brokers)
        wrong = bytearray(stamp_block(stamp))
        for _ in range(draw.choice((1, 1, 3))):
            wrong[draw.randrange(len(wrong))] ^= 1 << draw.randrange(8)
        me = draw.randrange(brokers)
        sequence, host, before = read(bytes(wrong), brokers, me)
        expected: Stamp | None = None
        try:
            expected = reader.stamp(split_stamp(bytes(wrong) + b"parcel")[0])
        except RemoteProtocolError:
            found += 1
        if sequence:
            assert expected is not None
            place = (expected.dests & (1 << me) - 1).bit_count()
            assert expected.dests >> me & 1
            assert (sequence, host, before) == (expected.sequence, expected.host, sequence - expected.gaps[place])
    assert found
