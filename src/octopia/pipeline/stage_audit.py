"""Stage 6, audit: the truth against what the clients got, in Spark SQL; no rows means that the audit passed.

    lost        a client whose filter the notification matches did not get it
    duplicated  a client got it more than once
    unwanted    a client got it that no filter of his asks for
    late        a client got it, or got it last, later than `late_after_s` after it was published

Rules of this file: one text for all systems and all sizes. It reads the trace and the truth, which share no code; a
notification that its broker refused is not wanted by anybody. A row says which notification (the request that published
it and its row in `notifications`), which publisher and client, and the client's host broker; `copies` is how often the
client got it, `arrived` how many copies came to that broker over links.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from octopia.pipeline.manifest import Parameters
from octopia.pipeline.spec import PipelineSpec
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work
from octopia.pipeline.views import session_with

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

KINDS: Final = ("lost", "duplicated", "unwanted", "late")
INPUTS: Final = ("truth", "subscribers", "requests", "deliveries", "clients", "brokers", "hops")
_SECOND_NS: Final = 1_000_000_000

SQL: Final = """\
WITH published AS (
  SELECT system, request, client AS publisher, issued_ns, `row`, refused FROM requests WHERE kind = 'publish'
), wanted AS (
  SELECT DISTINCT published.system, published.request, clients.client
  FROM published
  JOIN truth ON truth.`row` = published.`row`
  JOIN subscribers ON subscribers.subscriber = truth.subscriber
  JOIN clients ON clients.system = published.system AND clients.name = subscribers.client
  WHERE published.refused IS NULL
), got AS (
  SELECT system, request, client, COUNT(*) AS copies, MAX(delivered_ns) AS last_ns
  FROM deliveries GROUP BY system, request, client
), judged AS (
  SELECT
    COALESCE(wanted.system, got.system) AS system,
    COALESCE(wanted.request, got.request) AS request,
    COALESCE(wanted.client, got.client) AS client,
    wanted.client IS NOT NULL AS is_wanted,
    COALESCE(got.copies, 0) AS copies,
    got.last_ns
  FROM wanted FULL OUTER JOIN got
    ON got.system = wanted.system AND got.request = wanted.request AND got.client = wanted.client
), timed AS (
  SELECT judged.*, published.publisher, published.`row`, judged.last_ns - published.issued_ns AS delay_ns
  FROM judged
  LEFT JOIN published ON published.system = judged.system AND published.request = judged.request
), found AS (
  SELECT *, EXPLODE(FILTER(ARRAY(
    CASE WHEN is_wanted AND copies = 0 THEN 'lost' END,
    CASE WHEN copies > 1 THEN 'duplicated' END,
    CASE WHEN NOT is_wanted THEN 'unwanted' END,
    CASE WHEN delay_ns > {late_after_ns} THEN 'late' END
  ), kind -> kind IS NOT NULL)) AS finding
  FROM timed
), placed AS (
  SELECT
    found.system, found.finding, found.request, found.`row`, publishers.name AS publisher, clients.name AS client,
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
ORDER BY system, finding, request, client"""


def make_audit(work: Work[PipelineSpec]) -> Outputs:
    """The table `audit`."""
    urls = {name: work.store.url(name) for name in INPUTS}
    schemas = {name: work.tables[name].schema for name in INPUTS}
    found = audit(work.session.spark, urls, work.spec.simulate.late_after_s, schemas).persist()
    work.cleanup.callback(found.unpersist)
    counts = {row.finding: row["count"] for row in found.groupBy("finding").count().collect()}
    told = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS if kind in counts)
    work.notes.append(f"the audit did not pass: {told}; see the table audit" if told else "the audit passed")
    return {"audit": found}


def audit(
    spark: "SparkSession",
    urls: Mapping[str, str],
    late_after_s: float | None = None,
    schemas: "Mapping[str, StructType] | None" = None,
) -> "DataFrame":
    """All findings in the tables `INPUTS`, which are at these places."""
    late_after_ns = "NULL" if late_after_s is None else str(round(late_after_s * _SECOND_NS))
    return session_with(spark, urls, schemas=schemas).sql(SQL.format(late_after_ns=late_after_ns))


def audit_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """When a delivery is late."""
    return {"late_after_s": spec.simulate.late_after_s}


AUDIT: Final = Stage(
    name="audit",
    about="who lost what, got it twice, unasked or late",
    inputs=INPUTS,
    outputs=("audit",),
    make=make_audit,
    parameters=audit_parameters,
    code=("octopia.pipeline.stage_audit", "octopia.pipeline.views"),
)
