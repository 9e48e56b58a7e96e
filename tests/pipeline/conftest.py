"""One Spark session for all tests of the pipeline: the tests that use it stand in files `cases_*.py` and are collected
by `test_spark.py` alone, so that one worker of xdist runs them all in one JVM.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

for _file in sorted(Path(__file__).parent.glob("cases_*.py")):
    pytest.register_assert_rewrite(f"tests.pipeline.{_file.stem}")

from octopia.pipeline import Session, SparkSettings, open_session  # noqa: E402
from octopia.pipeline.storage import HadoopStore, LocalStore, Store  # noqa: E402

# Small tables: one partition, no adaptive plans, plans that are interpreted, since compiling one takes longer than
# running it, a compiler that starts quickly; a failing task fails at once. Plans that are compiled are run by
# `test_processes.py`.
TEST_CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    with open_session(SparkSettings(master="local[2,1]", conf=TEST_CONF)) as running:
        yield running


@pytest.fixture(params=["folder", "address"])
def store(request: pytest.FixtureRequest, tmp_path: Path, session: Session) -> Store:
    """The same folder, as a path and as an address that goes through Hadoop's file systems."""
    folder = tmp_path / "out"
    if request.param == "folder":
        return LocalStore(folder)
    folder.mkdir()
    return HadoopStore(f"file://{folder}", lambda: session.spark)
