"""Metrics of notifications: delays, matching times, and delays over time.

A delay is that of one delivery, from the publisher's sending to the subscriber's receipt. "In a row" means in the order
of receipt anywhere in the overlay, with ties broken by notification and client, so that the order is total. Numbering
in order of receipt is done second by second and the seconds are put together, since one window over all rows would run
on one core.
"""

# ruff: noqa: S608  # texts are put together from constants of this file

from octopia.metrics.metric import Metric, spread

# The high-rate publishers of bursts: `high-rate`, `high-rate-2`, and so on.
HIGH_RATE_CLIENTS = "high-rate%"

_DELAYS = f"""\
WITH delays AS (
  SELECT
    clients.name, deliveries.delivered_ns - requests.issued_ns AS delay_ns,
    CASE WHEN clients.name LIKE '{HIGH_RATE_CLIENTS}' THEN 1 ELSE 0 END AS high_rate
  FROM deliveries
  JOIN requests ON requests.request = deliveries.request
  JOIN clients ON clients.client = requests.client
)
"""


def _delay(name: str, title: str, of: str, condition: str) -> Metric:
    return Metric(
        name=name,
        title=title,
        unit="s",
        definition=f"from the publishing of a notification {of}until a subscriber receives it, over all deliveries",
        shape="row",
        sql=_DELAYS + spread("delay_ns", f"delays{condition}"),
    )


NOTIFICATION_DELAY = _delay("notification_delay", "Notification delay", "", "")
HIGH_RATE_DELAY = _delay(
    "high_rate_delay",
    "Notification delay, high-rate publisher",
    "of the high-rate publisher ",
    " WHERE high_rate = 1",
)
OTHERS_DELAY = _delay(
    "others_delay", "Notification delay, other publishers", "of another publisher ", " WHERE high_rate = 0"
)

BURST_DELAY = Metric(
    name="burst_delay",
    title="Mean notification delay by burst",
    unit="s",
    definition="the mean of `high_rate_delay` for each high-rate publisher alone, by its name: `high-rate` is that of "
    "the first burst, `high-rate-2` that of the second, and so on",
    shape="parts",
    sql=f"""\
{_DELAYS}SELECT name AS part, CAST(SUM(CAST(delay_ns AS DECIMAL(18, 0))) AS DOUBLE) / COUNT(*) / 1e9 AS value
FROM delays
WHERE high_rate = 1
GROUP BY name
ORDER BY part""",
)

# Every delivery with the publisher of its notification.
_BY_PUBLISHER = """\
WITH received AS (
  SELECT
    deliveries.request, deliveries.client, deliveries.delivered_ns, requests.issued_ns,
    requests.client AS publisher
  FROM deliveries JOIN requests ON requests.request = deliveries.request
)"""

IN_ORDER_DELAY = Metric(
    name="in_order_delay",
    title="Notification delay, in order",
    unit="s",
    definition="from the publishing of a notification until a subscriber has received it and every earlier one of the "
    "same publisher that it will receive, over all deliveries; equal to `notification_delay` if everything arrives in "
    "order",
    shape="row",
    sql=f"""\
{_BY_PUBLISHER}, delays AS (
  SELECT MAX(delivered_ns) OVER (PARTITION BY client, publisher ORDER BY request) - issued_ns AS delay_ns
  FROM received
)
{spread("delay_ns", "delays")}""",
)

OUT_OF_ORDER = Metric(
    name="out_of_order",
    title="Deliveries out of order",
    unit="deliveries",
    definition="deliveries to a subscriber that has already received a later notification of the same publisher, and "
    "their share of all deliveries",
    shape="row",
    sql=f"""\
{_BY_PUBLISHER}, latest AS (
  SELECT
    request,
    MAX(request) OVER (
      PARTITION BY client, publisher ORDER BY delivered_ns, request ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS last_request
  FROM received
)
SELECT
  COUNT(CASE WHEN request < last_request THEN 1 END) AS number,
  AVG(CASE WHEN request < last_request THEN 1 ELSE 0 END) AS share
FROM latest""",
)

DELAY_OVER_TIME = Metric(
    name="delay_over_time",
    title="Delay over time",
    unit="s",
    definition="the mean and the longest delay of the deliveries received in each second, at the beginning of that "
    "second; seconds without a delivery have no row",
    shape="series",
    sql="""\
WITH received AS (
  SELECT
    CAST(FLOOR((deliveries.delivered_ns - publish_from_ns) / 1e9) AS BIGINT) AS slot,
    deliveries.delivered_ns - requests.issued_ns AS delay_ns
  FROM deliveries JOIN requests ON requests.request = deliveries.request CROSS JOIN facts
), slots AS (
  SELECT
    slot, CAST(SUM(CAST(delay_ns AS DECIMAL(18, 0))) AS DOUBLE) / COUNT(*) / 1e9 AS mean,
    MAX(delay_ns) / 1e9 AS longest
  FROM received
  GROUP BY slot
)
SELECT 'mean' AS part, CAST(slot AS DOUBLE) AS at_s, mean AS value FROM slots
UNION ALL
SELECT 'longest' AS part, CAST(slot AS DOUBLE) AS at_s, longest AS value FROM slots
ORDER BY part, at_s""",
)

UNDER_BOUND = Metric(
    name="under_bound",
    title="Share of deliveries in less than 1 s",
    unit="share",
    definition="share of deliveries whose delay is below the bound (`facts.delay_bound_ns`, 1 s by default): of all "
    "deliveries, of those of the high-rate publisher, and of the others",
    shape="row",
    sql=f"""\
{_DELAYS}SELECT
  AVG(CASE WHEN delay_ns < delay_bound_ns THEN 1 ELSE 0 END) AS overall,
  AVG(CASE WHEN high_rate = 0 THEN NULL WHEN delay_ns < delay_bound_ns THEN 1 ELSE 0 END) AS high_rate,
  AVG(CASE WHEN high_rate = 1 THEN NULL WHEN delay_ns < delay_bound_ns THEN 1 ELSE 0 END) AS others
FROM delays CROSS JOIN facts""",
    less_is_better=False,
)

_BLOCKS = """\
WITH received AS (
  SELECT
    deliveries.delivered_ns, deliveries.request, deliveries.client,
    deliveries.delivered_ns - requests.issued_ns AS delay_ns,
    CAST(FLOOR(deliveries.delivered_ns / 1e9) AS BIGINT) AS slot
  FROM deliveries JOIN requests ON requests.request = deliveries.request
), slots AS (
  SELECT slot, COUNT(*) AS rows_in FROM received GROUP BY slot
), offsets AS (
  SELECT slot, SUM(rows_in) OVER (ORDER BY slot) - rows_in AS rows_before FROM slots
), numbered AS (
  SELECT
    received.delivered_ns, received.delay_ns,
    offsets.rows_before - 1
    + ROW_NUMBER() OVER (
      PARTITION BY received.slot ORDER BY received.delivered_ns, received.request, received.client
    ) AS place
  FROM received JOIN offsets ON offsets.slot = received.slot
), blocks AS (
  SELECT
    CAST(FLOOR(place / block_notifications) AS BIGINT) AS block,
    MAX(delivered_ns) AS until_ns,
    MAX(delay_ns) AS delay_ns
  FROM numbered CROSS JOIN facts
  GROUP BY CAST(FLOOR(place / block_notifications) AS BIGINT)
)
"""

MAX_DELAY = Metric(
    name="max_delay",
    title="Maximum delay of 1000 notifications in a row",
    unit="s",
    definition="the largest delay among every 1000 deliveries in order of receipt (`facts.block_notifications`), at "
    "the moment of the last of them; the last block may be shorter",
    shape="series",
    sql=f"""\
{_BLOCKS}SELECT '' AS part, (until_ns - publish_from_ns) / 1e9 AS at_s, delay_ns / 1e9 AS value
FROM blocks CROSS JOIN facts
ORDER BY block""",
)

STABILISATION_TIME = Metric(
    name="stabilisation_time",
    title="Stabilisation time",
    unit="s",
    definition="from the start of publishing until the end of the last block of 1000 deliveries in a row (see "
    "`max_delay`) in which a delay reached the bound (`facts.delay_bound_ns`, 1 s by default); 0 if there is none, "
    "null if it is the very last block, since the run then never became stable",
    shape="row",
    sql=f"""\
{_BLOCKS}, last_late AS (
  SELECT MAX(CASE WHEN delay_ns >= delay_bound_ns THEN block END) AS block, MAX(block) AS last_block
  FROM blocks CROSS JOIN facts
)
SELECT
  CASE
    WHEN MAX(last_late.block) = MAX(last_late.last_block) THEN NULL
    WHEN MAX(last_late.last_block) IS NULL THEN NULL
    ELSE COALESCE(MAX(CASE WHEN blocks.block = last_late.block THEN (until_ns - publish_from_ns) / 1e9 END), 0)
  END AS seconds
FROM last_late CROSS JOIN facts LEFT JOIN blocks ON blocks.block = last_late.block""",
)

MATCHING_DELAY = Metric(
    name="matching_delay",
    title="Matching delay",
    unit="s",
    definition="time that a broker's matcher takes for one notification, at every broker it reaches, including its "
    "publisher's: from when the processor starts on it until it is done, less the processor's base time",
    shape="row",
    sql=f"""\
WITH handled AS (
  SELECT receiver AS broker, CASE WHEN kind = 'notify' THEN 1 ELSE 0 END AS notification, arrived_ns, handled_ns
  FROM hops
  WHERE handled_ns IS NOT NULL
  UNION ALL
  SELECT
    broker, CASE WHEN kind = 'publish' THEN 1 ELSE 0 END AS notification,
    issued_ns + client_delay_ns AS arrived_ns, handled_ns
  FROM requests CROSS JOIN facts
  WHERE handled_ns IS NOT NULL
), served AS (
  SELECT
    notification, arrived_ns, handled_ns,
    LAG(handled_ns) OVER (PARTITION BY broker ORDER BY handled_ns, arrived_ns) AS free_ns
  FROM handled
), matched AS (
  SELECT handled_ns - GREATEST(arrived_ns, COALESCE(free_ns, arrived_ns)) - processor_base_ns AS matching_ns
  FROM served CROSS JOIN facts
  WHERE notification = 1
)
{spread("matching_ns", "matched")}""",
)
