"""Compile or load all code on a notification's path through a broker, so that the first need not wait for it.

Every kernel is called with arguments of exactly the types that a broker uses, so that the compiled versions on disk are
the ones that will be needed.
"""

import numpy as np

from octopia.language import Value, parse_filter, parse_notification
from octopia.matching import Matcher
from octopia.matching import warm_up as warm_up_matching
from octopia.net.broker.fan_out import FanOut, Stamps
from octopia.net.broker.short_cut import use_short_cut
from octopia.routing import PLAIN, Broker, Dests, Key, Received, Subscribe, Subscribed, Unsubscribed
from octopia.topology import Scot, parse_tree
from octopia.wire import Codec, Haul, WireLimits, copy_heads, encode_parcel, msgpack_text, publish_frame

# PADRES text: a broker that meets no SQL need not load sqlglot.
_PRICED = parse_filter("[class,eq,'STOCK'],[price,>,0]")


def warm_up() -> str:
    """Load or compile all kernels; returns the name of the kernels in use."""
    kernels = warm_up_matching()
    codec = Codec(WireLimits())
    if codec.start_scanning() and codec.scanner is not None:
        values: dict[str, Value] = {"class": "STOCK", "price": 4.5, "symbol": "AAPL", "volume": 3, "open": True}
        parcel = encode_parcel(parse_notification(values), "p", 1)
        haul, _ = codec.scanner.take(publish_frame(parcel) * 3, 0, 5, False, codec.limits.frame_bytes_max)
        if haul is not None:
            _take_through(haul)
            # a filter answered by a search alone
            matcher: Matcher[int] = Matcher()
            matcher.add(1, _PRICED)
            matcher.settle()
            matcher.match_rows_tokens(haul.tokens, haul.notification)
            use_short_cut(codec.scanner, matcher)
    return kernels


def _take_through(haul: Haul) -> None:
    """Take notifications all the way to frames, in a broker with an interested client and neighbour."""
    scot = Scot(parse_tree("path:2"), 1)
    here, neighbour = scot.brokers
    broker = Broker(here, scot, "snr")
    core = broker.express(msgpack_text)
    if core is None:
        return
    # an equality, a pattern, and a large set to sort
    prefix = parse_filter("{{[class,eq,'STOCK'],[symbol,str-prefix,'A']}||{[class,eq,'STOCK'],[volume,>,1]}}")
    for number, filter in enumerate([prefix, *[_PRICED] * 41]):
        broker.handle(Subscribed("c", str(number), filter), 0.0)
    broker.handle(Received(neighbour, Subscribe(Key(neighbour, 1), _PRICED)), 0.0)
    core.match(haul.tokens, haul.notification)
    # strings that come and go while their table grows
    for number in range(200):
        broker.handle(Subscribed("c", f"s{number}", parse_filter(f"[class,eq,'S{number}']")), 0.0)
    broker.handle(Unsubscribed("c", "s0"), 0.0)
    fan_out = FanOut(core.rows, 1)
    answers = core.match(haul.tokens, haul.notification)
    groups, _, _ = fan_out.sets_of_ways(answers, np.zeros(len(haul), dtype=np.int64))
    stamps = Stamps(np.zeros(len(haul), dtype=np.uint8), np.arange(len(haul) + 1, dtype=np.int64))
    plan = ((0, copy_heads(PLAIN)), (1, copy_heads(Dests(1))))
    _, deliveries, _ = fan_out.frames(answers, groups, [plan], haul.tokens, 0, 1, stamps)
    fan_out.last_delivered(deliveries, haul.tokens, 0)
