"""What is known about a table: how it was made, from what, and whether it is still that.

Every table carries its own record, `_octopia.json`, which is written before the table takes its place, so that the two
are never apart. `manifest.json` beside the tables is the records of all of them together, for whoever wants to look;
nothing is decided by it.

Rules of this file: a table's key is a digest of everything it follows from: the stage, its parameters, the version of
its code, the libraries that compute, and the keys of the tables it was made of. Equal keys mean equal tables, so a
stage whose key has not changed need not run. The version of the code is a digest of its source files: no number that
somebody has to remember to raise.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from octopia.pipeline.storage import AnyStore, FileSeen
from octopia.version import __version__

RECORD: Final = "_octopia.json"
MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
_COMPUTE: Final = ("numpy", "pyarrow", "pyspark")

Json = Any
Parameters = Mapping[str, Json]


class Recipe(NamedTuple):
    """What a stage's tables follow from."""

    stage: str
    parameters: Parameters
    inputs: Mapping[str, str]
    code: str

    @property
    def key(self) -> str:
        """The digest of all of it."""
        return digest({**self._asdict(), "format": FORMAT, "versions": computing_versions()})


def stale_because(store: AnyStore, table: str, recipe: Recipe) -> str | None:
    """Why a table must be made anew; None where it is what the recipe would give."""
    record = read_record(store, table)
    if record is None:
        return "new" if not store.exists(table) else "not made by a finished run"
    if record.get("listing") != listing(store.files(table)):
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


def read_record(store: AnyStore, table: str) -> dict[str, Any] | None:
    """The record of a table, if it has one that can be read."""
    found = store.read_json(f"{table}/{RECORD}")
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


def make_record(
    recipe: Recipe, *, rows: int, columns: Mapping[str, str], files: list[FileSeen], took_s: float, java: str
) -> dict[str, Any]:
    """The record of a table that was just written."""
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
        "listing": listing(files),
    }


def write_manifest(store: AnyStore, tables: Iterable[str]) -> dict[str, Any]:
    """The records of all tables that are there, in one file."""
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


def listing(files: list[FileSeen]) -> str:
    """A digest of names and sizes: times change when a folder is copied, and a copy is as good."""
    return digest([[file.name, file.size] for file in files])


def files_digest(files: Iterable[FileSeen]) -> str:
    """A digest of somebody else's files, times included: they may be changed in place."""
    return digest([list(file) for file in files])


@cache
def code_version(modules: tuple[str, ...]) -> str:
    """A digest of the source of modules and packages, by name."""
    total = hashlib.sha256()
    for name in sorted(modules):
        found = find_spec(name)
        if found is None or found.origin is None:
            raise ModuleNotFoundError(name)
        top = Path(found.origin)
        files = sorted(top.parent.rglob("*.py")) if top.name == "__init__.py" else [top]
        for file in files:
            total.update(f"{name}/{file.relative_to(top.parent).as_posix()}\0".encode())
            total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


@cache
def computing_versions() -> dict[str, str]:
    """Of the libraries that decide what comes out."""
    return {name: _installed(name) for name in _COMPUTE}


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def digest(value: Json) -> str:
    """A short digest of plain values, whatever the order of their keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _changed(made: Any, now: Mapping[str, Json]) -> list[str]:
    """The names whose values differ; JSON has made lists of tuples, so both are compared as JSON."""
    before = made if isinstance(made, dict) else {}
    names = sorted({*before, *now})
    return [name for name in names if digest(before.get(name)) != digest(now.get(name))]
