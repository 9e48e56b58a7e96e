"""Brokers as processes: `octopia serve`, SIGKILL and restart, SIGTERM, and the commands in a pipe."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from octopia.net import SyncSubscription, connect_sync

OCTOPIA = Path(sys.executable).parent / "octopia"
BROKERS = ("a,0", "b,0", "a,1", "b,1")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Processes:
    """path:2 × 2, each broker a process."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(2 * len(BROKERS))
        self.ports = dict(zip(BROKERS, ports, strict=False))
        addresses = ", ".join(f'"{broker}" = "127.0.0.1:{port}"' for broker, port in self.ports.items())
        self.http_port = 0
        self.file = folder / "overlay.toml"
        self.file.write_text(
            f'[overlay]\ntree = "path:2"\nclusters = 2\n[brokers]\nhttp_port = {self._http_ports()}\n'
            f"addresses = {{ {addresses} }}\n[limits]\nlink_grace_s = 0.3\n",
            encoding="utf-8",
        )
        self.running: dict[str, subprocess.Popen[str]] = {}

    def _http_ports(self) -> int:
        """The first of four free ports in a row."""
        for port in range(20_000 + os.getpid() % 20_000, 65_000, 7):
            try:
                for each in range(port, port + 4):
                    with socket.socket() as probe:
                        probe.bind(("127.0.0.1", each))
            except OSError:
                continue
            self.http_port = port
            return port
        raise AssertionError("no free ports")

    def start(self, *brokers: str) -> None:
        """Start brokers and wait until they listen."""
        for broker in brokers:
            command = [str(OCTOPIA), "serve", str(self.file), "--broker", broker]
            self.running[broker] = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        for broker in brokers:
            stdout = self.running[broker].stdout
            assert stdout is not None
            assert stdout.readline().startswith(f"({broker}) octopia://127.0.0.1:{self.ports[broker]}")

    def stop(self, broker: str, number: signal.Signals) -> int:
        process = self.running.pop(broker)
        process.send_signal(number)
        process.communicate()
        return process.returncode

    def state(self, broker: str) -> dict[str, Any]:
        port = self.http_port + BROKERS.index(broker)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
            state: dict[str, Any] = json.load(answer)
            return state

    def wait_for_links(self) -> None:
        while not all(link["up"] for broker in self.running for link in self.state(broker)["links"]):
            time.sleep(0.02)

    def url(self, broker: str) -> str:
        return f"octopia://127.0.0.1:{self.ports[broker]}"


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    try:
        made.start(*BROKERS)
        made.wait_for_links()
        yield made
    finally:
        for broker in list(made.running):
            made.stop(broker, signal.SIGKILL)


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
        for killed in (None, *BROKERS):
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


def test_trace_shows_every_hop(processes: Processes) -> None:
    with connect_sync(processes.url("b,1"), name="far") as reader, reader.subscribe("price > 100"):
        done = subprocess.run(
            [
                OCTOPIA,
                "trace",
                '{"price": 120}',
                "--overlay",
                processes.file,
                "-u",
                processes.url("a,0"),
                "--name",
                "me",
                "--json",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    records = json.loads(done.stdout)
    assert [(r["broker"], r["came_from"], r["sent"], r["delivered"]) for r in records] == [
        ("(a,0)", "me", [["(a,1)", 0]], []),
        ("(a,1)", "(a,0)", [["(b,1)", 0]], []),
        ("(b,1)", "(a,1)", [], ["far"]),
    ]


def test_pub_and_sub_in_a_pipe_and_status(processes: Processes) -> None:
    subscriber = subprocess.Popen(
        [OCTOPIA, "sub", "price > 100", "--url", processes.url("b,1"), "--count", "2"],
        stdout=subprocess.PIPE,
        text=True,
    )
    while processes.state("b,1")["subscriptions"] == 0 or processes.state("a,1")["subscriptions"] == 0:
        time.sleep(0.02)
    lines = '{"symbol": "A", "price": 120}\n{"symbol": "B", "price": 90}\n{"symbol": "ü", "price": 100.5}\n'
    done = subprocess.run(
        [OCTOPIA, "pub", "--url", processes.url("a,0")], input=lines, text=True, capture_output=True, check=True
    )
    assert done.stderr == "3 published.\n"
    out, _ = subscriber.communicate()
    assert [json.loads(line) for line in out.splitlines()] == [
        {"symbol": "A", "price": 120},
        {"symbol": "ü", "price": 100.5},
    ]
    status = subprocess.run([OCTOPIA, "status", processes.file, "--json"], capture_output=True, text=True, check=True)
    assert [(row["broker"], row["status"]) for row in json.loads(status.stdout)] == [(f"({b})", "ok") for b in BROKERS]
    bench = subprocess.run(
        [
            OCTOPIA,
            "bench",
            "-u",
            processes.url("a,0"),
            "-u",
            processes.url("b,1"),
            "-s",
            "2",
            "-r",
            "500",
            "-t",
            "0.5",
            "--json",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(bench.stdout)
    assert (figures["published"], figures["delivered"], figures["missing"]) == (250, 500, 0)
    assert 0 < figures["latency_us"]["p50"] <= figures["latency_us"]["p99"] <= figures["latency_us"]["p100"]
    top = subprocess.run([OCTOPIA, "top", processes.file, "-n", "1"], capture_output=True, text=True, check=True)
    assert all(f"({broker})" in top.stdout for broker in BROKERS)
    wrong = subprocess.run(
        [OCTOPIA, "pub", "--url", processes.url("a,0")],
        input='{"x": [1]}\n',
        text=True,
        capture_output=True,
        check=False,
    )
    assert wrong.returncode == 2
    assert "line 1: the value of 'x' must be str, int, float or bool" in wrong.stderr
