"""`python -m benchmarks.matching.pauses [COUNT]`: how long the matcher makes anyone wait while filters come and go.

Filters of one symbol, a minimum price and a minimum volume are added one by one, five to a symbol, with a read of
notifications now and then; then two thirds of them are removed in random order. What counts is CPU time of this thread:
of an average call, and of the longest ones. Filters are made outside the measured time, and garbage collection is off,
since a broker collects rarely.
"""

import argparse
import gc
import resource
import time
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from octopia.language import Conjunction, Filter, Operator, Predicate, parse_notification
from octopia.matching import Matcher
from octopia.net.broker.engine.arrays import Arrays
from octopia.net.broker.engine.compiled import NO_GROUPS
from octopia.net.broker.engine.warm_up import warm_up
from octopia.wire import Kind, Scanner, WireLimits, encode_parcel, notification_frame

COUNT = 200_000
PER_SYMBOL = 5
READ = 20
READ_EVERY = 5_000
GOAL_MS = 5.0
SHOWN = 8


class Calls:
    """Calls of one kind: their number, total time, and the long ones."""

    def __init__(self) -> None:
        self.count = 0
        self.spent_s = 0.0
        self.long_ms: list[tuple[float, int]] = []  # with the number of the call

    def __call__(self, call: Callable[..., Any], *arguments: Any) -> None:
        begin = time.thread_time()
        call(*arguments)
        took_s = time.thread_time() - begin
        self.count += 1
        self.spent_s += took_s
        if took_s * 1000 > GOAL_MS:
            self.long_ms.append((took_s * 1000, self.count))

    def say(self, what: str) -> None:
        long = ", ".join(f"{ms:.1f} ms (call {number:,})" for ms, number in sorted(self.long_ms, reverse=True)[:SHOWN])
        each_us = 1e6 * self.spent_s / max(self.count, 1)
        print(f"{what:28} {self.count:>9,} calls, {each_us:6.1f} µs each, {len(self.long_ms)} over 5 ms: {long or '-'}")


class _Reads:
    """Reads of notifications, which are read and matched as a broker does it."""

    def __init__(self, symbols: int) -> None:
        from octopia.net.broker.engine import read_numba

        self._kernel: Any = read_numba.read_copies
        self._symbols = symbols
        self._scanner = Scanner(WireLimits())
        self._scanner.learn(("symbol", "price", "volume"))
        self._arrays = Arrays(1)

    def take(self, first: int) -> bytes:
        parcels = [encode_parcel(self._notification(first + k), "p", k + 1) for k in range(READ)]
        return b"".join(notification_frame(Kind.NOTIFY, b"", parcel) for parcel in parcels)

    def match(self, matcher: Matcher[int], read: bytes) -> None:
        scanner = self._scanner
        scanner.scans += 1
        matcher.attend(READ)
        count, *_, groups, _, _, _, _ = self._kernel(
            np.frombuffer(read, np.uint8), 0, 10**6, *scanner.limits, scanner.scans, scanner.sheet.address,
            self._arrays.sheet.address, NO_GROUPS, matcher.ready(scanner.names), 0, False, 0,
        )  # fmt: skip
        assert (count, groups) == (READ, 0)

    def _notification(self, number: int) -> Any:
        symbol = f"S{number * 104_729 % self._symbols}"
        return parse_notification({"symbol": symbol, "price": 500.5 + number % READ, "volume": 10})


def _filter(number: int, symbols: int) -> Filter:
    terms = [
        Predicate("symbol", Operator.EQ, f"S{number % symbols}"),
        Predicate("price", Operator.GE, number * 7919 % 1000),
        Predicate("volume", Operator.GT, number % 7),
    ]
    return Filter([Conjunction(terms)])


def measure(count: int) -> None:
    symbols = count // PER_SYMBOL + 1
    matcher: Matcher[int] = Matcher()
    reads = _Reads(symbols)
    warm_up()
    reads.match(matcher, reads.take(0))
    gc.collect()
    gc.disable()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    adds, matches, removes = Calls(), Calls(), Calls()
    for number in range(count):
        made = _filter(number, symbols)
        adds(matcher.add, number, made)
        if number % READ_EVERY == 0:
            matches(reads.match, matcher, reads.take(number))
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    order = list(range(count))
    Random(1).shuffle(order)
    for number in order[: count * 2 // 3]:
        removes(matcher.remove, number)
    adds.say("adding a filter")
    matches.say(f"a read of {READ} notifications")
    removes.say("removing a filter")
    print(f"memory per filter, with its filter object: {1024 * kib / count:,.0f} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.matching.pauses", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=COUNT, help=f"how many filters ({COUNT:,})")
    measure(parser.parse_args().count)
