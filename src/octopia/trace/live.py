"""The facts that a live broker records, and the trace assembled from them.

A broker knows only its own side. It records *facts*, one row each, by name, since brokers do not share a numbering. All
facts of a notification have its publisher and its sequence number. `assemble` joins the facts of a time window: both
ends of every hop, deliveries, requests, queues, in the tables and columns of simulation traces (`schema.py`), so any
reader of traces can read them.

    publish    a client's notification was taken: `from_ns` came, `until_ns` routed, `content` its parcel as it travels
               (`wire/parcel.py`); `queue` is 1 where it was refused, and `text` says why
    sent       a copy left for the neighbour `peer`: `from_ns` queued, `until_ns` handed to the socket, `queue` messages
               it found before it
    received   a copy from `peer`: `from_ns` came, `until_ns` routed; `text` the CIV in hexadecimal, if it has one
    delivered  to the client `peer`: `from_ns` queued, `until_ns` handed to the socket, `text` its subscriptions (JSON)
    dropped    a copy or delivery dropped because of a bound, its age, or the end of its session
    queue      `queue` messages wait for `peer`; `from_ns` of it came since the broker started, `until_ns` left
    alive      the broker runs, whether or not anything happens
    start      the broker was started; unwritten facts from before may be missing
    gap        `queue` facts of this broker were not written because the disk was too slow

`registered` is a separate log of subscriptions: client, filter, start and end.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from octopia.errors import OctopiaError
from octopia.language import Value
from octopia.topology import civ
from octopia.trace.schema import TABLES
from octopia.wire import attributes_in

_NAME: Final = pa.dictionary(pa.int32(), pa.string())

FACTS: Final = pa.schema(
    [
        pa.field("fact", _NAME, nullable=False),
        pa.field("at_time", pa.timestamp("us", tz="UTC"), nullable=False),  # event time: when it was complete
        pa.field("broker", _NAME, nullable=False),
        pa.field("peer", _NAME),
        pa.field("publisher", _NAME),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("serial", pa.int64(), nullable=False),  # of a message in a queue; unchanged when sent again
        pa.field("from_ns", pa.int64(), nullable=False),  # nanoseconds since 1970, by the broker's clock
        pa.field("until_ns", pa.int64(), nullable=False),
        pa.field("queue", pa.int64(), nullable=False),
        pa.field("share", pa.float64(), nullable=False),  # of notifications that are recorded
        pa.field("text", _NAME),
        pa.field("content", pa.binary()),
    ]
)

# A row with `until_ns` ends the registration begun by the row without it for the same broker, client and id.
REGISTERED: Final = pa.schema(
    [
        pa.field("broker", pa.string(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("filter", pa.string(), nullable=False),
        pa.field("from_ns", pa.int64(), nullable=False),
        pa.field("until_ns", pa.int64()),
    ]
)

SECOND_NS: Final = 1_000_000_000
_MEMORY_MAX: Final = "1GB"

# Notifications published in the window, numbered in order; one that its publisher resends is a single request.
_REQUESTS: Final = """\
CREATE TABLE published AS
WITH taken AS (
  SELECT broker, publisher, sequence, MIN(from_ns) AS from_ns, ARG_MIN(until_ns, from_ns) AS until_ns,
    ARG_MIN(queue, from_ns) AS refused, ARG_MIN(text, from_ns) AS reason,
    ARG_MIN(content, from_ns) AS content
  FROM facts WHERE fact = 'publish' GROUP BY broker, publisher, sequence
), firsts AS (
  SELECT * FROM taken
  QUALIFY ROW_NUMBER() OVER (PARTITION BY publisher, sequence ORDER BY from_ns, broker) = 1
)
SELECT CAST(ROW_NUMBER() OVER (ORDER BY from_ns, publisher, sequence) - 1 AS INTEGER) AS request, *
FROM firsts WHERE from_ns >= $from_ns AND from_ns < $until_ns"""

# The n-th copy of a notification sent to a neighbour is the n-th received there.
_HOPS: Final = """\
CREATE TABLE pairs AS
WITH gone AS (
  SELECT facts.*, fact = 'sent' AS left_it
  FROM facts JOIN brokers ON brokers.name = facts.peer
  WHERE fact IN ('sent', 'dropped')
  QUALIFY ROW_NUMBER() OVER (PARTITION BY broker, peer, serial ORDER BY until_ns DESC) = 1
), outgoing AS (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY broker, peer, publisher, sequence ORDER BY left_it DESC, until_ns) AS nth
  FROM gone
), incoming AS (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY broker, peer, publisher, sequence ORDER BY from_ns) AS nth
  FROM facts WHERE fact = 'received'
)
SELECT
  published.request, outgoing.broker AS sender, outgoing.peer AS receiver,
  outgoing.from_ns AS queued_ns, outgoing.until_ns AS left_ns, outgoing.queue,
  GREATEST(COALESCE(incoming.from_ns, outgoing.until_ns), outgoing.until_ns) AS arrived_ns,
  CASE WHEN incoming.until_ns IS NOT NULL THEN GREATEST(incoming.until_ns, outgoing.until_ns) END AS handled_ns,
  incoming.text AS civ
FROM outgoing
JOIN published ON published.publisher = outgoing.publisher AND published.sequence = outgoing.sequence
LEFT JOIN incoming
  ON incoming.broker = outgoing.peer AND incoming.peer = outgoing.broker AND incoming.nth = outgoing.nth
  AND incoming.publisher = outgoing.publisher AND incoming.sequence = outgoing.sequence AND outgoing.left_it"""

# The distance of a broker from the publisher's, along the copies of one notification.
_DEPTHS: Final = """\
CREATE TABLE depths AS
WITH RECURSIVE reached AS (
  SELECT request, broker, 0 AS hop FROM published
  UNION
  SELECT pairs.request, pairs.receiver, reached.hop + 1
  FROM reached JOIN pairs ON pairs.request = reached.request AND pairs.sender = reached.broker
  WHERE pairs.handled_ns IS NOT NULL AND reached.hop < 64
)
SELECT request, broker, MIN(hop) AS hop FROM reached GROUP BY request, broker"""

_TABLES: Final = {
    "hops": """\
SELECT
  'notify' AS kind, pairs.request, sender.number AS sender, receiver.number AS receiver,
  CAST(COALESCE(depths.hop, 0) + 1 AS SMALLINT) AS hop, queued_ns, left_ns, arrived_ns, handled_ns,
  CAST(queue AS INTEGER) AS queue, civ, CASE WHEN handled_ns IS NULL THEN 'lost' ELSE 'handled' END AS fate,
  CAST(NULL AS VARCHAR) AS routing_case
FROM pairs
JOIN brokers AS sender ON sender.name = pairs.sender JOIN brokers AS receiver ON receiver.name = pairs.receiver
LEFT JOIN depths ON depths.request = pairs.request AND depths.broker = pairs.sender
ORDER BY COALESCE(handled_ns, arrived_ns), pairs.request, sender, receiver""",
    "deliveries": """\
WITH last AS (
  SELECT * FROM facts WHERE fact = 'delivered'
  QUALIFY ROW_NUMBER() OVER (PARTITION BY broker, peer, serial ORDER BY until_ns DESC) = 1
)
SELECT
  published.request, clients.client, brokers.number AS broker, CAST(COALESCE(depths.hop, 0) AS SMALLINT) AS hop,
  last.until_ns AS delivered_ns, CAST(json_array_length(last.text) AS SMALLINT) AS subscriptions
FROM last
JOIN published ON published.publisher = last.publisher AND published.sequence = last.sequence
JOIN brokers ON brokers.name = last.broker
JOIN clients ON clients.name = last.peer
LEFT JOIN depths ON depths.request = published.request AND depths.broker = last.broker
ORDER BY delivered_ns, published.request, clients.client""",
    "requests": """\
SELECT
  request, 'publish' AS kind, clients.client, brokers.number AS broker, from_ns AS issued_ns, until_ns AS handled_ns,
  request AS row, CASE WHEN refused > 0 THEN reason END AS refused
FROM published JOIN clients ON clients.name = published.publisher JOIN brokers ON brokers.name = published.broker
ORDER BY request""",
    "queues": """\
SELECT
  CAST(epoch_us(at_time) * 1000 AS BIGINT) AS at_ns, sender.number AS sender, receiver.number AS receiver,
  CAST(queue AS INTEGER) AS queue, from_ns AS entered, until_ns AS left
FROM facts JOIN brokers AS sender ON sender.name = facts.broker JOIN brokers AS receiver ON receiver.name = facts.peer
WHERE fact = 'queue' AND epoch_us(at_time) * 1000 >= $from_ns AND epoch_us(at_time) * 1000 < $until_ns
ORDER BY at_ns, sender, receiver""",
    "brokers": """\
SELECT
  number AS broker, split_part(name, ',', 1) AS region, CAST(split_part(name, ',', 2) AS INTEGER) AS cluster,
  FALSE AS "inner", CAST(NULL AS VARCHAR) AS site
FROM brokers ORDER BY number""",
    "clients": """\
SELECT clients.client, clients.name, brokers.number AS broker
FROM clients JOIN brokers ON brokers.name = clients.broker ORDER BY client""",
}

_BROKERS: Final = """\
CREATE TABLE brokers AS
SELECT name, CAST(ROW_NUMBER() OVER (ORDER BY name) - 1 AS INTEGER) AS number
FROM (SELECT broker AS name FROM facts UNION SELECT peer FROM facts WHERE fact IN ('received', 'queue')
  UNION SELECT broker FROM registered)"""

_CLIENTS: Final = """\
CREATE TABLE clients AS
WITH named AS (
  SELECT publisher AS name, broker FROM published
  UNION ALL SELECT peer, broker FROM facts WHERE fact = 'delivered'
  UNION ALL SELECT client, broker FROM registered
)
SELECT CAST(ROW_NUMBER() OVER (ORDER BY name) - 1 AS INTEGER) AS client, name, MIN(broker) AS broker
FROM named GROUP BY name"""


def assemble(facts: pa.Table, registered: pa.Table, from_ns: int, until_ns: int) -> dict[str, pa.Table]:
    """The tables of a trace for the notifications that were published in this time.

    `facts` may cover a longer time; facts of other notifications are left out. In addition to the tables of
    `schema.TABLES` there is `published`: who published each request, as facts name it, and its content (`content_of`).
    """
    try:
        import duckdb
    except ImportError:
        raise OctopiaError("traces of live brokers need DuckDB: pip install 'octopia[sim]'") from None
    config: dict[str, Any] = {"memory_limit": _MEMORY_MAX, "threads": 1, "autoinstall_known_extensions": False}
    with duckdb.connect(config=config) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("facts", facts)
        connection.register("registered", registered)
        span = {"from_ns": from_ns, "until_ns": until_ns}
        connection.execute(_REQUESTS, span)
        for text in (_BROKERS, _CLIENTS, _HOPS, _DEPTHS):
            connection.execute(text)
        found = {}
        for name, schema in TABLES.items():
            if name not in _TABLES:
                found[name] = schema.empty_table()
                continue
            text = _TABLES[name]
            table = connection.sql(text, params=span if "$from_ns" in text else None).to_arrow_table()
            found[name] = _from_start(table, from_ns).cast(pa.schema([(field.name, field.type) for field in schema]))
        clusters = 1 + max(found["brokers"]["cluster"].to_pylist(), default=0)
        found["hops"] = _with_bits(found["hops"], clusters)
        found["published"] = connection.sql(
            "SELECT request, publisher, sequence, from_ns, refused, content FROM published ORDER BY request"
        ).to_arrow_table()
    return found


def _with_bits(hops: pa.Table, clusters: int) -> pa.Table:
    """CIVs, recorded as numbers, as bit strings."""
    texts = [None if text is None else civ.to_string(int(text, 16), clusters) for text in hops["civ"].to_pylist()]
    place = hops.schema.get_field_index("civ")
    return hops.set_column(place, "civ", pa.array(texts, pa.string()).dictionary_encode())


def _from_start(table: pa.Table, from_ns: int) -> pa.Table:
    """Shift times so that the clock starts at 0, as in every trace, at the beginning of the window."""
    for at, name in enumerate(table.column_names):
        if name.endswith("_ns"):
            table = table.set_column(at, name, pc.subtract(table.column(name), from_ns))
    return table


def subscriptions_between(rows: Iterable[Mapping[str, Any]], from_ns: int, until_ns: int) -> list[dict[str, Any]]:
    """Subscriptions in force at some point in this time, from the log `registered`, oldest first."""
    alive: dict[tuple[str, str, str], dict[str, Any]] = {}
    found: list[dict[str, Any]] = []
    moments = sorted(rows, key=lambda row: (row["until_ns"] or row["from_ns"], row["until_ns"] is None))
    for row in moments:
        key = row["broker"], row["client"], row["id"]
        if row["until_ns"] is None:
            if key not in alive:
                alive[key] = dict(row)
            continue
        begun = alive.pop(key, None) or dict(row)
        if row["until_ns"] >= from_ns and begun["from_ns"] < until_ns:
            found.append(begun | {"until_ns": row["until_ns"]})
    found += [row for row in alive.values() if row["from_ns"] < until_ns]
    return sorted(found, key=lambda row: (row["from_ns"], row["broker"], row["client"], row["id"]))


def content_of(parcel: bytes) -> dict[str, Value]:
    """A notification as recorded."""
    return attributes_in(parcel)
