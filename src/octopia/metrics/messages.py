"""Metrics that count: messages between brokers (IMs), copies that served nobody where they came by, hops.

Rules of this file: every message on a link counts, also one that was lost or dropped by its receiver; what passes
between a client and its broker does not.
"""

from octopia.metrics.metric import Metric

MESSAGES = Metric(
    name="messages",
    title="Messages between brokers (IMs)",
    unit="messages",
    definition="messages sent over links, by kind; `all` is their sum",
    shape="parts",
    sql="""\
SELECT kind AS part, COUNT(*) AS value FROM hops GROUP BY kind
UNION ALL
SELECT 'all' AS part, COUNT(*) AS value FROM hops
ORDER BY part""",
)

MESSAGES_CAUSED = Metric(
    name="messages_caused",
    title="Messages between brokers by cause",
    unit="messages",
    definition="messages, of whatever kind, that all requests of one kind led to: a CIB_SET that a subscription caused "
    "counts as a message of subscribing",
    shape="parts",
    sql="""\
SELECT requests.kind AS part, COUNT(hops.request) AS value
FROM requests LEFT JOIN hops ON hops.request = requests.request
GROUP BY requests.kind
ORDER BY part""",
)

MESSAGES_PER_REQUEST = Metric(
    name="messages_per_request",
    title="Messages between brokers per request",
    unit="messages",
    definition="messages, of whatever kind, that one request of a client led to, by kind of request, in the mean",
    shape="parts",
    sql="""\
WITH sent AS (
  SELECT request, COUNT(*) AS messages FROM hops GROUP BY request
)
SELECT requests.kind AS part, AVG(COALESCE(sent.messages, 0)) AS value
FROM requests LEFT JOIN sent ON sent.request = requests.request
GROUP BY requests.kind
ORDER BY part""",
)

PUBLISHING_MESSAGES = Metric(
    name="publishing_messages",
    title="Messages between brokers of publishing",
    unit="messages",
    definition="copies of notifications that were sent over links (`copies`), and apart from them the confirmations of "
    "destinations (`confirmations`), the news of links that went down or came up (`news`) and of queues elsewhere "
    "(`waits`)",
    shape="row",
    sql="""\
SELECT
  COUNT(CASE WHEN kind = 'notify' THEN 1 END) AS copies,
  COUNT(CASE WHEN kind = 'confirm' THEN 1 END) AS confirmations,
  COUNT(CASE WHEN kind = 'link_news' THEN 1 END) AS news,
  COUNT(CASE WHEN kind = 'waits' THEN 1 END) AS waits
FROM hops""",
)

PURE_FORWARDS = Metric(
    name="pure_forwards",
    title="Pure forwards",
    unit="copies",
    definition="copies of notifications that a broker received and delivered to none of its clients: their number, "
    "their share of all copies received, and how many there were per notification published",
    shape="row",
    sql="""\
WITH served AS (
  SELECT DISTINCT request, broker FROM deliveries
), copies AS (
  SELECT CASE WHEN served.request IS NULL THEN 1 ELSE 0 END AS pure
  FROM hops LEFT JOIN served ON served.request = hops.request AND served.broker = hops.receiver
  WHERE hops.kind = 'notify' AND hops.handled_ns IS NOT NULL
), published AS (
  SELECT COUNT(*) AS number FROM requests WHERE kind = 'publish'
)
SELECT
  COUNT(CASE WHEN pure = 1 THEN 1 END) AS number,
  AVG(pure) AS share,
  COUNT(CASE WHEN pure = 1 THEN 1 END) / NULLIF(MAX(published.number), 0) AS per_notification
FROM copies CROSS JOIN published""",
)

DELIVERY_HOPS = Metric(
    name="delivery_hops",
    title="Hops per delivery",
    unit="hops",
    definition="links that a notification took to a subscriber, over all deliveries",
    shape="row",
    sql="SELECT AVG(hop) AS mean, MAX(hop) AS maximum FROM deliveries",
)

DELIVERIES = Metric(
    name="deliveries",
    title="Deliveries",
    unit="deliveries",
    definition="notifications received by subscribers, and how many of them per notification published",
    shape="row",
    sql="""\
WITH published AS (
  SELECT COUNT(*) AS number FROM requests WHERE kind = 'publish'
), received AS (
  SELECT COUNT(*) AS number FROM deliveries
)
SELECT received.number AS number, received.number / NULLIF(published.number, 0) AS per_notification
FROM received CROSS JOIN published""",
    less_is_better=None,
)
