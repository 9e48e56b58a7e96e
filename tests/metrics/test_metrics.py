"""Metrics against values worked out by hand, and against plain Python over random traces."""

from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot

from octopia.errors import InputError, OctopiaError
from octopia.experiments.losses import JUDGED
from octopia.metrics import METRICS, Facts, Metric, run, values_of
from tests.metrics import brute
from tests.metrics.traces import Trace, hop, random_trace, write_trace

MS = 1_000_000


def found_in(folder: Path, facts: Facts) -> dict[str, Any]:
    """Numbers as part -> value, everything else as rows."""
    tables = run(folder, facts=facts)
    numbers: dict[str, Any] = {}
    for metric, part, value in values_of(tables):
        numbers.setdefault(metric, {})[part] = value
    rows = {name: [tuple(row.values()) for row in table.to_pylist()] for name, table in tables.items()}
    return {name: numbers.get(name, rows[name]) for name in tables}


def assert_same(name: str, value: Any, expected: Any) -> None:
    """Equal to the twelfth digit; None only where None is expected."""
    rows, wanted = ([*value.items()], [*expected.items()]) if isinstance(expected, dict) else (value, expected)
    assert len(rows) == len(wanted), name
    for row, want in zip(sorted(rows) if isinstance(expected, dict) else rows, sorted(wanted), strict=True):
        for one, other in zip(row, want, strict=True):
            close = other is None or isinstance(other, str)
            assert one == (other if close else pytest.approx(other, rel=1e-12, abs=1e-15)), (name, row, want)


@pytest.mark.parametrize("seed", range(12))
def test_all_metrics_are_what_plain_python_counts(seed: int, tmp_path: Path) -> None:
    trace = random_trace(seed)
    write_trace(tmp_path, trace)
    facts = Facts(
        publish_from_ns=700 * MS,
        publish_until_ns=5000 * MS,
        processor_base_ns=1 * MS,
        client_delay_ns=2 * MS,
        block_notifications=7,
        # in half of the traces the run becomes stable, in the other half it does not
        delay_bound_ns=(1990 if seed % 2 else 1000) * MS,
    )
    found = found_in(tmp_path, facts)
    assert list(found) == list(METRICS)
    for name, value in found.items():
        assert_same(f"{name}, seed {seed}", value, getattr(brute, name)(trace, facts.values()))


# Two regions of one broker each, a link 0 -> 1 and back. Times in ms: issued, handled for requests; queued, left,
# arrived, handled for hops. Client 0 is ordinary, client 1 high-rate, both at broker 0; clients 2 and 3 at broker 1.
BY_HAND: Trace = {
    "brokers": [{"broker": n, "region": "r", "cluster": n, "inner": False, "site": f"at {n}"} for n in (0, 1)],
    "clients": [
        {"client": 0, "name": "p0", "broker": 0},
        {"client": 1, "name": "high-rate", "broker": 0},
        {"client": 2, "name": "s0", "broker": 1},
        {"client": 3, "name": "s1", "broker": 1},
    ],
    "requests": [
        {"request": 0, "kind": "advertise", "client": 0, "broker": 0, "issued_ns": 0, "handled_ns": 3 * MS},
        {"request": 1, "kind": "advertise", "client": 1, "broker": 0, "issued_ns": 10 * MS, "handled_ns": 13 * MS},
        {"request": 2, "kind": "subscribe", "client": 2, "broker": 1, "issued_ns": 20 * MS, "handled_ns": 23 * MS},
        {"request": 3, "kind": "subscribe", "client": 3, "broker": 1, "issued_ns": 30 * MS, "handled_ns": 33 * MS},
        {"request": 4, "kind": "publish", "client": 0, "broker": 0, "issued_ns": 100 * MS, "handled_ns": 105 * MS},
        {"request": 5, "kind": "publish", "client": 1, "broker": 0, "issued_ns": 101 * MS, "handled_ns": 109 * MS},
        {"request": 6, "kind": "publish", "client": 1, "broker": 0, "issued_ns": 121 * MS, "handled_ns": 126 * MS},
    ],
    "hops": [
        # request 0: broker 1 stores it at 9 ms; a second copy at 12 ms is dropped; the one back to the host as well
        hop("advertise", 0, (0, 1), (3 * MS, 5 * MS, 6 * MS, 9 * MS)),
        hop("advertise", 0, (0, 1), (3 * MS, 7 * MS, 8 * MS, 12 * MS)),
        hop("advertise", 0, (1, 0), (9 * MS, 14 * MS, 15 * MS, 19 * MS)),
        # request 1: nobody else stores it
        # request 2: stored by broker 0 at 30 ms, which then says so: 39 ms
        hop("subscribe", 2, (1, 0), (23 * MS, 25 * MS, 26 * MS, 30 * MS)),
        hop("cib_set", 2, (0, 1), (30 * MS, 33 * MS, 34 * MS, 39 * MS)),
        # request 4: queued 105, left 115; request 5: queued 109, left 125; request 6: queued 126, left 131 and lost
        hop("notify", 4, (0, 1), (105 * MS, 115 * MS, 116 * MS, 120 * MS), queue=0),
        hop("notify", 5, (0, 1), (109 * MS, 125 * MS, 126 * MS, 132 * MS), queue=1),
        hop("notify", 6, (0, 1), (126 * MS, 131 * MS, 132 * MS, None), queue=0),
    ],
    "deliveries": [
        {"request": 4, "client": 2, "broker": 1, "hop": 1, "delivered_ns": 121 * MS, "subscriptions": 1},
        {"request": 4, "client": 3, "broker": 1, "hop": 1, "delivered_ns": 121 * MS, "subscriptions": 1},
    ],
    "queues": [
        {"at_ns": 50 * MS, "sender": 0, "receiver": 1, "queue": 9, "entered": 9, "left": 0},
        {"at_ns": 110 * MS, "sender": 0, "receiver": 1, "queue": 2, "entered": 7, "left": 5},
        {"at_ns": 110 * MS, "sender": 1, "receiver": 0, "queue": 5, "entered": 7, "left": 2},
    ],
    "table_sizes": [
        {"phase": "advertise", "at_ns": 19 * MS, "broker": 0, "srt": 2, "prt": 0},
        {"phase": "advertise", "at_ns": 19 * MS, "broker": 1, "srt": 1, "prt": 0},
        {"phase": "publish", "at_ns": 132 * MS, "broker": 0, "srt": 2, "prt": 1},
        {"phase": "publish", "at_ns": 132 * MS, "broker": 1, "srt": 1, "prt": 2},
    ],
}
FACTS = Facts(
    publish_from_ns=100 * MS,
    publish_until_ns=140 * MS,
    processor_base_ns=1 * MS,
    client_delay_ns=1 * MS,
    block_notifications=1,
    delay_bound_ns=21 * MS,
    window_ns=10 * MS,
)


def same(ms: float, number: int) -> dict[str, float]:
    """A spread of equal values."""
    return {"number": number, **dict.fromkeys(("mean", "p50", "p95", "p99", "maximum"), ms / 1000)}


def two(low: float, high: float) -> dict[str, float]:
    """A spread of two values, in ms."""
    middle, width = (low + high) / 2, high - low
    parts = {"mean": middle, "p50": middle, "p95": low + 0.95 * width, "p99": low + 0.99 * width, "maximum": high}
    return {"number": 2, **{part: value / 1000 for part, value in parts.items()}}


def test_metrics_of_a_trace_written_by_hand(tmp_path: Path) -> None:
    write_trace(tmp_path, BY_HAND)
    found = found_in(tmp_path, FACTS)
    expected: dict[str, Any] = {
        "advertisement_delay": two(3, 9),
        "subscription_delay": two(3, 10),
        "subscription_ready_delay": two(3, 19),
        "srt_entries": {"mean": 1.5, "maximum": 2, "total": 3},
        "prt_entries": {"mean": 1.5, "maximum": 2, "total": 3},
        "messages": {"advertise": 3, "all": 8, "cib_set": 1, "notify": 3, "subscribe": 1},
        "messages_caused": {"advertise": 3, "publish": 3, "subscribe": 2},
        "messages_per_request": {"advertise": 1.5, "publish": 1, "subscribe": 1},
        # each broker is at a site of its own
        "messages_between_sites": {"advertise": 3, "publish": 3, "subscribe": 2},
        "copies_between_sites": {"number": 3, "share": 1, "per_notification": 1},
        "publishing_messages": {"copies": 3, "confirmations": 0, "news": 0, "waits": 0},
        "notification_delay": same(21, 2),
        "in_order_delay": same(21, 2),
        "out_of_order": {"number": 0, "share": 0},
        "delay_over_time": [("longest", 0.0, 0.021), ("mean", 0.0, 0.021)],
        "high_rate_delay": {"number": 0, **dict.fromkeys(("mean", "p50", "p95", "p99", "maximum"))},
        "others_delay": same(21, 2),
        # 21 ms is not below 21 ms
        "under_bound": {"overall": 0, "high_rate": None, "others": 0},
        "max_delay": [("", 0.021, 0.021), ("", 0.021, 0.021)],
        # the last block reached the bound
        "stabilisation_time": {"seconds": None},
        "deliveries": {"number": 2, "per_notification": 2 / 3},
        "delivery_hops": {"mean": 1, "maximum": 1},
        # request 5 came to broker 1 and was delivered to nobody; request 6 never came
        "pure_forwards": {"number": 1, "share": 0.5, "per_notification": 1 / 3},
        # from 101 ms: request 4 is queued 10 ms, request 5 16 ms, request 6 5 ms; until 121 ms these are 10, 12 and 0
        "high_rate_queue": {"until_empty": 31 / 30, "while_sending": 22 / 20, "found": 0.5, "links": 1},
        "high_rate_queue_over_time": [("longest", 0.010, 2), ("mean", 0.010, 2)],
        "queue_over_time": [("longest", 0.010, 5), ("total", 0.010, 7)],
        "link_queues": [(0, 1, 3, 31 / 40, 2)],
        # nothing changed after publishing began
        **{name: [] for name in ("change_messages", "change_brokers", "change_inside", "change_delay")},
        "link_queue": {"mean": 31 / 40, "busiest": 31 / 40, "longest": 2},
        # windows of 10 ms: 100 to 110 two enter, 110 to 120 one leaves, 120 to 130 one enters and one leaves, then one
        # leaves
        "congestion_element": {"below": 0.02, "longest_below": 0.01, "above": 0.01},
        "congestion_element_over_time": [("largest", 0, 3), ("mean", 0, 1)],
        # nothing of the burst was delivered, and nobody told cases apart
        "burst_delay": [],
        "routing_cases": [],
        "routing_case_copies": [],
        "routing_case_saved": [],
    }
    # Published: at broker 0 from 101, 105 (the one before), 122 ms, for 4, 4 and 4 ms, 1 of them base. Received at
    # broker 1: 116 to 120, 126 to 132.
    expected["matching_delay"] = {"number": 5, "mean": 0.0034, "p50": 0.003, "p95": 0.0046, "p99": 0.00492}
    expected["matching_delay"]["maximum"] = 0.005
    for name, value in found.items():
        assert_same(name, value, expected[name])


def test_what_arrives_late_counts_as_out_of_order_and_holds_back_what_came_before_it(tmp_path: Path) -> None:
    """Four notifications of one publisher to one client, issued at 0, 1, 2, 3 s; the second comes last, at 9 s."""
    at = {4: 1, 5: 9, 6: 4, 7: 5}
    trace: Trace = {
        "clients": BY_HAND["clients"],
        "requests": [
            {"request": n, "kind": "publish", "client": 0, "broker": 0, "issued_ns": (n - 4) * 1000 * MS} for n in at
        ],
        "deliveries": [
            {"request": n, "client": 2, "broker": 1, "hop": 1, "delivered_ns": s * 1000 * MS, "subscriptions": 1}
            for n, s in at.items()
        ],
        "hops": [
            hop("confirm", -1, (1, 0), (9000 * MS, 9001 * MS, 9002 * MS, 9003 * MS)),
            hop("link_news", -1, (1, 0), (9000 * MS, 9001 * MS, 9002 * MS, None)),
            hop("link_news", -1, (0, 1), (9000 * MS, 9001 * MS, 9002 * MS, 9003 * MS)),
        ],
    }
    write_trace(tmp_path, trace)
    found = found_in(tmp_path, Facts())
    assert found["out_of_order"] == {"number": 1, "share": 0.25}
    # complete at 1, 9, 9 and 9 s
    assert found["in_order_delay"]["mean"] == (1 + 8 + 7 + 6) / 4
    assert found["in_order_delay"]["maximum"] == 8
    assert found["notification_delay"]["mean"] == (1 + 8 + 2 + 2) / 4
    assert found["publishing_messages"] == {"copies": 0, "confirmations": 1, "news": 2, "waits": 0}
    means = [(at_s, value) for part, at_s, value in found["delay_over_time"] if part == "mean"]
    assert means == [(1, 1), (4, 2), (5, 2), (9, 8)]


def test_a_run_that_is_never_late_is_stable_from_the_start(tmp_path: Path) -> None:
    write_trace(tmp_path, BY_HAND)
    facts = Facts(publish_from_ns=100 * MS, publish_until_ns=140 * MS, delay_bound_ns=22 * MS)
    assert values_of(run(tmp_path, ["stabilisation_time"], facts=facts)) == [("stabilisation_time", "seconds", 0.0)]


def test_an_empty_trace_gives_no_numbers_and_no_errors(tmp_path: Path) -> None:
    write_trace(tmp_path, {})
    values = values_of(run(tmp_path, facts=Facts()))
    assert {value.value for value in values} == {None, 0.0}


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_the_text_is_sql_for_both_engines_and_uses_no_word_that_either_keeps(metric: Any) -> None:
    for dialect in ("duckdb", "spark"):
        parsed = sqlglot.parse_one(metric.sql, read=dialect)
        columns = {column.name for column in parsed.find_all(sqlglot.exp.Column)}
        assert not columns & {"row", "left", "inner"}
    assert "`" not in metric.sql
    assert '"' not in metric.sql


def test_same_trace_same_bytes(tmp_path: Path) -> None:
    write_trace(tmp_path, random_trace(99))
    facts = Facts(publish_until_ns=10**10)
    one, other = run(tmp_path, facts=facts), run(tmp_path, facts=facts, threads=4)
    assert {name: table.to_pylist() for name, table in one.items()} == {n: t.to_pylist() for n, t in other.items()}


def test_what_is_wrong_is_said_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no metric is called 'mesages' \(did you mean messages\?\)"):
        run(tmp_path, ["mesages"], facts=Facts())
    with pytest.raises(InputError, match=r"does not hold a run: there is no run\.json"):
        run(tmp_path)
    with pytest.raises(InputError, match=r"hops\.parquet: cannot be read"):
        run(tmp_path, facts=Facts())
    write_trace(tmp_path, {})
    with pytest.raises(InputError, match="DuckDB does not take these settings"):
        run(tmp_path, facts=Facts(), memory_max="lots")


def test_without_duckdb_the_fix_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(OctopiaError, match=r"pip install 'octopia\[sim\]'"):
        run(tmp_path, facts=Facts())


def test_duckdb_draws_no_bar_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trace(tmp_path, {})
    connect = duckdb.connect

    def as_for_a_person(**options: Any) -> duckdb.DuckDBPyConnection:
        connection = connect(**options)
        connection.execute("SET enable_progress_bar = true")
        return connection

    monkeypatch.setattr(duckdb, "connect", as_for_a_person)
    asked = "SELECT current_setting('enable_progress_bar') AS drawn"
    metric = Metric(name="bar", title="", unit="", definition="", shape="table", sql=asked)
    monkeypatch.setitem(METRICS, "bar", metric)
    assert run(tmp_path, ["bar"], facts=Facts())["bar"].to_pylist() == [{"drawn": False}]


def test_changes_by_hand(tmp_path: Path) -> None:
    """Brokers a0 a1 b0 b1. A subscription at a0 goes to b0, which tells b1; one at a1 goes nowhere and takes longer."""
    places = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    asked = {"client": 0, "broker": 0, "issued_ns": 100 * MS, "handled_ns": 101 * MS}
    trace: Trace = {
        "brokers": [{"broker": n, "region": r, "cluster": c, "inner": False} for n, (r, c) in enumerate(places)],
        "clients": [{"client": n, "name": f"c{n}", "broker": n} for n in range(2)],
        "requests": [
            {**asked, "request": 0, "kind": "subscribe", "issued_ns": 99 * MS},  # before publishing
            {**asked, "request": 1, "kind": "subscribe"},
            {**asked, "request": 2, "kind": "subscribe", "client": 1, "broker": 1, "handled_ns": 109 * MS},
            {**asked, "request": 3, "kind": "unadvertise"},
            {**asked, "request": 4, "kind": "publish"},
        ],
        "hops": [
            hop("subscribe", 0, (0, 2), (1, 2, 3, 4)),
            hop("subscribe", 1, (0, 2), (101 * MS, 102 * MS, 103 * MS, 104 * MS)),
            hop("cib_set", 1, (2, 3), (104 * MS, 105 * MS, 106 * MS, 107 * MS)),
            hop("unadvertise", 3, (0, 1), (101 * MS, 102 * MS, 103 * MS, 106 * MS)),
            hop("unadvertise", 3, (0, 1), (101 * MS, 102 * MS, 103 * MS, None)),
            hop("notify", 4, (0, 1), (101 * MS, 102 * MS, 103 * MS, 106 * MS)),
        ],
    }
    write_trace(tmp_path, trace)
    names = ("change_messages", "change_brokers", "change_inside", "change_delay")
    found: dict[str, dict[str, float | None]] = {name: {} for name in names}
    for name, part, value in values_of(run(tmp_path, names, facts=FACTS)):
        found[name][part] = value
    assert found == {
        "change_messages": {
            "subscribe": 1, "subscribe_cluster": 0.5, "subscribe_region": 0, "subscribe_elsewhere": 0.5,
            "unadvertise": 2, "unadvertise_cluster": 0, "unadvertise_region": 2, "unadvertise_elsewhere": 0,
        },
        "change_brokers": {
            "subscribe": 2, "subscribe_cluster": 1.5, "subscribe_region": 0, "subscribe_elsewhere": 0.5,
            "unadvertise": 2, "unadvertise_cluster": 1, "unadvertise_region": 1, "unadvertise_elsewhere": 0,
        },
        "change_inside": {"subscribe": 0.5, "unadvertise": 1},
        "change_delay": {"subscribe": pytest.approx(0.008), "unadvertise": pytest.approx(0.006)},
    }  # fmt: skip


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "it's [a] *run*; --"
    write_trace(folder, BY_HAND)
    try:
        found = values_of(run(folder, ["deliveries"], facts=FACTS))
    except InputError as error:
        pytest.fail(str(error))
    assert found[0].value == 2.0


def test_the_reference_page_defines_every_metric_in_the_same_words() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    lines = [f"| `{metric.name}` | {metric.unit} | {metric.definition} |" for metric in METRICS.values()]
    table = "\n".join(["| metric | unit | |", "| --- | --- | --- |", *lines])
    assert f"<!-- metrics: begin -->\n{table}\n<!-- metrics: end -->" in page, f"the page must hold\n{table}"
    for metric in JUDGED.values():
        line = f"| `{metric.name}` | {metric.unit} | {metric.definition} |"
        assert line in page, f"the page must hold {line}"
