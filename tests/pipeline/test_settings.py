"""Masters and configuration: accepted values, their effect, and refusals."""

from pathlib import Path

import pytest

from octopia.errors import InputError
from octopia.pipeline import SparkSettings, parse_conf


@pytest.mark.parametrize(
    ("master", "effective"),
    [
        ("local", "local[1,3]"),
        ("local[*]", "local[*,3]"),
        ("local[4]", "local[4,3]"),
        ("local[4,1]", "local[4,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://a:7077,b:7078", "spark://a:7077,b:7078"),
        ("yarn", "yarn"),
        ("k8s://https://host:6443", "k8s://https://host:6443"),
    ],
)
def test_masters(master: str, effective: str, tmp_path: Path) -> None:
    assert SparkSettings(master=master).spark_conf(tmp_path)["spark.master"] == effective


@pytest.mark.parametrize(
    "master", ["", "lokal[2]", "local[0]", "local[2", "local[-1]", "spark://host", "spark:/h:1", "http://x"]
)
def test_what_no_spark_understands_is_refused(master: str) -> None:
    with pytest.raises(InputError, match=r"is not a Spark master: use local\[\*\], local\[4\]"):
        SparkSettings(master=master)


def test_a_misspelt_master_gets_a_hint() -> None:
    with pytest.raises(InputError, match=r"\(did you mean local\?\)"):
        SparkSettings(master="lokal[2]")


def test_what_spark_writes_goes_to_the_scratch_folder(tmp_path: Path) -> None:
    conf = SparkSettings().spark_conf(tmp_path)
    assert conf["spark.local.dir"] == str(tmp_path / "local")
    assert conf["spark.sql.warehouse.dir"] == (tmp_path / "warehouse").as_uri()
    assert conf["spark.ui.enabled"] == conf["spark.ui.showConsoleProgress"] == "false"
    assert conf["spark.sql.adaptive.enabled"] == "true"


@pytest.mark.parametrize(
    ("master", "partitions"),
    [("local[1]", "8"), ("local[2]", "8"), ("local[6]", "24"), ("local-cluster[3,2,512]", "24"), ("spark://h:1", None)],
)
def test_partitions_follow_the_cores_that_are_known(master: str, partitions: str | None, tmp_path: Path) -> None:
    assert SparkSettings(master=master).spark_conf(tmp_path).get("spark.sql.shuffle.partitions") == partitions


@pytest.mark.parametrize(
    ("master", "loopback"),
    [("local[2]", True), ("local-cluster[1,1,512]", True), ("spark://127.0.0.1:7", True), ("spark://localhost:7", True),
     ("spark://127.0.0.1:7,other:7", False), ("spark://10.0.0.1:7", False), ("yarn", False)],
)  # fmt: skip
def test_loopback_is_used_where_all_are_on_this_machine(master: str, loopback: bool, tmp_path: Path) -> None:
    conf = SparkSettings(master=master).spark_conf(tmp_path)
    assert (conf.get("spark.driver.host") == "127.0.0.1") is loopback


def test_given_configuration_wins(tmp_path: Path) -> None:
    settings = SparkSettings(conf={"spark.ui.enabled": "true", "spark.driver.memory": "3g"})
    assert settings.spark_conf(tmp_path)["spark.ui.enabled"] == "true"
    assert settings.driver_memory() == "3g"


def test_the_drivers_memory_is_between_one_and_eight_gibibytes() -> None:
    assert 1024 <= int(SparkSettings().driver_memory().removesuffix("m")) <= 8192


def test_conf_as_the_command_line_gives_it() -> None:
    assert parse_conf(["spark.a = 1", "spark.b=x=y"]) == {"spark.a": "1", "spark.b": "x=y"}


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        ("spark.a", "has no '=': write spark.executor.memory=2g"),
        ("executor.memory=2g", "Spark reads only keys that start with 'spark.'"),
        ("spark.=2g", "Spark reads only keys that start with 'spark.'"),
        ("spark.master=local", "give the master as --master"),
    ],
)
def test_conf_that_spark_would_ignore_is_refused(pair: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_conf([pair])


def test_settings_cannot_be_changed_afterwards() -> None:
    conf = {"spark.a": "1"}
    settings = SparkSettings(conf=conf)
    conf["spark.a"] = "2"
    assert settings.conf["spark.a"] == "1"
    with pytest.raises(TypeError):
        settings.conf["spark.a"] = "3"  # type: ignore[index]


@pytest.mark.parametrize(
    ("master", "conf", "waits"),
    [
        ("local[2]", {}, False),
        ("local-cluster[1,1,512]", {}, True),
        ("spark://h:1", {}, True),
        ("spark://h:1", {"spark.dynamicAllocation.enabled": "True"}, False),
        ("yarn", {}, False),
    ],
)
def test_executors_are_waited_for_where_they_come_by_themselves(master: str, conf: dict[str, str], waits: bool) -> None:
    assert SparkSettings(master=master, conf=conf).waits_for_executors is waits
