"""Metrics of changes: the cost and reach of registrations and withdrawals while others publish.

A change is a request to advertise, unadvertise, subscribe or unsubscribe that was issued after publishing began. All
messages that it caused count as its own, of any kind, as in `messages.py`. *Inside the cluster* is a message between
two brokers of the cluster of the client's host broker, *inside the region* one between two of its region, and
*elsewhere* any other, so a CIB_SET between another region's brokers is elsewhere. Parts are named by the kind of change
and the place: `subscribe`, `subscribe_cluster`, `subscribe_region`, `subscribe_elsewhere`.
"""

# ruff: noqa: S608  # texts are put together from constants of this file

from octopia.metrics.metric import Metric

PLACES = ("cluster", "region", "elsewhere")

# Changes with the place of their host broker.
_CHANGING = """\
WITH changing AS (
  SELECT
    requests.request, requests.kind, requests.broker, requests.issued_ns, requests.handled_ns,
    brokers.region, brokers.cluster
  FROM requests
  CROSS JOIN facts
  JOIN brokers ON brokers.broker = requests.broker
  WHERE requests.kind IN ('advertise', 'unadvertise', 'subscribe', 'unsubscribe')
    AND requests.issued_ns >= facts.publish_from_ns
)"""

# Every message of a change with its place.
_SENT = """\
, sent AS (
  SELECT
    changing.request,
    CASE
      WHEN senders.cluster = changing.cluster AND receivers.cluster = changing.cluster THEN 'cluster'
      WHEN senders.region = changing.region AND receivers.region = changing.region THEN 'region'
      ELSE 'elsewhere'
    END AS place
  FROM changing
  JOIN hops ON hops.request = changing.request
  JOIN brokers AS senders ON senders.broker = hops.sender
  JOIN brokers AS receivers ON receivers.broker = hops.receiver
)"""

# Every broker that a change came to, its host broker among them, with its place.
_TOUCHED = """\
, met AS (
  SELECT request, broker FROM changing
  UNION
  SELECT hops.request, hops.receiver AS broker
  FROM hops JOIN changing ON changing.request = hops.request
  WHERE hops.handled_ns IS NOT NULL
), sent AS (
  SELECT
    changing.request,
    CASE
      WHEN brokers.cluster = changing.cluster THEN 'cluster'
      WHEN brokers.region = changing.region THEN 'region'
      ELSE 'elsewhere'
    END AS place
  FROM met
  JOIN changing ON changing.request = met.request
  JOIN brokers ON brokers.broker = met.broker
)"""


def _per_change(rows: str) -> str:
    """The mean number of rows per change of a kind, in total and by place."""
    columns = ", ".join(f"COUNT(CASE WHEN place = '{place}' THEN 1 END) AS in_{place}" for place in PLACES)
    parts = "\nUNION ALL\n".join(
        f"SELECT CONCAT(kind, '_{place}') AS part, AVG(in_{place}) AS value FROM counted GROUP BY kind"
        for place in PLACES
    )
    return f"""\
{_CHANGING}{rows}, counted AS (
  SELECT changing.request, changing.kind, COUNT(sent.request) AS number, {columns}
  FROM changing LEFT JOIN sent ON sent.request = changing.request
  GROUP BY changing.request, changing.kind
)
SELECT kind AS part, AVG(number) AS value FROM counted GROUP BY kind
UNION ALL
{parts}
ORDER BY part"""


CHANGE_MESSAGES = Metric(
    name="change_messages",
    title="Messages between brokers per change",
    unit="messages",
    definition="mean number of messages of any kind caused by one change after the start of publishing, by kind of "
    "change (`subscribe`); of these, messages within the cluster of the client's host broker (`subscribe_cluster`), "
    "within its region (`subscribe_region`), and all others (`subscribe_elsewhere`)",
    shape="parts",
    sql=_per_change(_SENT),
)

CHANGE_BROKERS = Metric(
    name="change_brokers",
    title="Brokers per change",
    unit="brokers",
    definition="mean number of brokers, including the host broker, that handled a change after the start of publishing "
    "or a message caused by it, by kind of change; `_cluster`: those in its cluster, `_region`: others in its region, "
    "`_elsewhere`: all others",
    shape="parts",
    sql=_per_change(_TOUCHED),
)

CHANGE_INSIDE = Metric(
    name="change_inside",
    title="Messages of changes inside the cluster or region",
    unit="share",
    definition="share of the messages caused by changes that stayed within the cluster or the region of the client's "
    "host broker, by kind of change",
    shape="parts",
    sql=f"""\
{_CHANGING}{_SENT}
SELECT changing.kind AS part, AVG(CASE WHEN sent.place = 'elsewhere' THEN 0 ELSE 1 END) AS value
FROM sent JOIN changing ON changing.request = sent.request
GROUP BY changing.kind
ORDER BY part""",
    less_is_better=None,
)

CHANGE_DELAY = Metric(
    name="change_delay",
    title="Delay of changes",
    unit="s",
    definition="mean time from the request of a change until the last message caused by it is handled, by kind of "
    "change",
    shape="parts",
    sql=f"""\
{_CHANGING}, lasts AS (
  SELECT request, MAX(handled_ns) AS handled_ns FROM hops GROUP BY request
), delays AS (
  SELECT
    changing.kind,
    COALESCE(GREATEST(lasts.handled_ns, changing.handled_ns), changing.handled_ns) - changing.issued_ns AS delay_ns
  FROM changing LEFT JOIN lasts ON lasts.request = changing.request
  WHERE changing.handled_ns IS NOT NULL
)
SELECT kind AS part, AVG(delay_ns) / 1e9 AS value FROM delays GROUP BY kind
ORDER BY part""",
)
