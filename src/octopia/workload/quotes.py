"""The `quotes` table: the schema of a daily quote, and quotes generated from a seed.

Nothing in a quote is null; a price is positive and finite, low ≤ open, close ≤ high; volume is a
whole number from 0. Rows are sorted by symbol, then date, where they are read from files, and stand symbol by symbol in
the order of the symbols' numbers, then by date, where they are made. A made quote depends on the seed, the number of
its symbol and the number of its day alone, so any range of symbols can be made by itself and the ranges put together
are the whole.

How quotes are made: the logarithm of a symbol's price walks in integer steps and is reflected at a factor of 3 above
and below where it started, so that long walks neither vanish nor explode; starting prices spread evenly over nine
octaves (1 to 512), daily deviations over 0.7 to 3.5 %, usual volumes over 13 octaves (about 8,000 to 67 million).
Powers of two are taken as straight lines between whole octaves, which is exact on every platform. Days are Monday to
Friday; there are no holidays, and no symbol misses a day.
"""

from datetime import date
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.errors import InputError
from octopia.workload.draws import bell, stream, uniform, words

QUOTES_SCHEMA: Final = pa.schema(
    [
        pa.field("date", pa.date32(), nullable=False),
        pa.field("symbol", pa.string(), nullable=False),
        pa.field("open", pa.float64(), nullable=False),
        pa.field("high", pa.float64(), nullable=False),
        pa.field("low", pa.float64(), nullable=False),
        pa.field("close", pa.float64(), nullable=False),
        pa.field("volume", pa.int64(), nullable=False),
    ]
)

SYMBOLS_DEFAULT: Final = 500
DAYS_DEFAULT: Final = 2000
START_DEFAULT: Final = date(2000, 1, 3)
# Symbols of up to six letters.
SYMBOLS_MAX: Final = 26**4 + 26**5 + 26**6
# About 2 GB while they are made.
ROWS_MAX: Final = 20_000_000

# Logarithms of prices, to the base 2, are integers of this unit.
_UNIT: Final = 1 << 20
_REFLECTED_AT: Final = int(1.585 * _UNIT)  # a factor of 3
_PRICE_OCTAVES: Final = 9.0
_VOLUME_OCTAVES: Final = (13.0, 26.0)
_DEVIATION: Final = (0.01, 0.05)  # of the logarithm to the base 2: 0.7 % to 3.5 %
_LOT: Final = 100

Cents = npt.NDArray[np.int64]


def synthetic_quotes(
    seed: int, symbols: int | range = SYMBOLS_DEFAULT, days: int = DAYS_DEFAULT, start: date = START_DEFAULT
) -> pa.Table:
    """Quotes of a number of symbols (or a range of symbol numbers) over a number of trading days from `start` on."""
    numbers = _checked_numbers(symbols)
    dates = _trading_days(start, days)
    if len(numbers) * days > ROWS_MAX:
        raise InputError(
            f"{len(numbers):,} symbols × {days:,} days are more than {ROWS_MAX:,} quotes at once; "
            f"make them in ranges of symbols, for example symbols=range(0, {ROWS_MAX // days})"
        )
    index = np.arange(numbers.start, numbers.stop, dtype=np.int64)
    opening, high, low, close = _prices(seed, index, days)
    columns = {
        "date": np.tile(dates, len(index)),
        "symbol": pa.array(symbol_names(numbers), pa.string()).take(pa.array(np.repeat(np.arange(len(index)), days))),
        "open": opening.ravel() / 100,
        "high": high.ravel() / 100,
        "low": low.ravel() / 100,
        "close": close.ravel() / 100,
        "volume": _volumes(seed, index, days).ravel(),
    }
    return pa.table({name: pa.array(column) for name, column in columns.items()}).cast(QUOTES_SCHEMA)


def symbol_names(numbers: range) -> list[str]:
    """The symbols with these numbers: four letters, then five, then six; unlike numbers have unlike symbols."""
    return [_symbol(number) for number in numbers]


def _symbol(number: int) -> str:
    length, size = 4, 26**4
    while number >= size:
        number -= size
        length, size = length + 1, size * 26
    # A step prime to 26 visits every combination once, and neighbours do not look alike.
    place = (number * 18_181 + 7_919) % size
    letters = ""
    for _ in range(length):
        place, letter = divmod(place, 26)
        letters += chr(ord("A") + letter)
    return letters


def _checked_numbers(symbols: int | range) -> range:
    numbers = range(symbols) if isinstance(symbols, int) else symbols
    if numbers.step != 1 or numbers.start < 0 or not len(numbers):
        raise InputError(f"symbols={symbols!r}: give a number of symbols from 1, or a range of their numbers")
    if numbers.stop > SYMBOLS_MAX:
        raise InputError(f"symbols={symbols!r}: there are at most {SYMBOLS_MAX:,} made symbols")
    return numbers


def _trading_days(start: date, days: int) -> npt.NDArray[np.datetime64]:
    if days < 1:
        raise InputError(f"days={days}: at least 1 trading day is needed")
    if days > (date.max - start).days * 5 // 7 - 5:
        raise InputError(f"days={days:,}: trading days from {start} would pass the year {date.max.year}")
    first = np.busday_offset(np.datetime64(start, "D"), 0, roll="forward")
    return np.asarray(np.busday_offset(first, np.arange(days)))


def _prices(seed: int, index: npt.NDArray[np.int64], days: int) -> tuple[Cents, Cents, Cents, Cents]:
    """Open, high, low, close in cents, a line per symbol."""
    symbol, day = index[:, None], np.arange(days)[None, :]
    least, most = _DEVIATION
    deviation = (least + (most - least) * uniform(stream(seed, "deviation"), symbol)) * _UNIT
    level = uniform(stream(seed, "level"), symbol) * (_PRICE_OCTAVES * _UNIT)
    steps = np.rint(bell(words(stream(seed, "walk"), symbol), day) * deviation).astype(np.int64)
    gaps = np.rint(bell(words(stream(seed, "gap"), symbol), day) * deviation * 0.25).astype(np.int64)
    closing = np.cumsum(steps, axis=1)
    before = closing - steps
    base = level.astype(np.int64)
    close, opening = _cents(base + _reflected(closing)), _cents(base + _reflected(before + gaps))
    upper = bell(words(stream(seed, "high"), symbol), day)
    lower = bell(words(stream(seed, "low"), symbol), day)
    spread = deviation / _UNIT * 0.4
    top, bottom = np.maximum(opening, close), np.minimum(opening, close)
    high = np.rint(top * (1.0 + np.abs(upper) * spread)).astype(np.int64)
    low = np.maximum(1, np.rint(bottom * (1.0 - np.abs(lower) * spread)).astype(np.int64))
    return opening, high, low, close


def _reflected(walk: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The walk between two mirrors, `_REFLECTED_AT` above and below its start."""
    turn = 4 * _REFLECTED_AT
    place = (walk + _REFLECTED_AT) % turn
    return np.where(place < turn // 2, place, turn - place) - _REFLECTED_AT


def _cents(logarithm: npt.NDArray[np.int64]) -> Cents:
    return np.maximum(1, np.rint(_power(logarithm) * 100.0).astype(np.int64))


def _power(logarithm: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """2 to the power of `logarithm / _UNIT`, in straight lines between whole powers."""
    octave, rest = np.divmod(logarithm, _UNIT)
    return np.ldexp(1.0 + rest / _UNIT, octave.astype(np.int32))


def _volumes(seed: int, index: npt.NDArray[np.int64], days: int) -> npt.NDArray[np.int64]:
    """Whole lots: a usual volume per symbol, times a daily factor between about a quarter and four."""
    symbol, day = index[:, None], np.arange(days)[None, :]
    least, most = _VOLUME_OCTAVES
    usual = (least + (most - least) * uniform(stream(seed, "usual volume"), symbol)) * _UNIT
    daily = bell(words(stream(seed, "volume"), symbol), day) * (0.7 * _UNIT)
    volume = _power(np.rint(usual + daily).astype(np.int64))
    return np.rint(volume / _LOT).astype(np.int64) * _LOT
