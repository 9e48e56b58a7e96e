"""Ownership of names, waiting for a name, and the delay after a wrong token."""

import asyncio
import hmac
from collections.abc import Callable
from typing import Any

import pytest

from octopia.errors import InputError, RefusedError
from octopia.language import parse_filter
from octopia.net import Address, Authority, ClientEntry, NetLimits, OverlayIdentity, Rights, Server
from octopia.net.broker import failures, handshake
from octopia.net.broker.failures import (
    ADDRESSES_MAX,
    FIRST_S,
    FORGET_S,
    LONGEST_S,
    WAITING_MAX,
    WAITING_PER_ADDRESS_MAX,
    Failures,
    source_of,
)
from octopia.routing import DEFAULT_ROUTING
from octopia.topology import Scot, parse_tree
from octopia.wire import (
    Challenge,
    Codec,
    Connection,
    Delivery,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Proof,
    Side,
    Welcome,
    WireLimits,
    message_frame,
    subscribe_frame,
)
from tests.net.live import Coroutines, Live, Test, asynchronous, overlay, until
from tests.net.processes import own_host
from tests.net.raw import RawPeer

TOKEN = "a token of the tests"  # noqa: S105
OTHER = "another token of the tests"
EVERYTHING = parse_filter("true")


def client(name: str, token: str = TOKEN) -> ClientEntry:
    return ClientEntry(Rights(name, EVERYTHING, EVERYTHING), token=token)


NAMED = Authority((client("desk"), client("desk/admin", OTHER)), link_token="between us")  # noqa: S106
# Longer than any test takes.
LONG_S = 1000.0


def hello(name: str = "n", token: str = "", **fields: Any) -> Hello:
    return Hello([1], "client", name, token, **({"session_s": LONG_S} | fields))


LONG = NetLimits(session_s_max=LONG_S, heartbeat_s=LONG_S, handshake_s=LONG_S)


def one(**options: Any) -> Callable[[Coroutines], Test]:
    return overlay(**({"tree": "path:1", "clusters": 1, "net_limits": LONG} | options))


async def code(live: Live, greeting: Hello) -> str:
    """The broker's answer to a newcomer: `welcome`, or the code with which it closes."""
    peer = await RawPeer.dial(live, "a,0")
    answer = await peer.said(greeting)
    if isinstance(answer, Welcome):
        return "welcome"
    assert isinstance(answer, Goodbye)
    return answer.code


async def gone(live: Live, peer: RawPeer, name: str = "n") -> None:
    """The peer's connection breaks, and the broker knows."""
    peer.vanish()
    await until(lambda: live.host("a,0").sessions[name].channel is None)


# -- names


@one()
async def test_a_stranger_cannot_end_a_session_that_is_away(live: Live) -> None:
    first = await RawPeer.enter(live, "a,0", hello())
    first.send(subscribe_frame("s", EVERYTHING, "block", True))
    await first.next()
    assert first.welcome is not None
    await gone(live, first)
    session = live.host("a,0").sessions["n"]
    for _ in range(3):
        assert await code(live, hello()) == "busy"
        assert await code(live, hello(session=b"not the secret")) == "busy"
    assert live.host("a,0").sessions["n"] is session
    publisher = await live.publisher("a,0", "x > 0")
    await publisher.publish({"x": 1})
    await publisher.flush()
    back = await RawPeer.enter(live, "a,0", hello(session=first.welcome.session, received=1))
    assert back.welcome is not None
    assert back.welcome.resumed
    delivery = await back.next()
    assert isinstance(delivery, Delivery)
    assert dict(delivery.notification) == {"x": 1}


@one()
async def test_the_name_is_free_when_the_time_of_a_session_is_over(live: Live) -> None:
    first = await RawPeer.enter(live, "a,0", hello(session_s=0.01))
    first.vanish()
    await until(lambda: "n" not in live.host("a,0").sessions)
    assert await code(live, hello()) == "welcome"


@one()
async def test_a_connection_that_answers_keeps_its_name(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "PROBE_S", 0.2)
    first = await RawPeer.enter(live, "a,0", hello())
    session = live.host("a,0").sessions["n"]
    for _ in range(3):
        assert await code(live, hello()) == "busy"
        await first.next(lambda message: isinstance(message, Ping))
        first.send(message_frame(Pong()))
        await until(lambda: session.probed is None)
        assert session.channel is not None
    await gone(live, first)


@one()
async def test_a_connection_that_is_dead_is_found_by_the_newcomer(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "PROBE_S", 0.05)
    await RawPeer.enter(live, "a,0", hello())
    host = live.host("a,0")
    session = host.sessions["n"]
    heard_s = session.channel.heard_s
    assert await code(live, hello()) == "busy"
    # It does not answer.
    await until(lambda: session.channel is None)
    assert session.left_s == heard_s
    assert await code(live, hello()) == "busy"
    session.session_s = 0
    await until(lambda: "n" not in host.sessions)
    assert await code(live, hello()) == "welcome"


@one()
async def test_many_newcomers_ask_a_connection_once(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "PROBE_S", LONG_S)
    first = await RawPeer.enter(live, "a,0", hello())
    assert [await code(live, hello()) for _ in range(20)] == ["busy"] * 20
    first.send(message_frame(Ping(7)))
    seen = [await first.next(lambda message: isinstance(message, Ping) or message == Pong(7)) for _ in range(2)]
    assert [type(message) for message in seen] == [Ping, Pong]


@one(authority=NAMED)
async def test_a_client_of_the_configuration_takes_its_own_place_at_once(live: Live) -> None:
    first = await RawPeer.enter(live, "a,0", hello("desk/1", TOKEN))
    assert await code(live, hello("desk/1", TOKEN)) == "busy"
    await gone(live, first, "desk/1")
    session = live.host("a,0").sessions["desk/1"]
    assert await code(live, hello("desk/1", TOKEN)) == "welcome"
    assert live.host("a,0").sessions["desk/1"] is not session


@one()
async def test_whoever_has_the_secret_may_begin_anew_also_beside_its_old_connection(live: Live) -> None:
    first = await RawPeer.enter(live, "a,0", hello())
    assert first.welcome is not None
    # It has lost count: more frames than were ever sent.
    second = await RawPeer.enter(live, "a,0", hello(session=first.welcome.session, received=99))
    assert second.welcome is not None
    assert not second.welcome.resumed
    answer = await first.next()
    assert isinstance(answer, Goodbye)
    assert answer.code == "replaced"


@pytest.mark.parametrize(
    ("token", "name", "allowed"),
    [
        (TOKEN, "desk", True),
        (TOKEN, "desk/1", True),
        (TOKEN, "desk/administrator", True),
        (TOKEN, "desk/admin", False),
        (TOKEN, "desk/admin/1", False),
        (TOKEN, "desks", False),
        (OTHER, "desk/admin", True),
        (OTHER, "desk/admin/1", True),
        (OTHER, "desk", False),
        (OTHER, "desk/1", False),
    ],
)
@one(authority=NAMED)
async def test_a_name_is_that_of_the_client_it_belongs_to(live: Live, token: str, name: str, allowed: bool) -> None:
    assert await code(live, hello(name, token)) == ("welcome" if allowed else "refused")


# -- brokers


def test_clients_cannot_be_named_without_a_secret_between_brokers() -> None:
    with pytest.raises(InputError, match=r"anyone could call itself a broker: .*\[tls\], or \[links\]"):
        Authority(NAMED.clients)


LINK_TOKEN = NAMED.link_token
NONCE = bytes(range(16))


def broker_hello(**fields: Any) -> Hello:
    own = {
        "overlay": OverlayIdentity("", Scot(parse_tree("path:2"), 1), DEFAULT_ROUTING).nameless_digest,
        "nonce": NONCE,
    }
    return Hello([1], "broker", "(a,0)", to="(b,0)", session=b"a life", **(own | fields))


def proof(token: str, whose: str, theirs: bytes, nonce: bytes = NONCE, dialler: str = "(a,0)") -> bytes:
    """A proof, as defined on the page about the wire."""
    parts = (whose.encode(), nonce, theirs, dialler.encode(), b"(b,0)")
    return hmac.digest(token.encode(), b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256")


async def challenged(live: Live, greeting: Hello) -> tuple[RawPeer, Challenge]:
    peer = await RawPeer.dial(live, "b,0", Side.DIALLING_BROKER)
    peer.send(message_frame(greeting))
    challenge = await peer.next()
    assert isinstance(challenge, Challenge)
    return peer, challenge


async def answer_to(peer: RawPeer, given: bytes) -> tuple[str, str]:
    peer.send(message_frame(Proof(given)))
    answer = await peer.next()
    return ("welcome", "") if isinstance(answer, Welcome) else (answer.code, answer.reason)


@overlay(tree="path:2", clusters=1, authority=NAMED)
async def test_nobody_is_a_broker_without_the_secret(live: Live) -> None:
    refused = ("refused", "the link token is wrong")
    for token, whose in (("", "dialler"), ("wrong", "dialler"), (TOKEN, "dialler"), (LINK_TOKEN, "acceptor")):
        # A token that is shown is not a proof.
        peer, challenge = await challenged(live, broker_hello(token=LINK_TOKEN))
        assert await answer_to(peer, proof(token, whose, challenge.nonce)) == refused
    peer, challenge = await challenged(live, broker_hello())
    assert await answer_to(peer, challenge.proof) == refused
    peer, challenge = await challenged(live, broker_hello(nonce=b""))
    assert await answer_to(peer, proof(LINK_TOKEN, "dialler", challenge.nonce, b"")) == refused
    peer, challenge = await challenged(live, broker_hello())
    assert await answer_to(peer, proof(LINK_TOKEN, "dialler", challenge.nonce, dialler="(c,0)")) == refused
    assert live.all_links_up()


@overlay(tree="path:2", clusters=1, authority=NAMED)
async def test_a_broker_that_knows_the_secret_is_let_in_once_per_challenge(live: Live) -> None:
    peer, challenge = await challenged(live, broker_hello())
    assert challenge.proof == proof(LINK_TOKEN, "acceptor", challenge.nonce)
    said = proof(LINK_TOKEN, "dialler", challenge.nonce)
    assert await answer_to(peer, said) == ("welcome", "")
    # A recorded proof cannot be replayed.
    again, _ = await challenged(live, broker_hello())
    assert await answer_to(again, said) == ("refused", "the link token is wrong")


@pytest.mark.parametrize("welcomes", [True, False])
@asynchronous
async def test_whoever_listens_at_the_port_of_a_broker_learns_no_secret_and_is_no_neighbour(welcomes: bool) -> None:
    heard: list[Any] = []

    async def listening(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(Side.ACCEPTING_BROKER, Codec(WireLimits()))
        greeting: list[Any] = []
        while not greeting:
            greeting = connection.receive(await reader.read(1 << 16))
        answer = Welcome(1, "(b,0)", "(a,0)") if welcomes else Challenge(NONCE, proof("guessed", "acceptor", NONCE))
        writer.write(message_frame(answer))
        heard.append((greeting[0], await reader.read(-1)))
        writer.close()

    overlay = Scot(parse_tree("path:2"), 1)
    here, there = overlay.brokers
    impostor = await asyncio.start_server(listening, own_host(), 0)
    address = Address(own_host(), impostor.sockets[0].getsockname()[1])
    addresses = {here: Address(own_host(), 0), there: address}
    async with impostor, Server(overlay, addresses, brokers=[here], authority=NAMED) as server:
        await until(lambda: len(heard) > 1)
        link = server.hosts[here].links[there]
        assert not link.is_up
        assert link.channel is None
    for greeting, then in heard:
        assert (greeting.name, greeting.token) == ("(a,0)", "")
        (last,) = Connection(Side.DIALLING_BROKER, Codec(WireLimits())).receive(then)
        assert isinstance(last, Goodbye)
        assert "the link token" in last.reason


# -- wrong tokens


def test_an_answer_takes_twice_as_long_each_time_up_to_a_bound() -> None:
    seen = Failures()
    delays = []
    for _ in range(10):
        delays.append(seen.failed("10.0.0.1", 5.0))
        seen.answered("10.0.0.1")
    assert delays == [min(FIRST_S * 2**n, LONGEST_S) for n in range(10)]
    assert seen.failed("10.0.0.2", 5.0) == FIRST_S
    assert seen.failed("10.0.0.1", 5.0 + FORGET_S) == LONGEST_S
    assert seen.failed("10.0.0.1", 6.0 + 2 * FORGET_S) == FIRST_S


def test_how_many_wait_is_bounded_by_address_and_in_all() -> None:
    seen = Failures()
    waiting = [seen.failed("10.0.0.1", 0.0) is not None for _ in range(2 * WAITING_PER_ADDRESS_MAX)]
    assert waiting == [True] * WAITING_PER_ADDRESS_MAX + [False] * WAITING_PER_ADDRESS_MAX
    others = [seen.failed(f"10.0.1.{n}", 0.0) is not None for n in range(WAITING_MAX)]
    assert sum(others) == WAITING_MAX - WAITING_PER_ADDRESS_MAX
    seen.answered("10.0.0.1")
    assert seen.failed("10.0.0.1", 0.0) is not None


def test_the_table_of_addresses_is_bounded() -> None:
    seen = Failures()
    for n in range(3 * ADDRESSES_MAX):
        address = f"10.{n // 65536}.{n // 256 % 256}.{n % 256}"
        seen.failed(address, 0.0)
        seen.answered(address)
    assert len(seen._seen) == ADDRESSES_MAX
    assert not seen._waiting


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ],
)
def test_what_counts_as_one_address(address: str, source: str) -> None:
    assert source_of(address) == source


@one(authority=NAMED)
async def test_wrong_tokens_wait_and_the_right_one_does_not(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "FIRST_S", LONG_S)
    monkeypatch.setattr(failures, "LONGEST_S", LONG_S)
    strangers = [await RawPeer.dial(live, "a,0") for _ in range(3 * WAITING_PER_ADDRESS_MAX)]
    for stranger in strangers:
        stranger.send(message_frame(hello(token="wrong")))  # noqa: S106
    host = live.host("a,0")
    # As many as may wait do so; the others are closed without an answer.
    await until(lambda: host.counters.peers_at_fault == len(strangers))
    await until(lambda: len(host.channels) == WAITING_PER_ADDRESS_MAX)
    for stranger in strangers:
        # Who waits is not listened to.
        stranger.send(message_frame(hello("desk", TOKEN)))
    desk = await live.client("a,0", token=TOKEN)
    await desk.advertise("x > 0")
    await desk.publish({"x": 1})
    await desk.flush()
    assert list(host.sessions) == [desk.name]


@one(authority=NAMED)
async def test_a_wrong_token_is_answered_in_the_end(live: Live) -> None:
    with pytest.raises(RefusedError, match="no client with that token"):
        await live.client("a,0", token=OTHER[::-1])
    host = live.host("a,0")
    await until(lambda: not host.door.failures._waiting)
    answers = await asyncio.gather(*(code(live, hello(token="wrong")) for _ in range(4)))  # noqa: S106
    assert answers == ["refused"] * 4
