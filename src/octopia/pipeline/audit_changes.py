"""The audit under changing registrations: which clients may, and which must, receive each notification.

The definitions are those at the head of `octopia.sim.terms`; this SQL uses only the tables and shares no code with it.
In every workload, a publisher's advertisements allow all its publications, so its filters are not checked. Request
numbers are those of `octopia.sim.numbering`: changes come last, and a subscription made by a change has, in `truth`,
the number of subscribers plus the number of the change.
"""

from typing import Final

# Stands before `wanted`, which it ends with; `published` stands before it.
WANTED: Final = """\
, counted AS (
  SELECT system, COUNT(*) AS requests FROM requests GROUP BY system
), totals AS (
  SELECT COUNT(*) AS changes FROM changes
), subscribed AS (
  SELECT COUNT(*) AS subscribers FROM subscribers
), control AS (
  SELECT system, request, handled_ns FROM hops WHERE request >= 0 AND kind <> 'notify'
), said AS (
  SELECT
    system, request, MAX(handled_ns) AS handled_ns,
    SUM(CASE WHEN handled_ns IS NULL THEN 1 ELSE 0 END) AS lost
  FROM control GROUP BY system, request
), asked AS (
  SELECT /*+ BROADCAST(changes, counted, totals) */
    counted.system, changes.change, requests.issued_ns,
    CASE
      WHEN requests.handled_ns IS NULL OR requests.refused IS NOT NULL OR COALESCE(said.lost, 0) > 0 THEN NULL
      ELSE GREATEST(requests.handled_ns, COALESCE(said.handled_ns, 0))
    END AS done_ns
  FROM changes CROSS JOIN counted CROSS JOIN totals
  JOIN requests
    ON requests.system = counted.system
    AND requests.request = counted.requests - totals.changes + changes.change
  LEFT JOIN said ON said.system = requests.system AND said.request = requests.request
), moments AS (
  SELECT
    requests.system, -1 AS change, requests.issued_ns AS at_ns,
    GREATEST(requests.issued_ns, COALESCE(requests.handled_ns, 0), COALESCE(said.handled_ns, 0)) AS handled_ns
  FROM requests LEFT JOIN said ON said.system = requests.system AND said.request = requests.request
  WHERE requests.kind <> 'publish'
  UNION ALL
  SELECT system, change, done_ns AS at_ns, done_ns AS handled_ns FROM asked WHERE done_ns IS NOT NULL
), under_way AS (
  SELECT system, change, MAX(handled_ns) OVER (PARTITION BY system ORDER BY at_ns) AS settled_ns FROM moments
), settled AS (
  SELECT asked.system, asked.change, asked.issued_ns, under_way.settled_ns
  FROM asked LEFT JOIN under_way ON under_way.system = asked.system AND under_way.change = asked.change
), registered AS (
  SELECT 'subscribe' AS kind, subscriber AS number, client, id, -1 AS begun_by FROM subscribers
  UNION ALL
  SELECT 'subscribe' AS kind, subscribed.subscribers + changes.change AS number, client, id, change AS begun_by
  FROM changes CROSS JOIN subscribed WHERE kind = 'subscribe'
  UNION ALL
  SELECT 'advertise' AS kind, publisher AS number, client, id, -1 AS begun_by FROM publishers
  UNION ALL
  SELECT 'advertise' AS kind, -1 AS number, client, id, change AS begun_by FROM changes WHERE kind = 'advertise'
), ends AS (
  SELECT
    registered.kind, registered.number, registered.client, registered.begun_by, MIN(changes.change) AS ended_by
  FROM registered LEFT JOIN changes
    ON changes.kind = CONCAT('un', registered.kind)
    AND changes.client = registered.client AND changes.id = registered.id AND changes.change > registered.begun_by
  GROUP BY registered.kind, registered.number, registered.client, registered.id, registered.begun_by
), terms AS (
  SELECT /*+ BROADCAST(counted) */
    counted.system, ends.kind, ends.number, clients.client,
    CASE WHEN ends.begun_by < 0 THEN 0 ELSE begin.issued_ns END AS exists_from_ns,
    CASE WHEN ends.begun_by < 0 THEN 0 ELSE begin.settled_ns END AS in_force_from_ns,
    finish.issued_ns AS in_force_until_ns,
    finish.settled_ns AS exists_until_ns
  FROM ends CROSS JOIN counted
  JOIN clients ON clients.system = counted.system AND clients.name = ends.client
  LEFT JOIN settled AS begin ON begin.system = counted.system AND begin.change = ends.begun_by
  LEFT JOIN settled AS finish ON finish.system = counted.system AND finish.change = ends.ended_by
), copied AS (
  SELECT system, request, MAX(handled_ns) AS ended_ns FROM hops WHERE request >= 0 GROUP BY system, request
), received AS (
  SELECT system, request, MAX(delivered_ns) AS ended_ns FROM deliveries GROUP BY system, request
), lives AS (
  SELECT
    published.system, published.request, published.publisher, published.row, published.issued_ns,
    GREATEST(
      published.issued_ns, COALESCE(published.handled_ns, 0), COALESCE(copied.ended_ns, 0),
      COALESCE(received.ended_ns, 0)
    ) AS ended_ns
  FROM published
  LEFT JOIN copied ON copied.system = published.system AND copied.request = published.request
  LEFT JOIN received ON received.system = published.system AND received.request = published.request
  WHERE published.refused IS NULL
), advertised AS (
  SELECT DISTINCT lives.system, lives.request
  FROM lives JOIN terms
    ON terms.kind = 'advertise' AND terms.system = lives.system AND terms.client = lives.publisher
  WHERE terms.in_force_from_ns <= lives.issued_ns
    AND (terms.in_force_until_ns IS NULL OR lives.ended_ns <= terms.in_force_until_ns)
), wanted AS (
  SELECT
    lives.system, lives.request, terms.client,
    MAX(CASE
      WHEN advertised.request IS NOT NULL AND terms.in_force_from_ns <= lives.issued_ns
        AND (terms.in_force_until_ns IS NULL OR lives.ended_ns <= terms.in_force_until_ns)
      THEN 1 ELSE 0 END) AS must
  FROM lives
  JOIN truth ON truth.row = lives.row
  JOIN terms ON terms.kind = 'subscribe' AND terms.system = lives.system AND terms.number = truth.subscriber
  LEFT JOIN advertised ON advertised.system = lives.system AND advertised.request = lives.request
  WHERE terms.exists_from_ns <= lives.ended_ns
    AND (terms.exists_until_ns IS NULL OR lives.issued_ns <= terms.exists_until_ns)
  GROUP BY lives.system, lives.request, terms.client
)"""
