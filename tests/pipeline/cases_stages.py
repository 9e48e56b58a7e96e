"""The runner with stages of two lines: what runs, what does not and why, and the state after a stopped run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from octopia.errors import InputError
from octopia.pipeline import PipelineError, Session
from octopia.pipeline.stages import Event, Outputs, Runner, Stage, Work
from octopia.pipeline.storage import LocalStore, Store


@dataclass(frozen=True)
class Spec:
    count: int = 4
    factor: int = 10
    fail: str = ""


def numbers(work: Work[Spec]) -> Outputs:
    return {"numbers": work.session.spark.range(work.spec.count).withColumnRenamed("id", "n")}


def products(work: Work[Spec]) -> Outputs:
    frame = work.tables["numbers"].selectExpr(f"n * {work.spec.factor} as product")
    work.notes.append(f"times {work.spec.factor}")

    def largest() -> pa.Table:
        if work.spec.fail == "second table":
            raise InputError("the second table cannot be made")
        return pa.table({"largest": [frame.agg({"product": "max"}).collect()[0][0]]})

    if work.spec.fail == "function":
        raise InputError("the function cannot go on")
    if work.spec.fail == "task":
        frame = work.tables["numbers"].selectExpr("raise_error('no')")
    return {"products": frame, "largest": largest}


CODE = ("octopia.errors",)
STAGES = (
    Stage("numbers", "count", (), ("numbers",), numbers, CODE, lambda spec, _: {"count": spec.count}),
    Stage(
        "products", "multiply", ("numbers",), ("products", "largest"), products, CODE,
        lambda spec, _: {"factor": spec.factor},
    ),
)  # fmt: skip


def runner(store: Store, session: Session, spec: Spec, told: list[Event] | None = None) -> Runner[Spec]:
    return Runner(store, spec, lambda: session, STAGES, (told if told is not None else []).append)


def states(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(event.stage, event.state, event.because) for event in events]


def rows(store: Store, table: str) -> list[Any]:
    folder = store.place.removeprefix("file://")
    return sorted(tuple(row.values()) for row in pq.read_table(f"{folder}/{table}").to_pylist())


def names(store: Store) -> list[str]:
    folder = Path(store.place.removeprefix("file://"))
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".crc") and path.name != ".lock")


def test_tables_manifest_and_events(session: Session, store: Store) -> None:
    told: list[Event] = []
    runner(store, session, Spec(), told).run()
    assert states(told) == [
        ("numbers", "started", "new"),
        ("numbers", "finished", "new"),
        ("products", "started", "new"),
        ("products", "finished", "new"),
    ]
    assert told[3].rows == {"products": 4, "largest": 1}
    assert told[3].notes == ("times 10",)
    assert rows(store, "products") == [(0,), (10,), (20,), (30,)]
    assert rows(store, "largest") == [(30,)]
    manifest = store.read_json("manifest.json")
    assert manifest["rows"] == {"numbers": 4, "products": 4, "largest": 1}
    assert manifest["tables"]["products"]["columns"] == {"product": "bigint"}
    assert manifest["tables"]["products"]["inputs"] == {"numbers": manifest["tables"]["numbers"]["key"]}
    assert names(store) == ["largest", "manifest.json", "numbers", "products"]


def test_nothing_is_run_twice_and_changes_run_what_depends_on_them(session: Session, store: Store) -> None:
    runner(store, session, Spec()).run()
    again = runner(store, session, Spec()).run()
    assert states(again) == [("numbers", "skipped", ""), ("products", "skipped", "")]
    assert again[1].rows == {"products": 4, "largest": 1}
    assert states(runner(store, session, Spec(factor=2)).run()) == [
        ("numbers", "skipped", ""),
        ("products", "finished", "parameters changed: factor"),
    ]
    assert rows(store, "products") == [(0,), (2,), (4,), (6,)]
    assert states(runner(store, session, Spec(count=2, factor=2)).run()) == [
        ("numbers", "finished", "parameters changed: count"),
        ("products", "finished", "inputs changed: numbers"),
    ]
    assert rows(store, "largest") == [(2,)]
    assert states(runner(store, session, Spec(count=2, factor=2)).run(["numbers"], force=True)) == [
        ("numbers", "finished", "asked for")
    ]


def test_each_stage_runs_alone_on_what_is_there(session: Session, store: Store) -> None:
    alone = runner(store, session, Spec())
    with pytest.raises(InputError, match=r"stage products needs the table numbers, .*: run stage numbers first"):
        alone.run(["products"])
    alone.run(["numbers"])
    # the settings of other stages do not matter: the tables on disk do
    runner(store, session, Spec(count=99)).run(["products"])
    assert rows(store, "largest") == [(30,)]


@pytest.mark.parametrize("where", ["function", "task", "second table"])
def test_a_stage_that_fails_leaves_its_old_tables(session: Session, store: Store, where: str) -> None:
    runner(store, session, Spec()).run()
    before = store.read_json("manifest.json")
    with pytest.raises((InputError, PipelineError)):
        runner(store, session, Spec(factor=3, fail=where)).run()
    assert rows(store, "products") == [(0,), (10,), (20,), (30,)]
    assert rows(store, "largest") == [(30,)]
    assert store.read_json("manifest.json") == before
    assert states(runner(store, session, Spec(factor=3)).run())[1] == (
        "products",
        "finished",
        "parameters changed: factor",
    )
    assert rows(store, "largest") == [(9,)]
    assert names(store) == ["largest", "manifest.json", "numbers", "products"]


@pytest.mark.parametrize("moment", [1, 2, 3, 4])
def test_a_process_that_dies_while_tables_are_put_in_place(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Killed before the nth rename: afterwards every table is complete, old or new, and the next run finishes."""
    store = LocalStore(tmp_path)
    runner(store, session, Spec()).run()
    renames: list[str] = []

    class Killed(BaseException):
        pass

    def rename(self: LocalStore, old: str, new: str, real: Callable[..., None] = LocalStore.rename) -> None:
        renames.append(new)
        if len(renames) == moment:
            raise Killed
        real(self, old, new)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "rename", rename)
        # so that nothing is tidied up on the way out, as with a kill
        patch.setattr("octopia.pipeline.stages.write_manifest", lambda *_: None)
        with pytest.raises(Killed):
            runner(store, session, Spec(factor=3)).run(["products"])
    runner(store, session, Spec(factor=3)).run()
    assert rows(store, "products") == [(0,), (3,), (6,), (9,)]
    assert rows(store, "largest") == [(9,)]
    assert names(store) == ["largest", "manifest.json", "numbers", "products"]


def test_a_stage_must_make_the_tables_it_names(session: Session, tmp_path: Path) -> None:
    odd = Stage("odd", "", (), ("one",), numbers, CODE)
    with pytest.raises(TypeError, match=r"stage odd made \['numbers'\] and not \['one'\]"):
        Runner(LocalStore(tmp_path), Spec(), lambda: session, (odd,)).run()


def test_a_folder_with_nothing_to_do_needs_no_session(session: Session, tmp_path: Path) -> None:
    def no_session() -> Session:
        raise AssertionError("nothing was to be done")

    store = LocalStore(tmp_path)
    runner(store, session, Spec()).run()
    assert [event.state for event in Runner(store, Spec(), no_session, STAGES).run()] == ["skipped", "skipped"]


def test_a_folder_of_an_odd_name(session: Session, tmp_path: Path) -> None:
    """Spark takes brackets, braces and stars in a path for patterns, and a percent sign for a code."""
    store = LocalStore(tmp_path / "a [1] {b,c} * 100%25 ü")
    runner(store, session, Spec()).run()
    assert rows(store, "products") == [(0,), (10,), (20,), (30,)]
