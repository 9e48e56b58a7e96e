"""Clients that outlive their process: stored deliveries are confirmed, others are resent, and ids are as chosen."""

from collections.abc import Sequence

import pytest

from octopia.errors import OctopiaError
from octopia.net import Client, KeptClient, KeptSession
from octopia.wire import Batch, Codec, WireLimits
from tests.net.live import Live, overlay, take, until

FILTER = "n >= 0"


class List:
    """A keeper in memory; its content is what a process would have on disk."""

    def __init__(self) -> None:
        self.parcels: list[bytes] = []
        self.session: KeptSession | None = None
        self.began = 0
        self.dropped = 0
        self.refuses_after: int | None = None
        self.is_full = False

    def keep(self, parcels: Sequence[bytes], session: KeptSession, dropped: int) -> None:
        if self.refuses_after is not None and len(self.parcels) + len(parcels) > self.refuses_after:
            raise OSError(28, "No space left on device")
        self.parcels += parcels
        self.session = session
        self.dropped += dropped

    def session_began(self, session: KeptSession) -> None:
        self.began += 1
        self.session = session

    @property
    def numbers(self) -> list[object]:
        seen = Batch()
        Codec(WireLimits()).read_parcels(list(self.parcels), seen)
        return [values["n"] for values in seen.values]


async def opened(live: Live, keeper: List, session: KeptSession | None = None, url: str = "") -> KeptClient:
    client = KeptClient(url or live.url("c,2"), FILTER, keeper, session=session)
    await client.open()
    live.clients.append(client)
    return client


@overlay()
async def test_a_keeper_that_fails_has_confirmed_nothing(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null")
    keeper = List()
    client = await opened(live, keeper)
    await publisher.publish_many({"n": n} for n in range(100))
    await until(lambda: len(keeper.parcels) == 100)
    keeper.refuses_after = 100
    await publisher.publish_many({"n": n} for n in range(100, 150))
    await until(lambda: client.failure is not None)
    assert "No space left on device" in str(client.failure)
    # It has hung up, and says nothing more.
    await until(lambda: live.host("c,2").sessions[client.name].channel is None)
    keeper.refuses_after = None
    again = await opened(live, keeper, keeper.session)
    await until(lambda: len(keeper.parcels) == 150)
    assert keeper.numbers == list(range(150))
    assert (again.taken_up, keeper.began) == (True, 1)


@overlay()
async def test_a_session_is_looked_for_where_it_is(live: Live) -> None:
    """Of several brokers the one that has the session is asked first."""
    publisher = await live.publisher("a,0", "n is not null")
    keeper = List()
    first = await opened(live, keeper, url=live.url("c,2"))
    await first.leave()
    await publisher.publish({"n": 1})
    both = f"{live.url('c,1')},{live.url('c,2')}"
    again = await opened(live, keeper, keeper.session, url=both)
    assert (again.broker, again.taken_up) == ("(c,2)", True)
    await until(lambda: keeper.numbers == [1])
    await again.leave()
    elsewhere = await opened(live, keeper, keeper.session, url=live.url("b,0"))
    assert (elsewhere.taken_up, keeper.began) == (False, 2)


@pytest.mark.parametrize("received", [0, 10**6])
@overlay()
async def test_a_session_that_does_not_fit_is_not_taken_up_and_does_not_stay(live: Live, received: int) -> None:
    """The stored deliveries were lost, or belong to another session: the client starts over under its own name."""
    publisher = await live.publisher("a,0", "n is not null")
    keeper = List()
    client = await opened(live, keeper)
    await publisher.publish_many({"n": n} for n in range(10))
    await until(lambda: len(keeper.parcels) == 10)
    await client.leave()
    host, session = live.host("c,2"), keeper.session
    assert session is not None
    await until(lambda: host.sessions[session.name].channel is None and host.sessions[session.name].queue.confirmed)
    wrong = KeptSession(session.url, session.secret, session.name, received)
    again = await opened(live, keeper, wrong)
    assert (again.taken_up, keeper.began) == (False, 2)
    assert list(host.sessions) == [session.name]
    await publisher.publish({"n": 10})
    await until(lambda: len(keeper.parcels) == 11)


@overlay()
async def test_a_full_keeper_is_not_read_for_and_then_gets_everything(live: Live) -> None:
    publisher = await live.publisher("a,0", "n is not null")
    keeper = List()
    client = await opened(live, keeper)
    keeper.is_full = True
    await publisher.publish_many({"n": n} for n in range(3000))
    session = live.host("c,2").sessions[client.name]
    await publisher.flush()
    await until(lambda: session.queue.held + len(keeper.parcels) >= 3000)
    keeper.is_full = False
    client.resume()
    await until(lambda: len(keeper.parcels) == 3000)
    assert keeper.numbers == list(range(3000))


@overlay()
async def test_a_subscription_that_is_refused_is_told(live: Live) -> None:
    keeper = List()
    first = await opened(live, keeper)
    name = first.name
    second = KeptClient(live.url("c,2"), FILTER, List(), name=name, connect_s=0.1)
    with pytest.raises(OctopiaError, match="is connected already"):
        await second.open()


@overlay()
async def test_ids_count_from_the_first(live: Live) -> None:
    subscription = await live.subscriber("c,2", FILTER)
    for _ in range(2):
        client = Client(live.url("a,0"), first_id=2**40 + 1, name="me")
        await client.open()
        await client.advertise("n is not null")
        await client.publish_many([{"n": 1}, {"n": 2}])
        assert client.last_id == 2**40 + 2
        await client.close()
    got = await take(subscription, 4)
    assert [(d.publisher, int(d.id), d.notification["n"]) for d in got] == [
        ("me", 2**40 + 1, 1),
        ("me", 2**40 + 2, 2),
    ] * 2


@overlay()
async def test_a_keeper_may_fail_at_once(live: Live) -> None:
    class Broken(List):
        def session_began(self, session: KeptSession) -> None:
            raise OctopiaError("no")

    client = KeptClient(live.url("c,2"), FILTER, Broken())
    with pytest.raises(OctopiaError, match="no"):
        await client.open()
