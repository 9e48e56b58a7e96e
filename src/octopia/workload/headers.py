"""The columns of a quote file, found by name.

Rules of this file: names are compared without case, blanks, signs and leading numbers (`<CLOSE>`, `1. open` and
`Close/Last` are known). Of several columns for one thing the better name wins (`symbol` before `ticker` before `name`).
Columns that are not needed are ignored, adjusted prices among them: the other prices are not adjusted. A file without a
column for the symbol is of one symbol, which its name tells (`AAPL.csv`).
"""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from octopia.errors import InputError
from octopia.hints import maybe_meant, shortened

FIELDS: Final = ("date", "open", "high", "low", "close", "volume", "symbol")

# By preference; compared after `_plain`.
ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "date": ("date", "tradedate", "tradingdate", "day", "timestamp", "datetime", "time"),
    "open": ("open", "openprice", "opening"),
    "high": ("high", "highprice", "max"),
    "low": ("low", "lowprice", "min"),
    "close": ("close", "closelast", "closeprice", "closing", "last"),
    "volume": ("volume", "vol", "totalvolume"),
    "symbol": ("symbol", "ticker", "tickersymbol", "stocksymbol", "name", "stock", "code"),
}
DELIMITERS: Final = (",", ";", "\t", "|")
SUFFIXES: Final = (".gz", ".csv", ".txt", ".tsv", ".parquet")

_SYMBOL_CHARS_MAX: Final = 32


def column_places(names: Sequence[str], file: str) -> dict[str, int]:
    """Where each field stands among these columns; `symbol` may be missing. An `InputError` where others are."""
    plain = [_plain(name) for name in names]
    places: dict[str, int] = {}
    for field, aliases in ALIASES.items():
        for alias in aliases:
            if alias in plain:
                places[field] = plain.index(alias)
                break
    missing = [field for field in FIELDS if field not in places and field != "symbol"]
    if missing:
        shown = ", ".join(shortened(name) for name in names[:12])
        hint = maybe_meant(missing[0], names)
        raise InputError(
            f"{file}: no column for {', '.join(missing)} among: {shown}{hint}; the first line must name the columns"
        )
    return places


def known_fields(names: Sequence[str]) -> int:
    """How many fields these names hold: what tells a delimiter that fits from one that does not."""
    plain = {_plain(name) for name in names}
    return sum(not plain.isdisjoint(aliases) for aliases in ALIASES.values())


def symbol_of_file(file: str) -> str:
    """The symbol that a file without a column for it is about."""
    name = PurePath(file).name
    while name.lower().endswith(SUFFIXES):
        name = name[: name.rindex(".")]
    symbol = name.upper()
    if not re.fullmatch(r"[A-Z0-9][A-Z0-9.^=_-]*", symbol) or len(symbol) > _SYMBOL_CHARS_MAX:
        raise InputError(
            f"{file}: no column for symbol, and the name of the file is no symbol; add the column, "
            "or name the file after its symbol, for example AAPL.csv"
        )
    return symbol


def _plain(name: str) -> str:
    without_number = re.sub(r"^\s*[0-9]+\s*[.)]\s*", "", name.lower())
    return re.sub(r"[^a-z0-9]", "", without_number)
