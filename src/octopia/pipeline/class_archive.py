"""An archive of Spark's classes, which JVMs map into memory instead of reading and checking each class.

A JVM that runs a few small jobs of Spark loads some 25,000 classes, and that takes about half of its processor time.
`octopia warmup` makes the archive once per installation (Java calls this application class-data sharing): it lists the
classes that a few typical jobs load, and has Java write them to one file of about 200 MB. The file is in the virtual
environment, so it goes when that goes; without one, in the user's cache folder. Its name is a digest of the Java and
the jars that it was made from, so an archive that does not fit is never used. Without an archive everything works, and
starts more slowly.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from octopia.errors import PipelineError
from octopia.pipeline.java import ARCHIVES, Java, archive_path, find_java, jvm_command, spark_home
from octopia.pipeline.session import open_session
from octopia.pipeline.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAKE_TIMEOUT_S: Final = 600.0


def make_archive() -> Path:
    """Make the archive unless it exists; archives of other versions in its folder are removed."""
    java, home = find_java(), spark_home()
    archive = archive_path(java, home)
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    for old in archive.parent.glob(ARCHIVES):
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=archive.parent) as folder:
        classes, made = Path(folder) / "classes.txt", Path(folder) / "made.jsa"
        with _listing(classes) as spark:
            typical_jobs(spark, Path(folder))
        _dump(java, home, classes, made)
        os.replace(made, archive)
    return archive


@contextmanager
def _listing(classes: Path) -> "Iterator[SparkSession]":
    """A session whose JVM lists the classes it loads."""
    options = f"-XX:DumpLoadedClassList={classes} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    with open_session(SparkSettings("local[1]", {"spark.driver.extraJavaOptions": options})) as session:
        yield session.spark


def _dump(java: Java, home: Path, classes: Path, made: Path) -> None:
    options = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={made}"]
    command = jvm_command(
        java, home, options=[*options, "-XX:+UseSerialGC", "-Xlog:disable"], main_class="none", arguments=[]
    )
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(  # noqa: S603  the command is ours
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=MAKE_TIMEOUT_S, check=False
        )
    if not made.is_file():
        raise PipelineError(f"Java {java.version} ({java.home}) did not make an archive of Spark's classes")


def typical_jobs(spark: "SparkSession", folder: Path) -> None:
    """Small jobs of the kinds that the pipeline and streams run, so that their classes get loaded."""
    import pyarrow as pa
    from pyspark.sql import Observation, Window
    from pyspark.sql import functions as fn

    for whole_stage in ("true", "false"):
        spark.conf.set("spark.sql.codegen.wholeStage", whole_stage)
        spark.conf.set("spark.sql.adaptive.enabled", whole_stage)
        seen, url = Observation(), str(folder / f"table-{whole_stage}")
        made = spark.range(20).selectExpr("id", "id % 3 AS k", "CAST(id AS string) AS s", "date'2020-01-01' AS d")
        mapped = made.repartition(2, "k").mapInArrow(lambda batches: batches, made.schema)
        mapped.observe(seen, fn.count(fn.lit(1)).alias("rows")).write.mode("overwrite").parquet(url)
        read = spark.read.schema(made.schema).option("__globPaths__", "false").parquet(url)
        small = fn.broadcast(spark.createDataFrame(pa.table({"k": [0, 1], "first": [0.5, 1.5]})))
        place = fn.row_number().over(Window.partitionBy("k").orderBy("id"))
        joined = read.join(small, "k").withColumn("place", place).where("place < 5")
        joined.groupBy("k").agg(fn.countDistinct("s"), fn.percentile_approx("id", 0.5), fn.max("d")).collect()
        read.createOrReplaceTempView("t")
        spark.sql(
            "WITH a AS (SELECT k, COUNT(*) AS n FROM t GROUP BY k), b AS (SELECT DISTINCT k, s FROM t WHERE id > 3) "
            "SELECT COALESCE(a.k, b.k) AS k, n FROM a FULL OUTER JOIN b ON a.k = b.k UNION ALL SELECT 1, 2 ORDER BY k"
        ).toArrow()
    # batch and stream share most classes; the rest is the stream's own log, state and event time
    times = spark.readStream.schema(made.schema).parquet(url).selectExpr("CAST(d AS timestamp) AS at", "k")
    windows = times.withWatermark("at", "1 minute").groupBy(fn.window("at", "1 minute"), "k").count()
    options = {"checkpointLocation": str(folder / "checkpoint")}
    query = windows.writeStream.format("memory").queryName("windows").options(**options)
    query.trigger(availableNow=True).start().awaitTermination()
