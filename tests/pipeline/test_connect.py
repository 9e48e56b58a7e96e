"""Spark Connect, in a separate process: what works on it, and the errors for what does not."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from octopia.pipeline.java import find_java, make_java_home, spark_home

SCRIPT = """
import json, os, sys
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
from pyspark.sql import SparkSession
SparkSession.builder.remote("local[1]").getOrCreate()
from octopia.errors import OctopiaError
from octopia.pipeline import LazySession
from octopia.spark import SparkSettings, Subscriptions, match, open_session, register, watch

def refused(work):
    try:
        work()
    except OctopiaError as error:
        return str(error)

told = {}
with open_session() as session:
    spark = session.spark
    told["connect"] = session.is_connect
    rows = spark.range(20).selectExpr("id as row", "id % 5 as n", "date'2024-01-01' as day")
    wanted = spark.createDataFrame([(1, "n = 3"), (2, "n >= 4 and day = '2024-01-01'")], "id int, filter string")
    told["pairs"] = sorted(map(list, match(rows, Subscriptions(lambda: wanted), keys=["row"]).collect()))
    register(spark)
    session.cancel_jobs()
    told["watch"] = refused(lambda: watch(spark, "nowhere", "nowhere"))
    with LazySession(SparkSettings()) as lazy:
        told["pipeline"] = refused(lazy)
print(json.dumps(told))
"""


@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("grpc", "grpc_status", "zstandard")),
    reason="Spark Connect is not installed: pip install 'pyspark[connect]'",
)
def test_match_works_on_spark_connect_and_the_rest_says_so(tmp_path: Path) -> None:
    # Spark starts the server with a script of its own, which must find a Java.
    environment = os.environ | {"JAVA_HOME": str(make_java_home(find_java(), spark_home(), tmp_path / "java"))}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["connect"] is True
    assert told["pairs"] == [[row, 1 if row % 5 == 3 else 2] for row in range(20) if row % 5 >= 3]
    assert told["watch"].startswith("watch does not run on Spark Connect")
    assert told["pipeline"].startswith("the pipeline does not run on Spark Connect")
