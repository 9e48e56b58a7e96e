"""What goes wrong in an experiment, from its settings: k-1 brokers that die during the burst, or one link that is slow.

Rules of this file: where it happens follows from the overlay and the host broker of the high-rate publisher (of the
last publisher, where there is no burst), so that a place means the same with every seed. The host broker itself never
dies. The brokers die at one moment and come back at one moment, with empty tables.

    host-neighbours  the brokers next to the host broker: those over its aLinks, then its region mates
    host-region      all brokers of the host's region but the host
    next-region      all but one of the neighbouring region with the most regions beyond it; the one that is left is of
                     another cluster than the host
    inner            the inner brokers with the most regions beyond them, of the host's cluster first
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from octopia.errors import InputError
from octopia.experiments.settings import Settings
from octopia.hints import maybe_meant, shortened
from octopia.sim import BrokerFault, Fault, LinkFault
from octopia.topology import BrokerId, Scot
from octopia.workload import client_brokers

NONE: Final = "none"
# As a point: every link of the overlay, one after the other.
EVERY: Final = "every"
SECOND_NS: Final = 1_000_000_000
_FOREVER_NS: Final = 1 << 60
_HOST_A_LINK, _HOST_I_LINK = "host-alink", "host-ilink"


def faults_of(settings: Settings, overlay: Scot, seed: int, *, has_burst: bool) -> tuple[Fault, ...]:
    """All faults that these settings ask for: those written down, a crash and a slow link."""
    host = _host(settings, overlay, seed, has_burst)
    return (*settings.faults, *_crash(settings, overlay, host, has_burst), *_slow(settings, overlay, host))


def links_of(overlay: Scot) -> Iterator[str]:
    """Every link, as `slow_link` names it."""
    return (link_name(*link) for link in overlay.links)


def link_name(one: BrokerId, other: BrokerId) -> str:
    """A link as a setting, which has no commas: `a.0-b.0`."""
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
    rule: Any = settings.placement  # a wrong word is refused with the workload's own words
    return client_brokers(overlay, rule, seed, "publishers", range(last, last + 1))[0]


def _crash(settings: Settings, overlay: Scot, host: BrokerId, has_burst: bool) -> list[BrokerFault]:
    if settings.crash in ("", NONE):
        return []
    if has_burst:
        start_s, length_s = settings.burst_start_s, 60 * settings.burst_notifications / settings.burst_rate_per_minute
    else:
        start_s, length_s = 0.0, 60 * settings.notifications_per_publisher / settings.rate_per_minute
    from_ns = round((start_s + settings.crash_at * length_s) * SECOND_NS)
    until_ns = from_ns + max(1, round(settings.crash_for * length_s * SECOND_NS))
    return [BrokerFault(broker, from_ns, until_ns) for broker in dying(settings.crash, overlay, host)]


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
    """For every region how many regions, itself included, are cut off from the host's region without it."""
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
    # The host's own cluster first, so that the one that is left is another's.
    return sorted(region, key=lambda broker: broker.cluster != host.cluster)


def _inner(overlay: Scot, host: BrokerId) -> list[BrokerId]:
    beyond = _beyond(overlay, host)

    def rank(broker: BrokerId) -> tuple[bool, bool, int]:
        return overlay.is_edge(broker), broker.cluster != host.cluster, -beyond[broker.region]

    return sorted((broker for broker in overlay.brokers if broker.region != host.region), key=rank)


PLACES: Final[Mapping[str, Callable[[Scot, BrokerId], list[BrokerId]]]] = {
    "host-neighbours": _host_neighbours,
    "host-region": _host_region,
    "next-region": _next_region,
    "inner": _inner,
}
