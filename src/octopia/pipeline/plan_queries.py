"""The Spark queries of `octopia plan` over a trace: flows, costs by client, and similarity of filters.

Everything is grouped by notification or by client before it reaches the driver, so the collected data grows with the
number of clients and of distinct sets of receivers, never with the trace.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from octopia.pipeline.arrow import map_arrow, spark_schema
from octopia.planning import FLOWS_MAX, Costs, Pair

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The number of filter pairs collected, most similar first; and of filters compared, those with most deliveries.
PAIRS_MAX: Final = 200
PAIR_FILTERS_MAX: Final = 1_000

# For every publisher, the first part of its notifications, to plan with, and the rest.
_PUBLISHED: Final = """\
SELECT request, client, broker, issued_ns, handled_ns,
  ROW_NUMBER() OVER (PARTITION BY client ORDER BY issued_ns, request)
    <= CEIL(COUNT(*) OVER (PARTITION BY client) * CAST({share} AS DOUBLE)) AS first_part
FROM requests WHERE kind = 'publish' AND refused IS NULL"""

_FLOWS: Final = """\
WITH got AS (
  SELECT request, SORT_ARRAY(COLLECT_SET(client)) AS targets FROM deliveries GROUP BY request
)
SELECT published.client AS source, COALESCE(got.targets, CAST(ARRAY() AS ARRAY<INT>)) AS targets, COUNT(*) AS number
FROM published LEFT JOIN got ON got.request = published.request
WHERE published.first_part
GROUP BY published.client, COALESCE(got.targets, CAST(ARRAY() AS ARRAY<INT>))
ORDER BY number DESC, HASH(targets), source
LIMIT {limit}"""

# Totals of the first parts: notifications, and copies on links.
_TOTALS: Final = """\
SELECT COUNT(DISTINCT published.request) AS notifications, COUNT(hops.request) AS copies
FROM published LEFT JOIN hops ON hops.request = published.request AND hops.kind = 'notify'
WHERE published.first_part"""

# Each notification with its hops and its deliveries. The sending time is the shortest time that the link ever took.
_WAYS: Final = """\
WITH least AS (
  SELECT sender, receiver, MIN(left_ns - queued_ns) AS sending_ns FROM hops GROUP BY sender, receiver
), steps AS (
  SELECT hops.request, COLLECT_LIST(STRUCT(
    hops.sender, hops.receiver, hops.left_ns - hops.queued_ns - least.sending_ns AS queue_ns,
    least.sending_ns + hops.arrived_ns - hops.left_ns AS link_ns, hops.handled_ns - hops.arrived_ns AS broker_ns
  )) AS steps
  FROM hops JOIN least ON least.sender = hops.sender AND least.receiver = hops.receiver
  WHERE hops.kind = 'notify' AND hops.handled_ns IS NOT NULL
  GROUP BY hops.request
), got AS (
  SELECT request, COLLECT_LIST(STRUCT(client, broker, hop, delivered_ns)) AS got FROM deliveries GROUP BY request
)
SELECT published.client AS source, published.issued_ns, published.handled_ns, steps.steps, got.got
FROM published LEFT JOIN steps ON steps.request = published.request LEFT JOIN got ON got.request = published.request"""

_SETUP: Final = """\
SELECT requests.client, requests.kind, COUNT(hops.request) AS messages
FROM requests LEFT JOIN hops ON hops.request = requests.request
WHERE requests.kind IN ('advertise', 'subscribe') GROUP BY requests.client, requests.kind"""

_PAIRS: Final = """\
WITH heaviest AS (
  SELECT filters.filter FROM deliveries JOIN filters ON filters.client = deliveries.client
  GROUP BY filters.filter ORDER BY COUNT(*) DESC, filters.filter LIMIT {filters}
), matched AS (
  SELECT DISTINCT deliveries.request, filters.filter
  FROM deliveries
  JOIN published ON published.request = deliveries.request AND published.first_part
  JOIN filters ON filters.client = deliveries.client
  JOIN heaviest ON heaviest.filter = filters.filter
), sizes AS (
  SELECT filter, COUNT(*) AS number FROM matched GROUP BY filter
), pairs AS (
  SELECT one.filter AS one, other.filter AS other, COUNT(*) AS both
  FROM matched AS one JOIN matched AS other ON other.request = one.request AND one.filter < other.filter
  GROUP BY one.filter, other.filter
)
SELECT pairs.one, pairs.other, one.number + other.number - pairs.both AS either, pairs.both
FROM pairs JOIN sizes AS one ON one.filter = pairs.one JOIN sizes AS other ON other.filter = pairs.other
ORDER BY pairs.both / (one.number + other.number - pairs.both) DESC, either DESC, one, other
LIMIT {limit}"""

_PART: Final = pa.schema(
    [
        pa.field("publisher", pa.bool_()),
        pa.field("client", pa.int32()),
        pa.field("notifications", pa.int64()),
        pa.field("deliveries", pa.int64()),
        pa.field("messages", pa.float64()),
        *(pa.field(name, pa.int64()) for name in ("hops", "delay_ns", "queue_ns", "link_ns", "broker_ns")),
    ]
)
_SUMS: Final = tuple(_PART.names[2:])


def set_up(spark: "SparkSession", share: float) -> None:
    """The view `published`, which the other queries use."""
    spark.sql(_PUBLISHED.format(share=share)).createOrReplaceTempView("published")


def flows_of(spark: "SparkSession") -> tuple[dict[tuple[str, tuple[str, ...]], int], int, int]:
    """Notifications of the first part by publisher and receivers; their total, and that of their copies."""
    names = names_of(spark)
    rows = spark.sql(_FLOWS.format(limit=FLOWS_MAX)).collect()
    flows = {(names[row.source], tuple(sorted(names[each] for each in row.targets))): int(row.number) for row in rows}
    totals = spark.sql(_TOTALS).collect()[0]
    return flows, int(totals.notifications), int(totals.copies)


def names_of(spark: "SparkSession") -> dict[int, str]:
    """Clients by number."""
    return {row.client: row.name for row in spark.sql("SELECT client, name FROM clients").collect()}


def pairs_of(spark: "SparkSession", filters: Mapping[str, int]) -> list[Pair]:
    """The similarity of filters on the notifications of the first part, given the filter of each client."""
    if not filters:
        return []
    numbers = {name: number for number, name in names_of(spark).items()}
    rows = [(numbers[client], filter) for client, filter in filters.items() if client in numbers]
    spark.createDataFrame(rows, "client INT, filter INT").createOrReplaceTempView("filters")
    found = spark.sql(_PAIRS.format(filters=PAIR_FILTERS_MAX, limit=PAIRS_MAX)).collect()
    return [Pair(row.one, row.other, int(row.either), int(row.both)) for row in found]


def costs_of(spark: "SparkSession") -> tuple[list[Costs], list[Costs]]:
    """The cost of publishers and subscribers in the whole trace, most messages first."""
    from pyspark.sql import functions as fn

    parts = map_arrow(spark.sql(_WAYS), _walk, spark_schema(_PART))
    rows = parts.groupBy("publisher", "client").agg(*(fn.sum(name).alias(name) for name in _SUMS)).collect()
    setup = {(row.client, row.kind): int(row.messages) for row in spark.sql(_SETUP).collect()}
    places = {
        row.client: (row.name, f"{row.region}.{row.cluster}")
        for row in spark.sql(
            "SELECT clients.client, clients.name, brokers.region, brokers.cluster FROM clients "
            "JOIN brokers ON brokers.broker = clients.broker"
        ).collect()
    }
    made: dict[bool, list[Costs]] = {True: [], False: []}
    for row in rows:
        kind = "advertise" if row.publisher else "subscribe"
        made[row.publisher].append(_costs(row, *places[row.client], setup.get((row.client, kind), 0)))
    order = lambda each: (-each.messages, each.client)  # noqa: E731
    return sorted(made[True], key=order), sorted(made[False], key=order)


def _costs(row: Any, client: str, broker: str, setup: int) -> Costs:
    count = max(1, row.deliveries)
    return Costs(
        client,
        broker,
        int(row.notifications),
        int(row.deliveries),
        float(row.messages),
        row.hops / count,
        row.delay_ns / count / 1e9,
        row.queue_ns / count / 1e9,
        row.link_ns / count / 1e9,
        row.broker_ns / count / 1e9,
        setup,
    )


def _walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a worker: trace each delivery back to its publisher, and add up by client for each batch."""
    for batch in batches:
        sums: dict[tuple[bool, int], list[float]] = {}
        for row in batch.to_pylist():
            steps, got = row["steps"] or [], row["got"] or []
            # Of several copies at a broker, the first counts; they are in order of arrival.
            came: dict[int, dict[str, int]] = {}
            for step in steps:
                came.setdefault(step["receiver"], step)
            host_ns = (row["handled_ns"] or row["issued_ns"]) - row["issued_ns"]
            share = len(steps) / max(1, len(got))
            mine = sums.setdefault((True, row["source"]), [0.0] * len(_SUMS))
            mine[0] += 1
            mine[2] += len(steps)
            for each in got:
                queue, link, broker = _way(came, each["broker"], each["hop"])
                values = (each["hop"], each["delivered_ns"] - row["issued_ns"], queue, link, broker + host_ns)
                theirs = sums.setdefault((False, each["client"]), [0.0] * len(_SUMS))
                theirs[0] += 1
                theirs[2] += share
                for who in (mine, theirs):
                    who[1] += 1
                    for at, value in enumerate(values, 3):
                        who[at] += value
        found = [
            {"publisher": key[0], "client": key[1], **dict(zip(_SUMS, values, strict=True))}
            for key, values in sums.items()
        ]
        yield pa.RecordBatch.from_pylist([_whole(row) for row in found], _PART)


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value if name in ("publisher", "messages") else int(value) for name, value in row.items()}


def _way(came: Mapping[int, Mapping[str, int]], broker: int, hops: int) -> tuple[int, int, int]:
    queue = link = work = 0
    for _ in range(hops):
        step = came.get(broker)
        if step is None:
            break
        queue, link, work = queue + step["queue_ns"], link + step["link_ns"], work + step["broker_ns"]
        broker = step["sender"]
    return queue, link, work
