"""Why a client of running brokers gets a notification, or not: against brute force, and each cause once."""

import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from octopia.language import conforms, matches, parse_filter
from octopia.net import Authority, Client, ClientEntry, NetLimits, Rights, connect
from octopia.net.broker.qos import Qos
from octopia.topology import BrokerId
from octopia.watch import Place, Reader, Watched, advertise_exactly, probe, why, why_traced
from tests.net.live import asynchronous, until
from tests.net.processes import own_host
from tests.watch.overlays import clients, url, watched_overlay

LINKS = "token of the links"


def prober(token: str = "") -> Callable[[str], Client]:
    return lambda at: connect(at, token=token)


@pytest.mark.parametrize("routing", ["idr", "fdr", "tid-dynamic"])
@asynchronous
async def test_delivered_exactly_where_brute_force_says_so(routing: str) -> None:
    draw = random.Random(routing)

    def condition() -> str:
        return f"{draw.choice('xy')} {draw.choice(['>', '<', '<>'])} {draw.randrange(4)}"

    async with watched_overlay("path:2", 2, routing=routing) as (_, watched), AsyncExitStack() as stack:
        brokers = watched.scot.brokers
        wanted: dict[str, list[str]] = {}
        promised = {"p0": "x >= 0 and y >= 0", "p1": "x > 1 and y > 1"}
        for number, (name, text) in enumerate(promised.items()):
            at = watched.places[brokers[number]].url
            await (await stack.enter_async_context(connect(at, name=name))).advertise(text)
        for number in range(5):
            name = f"s{number}"
            client = await stack.enter_async_context(connect(watched.places[draw.choice(brokers)].url, name=name))
            wanted[name] = [condition() for _ in range(min(number, 2))]
            for each in wanted[name]:
                await stack.enter_async_context(client.subscribe(each))
        reader = Reader(watched)
        seen_causes = set()
        for _ in range(24):
            notification = {name: draw.randrange(-1, 4) for name in draw.sample("xyz", draw.randrange(1, 3))}
            publisher = draw.choice([None, "p0", "p1"])
            sources = list(promised) if publisher is None else [publisher]
            client_name = draw.choice(list(wanted))
            answer = await why(reader, client_name, notification, publisher=publisher, make_client=prober())
            can = any(conforms(notification, promised[each]) for each in sources)
            wants = any(matches(each, notification) for each in wanted[client_name])
            assert answer.delivered == (can and wants), (answer, notification)
            assert answer.reasons
            seen_causes.add(answer.cause)
            expected = (
                "delivered" if can and wants
                else "advertisement" if wants
                else "predicate" if wanted[client_name]
                else "subscription"
            )  # fmt: skip
            assert answer.cause == expected
        assert len(seen_causes) >= 3


@asynchronous
async def test_the_way_is_told_hop_by_hop() -> None:
    async with watched_overlay() as (_, watched), clients(watched, p="a,0", s="b,1") as (publisher, reader):
        await publisher.advertise("x > 0")
        async with reader.subscribe("x > 3", id="far"):
            answer = await why(Reader(watched), "s", {"x": 5}, make_client=prober())
            assert answer.delivered
            assert answer.reasons[0] == "matches subscription far"
            assert answer.reasons[1].startswith("published at (a,0), delivered at (b,1), 2 hops, ")
            assert answer.reasons[2:] == ["(a,0) → (b,0) by aLink, for (b,1)", "(b,0) → (b,1) by iLink, for (b,1)"]
            number = await publisher.probe({"x": 5})
            traced = await why_traced(Reader(watched), "s", "p", number)
            assert traced.delivered
            missed = await why_traced(Reader(watched), "p", "p", number)
            assert (missed.delivered, missed.cause, missed.reasons) == (
                False,
                "subscription",
                ["p at (a,0) has no subscription"],
            )
            assert (await why_traced(Reader(watched), "s", "p", 1)).cause == "unknown"


async def cause(watched: Watched, client: str, notification: dict[str, Any], **given: Any) -> tuple[str, str]:
    answer = await why(Reader(watched), client, notification, **{"make_client": prober(), **given})
    assert not answer.delivered
    return answer.cause, " | ".join(answer.reasons)


@asynchronous
async def test_each_reason_of_the_tables() -> None:
    async with watched_overlay() as (_, watched), clients(watched, p="a,0", s="b,1") as (publisher, reader):
        assert await cause(watched, "nobody", {"x": 1}) == (
            "client",
            "no broker that answers knows a client named nobody",
        )
        assert await cause(watched, "s", {"x": 1}) == ("subscription", "s at (b,1) has no subscription")
        async with reader.subscribe("x > 3 and y = 'a'", id="far"):
            assert await cause(watched, "s", {"x": 1, "y": "a"}) == (
                "predicate",
                "subscription far does not match: x > 3 failed: x is 1",
            )
            assert await cause(watched, "s", {"x": 5, "y": "a"}) == (
                "advertisement",
                "nobody has advertised it, so nobody can publish it",
            )
            await publisher.advertise("x > 0 and z > 0", id="adv")
            assert await cause(watched, "s", {"x": 1, "y": "a"}) == (
                "predicate",
                (
                    "subscription far does not match: x > 3 failed: x is 1 | subscription far can get nothing: "
                    "no advertisement in force overlaps it; adv of p: the advertisement does not name 'y'"
                ),
            )
            assert await cause(watched, "s", {"x": 5, "y": "a"}, publisher="p") == (
                "advertisement",
                "p at (a,0) has not advertised this | advertisement adv: the advertisement does not name 'y'",
            )
            assert (await cause(watched, "s", {"x": 5, "y": "a"}, publisher="q"))[0] == "client"
            # a broker that does not answer may be the one
            silent = {**watched.places, BrokerId("a", 1): Place("", f"http://{own_host()}:1")}
            partly = Watched("test", watched.scot, watched.routing, watched.digest, silent)
            told, lines = await cause(partly, "nobody", {"x": 1})
            assert told == "link"
            assert "(a,1) may, and does not answer" in lines


@asynchronous
async def test_rights_that_stop_it() -> None:
    feed = Rights("feed", parse_filter("x > 0"), None, None, False, False)
    desk = Rights("desk", None, parse_filter("x > 10"), None, False, False)
    watch = Rights("watch", None, None, None, False, True)
    tokens = {"feed": "token of the feed", "desk": "token of the desk", "watch": "token of the watch"}
    entries = tuple(ClientEntry(rights, tokens[rights.name]) for rights in (feed, desk, watch))
    async with (
        watched_overlay("path:2", 1, authority=Authority(entries, LINKS)) as (_, watched),
        connect(url(watched, "a,0"), name="feed", token=tokens["feed"]) as publisher,
        connect(url(watched, "b,0"), name="desk", token=tokens["desk"]) as reader,
    ):
        await publisher.advertise("x > 0")
        as_watch: dict[str, Any] = {"make_client": prober(tokens["watch"])}
        with pytest.raises(Exception, match="may not subscribe"):
            await reader.start_subscription(reader.subscribe("x > 5"))
        told, lines = await cause(watched, "desk", {"x": 20}, **as_watch)
        assert told == "right"
        assert "desk may not subscribe to x > 5" in lines
        async with reader.subscribe("x > 10", id="ten"):
            answer = await why(Reader(watched), "desk", {"x": 20}, **as_watch)
            assert (answer.delivered, answer.publisher) == (True, "feed")
            # who may not probe in the name of others is told so
            told, lines = await cause(watched, "desk", {"x": 20}, make_client=prober(tokens["desk"]))
            assert (told, "may not probe in the name of feed" in lines) == ("right", True)
        async with reader.subscribe("x > 10 and y > 0"):
            told, lines = await cause(watched, "desk", {"x": 20, "y": 1}, publisher="desk", **as_watch)
            assert (told, lines) == ("right", "desk may not publish anything")
        # a narrow right is enough to probe what it allows
        await advertise_exactly(publisher, {"x": 3, "w": "any"})
        path = await probe(publisher, Reader(watched), {"x": 3, "w": "any"})
        assert (path.refused, path.broker) == ("", "(a,0)")


@pytest.mark.parametrize(
    ("routing", "why_not"),
    [
        ("idr", "(a,0) → (b,0) by aLink: the link is down, and the copy waits"),
        ("fdr", "no copy was sent towards it; links are down: (a,0) → (b,0), (b,0) → (a,0)"),
    ],
)
@asynchronous
async def test_a_link_that_is_down_stops_it(routing: str, why_not: str) -> None:
    limits = NetLimits(link_grace_s=0.05, detour_grace_s=0.05, drain_s=0.1)
    async with (
        watched_overlay("path:2", 1, routing=routing, net_limits=limits) as (server, watched),
        clients(watched, p="a,0", s="b,0") as (publisher, reader),
    ):
        await publisher.advertise("x > 0")
        async with reader.subscribe("x > 0"):
            a, b = server.hosts[BrokerId("a", 0)], server.hosts[BrokerId("b", 0)]
            for dialler in (*a.diallers.values(), *b.diallers.values()):
                dialler.stop()
            for host in (a, b):
                for link in host.links.values():
                    if link.channel is not None:
                        link.channel.abort()
            await until(lambda: not any(link.is_up for host in (a, b) for link in host.links.values()))
            told, lines = await cause(watched, "s", {"x": 1})
            assert told == "link"
            assert why_not in lines


@asynchronous
async def test_a_full_queue_and_a_deadline_stop_it() -> None:
    passed_s = 0.0
    limits = NetLimits(client_queue_frames_max=10, drain_s=0.1)
    options: dict[str, Any] = {"qos": (Qos(is_timed=True),), "wall": lambda: 1_000_000.0 + passed_s}
    async with (
        watched_overlay("path:1", 1, net_limits=limits, **options) as (server, watched),
        clients(watched, p="a,0", slow="a,0", late="a,0") as (publisher, slow, late),
    ):
        await publisher.advertise("x >= 0")
        await slow.start_subscription(slow.subscribe("x >= 0", policy="drop_newest"))
        await late.start_subscription(late.subscribe("x >= 20", policy="drop_oldest", deadline_ms=500))
        for name in ("slow", "late"):
            server.hosts[BrokerId("a", 0)].sessions[name].queue.write_no_more()
        await publisher.publish_many({"x": n} for n in range(25))
        await publisher.flush()
        told, lines = await cause(watched, "slow", {"x": 1})
        assert told == "drop"
        assert "its queue is full (9 frames), and the policy is drop_newest" in lines
        answer = await why(Reader(watched), "late", {"x": 20}, make_client=prober())
        assert answer.delivered
        assert answer.reasons[0] == "5 deliveries wait for late before it"
        passed_s = 10.0
        told, lines = await cause(watched, "late", {"x": 20})
        assert told == "deadline"
        assert "and the deadline is 500 ms" in lines
