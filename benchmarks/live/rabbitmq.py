"""Routing by content in RabbitMQ: a headers exchange with many bindings, against OctopiA with as many subscriptions.

A headers exchange compares headers with equality only, so both sides get subscriptions of that kind: each asks for one
symbol, each symbol is asked for once, and a message is delivered to one of ten connections. AMQP
0-9-1 by hand, no more of it than this load needs; the server runs from its Debian package with a folder, ports and an
Erlang port mapper of its own, all of which are ended with it.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import pack
from typing import Any

import psutil  # type: ignore[import-untyped]

from benchmarks.live.brokers import cpu_s, free_ports
from benchmarks.live.load import dial, read_until
from benchmarks.live.peers import (
    MARK,
    PAYLOAD,
    PAYLOAD_BYTES,
    WAIT_S,
    Speech,
    connect,
    measure,
    octopia,
)
from octopia.language import parse_filter
from octopia.wire import Ack, advertise_frame, check_parcel, message_frame, publish_frame, subscribe_frame

# The script behind the one of the package that wants to become another user.
PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
CONNECTIONS = 10
# Numbers of bindings, and of messages sent with them.
LOADS = ((1, 20_000), (100, 6_000), (1_000, 3_000))
_METHOD, _HEADER, _BODY = 1, 2, 3
_EXCHANGE = b"quotes"


def why_not() -> str:
    """Why RabbitMQ cannot be measured here; empty if it can."""
    if not PROGRAM.exists() or shutil.which("erl") is None:
        return "rabbitmq-server is not installed"
    return ""


# -- AMQP 0-9-1


def _short(text: bytes) -> bytes:
    return pack(">B", len(text)) + text


def _long(text: bytes) -> bytes:
    return pack(">I", len(text)) + text


def _table(**values: str) -> bytes:
    """Strings alone; a name's underscore stands for the hyphen of AMQP's own names."""
    return _long(b"".join(_short(n.replace("_", "-").encode()) + b"S" + _long(v.encode()) for n, v in values.items()))


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def _method(class_: int, method: int, arguments: bytes, channel: int = 1) -> bytes:
    return _frame(_METHOD, channel, pack(">HH", class_, method) + arguments)


def _ask(connection: socket.socket, said: bytes, class_: int, method: int, channel: int = 1, times: int = 1) -> None:
    """Send something and wait for this many answers of this method."""
    connection.sendall(said)
    begins = pack(">BH", _METHOD, channel)
    wanted, data = pack(">HH", class_, method), b""
    found = 0
    while found < times:
        more = connection.recv(65_536)
        if not more:
            raise RuntimeError(f"RabbitMQ closed the connection: {data[-200:]!r}")
        data += more
        while len(data) >= 8 and len(data) >= (end := 8 + int.from_bytes(data[3:7], "big")):
            found += data.startswith(begins) and data[7:11] == wanted
            data = data[end:]


def _session(port: int) -> socket.socket:
    """A connection with one open channel."""
    connection = connect(port)
    _ask(connection, b"AMQP\x00\x00\x09\x01", 10, 10, 0)
    start_ok = _table() + _short(b"PLAIN") + _long(b"\x00guest\x00guest") + _short(b"en_US")
    _ask(connection, _method(10, 11, start_ok, 0), 10, 30, 0)
    tune_ok = _method(10, 31, pack(">HIH", 10, 131_072, 0), 0)
    _ask(connection, tune_ok + _method(10, 40, _short(b"/") + b"\x00\x00", 0), 10, 41, 0)
    _ask(connection, _method(20, 10, b"\x00"), 20, 11)
    exchange = b"\x00\x00" + _short(_EXCHANGE) + _short(b"headers") + b"\x00" + _table()
    _ask(connection, _method(40, 10, exchange), 40, 11)
    return connection


def _rabbit_subscriber(port: int, number: int, bindings: int) -> socket.socket:
    connection = _session(port)
    queue = b"q%d" % number
    _ask(connection, _method(50, 10, b"\x00\x00" + _short(queue) + b"\x00" + _table()), 50, 11)
    mine = range(number, bindings, CONNECTIONS)
    if mine:
        named = b"\x00\x00" + _short(queue) + _short(_EXCHANGE) + b"\x00\x00"
        said = (_method(50, 20, named + _table(x_match="all", symbol=f"S{each}")) for each in mine)
        _ask(connection, b"".join(said), 50, 21, times=len(mine))
    # Without acknowledgements: neither side then waits for the other.
    _ask(connection, _method(60, 20, b"\x00\x00" + _short(queue) + b"\x00" + b"\x02" + _table()), 60, 21)
    return connection


def _rabbit_message(number: int, bindings: int) -> bytes:
    headers = _table(symbol=f"S{number % bindings}")
    properties = pack(">HHQH", 60, 0, len(PAYLOAD), 0x2000) + headers
    publish = _method(60, 40, b"\x00\x00" + _short(_EXCHANGE) + b"\x00\x00")
    return publish + _frame(_HEADER, 1, properties) + _frame(_BODY, 1, PAYLOAD)


@contextmanager
def _rabbitmq() -> Iterator[tuple[int, Callable[[], float]]]:
    port, dist_port, epmd_port = free_ports(3)
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "HOME": folder,
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"measured{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(dist_port),
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_CONFIG_FILE": f"{folder}/none",
            # Idle schedulers would otherwise turn in circles, and be counted for it.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none +sbwtdcpu none +sbwtdio none",
        }
        process = subprocess.Popen(  # noqa: S603
            [str(PROGRAM)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder
        )
        try:
            _wait_for(port, process)
            virtual_machines = [each for each in _all_of(process.pid) if "beam" in each.name()]
            yield port, lambda: sum(cpu_s(each.pid) for each in virtual_machines)
        finally:
            for each in _all_of(process.pid):
                with suppress(psutil.NoSuchProcess):
                    each.terminate()
            process.wait()
            subprocess.run(["epmd", "-kill"], env=environment, capture_output=True, check=False)  # noqa: S607


def _all_of(pid: int) -> list[Any]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            _session(port).close()
            return
        except (OSError, RuntimeError):
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError("rabbitmq-server did not come up") from None
            time.sleep(0.1)


# -- OctopiA, with the same subscriptions


def _octopia_subscriber(port: int, number: int, bindings: int) -> socket.socket:
    connection = dial(port, f"s{number}")
    mine = range(number, bindings, CONNECTIONS)
    said = (subscribe_frame(f"s{each}", parse_filter(f"symbol = 'S{each}'"), "block", True) for each in mine)
    connection.sendall(b"".join(said))
    read_until(connection, b"\xa9subscribe", len(mine))
    connection.sendall(message_frame(Ack(len(mine))))
    return connection


def _octopia_publisher(port: int) -> socket.socket:
    connection = dial(port, "P")
    connection.sendall(advertise_frame("a", parse_filter("symbol is not null and text is not null")))
    read_until(connection, b"\xa9advertise")
    return connection


def _octopia_message(number: int, bindings: int) -> bytes:
    text = (MARK.decode() + "x" * PAYLOAD_BYTES)[: PAYLOAD_BYTES - 30]
    return publish_frame(check_parcel({"symbol": f"S{number % bindings}", "text": text}, "P", number + 1)[0])


def speeches(bindings: int) -> list[Speech]:
    """Drivers for both, with this many bindings."""
    ours = Speech(
        "OctopiA",
        "",
        octopia,
        lambda port, n: _octopia_subscriber(port, n, bindings),
        _octopia_publisher,
        lambda n: _octopia_message(n, bindings),
        confirms=True,
        answers=lambda n: len(range(n, bindings, CONNECTIONS)),
    )
    theirs = Speech(
        "RabbitMQ, headers exchange",
        "rabbitmq-server",
        _rabbitmq,
        lambda port, n: _rabbit_subscriber(port, n, bindings),
        _session,
        lambda n: _rabbit_message(n, bindings),
    )
    return [ours] if why_not() else [ours, theirs]


def run_bindings() -> dict[str, Any]:
    """CPU per message with 1, 100 and 1,000 bindings; `skipped` says why RabbitMQ is not among them, if so."""
    rows = []
    for bindings, messages in LOADS:
        for speech in speeches(bindings):
            row = measure(speech, 1, messages, connections=min(bindings, CONNECTIONS))
            rows.append({"bindings": bindings, **row})
    return {"rows": rows, "skipped": why_not()}
