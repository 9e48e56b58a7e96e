"""Workloads: guarantees for clients, checked row by row with the language itself, and one seed, one workload."""

from collections import Counter
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from octopia.errors import InputError
from octopia.language import conforms, matches, overlaps
from octopia.topology import Scot, parse_tree
from octopia.workload import (
    NOTIFICATIONS_SCHEMA,
    QUOTES_SCHEMA,
    TABLE_SCHEMAS,
    BurstSpec,
    ChurnSpec,
    Workload,
    WorkloadSpec,
    draw_symbols,
    interested_subscribers,
    make_market,
    make_workload,
    notifications_of,
    read_quotes,
    subscription_filters,
    synthetic_quotes,
    workload_from_tables,
    workload_tables,
)
from octopia.workload.workload import HIGH_RATE_CLIENT
from tests.workload.places import PADRES, SP500
from tests.workload.rows import row_notifications

OVERLAY = Scot(parse_tree("evaluation"), 5)
QUOTES = synthetic_quotes(11, symbols=60, days=80)
SMALL = WorkloadSpec(publishers=50, subscribers=100, notifications_per_publisher=40, seed=3)
BURST = BurstSpec(notifications=200, interested_share=0.1)


def brute(workload: Workload) -> list[list[bool]]:
    """Every subscription against every notification, one by one."""
    rows = list(row_notifications(workload.notifications))
    return [[matches(registration.filter, row) for row in rows] for registration in workload.subscriptions]


def interested_in(workload: Workload, publisher: int) -> list[int]:
    """The subscriptions that match any notification of this publisher."""
    numbers = sorted(set(workload.publications.row[workload.publications.publisher == publisher].tolist()))
    rows = list(row_notifications(workload.notifications.take(numbers)))
    return [n for n, each in enumerate(workload.subscriptions) if any(matches(each.filter, row) for row in rows)]


def symbols_of(workload: Workload) -> list[str]:
    return [
        next(p.value for p in registration.filter.conjunctions[0] if p.attribute == "symbol")  # type: ignore[misc]
        for registration in workload.advertisements
    ]


# ---- notifications


def test_the_ten_attributes_of_a_notification() -> None:
    days = pa.array([0, 17_569], pa.int32()).cast(pa.date32())
    values: list[Any] = [days, ["A", "B"], [10.0, 3.0], [11.0, 3.0], [8.0, 1.5], [9.0, 3.0], [100, 2**60]]
    quotes = pa.table([pa.array(v) for v in values], schema=QUOTES_SCHEMA)
    expected = [
        {"class": "STOCK", "symbol": "A", "date": "1970-01-01", "open": 10.0, "high": 11.0, "low": 8.0, "close": 9.0,
         "volume": 100, "open_close_pct": -10.0, "high_low_pct": 37.5},
        {"class": "STOCK", "symbol": "B", "date": "2018-02-07", "open": 3.0, "high": 3.0, "low": 1.5, "close": 3.0,
         "volume": 2**60, "open_close_pct": 0.0, "high_low_pct": 100.0},
    ]  # fmt: skip
    made = notifications_of(quotes)
    assert made.to_pylist() == expected
    assert [n.to_dict() for n in row_notifications(made)] == expected
    assert made.schema.equals(NOTIFICATIONS_SCHEMA)
    batch = notifications_of(quotes.to_batches()[0])
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pylist() == expected


def test_percentages_are_rounded_to_four_decimals_and_zero_has_no_sign() -> None:
    made = notifications_of(QUOTES)
    for row, quote in zip(made.to_pylist(), QUOTES.to_pylist(), strict=True):
        assert row["open_close_pct"] == pytest.approx(100 * (quote["close"] / quote["open"] - 1), abs=0.500001e-4)
        assert row["high_low_pct"] == pytest.approx(100 * (quote["high"] / quote["low"] - 1), abs=0.500001e-4)
        assert len(repr(row["high_low_pct"]).partition(".")[2]) <= 4
    assert "-0.0" not in {repr(v) for v in made["open_close_pct"].to_pylist()}


# ---- publishers


def test_every_publication_conforms_to_its_advertisement_and_is_of_its_symbol() -> None:
    workload = make_workload(SMALL, OVERLAY, QUOTES, [BURST])
    rows = list(row_notifications(workload.notifications))
    pairs = set(zip(workload.publications.publisher.tolist(), workload.publications.row.tolist(), strict=True))
    named = symbols_of(workload)
    for publisher, row in pairs:
        assert conforms(rows[row], workload.advertisements[publisher].filter)
        assert rows[row]["symbol"] == named[publisher]
    assert len(set(named)) == 51, "a symbol each"
    assert {row for _, row in pairs} == set(range(len(rows))), "every notification is published"


def test_publications_are_those_of_each_publisher_at_even_intervals_in_order_of_dates() -> None:
    workload = make_workload(SMALL, OVERLAY, QUOTES, [BURST])
    sent = workload.publications
    assert len(sent) == 50 * 40 + 200
    keys = list(zip(sent.at_ns.tolist(), sent.publisher.tolist(), strict=True))
    assert keys == sorted(set(keys))
    for publisher in range(51):
        at = sent.at_ns[sent.publisher == publisher]
        row = sent.row[sent.publisher == publisher].tolist()
        period, count, rows = (600_000, 200, 80) if publisher == 50 else (10**9, 40, 40)
        assert len(at) == count
        assert 0 <= at[0] < period
        assert set(np.diff(at).tolist()) == {period}
        # the high-rate publisher has 80 notifications and sends 200: it starts again
        assert row == [row[0] + n % rows for n in range(count)]
    assert len(set(sent.at_ns[:50].tolist())) == 50, "not all in the same instant"
    with pytest.raises(ValueError, match="read-only"):
        sent.row[0] = 1


def test_notifications_are_distinct_and_sorted_by_symbol_and_date() -> None:
    workload = make_workload(SMALL, OVERLAY, QUOTES)
    rows = workload.notifications.to_pylist()
    assert len(rows) == 50 * 40
    assert all((a["symbol"], a["date"]) < (b["symbol"], b["date"]) for a, b in pairwise(rows))
    made = {(q["symbol"], str(q["date"])): q["close"] for q in QUOTES.to_pylist()}
    assert all(made[row["symbol"], row["date"]] == row["close"] for row in rows)


def test_more_publishers_than_symbols_share() -> None:
    workload = make_workload(replace(SMALL, publishers=130), OVERLAY, QUOTES)
    assert Counter(Counter(symbols_of(workload)).values()) == {2: 50, 3: 10}
    assert workload.notifications.num_rows == 60 * 40
    with_burst = make_workload(replace(SMALL, publishers=130), OVERLAY, QUOTES, [BURST])
    named = symbols_of(with_burst)
    assert named.count(named[-1]) == 1, "the high-rate publisher has its symbol for itself"


# ---- subscriptions


@pytest.mark.parametrize("shape", ["symbols", "ranges", "mixed"])
@pytest.mark.parametrize("bursts", [[], [BURST]])
def test_selectivity_is_measured_and_near_what_was_wanted(shape: Any, bursts: list[BurstSpec]) -> None:
    workload = make_workload(replace(SMALL, shape=shape, selectivity=0.1), OVERLAY, QUOTES, bursts)
    hits = brute(workload)
    shares = [sum(row) / len(row) for row in hits]
    assert [s.selectivity for s in workload.subscriptions] == shares
    summary = workload.summary()
    assert summary.subscriptions == pytest.approx((sum(shares) / 100, min(shares), max(shares)))
    extra = 0.0 if not bursts else 80 / workload.notifications.num_rows
    assert 0.08 - extra < min(shares)
    assert max(shares) < 0.13 + extra
    assert summary.subscriptions.mean == pytest.approx(0.1, abs=0.01)
    rows = list(row_notifications(workload.notifications))
    for registration in workload.advertisements:
        assert registration.selectivity == sum(matches(registration.filter, row) for row in rows) / len(rows)


def test_a_subscription_by_symbols_overlaps_its_share_of_the_advertisements() -> None:
    workload = make_workload(replace(SMALL, selectivity=0.06), OVERLAY, QUOTES)
    for subscription in workload.subscriptions:
        assert sum(overlaps(a.filter, subscription.filter) for a in workload.advertisements) == 3
        assert subscription.selectivity == 0.06
    assert len({s.filter for s in workload.subscriptions}) > 90


def test_less_than_one_symbol_is_cut_by_the_price() -> None:
    workload = make_workload(replace(SMALL, selectivity=0.005), OVERLAY, QUOTES)
    for subscription in workload.subscriptions:
        (conjunction,) = subscription.filter
        assert sorted(p.attribute for p in conjunction) == ["class", "close", "close", "symbol"]
        assert 0.005 <= subscription.selectivity <= 0.0075
    everything = make_workload(replace(SMALL, selectivity=1, subscribers=2), OVERLAY, QUOTES)
    assert [s.selectivity for s in everything.subscriptions] == [1, 1]


@pytest.mark.parametrize("shape", ["ranges", "mixed"])
def test_ranges_ask_for_one_or_two_attributes(shape: Any) -> None:
    workload = make_workload(replace(SMALL, shape=shape), OVERLAY, QUOTES)
    kinds = Counter(
        ("symbol" in s.filter.attributes, len(set(s.filter.attributes) - {"class", "symbol"}))
        for s in workload.subscriptions
    )
    wanted = {(False, 1), (False, 2)} if shape == "ranges" else {(False, 1), (False, 2), (True, 0), (True, 1)}
    assert set(kinds) == wanted
    assert min(kinds.values()) >= 8


# ---- the burst


@pytest.mark.parametrize("shape", ["symbols", "ranges", "mixed"])
@pytest.mark.parametrize("placement", ["random", "edge", "spread"])
@pytest.mark.parametrize("seed", range(4))
def test_the_burst_interests_exactly_its_share_in_all_clusters_and_not_at_its_own_broker(
    shape: Any, placement: Any, seed: int
) -> None:
    spec = replace(SMALL, shape=shape, placement=placement, seed=seed)
    workload = make_workload(spec, OVERLAY, QUOTES, [BURST])
    assert workload.high_rate == (50,)
    publisher = workload.advertisements[50]
    assert publisher.client == "high-rate"
    interested = interested_in(workload, 50)
    assert len(interested) == 10
    assert all(overlaps(publisher.filter, workload.subscriptions[n].filter) == (n in interested) for n in range(100))
    hosts = [workload.subscriptions[n].broker for n in interested]
    assert publisher.broker not in hosts
    assert {broker.cluster for broker in hosts} == set(range(5))
    assert sorted(interested_subscribers(spec, [BURST])[0]) == interested
    if placement == "edge":
        assert all(OVERLAY.is_edge(r.broker) for r in (*workload.advertisements, *workload.subscriptions))


def test_a_burst_leaves_the_other_clients_as_they_were() -> None:
    without, with_burst = make_workload(SMALL, OVERLAY, QUOTES), make_workload(SMALL, OVERLAY, QUOTES, [BURST])
    (interested,) = interested_subscribers(SMALL, [BURST])
    for n, (one, other) in enumerate(zip(without.subscriptions, with_burst.subscriptions, strict=True)):
        if n not in interested:
            assert (one.client, one.broker, one.id, one.filter) == (other.client, other.broker, other.id, other.filter)
    assert [(a.broker, a.filter) for a in without.advertisements] == [
        (a.broker, a.filter) for a in with_burst.advertisements[:-1]
    ]


@pytest.mark.parametrize("shape", ["symbols", "ranges", "mixed"])
@pytest.mark.parametrize("placement", ["random", "edge", "spread"])
def test_several_bursts_one_per_cluster_each_with_subscribers_of_its_own(shape: Any, placement: Any) -> None:
    spec = replace(SMALL, shape=shape, placement=placement)
    bursts = [replace(BURST, notifications=40, rate_per_minute=1000 * (n + 1), start_s=n / 2) for n in range(5)]
    workload = make_workload(spec, OVERLAY, QUOTES, bursts)
    assert workload.high_rate == (50, 51, 52, 53, 54)
    publishers = workload.advertisements[50:]
    assert [p.client for p in publishers] == ["high-rate", "high-rate-2", "high-rate-3", "high-rate-4", "high-rate-5"]
    assert {p.broker.cluster for p in publishers} == set(range(5))
    assert len(set(symbols_of(workload))) == 55, "each has its symbol for itself"
    published = workload.publications
    seen: list[int] = []
    for n, publisher in enumerate(publishers):
        own = published.publisher == 50 + n
        # at even intervals, within the first period after its start
        period = 60_000_000_000 // (1000 * (n + 1))
        first = int(published.at_ns[own][0]) - n * 500_000_000
        assert 0 <= first < period
        assert np.diff(published.at_ns[own]).tolist() == [period] * 39
        interested = interested_in(workload, 50 + n)
        assert sorted(interested_subscribers(spec, bursts)[n]) == interested
        assert len(interested) == 10
        hosts = [workload.subscriptions[s].broker for s in interested]
        assert publisher.broker not in hosts
        assert {broker.cluster for broker in hosts} == set(range(5))
        seen += interested
    assert len(set(seen)) == 50, "nobody wants two"


def test_the_first_burst_is_the_same_however_many_follow() -> None:
    one = make_workload(SMALL, OVERLAY, QUOTES, [BURST])
    three = make_workload(SMALL, OVERLAY, QUOTES, [BURST] * 3)
    assert [(a.client, a.broker, a.filter) for a in three.advertisements[:51]] == [
        (a.client, a.broker, a.filter) for a in one.advertisements
    ]
    (interested,) = interested_subscribers(SMALL, [BURST])
    assert interested_subscribers(SMALL, [BURST] * 3)[0] == interested
    for number in interested:
        assert three.subscriptions[number].broker == one.subscriptions[number].broker
    mine, theirs = one.publications, three.publications
    assert theirs.at_ns[theirs.publisher == 50].tolist() == mine.at_ns[mine.publisher == 50].tolist()


def test_a_burst_in_a_cluster_of_choice_and_more_bursts_than_clusters() -> None:
    asked = [replace(BURST, notifications=5, interested_share=0.05, cluster=cluster) for cluster in (3, None, 3)]
    hosts = [a.broker for a in make_workload(SMALL, OVERLAY, QUOTES, asked).advertisements[50:]]
    usual = make_workload(SMALL, OVERLAY, QUOTES, [replace(BURST, notifications=5)] * 3).advertisements[50:]
    assert [host.region for host in hosts] == [a.broker.region for a in usual]
    assert [host.cluster for host in hosts][::2] == [3, 3]
    assert hosts[1].cluster != 3
    many = make_workload(SMALL, OVERLAY, QUOTES, [replace(BURST, notifications=5, interested_share=0.05)] * 8)
    clusters = [a.broker.cluster for a in many.advertisements[50:]]
    assert set(clusters[:5]) == set(range(5))
    assert len(clusters) == 8


def test_bursts_that_cannot_be_placed() -> None:
    with pytest.raises(InputError, match="cluster is 5: the overlay has the clusters 0 to 4"):
        make_workload(SMALL, OVERLAY, QUOTES, [replace(BURST, cluster=5)])
    with pytest.raises(InputError, match="3 bursts interest 120 subscribers, each another one, and there are 100"):
        make_workload(SMALL, OVERLAY, QUOTES, [replace(BURST, interested_share=0.4)] * 3)
    with pytest.raises(InputError, match="3 symbols, at least 4 are needed"):
        make_workload(SMALL, OVERLAY, synthetic_quotes(1, symbols=3, days=5), [BURST] * 3)
    with pytest.raises(InputError, match="4 subscribers are interested in the burst, and each of the 5 clusters"):
        make_workload(replace(SMALL, subscribers=40), OVERLAY, QUOTES, [BURST])
    with pytest.raises(InputError, match="has no broker for the burst's subscribers"):
        make_workload(SMALL, Scot(parse_tree("path:1"), 3), QUOTES, [BURST])
    with pytest.raises(InputError, match="1 symbols, at least 2 are needed"):
        make_workload(SMALL, OVERLAY, synthetic_quotes(1, symbols=1, days=5), [BURST])


# ---- placement and seeds


def test_rules_of_placement() -> None:
    spread = make_workload(replace(SMALL, placement="spread"), OVERLAY, QUOTES)
    assert [s.broker for s in spread.subscriptions] == [OVERLAY.brokers[n % 70] for n in range(100)]
    assert [a.broker for a in spread.advertisements] == list(OVERLAY.brokers[:50])
    edge = make_workload(replace(SMALL, placement="edge", subscribers=2000), OVERLAY, QUOTES)
    counts = Counter(s.broker for s in edge.subscriptions)
    assert set(counts) == {broker for broker in OVERLAY.brokers if OVERLAY.is_edge(broker)}
    anywhere = make_workload(replace(SMALL, subscribers=7000), OVERLAY, QUOTES)
    counts = Counter(s.broker for s in anywhere.subscriptions)
    assert set(counts) == set(OVERLAY.brokers)
    # five deviations of a binomial of 7,000 at one in 70
    assert max(abs(count - 100) for count in counts.values()) < 50


@pytest.mark.parametrize("shape", ["symbols", "ranges", "mixed"])
def test_more_subscribers_leave_the_first_as_they_were(shape: Any) -> None:
    few = make_workload(replace(SMALL, shape=shape, subscribers=30), OVERLAY, QUOTES)
    many = make_workload(replace(SMALL, shape=shape, subscribers=90), OVERLAY, QUOTES)
    assert many.subscriptions[:30] == few.subscriptions
    assert many.advertisements == few.advertisements
    # and any part of them can be made alone
    spec = replace(SMALL, shape=shape)
    symbols = draw_symbols(spec, QUOTES["symbol"].to_pylist())
    part = subscription_filters(spec, symbols, make_market(spec, symbols, QUOTES), range(30, 90))
    assert part == [s.filter for s in many.subscriptions[30:]]


def test_more_publishers_leave_the_first_as_they_were() -> None:
    few = make_workload(replace(SMALL, publishers=20), OVERLAY, QUOTES)
    many = make_workload(SMALL, OVERLAY, QUOTES)
    assert [(a.broker, a.filter) for a in many.advertisements[:20]] == [
        (a.broker, a.filter) for a in few.advertisements
    ]


def test_neither_the_order_of_the_quotes_nor_quotes_of_others_matter() -> None:
    workload = make_workload(SMALL, OVERLAY, QUOTES, [BURST])
    order = np.random.default_rng(1).permutation(QUOTES.num_rows)
    shuffled = pa.concat_tables([QUOTES.take(pa.array(order[:999])), QUOTES.take(pa.array(order[999:]))])
    assert make_workload(SMALL, OVERLAY, shuffled, [BURST]).equals(workload)
    names = QUOTES["symbol"].unique().to_pylist()
    drawn = draw_symbols(SMALL, names, [BURST])
    only = QUOTES.filter(pa.array([s in drawn.every for s in QUOTES["symbol"].to_pylist()]))
    assert only.num_rows == 51 * 80
    assert make_workload(SMALL, OVERLAY, only, [BURST], symbols=names).equals(workload)
    assert not make_workload(replace(SMALL, seed=4), OVERLAY, QUOTES, [BURST]).equals(workload)


def test_the_same_for_ever() -> None:
    """A golden workload: whoever changes this changes every result that names its seed."""
    workload = make_workload(replace(SMALL, shape="mixed"), OVERLAY, QUOTES, [BURST])
    lines = [f"{r.client} {r.broker} {r.id} {r.filter}" for r in (*workload.advertisements, *workload.subscriptions)]
    digest = sha256("\n".join(lines).encode())
    digest.update(np.stack([workload.publications.at_ns, workload.publications.row]).astype("<i8").tobytes())
    assert digest.hexdigest() == "8fefffb0fa5b4accd98ae002cfd4f4c0fac36ca384fa71fec89a54b0b6e32944"


# ---- real quotes


@pytest.mark.skipif(not SP500.exists(), reason="the real quotes are not there")
@pytest.mark.parametrize("shape", ["symbols", "ranges", "mixed"])
def test_a_workload_of_real_quotes(shape: Any) -> None:
    quotes = read_quotes(SP500).quotes
    spec = WorkloadSpec(publishers=500, subscribers=300, shape=shape, notifications_per_publisher=100)
    workload = make_workload(spec, OVERLAY, quotes, [BurstSpec(notifications=1000)])
    assert workload.notifications.num_rows == 501 * 26
    assert workload.summary().subscriptions.mean == pytest.approx(0.02, abs=0.001)
    rows = list(row_notifications(workload.notifications))
    pairs = set(zip(workload.publications.publisher.tolist(), workload.publications.row.tolist(), strict=True))
    assert len(pairs) == 501 * 26
    assert all(conforms(rows[row], workload.advertisements[publisher].filter) for publisher, row in pairs)


@pytest.mark.skipif(not PADRES.exists(), reason="the real quotes are not there")
@pytest.mark.parametrize("shape", ["ranges", "mixed"])
def test_many_equal_values_do_not_spoil_the_selectivity(shape: Any) -> None:
    """In these quotes a sixth of the days end as they began, and many have no trade at all."""
    quotes = read_quotes(PADRES).quotes
    spec = WorkloadSpec(publishers=100, notifications_per_publisher=1000, shape=shape)
    summary = make_workload(spec, OVERLAY, quotes).summary()
    assert summary.subscriptions.mean == pytest.approx(0.02, abs=0.001)
    assert summary.subscriptions.most < 0.03


# ---- changes

CHURN = ChurnSpec(changes_per_minute=300, advertisements_share=0.25)


@pytest.mark.parametrize("bursts", [[], [BURST]])
def test_changes_take_turns_and_name_what_is_held(bursts: list[BurstSpec]) -> None:
    """Played one by one: who withdraws holds it, who registers holds nothing, and so nearly all stay registered."""
    before = make_workload(SMALL, OVERLAY, QUOTES, bursts)
    workload = make_workload(SMALL, OVERLAY, QUOTES, bursts, churn=CHURN)
    assert (workload.advertisements, workload.subscriptions) == (before.advertisements, before.subscriptions)
    moments = [change.at_ns for change in workload.changes]
    assert moments == sorted(moments)
    assert 0 <= moments[0] <= moments[-1] < SMALL.notifications_per_publisher * 10**9
    assert Counter(change.kind for change in workload.changes) == {
        "unadvertise": 25, "advertise": 25, "unsubscribe": 75, "subscribe": 75
    }  # fmt: skip
    first = {"advertise": workload.advertisements, "subscribe": workload.subscriptions}
    for kind, registered in first.items():
        held, ids = {each.client: each for each in registered}, {each.id for each in registered}
        places = {each.client: each.broker for each in registered}
        for change in workload.changes:
            each = change.registration
            if change.kind == f"un{kind}":
                assert held.pop(each.client) == each
                assert len(held) == len(registered) - 1
            elif change.kind == kind:
                assert each.client not in held
                assert each.id not in ids, "an id stands for one filter"
                assert places[each.client] == each.broker
                held[each.client] = each
                ids.add(each.id)
        assert HIGH_RATE_CLIENT not in {c.registration.client for c in workload.changes}
    fresh = [change.registration for change in workload.changes if change.kind == "subscribe"]
    rows = list(row_notifications(workload.notifications))
    for each in fresh:
        share = sum(matches(each.filter, row) for row in rows)
        assert each.selectivity == share / workload.notifications.num_rows
    assert fresh[0].filter not in {each.filter for each in workload.subscriptions if each.client == fresh[0].client}


def test_who_advertises_nothing_publishes_nothing() -> None:
    before = make_workload(SMALL, OVERLAY, QUOTES)
    workload = make_workload(SMALL, OVERLAY, QUOTES, churn=CHURN)
    kept = []
    all_of = before.publications
    for at_ns, who, row in zip(all_of.at_ns.tolist(), all_of.publisher.tolist(), all_of.row.tolist(), strict=True):
        client = before.advertisements[who].client
        own = [c for c in workload.changes if c.registration.client == client and c.at_ns <= at_ns]
        if not own or own[-1].kind == "advertise":
            kept.append((at_ns, who, row))
    after = workload.publications
    assert list(zip(after.at_ns.tolist(), after.publisher.tolist(), after.row.tolist(), strict=True)) == kept
    assert 0 < len(kept) < len(before.publications)


def test_a_churn_out_of_bounds_is_refused() -> None:
    for churn, words in (
        ({"changes_per_minute": -1}, "changes_per_minute is -1"),
        ({"changes_per_minute": float("nan")}, "changes_per_minute is nan"),
        ({"advertisements_share": 1.5}, "advertisements_share is 1.5"),
    ):
        with pytest.raises(InputError, match=words):
            ChurnSpec(**churn)
    with pytest.raises(InputError, match="lower changes_per_minute"):
        make_workload(SMALL, OVERLAY, QUOTES, churn=ChurnSpec(10**9))
    assert make_workload(SMALL, OVERLAY, QUOTES, churn=ChurnSpec(0)).changes == ()
    nobody = replace(SMALL, subscribers=0)
    assert make_workload(nobody, OVERLAY, QUOTES, churn=ChurnSpec(60, 0)).changes == ()


# ---- as tables


@pytest.mark.parametrize("bursts", [[], [BURST]])
@pytest.mark.parametrize("shape", ["symbols", "ranges", "mixed"])
def test_tables_there_and_back_in_any_order(tmp_path: Path, shape: Any, bursts: list[BurstSpec]) -> None:
    churn = CHURN if bursts else None
    workload = make_workload(replace(SMALL, shape=shape), OVERLAY, QUOTES, bursts, churn=churn)
    tables = workload_tables(workload)
    assert {name: table.schema for name, table in tables.items()} == dict(TABLE_SCHEMAS)
    assert workload_from_tables(tables).equals(workload)
    back = {}
    for name, table in tables.items():
        order = np.random.default_rng(1).permutation(table.num_rows)
        pq.write_table(table.take(pa.array(order)), tmp_path / f"{name}.parquet", row_group_size=100)
        back[name] = pq.read_table(tmp_path / f"{name}.parquet")
    assert workload_from_tables(back).equals(workload)
    assert workload_from_tables(back).high_rate == ((50,) if bursts else ())


def test_a_difference_in_any_part_is_seen() -> None:
    workload = make_workload(SMALL, OVERLAY, QUOTES, [BURST])
    tables = workload_tables(workload)
    for name, column in (("publishers", "filter"), ("subscribers", "client"), ("publications", "at_ns")):
        others = dict(tables)
        place = others[name].schema.names.index(column)
        values = others[name][column].to_pylist()
        values[0] = values[1] if column == "filter" else type(values[0])("7")
        kind = others[name].schema.field(place)
        others[name] = others[name].set_column(place, kind, pa.array(values, kind.type))
        assert not workload_from_tables(others).equals(workload), name


def test_tables_that_are_none(tmp_path: Path) -> None:
    tables = workload_tables(make_workload(SMALL, OVERLAY, QUOTES))
    with pytest.raises(InputError, match="no table 'publishers'"):
        workload_from_tables({})
    with pytest.raises(InputError, match="table 'subscribers' of the workload has no column 'filter'"):
        workload_from_tables({**tables, "subscribers": tables["subscribers"].drop_columns(["filter"])})


# ---- what is refused


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("publishers", 0, "publishers is 0: give 1 to 1,000,000"),
        ("publishers", 1.5, "publishers is 1.5: give a whole number"),
        ("publishers", True, "publishers is True: give a whole number"),
        ("subscribers", -1, "subscribers is -1: give 0 to"),
        ("selectivity", 0, "selectivity is 0: give a share above 0"),
        ("selectivity", float("nan"), "selectivity is nan"),
        ("selectivity", 2, "for example 0.02 for 2 %"),
        ("shape", "symbol", "shape is 'symbol': give symbols or ranges or mixed .did you mean symbols"),
        ("placement", "egde", "did you mean edge"),
        ("rate_per_minute", 0, "rate_per_minute is 0"),
        ("rate_per_minute", float("inf"), "rate_per_minute is inf"),
        ("notifications_per_publisher", 10**6, "publishers × 1,000,000 notifications are more than 50,000,000"),
        ("seed", "x", "seed is 'x': give a whole number"),
    ],
)
def test_settings_that_are_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        WorkloadSpec(**{field: value})


def test_settings_of_a_burst_that_are_refused() -> None:
    for field, value in (
        ("notifications", 0),
        ("interested_share", 1.5),
        ("rate_per_minute", -1),
        ("start_s", -1),
        ("cluster", -1),
    ):
        with pytest.raises(InputError, match=f"{field} is {value}"):
            BurstSpec(**{field: value})  # type: ignore[arg-type]


def test_quotes_that_are_refused() -> None:
    with pytest.raises(InputError, match="no column 'volume'"):
        make_workload(SMALL, OVERLAY, QUOTES.drop_columns(["volume"]))
    with pytest.raises(InputError, match="the quotes have 0 symbols"):
        make_workload(SMALL, OVERLAY, QUOTES.slice(0, 0))
    nulls = pa.table(
        {name: pa.nulls(3, kind) for name, kind in zip(QUOTES_SCHEMA.names, QUOTES_SCHEMA.types, strict=True)}
    )
    with pytest.raises(InputError, match="quotes"):
        make_workload(SMALL, OVERLAY, nulls)
    with pytest.raises(InputError, match="types of QUOTES_SCHEMA"):
        make_workload(SMALL, OVERLAY, QUOTES.set_column(2, "open", pa.array(["x"] * QUOTES.num_rows)))
    with pytest.raises(InputError, match="no quotes of symbol"):
        make_workload(SMALL, OVERLAY, QUOTES, symbols=["NOPE"])
    wide = synthetic_quotes(1, symbols=2000, days=1)
    naming_all = WorkloadSpec(publishers=2000, notifications_per_publisher=1, selectivity=1)
    with pytest.raises(InputError, match="names 2,000 of them in one subscription"):
        make_workload(naming_all, OVERLAY, wide)


def test_no_subscribers_and_one_broker() -> None:
    workload = make_workload(replace(SMALL, subscribers=0), Scot(parse_tree("path:1"), 1), QUOTES)
    assert workload.subscriptions == ()
    assert workload.summary().subscriptions == (0, 0, 0)
    assert workload_from_tables(workload_tables(workload)).equals(workload)
