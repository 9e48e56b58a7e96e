"""Incremental reading: the judged rows of known files are kept, so that a day's quotes add only a day's work.

Each run stores the rows of new files as one batch, Parquet in `.judged/BATCH`. `.judged/known.json` lists the files of
each batch with name, size and time. A file that changed or vanished is excluded from its batch by name; a batch whose
own files have changed is not used. Rows are stored as judged, good and bad, before duplicates are removed, so the
result is the same as reading everything again. After `BATCHES_MAX` batches, all of them are merged into one.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from octopia.pipeline.arrow import together
from octopia.pipeline.manifest import listing
from octopia.pipeline.stages import Work, read_table
from octopia.pipeline.storage import FileSeen, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

FOLDER: Final = ".judged"
BATCHES_MAX: Final = 64
_KNOWN: Final = f"{FOLDER}/known.json"
_BATCH: Final = "batch"
# Called with the names of files to read; returns their rows, and why some could not even be opened.
Read = Callable[[set[str]], "tuple[DataFrame, dict[str, str]]"]


def judged_rows(
    work: Work[Any], seen: Mapping[str, FileSeen], key: str, read: Read, schema: "StructType"
) -> "tuple[DataFrame, dict[str, str]]":
    """The judged rows of all these files. `key` stands for everything else that they depend on: settings and code."""
    from pyspark.sql.types import StringType, StructField, StructType

    # columns as on disk: without them, Spark starts a job to inspect each batch
    stored = StructType([*schema.fields, StructField(_BATCH, StringType())])
    store = work.store
    batches = _usable(store, key, seen)
    known = {file.name for files in batches.values() for file in files}
    new = set(seen) - known
    refused: dict[str, str] = {}
    if known:
        work.notes.append(f"{len(known):,} of {len(seen):,} files were read before")
    if new:
        frame, refused = read(new)
        number = 1 + max((int(name) for name in batches), default=0)
        batches[f"{number:06d}"] = [file for name, file in seen.items() if name in new and name not in refused]
        _write(store, f"{number:06d}", frame)
    if len(batches) > BATCHES_MAX:
        name = f"{1 + max(map(int, batches)):06d}"
        _write(store, name, _rows(work, batches, stored))
        batches = {name: [file for files in batches.values() for file in files]}
    _remember(store, key, batches)
    return _rows(work, batches, stored), refused


def _usable(store: Store, key: str, seen: Mapping[str, FileSeen]) -> dict[str, list[FileSeen]]:
    """For each batch, its files that are unchanged."""
    noted = store.read_json(_KNOWN)
    if not isinstance(noted, dict) or noted.get("key") != key:
        return {}
    found: dict[str, list[FileSeen]] = {}
    for name, batch in noted["batches"].items():
        if listing(store, f"{FOLDER}/{name}") == batch["listing"]:
            files = [FileSeen(*file) for file in batch["files"]]
            found[name] = [file for file in files if seen.get(file.name) == file]
    return {name: files for name, files in found.items() if files}


def _write(store: Store, name: str, frame: "DataFrame") -> None:
    from pyspark.sql import functions as fn

    frame.withColumn(_BATCH, fn.lit(name)).write.mode("overwrite").parquet(store.url(f"{FOLDER}/{name}"))


def _remember(store: Store, key: str, batches: Mapping[str, list[FileSeen]]) -> None:
    """Only after the rows are stored; then batches that are no longer needed are removed."""
    noted = {
        name: {"files": [list(file) for file in files], "listing": listing(store, f"{FOLDER}/{name}")}
        for name, files in batches.items()
    }
    store.write_json(_KNOWN, {"key": key, "batches": noted})
    there = {file.name.partition("/")[0] for file in store.files(FOLDER) if "/" in file.name}
    for name in sorted(there - set(batches)):
        store.remove(f"{FOLDER}/{name}")


def _rows(work: Work[Any], batches: Mapping[str, list[FileSeen]], schema: "StructType") -> "DataFrame":
    """The rows of these files, each from its own batch."""
    from pyspark.sql import functions as fn

    frames = [read_table(work.session, work.store.url(f"{FOLDER}/{name}"), schema) for name in batches]
    pairs = [(name, file.name) for name, files in batches.items() for file in files]
    columns = [pa.array([pair[at] for pair in pairs], pa.string()) for at in (0, 1)]
    wanted = pa.table(columns, [_BATCH, "file"])
    kept = work.session.spark.createDataFrame(wanted)
    return together(frames).join(fn.broadcast(kept), [_BATCH, "file"], "left_semi").drop(_BATCH)
