"""Overlays of the same shape stay apart, and a rolling upgrade from the version before works or is refused clearly."""

import logging
import time
from hashlib import blake2b, sha256
from pathlib import Path

import msgspec
import pytest

from octopia.net import Address, NetLimits, OverlayIdentity, Server, load_config
from octopia.net.broker.saved import Place, take
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.wire import Hello
from tests.net.live import Live, asynchronous, until

SCOT = Scot(parse_tree("path:3"), 3)


def digest_before(scot: Scot, routing: str) -> str:
    """The digest of the version before."""
    text = f"{scot.tree.edges} {scot.tree.nodes} {scot.clusters} {routing}"
    return sha256(text.encode()).hexdigest()[:32]


def hello_before(scot: Scot, routing: str) -> Hello:
    """A neighbour's HELLO, as the version before sends it."""
    fields = {"versions": [1], "role": "broker", "name": "(a,0)", "overlay": digest_before(scot, routing)}
    return msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=Hello)


def test_overlays_that_differ_in_their_name_have_other_digests(tmp_path: Path) -> None:
    text = '[overlay]\ntree = "path:3"\nclusters = 3\n'
    files = {"one": text, "other": text, "named": text.replace("[overlay]", '[overlay]\nname = "one"')}
    for name, content in files.items():
        (tmp_path / f"{name}.toml").write_text(content, encoding="utf-8")
    one, other, named = (load_config(tmp_path / f"{name}.toml").digest for name in files)
    assert one != other
    assert one == named


@asynchronous
async def test_brokers_of_another_overlay_of_the_same_shape_are_refused() -> None:
    """Two overlays without tokens, whose files give one wrong address."""
    scot = Scot(parse_tree("path:2"), 1)
    one, other = scot.brokers
    here = Server(scot, dict.fromkeys(scot.brokers, Address("127.0.0.1", 0)), brokers=[other], name="here")
    await here.start()
    addresses = {one: Address("127.0.0.1", 0), other: here.addresses[other]}
    there = Server(scot, addresses, brokers=[one], name="there")
    await there.start()
    told = "(a,0) belongs to the overlay 'there', this broker to 'here'"
    await until(lambda: any(told in str(event) for event in there.hosts[one].log.events.latest(99)))
    assert not here.hosts[other].links[one].is_up
    assert not there.hosts[one].links[other].is_up
    await there.stop()
    await here.stop()


@pytest.mark.parametrize("routing", ["idr", "snr"])
def test_a_neighbour_of_the_version_before_is_accepted_or_told_why_not(routing: str) -> None:
    own = OverlayIdentity("mine", SCOT, routing)
    assert own.nameless_digest == digest_before(SCOT, routing)
    assert own.why_not(hello_before(SCOT, routing)) == ""
    theirs = "fdr" if routing == "idr" else "idr"
    assert own.why_not(hello_before(SCOT, theirs)) == (
        f"(a,0) uses the routing {theirs}, this broker {routing}; "
        "set the same name under [routing] everywhere, or restart all brokers with the same version"
    )
    assert own.why_not(hello_before(Scot(parse_tree("path:4"), 3), routing)) == (
        "(a,0) was started with another overlay; use the same file everywhere"
    )


@pytest.mark.parametrize("routing", ["idr", "fdr"])
def test_fdr_of_the_version_before_is_refused_with_the_reason(routing: str) -> None:
    """What its brokers say to each other has changed."""
    own = OverlayIdentity("mine", SCOT, routing)
    same = "speaks an earlier version of fdr; stop all brokers, and start them again with the same version"
    other = (
        "uses the routing fdr, this broker idr; "
        "set the same name under [routing] everywhere, or restart all brokers with the same version"
    )
    assert own.why_not(hello_before(SCOT, "fdr")) == f"(a,0) {same if routing == 'fdr' else other}"
    now = Hello(
        [1], "broker", "(a,0)", overlay=OverlayIdentity("mine", SCOT, "fdr").nameless_digest, overlay_name="mine"
    )
    assert own.why_not(now) == ("" if routing == "fdr" else f"(a,0) {other}")


def test_the_version_before_accepts_us() -> None:
    """It compares this digest, and ignores fields that it does not know."""

    class HelloBefore(msgspec.Struct):
        versions: list[int]
        role: str
        overlay: str = ""

    own = OverlayIdentity("x" * 1000, SCOT, "idr")
    said = Hello([1], "broker", "(a,0)", overlay=own.nameless_digest, overlay_name=own.spoken_name)
    data = msgspec.msgpack.encode(said)
    assert msgspec.msgpack.decode(data, type=HelloBefore) == HelloBefore([1], "broker", digest_before(SCOT, "idr"))
    assert own.why_not(msgspec.msgpack.decode(data, type=Hello)) == ""


def saved_before(
    folder: Path, scot: Scot, routing: str, broker: BrokerId, address: Address, links: list[object]
) -> Path:
    """A state file of the version before, with one session."""
    whose = f"{digest_before(scot, routing)} {broker} {address}"
    session = ["c", "", b"secret", 30.0, 7, -1, 5, 0, [], [], 0, 0, [], [], 0]
    body = msgspec.msgpack.encode([whose, time.time(), [session], links])
    name = blake2b(whose.encode(), digest_size=8).hexdigest()
    path = folder / f"{broker.region}-{broker.cluster}-{name}.saved"
    path.write_bytes(b"OCTOPIA\x01" + blake2b(body, digest_size=32).digest() + body)
    return path


@pytest.mark.parametrize("now", ["idr", "fdr", "snr"])
def test_state_of_the_version_before_is_read_whatever_the_routing_is_now(tmp_path: Path, now: str) -> None:
    broker, address = BrokerId("b", 2), Address("127.0.0.1", 7400)
    saved_before(tmp_path, SCOT, "idr", broker, address, [["(a,2)", [b"one"]]])
    found = take(Place(tmp_path, OverlayIdentity("mine", SCOT, now), broker, address), time.time(), 300.0)
    assert found is not None
    assert ([session.name for session in found.sessions], found.routing) == (["c"], "idr")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("now", "used"), [("idr", True), ("fdr", False)])
def test_a_changed_routing_keeps_sessions_and_says_what_it_cannot_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, now: str, used: bool
) -> None:
    """Frames for neighbours name their way by the routing that made them."""
    caplog.set_level(logging.WARNING, "octopia.net")

    async def scene() -> None:
        live = Live("path:2", 1, net_limits=NetLimits(restart_grace_s=1000.0, link_give_up_s=1000.0))
        one, other = live.scot.brokers
        address = Address("127.0.0.1", 0)
        first = Server(live.scot, {one: address, other: address}, brokers=[one], state=tmp_path, routing="idr")
        await first.start()
        at = first.addresses[one]
        await first.stop(for_good=True)
        saved_before(tmp_path, live.scot, "idr", one, at, [[str(other), [b"\x00\x00\x00\x01\x30"] * 3]])
        server = Server(live.scot, {one: at, other: address}, brokers=[one], state=tmp_path, routing=now, name="mine")
        await server.start()
        host = server.hosts[one]
        assert list(host._clients) == ["c"]
        assert host.links[other].queue.waits == (3 if used else 0)
        await server.stop(for_good=True)

    asynchronous(scene)()
    told = [
        getattr(record, "octopia", None)
        for record in caplog.records
        if record.message == "saved notifications not used"
    ]
    reason = "they were on their way to neighbours under idr, and this broker uses fdr"
    assert told == ([] if used else [{"broker": "(a,0)", "notifications": 3, "reason": reason}])
