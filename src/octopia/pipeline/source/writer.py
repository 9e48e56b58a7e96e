"""`write` and `writeStream`: rows are published, by all tasks at once.

Every task is a separate client: it connects, advertises, publishes its rows, waits until its broker has routed them,
and leaves. Its name follows from the write and the partition, and its ids count rows, so a retried task publishes under
the same name and ids:

    write          publisher NAME/WRITE/PARTITION       ids from 1
    writeStream    publisher NAME/QUERY/PARTITION       ids from BATCH * 2^32 + 1

Columns, options and the advertisement are checked on the driver before a task starts. Publications cannot be undone:
there is no overwriting, and an aborted write reports how much was published.
"""

import asyncio
import json
import secrets
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from octopia.errors import InputError, LanguageError, OctopiaError, RefusedError
from octopia.language import Filter, Operator, Predicate, conforms, parse_notification
from octopia.net import Client
from octopia.pipeline.source.columns import Column, attribute_columns, check_advertised, notifications_of
from octopia.pipeline.source.options import DROP_MALFORMED, WriteOptions, write_options

BATCH_ID_BITS: Final = 32
# To the broker, a task that died may look alive until it has missed three heartbeats.
TAKE_OVER_S: Final = 40.0
# A killed earlier attempt keeps its name for this long.
SESSION_S: Final = 5.0
_TAKE_OVER_POLL_S: Final = 0.1
_NAME_DEFAULT: Final = "spark"


@dataclass(frozen=True)
class Published(WriterCommitMessage):
    """The result of one task."""

    publisher: str
    partition: int
    first_id: int
    notifications: int
    skipped: int


@dataclass(frozen=True)
class WritePlan:
    """The common part of all tasks of a write."""

    options: WriteOptions
    columns: tuple[Column, ...]
    advertisement: Filter

    @classmethod
    def of(cls, given: dict[str, str], schema: StructType, overwrite: bool) -> "WritePlan":
        """Check everything that can be checked before anything is published."""
        options = write_options(given)
        if overwrite:
            raise InputError("publications cannot be overwritten: use mode('append')")
        columns = tuple(attribute_columns(schema, reading=False))
        if options.advertise is None:
            every = Filter.of(*(Predicate(column.attribute, Operator.PRESENT) for column in columns))
            return cls(options, columns, every)
        check_advertised(columns, options.advertise)
        return cls(options, columns, options.advertise)

    def publish(self, batches: Iterator[pa.RecordBatch], id: str, batch: int) -> Published:
        """Publish the rows of one partition; runs in its task."""
        context: Any = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        publisher = f"{self.options.connect.name or _NAME_DEFAULT}/{id}/{partition}"
        first_id = (batch << BATCH_ID_BITS) + 1
        sent, skipped = asyncio.run(self._publish(batches, publisher, first_id))
        return Published(publisher, partition, first_id, sent, skipped)

    async def _publish(self, batches: Iterator[pa.RecordBatch], publisher: str, first_id: int) -> tuple[int, int]:
        client = await self._connected(publisher, first_id)
        skipped = 0
        async with AsyncExitStack() as stack:
            # It is open already. An error inside must not be masked by one on closing.
            stack.push_async_exit(client)
            await client.advertise(self.advertisement)
            # The next batch is awaited in another thread, so that the broker keeps hearing from us.
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                if self.options.mode == DROP_MALFORMED:
                    rows = notifications_of(batch, self.columns)
                    right = [row for row in rows if self._is_right(row)]
                    skipped += len(rows) - len(right)
                    await client.publish_many(right)
                    continue
                before = client.last_id
                try:
                    await client.publish_batch(batch.rename_columns([column.attribute for column in self.columns]))
                except (InputError, RefusedError) as error:
                    row = client.last_id - first_id + 2
                    said = str(error).removeprefix(f"row {client.last_id - before}: ")
                    raise type(error)(f"row {row} of {publisher}: {said}; mode=DROPMALFORMED leaves it out") from None
            await client.flush()
        return client.last_id - first_id + 1, skipped

    def _is_right(self, row: dict[str, Any]) -> bool:
        try:
            return conforms(parse_notification(row), self.advertisement)
        except LanguageError:
            return False

    async def _connected(self, publisher: str, first_id: int) -> Client:
        """The client of this task, as soon as that of an earlier attempt is gone."""
        connect = self.options.connect
        give_up_at = asyncio.get_running_loop().time() + TAKE_OVER_S
        while True:
            client = Client(connect.url, first_id=first_id, name=publisher, session_s=SESSION_S, **connect.client())
            try:
                await client.open()
                return client
            except OctopiaError as error:
                if "try again" not in str(error) or asyncio.get_running_loop().time() > give_up_at:
                    raise
                await asyncio.sleep(_TAKE_OVER_POLL_S)

    def note(self, outcome: str, messages: list[WriterCommitMessage | None], batch: int | None) -> None:
        """Append the outcome of a write to the file of receipts, if there is one."""
        if self.options.receipts is None:
            return
        tasks = [message for message in messages if isinstance(message, Published)]
        line: dict[str, Any] = {
            "outcome": outcome,
            "batch": batch,
            "notifications": sum(task.notifications for task in tasks),
            "skipped": sum(task.skipped for task in tasks),
            "failed_tasks": len(messages) - len(tasks),
            "tasks": [asdict(task) for task in tasks],
        }
        try:
            with self.options.receipts.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise OctopiaError(f"receipts {self.options.receipts}: {error.strerror}") from None


class BatchWriter(DataSourceArrowWriter):
    """`df.write`."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan
        # Chosen once, on the driver, so that all attempts of all tasks agree on it.
        self._id = plan.options.write_id or secrets.token_hex(8)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._plan.publish(iterator, self._id, 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._plan.note("committed", messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._plan.note("aborted", messages, None)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context: Any = TaskContext.get()
        # The query's id is kept in its checkpoint, so both are the same when a batch is run again.
        query = self._plan.options.write_id or context.getLocalProperty("sql.streaming.queryId")
        return self._plan.publish(iterator, query, int(context.getLocalProperty("streaming.sql.batchId")))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        self._plan.note("committed", messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._plan.note("aborted", messages, batchId)
