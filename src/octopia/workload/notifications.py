"""Quotes as notifications: the ten attributes of the paper's data.

One notification per quote, in the order of the quotes. The columns are, in this order: class
(always `STOCK`), symbol, date (text, year first, so that its order is that of time), open, high, low, close, volume,
and two percentages, `open_close_pct` = 100·(close - open)/open and `high_low_pct` = 100·(high - low)/low, both rounded
to four decimals (half to even, after multiplication by 10,000). Nothing is null.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

CLASS: Final = "STOCK"
NUMBERS: Final = ("open", "high", "low", "close", "volume", "open_close_pct", "high_low_pct")
NOTIFICATIONS_SCHEMA: Final = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in ("class", "symbol", "date")]
    + [pa.field(name, pa.int64() if name == "volume" else pa.float64(), nullable=False) for name in NUMBERS]
)

_SCALE: Final = 10_000.0


def notifications_of(quotes: Any) -> Any:
    """The notifications of a table, or a record batch, of quotes; the result is of the same kind."""
    columns = {name: quotes.column(name) for name in NUMBERS[:5]}
    opening, high, low, close = (columns[name].to_numpy(zero_copy_only=False) for name in NUMBERS[:4])
    columns["class"] = pa.repeat(CLASS, quotes.num_rows)
    columns["symbol"] = quotes.column("symbol").cast(pa.string())
    columns["date"] = quotes.column("date").cast(pa.string())
    columns["open_close_pct"] = pa.array(_percent(close - opening, opening))
    columns["high_low_pct"] = pa.array(_percent(high - low, low))
    arrays = [columns[name] for name in NOTIFICATIONS_SCHEMA.names]
    if isinstance(quotes, pa.RecordBatch):
        return pa.RecordBatch.from_arrays(arrays, schema=NOTIFICATIONS_SCHEMA)
    return pa.Table.from_arrays(arrays, schema=NOTIFICATIONS_SCHEMA)


def _percent(part: npt.NDArray[np.float64], whole: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    # Plus zero, so that a rounded-off loss is 0 and not -0.
    return np.rint(part / whole * 100.0 * _SCALE) / _SCALE + 0.0
