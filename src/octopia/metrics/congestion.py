"""Metrics of congestion: the congestion element CE over time, and IDR's cases.

CE = (1 + Q_in) / (1 + Q_out), where Q_in and Q_out are the messages that entered and left an output queue in one window
t_w (`facts.window_ns`). A trace records when every message entered and left, so this is counted exactly, window by
window, without sampling. Windows are those of the brokers: they begin at whole multiples of t_w; a message that enters
at that instant belongs to the window that begins, one that leaves to the window that ends. If nothing enters or leaves
in a window, CE is 1, and the row is omitted.
"""

# ruff: noqa: S608  # texts are put together from constants of this file

from octopia.metrics.metric import Metric
from octopia.metrics.queues import LINK_COUNT, TARGETS

# By target link of a high-rate publisher's host broker, and by window.
_WINDOWS = f"""\
{TARGETS}, passed AS (
  SELECT hops.sender, hops.receiver, hops.queued_ns, hops.left_ns
  FROM hops JOIN links ON links.sender = hops.sender AND links.receiver = hops.receiver
), moves AS (
  SELECT sender, receiver, CAST(FLOOR(queued_ns / window_ns) AS BIGINT) AS number, 1 AS entering, 0 AS leaving
  FROM passed CROSS JOIN facts
  WHERE queued_ns >= publish_from_ns
  UNION ALL
  SELECT sender, receiver, CAST(FLOOR((left_ns - 1) / window_ns) AS BIGINT) AS number, 0 AS entering, 1 AS leaving
  FROM passed CROSS JOIN facts
  WHERE left_ns > publish_from_ns
), windows AS (
  SELECT sender, receiver, number, SUM(entering) AS q_in, SUM(leaving) AS q_out
  FROM moves
  GROUP BY sender, receiver, number
)"""

CONGESTION_ELEMENT = Metric(
    name="congestion_element",
    title="How long CE is below 1",
    unit="s",
    definition="CE of the target links of the high-rate publishers at their host brokers (see `high_rate_queue`), "
    "window by window from the start of publishing: total time with CE below 1, so that the queue shrinks "
    "(`below`), the longest such period without a break (`longest_below`), and total time with CE above 1 "
    "(`above`), each averaged over the links",
    shape="row",
    sql=f"""\
{_WINDOWS}{LINK_COUNT}, below AS (
  SELECT
    sender, receiver,
    number - ROW_NUMBER() OVER (PARTITION BY sender, receiver ORDER BY number) AS stretch
  FROM windows
  WHERE q_in < q_out
), stretches AS (
  SELECT sender, receiver, COUNT(*) AS length FROM below GROUP BY sender, receiver, stretch
), longest AS (
  SELECT sender, receiver, MAX(length) AS length FROM stretches GROUP BY sender, receiver
), together AS (
  SELECT SUM(length) AS longest_below FROM longest
), counted AS (
  SELECT
    COUNT(CASE WHEN q_in < q_out THEN 1 END) AS below,
    COUNT(CASE WHEN q_in > q_out THEN 1 END) AS above
  FROM windows
)
SELECT
  below * window_ns / 1e9 / NULLIF(link_count, 0) AS below,
  COALESCE(longest_below, 0) * window_ns / 1e9 / NULLIF(link_count, 0) AS longest_below,
  above * window_ns / 1e9 / NULLIF(link_count, 0) AS above
FROM counted CROSS JOIN together CROSS JOIN link_counts CROSS JOIN facts""",
    less_is_better=None,
)

CONGESTION_ELEMENT_OVER_TIME = Metric(
    name="congestion_element_over_time",
    title="CE at the high-rate publisher's host broker over time",
    unit="CE",
    definition="CE of the same links for each second of publishing: computed from the mean Q_in and Q_out of the "
    "windows in that second (`mean`), and the largest of any link and window (`largest`); seconds in which nothing "
    "entered or left have no row",
    shape="series",
    sql=f"""\
{_WINDOWS}{LINK_COUNT}, placed AS (
  SELECT
    CAST(FLOOR((GREATEST(number * window_ns, publish_from_ns) - publish_from_ns) / 1e9) AS BIGINT) AS slot,
    q_in, q_out, (1 + q_in) / (1e0 + q_out) AS element
  FROM windows CROSS JOIN facts
), slots AS (
  SELECT slot, SUM(q_in) AS q_in, SUM(q_out) AS q_out, MAX(element) AS largest FROM placed GROUP BY slot
), sizes AS (
  SELECT slot, q_in, q_out, largest, CAST(link_count AS DOUBLE) * 1e9 / window_ns AS number
  FROM slots CROSS JOIN link_counts CROSS JOIN facts
)
SELECT 'mean' AS part, CAST(slot AS DOUBLE) AS at_s, (number + q_in) / (number + q_out) AS value FROM sizes
UNION ALL
SELECT 'largest' AS part, CAST(slot AS DOUBLE) AS at_s, CAST(largest AS DOUBLE) AS value FROM sizes
ORDER BY part, at_s""",
    less_is_better=None,
)

# One row per decision of a broker about a notification that had target iLinks: α + θ copies were made, of β possible
# ones on iLinks; the bits of the copy that carries a CIV are target iLinks that got none.
_DECISIONS = """\
WITH decisions AS (
  SELECT
    hops.routing_case, hops.request, hops.sender,
    COUNT(*) AS copies,
    COUNT(CASE WHEN senders.cluster = receivers.cluster THEN 1 END) AS on_a_links,
    SUM(LENGTH(REPLACE(COALESCE(hops.civ, ''), '0', ''))) AS carried
  FROM hops
  JOIN brokers AS senders ON senders.broker = hops.sender
  JOIN brokers AS receivers ON receivers.broker = hops.receiver
  WHERE hops.routing_case IS NOT NULL
  GROUP BY hops.routing_case, hops.request, hops.sender
)"""


def _cases(name: str, title: str, unit: str, definition: str, value: str) -> Metric:
    return Metric(
        name=name,
        title=title,
        unit=unit,
        definition=definition,
        shape="parts",
        sql=f"""\
{_DECISIONS}
SELECT routing_case AS part, {value} AS value
FROM decisions
GROUP BY routing_case
ORDER BY part""",
        less_is_better=None,
    )


ROUTING_CASES = _cases(
    "routing_cases",
    "Decisions by IDR's cases",
    "decisions",
    "how often a broker had a notification with target iLinks and was in this case: all of them free (`0`), some of "
    "them (`i`), none and a target aLink free (`ii`), none free (`iv`), all target iLinks down (`down`)",
    "COUNT(*)",
)
ROUTING_CASE_COPIES = _cases(
    "routing_case_copies",
    "Copies by IDR's cases",
    "copies",
    "copies put on links by these decisions: (α + β)γ in case 0, (α + θ)γ in i, αγ in ii, (α + 1)γ in iv, for γ "
    "decisions with α target aLinks, β target iLinks and θ free ones",
    "CAST(SUM(copies) AS DOUBLE)",
)
ROUTING_CASE_SAVED = _cases(
    "routing_case_saved",
    "Copies that IDR's cases did not make",
    "copies",
    "how many more copies SNR would have put on the links of these brokers: the target iLinks that got none, which are "
    "left to brokers farther on",
    "CAST(SUM(carried) AS DOUBLE)",
)
