"""What people look at, and the client without asyncio."""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from octopia.errors import LanguageError, OctopiaError, RefusedError
from octopia.net import Address, Server, UndeliveredError, UnreachableError, connect_sync
from octopia.topology import BrokerId, Scot, parse_tree


@contextmanager
def serving(tree: str = "path:2", clusters: int = 2, **options: Any) -> Iterator[Server]:
    """An overlay in a separate thread, since the code under test blocks."""
    scot = Scot(parse_tree(tree), clusters)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    anywhere = dict.fromkeys(scot.brokers, Address("127.0.0.1", 0))
    server = Server(scot, anywhere, http=anywhere, **options)

    async def start() -> None:
        await server.start()
        await server.links_up()

    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result(200)
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(200)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def url(server: Server, broker: str) -> str:
    return f"octopia://{server.addresses[BrokerId.parse(broker)]}"


def get(server: Server, broker: str, path: str, **headers: str) -> tuple[int, str]:
    address = server.http[BrokerId.parse(broker)]
    request = urllib.request.Request(f"http://{address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=100) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_publish_and_subscribe_without_asyncio() -> None:
    with (
        serving() as server,
        connect_sync(url(server, "a,0"), name="p") as publisher,
        connect_sync(url(server, "b,1")) as reader,
    ):
        assert (publisher.name, publisher.broker) == ("p", "(a,0)")
        id = publisher.advertise("n is not null")
        with reader.subscribe("n >= 0") as numbers:
            assert publisher.publish_many({"n": n} for n in range(5000)) == 5000
            got = []
            for notification in numbers:
                got.append(notification["n"])
                if len(got) == 5000:
                    break
            assert got == list(range(5000))
            assert numbers.next_batch(timeout_s=0.01) == []
            publisher.flush()
            publisher.unadvertise(id)
            publisher.publish({"n": 1})
            with pytest.raises(RefusedError, match="no advertisement"):
                publisher.flush()


def test_errors_without_asyncio() -> None:
    with serving("path:1", 1) as server:
        client = connect_sync(url(server, "a,0"))
        with client:
            client.advertise("n > 0")
            client.publish({"n": float("nan")})
            with pytest.raises(LanguageError, match="NaN"):
                client.flush()
            with pytest.raises(LanguageError):
                client.subscribe("n >")
        client.close()
        with pytest.raises(OctopiaError, match="closed"):
            client.publish({"n": 1})
    with pytest.raises(UnreachableError):
        connect_sync("octopia://127.0.0.1:1").open()
    never = connect_sync("octopia://127.0.0.1:1")
    with pytest.raises(OctopiaError, match="not connected"):
        never.advertise("n > 0")
    never.close()


def test_closing_without_asyncio_says_how_much_was_not_delivered() -> None:
    with serving("path:1", 1) as server:
        client = connect_sync(url(server, "a,0"), close_s=0.2)
        client.open()
        client.advertise("n is not null")
        client.publish({"n": 0})
        client.flush()
        client._client._journal.queue.frames_max = 10
    # Some are in the client's queue, the rest could not even be put there.
    assert client.publish_many({"n": n} for n in range(100)) == 100
    with pytest.raises(UndeliveredError, match="100 published notifications were not delivered"):
        client.close()
    client.close()


def test_leaving_by_an_exception_without_asyncio_is_not_masked() -> None:
    with serving("path:1", 1) as server:
        client = connect_sync(url(server, "a,0"), close_s=0.1).__enter__()
        client.advertise("n is not null")
    client.publish({"n": 1})
    error = ZeroDivisionError()
    client.__exit__(ZeroDivisionError, error, None)
    assert "1 published notification was not delivered" in error.__notes__[0]


def test_a_client_that_failed_says_so_without_asyncio() -> None:
    with serving("path:1", 1) as server:
        client = connect_sync(url(server, "a,0"), reconnect=False)
        client.open()
        client.advertise("n is not null")
    with pytest.raises(UnreachableError, match="ended the connection"):
        client.publish_many({"n": n} for n in count())
    # It may have taken some before it knew.
    with suppress(UndeliveredError):
        client.close()
    with pytest.raises(OctopiaError, match="closed"):
        client.publish({"n": 1})


def test_a_token_guards_what_tells_of_clients_and_not_health() -> None:
    with serving("path:1", 1, http_token="just so") as server:  # noqa: S106
        for path in ("/metrics", "/traces"):
            assert get(server, "a,0", path)[0] == 401
            assert get(server, "a,0", path, Authorization="Bearer just")[0] == 401
            assert get(server, "a,0", path, Authorization="Bearer just so")[0] == 200
        assert get(server, "a,0", "/healthz")[0] == 200


def test_metrics_and_health() -> None:
    with serving(routing="idr") as server, connect_sync(url(server, "a,0")) as client:
        client.advertise("n > 0")
        with client.subscribe("n > 0") as numbers:
            client.publish({"n": 1})
            assert len(numbers.next_batch()) == 1
            status, text = get(server, "a,0", "/metrics")
            assert status == 200
            samples = {
                (sample.name, *sample.labels.values()): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }
            assert samples["octopia_deliveries_total", "(a,0)"] == 1
            assert samples["octopia_clients", "(a,0)"] == 1
            assert samples["octopia_subscriptions", "(a,0)"] == 1
            assert samples["octopia_link_up", "(a,0)", "(b,0)"] == 1
            assert samples["octopia_link_queue_frames", "(a,0)", "(a,1)"] == 0
            assert samples["octopia_link_congestion_element", "(a,0)", "(a,1)"] == 1
            cases = {labels: value for labels, value in samples.items() if labels[0].startswith("octopia_routing_case")}
            # nobody in another cluster wants it
            assert cases == {
                (f"octopia_routing_case_{what}_total", "(a,0)", case): 0
                for what in ("notifications", "copies")
                for case in ("0", "i", "ii", "iv", "down")
            }
            status, text = get(server, "b,0", "/healthz")
            state = json.loads(text)
            assert (status, state["broker"], state["status"], state["subscriptions"]) == (200, "(b,0)", "ok", 1)
            assert {link["neighbour"]: link["up"] for link in state["links"]} == {"(a,0)": True, "(b,1)": True}
        assert get(server, "a,0", "/else")[0] == 404
