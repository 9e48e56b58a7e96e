"""The only factory of Spark sessions: finds Java, starts the JVM quietly, and cleans up afterwards.

    with open_session(SparkSettings(master="local[2]")) as session:
        session.spark.read.parquet(...)

There is one session at a time in a process, as in Spark itself. A session started elsewhere (a notebook, `pyspark`) is
used as it is and left running. All output goes to a scratch folder in the system's temporary directory, which is
removed at the end.
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

from octopia.errors import PipelineError
from octopia.extras import install
from octopia.pipeline.failures import spark_errors
from octopia.pipeline.interrupts import Interrupts
from octopia.pipeline.java import Java, find_java
from octopia.pipeline.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from octopia.pipeline.gateway import Gateway

MASTER_TIMEOUT_S: Final = 5.0
STOP_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.1
# These loggers print what is also raised.
_LOUD_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger", "py4j")


class Session:
    """A running Spark session; `spark` is PySpark's object. Ends with its `with` block."""

    def __init__(self, spark: "SparkSession", settings: SparkSettings, *, java: Java | None) -> None:
        self.spark = spark
        self.settings = settings
        self.java = java
        self.interrupts = Interrupts(self.cancel_jobs)

    @property
    def is_connect(self) -> bool:
        """Whether it uses Spark Connect: `match` and streams work, whatever needs its own driver does not."""
        return is_connect(self.spark)

    def cancel_jobs(self) -> None:
        """Stop whatever runs; safe to call from any thread."""
        if self.is_connect:
            self.spark.interruptAll()
        else:
            self.spark.sparkContext.cancelAllJobs()

    @contextlib.contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Like `spark_errors`, but the failure of a job that Ctrl-C cancelled is a KeyboardInterrupt.

        So is an error while cleaning up after it: PySpark asks Java how the job ended, and Java says "Broken pipe".
        """
        try:
            with spark_errors(what):
                yield
        except Exception as error:
            if self.interrupts.settle() or _follows_interrupt(error):
                raise KeyboardInterrupt from None
            raise
        if self.interrupts.settle():
            raise KeyboardInterrupt


def _follows_interrupt(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


@contextlib.contextmanager
def open_session(settings: SparkSettings | None = None, *, classic: str = "") -> Iterator[Session]:
    """A session for a `with` block; the running one, if there is one.

    A running session may use Spark Connect, and with `SPARK_REMOTE` set a new one does. `classic` names the feature
    that cannot work on it; then it is refused at once.
    """
    settings = settings or SparkSettings()
    require_spark()
    running = _running() or (None if classic else _remote())
    if running is None and os.environ.get("SPARK_REMOTE"):
        raise PipelineError(f"SPARK_REMOTE is set, and {classic} does not run on Spark Connect: unset it, use --master")
    if running is not None:
        if classic:
            require_classic(running, classic)
        session = Session(running, settings, java=None)
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


def is_connect(spark: Any) -> bool:
    """Whether this session uses Spark Connect: it has no local JVM, and no `sparkContext`."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def require_classic(spark: Any, what: str) -> None:
    """Refuse features that do not run on Spark Connect at once."""
    if is_connect(spark):
        raise PipelineError(
            f"{what} does not run on Spark Connect: it works on the driver; start a session of your own, with a master "
            "(octopia.spark.open_session). match, readStream and writeStream do run on it"
        )


def require_spark() -> None:
    """Raise an error that says what to install if pyspark is missing."""
    if find_spec("pyspark") is None:
        raise PipelineError(f"the pipeline needs Spark, which is not installed: {install('pyspark')}")


def _running() -> "SparkSession | None":
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is None and os.environ.get("PYSPARK_GATEWAY_PORT"):
        # spark-submit has already started the JVM, and set the master and everything else.
        return SparkSession.builder.getOrCreate()
    return active


def _remote() -> "SparkSession | None":
    """A Spark Connect session, if the environment names a server."""
    address = os.environ.get("SPARK_REMOTE")
    if not address:
        return None
    missing = [name for name in ("grpc", "grpc_status", "google.rpc", "zstandard") if not _is_there(name)]
    if missing:
        raise PipelineError("SPARK_REMOTE is set, and Spark Connect is not installed: pip install 'pyspark[connect]'")
    from pyspark.sql import SparkSession

    with spark_errors(f"Spark Connect at {address}"):
        return SparkSession.builder.remote(address).getOrCreate()


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def check_reachable(settings: SparkSettings) -> None:
    """A standalone master must accept a connection; Spark itself would try for a minute, and say little."""
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

    # Workers must run this Python, not the first on their PATH; a value set by the user wins.
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
        yield Session(spark, settings, java=java)
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
    """A cluster without room queues an application silently: an error now is better than a job that never starts."""
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
    """Stop the context and the JVM, whatever state they are in, and make PySpark forget both."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # In a separate thread: a context with a stuck task takes time, and the JVM can be ended without it.
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
        # The JVM may end, or be ended, in the middle of it; py4j may then raise any error.
        with contextlib.suppress(Exception):
            context.stop()
