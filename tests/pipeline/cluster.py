"""A standalone Spark cluster on loopback: a master and its workers, started and stopped by a test."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from octopia.pipeline.java import find_java, jvm_command, make_java_home, scala_version, spark_home

_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""


@contextmanager
def standalone(folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[tuple[str, list[int]]]:
    """The master's address and the workers' process ids."""
    folder.mkdir(parents=True)
    (folder / "log4j2.properties").write_text(_LOG4J)
    with _node(folder, "master.Master", "--host", "127.0.0.1", "--port", "0") as master:
        address = _wait_for(master, r"Starting Spark master at (spark://\S+)")
        with joined(folder, address, workers, cores, memory) as pids:
            yield address, pids


@contextmanager
def joined(folder: Path, address: str, workers: int, cores: int = 1, memory: str = "1g") -> Iterator[list[int]]:
    """Workers of a running master, by their process ids."""
    with ExitStack() as stack:
        pids = []
        for number in range(workers):
            arguments = ["--host", "127.0.0.1", "--cores", str(cores), "--memory", memory]
            arguments += ["--work-dir", str(folder / f"work-{number}"), address]
            worker = stack.enter_context(_node(folder, "worker.Worker", *arguments))
            _wait_for(worker, r"Successfully registered with (master)")
            pids.append(worker.pid)
        yield pids


@contextmanager
def _node(folder: Path, kind: str, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    java, home = find_java(), spark_home()
    log4j = (folder / "log4j2.properties").as_uri()
    command = jvm_command(
        java,
        home,
        options=["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={log4j}"],
        main_class=f"org.apache.spark.deploy.{kind}",
        arguments=["--webui-port", "0", *arguments],
    )
    environment = os.environ | {
        "JAVA_HOME": str(make_java_home(java, home, folder / "java")),
        "SPARK_HOME": str(home),
        "SPARK_SCALA_VERSION": scala_version(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _wait_for(process: "subprocess.Popen[str]", pattern: str) -> str:
    """The first group of the first line that fits; pytest's time limit is the limit."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError("the process ended:\n" + "".join(seen[-20:]))
