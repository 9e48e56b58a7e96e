"""Quote files split into parts that different tasks can read: whole files, and ranges of large plain CSV files.

This module does not use Spark. The parts of a file together have all its rows, each once, with the same line numbers as
if it were read in one go. Only files of plain lines are split: compressed ones, Parquet, and files with other line
endings are read whole. A range is read with the layout from the file's first line; rows and rules are those of
`octopia.workload`, with and without Spark.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from octopia.errors import InputError
from octopia.workload import (
    HEAD_BYTES,
    Cleaned,
    CsvForm,
    DateEvidence,
    DayOrder,
    clean_file,
    clean_quotes,
    csv_form,
    csv_rows,
    csv_stream,
    date_evidence,
    dates_in,
    split_header,
    whole_lines,
)

PART_BYTES: Final = 32 << 20
# One task reads at most this many files, however small they are.
TASK_FILES_MAX: Final = 256
_NOT_PLAIN: Final = (b"\x1f\x8b", b"PAR1", b"\xff\xfe", b"\xfe\xff", b"PK\x03\x04", b"BZh", b"\xfd7zXZ")
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
    """What must be known about all parts of a file before any can be read."""

    lines: int
    dates: DateEvidence


def cut_file(file: str, part_bytes: int = PART_BYTES) -> list[Part]:
    """The parts of a file; a single one if it is small, or must be read in one go."""
    try:
        size = Path(file).stat().st_size
        if size <= part_bytes + part_bytes // 2:
            return [Part(file)]
        with Path(file).open("rb") as stream:
            header = plain_header(stream.read(HEAD_BYTES))
            if header is None:
                return [Part(file)]
            places = [0]
            while places[-1] + part_bytes < size:
                stream.seek(places[-1] + part_bytes)
                stream.readline()
                places.append(min(stream.tell(), size))
    except OSError:
        # reported by the code that reads it
        return [Part(file)]
    if places[-1] < size:
        places.append(size)
    return [Part(file, start, stop, header) for start, stop in pairwise(places)]


def plain_header(head: bytes) -> bytes | None:
    """The line with the column names; None if the file does not consist of plain lines."""
    if head.startswith(_NOT_PLAIN) or head.count(b"\r") != head.count(b"\r\n"):
        return None
    whole, newline, _ = head.removeprefix(_BOM).rpartition(b"\n")
    header = split_header(whole + newline)[1]
    return None if header is None else header + b"\n"


def measure_part(part: Part) -> Measure:
    """Count the lines of a part, and note what its dates prove."""
    with _Range(part) as stream:
        lines = sum(block.count(b"\n") for block in whole_lines(stream))
    dates = DateEvidence()
    for raw in _raw(part):
        dates += date_evidence(dates_in(raw))
    return Measure(lines, dates)


def settle_parts(parts: Sequence[Part], measures: Sequence[Measure], date_order: DayOrder | None) -> list[Part]:
    """The parts of one file, with what all of them together show: line numbers, and the order of days and months."""
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
    for raw in _raw(part):
        yield clean_quotes(raw, part.order)


def in_tasks(parts: Sequence[Part], part_bytes: int = PART_BYTES) -> list[list[Part]]:
    """The parts in groups of about `part_bytes`, so that a thousand small files do not become a thousand tasks."""
    tasks: list[list[Part]] = []
    filled = 0
    for part in parts:
        size = _size(part)
        if not tasks or filled + size > part_bytes or len(tasks[-1]) >= TASK_FILES_MAX:
            tasks.append([])
            filled = 0
        tasks[-1].append(part)
        filled += size
    return tasks


def _size(part: Part) -> int:
    if part.stop is not None:
        return part.stop - part.start
    try:
        return Path(part.file).stat().st_size
    except OSError:
        return 0


def _raw(part: Part) -> Iterator[pa.RecordBatch]:
    """The rows of a range as text."""
    with _Range(part) as stream:
        if part.start == 0:
            yield from csv_stream(part.file, stream)
        else:
            yield from csv_rows(form_of(part.file, part.header), stream, part.line + 1)


def form_of(file: str, header: bytes) -> CsvForm:
    """The layout of a file whose first line, its end included, is this."""
    return csv_form(file, header.removesuffix(b"\n"))


class _Range:
    """The bytes of a part, from its file; errors name the file."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._left = (part.stop or 0) - part.start

    def __enter__(self) -> "_Range":
        try:
            self._stream = Path(self._part.file).open("rb")
            self._stream.seek(self._part.start)
        except OSError as error:
            raise InputError(f"{self._part.file}: {error.strerror or error}") from None
        return self

    def __exit__(self, *raised: object) -> None:
        self._stream.close()

    def read(self, size: int, /) -> bytes:
        try:
            data = self._stream.read(min(size, self._left))
        except OSError as error:
            raise InputError(f"{self._part.file}: {error.strerror or error}") from None
        self._left -= len(data)
        return data
