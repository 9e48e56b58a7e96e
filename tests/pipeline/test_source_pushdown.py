"""What of a condition goes to the broker, and options as users of Kafka know them. No Spark runs here."""

import random
from typing import Any

import pytest
from pyspark.sql import types as t

import octopia
from octopia.errors import InputError
from octopia.pipeline.source.options import read_options
from octopia.pipeline.source.pushdown import conjuncts, pushed_filter

SCHEMA = t.StructType(
    [
        t.StructField("_received", t.TimestampType()),
        t.StructField("symbol", t.StringType()),
        t.StructField("Close", t.DoubleType()),
        t.StructField("volume", t.LongType()),
        t.StructField("halted", t.BooleanType()),
        t.StructField("rate", t.FloatType()),
        t.StructField("odd", t.LongType(), True, {"attribute": "an odd name"}),
    ]
)


@pytest.mark.parametrize(
    ("condition", "pushed"),
    [
        ("symbol = 'AAPL' and close > 100", "Close > 100 and symbol = 'AAPL'"),
        ("close > 100 and hour(_received) > 8", "Close > 100"),
        ("close between 1 and 5 and upper(symbol) = 'A'", "Close <= 5 and Close >= 1"),
        ("(volume > 3 or halted = true) and rate > 0.1", "halted = true or volume > 3"),
        (
            "symbol in ('a and b', 'c') and case when close > 1 and volume > 2 then true end",
            "symbol = 'a and b' or symbol = 'c'",
        ),
        ("odd >= 7", '"an odd name" >= 7'),
        ("symbol is not null", "symbol is not null"),
        # each would keep back, or might, what Spark lets through
        ("volume = '5'", None),
        ("symbol > 5", None),
        ("close < 9007199254740993", None),
        ("rate > 0.1", None),
        ("symbol like 'A_'", None),
        ("_received > '2024-01-01'", None),
        ("nothing = 1", None),
        ("close > 1 or hour(_received) > 8", None),
    ],
)
def test_what_goes_to_the_broker(condition: str, pushed: str | None) -> None:
    found = pushed_filter(condition, SCHEMA)
    assert found == (None if pushed is None else octopia.parse_filter(pushed))


@pytest.mark.parametrize("seed", range(20))
def test_the_broker_lets_through_all_that_spark_would(seed: int) -> None:
    """Conditions evaluated by Python are the oracle: every row for which they hold matches the pushed part."""
    draw = random.Random(seed)
    tests: list[tuple[str, Any]] = [
        ("volume > 3", lambda r: r["volume"] is not None and r["volume"] > 3),
        ("volume <> 5", lambda r: r["volume"] is not None and r["volume"] != 5),
        ("close <= 2.5", lambda r: r["Close"] is not None and r["Close"] <= 2.5),
        ("symbol = 'a'", lambda r: r["symbol"] == "a"),
        ("length(symbol) = 1", lambda r: r["symbol"] is not None and len(r["symbol"]) == 1),
        ("(symbol = 'a' or volume < 2)", lambda r: r["symbol"] == "a" or (r["volume"] is not None and r["volume"] < 2)),
    ]
    for _ in range(20):
        chosen = draw.sample(tests, draw.randrange(1, 5))
        filter = pushed_filter(" and ".join(text for text, _ in chosen), SCHEMA)
        for _ in range(30):
            row = {
                "symbol": draw.choice(["a", "b", "ab", None]),
                "Close": draw.choice([1.0, 2.5, 3.0, None]),
                "volume": draw.choice([1, 4, 5, None]),
            }
            seen = {name: value for name, value in row.items() if value is not None}
            if filter is not None and seen and all(test(row) for _, test in chosen):
                assert octopia.matches(filter, seen)


def test_conditions_are_cut_where_they_may_be() -> None:
    assert list(conjuncts("a = 1 AND b between 2 and 3 and (c = 1 and d = 2) and f('x and y')")) == [
        "a = 1",
        "b between 2 and 3",
        "(c = 1 and d = 2)",
        "f('x and y')",
    ]
    assert list(conjuncts("a = 1 and b = 2 or c = 3")) == ["a = 1 and b = 2 or c = 3"]


GIVEN = {"url": "octopia://127.0.0.1:7400", "filter": "n > 0"}


def test_names_that_users_of_kafka_know() -> None:
    options = read_options(
        GIVEN
        | {"maxOffsetsPerTrigger": "7", "minPartitions": "3", "failOnDataLoss": "true", "startingOffsets": "latest"}
    )
    assert (options.rows_max, options.partitions, options.fails_on_loss) == (7, 3, True)
    assert read_options(GIVEN | {"failOnDataLoss": "false"}).fails_on_loss is False
    with pytest.raises(InputError, match="'startingOffsets' is 'earliest': brokers keep no history"):
        read_options(GIVEN | {"startingOffsets": "earliest"})
    with pytest.raises(InputError, match="'maxRowsPerTrigger' and 'maxOffsetsPerTrigger' are the same option"):
        read_options(GIVEN | {"maxOffsetsPerTrigger": "7", "maxRowsPerTrigger": "7"})
