"""The specification of a workload: number of clients, selectivity, rates.

Values only, checked when they are made, with an `InputError` that names the field. The defaults are the paper's
setting. Bounds keep a workload within a few gigabytes.
"""

from dataclasses import dataclass
from math import floor, isfinite
from typing import Final, Literal, TypeAlias, get_args

from octopia.errors import InputError
from octopia.hints import maybe_meant

Shape: TypeAlias = Literal["symbols", "ranges", "mixed"]
PlacementRule: TypeAlias = Literal["random", "edge", "spread"]

CLIENTS_MAX: Final = 1_000_000
PUBLICATIONS_MAX: Final = 50_000_000
RATE_PER_MINUTE_MAX: Final = 60_000_000_000
MINUTE_NS: Final = 60_000_000_000
CHANGES_MAX: Final = 1_000_000


@dataclass(frozen=True)
class WorkloadSpec:
    """The clients of a workload.

    `selectivity` is the share of the notifications that a subscription should match. `shape` says how: `symbols` names
    that share of the symbols, `ranges` asks for intervals of prices, volumes and percentages, `mixed` is a third of
    each and a third of both together. Each publisher publishes `notifications_per_publisher` notifications, one each
    60/`rate_per_minute` seconds.
    """

    publishers: int = 100
    subscribers: int = 2000
    selectivity: float = 0.02
    shape: Shape = "symbols"
    notifications_per_publisher: int = 2000
    rate_per_minute: float = 60
    placement: PlacementRule = "random"
    seed: int = 1

    def __post_init__(self) -> None:
        _check_whole(self, "publishers", 1, CLIENTS_MAX)
        _check_whole(self, "subscribers", 0, CLIENTS_MAX)
        _check_whole(self, "notifications_per_publisher", 1, PUBLICATIONS_MAX)
        _check_whole(self, "seed", None, None)
        _check_share(self, "selectivity")
        _check_rate(self)
        _check_word(self, "shape", get_args(Shape))
        _check_word(self, "placement", get_args(PlacementRule))
        if self.publishers * self.notifications_per_publisher > PUBLICATIONS_MAX:
            raise InputError(
                f"{self.publishers:,} publishers × {self.notifications_per_publisher:,} notifications are more than "
                f"{PUBLICATIONS_MAX:,}; lower one of them"
            )


@dataclass(frozen=True)
class BurstSpec:
    """One more publisher with a symbol of its own and a high rate, and how many of the subscribers want it.

    `cluster` is the one that its host broker is in; None leaves that to `places.place_high_rate`.
    """

    rate_per_minute: float = 100_000
    notifications: int = 100_000
    interested_share: float = 0.02
    start_s: float = 0.0
    cluster: int | None = None

    def __post_init__(self) -> None:
        _check_whole(self, "notifications", 1, PUBLICATIONS_MAX)
        _check_share(self, "interested_share")
        _check_rate(self)
        if not _is_number(self.start_s) or not 0 <= self.start_s <= 1e6:
            raise InputError(f"start_s is {self.start_s!r}: give seconds from 0 to 1,000,000")
        if self.cluster is not None:
            _check_whole(self, "cluster", 0, CLIENTS_MAX)

    def interested(self, subscribers: int) -> int:
        """The number of interested subscribers."""
        return rounded(self.interested_share * subscribers)


@dataclass(frozen=True)
class ChurnSpec:
    """Clients that withdraw and register while notifications are published.

    `changes_per_minute` counts all changes of all clients. The share `advertisements_share` of them is about
    advertisements, the rest about subscriptions. Withdrawals and registrations take turns (`churn.py`).
    """

    changes_per_minute: float = 60
    advertisements_share: float = 0.2

    def __post_init__(self) -> None:
        rate, share = self.changes_per_minute, self.advertisements_share
        if not _is_number(rate) or not 0 <= rate <= RATE_PER_MINUTE_MAX:
            raise InputError(f"changes_per_minute is {rate!r}: give 0 to {RATE_PER_MINUTE_MAX:,} changes a minute")
        if not _is_number(share) or not 0 <= share <= 1:
            raise InputError(f"advertisements_share is {share!r}: give a share from 0 to 1, for example 0.2 for 20 %")

    def counts(self, span_ns: int) -> tuple[int, int]:
        """The number of changes of advertisements and of subscriptions in this time."""
        changes = rounded(self.changes_per_minute * span_ns / MINUTE_NS)
        if changes > CHANGES_MAX:
            raise InputError(f"{changes:,} changes are more than {CHANGES_MAX:,}; lower changes_per_minute")
        advertisements = rounded(changes * self.advertisements_share)
        return advertisements, changes - advertisements


def period_ns(rate_per_minute: float) -> int:
    """The time between two notifications of a publisher, to the nanosecond."""
    return max(1, rounded(MINUTE_NS / rate_per_minute))


def rounded(value: float) -> int:
    """To the nearest whole number, halves up."""
    return floor(value + 0.5)


def _check_whole(spec: object, name: str, least: int | None, most: int | None) -> None:
    value = getattr(spec, name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name} is {value!r}: give a whole number")
    if (least is not None and value < least) or (most is not None and value > most):
        raise InputError(f"{name} is {value:,}: give {least:,} to {most:,}")


def _check_share(spec: object, name: str) -> None:
    value = getattr(spec, name)
    if not _is_number(value) or not 0 < value <= 1:
        raise InputError(f"{name} is {value!r}: give a share above 0 and up to 1, for example 0.02 for 2 %")


def _check_rate(spec: "WorkloadSpec | BurstSpec") -> None:
    rate = spec.rate_per_minute
    if not _is_number(rate) or not 1e-3 <= rate <= RATE_PER_MINUTE_MAX:
        raise InputError(f"rate_per_minute is {rate!r}: give 0.001 to {RATE_PER_MINUTE_MAX:,} notifications a minute")


def _check_word(spec: object, name: str, known: tuple[str, ...]) -> None:
    value = getattr(spec, name)
    if value not in known:
        raise InputError(f"{name} is {value!r}: give {' or '.join(known)}{maybe_meant(str(value), known)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
