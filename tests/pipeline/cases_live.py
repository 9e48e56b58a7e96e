"""Live analytics: what brokers recorded, as windows. The oracles are the clients, and facts written by hand."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from octopia.errors import InputError
from octopia.net import RecordOptions
from octopia.pipeline import Session, WatchOptions, Window, review, watch
from tests.pipeline.brokers import Brokers, until
from tests.pipeline.recorded import START, Recorded, story


def count_of(folder: Path, fact: str) -> int:
    return sum(pq.ParquetFile(path).read()["fact"].to_pylist().count(fact) for path in folder.glob("[0-9]*.parquet"))


def alive(at: float) -> dict[str, Any]:
    return {"fact": "alive", "broker": "a,0", "since": at, "till": at}


def told(window: Window) -> tuple[Any, ...]:
    at = (window.start - START).total_seconds()
    return at, window.published, window.delivered, window.lost, window.repeated, window.unwanted, window.late


def test_windows_of_a_stream(session: Session, tmp_path: Path) -> None:
    """Lost, repeated, unwanted and late, each in the window of its publication; through restarts of the query."""
    recorded = Recorded(tmp_path / "rec")
    recorded.registered(("b,0", "x", "of x", "n >= 0"), ("a,0", "y", "of y", "n < 100"))
    options = WatchOptions(window_s=10, wait_s=5, watermark_s=2, late_after_s=1.0, settle_s=1.0)
    windows: list[Window] = []

    def run() -> None:
        query = watch(
            session.spark,
            str(recorded.folder),
            str(tmp_path / "out"),
            options,
            on_window=windows.append,
            trigger={"availableNow": True},
        )
        assert query.awaitTermination(300)

    recorded.write(
        *story(1, 0.5),
        *story(2, 1.0, got=("y",), lost=True),
        *story(3, 2.0, got=("x", "x", "y")),
        *story(4, 9.5, hop_s=2.0),  # which ends in the next window, and is late
        *story(100, 3.0, got=("x", "y")),  # y does not want it
    )
    # The second is about to begin; nothing is over before 10 + 5 + 2 seconds.
    recorded.write(*story(5, 12.0, hop_s=0.5), alive(14.0))
    run()
    assert windows == []
    recorded.write(alive(18.0))
    run()
    assert [told(window) for window in windows] == [(0.0, 5, 10, 1, 1, 1, 1)]
    recorded.write(*story(6, 13.0))  # not too late for the second window
    recorded.write(alive(40.0))
    run()
    recorded.write(*story(7, 14.0))  # too late: the watermark has passed it
    recorded.write(alive(60.0))
    run()
    known = [told(window) for window in windows if window.published]
    assert known == [(0.0, 5, 10, 1, 1, 1, 1), (10.0, 2, 4, 0, 0, 0, 0)]
    first, second = (window for window in windows if window.published)
    assert {key: first.links[0][key] for key in ("sender", "receiver", "messages", "lost", "longest_queue")} == {
        "sender": "a,0",
        "receiver": "b,0",
        "messages": 5,
        "lost": 1,
        "longest_queue": 4,
    }
    assert first.links[0]["mean_s"] == pytest.approx((3 * 0.1 + 2.0) / 4)
    assert {(one["client"], one["subscription"], one["deliveries"]) for one in first.subscriptions} == {
        ("x", "of x", 5),
        ("y", "of y", 5),
    }
    # Of n = 1, 3 (twice to x), 4 and 100: x after a hop, y at once; of 2 only y.
    assert first.mean_s == pytest.approx((0.1 * 4 + 2.0) / 10)
    assert second.mean_s == pytest.approx((0.5 + 0.1) / 4)
    audit = pq.ParquetFile(tmp_path / "out" / "audit" / f"{first.name}.parquet").read().to_pylist()
    assert sorted((row["finding"], row["client"], row["copies"]) for row in audit) == [
        ("duplicated", "x", 2),
        ("late", "x", 1),
        ("lost", "x", 0),
        ("unwanted", "y", 1),
    ]
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"traces", "windows", "metrics", "links"}


def test_an_overlay_that_drops_is_found_out(session: Session, tmp_path: Path) -> None:
    """Real brokers, complete records: what a client with a short queue did not get is lost, and nothing else is."""
    with Brokers(client_queue_frames_max=20, record=RecordOptions(tmp_path / "rec")) as brokers:
        publisher = brokers.publisher("b,1", "n is not null")
        slow = brokers.call(brokers.live.client("a,0", name="slow", session_s=300))
        brokers.call(slow.start_subscription(taken := slow.subscribe("n >= 0", policy="drop_newest")))
        other = brokers.call(brokers.live.client("a,1", name="other"))
        brokers.call(other.start_subscription(all_of := other.subscribe("n >= 10")))
        brokers.settle(publisher)
        host = brokers.live.host("a,0")
        held = brokers.look(lambda: host.sessions["slow"])
        # As if its connection were gone for a while.
        brokers.look(lambda: held.queue.detach())
        for start in range(0, 60, 10):
            brokers.publish(publisher, [{"n": n} for n in range(start, start + 10)])
        got: list[int] = []
        while len(got) < 50:
            got += [int(d.notification["n"]) for d in brokers.call(all_of.next_batch())]
        until(lambda: brokers.look(lambda: held.queue.waits + held.queue.dropped_total) == 60)
        dropped = brokers.look(lambda: held.queue.dropped_total)
        brokers.look(lambda: held.queue.attach(held.channel.transport, held.queue.confirmed))
        came: list[int] = []
        while len(came) < 60 - dropped:
            came += [int(d.notification["n"]) for d in brokers.call(taken.next_batch())]
        # While all clients are there: who leaves may miss what is on its way.
        servers = list(dict.fromkeys(brokers.live.servers.values()))
        for server in servers:
            brokers.look(server.flush_facts)
        files = tmp_path / "rec" / "facts"
        until(lambda: count_of(files, "delivered") == 110 - dropped and count_of(files, "dropped") == dropped)
        shutil.copytree(tmp_path / "rec", tmp_path / "copy")
    windows: list[Window] = []
    options = WatchOptions(window_s=3600, wait_s=60, settle_s=0)
    review(session.spark, str(tmp_path / "copy"), str(tmp_path / "out"), options, on_window=windows.append)
    total = [sum(getattr(window, name) for window in windows) for name in ("published", "delivered", "lost", "dropped")]
    assert total == [60, len(got) + len(came), dropped, dropped]
    assert dropped > 0
    assert [window.repeated + window.unwanted for window in windows] == [0] * len(windows)
    busiest = {(one["client"], one["deliveries"]) for window in windows for one in window.subscriptions}
    assert len(windows) > 1 or busiest == {("other", 50), ("slow", 60 - dropped)}


def test_a_folder_without_facts(session: Session, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no facts of brokers: start them with octopia serve --record"):
        watch(session.spark, str(tmp_path), str(tmp_path / "out"))
