"""Quote files cut into parts that can be read by different tasks: whole files, and ranges of large plain CSV files.

A range is copied, below the line that names the columns, into a file of its own, which the reader of
`octopia.workload` takes like any other; afterwards the rows get the name and the line numbers of the real file. So the
rules for a line, a column and a date are the same with and without Spark, and stand once.

Rules of this file: no Spark. The parts of a file, one after the other, are its rows, each once, with the same line
numbers as when it is read in one go. Only files of plain lines are cut: compressed ones, Parquet, and files with line
ends of another kind are read whole. Copies are at most `PART_BYTES` and one line, and go when the part is read.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from octopia.errors import InputError
from octopia.workload import Cleaned, DateEvidence, DayOrder, clean_file, clean_quotes, date_evidence, raw_batches

PART_BYTES: Final = 32 << 20
# So many files at most are read by one task, however small they are.
TASK_FILES_MAX: Final = 256
_HEAD_BYTES: Final = 1 << 16
_NOT_PLAIN: Final = (b"\x1f\x8b", b"PAR1", b"\xff\xfe", b"\xfe\xff")
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Part:
    """Some rows of a file: all of them, or those from byte `start` to `stop`, where `line` lines come before."""

    file: str
    start: int = 0
    stop: int | None = None
    header: bytes = b""
    line: int = 0
    order: DayOrder | None = None

    @property
    def is_whole(self) -> bool:
        return self.stop is None


class Measure(NamedTuple):
    """What has to be known of all parts of a file before any can be read."""

    lines: int
    dates: DateEvidence


def cut_file(file: str, part_bytes: int = PART_BYTES) -> list[Part]:
    """The parts of a file; one where it is small, or must be read in one go."""
    try:
        size = Path(file).stat().st_size
        if size <= part_bytes + part_bytes // 2:
            return [Part(file)]
        with Path(file).open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
            header = _header(head)
            if header is None:
                return [Part(file)]
            places = [0]
            while places[-1] + part_bytes < size:
                stream.seek(places[-1] + part_bytes)
                stream.readline()
                places.append(min(stream.tell(), size))
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None
    if places[-1] < size:
        places.append(size)
    return [Part(file, start, stop, header if start else b"") for start, stop in pairwise(places)]


def _header(head: bytes) -> bytes | None:
    """The line that names the columns; None where the file is not one of plain lines."""
    if head.startswith(_NOT_PLAIN) or head.count(b"\r") != head.count(b"\r\n"):
        return None
    lines = head.removeprefix(_BOM).split(b"\n")
    # the last piece may go on beyond what was read
    return next((line + b"\n" for line in lines[:-1] if line.strip()), None)


def measure_part(part: Part) -> Measure:
    """Count the lines of a part, and see what its dates prove."""
    lines = _bytes(part).count(b"\n")
    dates = DateEvidence()
    with _copied(part) as copy:
        for raw in raw_batches(copy):
            dates += date_evidence(_counted(raw.column("date")))
    return Measure(lines, dates)


def settle_parts(parts: Sequence[Part], measures: Sequence[Measure], date_order: DayOrder | None) -> list[Part]:
    """The parts of one file, with what all of them together say: line numbers, and the order of days and months."""
    dates = sum((measure.dates for measure in measures), DateEvidence())
    order = date_order if date_order is not None else dates.order(parts[0].file)
    settled, line = [], 0
    for part, measure in zip(parts, measures, strict=True):
        settled.append(replace(part, line=line, order=order))
        line += measure.lines
    return settled


def clean_part(part: Part, date_order: DayOrder | None = None) -> Iterator[Cleaned]:
    """The rows of a part, judged. A range must be settled; a whole file finds the order of its dates itself."""
    if part.is_whole:
        yield from clean_file(part.file, date_order)
        return
    # the line with the names, which was put on top, counts for nothing
    before = part.line - (1 if part.header else 0)
    with _copied(part) as copy:
        for raw in raw_batches(copy):
            file = pa.repeat(pa.scalar(part.file, pa.string()), raw.num_rows)
            line = pc.add(raw.column("line"), before)
            columns = [file, line, *raw.columns[2:]]
            yield clean_quotes(pa.RecordBatch.from_arrays(columns, schema=raw.schema), part.order)


def in_tasks(parts: Sequence[Part], part_bytes: int = PART_BYTES) -> list[list[Part]]:
    """The parts in groups of about `part_bytes`, so that a thousand small files are not a thousand tasks."""
    tasks: list[list[Part]] = []
    filled = part_bytes
    for part in parts:
        size = Path(part.file).stat().st_size if part.stop is None else part.stop - part.start
        if filled + size > part_bytes or len(tasks[-1]) >= TASK_FILES_MAX:
            tasks.append([])
            filled = 0
        tasks[-1].append(part)
        filled += size
    return tasks


@contextmanager
def _copied(part: Part) -> Iterator[str]:
    """The part as a file of its own, of the same name: it may be the symbol. Errors name the real file."""
    if part.is_whole:
        yield part.file
        return
    with tempfile.TemporaryDirectory(prefix="octopia-quotes-") as folder:
        copy = Path(folder) / Path(part.file).name
        copy.write_bytes(part.header + _bytes(part))
        try:
            yield str(copy)
        except InputError as error:
            raise InputError(str(error).replace(str(copy), part.file)) from None


def _bytes(part: Part) -> bytes:
    try:
        with Path(part.file).open("rb") as stream:
            stream.seek(part.start)
            return stream.read(-1 if part.stop is None else part.stop - part.start)
    except OSError as error:
        raise InputError(f"{part.file}: {error.strerror or error}") from None


def _counted(texts: pa.Array) -> dict[str, int]:
    counts = texts.drop_null().value_counts()
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))
