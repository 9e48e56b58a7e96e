"""Tables, state and events of live brokers, against what clients registered."""

import asyncio
import json
from typing import Any

import pytest

from octopia.errors import RefusedError, UnreachableError
from octopia.net import NetLimits, connect
from octopia.routing import DEFAULT_ROUTING
from octopia.topology import BrokerId
from octopia.version import __version__
from octopia.watch import Place, Reader, Watched, Watcher, find, get_json
from octopia.watch.fetch import get
from tests.net.live import asynchronous, until
from tests.net.processes import own_host
from tests.watch.overlays import clients, url, watched_overlay

TOKEN = "a token of the watcher"  # noqa: S105  of a broker that lives for a test
HOSTILE = ["<script>alert(1)</script>", "quote\"\\'", "null\\u0000", "ünïcödé ☃", "a b%20c&q=1", "../../etc"]


@asynchronous
async def test_every_table_shows_what_clients_registered_and_nothing_else() -> None:
    async with watched_overlay() as (_, watched), clients(watched, p="a,0", s="b,1") as (publisher, one):
        await publisher.advertise("class = 'STOCK' and price > 0", id="adv")
        wanted = {f"s{n}": f"price > {n}" for n in range(7)}
        subscriptions = [one.subscribe(text, id=id, policy="drop_newest") for id, text in wanted.items()]
        for each in subscriptions:
            await one.start_subscription(each)
        reader = Reader(watched)
        home = BrokerId("b", 1)
        found = (await reader.table(home, "subscriptions", client="s"))["rows"]
        shown = {(row["id"], row["filter"], row["policy"], row["client"], row["host"]) for row in found}
        assert shown == {(id, text, "drop_newest", "s", "(b,1)") for id, text in wanted.items()}
        # at another broker of the cluster they are known by their host, not by their client
        elsewhere = (await reader.table(BrokerId("a", 1), "subscriptions"))["rows"]
        assert sorted((row["client"], row["filter"], row["host"], row["from"]) for row in elsewhere) == sorted(
            ("", text, "(b,1)", "(b,1)") for text in wanted.values()
        )
        (own,) = (await reader.table(BrokerId("a", 0), "advertisements"))["rows"]
        assert (own["client"], own["id"], own["filter"], own["from"]) == (
            "p",
            "adv",
            "class = 'STOCK' and price > 0",
            "",
        )
        here = {row["client"]: row for row in (await reader.table(home, "clients"))["rows"]}
        assert here.keys() == {"s"}
        assert here["s"]["subscriptions"] == 7
        assert here["s"]["policy"] == "drop_newest"
        links = (await reader.table(home, "links", sort="neighbour"))["rows"]
        assert [(row["neighbour"], row["kind"], row["up"], row["tau"]) for row in links] == [
            ("(a,1)", "a", True, 10.0),
            ("(b,0)", "i", True, 10.0),
        ]
        state = await reader.get(home, "/state")
        assert state["process"]["version"] == __version__
        assert (state["subscriptions"], state["clients"]) == (7, 1)


@asynchronous
async def test_search_sort_and_pages_agree_with_python() -> None:
    async with watched_overlay("path:1", 1) as (_, watched), clients(watched, many="a,0") as (client,):
        texts = {f"id{n:03}": f"symbol = 'S{n % 7}' and price > {n * 37 % 101}" for n in range(120)}
        await asyncio.gather(*(client.start_subscription(client.subscribe(text, id=id)) for id, text in texts.items()))
        reader, at = Reader(watched), BrokerId("a", 0)

        async def ids(**asked: Any) -> list[str]:
            return [row["id"] for row in (await reader.table(at, "subscriptions", **asked))["rows"]]

        assert sorted(await ids(limit=500)) == sorted(texts)
        assert await ids(sort="id", offset=30, limit=10) == sorted(texts)[30:40]
        assert await ids(sort="-id", offset=115, limit=10) == sorted(texts, reverse=True)[115:]
        wanted = [id for id in sorted(texts) if "'s3'" in texts[id].lower()]
        assert await ids(q="'S3'", sort="id", limit=500) == wanted
        assert await ids(q="'S3' nowhere") == []
        page = await reader.table(at, "subscriptions", q="'s3'", sort="id", limit=2)
        assert (page["matched"], page["total"], page["complete"]) == (len(wanted), 120, True)
        for bad in ({"sort": "nothing"}, {"limit": "-1"}, {"offset": "x"}, {"what": "1"}, {"q": "x" * 300}):
            with pytest.raises(UnreachableError, match="400"):
                await reader.table(at, "subscriptions", **bad)
        with pytest.raises(UnreachableError, match="there is no table"):
            await reader.table(at, "tables")


@asynchronous
async def test_hostile_names_and_values_come_back_as_they_are() -> None:
    async with watched_overlay("path:1", 1) as (_, watched):
        reader, at = Reader(watched), BrokerId("a", 0)
        for text in HOSTILE:
            async with connect(url(watched, "a,0"), name=text) as client:
                quoted = text.replace("'", "''")
                await client.start_subscription(client.subscribe(f"x = '{quoted}'", id=text))
                (row,) = (await reader.table(at, "subscriptions", client=text))["rows"]
                assert (row["client"], row["id"], row["filter"]) == (text, text, f"x = '{quoted}'")
                (found,) = (await reader.table(at, "clients", q=text))["rows"]
                assert found["client"] == text
        status, body = await get(f"{watched.places[at].http}/tables?table=%3Cscript%3E", "")
        assert status == 400
        assert json.loads(body)["error"].startswith("there is no table '<script>'")


@asynchronous
async def test_the_token_is_needed_everywhere_but_for_health() -> None:
    async with watched_overlay("path:1", 1, http_token=TOKEN) as (_, watched):
        at = watched.places[BrokerId("a", 0)].http
        for path in ("/state", "/tables", "/tables?table=clients", "/events", "/overlay", "/traces", "/metrics"):
            with pytest.raises(RefusedError, match="http_token"):
                await get_json(f"{at}{path}")
        # the answer to a wrong one is late, the more so the more there are
        with pytest.raises(RefusedError, match="http_token"):
            await get_json(f"{at}/state", "another", within_s=60)
        assert (await get_json(f"{at}/healthz"))["status"] == "ok"
        found = await find(at, TOKEN)
        assert found == Watched(
            "test",
            watched.scot,
            DEFAULT_ROUTING,
            watched.digest,
            {BrokerId("a", 0): Place(url(watched, "a,0"), at)},
            found.token,
        )
        status, _ = await get(f"{at}/state", TOKEN)
        assert status == 200
        view = await Watcher(Watched("test", watched.scot, DEFAULT_ROUTING, watched.digest, watched.places)).look()
        assert view.brokers[BrokerId("a", 0)].status == "ok"


@asynchronous
async def test_nothing_can_be_written() -> None:
    async with watched_overlay("path:1", 1) as (server, _):
        address = server.http[BrokerId("a", 0)]
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(f"{method} /tables HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n".encode())
            assert (await reader.read(1000)).startswith(b"HTTP/1.1 405")
            writer.close()


@asynchronous
async def test_events_tell_what_happened_in_order_and_once() -> None:
    limits = NetLimits(link_grace_s=0.05)
    async with watched_overlay(net_limits=limits) as (server, watched):
        reader, home = Reader(watched), BrokerId("a", 0)
        async with connect(url(watched, "a,0"), name="p") as client:
            await client.advertise("x > 0")
            client._publishing._promises.clear()
            client._publishing._promises["any"] = _Anything()  # type: ignore[assignment]
            for n in range(50):
                await client.publish({"y": n})
            with pytest.raises(RefusedError):
                await client.flush()
        first = await reader.get(home, "/events")
        told = [(event["text"], event.get("client", event.get("neighbour"))) for event in first["events"]]
        assert told.count(("client connected", "p")) == 1
        assert told.count(("publish refused", "p")) == 1, "the others are summed up"
        assert told.index(("client connected", "p")) < told.index(("publish refused", "p"))
        assert ("link up", "(b,0)") in told
        assert [event["sequence"] for event in first["events"]] == list(range(1, first["last"] + 1))
        refused = next(event for event in first["events"] if event["text"] == "publish refused")
        assert "did not advertise this" in refused["reason"]
        for host in server.hosts.values():
            for link in host.links.values():
                if link.channel is not None:
                    link.channel.abort()
        await until(lambda: server.hosts[home].log.events.last > first["last"] + 1)
        more = await reader.get(home, "/events", since=first["last"])
        assert next(event["sequence"] for event in more["events"]) == first["last"] + 1
        assert "link broken" in {event["text"] for event in more["events"]}


class _Anything:
    def holds(self, seen: Any) -> bool:
        return True


@asynchronous
async def test_a_watcher_sees_a_broker_die_and_come_back() -> None:
    async with watched_overlay() as (_, watched):
        times = iter(range(1000))
        watcher = Watcher(watched, clock=lambda: float(next(times)))
        first = await watcher.look()
        assert {view.status for view in first.brokers.values()} == {"ok"}
        assert (first.totals.brokers, first.totals.up, first.totals.links_up) == (4, 4, 8)
        assert first.totals.published_rate is None
        async with connect(url(watched, "a,0")) as client:
            await client.advertise("x >= 0")
            await client.publish_many({"x": n} for n in range(100))
            await client.flush()
            second = await watcher.look()
        rate = second.brokers[BrokerId("a", 0)].published_rate
        assert rate is not None
        assert rate > 0
        assert second.totals.published_rate == rate
        dead = dict(watched.places)
        dead[BrokerId("b", 1)] = Place("", f"http://{own_host()}:1")
        watcher.reader.watched = Watched("test", watched.scot, DEFAULT_ROUTING, watched.digest, dead)
        third = await watcher.look()
        assert third.brokers[BrokerId("b", 1)].status == "down"
        assert third.totals.up == 3
        swapped = dict(watched.places)
        swapped[BrokerId("b", 1)] = watched.places[BrokerId("b", 0)]
        watcher.reader.watched = Watched("test", watched.scot, DEFAULT_ROUTING, watched.digest, swapped)
        assert (await watcher.look()).brokers[BrokerId("b", 1)].status == "wrong"
        watcher.reader.watched = watched
        assert (await watcher.look()).totals.up == 4
        assert any(event["text"] == "client connected" for event in watcher.events)
        assert len(watcher.history) == 4
        assert watcher.history.series("(a,0) published")[1] == (1.0, pytest.approx(rate))  # type: ignore[comparison-overlap]
