"""Access to files of a store from a worker, or from a program without Spark: paths and addresses through Arrow.

The place is the argument of `storage.open_store`. All machines must see a path. An address must be of a kind that
Arrow's own file systems support (file://, s3://, gs://, hdfs:// with libhdfs); Spark's name for S3, s3a://, is treated
as s3://. An unreachable place raises an error that names it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from octopia.errors import InputError


def open_place(place: str) -> tuple[Any, str]:
    """The file system of a place, and its path there."""
    if "://" not in place:
        return fs.LocalFileSystem(), str(Path(place).absolute())
    address = f"s3://{place.partition('://')[2]}" if place.startswith("s3a://") else place
    try:
        system, path = fs.FileSystem.from_uri(address)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{place}: cannot be reached by the workers: {_first_line(error)}") from None
    return system, path


def read_arrow(place: str, table: str, columns: list[str] | None = None) -> pa.Table:
    """A table of a store, whole."""
    system, top = open_place(place)
    try:
        return pq.read_table(f"{top}/{table}", filesystem=system, columns=columns)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{place}/{table}: cannot be read: {_first_line(error)}") from None


def copy_from(place: str, name: str, files: Iterable[str], folder: Path) -> None:
    """Copy some files of a folder at a place to a new folder of this machine."""
    system, top = open_place(place)
    folder.mkdir()
    try:
        for file in files:
            with system.open_input_stream(f"{top}/{name}/{file}") as source, (folder / file).open("wb") as target:
                while chunk := source.read(1 << 22):
                    target.write(chunk)
    except OSError as error:
        raise InputError(f"{place}/{name}: cannot be read: {_first_line(error)}") from None


def copy_to(folder: Path, place: str, name: str, last: str) -> None:
    """Copy the files of a local folder to a place, that named `last` after all others."""
    system, top = open_place(place)
    there = f"{top}/{name}"
    files = sorted(folder.iterdir(), key=lambda file: (file.name == last, file.name))
    try:
        system.create_dir(there, recursive=True)
        for file in files:
            with file.open("rb") as source, system.open_output_stream(f"{there}/{file.name}") as target:
                while chunk := source.read(1 << 22):
                    target.write(chunk)
    except OSError as error:
        raise InputError(f"{place}/{name}: cannot be written: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
