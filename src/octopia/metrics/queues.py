"""Metrics of output queues: Q_l per link, and at the host broker of the high-rate publisher.

Q_l counts the messages that have entered a queue and not left it. Its mean over a span of time is, by Little's law, the
total time that messages spent in the queue within the span, divided by the length of the span: exact, without sampling.
The course over time comes from samples, which exist only while a queue is not empty.
"""

# ruff: noqa: S608  # texts are put together from constants of this file

from octopia.metrics.metric import Metric
from octopia.metrics.notifications import HIGH_RATE_CLIENTS

TARGETS = f"""\
WITH high_rate AS (
  SELECT requests.request, requests.broker, requests.issued_ns
  FROM requests JOIN clients ON clients.client = requests.client
  WHERE clients.name LIKE '{HIGH_RATE_CLIENTS}' AND requests.kind = 'publish'
), copies AS (
  SELECT hops.sender, hops.receiver, hops.left_ns, hops.queue
  FROM hops JOIN high_rate ON high_rate.request = hops.request AND high_rate.broker = hops.sender
  WHERE hops.kind = 'notify'
), links AS (
  SELECT DISTINCT sender, receiver FROM copies
)"""


LINK_COUNT = """\
, link_counts AS (
  SELECT COUNT(*) AS link_count FROM links
)"""


def _within(until: str) -> str:
    inside = f"GREATEST(0, LEAST(hops.left_ns, spans.{until}) - GREATEST(hops.queued_ns, spans.from_ns))"
    return f"CAST(SUM(CAST({inside} AS DECIMAL(18, 0))) AS DOUBLE)"


HIGH_RATE_QUEUE = Metric(
    name="high_rate_queue",
    title="Mean Q_l at the high-rate publisher's host broker",
    unit="messages",
    definition="mean Q_l of the high-rate publisher's target links at its host broker, from its first notification "
    "until its last has left them (`until_empty`) or is published (`while_sending`, the same period for all systems); "
    "`found` is the mean Q_l that its copies met. Target links are the host broker's links that its notifications "
    "took; with several bursts, those of all of them",
    shape="row",
    sql=f"""\
{TARGETS}{LINK_COUNT}, sending AS (
  SELECT MIN(issued_ns) AS from_ns, MAX(issued_ns) AS sent_ns FROM high_rate
), leaving AS (
  SELECT MAX(left_ns) AS empty_ns, AVG(queue) AS found FROM copies
), spans AS (
  SELECT from_ns, sent_ns, empty_ns, found, link_count
  FROM sending CROSS JOIN leaving CROSS JOIN link_counts
), areas AS (
  SELECT {_within("sent_ns")} AS sending, {_within("empty_ns")} AS emptying
  FROM hops
  JOIN links ON links.sender = hops.sender AND links.receiver = hops.receiver
  CROSS JOIN spans
  WHERE hops.left_ns > spans.from_ns
)
SELECT
  emptying / NULLIF(empty_ns - from_ns, 0) / NULLIF(link_count, 0) AS until_empty,
  sending / NULLIF(sent_ns - from_ns, 0) / NULLIF(link_count, 0) AS while_sending,
  found,
  link_count AS links
FROM areas CROSS JOIN spans""",
)


def _over_time(parts: dict[str, str], more: str = "") -> str:
    """The end of a text: values of the table `samples`, by their parts, from the start of publishing on."""
    several = "\nUNION ALL\n".join(
        f"""\
SELECT '{part}' AS part, (at_ns - publish_from_ns) / 1e9 AS at_s, {value} AS value
FROM samples CROSS JOIN facts{more}
WHERE at_ns >= publish_from_ns"""
        for part, value in parts.items()
    )
    return f"{several}\nORDER BY part, at_s"


_LONGEST = {"longest": "CAST(longest AS DOUBLE)"}

HIGH_RATE_QUEUE_OVER_TIME = Metric(
    name="high_rate_queue_over_time",
    title="Q_l at the high-rate publisher's host broker over time",
    unit="messages",
    definition="Q_l of the high-rate publisher's target links at its host broker at regular times: the mean over the "
    "links, and the longest; times at which all were empty have no row",
    shape="series",
    sql=f"""\
{TARGETS}{LINK_COUNT}, samples AS (
  SELECT queues.at_ns, SUM(queues.queue) AS total, MAX(queues.queue) AS longest
  FROM queues JOIN links ON links.sender = queues.sender AND links.receiver = queues.receiver
  GROUP BY queues.at_ns
)
{_over_time({"mean": "CAST(total AS DOUBLE) / link_count"} | _LONGEST, " CROSS JOIN link_counts")}""",
)

QUEUE_OVER_TIME = Metric(
    name="queue_over_time",
    title="Queued messages over time",
    unit="messages",
    definition="messages in all output queues together, and in the longest one, at regular times while publishing",
    shape="series",
    sql=f"""\
WITH samples AS (
  SELECT at_ns, SUM(queue) AS total, MAX(queue) AS longest FROM queues GROUP BY at_ns
)
{_over_time({"total": "CAST(total AS DOUBLE)"} | _LONGEST)}""",
)

_LINKS = """\
WITH link_times AS (
  SELECT
    hops.sender, hops.receiver,
    COUNT(*) AS messages,
    SUM(CAST(hops.left_ns - hops.queued_ns AS DECIMAL(18, 0))) AS queued_ns,
    MAX(hops.queue) + 1 AS longest
  FROM hops CROSS JOIN facts
  WHERE hops.queued_ns >= publish_from_ns
  GROUP BY hops.sender, hops.receiver
)
"""

LINK_QUEUES = Metric(
    name="link_queues",
    title="Q_l per link",
    unit="messages",
    definition="for every link that carried messages while publishing: their number, the mean Q_l from the start of "
    "publishing until nothing moves, and the greatest Q_l",
    shape="table",
    sql=f"""\
{_LINKS}SELECT
  sender, receiver, messages,
  CAST(queued_ns AS DOUBLE) / NULLIF(publish_until_ns - publish_from_ns, 0) AS mean_queue, longest
FROM link_times CROSS JOIN facts
ORDER BY sender, receiver""",
)

LINK_QUEUE = Metric(
    name="link_queue",
    title="Q_l over all links",
    unit="messages",
    definition="summary of `link_queues`: the mean over the links of their mean Q_l, the largest such mean, and the "
    "greatest Q_l of all",
    shape="row",
    sql=f"""\
{_LINKS}SELECT
  CAST(SUM(queued_ns) AS DOUBLE) / NULLIF(MAX(publish_until_ns - publish_from_ns), 0) / NULLIF(COUNT(*), 0) AS mean,
  CAST(MAX(queued_ns) AS DOUBLE) / NULLIF(MAX(publish_until_ns - publish_from_ns), 0) AS busiest,
  MAX(longest) AS longest
FROM link_times CROSS JOIN facts""",
)
