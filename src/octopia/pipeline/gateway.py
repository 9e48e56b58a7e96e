"""The JVM of the driver: started here, silent, and always stopped.

Spark itself uses a shell script that starts a JVM to print the command of another JVM. Here the second one is started
directly; py4j gets its port as if another program had started it.

The JVM does not receive Ctrl-C (the session decides what that means), and ends when its standard input closes, which
happens even if this process is killed. Its output goes to one log of bounded size and never to the screen.
"""

import contextlib
import os
import re
import shlex
import signal
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from octopia.errors import PipelineError
from octopia.pipeline.failures import jvm_trouble
from octopia.pipeline.java import Java, jvm_command, make_java_home, scala_version, spark_home
from octopia.pipeline.settings import SparkSettings

START_TIMEOUT_S: Final = 180.0
STOP_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.02
_LOG_TAIL_BYTES: Final = 8192

# Warnings are kept for later inspection; the log rotates at 8 MB and keeps one old file.
_LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex{{20}}
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 8MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""


class Gateway:
    """The driver's JVM and the connection to it."""

    def __init__(self, settings: SparkSettings, java: Java, scratch: Path) -> None:
        self.log_path = settings.log_path or scratch / "spark.log"
        # output of the JVM outside its log: the reason if it cannot even start
        self._printed_path = scratch / "jvm.txt"
        self._process = self._start(settings, java, scratch)
        try:
            port, secret = self._wait_for_address(scratch / "address")
            self.py4j = _connect(port, secret)
        except BaseException:
            self.stop()
            raise

    def _start(self, settings: SparkSettings, java: Java, scratch: Path) -> "subprocess.Popen[bytes]":
        home = _own_home(spark_home(), scratch) if settings.is_local_cluster else spark_home()
        log4j = scratch / "log4j2.properties"
        log4j.write_text(_LOG4J.format(log=self.log_path.resolve().as_posix()), encoding="utf-8")
        given = shlex.split(settings.conf.get("spark.driver.extraJavaOptions", ""))
        options = [
            f"-Xmx{settings.driver_memory()}",
            f"-Dlog4j2.configurationFile={log4j.as_uri()}",
            f"-Dderby.system.home={scratch}",
            # Work comes in batches, and no single answer is urgent. A JVM takes only one garbage collector.
            *([] if any(re.match(r"-XX:\+Use\w+GC", option) for option in given) else ["-XX:+UseParallelGC"]),
            *given,
        ]
        arguments = [
            part for key, value in settings.spark_conf(scratch).items() for part in ("--conf", f"{key}={value}")
        ]
        command = jvm_command(
            java,
            home,
            options=options,
            main_class="org.apache.spark.deploy.SparkSubmit",
            arguments=[*arguments, "pyspark-shell"],
        )
        environment = self._environment(settings, java, home, scratch)
        with self._printed_path.open("wb") as printed:
            return subprocess.Popen(  # noqa: S603  the command is ours, the configuration the user's own
                command, stdin=subprocess.PIPE, stdout=printed, stderr=printed, env=environment, **_deaf_to_interrupts()
            )

    def _environment(self, settings: SparkSettings, java: Java, home: Path, scratch: Path) -> Mapping[str, str]:
        environment = dict(os.environ) | {
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(make_java_home(java, home, scratch / "java")),
            "SPARK_SCALA_VERSION": scala_version(home),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(scratch / "address"),
        }
        if settings.on_loopback:
            environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        return environment

    def _wait_for_address(self, file: Path) -> tuple[int, str]:
        """The port and secret that the JVM writes when it is ready, in a file moved into place as a whole."""
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while not file.is_file():
            if self._process.poll() is not None:
                raise jvm_trouble("Spark's JVM did not start", self.last_words())
            if time.monotonic() > give_up_at:
                raise PipelineError(f"Spark's JVM did not answer within {START_TIMEOUT_S:.0f} s; {self.last_words()}")
            time.sleep(_POLL_S)
        content = file.read_bytes()
        port, length = struct.unpack(">ii", content[:8])
        return port, content[8 : 8 + length].decode()

    def last_words(self) -> str:
        """The end of the JVM's output and log, for an unforeseen error."""
        return "\n".join(filter(None, (_tail(self._printed_path), _tail(self.log_path))))

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """End the JVM: politely, then by force."""
        if (py4j := getattr(self, "py4j", None)) is not None:
            # Best effort: the JVM may be gone, and py4j may then raise any error.
            with contextlib.suppress(Exception):
                py4j.shutdown()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _connect(port: int, secret: str) -> Any:
    """py4j's side. Spark's function knows what to import in the JVM; it takes the address from the environment."""
    from pyspark import java_gateway

    address = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(address)
    try:
        launch: Any = java_gateway.launch_gateway
        return launch()
    finally:
        for name in address:
            del os.environ[name]


def _deaf_to_interrupts() -> dict[str, Any]:
    if os.name == "nt":
        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    # No separate process group: a signal to our group is meant for the JVM, too.
    return {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}


def _own_home(home: Path, scratch: Path) -> Path:
    """Spark's files under a folder of ours: workers of a local cluster write next to them."""
    own = scratch / "home"
    own.mkdir()
    for entry in home.iterdir():
        (own / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())
    return own


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""
