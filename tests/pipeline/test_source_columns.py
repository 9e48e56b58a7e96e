"""Schemas, values and options of the data source, without a JVM. Expected tables are written by hand."""

import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from octopia.errors import InputError, LanguageError
from octopia.language import Notification, parse_filter
from octopia.pipeline.source.columns import (
    RowMaker,
    attribute_columns,
    check_advertised,
    implied_schema,
    notifications_of,
)
from octopia.pipeline.source.options import read_options, write_options
from octopia.wire import encode_parcel

pytestmark = pytest.mark.usefixtures("kernels")
URL = {"url": "octopia://127.0.0.1:7400"}


def schema(**columns: Any) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in columns.items()])


def rows_of(wanted: t.StructType, notifications: list[dict[str, Any]], mode: str = "PERMISSIVE") -> list[Any]:
    parcels = [encode_parcel(Notification.of(n), "p", number) for number, n in enumerate(notifications, 1)]
    batches = list(RowMaker(wanted, mode).batches(iter([(5_000_000, parcels)])))
    return pa.Table.from_batches(batches).to_pylist() if batches else []


BIG = 2**70
FITS: list[tuple[t.DataType, Any, Any]] = [
    (t.StringType(), "a", "a"),
    (t.StringType(), "", ""),
    (t.StringType(), 1, None),
    (t.StringType(), True, None),
    (t.BooleanType(), False, False),
    (t.BooleanType(), 0, None),
    (t.BooleanType(), "true", None),
    (t.LongType(), 7, 7),
    (t.LongType(), 7.0, 7),
    (t.LongType(), 7.5, None),
    (t.LongType(), True, None),
    (t.LongType(), "7", None),
    (t.LongType(), -(2**63), -(2**63)),
    (t.LongType(), 2**63 - 1, 2**63 - 1),
    (t.LongType(), 2**63, None),
    (t.LongType(), BIG, None),
    (t.LongType(), float("inf"), None),
    (t.IntegerType(), 2**31 - 1, 2**31 - 1),
    (t.IntegerType(), 2**31, None),
    (t.IntegerType(), -(2**31), -(2**31)),
    (t.ShortType(), 2**15, None),
    (t.ByteType(), -128, -128),
    (t.ByteType(), 128, None),
    (t.DoubleType(), 0.1, 0.1),
    (t.DoubleType(), 3, 3.0),
    (t.DoubleType(), True, None),
    (t.DoubleType(), 2**53 + 1, float(2**53)),
    (t.DoubleType(), BIG, float(BIG)),
    (t.DoubleType(), 2**2000, None),
    (t.DoubleType(), float("-inf"), float("-inf")),
    (t.FloatType(), 0.5, 0.5),
    (t.FloatType(), 1e300, None),
    (t.FloatType(), float("inf"), float("inf")),
    (t.DecimalType(38, 0), BIG, Decimal(BIG)),
    (t.DecimalType(38, 0), 10**38, None),
    (t.DecimalType(10, 2), 0.1, Decimal("0.10")),
    (t.DecimalType(10, 2), 0.125, None),
    (t.DecimalType(10, 2), 10**8, None),
    (t.DecimalType(10, 2), float("inf"), None),
    (t.DecimalType(10, 2), "1", None),
]


@pytest.mark.parametrize(("kind", "given", "expected"), FITS, ids=range(len(FITS)))
def test_what_fits_a_column(kind: t.DataType, given: Any, expected: Any) -> None:
    """Alone, and beside a value that needs a second look, which takes another way through the code."""
    wanted = schema(x=kind, _unfit=t.ArrayType(t.StringType()))
    unfit = ["x"] if expected is None else None
    assert rows_of(wanted, [{"x": given}]) == [{"x": expected, "_unfit": unfit}]
    odd: Any = True if not isinstance(kind, t.BooleanType) else "odd"
    assert rows_of(wanted, [{"x": odd}, {"x": given}, {"y": 1}]) == [
        {"x": None, "_unfit": ["x"]},
        {"x": expected, "_unfit": unfit},
        {"x": None, "_unfit": None},
    ]
    kept = [] if expected is None else [{"x": expected, "_unfit": None}]
    assert rows_of(wanted, [{"x": given}], "DROPMALFORMED") == kept
    if expected is None:
        with pytest.raises(InputError, match=r"notification 1 of p: 'x' is .*, which does not fit column 'x', "):
            rows_of(wanted, [{"x": given}], "FAILFAST")
    else:
        assert rows_of(wanted, [{"x": given}], "FAILFAST") == kept


@pytest.mark.parametrize("seed", range(3))
def test_the_quick_way_and_the_whole_way_give_the_same_rows(seed: int) -> None:
    """With a column `_json` every notification is made whole; without, only what the columns want."""
    draw = random.Random(seed)
    kinds = [kind for kind, _, expected in FITS if expected is not None]
    values = [value for _, value, _ in FITS]
    for _ in range(60):
        columns = {f"c{number}": draw.choice(kinds) for number in range(5)}
        fitting = draw.random() < 0.5
        notifications: list[dict[str, Any]] = []
        for _ in range(5):
            notification: dict[str, Any] = {"other": 1}
            for name, kind in columns.items():
                if draw.random() < 0.8:
                    fits = [value for of, value, expected in FITS if of == kind and expected is not None]
                    notification[name] = draw.choice(fits if fitting else values)
            notifications.append(notification)
        ids = {"_id": t.LongType(), "_publisher": t.StringType(), "_unfit": t.ArrayType(t.StringType())}
        quick = rows_of(schema(**columns, **ids), notifications)
        whole = rows_of(schema(**columns, **ids, _json=t.StringType()), notifications)
        assert [row | {"_json": None} for row in quick] == [row | {"_json": None} for row in whole]


def test_columns_beside_the_attributes() -> None:
    wanted = t.StructType(
        [
            t.StructField("_id", t.LongType()),
            t.StructField("price", t.DoubleType()),
            t.StructField("_publisher", t.StringType()),
            t.StructField("_received", t.TimestampType()),
            t.StructField("_json", t.StringType()),
            t.StructField("own", t.StringType(), True, {"attribute": "_id"}),
        ]
    )
    (first, second) = rows_of(wanted, [{"price": 1.5, "_id": "mine", "n": 3}, {"n": BIG}])
    assert first.pop("_received").timestamp() == 5
    assert first == {
        "_id": 1,
        "price": 1.5,
        "_publisher": "p",
        "_json": '{"price":1.5,"_id":"mine","n":3}',
        "own": "mine",
    }
    assert second["_json"] == f'{{"n":{BIG}}}'
    assert (second["price"], second["own"]) == (None, None)


def test_times_are_text_of_iso_8601() -> None:
    told = ["2024-01-02T10:00:00Z", "2024-01-02 11:00:00.25+01:00", "2024-01-02 10:00", "soon", 1704189600, None]
    wanted = schema(at=t.TimestampType(), _unfit=t.ArrayType(t.StringType()))
    rows = rows_of(wanted, [{"at": one} if one else {"n": 1} for one in told])
    ten = datetime(2024, 1, 2, 10, tzinfo=UTC)
    assert [row["at"] for row in rows] == [ten, ten.replace(microsecond=250_000), ten, None, None, None]
    assert [row["_unfit"] for row in rows] == [None, None, None, ["at"], ["at"], None]
    batch = pa.RecordBatch.from_arrays([pa.array([ten, None], pa.timestamp("us", tz="Europe/Berlin"))], names=["at"])
    columns = attribute_columns(t.StructType([t.StructField("at", t.TimestampType())]), reading=False)
    assert notifications_of(batch, columns) == [{"at": "2024-01-02T10:00:00.000000+00:00"}, {}]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (t.StructField("d", t.DateType()), "column 'd' is date, which no notification carries: read it as string"),
        (t.StructField("a", t.ArrayType(t.LongType())), "column 'a' is array<bigint>, which no notification carries"),
        (t.StructField("_id", t.StringType()), "column '_id' is bigint, not string"),
        (t.StructField("x", t.LongType(), False), "column 'x' is NOT NULL, and any notification may lack it"),
        (t.StructField("x", t.LongType(), True, {"attribute": ""}), "its metadata give '' as 'attribute'"),
        (t.StructField("x", t.LongType(), True, {"attribute": "n"}), "columns 'n' and 'x' are both for 'n'"),
    ],
)
def test_schemas_that_cannot_be_read(field: t.StructField, message: str) -> None:
    with pytest.raises(InputError) as caught:
        attribute_columns(t.StructType([t.StructField("n", t.LongType()), field]), reading=True)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (t.StructField("d", t.DateType()), "column 'd' is date, which no notification carries: cast it"),
        (
            t.StructField("d", t.DecimalType(10, 2)),
            "column 'd' is decimal(10,2): numbers travel as integers or doubles",
        ),
        (t.StructField("_id", t.LongType()), "column '_id' is one that reading adds, not an attribute: drop it"),
    ],
)
def test_schemas_that_cannot_be_written(field: t.StructField, message: str) -> None:
    with pytest.raises(InputError) as caught:
        attribute_columns(t.StructType([field]), reading=False)
    assert message in str(caught.value)


def test_a_schema_of_no_attributes_is_refused() -> None:
    with pytest.raises(InputError, match="no column for any attribute"):
        attribute_columns(schema(_id=t.LongType()), reading=True)


def test_null_is_absent_and_decimals_are_integers() -> None:
    table = pa.RecordBatch.from_pydict(
        {"a": pa.array([1, None]), "b": pa.array([Decimal(BIG), None], pa.decimal128(38, 0)), "c": ["x", None]}
    )
    columns = attribute_columns(schema(a=t.LongType(), b=t.DecimalType(38, 0), c=t.StringType()), reading=False)
    assert notifications_of(table, columns) == [{"a": 1, "b": BIG, "c": "x"}, {}]
    assert notifications_of(table.slice(0, 1), columns) == [{"a": 1, "b": BIG, "c": "x"}]


@pytest.mark.parametrize(
    ("advertisement", "filter", "expected"),
    [
        (
            "symbol like 'A%' and close > 0 and open is not null and halted = false",
            "close > 100 and open > 1",
            "_publisher string, _id bigint, `close` double, `halted` boolean, `open` double, `symbol` string",
        ),
        (
            "class = 'stock' and price > 0 or class = 'bond' and rate > 0",
            "class = 'stock'",
            "_publisher string, _id bigint, `class` string, `price` double",
        ),
        ('"odd`name" = 1', "true", "_publisher string, _id bigint, `odd``name` double"),
    ],
)
def test_an_advertisement_implies_a_schema(advertisement: str, filter: str, expected: str) -> None:
    assert implied_schema(parse_filter(advertisement), parse_filter(filter)) == expected


@pytest.mark.parametrize(
    ("advertisement", "filter", "message"),
    [
        ("symbol is not null", "true", "'symbol' could be of any type there; give the schema"),
        ("x = 1 or x = 'a'", "true", "'x' is double or string there"),
        ("x = 1", "x = 2", "it cannot match the filter"),
        ("x is not null", "x = 1 or y = 2", "'x' could be of any type"),
    ],
)
def test_an_advertisement_that_implies_none(advertisement: str, filter: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        implied_schema(parse_filter(advertisement), parse_filter(filter))
    assert message in str(caught.value)


def test_columns_that_are_not_advertised_are_named() -> None:
    columns = attribute_columns(schema(n=t.LongType(), s=t.StringType(), r=t.LongType()), reading=False)
    check_advertised(columns, parse_filter("n > 0 and s is not null or r = 1"))
    with pytest.raises(InputError, match=r"'advertise' does not name 's', 'r': .*add \"s is not null\""):
        check_advertised(columns, parse_filter("n > 0"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "option 'url' is missing: where a broker listens, for example octopia://127.0.0.1:7400"),
        ({"url": "ftp://x"}, "option 'url': 'ftp://x' is not a broker URL"),
        ({**URL}, "option 'filter' is missing: what to subscribe to"),
        ({**URL, "filter": "price >"}, "option 'filter': nothing to go with '>' at position 7"),
        ({**URL, "filter": "x > 0", "splool": "a"}, "unknown option 'splool' for reading (did you mean spool?)"),
        ({**URL, "filter": "x > 0", "advertise": "a"}, "unknown option 'advertise' for reading"),
        ({**URL, "filter": "x > 0", "policy": "drop"}, "option 'policy' is 'drop': block or drop_oldest or"),
        ({**URL, "filter": "x > 0", "numPartitions": "0"}, "a whole number from 1 to 1,000 is needed"),
        ({**URL, "filter": "x > 0", "spoolBytesMax": "1g"}, "option 'spoolBytesMax' is '1g': a whole number"),
        ({**URL, "filter": "x > 0", "spool": "s3://b/x"}, "a folder of the driver's machine is needed"),
        ({**URL, "filter": "x > 0", "tlsKey": "k"}, "option 'tlsKey' is given without 'tlsCertificate'"),
    ],
)
def test_options_for_reading_that_are_wrong(given: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_options(given)
    assert message in str(caught.value)


def test_options_are_read_without_case() -> None:
    options = read_options({**URL, "FILTER": "x > 0", "Mode": "failfast", "SPOOL": "file:///a/b", "ordered": "FALSE"})
    assert (options.mode, options.spool, options.ordered) == ("FAILFAST", Path("/a/b"), False)
    assert write_options({**URL, "checkpointLocation": "x"}).mode == "FAILFAST"
    with pytest.raises(InputError, match="option 'mode' is 'PERMISSIVE': FAILFAST or DROPMALFORMED is needed"):
        write_options({**URL, "mode": "PERMISSIVE"})
    with pytest.raises(LanguageError) as caught:
        write_options({**URL, "advertise": "price >"})
    assert caught.value.position == 7
