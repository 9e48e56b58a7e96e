"""Three machines in network namespaces: TLS between them, a machine cut off and back, a cable that is too slow.

path:3 × 3; each region has a broker on each machine, and so has each cluster. Skipped where the kernel or the rights do
not allow namespaces.
"""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from octopia.net import ServeConfig, SyncClient, SyncSubscription, connect_sync, load_config
from octopia.net.tls import client_context
from octopia.topology import BrokerId
from tests.net.machines import Machines, machines

TOKEN = "what the test's clients know"  # noqa: S105
OVERLAY = """
[overlay]
tree = "path:3"
clusters = 3
[placement]
machines = ["m1", "m2", "m3"]
[brokers]
port = {port}
http_port = {http_port}
http_host = "same"
machines = {{ m1 = "10.77.0.1", m2 = "10.77.0.2", m3 = "10.77.0.3" }}
[tls]
certificate = "{{broker}}.pem"
key = "{{broker}}.key"
authorities = "ca.pem"
[limits]
heartbeat_s = 1
{limits}
[[clients]]
name = "test"
token = "{token}"
advertise = "true"
subscribe = "true"
"""


@pytest.fixture(scope="module")
def network() -> Iterator[Machines]:
    with machines(3) as made:
        yield made


class Site:
    """`octopia serve --machine` on each machine, and clients on any."""

    def __init__(self, network: Machines, folder: Path, port: int, limits: str) -> None:
        self.network = network
        self.folder = folder
        self.file = folder / "overlay.toml"
        self.file.write_text(
            OVERLAY.format(token=TOKEN, port=port, http_port=port + 100, limits=limits), encoding="utf-8"
        )
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.config: ServeConfig = load_config(self.file)
        for broker, address in self.config.addresses.items():
            signed = authority.issue_cert(address.host, common_name=str(broker))
            file = folder / f"{broker.region}-{broker.cluster}"
            signed.private_key_pem.write_to_path(f"{file}.key")
            signed.cert_chain_pems[0].write_to_path(f"{file}.pem")
        self.running: list[subprocess.Popen[str]] = []
        self.clients: list[SyncClient] = []

    def start(self) -> None:
        octopia = str(Path(sys.executable).parent / "octopia")
        with (self.folder / "log.txt").open("w") as log:
            for machine in self.network.all:
                command = ["ip", "netns", "exec", machine.namespace, octopia, "serve", str(self.file)]
                self.running.append(
                    subprocess.Popen(
                        [*command, "--machine", machine.name, "--log", "info"],
                        stdout=subprocess.PIPE,
                        stderr=log,
                        text=True,
                    )
                )
        for process in self.running:
            assert process.stdout is not None
            for _ in range(3):
                assert "octopias://10.77.0." in process.stdout.readline()
        self.until(lambda: all(link["connected"] for b in self.config.scot.brokers for link in self.links(b).values()))

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for process in self.running:
            process.send_signal(signal.SIGKILL)
            process.communicate()

    def client(self, machine: str, broker: BrokerId) -> SyncClient:
        """A client on this machine, of a broker that may be on another."""
        url = f"octopias://{self.config.addresses[broker]}"
        client = connect_sync(url, token=TOKEN, tls=client_context(self.folder / "ca.pem"), session_s=200)
        with self.network.named[machine].inside():
            # The client's thread starts here, and stays here.
            client.open()
        self.clients.append(client)
        return client

    def links(self, broker: BrokerId) -> dict[str, dict[str, Any]]:
        """A broker's report about its links, requested on its own machine."""
        address = self.config.http[broker]
        machine = next(m for m in self.network.all if m.address == address.host)
        with machine.inside(), urllib.request.urlopen(f"http://{address}/healthz", timeout=100) as answer:
            return {link["neighbour"]: link for link in json.load(answer)["links"]}

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            time.sleep(0.02)


def site(network: Machines, folder: Path, port: int, limits: str) -> Iterator[Site]:
    made = Site(network, folder, port, limits)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def patient(network: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Links wait long for each other, and subscribers for overtaken notifications."""
    yield from site(network, tmp_path_factory.mktemp("patient"), 7400, "link_grace_s = 150\nreorder_hold_s = 150")


@pytest.fixture
def hasty(network: Machines, tmp_path: Path) -> Iterator[Site]:
    """A link that breaks is down at once."""
    yield from site(network, tmp_path, 8430, "link_grace_s = 0.1\nlink_give_up_s = 1")


M1, M2, M3 = BrokerId("b", 1), BrokerId("b", 2), BrokerId("b", 0)


def numbers(subscription: SyncSubscription, count: int) -> list[Any]:
    got: list[Any] = []
    while len(got) < count:
        got += [delivery.notification["n"] for delivery in subscription.next_batch(count - len(got))]
    return got


def cut_off(site: Site) -> None:
    """m1 is alone, and all have noticed."""
    first, *others = site.network.all
    for other in others:
        site.network.cut(first, other)
    there = [b for b, address in site.config.addresses.items() if address.host == first.address]
    everywhere = [b for b in site.config.scot.brokers if b not in there]
    # Each link between m1 and elsewhere, seen from both ends.
    site.until(
        lambda: (
            not any(
                link["connected"]
                for near, far in ((there, everywhere), (everywhere, there))
                for broker in near
                for neighbour, link in site.links(broker).items()
                if neighbour in map(str, far)
            )
        )
    )


def join(site: Site) -> None:
    first, *others = site.network.all
    for other in others:
        site.network.join(first, other)


def test_a_machine_that_is_cut_off_for_a_while_misses_nothing(patient: Site) -> None:
    publisher = patient.client("m2", M2)
    publisher.advertise("n is not null")
    with (
        patient.client("m1", M1).subscribe("n >= 0") as cut,
        patient.client("m1", M3).subscribe("n >= 0") as cut_from_its_broker,
        patient.client("m3", M3).subscribe("n >= 0") as elsewhere,
    ):
        publisher.publish_many({"n": n} for n in range(500))
        for subscription in (cut, cut_from_its_broker, elsewhere):
            assert numbers(subscription, 500) == list(range(500))
        cut_off(patient)
        publisher.publish_many({"n": n} for n in range(500, 1000))
        assert numbers(elsewhere, 500) == list(range(500, 1000))
        join(patient)
        for subscription in (cut, cut_from_its_broker):
            assert numbers(subscription, 500) == list(range(500, 1000))
        publisher.publish({"n": 1000})
        for subscription in (cut, cut_from_its_broker, elsewhere):
            assert numbers(subscription, 1) == [1000]


def test_a_cable_that_is_too_slow_is_gone_around(patient: Site) -> None:
    """The iLink from (b,2) on m2 to (b,0) on m3 carries 2 Mbit/s; copies for (b,0) ride with those for (b,1) on m1."""
    cable = f"to-{patient.network.named['m3'].name}"
    sender = patient.network.named["m2"]
    publisher = patient.client("m2", M2)
    publisher.advertise("n is not null and text is not null")
    with (
        patient.client("m3", M3).subscribe("n >= 0") as slow,
        patient.client("m1", M1).subscribe("n >= 0") as quick,
    ):
        before = patient.links(M1)[str(M3)]["sent"]
        sender.tc("qdisc", "add", "dev", cable, "root", "tbf", "rate", "2mbit", "burst", "16kb", "latency", "50ms")
        try:
            sent = 0
            while patient.links(M1)[str(M3)]["sent"] - before < 100:
                publisher.publish_many({"n": n, "text": "x" * 1000} for n in range(sent, sent + 200))
                publisher.flush()
                sent += 200
            for subscription in (quick, slow):
                assert numbers(subscription, sent) == list(range(sent))
        finally:
            sender.tc("qdisc", "del", "dev", cable, "root")


def test_after_a_long_cut_tables_are_in_line_again(hasty: Site) -> None:
    """What clients did on both sides meanwhile is known everywhere when the links are back."""
    publisher = hasty.client("m2", M2)
    publisher.advertise("n is not null")
    here, there = hasty.client("m1", M1), hasty.client("m3", M3)
    with here.subscribe("n >= 0"):
        cut_off(hasty)
    with here.subscribe("n >= 0") as made_while_alone, there.subscribe("n >= 0") as made_elsewhere:
        publisher.publish({"n": 0})
        assert numbers(made_elsewhere, 1) == [0]
        join(hasty)
        hasty.until(lambda: all(link["up"] for b in hasty.config.scot.brokers for link in hasty.links(b).values()))
        # An acknowledgement says that all that was registered before is in force, too.
        for client in (publisher, here, there):
            with client.subscribe("n = -1"):
                client.unadvertise(client.advertise("m > 0"))
        publisher.publish_many({"n": n} for n in range(1, 101))
        # What was published while nobody there was known may or may not have waited for the link.
        first = numbers(made_while_alone, 1)
        rest = numbers(made_while_alone, 100 if first == [0] else 99)
        assert [n for n in first + rest if n > 0] == list(range(1, 101))
        assert numbers(made_elsewhere, 100) == list(range(1, 101))
