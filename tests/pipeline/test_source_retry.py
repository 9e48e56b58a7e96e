"""A task that dies while it publishes, in a Spark that tries again: the same rows again, under the same ids.

A Spark of its own, since that of the other tests gives up at the first failure.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.net.live import waiting
from tests.patience import PATIENT_SPARK
from tests.pipeline.brokers import Brokers

SCRIPT = f"""{PATIENT_SPARK}
import os, signal, sys, time
from pathlib import Path
from pyspark import TaskContext
from octopia.spark import SparkSettings, open_session, register

url, seen = sys.argv[1], Path(sys.argv[2])

def dying(batches):
    # The first try of partition 0 is killed once some of its rows have reached a subscriber. Rows are long, since Spark
    # hands them on by buffers of 64 KiB.
    for number, batch in enumerate(batches):
        if number == 3 and TaskContext.get().attemptNumber() == 0 and TaskContext.get().partitionId() == 0:
            while not seen.exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch

conf = {{"spark.sql.execution.arrow.maxRecordsPerBatch": "100", "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}}
with open_session(SparkSettings(master="local[2,3]", conf=conf)) as session:
    register(session.spark)
    rows = session.spark.range(0, 1000, 1, 2).selectExpr("id as n", "repeat('x', 2000) as text").mapInArrow(
        dying, "n long, text string"
    )
    rows.write.format("octopia").option("url", url).option("writeId", "w").mode("append").save()
"""


def test_a_task_that_is_tried_again_publishes_under_the_same_ids(tmp_path: Path) -> None:
    flag = tmp_path / "seen"
    expected = {("spark/w/0", n + 1, n) for n in range(500)} | {("spark/w/1", n - 499, n) for n in range(500, 1000)}
    with Brokers() as brokers:
        client = brokers.call(brokers.live.client("a,0"))
        brokers.call(client.start_subscription(subscription := client.subscribe("n >= 0")))
        command = [sys.executable, "-c", SCRIPT, brokers.url("b,1"), str(flag)]
        spark = subprocess.Popen(command)
        try:
            got: list[tuple[str, int, Any]] = []
            while set(got) != expected:
                batch = brokers.call(subscription.next_batch())
                got += [(d.publisher, int(d.id), d.notification["n"]) for d in batch]
                if any(publisher == "spark/w/0" for publisher, _, _ in got):
                    flag.touch()
            assert spark.wait() == 0
        finally:
            spark.kill()
            spark.wait()
        got += [(d.publisher, int(d.id), d.notification["n"]) for d in waiting(subscription)]
    again = [delivery for delivery in set(got) if got.count(delivery) > 1]
    assert again, "the first try had published nothing"
    assert {publisher for publisher, _, _ in again} == {"spark/w/0"}
    assert set(got) == expected
