"""The whole workload: the clients with their brokers and filters, and the schedule of publications.

Everything follows from the spec, the overlay and the quotes. More subscribers leave the first ones as they were, and so
do more publishers as long as each has a symbol of its own (the subscriptions follow the published symbols). Each
publisher starts at a random moment within its first period and then publishes at even intervals, its notifications in
the order of their dates, from the first again when they are used up. The selectivity of every filter is measured by
`truth` on the notifications, each of which counts once, however often it is published. The high-rate publishers of
bursts are the last ones, in the order of the bursts; each has its own interested subscribers. With churn, clients
withdraw and register while others publish: a subscriber comes back with a filter of its own kind and another number, a
publisher with the advertisement it had; while it has none it publishes nothing. High-rate publishers stay.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import fsum
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from octopia.errors import InputError
from octopia.language import Filter
from octopia.topology import BrokerId, Scot
from octopia.workload.churn import Turn, draw_turns
from octopia.workload.client_places import client_brokers, place_high_rate, place_interested
from octopia.workload.draws import below, sample, stream
from octopia.workload.filters import advertisement_filter, subscription_filters
from octopia.workload.market import Market, Symbols, checked_quotes, draw_symbols, high_rate_counts, make_market
from octopia.workload.spec import BurstSpec, ChurnSpec, WorkloadSpec, period_ns, rounded
from octopia.workload.truth import match_counts
from octopia.workload.wishes import Wish, WishSpec, draw_wishes

HIGH_RATE_CLIENT = "high-rate"
Count: TypeAlias = Callable[[Sequence[Filter], pa.Table], npt.NDArray[np.int64]]
ChangeKind: TypeAlias = Literal["subscribe", "unsubscribe", "advertise", "unadvertise"]


def high_rate_client(number: int) -> str:
    """The name of a high-rate publisher, counted from 0: `high-rate`, `high-rate-2`, `high-rate-3`, …"""
    return HIGH_RATE_CLIENT if number == 0 else f"{HIGH_RATE_CLIENT}-{number + 1}"


@dataclass(frozen=True)
class Registration:
    """One advertisement or subscription: its client, its broker, and the measured share of notifications it matches."""

    client: str
    broker: BrokerId
    id: str
    filter: Filter
    selectivity: float


@dataclass(frozen=True)
class Change:
    """A client registers, or withdraws a registration, `at_ns` after the start of publishing.

    A withdrawal names the registration that it ends; only its client, broker and id count.
    """

    at_ns: int
    kind: ChangeKind
    registration: Registration


@dataclass(frozen=True, eq=False)
class Publications:
    """The schedule of publications, by time, then publisher; the three arrays are read-only.

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
    """A summary of selectivities."""

    mean: float
    least: float
    most: float


class Summary(NamedTuple):
    """The measured selectivities of a workload's filters."""

    advertisements: Spread
    subscriptions: Spread


@dataclass(frozen=True, eq=False)
class Workload:
    """Clients, notifications (`NOTIFICATIONS_SCHEMA`, distinct rows), publications and changes.

    `high_rate` are the indices of the high-rate publishers among the advertisements. `advertisements` and
    `subscriptions` are in force before publishing begins. `changes` happen during publishing and are sorted by time; at
    the same time they come before publications. All registrations of a client are at one broker, and an id is reused
    only after it was withdrawn. `wishes` has the delivery options by client.
    """

    notifications: pa.Table
    advertisements: tuple[Registration, ...]
    subscriptions: tuple[Registration, ...]
    publications: Publications
    high_rate: tuple[int, ...] = ()
    changes: tuple[Change, ...] = ()
    wishes: Mapping[str, Wish] = field(default_factory=dict)

    def clients(self) -> dict[str, BrokerId]:
        """All clients that ever register, and their brokers, in the order in which they come."""
        every = (*self.advertisements, *self.subscriptions, *(change.registration for change in self.changes))
        brokers: dict[str, BrokerId] = {}
        for registration in every:
            brokers.setdefault(registration.client, registration.broker)
        return brokers

    def summary(self) -> Summary:
        """The measured selectivities."""
        return Summary(_spread(self.advertisements), _spread(self.subscriptions))

    def equals(self, other: "Workload") -> bool:
        """Whether both are the same in every part."""
        mine, theirs = self.publications, other.publications
        return (
            self.advertisements == other.advertisements
            and self.subscriptions == other.subscriptions
            and self.high_rate == other.high_rate
            and self.changes == other.changes
            and self.wishes == other.wishes
            and self.notifications.equals(other.notifications)
            and np.array_equal(mine.at_ns, theirs.at_ns)
            and np.array_equal(mine.publisher, theirs.publisher)
            and np.array_equal(mine.row, theirs.row)
        )


def make_workload(
    spec: WorkloadSpec,
    overlay: Scot,
    quotes: pa.Table,
    bursts: Sequence[BurstSpec] = (),
    symbols: Sequence[str] | None = None,
    churn: ChurnSpec | None = None,
    wishes: WishSpec | None = None,
    *,
    count: Count = match_counts,
) -> Workload:
    """The workload of these settings on this overlay, with any number of bursts.

    `symbols` are all symbols of the data if `quotes` holds only some, for example those from `draw_symbols`. `count`
    returns how many notifications each filter matches; only the selectivities depend on it.
    """
    table = checked_quotes(quotes)
    drawn = draw_symbols(spec, table["symbol"].unique().to_pylist() if symbols is None else symbols, bursts)
    market = make_market(spec, drawn, quotes, high_rate_counts(drawn, bursts))
    advertisements = _advertisements(spec, overlay, drawn, market, bursts, count)
    hosts = [advertisement.broker for advertisement in advertisements[spec.publishers :]]
    subscriptions = _subscriptions(spec, overlay, drawn, market, bursts, hosts, count)
    publications = _publications(spec, drawn, market, bursts)
    high_rate = tuple(range(spec.publishers, len(advertisements)))
    workload = Workload(market.notifications, advertisements, subscriptions, publications, high_rate)
    if wishes is not None:
        workload = replace(workload, wishes=draw_wishes(spec, wishes, interested_subscribers(spec, bursts)))
    return workload if churn is None else _churned(workload, spec, churn, drawn, market, count)


def _advertisements(
    spec: WorkloadSpec, overlay: Scot, symbols: Symbols, market: Market, bursts: Sequence[BurstSpec], count: Count
) -> tuple[Registration, ...]:
    names = [f"p{number}" for number in range(spec.publishers)]
    names += [high_rate_client(number) for number in range(len(bursts))]
    published = (*symbols.of_publishers, *symbols.high_rate)
    brokers = client_brokers(overlay, spec.placement, spec.seed, "publishers", range(len(names)))
    asked = [burst.cluster for burst in bursts]
    brokers[spec.publishers :] = place_high_rate(overlay, asked, brokers[spec.publishers :])
    by_symbol = {symbol: advertisement_filter(market, symbol) for symbol in symbols.every}
    filters = [by_symbol[symbol] for symbol in published]
    return _registered(names, brokers, "a", filters, market, count)


def _subscriptions(
    spec: WorkloadSpec,
    overlay: Scot,
    symbols: Symbols,
    market: Market,
    bursts: Sequence[BurstSpec],
    hosts: Sequence[BrokerId],
    count: Count,
) -> tuple[Registration, ...]:
    numbers = range(spec.subscribers)
    brokers = client_brokers(overlay, spec.placement, spec.seed, "subscribers", numbers)
    wanted: dict[int, str] = {}
    parts = zip(interested_subscribers(spec, bursts), hosts, symbols.high_rate, strict=True)
    for interested, host, symbol in parts:
        placed = [brokers[number] for number in interested]
        moved = place_interested(overlay, spec.placement, spec.seed, host, placed)
        for number, broker in zip(interested, moved, strict=True):
            brokers[number] = broker
            wanted[number] = symbol
    filters = subscription_filters(spec, symbols, market, numbers, wanted)
    return _registered([f"s{number}" for number in numbers], brokers, "s", filters, market, count)


def interested_subscribers(spec: WorkloadSpec, bursts: Sequence[BurstSpec]) -> list[list[int]]:
    """The numbers of the interested subscribers by burst, in the order of placement; each is in at most one."""
    counts = [burst.interested(spec.subscribers) for burst in bursts]
    if sum(counts) > spec.subscribers:
        raise InputError(
            f"{len(bursts)} bursts interest {sum(counts):,} subscribers, each another one, and there are "
            f"{spec.subscribers:,}; lower interested_share or raise the number of subscribers"
        )
    drawn = iter(sample(stream(spec.seed, "interested"), spec.subscribers, sum(counts)).tolist())
    return [list(islice(drawn, count)) for count in counts]


def _registered(
    names: Sequence[str],
    brokers: Sequence[BrokerId],
    prefix: str,
    filters: Sequence[Filter],
    market: Market,
    count: Count,
    first: int = 0,
) -> tuple[Registration, ...]:
    shares = count(filters, market.notifications) / market.notifications.num_rows
    parts = zip(names, brokers, filters, shares.tolist(), strict=True)
    return tuple(
        Registration(name, broker, f"{prefix}{number}", filter, share)
        for number, (name, broker, filter, share) in enumerate(parts, first)
    )


def _publications(spec: WorkloadSpec, symbols: Symbols, market: Market, bursts: Sequence[BurstSpec]) -> Publications:
    period = period_ns(spec.rate_per_minute)
    phases = below(stream(spec.seed, "phase"), np.arange(spec.publishers), period)
    turns = np.arange(spec.notifications_per_publisher, dtype=np.int64)
    first = np.array([market.first_row[symbol] for symbol in symbols.of_publishers])
    count = np.array([market.row_count[symbol] for symbol in symbols.of_publishers])
    at = [(phases[:, None] + turns * period).ravel()]
    publisher = [np.repeat(np.arange(spec.publishers), len(turns))]
    row = [(first[:, None] + turns % count[:, None]).ravel()]
    for number, (burst, symbol) in enumerate(zip(bursts, symbols.high_rate, strict=True), spec.publishers):
        fast = period_ns(burst.rate_per_minute)
        turns = np.arange(burst.notifications, dtype=np.int64)
        phase = below(stream(spec.seed, "phase"), [number], fast) + rounded(burst.start_s * 1e9)
        at.append(phase + turns * fast)
        publisher.append(np.full(len(turns), number))
        row.append(market.first_row[symbol] + turns % market.row_count[symbol])
    at_ns, who, which = (np.concatenate(parts) for parts in (at, publisher, row))
    order = np.lexsort((who, at_ns))
    return Publications(at_ns[order], who[order].astype(np.int32), which[order].astype(np.int32))


def _churned(
    workload: Workload, spec: WorkloadSpec, churn: ChurnSpec, symbols: Symbols, market: Market, count: Count
) -> Workload:
    """The workload with changes, and without publications of clients that have no advertisement at the time."""
    span_ns = spec.notifications_per_publisher * period_ns(spec.rate_per_minute)
    of_publishers, of_subscribers = churn.counts(span_ns)
    publishers = draw_turns(spec.seed, "publishers", spec.publishers, of_publishers, span_ns)
    subscribers = draw_turns(spec.seed, "subscribers", spec.subscribers, of_subscribers, span_ns)
    fresh = range(spec.subscribers, spec.subscribers + sum(not turn.leaves for turn in subscribers))
    filters = subscription_filters(spec, symbols, market, fresh)
    comers = [turn.client for turn in subscribers if not turn.leaves]
    names, brokers = ([getattr(workload.subscriptions[n], part) for n in comers] for part in ("client", "broker"))
    comes = iter(_registered(names, brokers, "s", filters, market, count, fresh.start))
    again = (
        replace(workload.advertisements[turn.client], id=f"a{number}")
        for number, turn in enumerate((t for t in publishers if not t.leaves), len(workload.advertisements))
    )
    changes = [
        *_changes(publishers, workload.advertisements, again, "unadvertise", "advertise"),
        *_changes(subscribers, workload.subscriptions, comes, "unsubscribe", "subscribe"),
    ]
    inorder = tuple(sorted(changes, key=lambda change: change.at_ns))
    return replace(workload, changes=inorder, publications=_while_advertised(workload.publications, publishers))


def _changes(
    turns: Iterable[Turn],
    at_first: Sequence[Registration],
    fresh: Iterator[Registration],
    withdraw: ChangeKind,
    register: ChangeKind,
) -> Iterator[Change]:
    held = list(at_first)
    for turn in turns:
        if turn.leaves:
            yield Change(turn.at_ns, withdraw, held[turn.client])
        else:
            held[turn.client] = next(fresh)
            yield Change(turn.at_ns, register, held[turn.client])


def _while_advertised(publications: Publications, turns: Iterable[Turn]) -> Publications:
    kept = np.ones(len(publications), dtype=np.bool_)
    at_ns, publisher = publications.at_ns, publications.publisher
    for turn in turns:
        # a later turn says anew what comes after it
        kept[(publisher == turn.client) & (at_ns >= turn.at_ns)] = not turn.leaves
    return Publications(at_ns[kept], publisher[kept], publications.row[kept])


def _spread(registrations: Iterable[Registration]) -> Spread:
    return spread_of([registration.selectivity for registration in registrations])


def spread_of(shares: Sequence[float]) -> Spread:
    """Mean, least and most of some selectivities."""
    return Spread(fsum(shares) / len(shares), min(shares), max(shares)) if shares else Spread(0.0, 0.0, 0.0)
