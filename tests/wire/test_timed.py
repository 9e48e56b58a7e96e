"""Parcels with the time of their acceptance: read as those without, and the time is at their end."""

from struct import pack
from typing import Any

import msgspec
import pytest

from octopia.errors import RemoteProtocolError
from octopia.language import parse_notification
from octopia.protocol import Notify
from octopia.wire import (
    Batch,
    Codec,
    WireLimits,
    accepted_ms,
    check_parcel,
    deliver_frame,
    delivered_at,
    encode_parcel,
    link_frames,
    publisher_of,
    timed,
    wire_notification,
)
from tests.wire.peers import at_broker, at_client, copied

QUOTE = {"class": "STOCK", "price": 10.5, "long": 2**100}
PLAIN = {"class": "STOCK", "price": 10.5}


def parcel(values: dict[str, Any] = PLAIN, sequence: int = 7) -> bytes:
    return encode_parcel(parse_notification(values), "p", sequence)


def test_a_time_is_an_element_more() -> None:
    made = timed(parcel(), 1_700_000_000_123)
    assert msgspec.msgpack.decode(made) == [PLAIN, "p", 7, 1_700_000_000_123]
    assert accepted_ms(made) == 1_700_000_000_123
    assert accepted_ms(parcel()) is None
    assert timed(parcel(), 0)[-9:] == b"\xcf" + bytes(8)


def test_frames_with_a_time_are_read_as_those_without() -> None:
    made = timed(parcel(), 99)
    delivery = deliver_frame(("s",), made)
    assert delivered_at(delivery) == 99
    assert delivered_at(deliver_frame(("s",), parcel())) is None
    assert publisher_of(delivery) == publisher_of(deliver_frame(("s",), parcel())) == "p"
    (came,) = at_client().receive(delivery)
    assert (came.notification.to_dict(), came.publisher, came.id) == (PLAIN, "p", "7")


@pytest.mark.parametrize("values", [PLAIN, QUOTE])
@pytest.mark.parametrize("count", [1, 2, 3, 20])
@pytest.mark.parametrize("untimed", [(), (0,), (1,)])
def test_many_are_read_as_one_by_one(values: dict[str, Any], count: int, untimed: tuple[int, ...]) -> None:
    given = [parcel(values, n) if n in untimed else timed(parcel(values, n), 1000 + n) for n in range(count)]
    batch = Batch()
    Codec(WireLimits()).read_parcels(given, batch)
    assert batch.values == [values] * count
    assert (batch.parcels, batch.sequences) == (given, list(range(count)))
    assert batch.is_timed == any(n not in untimed for n in range(count))
    assert [accepted_ms(batch.notification(n).parcel) for n in range(count)] == [
        None if n in untimed else 1000 + n for n in range(count)
    ]
    assert batch.first(1).is_timed == batch.is_timed


def test_a_batch_is_accepted_at_once() -> None:
    batch = Batch()
    Codec(WireLimits()).read_parcels([parcel(PLAIN, n) for n in range(6)], batch)
    batch.accept(5)
    assert batch.is_timed
    assert [accepted_ms(each) for each in batch.parcels] == [5] * 6


def test_a_copy_keeps_its_time() -> None:
    _, seen = check_parcel(PLAIN, "p", 7)
    made = wire_notification(seen, "p", 7)
    (sent,) = link_frames(Notify("p", "7", made))
    head = sent[:9]
    longer = pack(">I", len(timed(made.parcel, 12)) + 5) + head[4:] + timed(made.parcel, 12)
    (came,) = copied(at_broker("broker").receive(longer))
    assert accepted_ms(came.notification.parcel) == 12
    assert came.notification == made


WRONG = {
    "short number": b"\x94" + parcel()[1:] + b"\x07",
    "float": b"\x94" + parcel()[1:] + b"\xcb" + bytes(8),
    "too large": b"\x94" + parcel()[1:] + b"\xcf" + b"\xff" * 8,
    "no time": b"\x94" + parcel()[1:],
    "two times": b"\x95" + timed(parcel(), 1)[1:] + b"\xcf" + bytes(8),
    "nothing": b"\x94",
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("before", [0, 1, 5])
def test_a_wrong_time_is_the_peers_fault(wrong: bytes, before: int) -> None:
    batch = Batch()
    good = [timed(parcel(PLAIN, n), 1) for n in range(before)]
    with pytest.raises(RemoteProtocolError, match="no notification"):
        Codec(WireLimits()).read_parcels([*good, wrong], batch)
    assert batch.parcels == good
