"""Stages: functions from tables to tables, run only where something has changed.

    runner = Runner(store, spec, session)
    runner.run([QUOTES, NOTIFICATIONS])

Rules of this file: it knows no stage. A stage reads tables and returns tables, and does nothing else; the runner reads,
writes, counts and remembers. A table takes its place only when it is complete, with its record; a run that is stopped
leaves complete tables, and the next one goes on from there. The stages are run in the order given, and every stage
finds the tables that it needs on disk, so each can be run alone.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import pyarrow as pa

from octopia.errors import InputError
from octopia.pipeline.manifest import (
    RECORD,
    Parameters,
    Recipe,
    code_version,
    make_record,
    read_record,
    stale_because,
    write_manifest,
)
from octopia.pipeline.storage import AnyStore, new_name, recover, replace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from octopia.pipeline.session import Session

Spec = TypeVar("Spec")
Made: TypeAlias = "DataFrame | pa.Table"
# A table, or a function that is asked for it when those before it are written.
Output: TypeAlias = "Made | Callable[[], Made]"
Outputs: TypeAlias = "Mapping[str, Output]"
Sessions: TypeAlias = "Callable[[], Session]"


@dataclass(frozen=True)
class Stage(Generic[Spec]):
    """One step: which tables it reads, which it makes, and how.

    `parameters` are the plain values that the result follows from, beside the tables read; `code` names the modules
    whose source does the work.
    """

    name: str
    about: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    make: "Callable[[Work[Spec]], Outputs]"
    parameters: "Callable[[Spec, Sessions], Parameters]"
    code: tuple[str, ...]


@dataclass
class Work(Generic[Spec]):
    """What a stage gets: the settings, the session, the tables it asked for; `notes` are lines to tell the user."""

    spec: Spec
    session: "Session"
    tables: "Mapping[str, DataFrame]"
    # where the tables are, and what these follow from: for work that is kept in pieces until all of it is done
    store: AnyStore
    recipe: Recipe
    # told which share is done, and of what, by a stage that takes its time
    tell: Callable[[float, str], None]
    notes: list[str] = field(default_factory=list)
    # what is given back when the tables are written
    cleanup: ExitStack = field(default_factory=ExitStack)


@dataclass(frozen=True)
class Event:
    """What a runner tells on its way: `state` is `skipped`, `started`, `progress` or `finished`."""

    stage: str
    state: str
    about: str
    because: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    took_s: float = 0.0
    share: float = 0.0


class Runner(Generic[Spec]):
    """Runs stages on one store. `sessions` is asked for the session when one is needed: often nothing is to be done."""

    def __init__(
        self,
        store: AnyStore,
        spec: Spec,
        sessions: Sessions,
        stages: Sequence[Stage[Spec]],
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self._store = store
        self._spec = spec
        self._sessions = sessions
        self._stages = {stage.name: stage for stage in stages}
        self._on_event = on_event

    def run(self, names: Sequence[str] | None = None, *, force: bool = False) -> list[Event]:
        """Run these stages in order (all, if not said), each only if it must; `force` runs them in any case."""
        wanted = [self._stages[name] for name in (names if names is not None else self._stages)]
        with self._store.locked():
            for table in self._tables():
                recover(self._store, table)
            try:
                return [self._run_one(stage, force) for stage in wanted]
            finally:
                write_manifest(self._store, self._tables())

    def plan(self, names: Sequence[str] | None = None) -> dict[str, str | None]:
        """For each stage why it would run, given the tables as they are; None where it would not."""
        wanted = names if names is not None else list(self._stages)
        return {name: self._because(self._stages[name], self._recipe(self._stages[name])) for name in wanted}

    def _tables(self) -> list[str]:
        return [table for stage in self._stages.values() for table in stage.outputs]

    def _run_one(self, stage: Stage[Spec], force: bool) -> Event:
        recipe = self._recipe(stage)
        because = self._because(stage, recipe) or ("asked for" if force else None)
        if because is None:
            records = [read_record(self._store, table) or {} for table in stage.outputs]
            rows = {table: record["rows"] for table, record in zip(stage.outputs, records, strict=True)}
            return self._tell(Event(stage.name, "skipped", stage.about, rows=rows))
        self._tell(Event(stage.name, "started", stage.about, because=because))
        begin = time.monotonic()
        session = self._sessions()
        with session.errors(f"stage {stage.name}"):
            tables = {name: read_table(session, self._store.url(name)) for name in stage.inputs}
            work = Work(self._spec, session, tables, self._store, recipe, self._progress_of(stage))
            with work.cleanup:
                rows = self._write(stage, recipe, work, begin)
        took_s = time.monotonic() - begin
        return self._tell(
            Event(
                stage.name, "finished", stage.about, because=because, rows=rows, notes=tuple(work.notes), took_s=took_s
            )
        )

    def _progress_of(self, stage: Stage[Spec]) -> Callable[[float, str], None]:
        return lambda share, what: self._on_event(Event(stage.name, "progress", what, share=share))

    def _tell(self, event: Event) -> Event:
        self._on_event(event)
        return event

    def _recipe(self, stage: Stage[Spec]) -> Recipe:
        inputs = {}
        for table in stage.inputs:
            record = read_record(self._store, table)
            if record is None:
                maker = next((s.name for s in self._stages.values() if table in s.outputs), table)
                raise InputError(
                    f"stage {stage.name} needs the table {table}, which is not in {self._store.place}: "
                    f"run stage {maker} first"
                )
            inputs[table] = record["key"]
        return Recipe(stage.name, self._parameters(stage), inputs, code_version(stage.code))

    def _parameters(self, stage: Stage[Spec]) -> Parameters:
        return stage.parameters(self._spec, self._sessions)

    def _because(self, stage: Stage[Spec], recipe: Recipe) -> str | None:
        reasons = (stale_because(self._store, table, recipe) for table in stage.outputs)
        return next((reason for reason in reasons if reason), None)

    def _write(self, stage: Stage[Spec], recipe: Recipe, work: Work[Spec], begin: float) -> dict[str, int]:
        """Write all tables of a stage beside the old ones, then put them in place one after the other."""
        made = stage.make(work)
        if sorted(made) != sorted(stage.outputs):
            raise TypeError(f"stage {stage.name} made {sorted(made)} and not {sorted(stage.outputs)}")
        rows: dict[str, int] = {}
        for name, output in made.items():
            table = output() if callable(output) else output
            rows[name], columns = write_table(work.session, table, self._store.url(new_name(name)))
            record = make_record(
                recipe,
                rows=rows[name],
                columns=columns,
                files=self._store.files(new_name(name)),
                took_s=time.monotonic() - begin,
                java=str(work.session.java.version) if work.session.java else "",
            )
            self._store.write_json(f"{new_name(name)}/{RECORD}", record)
        for name in made:
            replace(self._store, name)
        return rows


def read_table(session: "Session", url: str) -> "DataFrame":
    """The table at a place whose name is taken as it is: Spark would take brackets and stars in it for a pattern."""
    return session.spark.read.option("__globPaths__", "false").parquet(url)


def write_table(session: "Session", table: Made, url: str) -> tuple[int, dict[str, str]]:
    """Write Parquet; how many rows, and the columns with their types. Counting costs no second pass."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as fn

    # In one piece: of a table whose first chunk is empty Spark takes no rows at all.
    frame = session.spark.createDataFrame(table.combine_chunks()) if isinstance(table, pa.Table) else table
    seen = Observation()
    counted = frame.observe(seen, fn.count(fn.lit(1)).alias("rows"))
    counted.write.mode("overwrite").parquet(url)
    columns = {one.name: one.dataType.simpleString() for one in frame.schema.fields}
    return int(seen.get["rows"]), columns
