"""The columns of a quote file, found by name.

Names are compared without case, blanks, signs and leading numbers (`<CLOSE>`, `1. open` and `Close/Last` are known). Of
several columns for one field the better name wins (`symbol` before `ticker` before `name`); two columns with the same
name are refused as ambiguous. Columns that are not needed are ignored, adjusted prices among them: the other prices are
not adjusted. A file without a symbol column holds one symbol, named by the file (`AAPL.csv`).
"""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from octopia.errors import InputError
from octopia.hints import nearest, shortened

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
# A text file whose first line names fewer columns than this is not about quotes: a readme, most often.
KNOWN_FIELDS_MIN: Final = 2

_SYMBOL_CHARS_MAX: Final = 32


def column_places(names: Sequence[str], file: str) -> dict[str, int]:
    """The position of each field among these columns; `symbol` may be missing. An `InputError` if others are."""
    plain = [_plain(name) for name in names]
    places: dict[str, int] = {}
    for field, aliases in ALIASES.items():
        for alias in aliases:
            if alias in plain:
                places[field] = plain.index(alias)
                _check_once(field, alias, plain, file)
                break
    missing = [field for field in FIELDS if field not in places and field != "symbol"]
    if missing:
        shown = ", ".join(shortened(name) for name in names[:12])
        # The near miss is one of the names just shown, so the hint says what to change.
        near = nearest(missing[0], [name for name in names if plain.index(_plain(name)) not in places.values()])
        hint = f"; rename {shortened(near)!r} to {missing[0]}" if near else ""
        raise InputError(
            f"{file}: no column for {', '.join(missing)} among: {shown}{hint}; the first line must name the columns"
        )
    return places


def _check_once(field: str, alias: str, plain: Sequence[str], file: str) -> None:
    found = [place for place, name in enumerate(plain, 1) if name == alias]
    if len(found) > 1:
        raise InputError(
            f"{file}: {len(found)} columns are named {alias} (columns {', '.join(map(str, found))}): "
            f"rename or remove all but the one that holds the {field}"
        )


def known_fields(names: Sequence[str]) -> int:
    """The number of fields among these names, which shows whether a delimiter fits."""
    plain = {_plain(name) for name in names}
    return sum(not plain.isdisjoint(aliases) for aliases in ALIASES.values())


def symbol_of_file(file: str) -> str:
    """The symbol of a file without a symbol column."""
    name = PurePath(file).name
    while name.lower().endswith(SUFFIXES):
        name = name[: name.rindex(".")]
    symbol = name.upper()
    if not re.fullmatch(r"[A-Z0-9][A-Z0-9.^=_-]*", symbol) or len(symbol) > _SYMBOL_CHARS_MAX:
        raise InputError(
            f"{file}: no column for symbol, and the name of the file is not a symbol; add the column, "
            "or name the file after its symbol, for example AAPL.csv"
        )
    return symbol


def _plain(name: str) -> str:
    without_number = re.sub(r"^\s*[0-9]+\s*[.)]\s*", "", name.lower())
    return re.sub(r"[^a-z0-9]", "", without_number)
