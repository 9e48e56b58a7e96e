"""Metrics of advertising and subscribing: the time until all brokers concerned know, and the size of tables.

A broker has stored an entry when it has handled the message that brought it. An advertisement that floods reaches a
broker more than once; only the first copy is stored. A subscription of TID routing may reach a broker on several trees,
and each copy binds it to further trees; it is stored when the last one is.
"""

# ruff: noqa: S608  # texts are put together from constants of this file

from octopia.metrics.metric import Metric, spread


def _until_last(kind: str) -> str:
    """The end of a text: requests of a kind, from when they were issued until the moments in the table `lasts`."""
    return f"""\
, delays AS (
  SELECT COALESCE(GREATEST(lasts.stored_ns, requests.handled_ns), requests.handled_ns) - requests.issued_ns AS delay_ns
  FROM requests LEFT JOIN lasts ON lasts.request = requests.request
  WHERE requests.kind = '{kind}' AND requests.handled_ns IS NOT NULL AND requests.refused IS NULL
)
{spread("delay_ns", "delays")}"""


ADVERTISEMENT_DELAY = Metric(
    name="advertisement_delay",
    title="Advertisement delay",
    unit="s",
    definition="from the request of an advertisement until the last broker has stored it",
    shape="row",
    sql=f"""\
WITH copies AS (
  SELECT hops.request, hops.receiver, MIN(hops.handled_ns) AS stored_ns
  FROM hops JOIN requests ON requests.request = hops.request
  WHERE hops.kind = 'advertise' AND requests.kind = 'advertise' AND hops.receiver <> requests.broker
  GROUP BY hops.request, hops.receiver
), lasts AS (
  SELECT request, MAX(stored_ns) AS stored_ns FROM copies GROUP BY request
){_until_last("advertise")}""",
)


def _subscription_delay(condition: str) -> str:
    return f"""\
WITH lasts AS (
  SELECT request, MAX(handled_ns) AS stored_ns FROM hops WHERE {condition} GROUP BY request
){_until_last("subscribe")}"""


SUBSCRIPTION_DELAY = Metric(
    name="subscription_delay",
    title="Subscription delay",
    unit="s",
    definition="from the request of a subscription until the last broker has stored it",
    shape="row",
    sql=_subscription_delay("kind = 'subscribe'"),
)

SUBSCRIPTION_READY_DELAY = Metric(
    name="subscription_ready_delay",
    title="Subscription delay with CIB messages",
    unit="s",
    definition="from the request of a subscription until the last message of any kind caused by it is handled; from "
    "then on it receives notifications from everywhere",
    shape="row",
    sql=_subscription_delay("kind <> 'notify'"),
)


def _table_size(column: str, title: str, of: str) -> Metric:
    return Metric(
        name=f"{column}_entries",
        title=title,
        unit="entries",
        definition=f"{of} in a broker's table at the end of the run, over all brokers",
        shape="row",
        sql=f"""\
WITH lasts AS (
  SELECT broker, MAX(at_ns) AS at_ns FROM table_sizes GROUP BY broker
), sizes AS (
  SELECT DISTINCT table_sizes.broker, table_sizes.{column} AS entries
  FROM table_sizes JOIN lasts ON lasts.broker = table_sizes.broker AND lasts.at_ns = table_sizes.at_ns
)
SELECT AVG(entries) AS mean, MAX(entries) AS maximum, SUM(CAST(entries AS DECIMAL(18, 0))) AS total
FROM sizes""",
    )


SRT_ENTRIES = _table_size("srt", "SRT entries per broker", "advertisements")
PRT_ENTRIES = _table_size("prt", "PRT entries per broker", "subscriptions")
