"""`octopia.spark.match` against `octopia.matches`, pair by pair, and its errors for bad input."""

from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import octopia
from octopia import InputError, LanguageError, spark
from octopia.pipeline import Session
from octopia.pipeline.match_tables import pairs_of

SYMBOLS = ("AAPL", "IBM", "é\u4e2d", "")
NUMBERS = (0, 1, -3, 2**53 + 1, 0.5, -0.25, 1e9)


def random_rows(random: Random, count: int) -> list[dict[str, Any]]:
    """Notifications with every kind of value, and with nothing in places."""
    return [
        {
            "row": row,
            "symbol": random.choice((*SYMBOLS, None)),
            "price": random.choice((0.5, -0.25, 1.0, 1e9, None)),
            "volume": random.choice((0, 1, -3, 2**53 + 1, None)),
            "halted": random.choice((True, False, None)),
        }
        for row in range(count)
    ]


def random_filter(random: Random) -> str:
    def predicate() -> str:
        attribute = random.choice(("symbol", "price", "volume", "halted"))
        if attribute == "halted":
            return f"halted = {random.choice(('true', 'false'))}"
        if attribute == "symbol":
            operator, value = random.choice(("=", "<>", "<", ">=", "like")), random.choice(SYMBOLS)
            return f"symbol {operator} '{value}{'%' if operator == 'like' else ''}'"
        operator = random.choice(("=", "<>", "<", "<=", ">", ">="))
        return f"{attribute} {operator} {random.choice(NUMBERS)}"

    return " or ".join(
        " and ".join(predicate() for _ in range(random.randint(1, 3))) for _ in range(random.randint(1, 2))
    )


def expected_pairs(rows: list[dict[str, Any]], filters: dict[Any, str]) -> list[tuple[int, Any]]:
    """Filter by filter, notification by notification, by the definition."""
    pairs = []
    parsed = {id: octopia.parse_filter(text) for id, text in filters.items()}
    for row in rows:
        seen = {name: value for name, value in row.items() if name != "row" and value is not None}
        for id, filter in parsed.items():
            if seen and octopia.matches(filter, octopia.parse_notification(seen)):
                pairs.append((row["row"], id))
    return sorted(pairs)


ROWS_SCHEMA = "row long, symbol string, price double, volume long, halted boolean"


@pytest.mark.parametrize(("kind", "seed"), [("string", 0), ("int", 1), ("int", 2)])
def test_pairs_are_those_of_matches(session: Session, seed: int, kind: str) -> None:
    random = Random(f"match {seed}")
    rows = random_rows(random, 300)
    name = str if kind == "string" else int
    filters = {name(number): random_filter(random) for number in range(60)}
    frame = session.spark.createDataFrame(rows, ROWS_SCHEMA).repartition(3)
    subscriptions = session.spark.createDataFrame(list(filters.items()), f"id {kind}, filter string")
    found = spark.match(frame, subscriptions, keys=["row"])
    assert found.schema.simpleString() == f"struct<row:bigint,subscription:{kind}>"
    assert sorted(map(tuple, found.collect())) == expected_pairs(rows, filters)


def test_all_columns_are_kept_unless_keys_are_named(session: Session) -> None:
    notifications = session.spark.createDataFrame([(1, "a", 2.0), (2, "b", 3.0)], "n int, class string, x double")
    subscriptions = session.spark.createDataFrame([("s1", "x > 2"), ("s2", "class = 'a'")], "who string, what string")
    pairs = spark.match(notifications, subscriptions, id="who", filter="what", pair_id="id")
    assert sorted(map(tuple, pairs.collect())) == [(1, "a", 2.0, "s2"), (2, "b", 3.0, "s1")]
    keyed = spark.match(notifications, subscriptions, id="who", filter="what", keys=["class", "n"])
    assert keyed.columns == ["class", "n", "subscription"]
    assert sorted(map(tuple, keyed.collect())) == [("a", 1, "s2"), ("b", 2, "s1")]


def test_padres_text_odd_names_and_empty_tables(session: Session) -> None:
    notifications = session.spark.createDataFrame([(1, "c", 5), (2, "c", 1)], "`a key` int, class string, x long")
    subscriptions = session.spark.createDataFrame([(7, "[class,eq,'c'],[x,>,3]")], "id long, filter string")
    assert spark.match(notifications, subscriptions, keys=["a key"]).collect() == [(1, 7)]
    assert spark.match(notifications, subscriptions.where("id < 0"), keys=["a key"]).collect() == []
    assert spark.match(notifications.where("x > 9"), subscriptions, keys=["a key"]).collect() == []


def test_only_needed_columns_travel_to_python(session: Session) -> None:
    notifications = session.spark.createDataFrame([(1, 5, "unused")], "k int, x long, text string")
    subscriptions = session.spark.createDataFrame([(7, "x > 3")], "id long, filter string")
    plan = spark.match(notifications, subscriptions, keys=["k"])._jdf.queryExecution().optimizedPlan().toString()
    assert "text" not in plan.split("MapInArrow")[1].split("\n", 2)[1]


def test_many_pairs_come_in_bounded_batches() -> None:
    """Every notification matches every subscription: the slices shrink, and no batch is larger than stated."""
    matcher: octopia.Matcher[int] = octopia.Matcher()
    for number in range(3000):
        matcher.add(number, "x >= 0")
    batch = pa.RecordBatch.from_pydict({"row": list(range(2000)), "x": [1.0] * 2000})
    parts = batch.select(["row"]), batch.select(["x"])
    found = list(pairs_of(matcher, [parts, parts], pa.int64()))
    assert max(part.num_rows for part in found) <= 1 << 20
    rows = pa.Table.from_batches(found)["row"].to_numpy()
    assert rows.tolist() == [row for row in [*range(2000), *range(2000)] for _ in range(3000)]


def frames(session: Session, subscriptions: list[tuple[Any, Any]], kind: str = "string") -> tuple[Any, Any]:
    notifications = session.spark.createDataFrame([(1, "a", 2.0)], "row int, class string, price double")
    return notifications, session.spark.createDataFrame(subscriptions, f"id {kind}, filter string")


@pytest.mark.parametrize(
    ("subscriptions", "message"),
    [
        ([("s1", "price > 1"), ("s2", "price >")], "subscription 's2': "),
        ([("s1", "[price,prefix,'x']")], "subscription 's1': "),
        ([("s1", "price > 1"), ("s1", "price > 2")], "subscription 's1' is there more than once: ids must be unique"),
        ([("s1", None)], "subscription 's1' has no filter: column 'filter' is null"),
        ([(None, "price > 1")], "subscription 0 has no id: column 'id' is null"),
        (
            [("s1", "prize > 1")],
            "filters ask for 'prize', and the notifications have no such column (did you mean price?)",
        ),
    ],
)
def test_bad_subscriptions_are_told_at_once(
    session: Session, subscriptions: list[tuple[Any, Any]], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        spark.match(*frames(session, subscriptions))
    assert str(caught.value).startswith(message)


def test_bad_filter_text_points_at_the_place(session: Session) -> None:
    with pytest.raises(LanguageError) as caught:
        spark.match(*frames(session, [("s7", "[class,eq,'a'],[price,prefix,'x']")]))
    assert caught.value.pointer() == "[class,eq,'a'],[price,prefix,'x']\n                      ^"


def test_an_attribute_without_a_column_can_be_taken_as_absent(session: Session) -> None:
    notifications, subscriptions = frames(session, [("s1", "prize > 1 or price > 1"), ("s2", "prize > 1")])
    pairs = spark.match(notifications, subscriptions, keys=["row"], absent_ok=True)
    assert pairs.collect() == [(1, "s1")]


def test_bad_columns_are_told_at_once(session: Session) -> None:
    notifications, subscriptions = frames(session, [("s1", "price > 1")])
    with pytest.raises(InputError, match=r"subscriptions have no column 'ident', but id, filter"):
        spark.match(notifications, subscriptions, id="ident")
    with pytest.raises(
        InputError, match=r"notifications have no column 'rwo', but row, class, price \(did you mean row"
    ):
        spark.match(notifications, subscriptions, keys=["rwo"])
    with pytest.raises(InputError, match=r"have a column 'row': name the column of the ids, pair_id='…'"):
        spark.match(notifications, subscriptions, pair_id="row")
    with pytest.raises(InputError, match=r"column 'price' of the notifications is decimal\(20,2\).*cast it to double"):
        spark.match(notifications.withColumn("price", notifications.price.cast("decimal(20,2)")), subscriptions)
    with pytest.raises(InputError, match=r"column 'id' of the subscriptions is double: ids are integers or strings"):
        spark.match(*frames(session, [(1.5, "price > 1")], "double"))
    twice = notifications.select("*", "price")
    with pytest.raises(InputError, match=r"the notifications have 2 columns 'price': rename all but one"):
        spark.match(twice, subscriptions, keys=["row"])


def test_nan_is_told_with_the_notifications_keys(session: Session) -> None:
    notifications = session.spark.createDataFrame([(1, 2.0), (2, float("nan"))], "row int, price double")
    subscriptions = session.spark.createDataFrame([("s1", "price > 1")], "id string, filter string")
    with pytest.raises(InputError) as caught, session.errors("match"):
        spark.match(notifications, subscriptions, keys=["row"]).collect()
    assert str(caught.value) == (
        "match: notification row=2: column 'price' is NaN, which no filter can compare; nan='absent' treats it as "
        "absent"
    )
    assert spark.match(notifications, subscriptions, keys=["row"], nan="absent").collect() == [(1, "s1")]
    # Without our words around it, it is still an error of Spark with this line, and no traceback of a worker.
    with pytest.raises(Exception, match=r"notification row=2: column 'price' is NaN") as raw:
        spark.match(notifications, subscriptions, keys=["row"]).collect()
    assert "Traceback" not in str(raw.value)
    with pytest.raises(InputError, match=r"nan is 'drop': fail or absent is needed"):
        spark.match(notifications, subscriptions, nan="drop")


def test_dates_timestamps_and_decimals(session: Session) -> None:
    """Against Spark SQL's own comparisons of the same columns."""
    rows = session.spark.range(400).selectExpr(
        "id as row",
        "date_add(date'2024-01-01', cast(id % 9 as int)) as day",
        "timestamp_micros(1704186000000000 + (id % 7) * 250001) as at",
        "timestamp_ntz'2024-01-02 10:00:00' + make_interval(0,0,0,0,0,0,id % 5) as local",
        "cast((id % 41) * 0.05 - 1 as decimal(12,2)) as price",
        "case when id % 10 = 0 then null else cast(id as decimal(18,0)) end as big",
    )
    # As text in the session's time zone, which filters are read in where they name none.
    middle = session.spark.sql("select cast(timestamp_micros(1704186000500002) as string) as t").collect()[0].t
    conditions = [
        "day >= '2024-01-03' and day < '2024-01-08'",
        "day = '2024-01-05' or day <> '2024-01-06' and price > 0.5",
        f"at > '{middle}'",
        "at <= '2024-01-02 09:00:01.000004+00:00'",
        "local >= '2024-01-02 10:00:02' and local < '2024-01-02 10:00:04'",
        "price = 0.1",
        "price >= 0.07 and price <> 0.35",
        "price > 0.051 and price < 0.1999",
        "price < -0.949",
        "big > 17.5 and big <= 300",
        "big is not null and price <= 0.5",
    ]
    subscriptions = session.spark.createDataFrame(list(enumerate(conditions)), "id int, filter string")
    pairs = {tuple(row) for row in spark.match(rows, subscriptions, keys=["row"]).collect()}
    cases = ", ".join(f"case when {condition} then {n} end" for n, condition in enumerate(conditions))
    found = rows.selectExpr("row", f"explode(array_compact(array({cases}))) as n").collect()
    assert {row.n for row in found} == set(range(len(conditions)))
    assert pairs == {(row.row, row.n) for row in found}


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ("day > '2024-13-01'", "subscription 1: 'day' is compared with '2024-13-01': not a date, such as"),
        (
            "day > 5",
            "subscription 1: 'day' is compared with 5, and its column is date: give text, such as '2024-01-02'",
        ),
        ("day like '2024%'", "subscription 1: 'day' is asked for a part (prefix), and its column is date"),
        ("price = 'x'", "subscription 1: 'price' is compared with 'x', and its column is decimal: give a number"),
        ("local > '2024-01-01 00:00+01:00'", "subscription 1: 'local' is compared with"),
    ],
)
def test_constants_that_do_not_fit_their_column(session: Session, filter: str, message: str) -> None:
    frame = session.spark.sql(
        "select 1 as row, current_date() as day, cast(1 as decimal(9,2)) as price, timestamp_ntz'2024-01-02' as local"
    )
    with pytest.raises(InputError) as caught:
        spark.match(frame, session.spark.createDataFrame([(1, filter)], "id int, filter string"))
    assert str(caught.value).startswith(message)


def test_more_subscriptions_than_fit_in_one_piece(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = session.spark.range(500).selectExpr("id as row", "id % 50 as n")
    subscriptions = session.spark.range(40).selectExpr("cast(id as int) as id", "concat('n = ', id) as filter")
    monkeypatch.setattr(import_module("octopia.pipeline.match_tables"), "PIECE_SUBSCRIPTIONS", 7)
    pieces = [tuple(row) for row in spark.match(rows, subscriptions, keys=["row"]).collect()]
    assert sorted(pieces) == [(row, row % 50) for row in range(500) if row % 50 < 40]


def test_a_stream_and_subscriptions_that_change(session: Session, tmp_path: Path) -> None:
    """Each batch meets the subscriptions of its moment, which are compiled only when they have changed."""
    spark_session = session.spark
    table, source = str(tmp_path / "subscriptions"), str(tmp_path / "in")

    def subscribe(*conditions: str) -> None:
        frame = spark_session.createDataFrame(list(enumerate(conditions)), "id int, filter string").coalesce(1)
        frame.write.mode("overwrite").parquet(table)

    changing = spark.Subscriptions(lambda: spark_session.read.parquet(table))
    got: list[tuple[int, int, int]] = []

    def take(batch: Any, number: int) -> None:
        got.extend((number, row.row, row.subscription) for row in spark.match(batch, changing, keys=["row"]).collect())

    def run(first: int) -> None:
        spark_session.range(first, first + 4).selectExpr("id as row").coalesce(1).write.mode("append").parquet(source)
        stream = spark_session.readStream.schema("row long").parquet(source)
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "c")).foreachBatch(take)
        assert writer.trigger(availableNow=True).start().awaitTermination(300)

    subscribe("row >= 2", "row < 1")
    run(0)
    run(4)
    subscribe("row >= 2", "row = 9 or row = 10")
    run(8)
    assert sorted(got) == [
        *((0, 0, 1), (0, 2, 0), (0, 3, 0)),
        *((1, row, 0) for row in range(4, 8)),
        *((2, 8, 0), (2, 9, 0), (2, 9, 1), (2, 10, 0), (2, 10, 1), (2, 11, 0)),
    ]
    assert changing.compiled == 2
    # A fixed set of subscriptions needs no foreachBatch.
    fixed = spark_session.createDataFrame([(7, "row >= 10")], "id int, filter string")
    stream = spark.match(spark_session.readStream.schema("row long").parquet(source), fixed)
    writer = stream.writeStream.format("memory").queryName("pairs").option("checkpointLocation", str(tmp_path / "d"))
    assert writer.trigger(availableNow=True).start().awaitTermination(300)
    assert sorted(tuple(row) for row in spark_session.table("pairs").collect()) == [(10, 7), (11, 7)]
