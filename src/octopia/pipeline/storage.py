"""Where tables live: a folder of this machine (or one that all machines share), or an address that Spark can reach.

Both kinds offer the same few operations, and both replace a table in one step as far as a reader can see: the new one
is written beside the old one and renamed. If the process dies between two renames, `recover` puts things right. Names
that begin with a dot are internal and not tables.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from octopia.errors import InputError, PipelineError
from octopia.pipeline.failures import spark_errors

NEW: Final = ".new"
OLD: Final = ".old"
_LOCK: Final = ".lock"


class FileSeen(NamedTuple):
    """A file as seen by a fingerprint."""

    name: str
    size: int
    changed_ns: int


class Store(Protocol):
    """A place for tables, each a folder of files."""

    place: str

    def url(self, name: str) -> str:
        """The URL with which Spark reads or writes a table, or a file of one."""

    def files(self, name: str) -> list[FileSeen]:
        """The files of a table, by name; none if there is no such table. Spark's own files are left out."""

    def checksum(self, name: str) -> str:
        """A checksum of a file's content; a copy has the same one."""

    def read_json(self, name: str) -> Any:
        """A JSON file; None if it is missing or damaged."""

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file, all or nothing."""
        self.write_bytes(name, f"{json.dumps(value, indent=1, ensure_ascii=False)}\n".encode())

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file, all or nothing; missing folders are created."""

    def exists(self, name: str) -> bool: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, name: str) -> None: ...

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One run at a time, where the place has locks that end with their holder."""
        yield


def replace(store: Store, name: str) -> None:
    """Put the table that was written as `name + NEW` in the place of the old one."""
    store.remove(f".{name}{OLD}")
    if store.exists(name):
        store.rename(name, f".{name}{OLD}")
    store.rename(new_name(name), name)
    store.remove(f".{name}{OLD}")


def recover(store: Store, name: str) -> None:
    """Clean up after a process that ended: a half-written table is removed, one that was moved aside comes back."""
    store.remove(new_name(name))
    if store.exists(f".{name}{OLD}"):
        if store.exists(name):
            store.remove(f".{name}{OLD}")
        else:
            store.rename(f".{name}{OLD}", name)


def new_name(table: str) -> str:
    """The name under which a table is written before it is complete."""
    return f".{table}{NEW}"


def is_data(file: str) -> bool:
    """Whether a file of a table contains rows: Spark's own notes and checksums begin with `_` or a dot."""
    return not file.rpartition("/")[2].startswith(("_", "."))


class LocalStore(Store):
    """A folder."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).absolute()
        self.place = str(folder)
        with _told(self.place):
            self.folder.mkdir(parents=True, exist_ok=True)

    def url(self, name: str) -> str:
        return str(self.folder / name)

    def files(self, name: str) -> list[FileSeen]:
        top = self.folder / name
        found = []
        for path in sorted(top.rglob("*")) if top.is_dir() else ():
            if path.is_file() and is_data(path.name):
                seen = path.stat()
                found.append(FileSeen(path.relative_to(top).as_posix(), seen.st_size, seen.st_mtime_ns))
        return found

    def checksum(self, name: str) -> str:
        try:
            with (self.folder / name).open("rb") as file:
                return hashlib.file_digest(file, "md5").hexdigest()
        except OSError as error:
            raise InputError(f"{self.url(name)}: {error.strerror or error}") from None

    def read_json(self, name: str) -> Any:
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def write_bytes(self, name: str, content: bytes) -> None:
        path = self.folder / name
        beside = path.with_name(f".{path.name}{NEW}")
        with _told(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(content)
            os.replace(beside, path)

    def exists(self, name: str) -> bool:
        return (self.folder / name).exists()

    def rename(self, old: str, new: str) -> None:
        with _told(self.url(new)):
            os.rename(self.folder / old, self.folder / new)

    def remove(self, name: str) -> None:
        path = self.folder / name
        with _told(str(path)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One run at a time: two would remove each other's half-written tables."""
        try:
            import fcntl
        except ImportError:  # a system without it: nothing to hold
            yield
            return
        with _told(str(self.folder / _LOCK)):
            file = (self.folder / _LOCK).open("a+")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PipelineError(
                    f"{self.place}: another run is at work there; wait for it, or use another --out"
                ) from None
            yield


class HadoopStore(Store):
    """An address such as hdfs://host/folder, through the file systems of the session's JVM."""

    def __init__(self, address: str, spark: Callable[[], Any]) -> None:
        self.place = address.rstrip("/")
        self._spark = spark

    def _path(self, name: str) -> tuple[Any, Any]:
        return hadoop_path(self._spark(), self.url(name) if name else self.place)

    def url(self, name: str) -> str:
        return f"{self.place}/{name}"

    def files(self, name: str) -> list[FileSeen]:
        with spark_errors(self.url(name)):
            system, path = self._path(name)
            if not system.exists(path):
                return []
            listing, found = system.listFiles(path, True), []
            top = system.makeQualified(path).toString()
            while listing.hasNext():
                status = listing.next()
                file = status.getPath().toString().removeprefix(top).lstrip("/")
                if is_data(file):
                    found.append(FileSeen(file, status.getLen(), status.getModificationTime() * 1_000_000))
            return sorted(found)

    def checksum(self, name: str) -> str:
        """The storage's own checksum, if it keeps one; a plain file is read by the JVM; an object store guards its own
        data.

        Reading everything in an object store would cost more than most stages, so the time of a file counts instead.
        """
        with spark_errors(self.url(name)):
            system, path = self._path(name)
            kept = system.getFileChecksum(path)
            if kept is not None:
                return str(kept.toString())
            if system.getScheme() != "file":
                return str(system.getFileStatus(path).getModificationTime())
            stream = system.open(path)
            try:
                return str(self._spark()._jvm.org.apache.commons.codec.digest.DigestUtils.md5Hex(stream))  # noqa: SLF001
            finally:
                stream.close()

    def read_json(self, name: str) -> Any:
        with spark_errors(self.url(name)):
            system, path = self._path(name)
            if not system.exists(path):
                return None
            stream = system.open(path)
            try:
                content = bytes(stream.readAllBytes())
            finally:
                stream.close()
        try:
            return json.loads(content)
        except ValueError:
            return None

    def write_bytes(self, name: str, content: bytes) -> None:
        folder, _, file = name.rpartition("/")
        beside = f"{folder}/.{file}{NEW}".lstrip("/")
        with spark_errors(self.url(name)):
            system, path = self._path(beside)
            stream = system.create(path, True)
            try:
                stream.write(bytearray(content))
            finally:
                stream.close()
        self.remove(name)
        self.rename(beside, name)

    def exists(self, name: str) -> bool:
        with spark_errors(self.url(name)):
            system, path = self._path(name)
            return bool(system.exists(path))

    def rename(self, old: str, new: str) -> None:
        with spark_errors(self.url(new)):
            system, source = self._path(old)
            if not system.rename(source, self._path(new)[1]):
                raise PipelineError(f"{self.url(old)} cannot be renamed to {new}")

    def remove(self, name: str) -> None:
        with spark_errors(self.url(name)):
            system, path = self._path(name)
            system.delete(path, True)


def open_store(place: str | os.PathLike[str], spark: Callable[[], Any]) -> Store:
    """The store at a path or an address; `spark` is called for a session only if the address needs one."""
    text = os.fspath(place)
    return HadoopStore(text, spark) if "://" in text else LocalStore(text)


def hadoop_path(spark: Any, address: str) -> tuple[Any, Any]:
    """The JVM's file system for an address, and its path there."""
    path = spark._jvm.org.apache.hadoop.fs.Path(address)  # noqa: SLF001  PySpark has no other way to its storages
    return path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()), path  # noqa: SLF001


@contextmanager
def _told(place: str) -> Iterator[None]:
    """Convert an error of the file system to ours, with the place."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{place}: cannot be written: {error.strerror or error}") from None
