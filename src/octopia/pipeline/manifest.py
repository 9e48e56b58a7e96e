"""Metadata of tables: how each was made, from which inputs, and whether it is up to date.

Every table has its own record, `_octopia.json`, which is written before the table is moved into place, so the two are
never apart. `manifest.json` beside the tables collects all records for inspection; the pipeline does not use it.

A table's key is a digest of everything it depends on: the stage, its parameters, the version of its code, the computing
libraries, and the keys of its input tables. Equal keys mean equal tables, so a stage whose key has not changed need not
run. The version of the code is a digest of its source files, so nobody has to remember to raise a number.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

from octopia.pipeline.storage import FileSeen, Store
from octopia.version import __version__

RECORD: Final = "_octopia.json"
MANIFEST: Final = "manifest.json"
FORMAT: Final = 2
_COMPUTE: Final = ("duckdb", "numpy", "pyarrow", "pyspark")

Json = Any
Parameters = Mapping[str, Json]


class Recipe(NamedTuple):
    """Everything that a stage's tables depend on."""

    stage: str
    parameters: Parameters
    inputs: Mapping[str, str]
    code: str

    @property
    def key(self) -> str:
        """The digest of all of it."""
        return digest({**self._asdict(), "format": FORMAT, "versions": computing_versions()})


def stale_because(store: Store, table: str, recipe: Recipe) -> str | None:
    """Why a table must be made again; None if it is what the recipe would give."""
    record = read_record(store, table)
    if record is None:
        return "new" if not store.exists(table) else "not made by a finished run"
    if record.get("listing") != listing(store, table):
        return f"the files of {table} were changed"
    if record.get("key") == recipe.key:
        return None
    for name, made, now in (
        ("parameters", record.get("parameters"), recipe.parameters),
        ("inputs", record.get("inputs"), recipe.inputs),
    ):
        if changed := _changed(made, now):
            return f"{name} changed: {', '.join(changed)}"
    if record.get("code") != recipe.code:
        return "the code changed"
    return "libraries changed"


def read_record(store: Store, table: str) -> dict[str, Any] | None:
    """The record of a table, if it has a readable one."""
    found = store.read_json(f"{table}/{RECORD}")
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def record_of(store: Store, table: str) -> dict[str, Any]:
    """The record of a table that is known to be complete."""
    record = read_record(store, table)
    assert record is not None, "the runner has read it"  # noqa: S101
    return record


def make_record(
    recipe: Recipe, store: Store, written: str, *, rows: int, columns: Mapping[str, str], took_s: float, java: str
) -> dict[str, Any]:
    """The record of a table that was just written, under this name."""
    files = store.files(written)
    return {
        "format": FORMAT,
        "stage": recipe.stage,
        "rows": rows,
        "columns": dict(columns),
        "files": len(files),
        "bytes": sum(file.size for file in files),
        "seed": recipe.parameters.get("seed"),
        "parameters": dict(recipe.parameters),
        "inputs": dict(recipe.inputs),
        "versions": {"octopia": __version__, "python": platform.python_version(), "java": java, **computing_versions()},
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(took_s, 3),
        "code": recipe.code,
        "key": recipe.key,
        "listing": listing(store, written),
    }


def write_manifest(store: Store, tables: Iterable[str]) -> dict[str, Any]:
    """Write the records of all existing tables to one file."""
    records = {table: record for table in tables if (record := read_record(store, table)) is not None}
    seeds = sorted({record["seed"] for record in records.values() if record["seed"] is not None})
    manifest = {
        "format": FORMAT,
        "octopia": __version__,
        "seed": seeds[0] if len(seeds) == 1 else seeds,
        "rows": {table: record["rows"] for table, record in records.items()},
        "tables": records,
    }
    if store.read_json(MANIFEST) != manifest:
        store.write_json(MANIFEST, manifest)
    return manifest


def listing(store: Store, table: str) -> str:
    """A digest of names, sizes and contents: a part that was damaged on disk counts as changed, a copy does not."""
    return digest([[file.name, file.size, store.checksum(f"{table}/{file.name}")] for file in store.files(table)])


def files_digest(files: Iterable[FileSeen]) -> str:
    """A digest of foreign files, including their times: they may be changed in place."""
    return digest([list(file) for file in files])


@cache
def code_version(modules: tuple[str, ...]) -> str:
    """A digest of the source of modules and packages, by name."""
    total = hashlib.sha256()
    for name in sorted(modules):
        for file, content in _sources(name):
            total.update(f"{name}/{file}\0".encode())
            total.update(hashlib.sha256(content).digest())
    return total.hexdigest()[:16]


def _sources(name: str) -> Iterator[tuple[str, bytes]]:
    """The source files of a module or a package, also from a wheel, as with `spark-submit --py-files`."""
    found = find_spec(name)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(name)
    if found.submodule_search_locations is None:
        loader: Any = found.loader
        yield found.origin.replace("\\", "/").rpartition("/")[2], loader.get_data(found.origin)
        return
    todo = [("", resources.files(name))]
    files: dict[str, bytes] = {}
    while todo:
        folder, place = todo.pop()
        for entry in place.iterdir():
            if entry.is_dir():
                todo.append((f"{folder}{entry.name}/", entry))
            elif entry.name.endswith(".py"):
                files[f"{folder}{entry.name}"] = entry.read_bytes()
    yield from sorted(files.items())


@cache
def computing_versions() -> dict[str, str]:
    """The versions of the libraries that affect results."""
    return {name: library_version(name) for name in _COMPUTE}


def library_version(name: str) -> str:
    """The version of an installed library; "" if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def digest(value: Json) -> str:
    """A short digest of plain values, regardless of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _changed(made: Any, now: Mapping[str, Json]) -> list[str]:
    """The names whose values differ. Both are compared as JSON, which turns tuples into lists."""
    before = made if isinstance(made, dict) else {}
    names = sorted({*before, *now})
    return [name for name in names if digest(before.get(name)) != digest(now.get(name))]
