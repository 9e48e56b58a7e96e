"""Many subscriptions, and what things take in memory; and how long a broker takes to start."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.live.brokers import Brokers, cpu_s, free_ports
from benchmarks.live.load import Publisher, Subscribers, dial
from octopia.language import Filter, parse_filter
from octopia.wire import check_parcel, publish_frame

MANY = 100_000
CONNECTIONS = 10
NOTIFICATIONS = 12_000
PARTS = 3
STARTS = 3
IDLE = 5_000
# Less than clients may be silent.
IDLE_S = 8.0


def many_subscriptions(count: int = MANY) -> dict[str, Any]:
    """CPU µs of a notification beside so many subscriptions, where no notification and no set of matches comes twice.

    Each subscription asks for one of `count / 5` symbols, a price from some value on and a volume. Each notification
    has a symbol, price and volume of its own; every symbol has five subscriptions, some of which match.
    """
    symbols = count // 5 + 1  # so that those of a symbol are on several connections
    filters = [_filter(number, symbols) for number in range(count)]
    brokers = Brokers("path:1", 1).start()
    port = next(iter(brokers.ports.values()))
    empty = brokers.memory_bytes()
    begin, used = time.perf_counter(), brokers.cpu_s()
    subscribers = Subscribers(port, [filters[n::CONNECTIONS] for n in range(CONNECTIONS)], wait_s=300)
    registered_s, register_cpu_s = time.perf_counter() - begin, brokers.cpu_s() - used
    full = brokers.memory_bytes()
    publisher = Publisher(port, advertisement_of_many())
    try:
        frames = [_frame(number, symbols) for number in range(NOTIFICATIONS)]
        due = sum(len(_receivers(number, count, symbols)) for number in range(NOTIFICATIONS))
        stretch = NOTIFICATIONS // (PARTS + 1)
        taken = []
        for start in range(0, NOTIFICATIONS, stretch):
            before = brokers.cpu_s()
            publisher.send(frames[start : start + stretch], 200)
            taken.append(1e6 * (brokers.cpu_s() - before) / stretch)
        subscribers.wait_for(due)
    finally:
        publisher.close()
        subscribers.close()
        brokers.close()
    return {
        "subscriptions": count,
        "cpu_us_each": statistics.median(taken[1:]),
        "first_part_cpu_us_each": taken[0],
        "deliveries_each": due / NOTIFICATIONS,
        "register_cpu_us_each": 1e6 * register_cpu_s / count,
        "register_s": registered_s,
        "bytes_per_subscription": (full - empty) / count,
    }


def advertisement_of_many() -> Filter:
    return parse_filter("symbol is not null and price is not null and volume is not null and text is not null")


def _filter(number: int, symbols: int) -> Filter:
    return parse_filter(
        f"symbol = 'S{number % symbols}' and price >= {(number * 7919) % 1000} and volume > {number % 7}"
    )


def _place_and_price(number: int, symbols: int) -> tuple[int, float]:
    return (number * 104_729) % symbols, 500 + (number * 31) % 1000 + number / 100_000


def _receivers(number: int, count: int, symbols: int) -> set[int]:
    """The connections that a notification goes to, worked out from the numbers alone."""
    place, price = _place_and_price(number, symbols)
    return {n % CONNECTIONS for n in range(place, count, symbols) if price >= (n * 7919) % 1000}


def _frame(number: int, symbols: int) -> bytes:
    place, price = _place_and_price(number, symbols)
    quote = {"symbol": f"S{place}", "price": price, "volume": 10 + number, "text": "x" * 140}
    return publish_frame(check_parcel(quote, "P", number + 1)[0])


def connection_bytes(count: int = 500) -> dict[str, Any]:
    """The memory of a client connection without a subscription."""
    brokers = Brokers("path:1", 1).start()
    port = next(iter(brokers.ports.values()))
    try:
        some = [dial(port, f"c{n}") for n in range(50)]
        before = brokers.memory_bytes()
        some += [dial(port, f"d{n}") for n in range(count)]
        after = brokers.memory_bytes()
        for connection in some:
            connection.close()
    finally:
        brokers.close()
    return {"connections": count, "bytes_per_connection": (after - before) / count}


def idle_share(count: int = IDLE) -> dict[str, Any]:
    """The share of a core that a broker takes while so many clients are connected and silent."""
    brokers = Brokers("path:1", 1).start()
    port = next(iter(brokers.ports.values()))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2 * count + 100, most), most))
    idle = []
    try:
        idle = [dial(port, f"idle{n}") for n in range(count)]
        time.sleep(2.0)
        begin, used = time.perf_counter(), brokers.cpu_s()
        time.sleep(IDLE_S)
        share = (brokers.cpu_s() - used) / (time.perf_counter() - begin)
    finally:
        for connection in idle:
            connection.close()
        brokers.close()
    return {"connections": count, "share_of_a_core": share}


def start_s() -> dict[str, Any]:
    """From starting `octopia serve` to its line that it listens: with compiled code on disk, and without any."""
    with tempfile.TemporaryDirectory() as empty:
        cold = [_start({"NUMBA_CACHE_DIR": empty})]
        warm = [_start({"NUMBA_CACHE_DIR": empty}) for _ in range(STARTS)]
    return {
        "with_compiled_code": {"wall_s": _median(warm, 0), "cpu_s": _median(warm, 1)},
        "without": {"wall_s": cold[0][0], "cpu_s": cold[0][1]},
    }


def _median(of: list[tuple[float, float]], part: int) -> float:
    return statistics.median(each[part] for each in of)


def _start(environment: dict[str, str]) -> tuple[float, float]:
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "overlay.toml"
        text = f'[overlay]\ntree = "path:1"\nclusters = 1\n[brokers]\naddresses = {{ "a,0" = "127.0.0.1:{port}" }}\n'
        file.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "octopia", "serve", str(file), "--no-state"]
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)  # noqa: S603
        try:
            assert process.stdout is not None
            assert "octopia://" in process.stdout.readline()
            listens_s = time.perf_counter() - begin
            used_s = cpu_s(process.pid)
            # A connection is answered at once, whatever is being compiled.
            dial(port, "early").close()
        finally:
            process.terminate()
            process.wait()
    return listens_s, used_s
