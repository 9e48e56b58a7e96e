"""From raw text columns to typed quotes or rejects: the single place with the rules for a good row.

Every row that comes in goes out, as a quote or as a reject with its file, line, reason and text.
Reasons are fixed phrases, so that they can be counted; the first that applies, in the order of `_Judge.run`, is given.
A row is good when it has a symbol (printable, at most 32 characters), a date that can be read (see `dates`), four
prices that are positive finite numbers with low ≤ open, close ≤ high, and a volume that is a whole number from 0. A
missing value is empty or one of the words in `MISSING`; a symbol is missing only when empty, since NA is a symbol.
Numbers are in the notation of programs, with a leading `$` allowed: no thousands separators, no decimal commas. Of
several rows of one symbol and date the first by file and line is kept (`without_repeats`).
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from octopia.workload.dates import DayOrder, read_date
from octopia.workload.quotes import QUOTES_SCHEMA

RAW_SCHEMA: Final = pa.schema(
    [pa.field("file", pa.string()), pa.field("line", pa.int64()), pa.field("text", pa.string())]
    + [pa.field(name, pa.string()) for name in ("date", "open", "high", "low", "close", "volume", "symbol")]
    + [pa.field("fault", pa.string())]
)
SOURCED_SCHEMA: Final = pa.schema(
    [*QUOTES_SCHEMA, pa.field("file", pa.string(), nullable=False), pa.field("line", pa.int64(), nullable=False)]
)
REJECTS_SCHEMA: Final = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
    ]
)

# The most characters of a rejected line that are kept.
TEXT_CHARS_MAX: Final = 1000
MISSING: Final = ("", "-", "--", "?", "na", "n/a", "nan", "null", "none", "nil")
REPEATED: Final = "another row has the same symbol and date"

_PRICES: Final = ("open", "high", "low", "close")
_SYMBOL_CHARS_MAX: Final = 32
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$"
_INFINITE: Final = r"^[+-]?(?i:inf|infinity)$"
_VOLUME_MAX: Final = 2**53

Mask = npt.NDArray[np.bool_]


class Cleaned(NamedTuple):
    """Good rows with their source (`SOURCED_SCHEMA`), and the others (`REJECTS_SCHEMA`)."""

    quotes: pa.RecordBatch
    rejects: pa.RecordBatch


def clean_quotes(raw: pa.RecordBatch, order: DayOrder | None = None) -> Cleaned:
    """Judge each row of a batch in `RAW_SCHEMA`; `order` is that of the file's dates where they need one.

    `fault` is an error that the reader already found in the row, else null.
    """
    return _Judge(raw, order).run()


def without_repeats(sourced: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Quotes sorted by symbol and date, each pair of these once, and the others as rejects.

    The text of these rejects is made from their values: the line itself is not available here.
    """
    keys = [("symbol", "ascending"), ("date", "ascending"), ("file", "ascending"), ("line", "ascending")]
    table = sourced.take(pc.sort_indices(sourced, sort_keys=keys)).combine_chunks()
    repeated = np.zeros(table.num_rows, dtype=np.bool_)
    if table.num_rows > 1:
        same = [pc.equal(table[name].slice(1), table[name].slice(0, table.num_rows - 1)) for name in ("symbol", "date")]
        repeated[1:] = pc.and_(*same).to_numpy()
    left = table.filter(pa.array(repeated))
    text = [",".join(map(str, list(row.values())[:-2])) for row in left.to_pylist()]
    reason = pa.array([REPEATED] * left.num_rows, pa.string())
    rejects = pa.table([left["file"], left["line"], reason, pa.array(text, pa.string())], schema=REJECTS_SCHEMA)
    return table.filter(pa.array(~repeated)).select(QUOTES_SCHEMA.names).cast(QUOTES_SCHEMA), rejects


class _Judge:
    """One batch being judged: a reason per row, 0 while it is good."""

    def __init__(self, raw: pa.RecordBatch, order: DayOrder | None) -> None:
        self._raw = raw
        self._order = order
        self._reasons: list[str] = [""]
        self._reason = np.zeros(raw.num_rows, dtype=np.int32)
        self._trimmed = {name: pc.utf8_trim_whitespace(raw.column(name)) for name in RAW_SCHEMA.names[3:10]}

    def run(self) -> Cleaned:
        for fault in pc.unique(self._raw.column("fault")).drop_null().to_pylist():
            self._refuse(_mask(pc.equal(self._raw.column("fault"), fault)), fault)
        columns = {"date": self._dates(), "symbol": self._symbols()}
        columns |= {name: self._price(name) for name in _PRICES}
        columns["volume"] = self._volume()
        self._compare(columns)
        columns |= {name: self._raw.column(name) for name in ("file", "line")}
        good = pa.array(self._reason == 0)
        arrays = [pa.array(columns[name]).filter(good) for name in SOURCED_SCHEMA.names]
        quotes = pa.RecordBatch.from_arrays(arrays, schema=SOURCED_SCHEMA)
        return Cleaned(quotes, self._rejects(pc.invert(good)))

    def _refuse(self, bad: Mask, reason: str) -> None:
        # The first reason is kept.
        bad = bad & (self._reason == 0)
        if bad.any():
            self._reason[bad] = len(self._reasons)
            self._reasons.append(reason)

    def _rejects(self, bad: pa.Array) -> pa.RecordBatch:
        rows = self._raw.filter(bad)
        reason = pa.array([self._reasons[n] for n in self._reason[self._reason > 0].tolist()], pa.string())
        text = pc.utf8_slice_codeunits(pc.utf8_rtrim(rows.column("text"), "\r\n"), 0, TEXT_CHARS_MAX)
        columns = [rows.column("file"), rows.column("line"), reason, pc.fill_null(text, "")]
        return pa.RecordBatch.from_arrays(columns, schema=REJECTS_SCHEMA)

    def _present(self, name: str) -> Mask:
        column = self._trimmed[name]
        present = _mask(pc.invert(pc.is_in(pc.utf8_lower(column), pa.array(MISSING, column.type))))
        present &= _mask(column.is_valid())
        self._refuse(~present, f"{name} is missing")
        return present

    def _symbols(self) -> pa.Array:
        column = pc.fill_null(self._trimmed["symbol"], "")
        self._refuse(_mask(pc.equal(column, "")), "symbol is missing")
        odd = pc.invert(pc.utf8_is_printable(column))
        self._refuse(_mask(odd), "symbol has characters that cannot be printed")
        self._refuse(_mask(pc.greater(pc.utf8_length(column), _SYMBOL_CHARS_MAX)), "symbol is too long")
        return column

    def _dates(self) -> pa.Array:
        self._present("date")
        column = self._trimmed["date"].dictionary_encode()
        days = [None if text is None else read_date(text, self._order) for text in column.dictionary.to_pylist()]
        found = pa.array(days, pa.date32()).take(column.indices)
        form = f" in the order {self._order}" if self._order else ""
        self._refuse(~_mask(found.is_valid()), f"date cannot be read{form}")
        return found

    def _numbers(self, name: str) -> npt.NDArray[np.float64]:
        present = self._present(name)
        column = pc.utf8_ltrim(self._trimmed[name], "$")
        infinite = _mask(pc.match_substring_regex(column, _INFINITE))
        number = _mask(pc.match_substring_regex(column, _NUMBER))
        self._refuse(present & ~infinite & ~number, f"{name} is not a number")
        text = pc.if_else(pa.array(number & present), column, None)
        values: npt.NDArray[np.float64] = pc.fill_null(pc.cast(text, pa.float64()), 1.0).to_numpy(zero_copy_only=False)
        self._refuse(infinite | np.isinf(values), f"{name} is not finite")
        return values

    def _price(self, name: str) -> npt.NDArray[np.float64]:
        values = self._numbers(name)
        self._refuse(values <= 0, f"{name} is not positive")
        return values

    def _volume(self) -> npt.NDArray[np.int64]:
        values = self._numbers("volume")
        self._refuse(values < 0, "volume is negative")
        self._refuse(values != np.floor(values), "volume is not whole")
        self._refuse(values > _VOLUME_MAX, "volume is too large")
        return np.where(self._reason == 0, values, 0.0).astype(np.int64)

    def _compare(self, columns: dict[str, npt.NDArray[np.float64]]) -> None:
        opening, high, low, close = (columns[name] for name in _PRICES)
        self._refuse(high < low, "high is below low")
        self._refuse((opening > high) | (opening < low), "open is outside low to high")
        self._refuse((close > high) | (close < low), "close is outside low to high")


def _mask(answers: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(answers, False).to_numpy(zero_copy_only=False)
    return mask.copy()
