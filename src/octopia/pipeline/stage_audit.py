"""Stage 6, audit: compares deliveries with the truth, in SQL; no rows means that the audit passed.

    lost        a client whose filter the notification matches did not get it
    duplicated  a client got it more than once
    unwanted    delivered to a client that did not subscribe to it
    late        a client's last copy came later than `late_after_s` after publication

Rows come in this order, the worst first.

One query serves all systems and sizes, and both engines: DuckDB runs it for traces of up to `DUCKDB_ROWS_MAX` rows, in
a fraction of a second where Spark takes several to plan and start its stages; Spark runs it for all others, and if
DuckDB is not installed. It reads the trace and the truth, which share no code; a notification that its broker refused
has no rightful recipients. If clients change their registrations, a notification that meets a change may or may not be
delivered (`audit_changes.py`). A row names the notification (the request that published it and its row in
`notifications`), the publisher, the client, and the client's host broker; `copies` is the number of deliveries to the
client, `arrived` the number of copies that reached that broker over links.
"""

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from octopia.metrics import ask
from octopia.pipeline.audit_changes import WANTED
from octopia.pipeline.measures import has_duckdb
from octopia.pipeline.spec import PipelineSpec
from octopia.pipeline.stages import Outputs, Stage, Work
from octopia.pipeline.views import session_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS: Final = ("lost", "duplicated", "unwanted", "late")
# To sort by.
WORST_FIRST: Final = " ".join(["CASE finding", *(f"WHEN '{kind}' THEN {at}" for at, kind in enumerate(KINDS)), "END"])
INPUTS: Final = (
    "truth",
    "publishers",
    "subscribers",
    "changes",
    "requests",
    "deliveries",
    "clients",
    "brokers",
    "hops",
)
# All rows of all inputs together, a hundred bytes each in memory.
DUCKDB_ROWS_MAX: Final = 3_000_000
# The columns of the largest table that the query uses.
_COLUMNS: Final = {"hops": ["system", "kind", "request", "receiver", "handled_ns"]}
_SECOND_NS: Final = 1_000_000_000

# Without changes: every interested client must get it.
_WANTED: Final = """\
, wanted AS (
  SELECT DISTINCT published.system, published.request, clients.client, 1 AS must
  FROM published
  JOIN truth ON truth.row = published.row
  JOIN subscribers ON subscribers.subscriber = truth.subscriber
  JOIN clients ON clients.system = published.system AND clients.name = subscribers.client
  WHERE published.refused IS NULL
)"""

_SQL: Final = """\
WITH published AS (
  SELECT system, request, client AS publisher, issued_ns, handled_ns, requests.row, refused
  FROM requests WHERE kind = 'publish'
){wanted}, got AS (
  SELECT system, request, client, COUNT(*) AS copies, MAX(delivered_ns) AS last_ns
  FROM deliveries GROUP BY system, request, client
), judged AS (
  SELECT
    COALESCE(wanted.system, got.system) AS system,
    COALESCE(wanted.request, got.request) AS request,
    COALESCE(wanted.client, got.client) AS client,
    wanted.client IS NOT NULL AS is_wanted,
    COALESCE(wanted.must, 0) AS must,
    COALESCE(got.copies, 0) AS copies,
    got.last_ns
  FROM wanted FULL OUTER JOIN got
    ON got.system = wanted.system AND got.request = wanted.request AND got.client = wanted.client
), timed AS (
  SELECT judged.*, published.publisher, published.row, judged.last_ns - published.issued_ns AS delay_ns
  FROM judged
  LEFT JOIN published ON published.system = judged.system AND published.request = judged.request
), odd AS (
  SELECT * FROM timed
  WHERE (must = 1 AND copies = 0) OR copies > 1 OR NOT is_wanted OR delay_ns > {late_after_ns}
), kinds AS (
  SELECT 'lost' AS finding UNION ALL SELECT 'duplicated' UNION ALL SELECT 'unwanted' UNION ALL SELECT 'late'
), found AS (
  SELECT odd.*, kinds.finding
  FROM odd JOIN kinds ON CASE kinds.finding
    WHEN 'lost' THEN must = 1 AND copies = 0
    WHEN 'duplicated' THEN copies > 1
    WHEN 'unwanted' THEN NOT is_wanted
    ELSE delay_ns > {late_after_ns}
  END
), placed AS (
  SELECT
    found.system, found.finding, found.request, found.row, publishers.name AS publisher, clients.name AS client,
    clients.broker, brokers.region, brokers.cluster, found.copies, found.delay_ns
  FROM found
  LEFT JOIN clients ON clients.system = found.system AND clients.client = found.client
  LEFT JOIN clients AS publishers ON publishers.system = found.system AND publishers.client = found.publisher
  LEFT JOIN brokers ON brokers.system = clients.system AND brokers.broker = clients.broker
), arrivals AS (
  SELECT /*+ BROADCAST(asked) */ hops.system, hops.request, hops.receiver, COUNT(*) AS arrived
  FROM hops JOIN (SELECT DISTINCT system, request FROM placed) AS asked
    ON asked.system = hops.system AND asked.request = hops.request
  WHERE hops.kind = 'notify' AND hops.handled_ns IS NOT NULL
  GROUP BY hops.system, hops.request, hops.receiver
)
SELECT placed.*, COALESCE(arrivals.arrived, 0) AS arrived
FROM placed LEFT JOIN arrivals
  ON arrivals.system = placed.system AND arrivals.request = placed.request AND arrivals.receiver = placed.broker
ORDER BY {worst_first}, system, request, client"""


def make_audit(work: Work[PipelineSpec]) -> Outputs:
    """The table `audit`."""
    changing = work.rows("changes") > 0
    text = audit_sql(work.spec.late_after_s, changing=changing)
    small = sum(map(work.rows, INPUTS)) <= DUCKDB_ROWS_MAX and has_duckdb()
    found, counts = _by_duckdb(work, text) if small else _by_spark(work, text)
    told = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS if kind in counts)
    work.notes.append(f"the audit did not pass: {told}; see the table audit" if told else "the audit passed")
    return {"audit": found}


def _by_duckdb(work: Work[PipelineSpec], text: str) -> tuple[pa.Table, dict[str, int]]:
    found = ask({name: work.here(name, _COLUMNS.get(name)) for name in INPUTS}, text)
    return found, {row["values"]: row["counts"] for row in found["finding"].value_counts().to_pylist()}


def _by_spark(work: Work[PipelineSpec], text: str) -> "tuple[DataFrame, dict[str, int]]":
    urls = {name: work.store.url(name) for name in INPUTS}
    schemas = {name: work.tables[name].schema for name in INPUTS}
    found = session_with(work.session.spark, urls, schemas=schemas).sql(text).persist()
    work.cleanup.callback(found.unpersist)
    return found, {row.finding: row["count"] for row in found.groupBy("finding").count().collect()}


def audit_sql(late_after_s: float | None = None, *, changing: bool = False, wanted: str = "") -> str:
    """The query; the one for changes gives the same result without changes, and takes longer.

    `wanted` is an alternative definition of who may and who must get what: a table of that name, after `published`.
    """
    late_after_ns = "NULL" if late_after_s is None else str(round(late_after_s * _SECOND_NS))
    wanted = wanted or (WANTED if changing else _WANTED)
    return _SQL.format(wanted=wanted, late_after_ns=late_after_ns, worst_first=WORST_FIRST)


AUDIT: Final = Stage(
    name="audit",
    about="lost, duplicated, unwanted and late deliveries",
    inputs=INPUTS,
    outputs=("audit",),
    make=make_audit,
    # when a delivery is late
    parameters=lambda spec, _: {"late_after_s": spec.late_after_s},
    code=("octopia.pipeline.stage_audit", "octopia.pipeline.audit_changes", "octopia.pipeline.views"),
)
