"""Brokers as processes: SIGKILL and restart of each, SIGTERM."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from octopia.net import SyncSubscription, connect_sync
from tests.net.processes import Processes


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    made = Processes(tmp_path_factory.mktemp("processes"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def processes(overlay: Processes) -> Processes:
    """All four brokers, shared by the tests of this file since a process takes a while to start; links are up."""
    overlay.start()
    overlay.wait_for_links()
    return overlay


def numbers(subscription: SyncSubscription, count: int) -> list[Any]:
    got: list[Any] = []
    while len(got) < count:
        got += [delivery.notification["n"] for delivery in subscription.next_batch(count - len(got))]
    return got


def test_sigkill_and_restart_of_every_broker_in_turn(processes: Processes) -> None:
    with (
        connect_sync(processes.url("a,0"), name="p") as publisher,
        connect_sync(processes.url("b,1"), name="s") as reader,
        reader.subscribe("n >= 0") as far,
        connect_sync(processes.url("b,0"), name="t") as other,
        other.subscribe("n >= 0") as near,
    ):
        publisher.advertise("n is not null")
        start = 0
        for killed in (None, *processes.brokers):
            if killed is not None:
                publisher.flush()
                processes.stop(killed, signal.SIGKILL)
                processes.start(killed)
                processes.wait_for_links()
                settle(publisher, reader, other)
            publisher.publish_many({"n": n} for n in range(start, start + 200))
            assert numbers(far, 200) == list(range(start, start + 200))
            assert numbers(near, 200) == list(range(start, start + 200))
            start += 200


def settle(*clients: Any) -> None:
    """An acknowledgement after a restart means that all that was registered before it is in force, too."""
    for client in clients:
        with client.subscribe("n = -1"):
            client.unadvertise(client.advertise("m > 0"))


def test_sigterm_drains(processes: Processes) -> None:
    with connect_sync(processes.url("a,0")) as publisher, connect_sync(processes.url("b,1")) as reader:
        publisher.advertise("n is not null")
        with reader.subscribe("n >= 0") as numbers_:
            publisher.publish_many({"n": n} for n in range(2000))
            publisher.flush()
            assert processes.stop("a,0", signal.SIGTERM) == 0
            assert numbers(numbers_, 2000) == list(range(2000))
