"""The data pipeline on Spark: sessions, matching, and stages from quotes to tables.

This is the only package that imports pyspark, and only on first use, so importing it does not need Spark. Names are
loaded when they are used, since every Python worker of Spark imports the package again. Python functions that run in
workers are thin: the functions of `octopia.workload` and `octopia.matching` do the work, so there is one source of
truth with and without Spark.
"""

from typing import TYPE_CHECKING

from octopia.lazy import lazily

if TYPE_CHECKING:
    from octopia.errors import PipelineError
    from octopia.pipeline.class_archive import make_archive
    from octopia.pipeline.failures import spark_errors
    from octopia.pipeline.live import WatchOptions, Window, review, watch
    from octopia.pipeline.match_tables import Subscriptions, match
    from octopia.pipeline.plan import PlanOptions, make_plan
    from octopia.pipeline.session import Session, open_session
    from octopia.pipeline.settings import SparkSettings, parse_conf
    from octopia.pipeline.source import register, stream_errors, subscribe
    from octopia.pipeline.spec import PipelineSpec, QuotesSpec, pipeline_settings
    from octopia.pipeline.stage_audit import KINDS
    from octopia.pipeline.stages import Event
    from octopia.pipeline.sweep import spark_sweep
    from octopia.pipeline.whole import STAGES, LazySession, run_pipeline
    from octopia.pipeline.worker_files import read_arrow

__all__ = [
    "KINDS",
    "STAGES",
    "Event",
    "LazySession",
    "PipelineError",
    "PipelineSpec",
    "PlanOptions",
    "QuotesSpec",
    "Session",
    "SparkSettings",
    "Subscriptions",
    "WatchOptions",
    "Window",
    "make_archive",
    "make_plan",
    "match",
    "open_session",
    "parse_conf",
    "pipeline_settings",
    "read_arrow",
    "register",
    "review",
    "run_pipeline",
    "spark_errors",
    "spark_sweep",
    "stream_errors",
    "subscribe",
    "watch",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "octopia.errors": "PipelineError",
        "octopia.pipeline.class_archive": "make_archive",
        "octopia.pipeline.failures": "spark_errors",
        "octopia.pipeline.live": "WatchOptions Window review watch",
        "octopia.pipeline.match_tables": "Subscriptions match",
        "octopia.pipeline.plan": "PlanOptions make_plan",
        "octopia.pipeline.session": "Session open_session",
        "octopia.pipeline.settings": "SparkSettings parse_conf",
        "octopia.pipeline.source": "register stream_errors subscribe",
        "octopia.pipeline.spec": "PipelineSpec QuotesSpec pipeline_settings",
        "octopia.pipeline.stage_audit": "KINDS",
        "octopia.pipeline.stages": "Event",
        "octopia.pipeline.sweep": "spark_sweep",
        "octopia.pipeline.whole": "STAGES LazySession run_pipeline",
        "octopia.pipeline.worker_files": "read_arrow",
    },
)
