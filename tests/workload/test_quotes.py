"""Made quotes: the same from any range of symbols, consistent, and shaped like quotes."""

from datetime import date
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from octopia.errors import InputError
from octopia.workload import QUOTES_SCHEMA, symbol_names, synthetic_quotes


def test_ranges_of_symbols_together_are_the_whole() -> None:
    whole = synthetic_quotes(3, symbols=40, days=70)
    parts = [synthetic_quotes(3, symbols=range(*cut), days=70) for cut in ((0, 1), (1, 25), (25, 40))]
    assert pa.concat_tables(parts).combine_chunks().equals(whole.combine_chunks())
    assert whole.schema.equals(QUOTES_SCHEMA)
    # and fewer days are the beginning of more
    short = synthetic_quotes(3, symbols=40, days=30).to_pylist()
    assert short == [row for n, row in enumerate(whole.to_pylist()) if n % 70 < 30]


def test_quotes_are_consistent() -> None:
    table = synthetic_quotes(5, symbols=300, days=400)
    low, high, opening, close = (table[name].to_numpy() for name in ("low", "high", "open", "close"))
    assert (low <= np.minimum(opening, close)).all()
    assert (high >= np.maximum(opening, close)).all()
    assert low.min() >= 0.01
    for column in (low, high, opening, close):
        assert np.array_equal(column, np.rint(column * 100) / 100), "prices are in cents"
    volume = table["volume"].to_numpy()
    assert volume.min() >= 0
    assert (volume % 100 == 0).all()
    assert sum(column.null_count for column in table.columns) == 0
    assert len(set(zip(table["symbol"].to_pylist(), table["date"].to_pylist(), strict=True))) == 120_000


def test_quotes_look_like_quotes() -> None:
    table = synthetic_quotes(5, symbols=300, days=1000)
    close = table["close"].to_numpy().reshape(300, 1000)
    means = np.sort(close.mean(axis=1))
    assert means[-1] / means[0] > 100, "prices spread over orders of magnitude"
    changes = close[:, 1:] / close[:, :-1] - 1
    assert 0.005 < np.abs(changes).mean() < 0.05
    assert np.abs(changes).max() < 0.5, "a walk has no jumps"
    factor = close.max(axis=1) / close.min(axis=1)
    assert factor.max() < 12, "reflected: neither vanishes nor explodes"
    assert np.median(factor) > 1.5, "and yet it walks"
    usual = table["volume"].to_numpy().reshape(300, 1000).mean(axis=1)
    assert usual.max() / usual.min() > 1000
    # a symbol's changes tell nothing of another's
    correlation = np.corrcoef(changes[:20])
    assert np.abs(correlation - np.eye(20)).max() < 0.2


def test_days_are_weekdays_from_the_start() -> None:
    days = synthetic_quotes(1, symbols=1, days=7, start=date(2024, 3, 2))["date"].to_pylist()
    assert days == [date(2024, 3, day) for day in (4, 5, 6, 7, 8, 11, 12)]


def test_symbols_are_unique_letters() -> None:
    names = symbol_names(range(26**4 + 1000))
    assert len(set(names)) == len(names)
    assert {len(name) for name in names} == {4, 5}
    assert all(name.isalpha() and name.isupper() for name in names)
    assert symbol_names(range(500, 503)) == names[500:503]


def test_the_same_for_ever() -> None:
    table = synthetic_quotes(1, symbols=20, days=50)
    digest = sha256("".join(table["symbol"].to_pylist()).encode())
    for name in ("open", "high", "low", "close", "volume"):
        digest.update(table[name].to_numpy().astype("<f8").tobytes())
    assert digest.hexdigest() == "60eab2fe0fb0db0e9b8fcd39ae950dc9160a2e540cc1a0004a5748e1e610e570"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"symbols": 0}, "symbols=0: give a number"),
        ({"symbols": range(0, 10, 2)}, "symbols=range"),
        ({"symbols": range(-1, 3)}, "symbols=range"),
        ({"symbols": 10**9}, "at most"),
        ({"days": 0}, "days=0: at least 1"),
        ({"days": 10**7}, "would pass the year 9999"),
        ({"symbols": 20_000, "days": 2000}, "make them in ranges of symbols"),
    ],
)
def test_what_cannot_be_made(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        synthetic_quotes(1, **arguments)
