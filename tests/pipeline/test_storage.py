"""Tables in a folder: replaced in one step, put right after a process that died, one run at a time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from octopia.errors import InputError
from octopia.pipeline import PipelineError
from octopia.pipeline.storage import FileSeen, LocalStore, new_name, open_store, recover, replace


def put(folder: Path, name: str, content: str) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "part-0.parquet").write_text(content)


def tree(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_table_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    put(tmp_path, "quotes", "old")
    put(tmp_path, new_name("quotes"), "new")
    replace(store, "quotes")
    assert tree(tmp_path) == {"quotes/part-0.parquet": "new"}


def test_the_first_table_of_its_name_needs_no_old_one(tmp_path: Path) -> None:
    put(tmp_path, new_name("quotes"), "new")
    replace(LocalStore(tmp_path), "quotes")
    assert tree(tmp_path) == {"quotes/part-0.parquet": "new"}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"quotes": "old", ".quotes.new": "half"}, "old"),  # while it wrote
        ({".quotes.old": "old", ".quotes.new": "new"}, "old"),  # between the two renames
        ({"quotes": "new", ".quotes.old": "old"}, "new"),  # after them
        ({".quotes.new": "half"}, None),
        ({"quotes": "old"}, "old"),
    ],
)
def test_what_a_dead_process_left_is_put_right(tmp_path: Path, left: dict[str, str], right: str | None) -> None:
    for name, content in left.items():
        put(tmp_path, name, content)
    recover(LocalStore(tmp_path), "quotes")
    assert tree(tmp_path) == ({} if right is None else {"quotes/part-0.parquet": right})


def test_files_are_those_with_rows(tmp_path: Path) -> None:
    put(tmp_path, "quotes", "abc")
    for name in ("_SUCCESS", "_octopia.json", ".part-0.parquet.crc"):
        (tmp_path / "quotes" / name).write_text("x")
    (tmp_path / "quotes" / "cell=1").mkdir()
    (tmp_path / "quotes" / "cell=1" / "a.parquet").write_text("de")
    seen = LocalStore(tmp_path).files("quotes")
    assert [(file.name, file.size) for file in seen] == [("cell=1/a.parquet", 2), ("part-0.parquet", 3)]
    assert all(isinstance(file, FileSeen) and file.changed_ns > 0 for file in seen)
    assert LocalStore(tmp_path).files("nothing") == []


def test_json_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write_json("manifest.json", {"a": "ü"})
    assert json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8")) == {"a": "ü"}
    with pytest.raises(TypeError):
        store.write_json("manifest.json", {"a": object()})
    assert tree(tmp_path) == {"manifest.json": '{\n "a": "ü"\n}\n'}
    assert store.read_json("manifest.json") == {"a": "ü"}


@pytest.mark.parametrize("content", ["", "{", "\x00"])
def test_damaged_json_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    assert LocalStore(tmp_path).read_json("manifest.json") is None


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom octopia.pipeline.storage import LocalStore\n"
        "with LocalStore(sys.argv[1]).locked():\n    print('locked', flush=True)\n    sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(PipelineError, match="another run is at work there"), LocalStore(tmp_path).locked():
            pass
        other.communicate()
    with LocalStore(tmp_path).locked():
        pass


def test_a_folder_that_cannot_be_made_is_told_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        LocalStore(tmp_path / "file" / "out")


def test_addresses_are_for_spark_and_paths_are_not(tmp_path: Path) -> None:
    def no_session() -> None:
        raise AssertionError("nobody may ask for a session here")

    assert isinstance(open_store(tmp_path, no_session), LocalStore)
    assert open_store("hdfs://host/out/", no_session).url("quotes") == "hdfs://host/out/quotes"
