"""Rights and proofs of identity: requests that must be refused."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

import octopia
from benchmarks.chaos import hostile
from benchmarks.chaos.actors import leave, topic
from benchmarks.chaos.hostile import Peer
from benchmarks.chaos.oracle import Wish
from benchmarks.chaos.processes import serve_says
from benchmarks.chaos.trial import Scenario, Trial
from benchmarks.chaos.world import MAIN, Entry, ServeRefusedError, Setup, World
from octopia.errors import OctopiaError
from octopia.wire import Accepted, Codec, Goodbye, Hello, Kind, Refused, Welcome, WireLimits, frame, notification_frame

RIGHT = "class = 'STOCK' and price > 0 or class = 'BOND' and rate > 0"
TRADER = Entry("trader", "b5a49382716f5e4d3c2b1a0f9e8d7c60", advertise=RIGHT)
GUEST = Entry("guest", "6a5b4c3d2e1f0918273645546372819a")
FORGED = 20


async def right_bypass(trial: Trial) -> None:
    """An advertisement that the right covers must not let through a notification that the right does not."""
    await trial.subscriber("rates", Wish.of(("rate", "<", 0)), "a,0")
    client = octopia.connect(trial.world.url("a,0"), name="trader", token=TRADER.token)
    await client.open()
    try:
        await client.advertise("class = 'STOCK' and price > 0 and rate is not null")
        await client.publish({"rate": -100})
        await client.flush()
        trial.outcome.refused("silently")
    except OctopiaError as error:
        trial.outcome.refused(str(error))
    await trial.settle(3.0)
    trial.outcome.tally = trial.ledger.tally()
    if trial.outcome.tally.unwanted:
        trial.outcome.accepted("delivered what its publisher may not publish")
    await leave(client)


async def impostor(trial: Trial) -> None:
    """Client tokens, no TLS and no link secret: a process without a token claims to be a neighbour."""
    trial.world = World(Setup(2, 1, clients=(MAIN,), link_token="", proxied=(("a,0", "b,0"),)), trial.world.folder)
    try:
        await trial.world.start()
    except ServeRefusedError as error:
        trial.outcome.refused(str(error))
        return
    digest = _overheard(trial.world)
    await trial.subscriber("reader", topic("quotes"), "b,0")
    publisher = await trial.publisher("feed", "quotes", "b,0")
    await trial.world.kill("a,0")
    await asyncio.sleep(0.5)
    peer = await asyncio.to_thread(Peer, trial.world.host, trial.world.ports["b,0"], timeout_s=2.0, broker=True)
    answer = await asyncio.to_thread(_claim, peer, digest)
    if not isinstance(answer, Welcome):
        trial.outcome.refused(answer.reason if isinstance(answer, Goodbye) else "closed without a word")
    else:
        await asyncio.to_thread(_take_part, peer)
        await publisher.burst(50)
        read = await asyncio.to_thread(_read, peer)
        trial.outcome.accepted(f"a process without a token was taken for broker (a,0) and read {read} notifications")
    peer.close()
    await trial.finish(publisher)


def _overheard(world: World) -> str:
    """The digest of the overlay, from the first frame that one broker sent to the other."""
    for proxy in world.link("a,0", "b,0"):
        for head in proxy.heads:
            length = int.from_bytes(head[:4], "big")
            if head[4] == Kind.HELLO and len(head) >= 4 + length:
                hello: Hello = Codec(WireLimits()).decoders[Kind.HELLO](head[5 : 4 + length])
                return hello.overlay
    return ""


def _claim(peer: Peer, digest: str) -> Any:
    return peer.hello("broker", name="(a,0)", to="(b,0)", overlay=digest, session=b"0123456789abcdef")


def _take_part(peer: Peer) -> None:
    """Subscribe to everything, and publish in a client's name."""
    encode = msgspec.msgpack.encode
    peer.send(frame(Kind.LINK_SUBSCRIBE, encode((("a", 0, 10**15), hostile.EVERYTHING, ()))))
    peer.send(frame(Kind.LINK_SUBSCRIPTIONS_COMPLETE, encode(((("a", 0),),))))
    for number in range(FORGED):
        content = {"class": "quotes", "by": "main/feed", "n": 10**6 + number, "x": 0, "pad": ""}
        peer.send(notification_frame(Kind.NOTIFY, b"", hostile.parcel("main/feed", 10**6 + number, content)))


def _read(peer: Peer) -> int:
    count = 0
    while messages := peer.receive():
        count += sum(hasattr(message, "notification") for message in messages)
        count += sum(len(message) for message in messages if hasattr(message, "__len__"))
    return count


async def block_ungranted(trial: Trial) -> None:
    """Policy `block` slows others, so it must be granted."""
    peer = await asyncio.to_thread(Peer, trial.world.host, trial.world.ports["a,0"])
    answer = await asyncio.to_thread(_block, peer)
    if isinstance(answer, Accepted):
        trial.outcome.accepted("anyone may block")
    else:
        trial.outcome.refused(getattr(answer, "reason", "closed without a word"))
    peer.close()


def _block(peer: Peer) -> Any:
    peer.hello(name="guest", token=GUEST.token)
    peer.send(hostile.subscribe("s1", [[["class", hostile.EQ, "quotes"]]], "block"))
    return peer.wait_for(Accepted | Refused | Goodbye)  # type: ignore[arg-type]


OVERLAY = '[overlay]\ntree = "path:1"\nclusters = 1\n'


async def short_token(trial: Trial) -> None:
    """A token of one character must not be accepted."""
    port = trial.world.ports["a,0"]
    text = (
        f'{OVERLAY}[brokers]\nhost = "{trial.world.host}"\nport = {port}\nhttp_port = 0\n'
        '[links]\ntoken = "e1b7c0f2a4d94c1c8a55d6f0b3a7924e"\n'
        '[[clients]]\nname = "a"\ntoken = "x"\nsubscribe = "true"\n'
    )
    await _must_refuse(trial, text, "a token of one character is accepted")


async def open_host(trial: Trial) -> None:
    """Brokers that listen to the world, without TLS or clients, must not start without a word."""
    text = f'{OVERLAY}[brokers]\nhost = "0.0.0.0"\nport = {trial.world.ports["a,0"]}\nhttp_port = 0\n'
    await _must_refuse(trial, text, "listens to the world, to anyone, without a word", apart=True)


async def _must_refuse(trial: Trial, text: str, fault: str, *, apart: bool = False) -> None:
    file = Path(trial.world.folder) / "refuse-me.toml"
    file.write_text(text, encoding="utf-8")
    listens, said = await asyncio.to_thread(serve_says, file, apart=apart)
    if not listens:
        trial.outcome.refused(said)
    elif said:
        trial.outcome.answer = f"warned: {said}"
    else:
        trial.outcome.accepted(fault)


SCENARIOS = [
    Scenario(
        "right-bypass",
        "a notification that its publisher has no right to",
        right_bypass,
        Setup(1, 1, clients=(MAIN, TRADER)),
    ),
    Scenario("impostor", "a process without a token claims to be broker (a,0)", impostor, None),
    Scenario(
        "block-ungranted", "policy block without the right to it", block_ungranted, Setup(1, 1, clients=(MAIN, GUEST))
    ),
    Scenario("short-token", "a token of one character", short_token, None),
    Scenario("open-host", "0.0.0.0 without TLS or clients", open_host, None),
]
