"""Counting metrics: messages between brokers (IMs), copies that served no client at a broker on their way, hops.

Every message on a link counts, including one that was lost or dropped by its receiver; messages between a client and
its broker do not.
"""

# ruff: noqa: S608  # texts are put together from constants of this file

from octopia.metrics.metric import Metric

_PUBLISHED = """\
published AS (
  SELECT COUNT(*) AS number FROM requests WHERE kind = 'publish'
)"""

# The end of a text: of the table `copies`, those that count.
_COUNTED = f"""\
, {_PUBLISHED}
SELECT
  COUNT(CASE WHEN counts = 1 THEN 1 END) AS number,
  AVG(counts) AS share,
  COUNT(CASE WHEN counts = 1 THEN 1 END) / NULLIF(MAX(published.number), 0) AS per_notification
FROM copies CROSS JOIN published"""

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
    definition="messages of any kind caused by all requests of one kind; a CIB_SET caused by a subscription counts as "
    "a message of subscribing",
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
    definition="mean number of messages of any kind caused by one request of a client, by kind of request",
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

MESSAGES_BETWEEN_SITES = Metric(
    name="messages_between_sites",
    title="Messages between sites by cause",
    unit="messages",
    definition="messages of any kind from a broker of one site to a broker of another, by the kind of request that "
    "caused them; 0 without sites",
    shape="parts",
    sql="""\
SELECT requests.kind AS part, COUNT(CASE WHEN sender.site <> receiver.site THEN 1 END) AS value
FROM requests
LEFT JOIN hops ON hops.request = requests.request
LEFT JOIN brokers AS sender ON sender.broker = hops.sender
LEFT JOIN brokers AS receiver ON receiver.broker = hops.receiver
GROUP BY requests.kind
ORDER BY part""",
)

COPIES_BETWEEN_SITES = Metric(
    name="copies_between_sites",
    title="Copies between sites",
    unit="copies",
    definition="copies of notifications sent from one site to another: their number, their share of all copies, and "
    "their number per published notification",
    shape="row",
    sql=f"""\
WITH copies AS (
  SELECT CASE WHEN sender.site <> receiver.site THEN 1 ELSE 0 END AS counts
  FROM hops
  JOIN brokers AS sender ON sender.broker = hops.sender
  JOIN brokers AS receiver ON receiver.broker = hops.receiver
  WHERE hops.kind = 'notify'
)
{_COUNTED}""",
)

PUBLISHING_MESSAGES = Metric(
    name="publishing_messages",
    title="Messages between brokers of publishing",
    unit="messages",
    definition="copies of notifications sent over links (`copies`), confirmations by destinations and requests "
    "for them (`confirmations`), news of links that went down or came up (`news`), and news of queues "
    "elsewhere (`waits`)",
    shape="row",
    sql="""\
SELECT
  COUNT(CASE WHEN kind = 'notify' THEN 1 END) AS copies,
  COUNT(CASE WHEN kind IN ('confirm', 'ask_confirm') THEN 1 END) AS confirmations,
  COUNT(CASE WHEN kind = 'link_news' THEN 1 END) AS news,
  COUNT(CASE WHEN kind = 'waits' THEN 1 END) AS waits
FROM hops""",
)

PURE_FORWARDS = Metric(
    name="pure_forwards",
    title="Pure forwards",
    unit="copies",
    definition="copies of notifications that a broker received but delivered to none of its clients: their number, "
    "their share of all copies received, and their number per published notification",
    shape="row",
    sql=f"""\
WITH served AS (
  SELECT DISTINCT request, broker FROM deliveries
), copies AS (
  SELECT CASE WHEN served.request IS NULL THEN 1 ELSE 0 END AS counts
  FROM hops LEFT JOIN served ON served.request = hops.request AND served.broker = hops.receiver
  WHERE hops.kind = 'notify' AND hops.handled_ns IS NOT NULL
)
{_COUNTED}""",
)

DELIVERY_HOPS = Metric(
    name="delivery_hops",
    title="Hops per delivery",
    unit="hops",
    definition="number of links on the path of a notification to a subscriber, over all deliveries",
    shape="row",
    sql="SELECT AVG(hop) AS mean, MAX(hop) AS maximum FROM deliveries",
)

DELIVERIES = Metric(
    name="deliveries",
    title="Deliveries",
    unit="deliveries",
    definition="notifications received by subscribers, in total and per published notification",
    shape="row",
    sql=f"""\
WITH {_PUBLISHED}, received AS (
  SELECT COUNT(*) AS number FROM deliveries
)
SELECT received.number AS number, received.number / NULLIF(published.number, 0) AS per_notification
FROM received CROSS JOIN published""",
    less_is_better=None,
)
