"""Recordings of brokers in production, compared with the knowledge of the clients of the same run.

The oracle is the clients: notifications published, arrived, and their recipients. Nothing is looked up in a broker.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from octopia.errors import InputError
from octopia.net import RecordOptions
from octopia.net.broker import live_recording
from octopia.net.broker.live_recording import FactFiles, LiveRecording, Part
from octopia.net.frame_queue import Bundle, FrameQueue, Turn
from octopia.topology import BrokerId
from octopia.trace import FACTS, REGISTERED, TABLES, assemble, content_of, subscriptions_between
from octopia.wire import check_parcel, deliver_frame
from tests.net.live import Live

FOREVER_NS = 1 << 62


def facts_in(folder: Path) -> pa.Table:
    files = sorted((folder / "facts").glob("*.parquet"))
    return pa.concat_tables([FACTS.empty_table(), *(pq.ParquetFile(file).read() for file in files)])


def registered_in(folder: Path) -> pa.Table:
    files = sorted((folder / "registered").glob("*.parquet"))
    return pa.concat_tables([REGISTERED.empty_table(), *(pq.ParquetFile(file).read() for file in files)])


async def played(folder: Path, share: float = 1.0) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Two publishers of 60, two subscribers; the deliveries of each, and the location of each client."""
    async with Live("path:3", 2, record=RecordOptions(folder, share)) as live:
        clients = {name: await live.client(at, name=name) for name, at in (("low", "a,0"), ("all", "c,1"))}
        wanted = {"low": ("n < 20", 40), "all": ("n >= 0", 120)}
        subscriptions = {}
        for name, client in clients.items():
            subscriptions[name] = client.subscribe(wanted[name][0], id=f"of {name}")
            await client.start_subscription(subscriptions[name])
        for name, at in (("p", "b,0"), ("q", "c,1")):
            publisher = await live.publisher(at, "n >= 0 and who is not null", name=name)
            await publisher.publish_many([{"n": n, "who": name} for n in range(60)])
            await publisher.flush()
        got: dict[str, list[int]] = {}
        for name, subscription in subscriptions.items():
            got[name] = []
            while len(got[name]) < wanted[name][1]:
                got[name] += [int(d.notification["n"]) for d in await subscription.next_batch()]
    return got, {"low": "a,0", "all": "c,1", "p": "b,0", "q": "c,1"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[int]], dict[str, str]]:
    folder = tmp_path_factory.mktemp("recorded")
    return folder, *asyncio.run(played(folder))


def test_the_trace_is_what_the_clients_know(recorded: tuple[Path, dict[str, list[int]], dict[str, str]]) -> None:
    folder, got, places = recorded
    tables = assemble(facts_in(folder), registered_in(folder), 0, FOREVER_NS)
    assert {name: table.schema.names for name, table in tables.items() if name != "published"} == {
        name: schema.names for name, schema in TABLES.items()
    }
    clients = {row["client"]: row["name"] for row in tables["clients"].to_pylist()}
    brokers = {row["broker"]: f"{row['region']},{row['cluster']}" for row in tables["brokers"].to_pylist()}
    contents = {row["request"]: content_of(row["content"]) for row in tables["published"].to_pylist()}
    assert Counter((c["who"], c["n"]) for c in contents.values()) == Counter((w, n) for w in "pq" for n in range(60))
    requests = tables["requests"].to_pylist()
    assert {(clients[r["client"]], brokers[r["broker"]], r["kind"]) for r in requests} == {
        ("p", "b,0", "publish"),
        ("q", "c,1", "publish"),
    }
    delivered: dict[str, list[int]] = {"low": [], "all": []}
    for row in tables["deliveries"].to_pylist():
        delivered[clients[row["client"]]].append(int(contents[row["request"]]["n"]))
        assert brokers[row["broker"]] == places[clients[row["client"]]]
        assert row["delivered_ns"] >= requests[row["request"]]["issued_ns"]
    assert {name: sorted(numbers) for name, numbers in delivered.items()} == {n: sorted(g) for n, g in got.items()}
    # Copies go from the publisher's broker on, one link after the other, and none is lost.
    reached = {row["request"]: {row["broker"]} for row in requests}
    for hop in sorted(tables["hops"].to_pylist(), key=lambda hop: hop["hop"]):
        assert hop["sender"] in reached[hop["request"]]
        assert hop["fate"] == "handled"
        assert hop["queued_ns"] <= hop["left_ns"] <= hop["arrived_ns"] <= hop["handled_ns"]
        reached[hop["request"]].add(hop["receiver"])
    assert all(row["broker"] in reached[row["request"]] for row in tables["deliveries"].to_pylist())


def test_every_broker_chooses_the_same_sample(tmp_path: Path) -> None:
    asyncio.run(played(tmp_path, share=0.3))
    facts = [row for row in facts_in(tmp_path).to_pylist() if row["publisher"] is not None]
    chosen = {(row["publisher"], row["sequence"]) for row in facts if row["fact"] == "publish"}
    assert 10 < len(chosen) < 70
    assert {(row["publisher"], row["sequence"]) for row in facts} == chosen
    assert {(row["publisher"], row["sequence"]) for row in facts if row["peer"] == "all"} == chosen
    assert {row["share"] for row in facts} == {0.3}


def test_who_subscribed_and_until_when(recorded: tuple[Path, dict[str, list[int]], dict[str, str]]) -> None:
    rows = registered_in(recorded[0]).to_pylist()
    alive = subscriptions_between(rows, 0, FOREVER_NS)
    assert {(row["broker"], row["client"], row["id"], row["filter"]) for row in alive} == {
        ("a,0", "low", "of low", "n < 20"),
        ("c,1", "all", "of all", "n >= 0"),
    }
    begun = {row["client"]: row["from_ns"] for row in alive}
    assert subscriptions_between(rows, 0, min(begun.values())) == []


def test_the_log_of_registrations_is_written_anew(tmp_path: Path) -> None:
    """Clients that come and go for ever leave no more than is in force."""
    files = FactFiles(RecordOptions(tmp_path))
    recording = LiveRecording(BrokerId("a", 0), [], files, 1.0)
    log = recording.subscribed
    log.begins("stays", "s", "n > 0", 1)
    for turn in range(40):
        for client in range(50):
            log.begins(f"c{client}", "s", "n > 1", turn)
            log.ends(f"c{client}", "s", turn)
        recording.flush_registered()
    files.close()
    assert registered_in(tmp_path).num_rows < 2500
    in_force = subscriptions_between(registered_in(tmp_path).to_pylist(), 0, FOREVER_NS)
    assert {row["client"] for row in in_force if row["until_ns"] is None} == {"stays"}


def noted(recording: LiveRecording, count: int) -> Part:
    """A part with so many deliveries."""
    client = recording.client_observer("c")
    queue = FrameQueue(Turn(), 100_000, 1 << 30)
    for number in range(count):
        delivery = Bundle(deliver_frame(("x" * 200,), check_parcel({"n": number}, f"p{number}", number)[0]))
        client.entered(queue, delivery, 0)
        client.left(queue, delivery)
    return recording.take_part()


def test_the_oldest_files_give_way_at_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FactFiles(RecordOptions(tmp_path, bytes_max=1 << 20))
    monkeypatch.setattr(live_recording, "PARTS_WAITING_MAX", 10_000)
    monkeypatch.setattr(
        live_recording, "_replace", lambda path, table, **_: (path.write_bytes(bytes(200_000)), 200_000)[1]
    )
    recording = LiveRecording(BrokerId("a", 0), [], files, 1.0)
    for _ in range(20):
        files.write_facts([noted(recording, 10)])
    files.close()
    left = sorted((tmp_path / "facts").iterdir())
    assert [int(path.stem.rpartition("-")[2]) for path in left] == [16, 17, 18, 19, 20]
    assert files.deleted == 15


def test_a_slow_disk_costs_facts_and_says_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FactFiles(RecordOptions(tmp_path))
    recording = LiveRecording(BrokerId("a", 0), [], files, 1.0)
    stuck: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(files._thread, "submit", lambda work: _Never(stuck, work))
        for _ in range(live_recording.PARTS_WAITING_MAX + 3):
            files.write_facts([noted(recording, 10)])
    assert (len(stuck), files.left_out) == (live_recording.PARTS_WAITING_MAX, 30)
    files._writing.clear()
    files.write_facts([noted(recording, 1)])
    files.close()
    gaps = [row["queue"] for row in facts_in(tmp_path).to_pylist() if row["fact"] == "gap"]
    assert gaps == [30]


class _Never:
    """A write that does not end."""

    def __init__(self, kept: list[Any], work: Any) -> None:
        kept.append(work)

    def done(self) -> bool:
        return False


@pytest.mark.parametrize(("share", "size"), [(0.0, 1 << 30), (1.1, 1 << 30), (1.0, 5)])
def test_options_that_make_no_sense(tmp_path: Path, share: float, size: int) -> None:
    with pytest.raises(InputError):
        RecordOptions(tmp_path, share, size)
