"""`readStream`: micro-batches from the spool.

One process on the driver (Spark's runner of the source) receives, and offsets are row numbers of its spool. A batch
travels to the executors inside its partitions, as the bytes that came from the broker, and becomes columns there:
executors need neither the spool nor a connection to the broker.

Nothing is connected before Spark first asks for an offset or a batch, because Spark also creates readers only to send
them to executors. A batch that is requested again has the same rows. Requesting rows that are no longer in the spool is
an error, unless there is no folder to keep them in; then Spark continues with the next ones.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from octopia.errors import InputError, OctopiaError
from octopia.pipeline.source.columns import RowMaker
from octopia.pipeline.source.options import MIB, read_options
from octopia.pipeline.source.receiver import Receiver
from octopia.pipeline.source.spool import Position, Slice, Spool

# A batch passes through the driver's memory, so it has this limit even if there is none on rows.
BATCH_BYTES_MAX: Final = 64 * MIB
_Offset = dict[str, Any]


class Rows(InputPartition):
    """Some rows of a batch, as received."""

    def __init__(self, rows: Slice) -> None:
        super().__init__(None)
        self.slice = rows

    def __repr__(self) -> str:
        return f"Rows({self.slice.rows})"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The methods that Spark calls on a source."""

    def __init__(self, given: dict[str, str], schema: StructType) -> None:
        # Checked on first use: an error raised here would not be shown in readable form.
        self._given = given
        self._schema = schema
        self._receiver: Receiver | None = None
        self._temporary: Path | None = None
        self._target: int | None = None
        self._resumed = False
        self._planned = 0
        # Losses of earlier runs without a folder.
        self._before = Position()

    # -- on the driver

    def initialOffset(self) -> _Offset:  # noqa: N802  Spark's name
        """Where a new query begins: at the first row that no query has committed."""
        spool = self._started().spool
        return self._offset(Position(spool.committed))

    def latestOffset(self, start: _Offset, limit: ReadLimit) -> _Offset:  # noqa: N802
        """Where the next batch ends."""
        receiver = self._started()
        receiver.check()
        spool = receiver.spool
        self._note_earlier_run(start)
        first = self._row(start)
        self._check_start(first)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else spool.end.rows
        if self._target is not None:
            rows_max = min(rows_max, max(self._target - first, 0))
        end = self._offset(spool.reach(first, rows_max, BATCH_BYTES_MAX))
        if self._options.fails_on_loss:
            _check_loss(start, end)
        self._planned = int(end["rows"])
        return end

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        try:
            return ReadMaxRows(read_options(self._given).rows_max)
        except OctopiaError:
            # The first request for an offset will report it.
            return ReadAllAvailable()

    def reportLatestOffset(self) -> _Offset | None:  # noqa: N802
        """The current state of the source.

        Spark shows it as `latestOffset` in the query's progress and does not use it otherwise, so it also contains
        figures for which Spark has no place: a source in Python cannot fill `metrics`.
        """
        if self._receiver is None:
            return None
        spool = self._receiver.spool
        return self._offset(spool.end) | {"metrics": spool.fill(self._planned).metrics()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Available now: everything that waits at the broker and in the spool."""
        receiver = self._started()
        receiver.catch_up()
        self._target = receiver.spool.end.rows

    def partitions(self, start: _Offset, end: _Offset) -> Sequence[InputPartition]:
        """A batch in parts of equal length, in order."""
        spool = self._started().spool
        if end["spool"] != spool.id and self._options.spool is None:
            return []
        first, stop = self._row(start), self._row(end)
        if stop <= first:
            return []
        if not spool.holds(first, stop):
            raise InputError(
                f"rows {first} to {stop} of a batch are not in the spool {spool.folder} any more: it was changed by "
                "hand, or used with another checkpoint; start with a new checkpointLocation"
            )
        parts = min(self._options.partitions, stop - first)
        edges = [first + (stop - first) * part // parts for part in range(parts + 1)]
        return [Rows(spool.slice(*pair)) for pair in pairwise(edges)]

    def commit(self, end: _Offset) -> None:
        receiver = self._started()
        if end["spool"] == receiver.spool.id:
            receiver.spool.commit(int(end["rows"]))

    def stop(self) -> None:
        receiver, self._receiver = self._receiver, None
        try:
            if receiver is not None:
                receiver.stop()
                receiver.spool.close()
        finally:
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)

    def _started(self) -> Receiver:
        if self._receiver is not None:
            return self._receiver
        self._options = options = read_options(self._given)
        RowMaker(self._schema, options.mode)
        folder = options.spool
        if folder is None:
            folder = self._temporary = Path(tempfile.mkdtemp(prefix="octopia-spool-"))
        said = {"url": options.connect.url, "filter": str(options.filter), "policy": options.policy}
        spool = Spool.open(
            folder, json.dumps(said | {"ordered": options.ordered}), options.spool_bytes_max, sync=options.spool_sync
        )
        receiver = Receiver(options, spool)
        try:
            receiver.start()
        except BaseException:
            spool.close()
            raise
        self._receiver = receiver
        return receiver

    # -- offsets

    def _offset(self, at: Position) -> _Offset:
        spool = self._started().spool
        dropped, gaps = at.dropped + self._before.dropped, at.gaps + self._before.gaps
        return {"spool": spool.id, "rows": at.rows, "dropped": dropped, "gaps": gaps}

    def _note_earlier_run(self, start: _Offset) -> None:
        if start["spool"] != self._started().spool.id and self._options.spool is None:
            self._before = Position(0, start["dropped"], start["gaps"] + 1)

    def _check_start(self, first: int) -> None:
        """Refuse a checkpoint that is ahead of the spool: it would skip that many new rows."""
        spool = self._started().spool
        if not self._resumed and first > spool.opened_at:
            raise InputError(
                f"the checkpoint is at row {first} and the spool {spool.folder} ended with row {spool.opened_at}: the "
                "machine crashed before the rest was on disk (spoolSync=true prevents it), or files were cut off; "
                "start with a new checkpointLocation, which continues with the rows in the spool"
            )
        self._resumed = True

    def _row(self, offset: _Offset) -> int:
        """The row of our spool for an offset."""
        spool = self._started().spool
        if offset["spool"] == spool.id:
            return int(offset["rows"])
        if self._options.spool is None:
            # An earlier run without a folder: its rows are gone, and ours begin here.
            return 0
        raise InputError(
            f"the checkpoint belongs to spool {offset['spool']}, and {spool.folder} is spool {spool.id}: use the "
            "folder that the query was started with, or a new checkpointLocation"
        )

    # -- on the executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition as Arrow batches."""
        assert isinstance(partition, Rows)  # noqa: S101  Spark hands back what `partitions` gave
        return RowMaker(self._schema, read_options(self._given).mode).batches(partition.slice.chunks())


def _check_loss(start: _Offset, end: _Offset) -> None:
    lost = [
        f"{end[name] - start.get(name, 0)} {what}"
        for name, what in (("dropped", "dropped at the broker's bound"), ("gaps", "sessions not resumed in time"))
        if end[name] > start.get(name, 0)
    ]
    if lost:
        raise OctopiaError(f"notifications were lost: {', '.join(lost)}; onLoss=count continues and counts them")
