"""systemd units: what runs where, and with which limits; the process reports its state to systemd."""

import asyncio
import configparser
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest

from octopia.cli.units import unit_files
from octopia.net import load_config
from octopia.net.broker.systemd import Systemd
from tests.commands import Command
from tests.net.processes import own_host

OVERLAY = '[overlay]\nname = "x"\ntree = "path:2"\nclusters = 2\n'


def service(text: str) -> dict[str, str]:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(text)
    return dict(parsed["Service"])


def made(folder: Path, text: str, memory: str | None = None) -> dict[str, dict[str, str]]:
    file = folder / "overlay.toml"
    file.write_text(text, encoding="utf-8")
    units = unit_files(load_config(file), "/etc/o.toml", "/bin/octopia", memory)
    return {name: service(text) for name, text in units.items()}


def test_one_unit_per_machine_or_broker(tmp_path: Path) -> None:
    units = made(tmp_path, OVERLAY)
    assert {name: unit["ExecStart"] for name, unit in units.items()} == {
        f"octopia-{r}-{c}.service": f"/bin/octopia serve /etc/o.toml --broker {r},{c}" for c in (0, 1) for r in "ab"
    }
    units = made(tmp_path, OVERLAY + '[placement]\nmachines = ["m1", "m2"]\n')
    assert {name: unit["ExecStart"] for name, unit in units.items()} == {
        f"octopia-{m}.service": f"/bin/octopia serve /etc/o.toml --machine {m}" for m in ("m1", "m2")
    }


def test_what_a_unit_may_use_is_for_all_its_brokers(tmp_path: Path) -> None:
    limits = "[limits]\nconnections_max = 5000\ndrain_s = 7\n"
    one = made(tmp_path, OVERLAY + limits)["octopia-a-0.service"]
    assert (one["LimitNOFILE"], one["MemoryMax"], one["TimeoutStopSec"]) == ("6350", "2G", "12")
    two = made(tmp_path, OVERLAY + limits + '[placement]\nmachines = ["m1", "m2"]\n')["octopia-m2.service"]
    assert (two["LimitNOFILE"], two["MemoryMax"], two["TimeoutStopSec"]) == ("11676", "4G", "12")
    assert made(tmp_path, OVERLAY, "512M")["octopia-b-1.service"]["MemoryMax"] == "512M"


def test_what_a_unit_may_do(tmp_path: Path) -> None:
    unit = made(tmp_path, OVERLAY)["octopia-a-0.service"]
    expected = {
        "Type": "notify",
        "NotifyAccess": "main",
        "WatchdogSec": "30",
        "Restart": "always",
        "DynamicUser": "yes",
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
        "AmbientCapabilities": "",
        "SystemCallFilter": "@system-service",
        "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
        "ProtectSystem": "strict",
        # Compiled kernels are kept somewhere, and it can write nowhere else.
        "CacheDirectory": "octopia-a-0",
        "Environment": "NUMBA_CACHE_DIR=%C/octopia-a-0",
    }
    assert {key: unit[key] for key in expected} == expected


@pytest.mark.parametrize("port", ["port = 443", "http_port = 80"])
def test_a_port_that_needs_a_capability_gets_it_and_no_other(tmp_path: Path, port: str) -> None:
    units = made(tmp_path, f"{OVERLAY}[brokers]\n{port}\n")
    assert {unit["CapabilityBoundingSet"] for unit in units.values()} == {"CAP_NET_BIND_SERVICE"}
    assert {unit["AmbientCapabilities"] for unit in units.values()} == {"CAP_NET_BIND_SERVICE"}


@contextmanager
def manager() -> Iterator[tuple[socket.socket, str]]:
    """A socket as systemd has one. Its path must be short, which those of tests are not."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        path = f"{folder}/notify"
        told.bind(path)
        told.settimeout(200)
        yield told, path


def test_a_served_overlay_tells_systemd_that_it_is_ready_alive_and_stopping(tmp_path: Path) -> None:
    file = tmp_path / "overlay.toml"
    brokers = f'[brokers]\nhost = "{own_host()}"\nport = 7470\nhttp_port = 0\n'
    file.write_text(f'[overlay]\ntree = "path:1"\nclusters = 1\n{brokers}', encoding="utf-8")
    with manager() as (told, path):
        environment = os.environ | {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "20000"}
        process = Command("serve", file, stdout=PIPE, env=environment)
        try:
            assert [told.recv(100) for _ in range(4)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1", b"WATCHDOG=1"]
            # Ready means that it listens.
            socket.create_connection((own_host(), 7470)).close()
            process.send_signal(signal.SIGTERM)
            while told.recv(100) != b"STOPPING=1":
                pass
            assert process.wait() == 0
        finally:
            process.kill()
            process.communicate()


def test_a_name_outside_the_file_system() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        name = f"octopia-test-{os.getpid()}"
        told.bind(f"\0{name}")
        told.settimeout(200)
        Systemd({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert told.recv(100) == b"READY=1"


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WATCHDOG_USEC": "20000"},
        {"NOTIFY_SOCKET": "/no/such/socket", "WATCHDOG_USEC": "20000"},
        {"NOTIFY_SOCKET": "/no/such/socket", "WATCHDOG_USEC": "soon"},
    ],
)
def test_without_anyone_to_tell_nothing_happens(environment: dict[str, str]) -> None:
    async def scene() -> None:
        told = Systemd(environment)
        told.ready()
        told.stopping()
        told.stopped()

    asyncio.run(scene())


def test_signs_of_life_are_for_the_process_that_was_asked() -> None:
    with manager() as (told, path):

        async def scene() -> None:
            other = Systemd({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"})
            other.ready()
            other.stopping()
            other.stopped()

        asyncio.run(scene())
        assert [told.recv(100) for _ in range(2)] == [b"READY=1", b"STOPPING=1"]
