"""Runs small enough to work out every moment by hand."""

from pathlib import Path
from typing import Any

import pytest

from octopia.sim import BrokerFault, Fault, LinkFault, RunSpec, simulate
from octopia.sim.model import ClientModel, Egress, LinkModel, Model, Processor, Sizes
from octopia.topology import Scot, parse_tree
from octopia.workload import Workload
from tests.sim.worlds import rows, workload

SECOND = 1_000_000_000
PAIR = Scot(parse_tree("path:2"), 1)
A, B = PAIR.brokers
MODEL = Model(
    processor=Processor(base_ns=100), link=LinkModel(per_message_ns=1000, delay_ns=50), client=ClientModel(delay_ns=10)
)
ANY = "x >= 0"


def three_notifications(*moments: int) -> Workload:
    return workload(
        [("P", ("a", 0), ANY)], [("S", ("b", 0), ANY)], [(moment, 0, {"x": n}) for n, moment in enumerate(moments)]
    )


def play(tmp_path: Path, world: Workload, model: Model = MODEL, faults: tuple[Fault, ...] = ()) -> Path:
    simulate(world, PAIR, RunSpec(routing="snr", model=model, faults=faults), tmp_path)
    return tmp_path


def hop(request: int, sender: int, queued: int, left: int, arrived: int, handled: int | None, **other: Any) -> Any:
    kind = "subscribe" if request == 1 else "notify"
    row = {
        "kind": kind, "request": request, "sender": sender, "receiver": 1 - sender, "hop": 1, "queued_ns": queued,
        "left_ns": left, "arrived_ns": arrived, "handled_ns": handled, "queue": 0, "civ": None, "fate": "handled",
        "routing_case": None,
    }  # fmt: skip
    return row | other


# advertising needs no message in one cluster; the subscription goes from b to a
SUBSCRIBED = hop(1, 1, SECOND + 110, SECOND + 1110, SECOND + 1160, SECOND + 1260)
START = 2 * SECOND


def notify(request: int, queued: int, left: int, arrived: int, handled: int | None, **other: Any) -> Any:
    done = None if handled is None else START + handled
    return hop(request, 0, START + queued, START + left, START + arrived, done, **other)


def delivery(request: int, at: int) -> Any:
    return {"request": request, "client": 1, "broker": 1, "hop": 1, "delivered_ns": START + at, "subscriptions": 1}


def test_two_brokers_three_messages_every_moment(tmp_path: Path) -> None:
    folder = play(tmp_path, three_notifications(0, 200, 5000))
    assert rows(folder, "hops") == [
        SUBSCRIBED,
        notify(2, 110, 1110, 1160, 1260),
        notify(3, 310, 2110, 2160, 2260, queue=1),  # waits until the first has left
        notify(4, 5110, 6110, 6160, 6260),
    ]
    assert rows(folder, "deliveries") == [delivery(2, 1270), delivery(3, 2270), delivery(4, 6270)]
    requests = [
        (row["kind"], row["client"], row["broker"], row["issued_ns"], row["handled_ns"], row["row"], row["refused"])
        for row in rows(folder, "requests")
    ]
    assert requests == [
        ("advertise", 0, 0, 0, 110, None, None),
        ("subscribe", 1, 1, SECOND, SECOND + 110, None, None),
        ("publish", 0, 0, START, START + 110, 0, None),
        ("publish", 0, 0, START + 200, START + 310, 1, None),
        ("publish", 0, 0, START + 5000, START + 5110, 2, None),
    ]
    assert rows(folder, "brokers") == [
        {"broker": 0, "region": "a", "cluster": 0, "inner": False, "site": None},
        {"broker": 1, "region": "b", "cluster": 0, "inner": False, "site": None},
    ]
    assert rows(folder, "clients") == [
        {"client": 0, "name": "P", "broker": 0},
        {"client": 1, "name": "S", "broker": 1},
    ]
    assert rows(folder, "civs") == [{"request": 0, "broker": 0, "civ": "1", "interest": 1}]
    sizes = [(row["phase"], row["broker"], row["srt"], row["prt"]) for row in rows(folder, "table_sizes")]
    assert sizes == [
        ("advertise", 0, 1, 0), ("advertise", 1, 0, 0), ("subscribe", 0, 1, 1), ("subscribe", 1, 0, 1),
        ("publish", 0, 1, 1), ("publish", 1, 0, 1),
    ]  # fmt: skip


def test_a_processor_takes_one_message_after_the_other_and_matching_takes_its_time(tmp_path: Path) -> None:
    """Base 100, and with the one subscription in its table 400 for matching: the processor is the bottleneck."""
    processor = Processor(base_ns=100, matching=((0, 0), (2, 800)))
    model = Model(processor=processor, link=LinkModel(per_message_ns=10, delay_ns=50))
    folder = play(tmp_path, three_notifications(0, 100, 2000), model)
    assert rows(folder, "hops")[1:] == [
        notify(2, 500, 510, 560, 1060),
        notify(3, 1000, 1010, 1060, 1560),
        notify(4, 2500, 2510, 2560, 3060),
    ]


def test_bytes_take_time_on_the_link_and_at_the_common_egress(tmp_path: Path) -> None:
    model = Model(
        link=LinkModel(per_message_ns=100, per_byte_ns=2),
        egress=Egress(per_byte_ns=3),
        client=ClientModel(delay_ns=10),
        sizes=Sizes(notify_bytes=100),
    )
    folder = play(tmp_path, three_notifications(0, 0, 1000), model)
    # 300 at the egress, then 100 + 200 on the link
    assert rows(folder, "hops")[1:] == [
        notify(2, 10, 610, 610, 610),
        notify(3, 10, 910, 910, 910, queue=1),
        notify(4, 1010, 1610, 1610, 1610),
    ]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (
            LinkFault(A, B, "down", 0, 3000),  # messages wait for the link to come back
            [
                notify(2, 110, 4000, 4050, 4150),
                notify(3, 310, 5000, 5050, 5150, queue=1),
                notify(4, 5110, 6110, 6160, 6260),
            ],
        ),
        (
            LinkFault(A, B, "down", 500, 600),  # the first is on the wire and lost, the second waits its turn as ever
            [
                notify(2, 110, 1110, 1160, None, fate="link down"),
                notify(3, 310, 2110, 2160, 2260, queue=1),
                notify(4, 5110, 6110, 6160, 6260),
            ],
        ),
        (
            LinkFault(A, B, "loss", 0, 5000),
            [
                notify(2, 110, 1110, 1160, None, fate="lost"),
                notify(3, 310, 2110, 2160, None, queue=1, fate="lost"),
                notify(4, 5110, 6110, 6160, 6260),
            ],
        ),
        (
            LinkFault(A, B, "delay", 0, 1000, delay_ns=3000),  # the second may not overtake the first
            [
                notify(2, 110, 1110, 4160, 4260),
                notify(3, 310, 2110, 4160, 4360, queue=1),
                notify(4, 5110, 6110, 6160, 6260),
            ],
        ),
        (
            LinkFault(A, B, "slow", 0, 1000, factor=3),
            [
                notify(2, 110, 3110, 3160, 3260),
                notify(3, 310, 4110, 4160, 4260, queue=1),
                notify(4, 5110, 6110, 6160, 6260),
            ],
        ),
        (
            LinkFault(B, A, "loss", 0, 10_000),  # the other direction
            [
                notify(2, 110, 1110, 1160, 1260),
                notify(3, 310, 2110, 2160, 2260, queue=1),
                notify(4, 5110, 6110, 6160, 6260),
            ],
        ),
        (
            LinkFault(B, A, "loss", 5000, 10_000, both=True),
            [
                notify(2, 110, 1110, 1160, 1260),
                notify(3, 310, 2110, 2160, 2260, queue=1),
                notify(4, 5110, 6110, 6160, None, fate="lost"),
            ],
        ),
    ],
    ids=lambda value: value.what if hasattr(value, "what") else None,
)
def test_faults(tmp_path: Path, fault: Fault, expected: list[Any]) -> None:
    folder = play(tmp_path, three_notifications(0, 200, 5000), faults=(fault,))
    hops = sorted(rows(folder, "hops"), key=lambda row: row["request"])
    assert hops == [SUBSCRIBED, *expected]
    arrived = [row for row in expected if row["fate"] == "handled"]
    assert rows(folder, "deliveries") == [delivery(row["request"], row["handled_ns"] + 10 - START) for row in arrived]


def anew(kind: str, sender: int, *times: int, **other: Any) -> Any:
    """A resync message, which no request caused."""
    queued, left, arrived, handled = (START + time for time in times)
    return hop(-1, sender, queued, left, arrived, handled, kind=kind, **other)


def test_the_subscribers_broker_starts_again(tmp_path: Path) -> None:
    """It is down while handling the first and still when the second arrives; by the third all is as it was."""
    folder = play(tmp_path, three_notifications(0, 200, 5000), faults=(BrokerFault(B, 1200, 2165),))
    assert rows(folder, "hops") == [
        SUBSCRIBED,
        notify(2, 110, 1110, 1160, None, fate="broker down"),
        notify(3, 310, 2110, 2160, None, queue=1, fate="broker down"),
        # both ends say that there is nothing more to tell, 100 after the link came up; then the subscriber asks again
        anew("subscriptions_complete", 1, 2265, 3265, 3315, 3415),
        anew("subscriptions_complete", 0, 2265, 3265, 3315, 3415),
        anew("subscribe", 1, 2365, 4265, 4315, 4415, queue=1),
        notify(4, 5110, 6110, 6160, 6260),
    ]
    assert rows(folder, "deliveries") == [delivery(4, 6270)]


def test_the_publishers_broker_starts_again(tmp_path: Path) -> None:
    """The second is lost with its queue; then it is told of the subscription, and the publisher advertises again."""
    folder = play(tmp_path, three_notifications(0, 200, 5000), faults=(BrokerFault(A, 1500, 1600),))
    assert rows(folder, "hops") == [
        SUBSCRIBED,
        notify(3, 310, 2110, 2160, None, queue=1, fate="broker down"),
        notify(2, 110, 1110, 1160, 1260),
        anew("subscriptions_complete", 0, 1700, 2700, 2750, 2850),
        anew("subscribe", 1, 1700, 2700, 2750, 2850),
        anew("subscriptions_complete", 1, 1700, 3700, 3750, 3850, queue=1),
        notify(4, 5110, 6110, 6160, 6260),
    ]
    assert rows(folder, "deliveries") == [delivery(2, 1270), delivery(4, 6270)]
    assert [row["refused"] for row in rows(folder, "requests")] == [None] * 5


def test_a_link_that_was_down_both_ways_is_told_of_at_both_ends(tmp_path: Path) -> None:
    """The first is lost on the wire, the second waits in the queue; then both ends tell anew what they know."""
    fault = LinkFault(A, B, "down", 1050, 3000, both=True)
    folder = play(tmp_path, three_notifications(0, 200, 5000), faults=(fault,))
    assert sorted(rows(folder, "hops"), key=lambda row: row["queued_ns"]) == [
        SUBSCRIBED,
        notify(2, 110, 1110, 1160, None, fate="link down"),
        notify(3, 310, 4000, 4050, 4150, queue=1),
        anew("subscribe", 1, 3100, 4100, 4150, 4250),
        # after the second, which waited from before
        anew("subscriptions_complete", 0, 3100, 5000, 5050, 5150, queue=1),
        anew("subscriptions_complete", 1, 3100, 5100, 5150, 5250, queue=1),
        notify(4, 5110, 6110, 6160, 6260),
    ]
    assert rows(folder, "deliveries") == [delivery(3, 4160), delivery(4, 6270)]


def test_a_link_may_deliver_twice(tmp_path: Path) -> None:
    folder = play(tmp_path, three_notifications(0), faults=(LinkFault(A, B, "duplicate", 0, 1000),))
    assert rows(folder, "hops")[1:] == [notify(2, 110, 1110, 1160, 1260), notify(2, 110, 1110, 1160, 1360)]
    assert rows(folder, "deliveries") == [delivery(2, 1270), delivery(2, 1370)]


def test_jitter_keeps_the_order_of_a_link_and_its_bounds(tmp_path: Path) -> None:
    model = Model(link=LinkModel(delay_ns=50, jitter_ns=1000))
    folder = play(tmp_path, three_notifications(*range(0, 4000, 100)), model)
    hops = rows(folder, "hops")[1:]
    arrivals = [row["arrived_ns"] for row in hops]
    assert arrivals == sorted(arrivals)
    extra = [row["arrived_ns"] - row["left_ns"] - 50 for row in hops]
    assert all(0 <= each <= 1000 for each in extra)
    assert len(set(extra)) > 10


def test_queue_samples_are_those_of_the_moment(tmp_path: Path) -> None:
    """Five at once on a link that needs 0.7 s for each; sampled every second."""
    model = Model(link=LinkModel(per_message_ns=700_000_000))
    folder = play(tmp_path, three_notifications(1, 1, 1, 1, 1), model)
    start = next(row["issued_ns"] for row in rows(folder, "requests") if row["kind"] == "publish") - 1
    samples = [(row["at_ns"] - start, row["queue"], row["entered"], row["left"]) for row in rows(folder, "queues")]
    assert samples == [(SECOND, 4, 5, 1), (2 * SECOND, 3, 5, 2), (3 * SECOND, 1, 5, 4)]
