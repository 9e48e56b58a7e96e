"""The whole workload: who is connected where with what filter, and who publishes which notification when.

Rules of this file: everything follows from the spec, the overlay and the quotes. More subscribers leave the first ones
as they were, and so do more publishers as long as each has a symbol of its own (the subscriptions follow the published
symbols). Each publisher starts at a random moment within its first period and then publishes at even intervals, its
notifications in the order of their dates, from the first again when they are used up. The selectivity of every filter
is measured by `truth` on the notifications, each of which counts once, however often it is published. The high-rate
publisher of a burst is the last one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.language import Filter
from octopia.topology import BrokerId, Scot
from octopia.workload.draws import below, sample, stream
from octopia.workload.filters import advertisement_filter, subscription_filters
from octopia.workload.market import Market, Symbols, checked_quotes, draw_symbols, make_market
from octopia.workload.places import client_brokers, place_interested
from octopia.workload.spec import BurstSpec, WorkloadSpec, period_ns, rounded
from octopia.workload.truth import match_counts

HIGH_RATE_CLIENT = "high-rate"


@dataclass(frozen=True)
class Registration:
    """One advertisement or subscription: whose, at which broker, and the measured share of notifications it matches."""

    client: str
    broker: BrokerId
    id: str
    filter: Filter
    selectivity: float


@dataclass(frozen=True, eq=False)
class Publications:
    """What is published when, by time, then publisher; the three arrays are read-only.

    `at_ns` is the offset from the start of publishing, `publisher` the index into the advertisements, `row` that into
    the notifications.
    """

    at_ns: npt.NDArray[np.int64]
    publisher: npt.NDArray[np.int32]
    row: npt.NDArray[np.int32]

    def __post_init__(self) -> None:
        for column in (self.at_ns, self.publisher, self.row):
            column.flags.writeable = False

    def __len__(self) -> int:
        return len(self.at_ns)


class Spread(NamedTuple):
    """Of some selectivities."""

    mean: float
    least: float
    most: float


class Summary(NamedTuple):
    """What the filters of a workload were measured to match."""

    advertisements: Spread
    subscriptions: Spread


@dataclass(frozen=True, eq=False)
class Workload:
    """Clients, notifications (`NOTIFICATIONS_SCHEMA`, distinct rows) and publications.

    `high_rate` is the index of the high-rate publisher among the advertisements.
    """

    notifications: pa.Table
    advertisements: tuple[Registration, ...]
    subscriptions: tuple[Registration, ...]
    publications: Publications
    high_rate: int | None = None

    def summary(self) -> Summary:
        """The measured selectivities."""
        return Summary(_spread(self.advertisements), _spread(self.subscriptions))

    def interested(self) -> tuple[int, ...]:
        """The indices of the subscriptions that the high-rate publisher's notifications match; () without a burst."""
        if self.high_rate is None:
            return ()
        rows = np.unique(self.publications.row[self.publications.publisher == self.high_rate])
        counts = match_counts([s.filter for s in self.subscriptions], self.notifications.take(pa.array(rows)))
        return tuple(np.flatnonzero(counts).tolist())

    def equals(self, other: "Workload") -> bool:
        """Whether both are the same in every part."""
        mine, theirs = self.publications, other.publications
        return (
            self.advertisements == other.advertisements
            and self.subscriptions == other.subscriptions
            and self.high_rate == other.high_rate
            and self.notifications.equals(other.notifications)
            and np.array_equal(mine.at_ns, theirs.at_ns)
            and np.array_equal(mine.publisher, theirs.publisher)
            and np.array_equal(mine.row, theirs.row)
        )


def make_workload(
    spec: WorkloadSpec,
    overlay: Scot,
    quotes: pa.Table,
    burst: BurstSpec | None = None,
    symbols: Sequence[str] | None = None,
) -> Workload:
    """The workload of these settings on this overlay.

    `symbols` are all symbols of the data where `quotes` holds only some, for example those that `draw_symbols` gave.
    """
    table = checked_quotes(quotes)
    drawn = draw_symbols(spec, table["symbol"].unique().to_pylist() if symbols is None else symbols, burst)
    market = make_market(spec, drawn, quotes, burst)
    advertisements = _advertisements(spec, overlay, drawn, market)
    high_rate = None if burst is None else len(advertisements) - 1
    subscriptions = _subscriptions(spec, overlay, drawn, market, burst, advertisements[-1].broker)
    publications = _publications(spec, drawn, market, burst)
    return Workload(market.notifications, advertisements, subscriptions, publications, high_rate)


def _advertisements(spec: WorkloadSpec, overlay: Scot, symbols: Symbols, market: Market) -> tuple[Registration, ...]:
    names = [f"p{number}" for number in range(spec.publishers)]
    published = list(symbols.of_publishers)
    if symbols.high_rate is not None:
        names.append(HIGH_RATE_CLIENT)
        published.append(symbols.high_rate)
    brokers = client_brokers(overlay, spec.placement, spec.seed, "publishers", range(len(names)))
    by_symbol = {symbol: advertisement_filter(market, symbol) for symbol in symbols.every}
    filters = [by_symbol[symbol] for symbol in published]
    return _registered(names, brokers, "a", filters, market)


def _subscriptions(
    spec: WorkloadSpec,
    overlay: Scot,
    symbols: Symbols,
    market: Market,
    burst: BurstSpec | None,
    last_publisher: BrokerId,
) -> tuple[Registration, ...]:
    numbers = range(spec.subscribers)
    brokers = client_brokers(overlay, spec.placement, spec.seed, "subscribers", numbers)
    interested: list[int] = []
    if burst is not None:
        interested = interested_subscribers(spec, burst)
        placed = [brokers[number] for number in interested]
        moved = place_interested(overlay, spec.placement, spec.seed, last_publisher, placed)
        for number, broker in zip(interested, moved, strict=True):
            brokers[number] = broker
    filters = subscription_filters(spec, symbols, market, numbers, interested)
    return _registered([f"s{number}" for number in numbers], brokers, "s", filters, market)


def interested_subscribers(spec: WorkloadSpec, burst: BurstSpec) -> list[int]:
    """The numbers of the subscribers that want the high-rate symbol, in the order in which they are placed."""
    count = burst.interested(spec.subscribers)
    return [int(n) for n in sample(stream(spec.seed, "interested"), spec.subscribers, count)]


def _registered(
    names: Sequence[str], brokers: Sequence[BrokerId], prefix: str, filters: Sequence[Filter], market: Market
) -> tuple[Registration, ...]:
    shares = match_counts(filters, market.notifications) / market.notifications.num_rows
    parts = zip(names, brokers, filters, shares.tolist(), strict=True)
    return tuple(
        Registration(name, broker, f"{prefix}{number}", filter, share)
        for number, (name, broker, filter, share) in enumerate(parts)
    )


def _publications(spec: WorkloadSpec, symbols: Symbols, market: Market, burst: BurstSpec | None) -> Publications:
    period = period_ns(spec.rate_per_minute)
    phases = below(stream(spec.seed, "phase"), np.arange(spec.publishers), period)
    turns = np.arange(spec.notifications_per_publisher, dtype=np.int64)
    first = np.array([market.first_row[symbol] for symbol in symbols.of_publishers])
    count = np.array([market.row_count[symbol] for symbol in symbols.of_publishers])
    at = [(phases[:, None] + turns * period).ravel()]
    publisher = [np.repeat(np.arange(spec.publishers), len(turns))]
    row = [(first[:, None] + turns % count[:, None]).ravel()]
    if burst is not None and symbols.high_rate is not None:
        fast = period_ns(burst.rate_per_minute)
        turns = np.arange(burst.notifications, dtype=np.int64)
        phase = below(stream(spec.seed, "phase"), [spec.publishers], fast) + rounded(burst.start_s * 1e9)
        at.append(phase + turns * fast)
        publisher.append(np.full(len(turns), spec.publishers))
        row.append(market.first_row[symbols.high_rate] + turns % market.row_count[symbols.high_rate])
    at_ns, who, which = (np.concatenate(parts) for parts in (at, publisher, row))
    order = np.lexsort((who, at_ns))
    return Publications(at_ns[order], who[order].astype(np.int32), which[order].astype(np.int32))


def _spread(registrations: Iterable[Registration]) -> Spread:
    shares = [registration.selectivity for registration in registrations]
    return Spread(fsum(shares) / len(shares), min(shares), max(shares)) if shares else Spread(0.0, 0.0, 0.0)
