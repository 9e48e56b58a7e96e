"""Stages: functions from tables to tables, run only if something has changed.

    runner = Runner(store, spec, session)
    runner.run([QUOTES, NOTIFICATIONS])

The runner does not know any particular stage. A stage reads tables and returns tables, and does nothing else; the
runner reads, writes, counts and remembers. A table is moved into place only when it is complete, with its record; a run
that is stopped leaves complete tables, and the next one continues from there. Stages are run in the given order, and
every stage finds the tables that it needs on disk, so each can be run alone.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from octopia.errors import InputError
from octopia.pipeline.arrow import plain_schema, spark_schema
from octopia.pipeline.manifest import (
    RECORD,
    Parameters,
    Recipe,
    code_version,
    make_record,
    read_record,
    record_of,
    stale_because,
    write_manifest,
)
from octopia.pipeline.storage import Store, new_name, recover, replace
from octopia.pipeline.worker_files import read_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from octopia.pipeline.session import Session

_FILE: Final = "part-00000.parquet"
# Spark reads a large file by groups of rows, each in a task.
_GROUP_ROWS: Final = 1 << 20
# The driver reads and writes smaller tables itself.
HERE_BYTES_MAX: Final = 64 << 20

Spec = TypeVar("Spec")
Made: TypeAlias = "DataFrame | pa.Table"
# A table, or a function that makes it after the previous ones were written.
Output: TypeAlias = "Made | Callable[[], Made]"
Outputs: TypeAlias = "Mapping[str, Output]"
Sessions: TypeAlias = "Callable[[], Session]"


@dataclass(frozen=True)
class Stage(Generic[Spec]):
    """One step: the tables it reads, the tables it makes, and how.

    `code` names the modules whose source does the work; `parameters` are the plain values that the result depends on,
    in addition to the tables read.
    """

    name: str
    about: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    make: "Callable[[Work[Spec]], Outputs]"
    code: tuple[str, ...]
    parameters: "Callable[[Spec, Sessions], Parameters]" = lambda spec, sessions: {}


@dataclass
class Work(Generic[Spec]):
    """The input of a stage: the settings, the session, and the requested tables; `notes` are lines for the user."""

    spec: Spec
    session: "Session"
    tables: "Mapping[str, DataFrame]"
    # where the tables are, and what these follow from: for work that is kept in pieces until all of it is done
    store: Store
    recipe: Recipe
    # told which share is done, and of what, by a stage that takes its time
    tell: Callable[[float, str], None]
    notes: list[str] = field(default_factory=list)
    # what is given back when the tables are written
    cleanup: ExitStack = field(default_factory=ExitStack)

    @property
    def place(self) -> str:
        """The location of the tables, for workers and Arrow."""
        return self.store.url("").rstrip("/")

    def rows(self, table: str) -> int:
        """The number of rows of a table, from its record."""
        return int(record_of(self.store, table)["rows"])

    def here(self, table: str, columns: list[str] | None = None) -> pa.Table:
        """A small table, read without a Spark job, which would take longer."""
        return read_arrow(self.place, table, columns)


class Tables(Mapping[str, "DataFrame"]):
    """The tables of a stage as DataFrames, made on first use.

    Columns come from the tables' records: without them, Spark starts a job for each table to inspect one of its files.
    """

    def __init__(self, session: "Session", store: Store, names: Sequence[str]) -> None:
        self._session = session
        self._store = store
        self._frames: dict[str, DataFrame | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> "DataFrame":
        frame = self._frames[name]
        if frame is None:
            record = read_record(self._store, name) or {}
            columns = ", ".join(f"`{column}` {kind}" for column, kind in record.get("columns", {}).items())
            frame = self._frames[name] = read_table(self._session, self._store.url(name), columns or None)
        return frame

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)


@dataclass(frozen=True)
class Event:
    """Progress of a runner: `state` is `skipped`, `started`, `progress` or `finished`."""

    stage: str
    state: str
    about: str
    because: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    took_s: float = 0.0
    share: float = 0.0


class Runner(Generic[Spec]):
    """Runs stages on one store.

    `sessions` is called only if a session is needed, since often there is nothing to do.
    """

    def __init__(
        self,
        store: Store,
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
        """Run these stages in order (by default all), each only if necessary; `force` runs them in any case."""
        wanted = [self._stages[name] for name in (names if names is not None else self._stages)]
        with self._store.locked():
            for table in self._tables():
                recover(self._store, table)
            try:
                return [self._run_one(stage, force) for stage in wanted]
            finally:
                write_manifest(self._store, self._tables())

    def _tables(self) -> list[str]:
        return [table for stage in self._stages.values() for table in stage.outputs]

    def _run_one(self, stage: Stage[Spec], force: bool) -> Event:
        recipe = self._recipe(stage)
        because = self._because(stage, recipe) or ("asked for" if force else None)
        if because is None:
            rows = {table: record_of(self._store, table)["rows"] for table in stage.outputs}
            return self._tell(Event(stage.name, "skipped", stage.about, rows=rows))
        self._tell(Event(stage.name, "started", stage.about, because=because))
        begin = time.monotonic()
        session = self._sessions()
        with session.errors(f"stage {stage.name}"):
            tables = Tables(session, self._store, stage.inputs)
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
        return Recipe(stage.name, stage.parameters(self._spec, self._sessions), inputs, code_version(stage.code))

    def _because(self, stage: Stage[Spec], recipe: Recipe) -> str | None:
        reasons = (stale_because(self._store, table, recipe) for table in stage.outputs)
        return next((reason for reason in reasons if reason), None)

    def _write(self, stage: Stage[Spec], recipe: Recipe, work: Work[Spec], begin: float) -> dict[str, int]:
        """Write all tables of a stage beside the old ones, then move them into place one after the other."""
        made = stage.make(work)
        if sorted(made) != sorted(stage.outputs):
            raise TypeError(f"stage {stage.name} made {sorted(made)} and not {sorted(stage.outputs)}")
        rows: dict[str, int] = {}
        for name, output in made.items():
            table = output() if callable(output) else output
            rows[name], columns = write_table(work.session, self._store, new_name(name), table)
            record = make_record(
                recipe,
                self._store,
                new_name(name),
                rows=rows[name],
                columns=columns,
                took_s=time.monotonic() - begin,
                java=str(work.session.java.version) if work.session.java else "",
            )
            self._store.write_json(f"{new_name(name)}/{RECORD}", record)
        for name in made:
            replace(self._store, name)
        return rows


def read_table(session: "Session", url: str, schema: "StructType | str | None" = None) -> "DataFrame":
    """The table at a place, with its name taken literally: Spark would read brackets and stars as a pattern.

    Without a `schema`, Spark starts a job to inspect a file.
    """
    reader = session.spark.read.option("__globPaths__", "false")
    return (reader if schema is None else reader.schema(schema)).parquet(url)


def write_table(session: "Session", store: Store, name: str, table: Made) -> tuple[int, dict[str, str]]:
    """Write Parquet; returns the number of rows, and the columns with their types. Counting needs no second pass."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as fn

    if isinstance(table, pa.Table) and table.nbytes <= HERE_BYTES_MAX:
        return _write_here(store, name, table)
    # In one piece: if the first chunk of a table is empty, Spark takes no rows at all.
    frame = session.spark.createDataFrame(table.combine_chunks()) if isinstance(table, pa.Table) else table
    seen = Observation()
    counted = frame.observe(seen, fn.count(fn.lit(1)).alias("rows"))
    counted.write.mode("overwrite").parquet(store.url(name))
    return int(seen.get["rows"]), _types(frame.schema)


def _write_here(store: Store, name: str, table: pa.Table) -> tuple[int, dict[str, str]]:
    """Write a table that the driver already holds: a Spark job would take longer for most of these tables."""
    plain = table.cast(plain_schema(table.schema))
    sink = pa.BufferOutputStream()
    # without Arrow's own schema in the file, so that it reads like one written by Spark
    pq.write_table(plain, sink, compression="zstd", row_group_size=_GROUP_ROWS, store_schema=False)
    store.write_bytes(f"{name}/{_FILE}", sink.getvalue().to_pybytes())
    return plain.num_rows, _types(spark_schema(plain.schema))


def _types(schema: Any) -> dict[str, str]:
    return {one.name: one.dataType.simpleString() for one in schema.fields}
