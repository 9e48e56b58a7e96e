"""The data pipeline on Spark: sessions, matching, and stages from quotes to tables.

Rules of this package: the only one that imports pyspark, and only when something is asked of it, so that importing this
package needs no Spark. Python functions that run in Spark's workers are thin: the work is done by the functions of
`octopia.workload` and `octopia.matching`, so that there is one source of truth with and without Spark.
"""

from octopia.pipeline.failures import PipelineError, spark_errors
from octopia.pipeline.match import match
from octopia.pipeline.places import read_arrow
from octopia.pipeline.run import STAGES, LazySession, run_pipeline
from octopia.pipeline.session import Session, open_session
from octopia.pipeline.settings import SparkSettings, parse_conf
from octopia.pipeline.source import register, stream_errors
from octopia.pipeline.spec import PipelineSpec, QuotesSpec, SimulateSpec, evaluation_overlay
from octopia.pipeline.stage_audit import KINDS
from octopia.pipeline.stages import Event
from octopia.pipeline.sweep import spark_sweep

__all__ = [
    "KINDS",
    "STAGES",
    "Event",
    "LazySession",
    "PipelineError",
    "PipelineSpec",
    "QuotesSpec",
    "Session",
    "SimulateSpec",
    "SparkSettings",
    "evaluation_overlay",
    "match",
    "open_session",
    "parse_conf",
    "read_arrow",
    "register",
    "run_pipeline",
    "spark_errors",
    "spark_sweep",
    "stream_errors",
]
