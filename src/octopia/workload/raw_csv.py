"""Quote files as text columns: CSV, plain or gzip, a few megabytes at a time.

A record is one line; a quote that a line leaves open makes that line a reject and nothing more. The first line that is
not blank names the columns; commas, semicolons, tabs and bars are known as delimiters, and the one under which most
columns are known is taken. Blank lines are not rows. Every other line becomes a row; an error in the line itself goes
to its column `fault`. Blocks without quotes, odd bytes and lines of other lengths are split by Arrow; others line by
line with Python's csv, to the same result. Memory is bounded by `BLOCK_BYTES` and `LINE_BYTES_MAX`: of a longer line
only the beginning is kept, as a reject. A file need not be read from its top: `csv_form` takes the line with the names,
`csv_rows` any whole lines below it and their number.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from octopia.errors import InputError
from octopia.workload.clean import RAW_SCHEMA
from octopia.workload.headers import (
    DELIMITERS,
    FIELDS,
    KNOWN_FIELDS_MIN,
    column_places,
    known_fields,
    symbol_of_file,
)

BLOCK_BYTES: Final = 4 << 20
LINE_BYTES_MAX: Final = 1 << 16

EMPTY_FILE: Final = "the file is empty"
TOO_LONG: Final = "the line is too long"
WRONG_COUNT: Final = "wrong number of fields"
BAD_QUOTES: Final = "the quotes around a field are not closed or not doubled"
NOT_UTF8: Final = "the text is not UTF-8"

_GZIP_MAGIC: Final = b"\x1f\x8b"
_BOM: Final = b"\xef\xbb\xbf"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_REPLACED: Final = "\ufffd"


class ByteStream(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes: ...


class CsvForm(NamedTuple):
    """How the lines of a file are laid out."""

    file: str
    delimiter: str
    width: int
    places: dict[str, int]
    symbol: str | None


def raw_csv(file: str) -> Iterator[pa.RecordBatch]:
    """The rows of a file in `RAW_SCHEMA`; an `InputError` if it cannot be read or has no columns of quotes."""
    try:
        with _opened(file) as stream:
            yield from csv_stream(file, stream)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{file}: the gzip file is damaged or cut short ({error})") from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from None


@contextmanager
def _opened(file: str) -> Iterator[ByteStream]:
    # By content, not by name: downloads are often compressed, or decompressed, contrary to their name.
    with Path(file).open("rb") as stream:
        compressed = stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        stream.seek(0)
        if not compressed:
            yield stream
            return
        with gzip.open(stream, "rb") as content:
            yield content


def csv_stream(file: str, stream: ByteStream) -> Iterator[pa.RecordBatch]:
    """The rows of a stream that begins with the line that names the columns."""
    form: CsvForm | None = None
    line = 1
    for block in whole_lines(stream):
        if line == 1:
            if block.startswith(_UTF16_MARKS):
                raise InputError(f"{file}: the file is UTF-16; save it as UTF-8")
            block = block.removeprefix(_BOM)
        lines = _count(block)
        if form is None:
            blank, header, block = split_header(block)
            line, lines = line + blank + 1, lines - blank - 1
            if header is None:
                line -= 1
                continue
            form = csv_form(file, header)
        if block:
            yield csv_block(form, block, line)
        line += lines
    if form is None:
        yield _batch(file, [1], [""], {}, [EMPTY_FILE])


def csv_rows(form: CsvForm, stream: ByteStream, line: int) -> Iterator[pa.RecordBatch]:
    """The rows of a stream that begins with line number `line` of the file, below the one that names the columns."""
    for block in whole_lines(stream):
        yield csv_block(form, block, line)
        line += _count(block)


def csv_block(form: CsvForm, block: bytes, line: int) -> pa.RecordBatch:
    """The rows of some whole lines, of which the first has this number."""
    return _fast(form, block, line, _count(block)) or _slow(form, block, line)


def _count(block: bytes) -> int:
    return block.count(b"\n") + (not block.endswith(b"\n"))


def whole_lines(stream: ByteStream) -> Iterator[bytes]:
    """The bytes in blocks of whole lines, every line ended by a newline but perhaps the last."""
    rest = b""
    while data := stream.read(BLOCK_BYTES):
        data = rest + data
        cut = max(data.rfind(b"\n"), -1 if b"\n" in data else data[:-1].rfind(b"\r")) + 1
        rest = data[cut:]
        if cut:
            yield _with_newlines(data[:cut])
        elif len(rest) > BLOCK_BYTES:
            # One line without an end: enough is kept to know that it is too long.
            rest = rest[: LINE_BYTES_MAX + 1]
    if rest:
        yield _with_newlines(rest)


def _with_newlines(block: bytes) -> bytes:
    if block.count(b"\r") == block.count(b"\r\n"):
        return block
    return block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def split_header(block: bytes) -> tuple[int, bytes | None, bytes]:
    """The number of leading blank lines, the first other line, and the rest."""
    blank = 0
    while block:
        line, _, block = block.partition(b"\n")
        if line.strip():
            return blank, line, block
        blank += 1
    return blank, None, b""


def csv_form(file: str, header: bytes) -> CsvForm:
    """The layout given by the header line."""
    text = header[:LINE_BYTES_MAX].decode(errors="replace").strip("\r\n")
    best, delimiter = _names(text)
    if text.lstrip().startswith(("{", "[")) and not known_fields(best):
        raise InputError(f"{file}: JSON is not read; convert it to CSV or Parquet")
    places = column_places(best, file)
    symbol = None if "symbol" in places else symbol_of_file(file)
    return CsvForm(file, delimiter, len(best), places, symbol)


def names_quotes(head: bytes) -> bool:
    """Whether a text file with this beginning holds quotes: its first line names columns, or is not there yet."""
    _, header, _ = split_header(_with_newlines(head.removeprefix(_BOM)))
    if header is None:
        return True
    return known_fields(_names(header[:LINE_BYTES_MAX].decode(errors="replace"))[0]) >= KNOWN_FIELDS_MIN


def _names(text: str) -> tuple[list[str], str]:
    """The columns that a line names, and the delimiter under which most of them are known."""
    best: list[str] = []
    delimiter = DELIMITERS[0]
    for candidate in DELIMITERS:
        names = _fields(text, candidate)
        if names is not None and (not best or known_fields(names) > known_fields(best)):
            best, delimiter = names, candidate
    return best, delimiter


def _fields(text: str, delimiter: str) -> list[str] | None:
    try:
        return next(csv.reader((text,), delimiter=delimiter, strict=True), [])
    except csv.Error:
        return None


def _fast(form: CsvForm, block: bytes, line: int, lines: int) -> pa.RecordBatch | None:
    """The block split by Arrow; None if it is not regular throughout."""
    if b'"' in block or b"\0" in block:
        return None
    content = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(content == ord("\n")) + 1
    if len(ends) < lines:
        ends = np.append(ends, len(block))
    starts = np.concatenate([[0], ends[:-1]])
    marks = int((content == ord(form.delimiter)).sum())
    if marks != lines * (form.width - 1) or (ends - starts).max() > LINE_BYTES_MAX:
        return None
    try:
        text = pa.StringArray.from_buffers(lines, pa.py_buffer(_offsets(ends)), pa.py_buffer(block))
        text.validate(full=True)
        # If only the total number of fields is right, Arrow refuses the block. (It skips blank lines.)
        table = _split(form, block)
    except pa.ArrowInvalid:
        return None
    columns = {field: table.column(str(place)) for field, place in form.places.items()}
    return _batch(form.file, np.arange(line, line + lines), text, columns, pa.nulls(lines, pa.string()), form.symbol)


def _offsets(ends: Any) -> bytes:
    return np.concatenate([[0], ends]).astype(np.int32).tobytes()


def _split(form: CsvForm, block: bytes) -> pa.Table:
    names = [str(place) for place in range(form.width)]
    return arrow_csv.read_csv(
        io.BytesIO(block),
        read_options=arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=len(block) + 1),
        parse_options=arrow_csv.ParseOptions(delimiter=form.delimiter, quote_char=False, ignore_empty_lines=False),
        convert_options=arrow_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            include_columns=[str(place) for place in form.places.values()],
            strings_can_be_null=False,
        ),
    )


def _slow(form: CsvForm, block: bytes, line: int) -> pa.RecordBatch:
    """The block line by line."""
    numbers: list[int] = []
    texts: list[str] = []
    faults: list[str | None] = []
    columns: dict[str, list[str | None]] = {field: [] for field in form.places}
    for number, content in enumerate(block.removesuffix(b"\n").split(b"\n"), line):
        if not content.strip():
            continue
        text = content[:LINE_BYTES_MAX].decode(errors="replace").removesuffix("\r")
        found, fault = _record(form, text, len(content))
        numbers.append(number)
        texts.append(text)
        faults.append(fault)
        for field, place in form.places.items():
            columns[field].append(None if fault else found[place])
    return _batch(form.file, numbers, texts, columns, faults, form.symbol)


def _record(form: CsvForm, text: str, size: int) -> tuple[list[str], str | None]:
    if size > LINE_BYTES_MAX:
        return [], TOO_LONG
    found = _fields(text, form.delimiter)
    if found is None:
        return [], BAD_QUOTES
    if len(found) != form.width:
        return [], WRONG_COUNT
    if _REPLACED in text and any(_REPLACED in found[place] for place in form.places.values()):
        return [], NOT_UTF8
    return found, None


def _batch(file: str, line: Any, text: Any, columns: dict[str, Any], fault: Any, symbol: str | None = None) -> Any:
    count = len(line)
    arrays: dict[str, Any] = {"file": pa.repeat(file, count), "line": line, "text": text, "fault": fault, **columns}
    if symbol is not None:
        arrays["symbol"] = pa.repeat(symbol, count)
    for field in FIELDS:
        arrays.setdefault(field, pa.nulls(count, pa.string()))
    ordered = []
    for field in RAW_SCHEMA:
        given = arrays[field.name]
        whole = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
        ordered.append(whole if isinstance(whole, pa.Array) else pa.array(whole, field.type))
    return pa.RecordBatch.from_arrays(ordered, schema=RAW_SCHEMA)


def text_of(columns: list[pa.Array]) -> pa.Array:
    """The values of a row as a line, for rejects of other formats."""
    return pc.binary_join_element_wise(*columns, ",", null_handling="replace", null_replacement="")
