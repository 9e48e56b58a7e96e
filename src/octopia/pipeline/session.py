"""The one factory of Spark sessions: found Java, started JVM, quiet, and gone without a trace afterwards.

    with open_session(SparkSettings(master="local[2]")) as session:
        session.spark.read.parquet(...)

Rules of this file: one session at a time in a process, as Spark has it. A session that somebody else started (a
notebook, `pyspark`) is used as it is and left running. All that is written goes to a scratch folder in the system's
place for temporary files, which is removed at the end.
"""

import contextlib
import logging
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from octopia.pipeline.failures import PipelineError, spark_errors
from octopia.pipeline.interrupts import Interrupts
from octopia.pipeline.java import Java, find_java
from octopia.pipeline.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from octopia.pipeline.gateway import Gateway

MASTER_TIMEOUT_S: Final = 5.0
STOP_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.1
# These print what they also raise.
_LOUD_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger", "py4j")


class Session:
    """A running Spark session; `spark` is what PySpark calls one. Ends with its `with` block."""

    def __init__(self, spark: "SparkSession", settings: SparkSettings, *, java: Java | None, owned: bool) -> None:
        self.spark = spark
        self.settings = settings
        self.java = java
        self.owned = owned
        self.interrupts = Interrupts(self.cancel_jobs)

    def cancel_jobs(self) -> None:
        """Stop whatever runs; safe to call from any thread."""
        self.spark.sparkContext.cancelAllJobs()

    @contextlib.contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """As `spark_errors`; the failure of a job that Ctrl-C cancelled is a KeyboardInterrupt."""
        try:
            with spark_errors(what):
                yield
        except Exception:
            if self.interrupts.settle():
                raise KeyboardInterrupt from None
            raise
        if self.interrupts.settle():
            raise KeyboardInterrupt


@contextlib.contextmanager
def open_session(settings: SparkSettings | None = None) -> Iterator[Session]:
    """A session for the length of a `with` block; the running one, if there is one."""
    settings = settings or SparkSettings()
    require_spark()
    if (running := _running()) is not None:
        session = Session(running, settings, java=None, owned=False)
        with session.interrupts.installed():
            yield session
        return
    check_reachable(settings)
    java = find_java()
    scratch = Path(tempfile.mkdtemp(prefix="octopia-spark-"))
    try:
        with _started(settings, java, scratch) as session, session.interrupts.installed():
            yield session
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def require_spark() -> None:
    """Say what to install, if pyspark is not there."""
    if find_spec("pyspark") is None:
        raise PipelineError("the pipeline needs Spark, which is not installed: pip install 'octopia[spark]'")
    if os.environ.get("SPARK_REMOTE"):
        raise PipelineError(
            "SPARK_REMOTE is set, and the pipeline does not run on Spark Connect: unset it, use --master"
        )


def _running() -> "SparkSession | None":
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def check_reachable(settings: SparkSettings) -> None:
    """A standalone master must take a connection; Spark itself would try for a minute, and say little."""
    tried = []
    for host, port in settings.master_addresses:
        try:
            socket.create_connection((host, port), timeout=MASTER_TIMEOUT_S).close()
        except OSError as error:
            tried.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return
    if tried:
        raise PipelineError(f"master {settings.master} cannot be reached: {', '.join(tried)}; is it running?")


@contextlib.contextmanager
def _started(settings: SparkSettings, java: Java, scratch: Path) -> Iterator[Session]:
    from octopia.pipeline.gateway import Gateway

    # Workers must run this Python, not the first on their PATH; whoever has set it knows better.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name in _LOUD_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    gateway = Gateway(settings, java, scratch)
    try:
        starting = Interrupts(lambda: None)
        with starting.installed():
            spark = _new_session(gateway, settings, starting)
            if starting.settle():
                raise KeyboardInterrupt
        yield Session(spark, settings, java=java, owned=True)
    finally:
        _close(gateway)


def _new_session(gateway: "Gateway", settings: SparkSettings, interrupts: Interrupts) -> "SparkSession":
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with spark_errors("Spark did not start"):
        context = SparkContext(gateway=gateway.py4j)
        interrupts.take_over()
        spark = SparkSession(context)
        _wait_for_executor(spark, settings)
    return spark


def _wait_for_executor(spark: "SparkSession", settings: SparkSettings) -> None:
    """A cluster without room queues an application without a word: better an error now than a job that never starts."""
    if not settings.waits_for_executors:
        return
    context: Any = spark.sparkContext
    give_up_at = time.monotonic() + settings.executor_wait_s
    # the driver counts as one
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:  # noqa: SLF001  PySpark has no other way to ask
        if time.monotonic() > give_up_at:
            raise PipelineError(
                f"master {settings.master} gave no executor within {settings.executor_wait_s:.0f} s: it has no worker, "
                "or none with enough free cores and memory (--conf spark.executor.memory=… asks for less)"
            )
        time.sleep(_POLL_S)


def _close(gateway: "Gateway") -> None:
    """Stop the context and the JVM, whatever state they are in, and let PySpark forget both."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # In a thread of its own: a context with a stuck task takes its time, and the JVM can be ended without it.
    stopping = threading.Thread(target=_stop_context, args=(gateway,), daemon=True)
    stopping.start()
    stopping.join(STOP_TIMEOUT_S)
    gateway.stop()
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        setattr(SparkContext, name, None)
    SparkSession._instantiatedSession = None  # noqa: SLF001
    SparkSession._activeSession = None  # noqa: SLF001


def _stop_context(gateway: "Gateway") -> None:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001
    if context is not None and gateway.alive:
        # The JVM may end, or be ended, in the middle of it; py4j raises all kinds of things then.
        with contextlib.suppress(Exception):
            context.stop()
