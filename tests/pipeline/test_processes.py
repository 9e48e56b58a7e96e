"""Whole processes: what is on the screen, in the folder and in the exit code; Ctrl-C; a cluster of its own.

Each test here has a JVM of its own, or several, so there are few.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from octopia.pipeline.java import archive_options, find_java, make_java_home, spark_home
from octopia.topology import Scot, parse_tree
from octopia.workload import (
    TABLE_SCHEMAS,
    Workload,
    WorkloadSpec,
    make_workload,
    synthetic_quotes,
    workload_from_tables,
)
from tests.patience import HANG_S, PATIENT_SPARK
from tests.pipeline.cluster import joined, standalone
from tests.workload.rows import truth_pairs

# The longest takes a minute of an idle machine, and a busy one has other things to do.
pytestmark = [pytest.mark.skipif(os.name == "nt", reason="POSIX signals"), pytest.mark.timeout(1200)]

_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Executors use the archive of Spark's classes, too, if there is one.
_EXECUTOR = " ".join([_JAVA, *archive_options(find_java(), spark_home())])
QUICK = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _EXECUTOR,
    "spark.sql.shuffle.partitions": "2",
}

# What the command does with an interrupt, and nothing more.
WAITING = f"""{PATIENT_SPARK}
import sys, time
from octopia.pipeline import SparkSettings, open_session

running = sys.argv[1]

def slow(batches):
    for batch in batches:
        open(running, "w").close()
        time.sleep(600)
        yield batch

try:
    with open_session(SparkSettings(master="local[1]", conf={QUICK})) as session:
        with session.errors("work"):
            session.spark.range(1).mapInArrow(slow, "id long").collect()
except KeyboardInterrupt:
    sys.exit(130)
"""


def temporary(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "cwd").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "tmp")}


def test_ctrl_c_cancels_the_job_ends_the_jvm_and_prints_nothing(tmp_path: Path) -> None:
    running = tmp_path / "running"
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(running)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=temporary(tmp_path),
        cwd=tmp_path / "cwd",
        start_new_session=True,
    )
    with process:
        while not running.exists():
            assert process.poll() is None, process.communicate()[0]
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        # as a terminal does it: to every process of the group
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate()
    assert (process.returncode, output) == (130, "")
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list((tmp_path / "cwd").iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


PIPELINE = f"""{PATIENT_SPARK}
import json, sys
from octopia.pipeline import SparkSettings
from octopia.pipeline.whole import run_pipeline
from octopia.pipeline.spec import PipelineSpec, QuotesSpec, pipeline_settings

master, out = sys.argv[1:]
conf = {QUICK}
played = pipeline_settings(publishers=12, subscribers=40, selectivity=0.1, shape="mixed", first_seed=4,
                           notifications_per_publisher=20, overlay="path:3", clusters=3, systems=("snr", "idr"))
spec = PipelineSpec(QuotesSpec(seed=2, symbols=30, days=25), played)
stages = ["quotes", "notifications", "workload", "truth", "simulate", "audit", "metrics"]
events = run_pipeline(out, spec, stages=stages,
                      settings=SparkSettings(master=master, conf=conf, executor_wait_s={HANG_S}))
print(json.dumps([[event.stage, event.state, dict(event.rows)] for event in events]))
"""


def wanted_of(workload: Workload, pairs: pa.RecordBatch) -> list[tuple[int, str]]:
    """Which row is delivered to which client, once for every time it is published."""
    clients = [subscription.client for subscription in workload.subscriptions]
    published = Counter(workload.publications.row.tolist())
    matching = zip(*(pairs.column(name).to_pylist() for name in ("row", "filter")), strict=True)
    return [(row, clients[number]) for row, number in matching for _ in range(published[row])]


def delivered(out: Path) -> list[tuple[str, int, str]]:
    """Which system brought which row to which client, from the tables of the traces."""
    tables = {name: pq.read_table(out / name) for name in ("deliveries", "requests", "clients")}
    rows = {(one["system"], one["request"]): one["row"] for one in tables["requests"].to_pylist()}
    names = {(one["system"], one["client"]): one["name"] for one in tables["clients"].to_pylist()}
    return sorted(
        (one["system"], rows[one["system"], one["request"]], names[one["system"], one["client"]])
        for one in tables["deliveries"].to_pylist()
    )


OPEN = "from octopia.spark import *; open_session(SparkSettings({})).__enter__()"


def error_of(tmp_path: Path, script: str, **variables: str) -> str:
    """The error that leaves a process, as the command would print it."""
    text = f"import octopia\ntry:\n    {script}\nexcept octopia.OctopiaError as error:\n    print(error)\n"
    environment = {**os.environ, "TMPDIR": str(tmp_path), **variables}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr == ""
    return done.stdout.strip()


def test_the_pipeline_on_a_standalone_cluster_of_two_workers(tmp_path: Path) -> None:
    """End to end on other processes than the driver's: the tables are those of one call without Spark.

    Before there are workers, whoever asks is told so and does not wait.
    """
    environment = temporary(tmp_path)
    out, cluster = tmp_path / "out", tmp_path / "cluster"
    with standalone(cluster, workers=0) as (address, _):
        told = error_of(tmp_path, OPEN.format(f"master='{address}', executor_wait_s=0.1, conf={QUICK}"))
        with joined(cluster, address, workers=2):
            done = subprocess.run(
                [sys.executable, "-c", PIPELINE, address, str(out)],
                capture_output=True,
                text=True,
                env=environment,
                cwd=tmp_path / "cwd",
                check=False,
            )
    assert told == (
        f"master {address} gave no executor within 0 s: it has no worker, or none with enough free cores and memory "
        "(--conf spark.executor.memory=… asks for less)"
    )
    assert (done.returncode, done.stderr) == (0, "")
    workload = make_workload(
        WorkloadSpec(12, 40, 0.1, "mixed", 20, seed=4), Scot(parse_tree("path:3"), 3), synthetic_quotes(2, 30, 25)
    )
    pairs = truth_pairs([s.filter for s in workload.subscriptions], workload.notifications)
    stored = workload_from_tables({name: pq.read_table(out / name) for name in TABLE_SCHEMAS})
    assert stored.equals(workload)
    truth = pq.read_table(out / "truth")
    assert sorted(zip(*(truth[name].to_pylist() for name in ("row", "subscriber")), strict=True)) == sorted(
        zip(*(pairs.column(name).to_pylist() for name in ("row", "filter")), strict=True)
    )
    events = json.loads(done.stdout)
    assert events[:4] == [
        ["quotes", "finished", {"quotes": 750, "rejects": 0, "inputs": 0}],
        ["notifications", "finished", {"notifications": 240}],
        ["workload", "finished", {"publishers": 12, "subscribers": 40, "publications": 240, "changes": 0}],
        ["truth", "finished", {"truth": pairs.num_rows}],
    ]
    assert [event[:2] for event in events[4:]] == [[stage, "finished"] for stage in ("simulate", "audit", "metrics")]
    assert pq.read_table(out / "audit").num_rows == 0
    wanted = sorted((system, row, client) for system in ("snr", "idr") for row, client in wanted_of(workload, pairs))
    assert delivered(out) == wanted
    assert list((tmp_path / "cwd").iterdir()) == []


def test_a_master_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    assert error_of(tmp_path, OPEN.format("master='spark://127.0.0.1:1'")) == (
        "master spark://127.0.0.1:1 cannot be reached: 127.0.0.1:1 (Connection refused); is it running?"
    )


def test_more_memory_than_there_is(tmp_path: Path) -> None:
    assert error_of(tmp_path, OPEN.format("conf={'spark.driver.memory': '100000t'}")).startswith(
        "Spark's JVM did not start: not enough memory for the driver: ask for less"
    )


def test_options_that_java_does_not_know(tmp_path: Path) -> None:
    conf = "{'spark.driver.extraJavaOptions': '-XX:NoSuchThing=1 -XX:-IgnoreUnrecognizedVMOptions'}"
    assert "check spark.driver.extraJavaOptions" in error_of(tmp_path, OPEN.format(f"conf={conf}"))


def test_spark_submit_with_the_wheel_alone(tmp_path: Path) -> None:
    """The package comes to driver and workers as a wheel, and the session is the one that spark-submit made."""
    root = Path(__file__).parent.parent.parent
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    (tmp_path / "quotes.csv").write_text("date,open,high,low,close,volume,Name\n2004-12-20,1,3,1,2,100,A\n")
    application = tmp_path / "submit.py"
    # says where the package came from, and then is the example
    seen = f"import octopia, pathlib; pathlib.Path({str(tmp_path / 'seen')!r}).write_text(octopia.__file__)\n"
    application.write_text(seen + (root / "examples" / "submit.py").read_text(encoding="utf-8"), encoding="utf-8")
    environment = os.environ | {
        "JAVA_HOME": str(make_java_home(find_java(), spark_home(), tmp_path / "java")),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    conf = {**QUICK, "spark.ui.enabled": "false", "spark.sql.codegen.wholeStage": "false"}
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[1]", "--py-files", str(wheel)]
    command += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    command += [str(application), "pipeline", "quotes", "--quotes", str(tmp_path / "quotes.csv")]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "seen").read_text().startswith(str(wheel))
    assert pq.read_table(tmp_path / "out" / "quotes").num_rows == 1
