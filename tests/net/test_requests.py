"""Requests at a broker, as frames: a refused one must leave nothing behind."""

from typing import Any

from octopia.language import parse_filter
from octopia.net import Authority, ClientEntry, Rights
from octopia.routing import Limits
from octopia.wire import (
    Accepted,
    Hello,
    Refused,
    advertise_frame,
    subscribe_frame,
    unsubscribe_frame,
)
from tests.net.live import Live, overlay
from tests.net.raw import RawPeer

TOKEN = "a token of the tests"  # noqa: S105
RIGHTS = Rights("desk", parse_filter("x > 0"), parse_filter("x > 0"))
AUTHORITY = Authority((ClientEntry(RIGHTS, token=TOKEN),), link_token=TOKEN)
HELLO = Hello([1], "client", "desk", TOKEN)


def kept(live: Live) -> tuple[dict[str, str], list[str], Any]:
    """The session's data about its subscriptions."""
    session = live.host("a,0").sessions["desk"]
    deliveries = session.deliveries
    return dict(deliveries.policies), list(deliveries.unordered), deliveries._only_policy


async def asked(peer: RawPeer, frame: bytes) -> bool:
    """Whether the broker accepts this."""
    peer.send(frame)
    answer = await peer.next()
    assert isinstance(answer, Accepted | Refused)
    return isinstance(answer, Accepted)


@overlay(tree="path:1", clusters=1, authority=AUTHORITY)
async def test_a_refused_subscribe_changes_nothing_and_leaves_nothing(live: Live) -> None:
    inside, other, outside = map(parse_filter, ("x > 1", "x > 2", "y > 1"))
    peer = await RawPeer.enter(live, "a,0", HELLO)
    assert await asked(peer, subscribe_frame("s", inside, "drop_oldest", True))
    before: Any = ({"s": "drop_oldest"}, [], "drop_oldest")
    assert kept(live) == before
    refused = [
        ("s", outside, "disconnect", True),  # by the right
        ("s", outside, "drop_oldest", False),
        ("s", other, "drop_newest", True),  # by the core: the id is in use for another filter
        ("s", other, "drop_oldest", False),
        ("s", inside, "no such policy", False),  # by the codec
        ("t", outside, "block", False),
        ("u", inside, "no such policy", False),
    ]
    for request in refused:
        assert not await asked(peer, subscribe_frame(*request))
        assert kept(live) == before
    for id in range(50):
        assert not await asked(peer, subscribe_frame(f"n{id}", outside, "block", False))
    assert kept(live) == before


@overlay(tree="path:1", clusters=1, authority=AUTHORITY, limits=Limits(subscriptions_per_client_max=1))
async def test_a_subscribe_past_the_bound_of_the_core_leaves_nothing(live: Live) -> None:
    peer = await RawPeer.enter(live, "a,0", HELLO)
    assert await asked(peer, subscribe_frame("s", parse_filter("x > 1"), "drop_newest", True))
    for id in range(20):
        assert not await asked(peer, subscribe_frame(f"n{id}", parse_filter("x > 1"), "disconnect", False))
    assert kept(live) == ({"s": "drop_newest"}, [], "drop_newest")


@overlay(tree="path:1", clusters=1, authority=AUTHORITY)
async def test_subscribing_again_with_the_same_filter_takes_the_new_policy_and_order(live: Live) -> None:
    peer = await RawPeer.enter(live, "a,0", HELLO)
    filter = parse_filter("x > 1")
    assert await asked(peer, subscribe_frame("s", filter, "block", False))
    assert kept(live) == ({"s": "block"}, ["s"], "block")
    assert await asked(peer, subscribe_frame("s", filter, "drop_newest", True))
    assert kept(live) == ({"s": "drop_newest"}, [], "drop_newest")
    assert await asked(peer, unsubscribe_frame("s"))
    assert kept(live) == ({}, [], "drop_oldest")


@overlay(tree="path:1", clusters=1, authority=AUTHORITY)
async def test_a_refused_advertise_leaves_the_one_in_force(live: Live) -> None:
    peer = await RawPeer.enter(live, "a,0", HELLO)
    assert await asked(peer, advertise_frame("a", parse_filter("x > 1")))
    for filter in ("y > 1", "x > 2"):
        assert not await asked(peer, advertise_frame("a", parse_filter(filter)))
    assert not await asked(peer, advertise_frame("b", parse_filter("y > 1")))
    own = live.host("a,0").broker.state.advertisements.of("desk")
    assert {id: str(registered.filter) for id, registered in own.items()} == {"a": "x > 1"}
