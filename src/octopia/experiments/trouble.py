"""The faults of an experiment, from its settings: k-1 brokers that die, or one, or one slow link.

The location follows from the overlay and the host broker of the high-rate publisher (of the last publisher, without a
burst), so that a name means the same with every seed. The host broker itself never dies in a crash. The brokers die at
one moment and come back at one moment, with empty tables.

    host-neighbours  the brokers next to the host broker: those over its aLinks, then its region mates
    host-region      all brokers of the host's region but the host
    next-region      all but one of the neighbouring region with the most regions beyond it; the one that is left is of
                     another cluster than the host
    inner            the inner brokers with the most regions beyond them, of the host's cluster first

A single failing broker is chosen by its clients, the first of the overlay among equals:

    edge, inner      the edge or inner broker with the fewest clients
    publishers       the broker with the most publishers
    subscribers      the broker with the most subscribers
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from octopia.errors import InputError
from octopia.experiments.settings import Settings
from octopia.hints import maybe_meant, shortened
from octopia.sim import BrokerFault, Fault, LinkFault
from octopia.topology import BrokerId, Scot
from octopia.workload import client_brokers

NONE: Final = "none"
# As a point: every link of the overlay in turn.
EVERY: Final = "every"
SECOND_NS: Final = 1_000_000_000
_FOREVER_NS: Final = 1 << 60
_HOST_A_LINK, _HOST_I_LINK = "host-alink", "host-ilink"


def faults_of(settings: Settings, overlay: Scot, seed: int, *, has_burst: bool) -> tuple[Fault, ...]:
    """All faults in these settings: explicit ones, a crash, a failure and a slow link."""
    host = _host(settings, overlay, seed, has_burst)
    dead = [*_crash(settings, overlay, host), *_failure(settings, overlay, seed)]
    down = _down(settings, has_burst)
    return (*settings.faults, *(BrokerFault(broker, *down) for broker in dead), *_slow(settings, overlay, host))


def links_of(overlay: Scot) -> Iterator[str]:
    """Every link, as `slow_link` names it."""
    return (link_name(*link) for link in overlay.links)


def link_name(one: BrokerId, other: BrokerId) -> str:
    """A link as a setting, without commas: `a.0-b.0`."""
    return f"{one.region}.{one.cluster}-{other.region}.{other.cluster}"


def dying(place: str, overlay: Scot, host: BrokerId) -> list[BrokerId]:
    """The k-1 brokers that die at a place."""
    if place not in PLACES:
        known = (NONE, *PLACES)
        raise InputError(f"crash: no place {shortened(place)!r}{maybe_meant(place, known)}; {', '.join(known)}")
    if overlay.clusters < 2:
        raise InputError("crash: k-1 brokers are none with 1 cluster; give 2 clusters or more")
    return PLACES[place](overlay, host)[: overlay.clusters - 1]


def _host(settings: Settings, overlay: Scot, seed: int, has_burst: bool) -> BrokerId:
    last = settings.publishers if has_burst else settings.publishers - 1
    rule: Any = settings.placement  # a wrong word is refused by the workload
    return client_brokers(overlay, rule, seed, "publishers", range(last, last + 1))[0]


def _crash(settings: Settings, overlay: Scot, host: BrokerId) -> list[BrokerId]:
    return [] if settings.crash in ("", NONE) else dying(settings.crash, overlay, host)


def _failure(settings: Settings, overlay: Scot, seed: int) -> list[BrokerId]:
    """The broker that fails, given how the clients of this seed are placed."""
    if settings.failure in ("", NONE):
        return []
    rule: Any = settings.placement
    publishers = Counter(client_brokers(overlay, rule, seed, "publishers", range(settings.publishers)))
    subscribers = Counter(client_brokers(overlay, rule, seed, "subscribers", range(settings.subscribers)))
    return [failing(settings.failure, overlay, publishers, subscribers)]


def failing(
    place: str, overlay: Scot, publishers: Mapping[BrokerId, int], subscribers: Mapping[BrokerId, int]
) -> BrokerId:
    """The broker that fails at a place, given the numbers of clients by broker."""
    if place not in FAILURES:
        known = (NONE, *FAILURES)
        raise InputError(f"failure: no place {shortened(place)!r}{maybe_meant(place, known)}; {', '.join(known)}")
    if place == "publishers":
        return max(overlay.brokers, key=lambda broker: publishers.get(broker, 0))
    if place == "subscribers":
        return max(overlay.brokers, key=lambda broker: subscribers.get(broker, 0))
    fitting = [broker for broker in overlay.brokers if overlay.is_inner(broker) == (place == "inner")]
    if not fitting:
        raise InputError(f"failure: the overlay has no {place} broker")
    return min(fitting, key=lambda broker: publishers.get(broker, 0) + subscribers.get(broker, 0))


def _down(settings: Settings, has_burst: bool) -> tuple[int, int]:
    """When brokers go down and come back."""
    if has_burst:
        start_s, length_s = settings.burst_start_s, 60 * settings.burst_notifications / settings.burst_rate_per_minute
    else:
        start_s, length_s = 0.0, 60 * settings.notifications_per_publisher / settings.rate_per_minute
    from_ns = round((start_s + settings.crash_at * length_s) * SECOND_NS)
    return from_ns, from_ns + max(1, round(settings.crash_for * length_s * SECOND_NS))


def _slow(settings: Settings, overlay: Scot, host: BrokerId) -> list[LinkFault]:
    if settings.slow_link in ("", NONE):
        return []
    one, other = _link(settings.slow_link, overlay, host)
    return [LinkFault(one, other, "slow", 0, _FOREVER_NS, both=True, factor=settings.slow_factor)]


def _link(name: str, overlay: Scot, host: BrokerId) -> tuple[BrokerId, BrokerId]:
    if name == _HOST_A_LINK and overlay.a_links(host):
        return host, max(overlay.a_links(host), key=lambda broker: _beyond(overlay, host)[broker.region])
    if name == _HOST_I_LINK and overlay.i_links(host):
        return host, overlay.i_links(host)[0]
    links = {link_name(*link): link for link in overlay.links}
    if name not in links:
        known = (NONE, _HOST_A_LINK, _HOST_I_LINK, *links)
        hint = maybe_meant(name, known) or f"; write it as {next(iter(links), 'a.0-b.0')}"
        raise InputError(f"slow_link: no link {shortened(name)!r}{hint}")
    return links[name]


def _beyond(overlay: Scot, host: BrokerId) -> dict[str, int]:
    """For every region, the number of regions, including itself, that are cut off from the host's region without it."""
    sizes = dict.fromkeys(overlay.tree.nodes, 1)
    for region, parent, _ in reversed(overlay.tree.walk(host.region)):
        if parent is not None:
            sizes[parent] += sizes[region]
    return sizes


def _host_neighbours(overlay: Scot, host: BrokerId) -> list[BrokerId]:
    return [*overlay.a_links(host), *overlay.i_links(host)]


def _host_region(overlay: Scot, host: BrokerId) -> list[BrokerId]:
    return list(overlay.i_links(host))


def _next_region(overlay: Scot, host: BrokerId) -> list[BrokerId]:
    beyond = _beyond(overlay, host)
    neighbours = overlay.tree.neighbours(host.region)
    if not neighbours:
        raise InputError("crash: next-region needs a tree of at least 2 regions")
    region = overlay.region(max(neighbours, key=lambda name: beyond[name]))
    # The host's own cluster first, so that the survivor belongs to another.
    return sorted(region, key=lambda broker: broker.cluster != host.cluster)


def _inner(overlay: Scot, host: BrokerId) -> list[BrokerId]:
    beyond = _beyond(overlay, host)

    def rank(broker: BrokerId) -> tuple[bool, bool, int]:
        return overlay.is_edge(broker), broker.cluster != host.cluster, -beyond[broker.region]

    return sorted((broker for broker in overlay.brokers if broker.region != host.region), key=rank)


FAILURES: Final = ("edge", "inner", "publishers", "subscribers")
PLACES: Final[Mapping[str, Callable[[Scot, BrokerId], list[BrokerId]]]] = {
    "host-neighbours": _host_neighbours,
    "host-region": _host_region,
    "next-region": _next_region,
    "inner": _inner,
}
