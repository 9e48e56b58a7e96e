"""Keys, records and the reasons for which a table is made again."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from octopia.pipeline.manifest import (
    RECORD,
    Recipe,
    code_version,
    computing_versions,
    make_record,
    read_record,
    stale_because,
    write_manifest,
)
from octopia.pipeline.storage import LocalStore

RECIPE = Recipe("quotes", {"seed": 1, "paths": ["a"]}, {"raw": "k1"}, "c1")


def made(folder: Path, recipe: Recipe = RECIPE, table: str = "quotes", rows: int = 3) -> LocalStore:
    store = LocalStore(folder)
    (folder / table).mkdir()
    (folder / table / "part-0.parquet").write_text("rows")
    record = make_record(recipe, store, table, rows=rows, columns={"x": "int"}, took_s=1.23456, java="25")
    store.write_json(f"{table}/{RECORD}", record)
    return store


def test_a_table_that_follows_from_the_same_is_not_made_again(tmp_path: Path) -> None:
    store = made(tmp_path)
    assert stale_because(store, "quotes", RECIPE) is None
    # tuples are lists once they were JSON
    assert stale_because(store, "quotes", RECIPE._replace(parameters={"paths": ("a",), "seed": 1})) is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (RECIPE._replace(parameters={"seed": 2, "paths": ["a"]}), "parameters changed: seed"),
        (RECIPE._replace(parameters={"seed": 1, "days": 2}), "parameters changed: days, paths"),
        (RECIPE._replace(inputs={"raw": "k2"}), "inputs changed: raw"),
        (RECIPE._replace(inputs={}), "inputs changed: raw"),
        (RECIPE._replace(code="c2"), "the code changed"),
    ],
)
def test_each_change_is_a_reason(tmp_path: Path, changed: Recipe, reason: str) -> None:
    assert stale_because(made(tmp_path), "quotes", changed) == reason


def test_other_libraries_are_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = made(tmp_path)
    monkeypatch.setattr("octopia.pipeline.manifest.computing_versions", lambda: computing_versions() | {"numpy": "0"})
    assert stale_because(store, "quotes", RECIPE) == "libraries changed"


def test_a_table_that_is_not_there_is_new(tmp_path: Path) -> None:
    assert stale_because(LocalStore(tmp_path), "quotes", RECIPE) == "new"


@pytest.mark.parametrize("damage", ["", "{", '{"format": 0}', "[]"])
def test_a_table_without_its_record_was_not_finished(tmp_path: Path, damage: str) -> None:
    store = made(tmp_path)
    (tmp_path / "quotes" / RECORD).write_text(damage)
    assert stale_because(store, "quotes", RECIPE) == "not made by a finished run"


@pytest.mark.parametrize("how", ["added", "removed", "resized", "damaged"])
def test_changed_files_are_a_reason(tmp_path: Path, how: str) -> None:
    store = made(tmp_path)
    part = tmp_path / "quotes" / "part-0.parquet"
    if how == "added":
        (tmp_path / "quotes" / "part-1.parquet").write_text("more")
    elif how == "removed":
        part.unlink()
    elif how == "damaged":
        # one flipped bit: the same name, size and time
        seen = part.stat()
        part.write_bytes(bytes([part.read_bytes()[0] ^ 1]) + part.read_bytes()[1:])
        os.utime(part, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    else:
        part.write_text("other rows")
    assert stale_because(store, "quotes", RECIPE) == "the files of quotes were changed"


def test_a_copy_is_as_good(tmp_path: Path) -> None:
    made(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copyfile)
    assert stale_because(LocalStore(tmp_path / "two"), "quotes", RECIPE) is None


def test_the_record_says_how_the_table_was_made(tmp_path: Path) -> None:
    record = read_record(made(tmp_path), "quotes")
    assert record is not None
    assert record["versions"].keys() == {"octopia", "python", "java", "duckdb", "numpy", "pyarrow", "pyspark"}
    told = {name: record[name] for name in ("stage", "rows", "columns", "files", "bytes", "seed", "inputs", "took_s")}
    assert told == {
        "stage": "quotes",
        "rows": 3,
        "columns": {"x": "int"},
        "files": 1,
        "bytes": 4,
        "seed": 1,
        "inputs": {"raw": "k1"},
        "took_s": 1.235,
    }


def test_the_manifest_is_all_records_together(tmp_path: Path) -> None:
    store = made(tmp_path)
    made(tmp_path, Recipe("truth", {}, {}, "c"), table="truth", rows=7)
    manifest = write_manifest(store, ["quotes", "nothing", "truth"])
    assert store.read_json("manifest.json") == manifest
    assert manifest["rows"] == {"quotes": 3, "truth": 7}
    assert manifest["seed"] == 1
    assert manifest["tables"]["truth"] == read_record(store, "truth")


def test_the_version_of_code_follows_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "versioned"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    code_version.cache_clear()
    one = code_version(("versioned",))
    alone = code_version(("versioned.inner",))
    (package / "inner.py").write_text("x = 2\n")
    code_version.cache_clear()
    assert code_version(("versioned",)) != one
    assert code_version(("versioned.inner",)) != alone
    (package / "inner.py").write_text("x = 1\n")
    code_version.cache_clear()
    assert (code_version(("versioned",)), code_version(("versioned.inner",))) == (one, alone)
    code_version.cache_clear()
    sys.modules.pop("versioned", None)
    with pytest.raises(ModuleNotFoundError):
        code_version(("versioned.nothing",))
