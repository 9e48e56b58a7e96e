"""Record batches in and out of a live overlay: whole, in order, whatever happens to connections."""

import asyncio
import threading
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from octopia.errors import InputError, RefusedError
from octopia.net import connect_sync
from tests.net.live import Live, asynchronous, channel_of, run, take, until

ROWS: list[dict[str, Any]] = [
    {"n": n, "text": "größer" * (n % 5), "price": n / 8} | ({"even": True} if n % 2 == 0 else {}) for n in range(6000)
]
TABLE = pa.Table.from_pylist(ROWS)
ALL = "n is not null and text is not null and price is not null and even is not null"


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if v is not None} for batch in batches for row in batch.to_pylist()]


async def collect(subscription: Any, count: int, **options: Any) -> list[pa.RecordBatch]:
    got: list[pa.RecordBatch] = []
    async for batch in subscription.batches(**options):
        got.append(batch)
        if sum(map(len, got)) >= count:
            break
    return got


@asynchronous
async def test_what_goes_in_as_a_table_comes_out_as_batches_and_one_by_one(kernels: str) -> None:
    async with Live("path:2", 1) as live:
        publisher = await live.publisher("a,0", ALL, name="arrow")
        reader = await live.client("b,0")
        columns = reader.subscribe("n >= 0", policy="block")
        few = reader.subscribe("even = true and n < 100", policy="block")
        async with columns, few:
            collecting = asyncio.create_task(collect(columns, len(ROWS), metadata=True, rows_max=1000))
            assert await publisher.publish_batch(TABLE) == len(ROWS)
            await publisher.flush()
            got = await collecting
            assert max(map(len, got)) <= 1000
            assert rows_of(got) == [{"_publisher": "arrow", "_id": at, **row} for at, row in enumerate(ROWS, 1)]
            singles = await take(few, 50)
            assert [dict(one.notification) for one in singles] == ROWS[:100:2]


@asynchronous
async def test_batches_wait_for_more_rows_as_long_as_they_are_told(kernels: str) -> None:
    async with Live("path:1", 1) as live:
        publisher = await live.publisher("a,0", ALL)
        subscription = await live.subscriber("a,0", "n >= 0")
        batches = subscription.batches(rows_max=40, within_s=100.0)
        waiting = asyncio.ensure_future(anext(batches))
        for at in range(0, 50, 10):
            await publisher.publish_batch(TABLE.slice(at, 10))
            await publisher.flush()
        assert rows_of([await waiting]) == ROWS[:40]
        # what is left comes when the time is over, here at the end of the subscription
        waiting = asyncio.ensure_future(anext(batches))
        await until(lambda: subscription.waiting == 10)
        await subscription.close()
        assert rows_of([await waiting]) == ROWS[40:50]


@asynchronous
async def test_a_value_that_does_not_fit_is_said_and_nothing_is_lost(kernels: str) -> None:
    async with Live("path:1", 1) as live:
        publisher = await live.publisher("a,0", ALL)
        subscription = await live.subscriber("a,0", "n >= 0")
        await publisher.publish_batch(TABLE.slice(0, 300))
        await publisher.flush()
        wrong = pa.schema([("text", pa.int64())])
        with pytest.raises(InputError, match="'text' is '', which does not fit a column of type int64"):
            await collect(subscription, 300, schema=wrong)
        assert rows_of(await collect(subscription, 300)) == ROWS[:300]


@asynchronous
async def test_a_row_that_was_not_advertised_is_said_and_those_before_it_are_published() -> None:
    async with Live("path:1", 1) as live:
        publisher = await live.publisher("a,0", ALL.replace("n is not null", "n < 700", 1))
        subscription = await live.subscriber("a,0", "n >= 0")
        with pytest.raises(RefusedError, match=r"row 700: .* did not advertise this"):
            await publisher.publish_batch(TABLE)
        assert publisher.last_id == 700
        await publisher.flush()
        assert rows_of(await collect(subscription, 700)) == ROWS[:700]


@asynchronous
async def test_broken_connections_lose_no_row(kernels: str) -> None:
    """Both ends are cut again and again; sessions continue, so each row arrives once and in order."""
    async with Live("path:2", 1) as live:
        publisher = await live.publisher("a,0", ALL)
        reader = await live.client("b,0")
        async with reader.subscribe("n >= 0", policy="block", inbox_max=700) as subscription:
            got: list[pa.RecordBatch] = []

            async def read() -> None:
                async for batch in subscription.batches(rows_max=300):
                    got.append(batch)
                    if sum(map(len, got)) == 4 * len(ROWS):
                        return

            reading = asyncio.create_task(read())
            for whole in range(len(ROWS), 5 * len(ROWS), len(ROWS)):
                publishing = asyncio.create_task(publisher.publish_batch(TABLE))

                def has_more(seen: int, whole: int = whole) -> bool:
                    """Whether more has come; or all has, before anyone asked."""
                    return len(got) > seen or sum(map(len, got)) == whole

                for client in (publisher, reader, publisher):
                    await until(partial(has_more, len(got)))
                    if client.is_connected:
                        channel_of(client).abort()
                await publishing
                # A reader that is away does not block: no more may wait for it than its queue takes.
                await until(lambda whole=whole: sum(map(len, got)) == whole)  # type: ignore[misc]
            await publisher.flush()
            await reading
            assert rows_of(got) == ROWS * 4
            assert publisher.reconnects > 0


def test_the_blocking_client_does_the_same(kernels: str) -> None:
    ready, over = threading.Event(), threading.Event()
    url: list[str] = []

    def serve() -> None:
        async def main() -> None:
            async with Live("path:1", 1) as live:
                url.append(live.url("a,0"))
                ready.set()
                await until(over.is_set)

        run(main)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(100)
        with connect_sync(url[0]) as client, client.subscribe("n >= 0") as numbers:
            client.advertise(ALL)
            client.publish(ROWS[0])
            assert client.publish_batch(TABLE.slice(1, 999)) == 999
            client.publish(ROWS[1000])
            got: list[pa.RecordBatch] = []
            for batch in numbers.batches(within_s=0.01):
                got.append(batch)
                if sum(map(len, got)) == 1001:
                    break
            assert rows_of(got) == ROWS[:1001]
            with pytest.raises(TypeError, match="takes a pyarrow"):
                client.publish_batch(ROWS)
    finally:
        over.set()
        thread.join()


@asynchronous
async def test_options_that_make_no_sense_are_refused() -> None:
    async with Live("path:1", 1) as live:
        subscription = await live.subscriber("a,0", "n >= 0")
        with pytest.raises(InputError, match="rows_max is 0"):
            await collect(subscription, 1, rows_max=0)
        with pytest.raises(InputError, match="unfit is 'ignore'; choose from error, null"):
            await collect(subscription, 1, unfit="ignore")
