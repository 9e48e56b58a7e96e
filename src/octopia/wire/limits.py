"""Every bound of the wire protocol, in one place.

Constants and one value, each with its unit last in the name and the reason for its size. Input from a peer is checked
against these before it is decoded, so no frame can cost more than its own size. The bounds of the language
(`octopia.language`) apply as well; these can only be narrower.
"""

from dataclasses import dataclass
from typing import Final

from octopia.errors import InputError
from octopia.language import DISJUNCTS_MAX, FILTER_TEXT_CHARS_MAX, NOTIFICATION_ATTRIBUTES_MAX, PREDICATES_MAX

# Length prefix, kind, and, in frames that carry a notification, the length of the routing header.
PREFIX_BYTES: Final = 4
PLAIN_OVERHEAD_BYTES: Final = 9
# The most bytes in a frame around a client's parcel.
PARCEL_AROUND_BYTES: Final = 16

# The most memory for a peer that has not identified itself yet.
HANDSHAKE_BYTES_MAX: Final = 16 * 1024
NAME_CHARS_MAX: Final = 256
TOKEN_CHARS_MAX: Final = 4096
REASON_CHARS_MAX: Final = 2000
CAPABILITIES_MAX: Final = 64
# Publishers named in one HOLD; more go in several frames.
HELD_PER_FRAME_MAX: Final = 1024
SECRET_BYTES_MAX: Final = 64

# The bytes that a broker adds when it forwards a client's message: keys, trees, routes.
LINK_EXTRA_BYTES: Final = 1024 * 1024
# Keys in one message between brokers; longer lists are split into several messages with the same meaning.
KEYS_MAX: Final = 8192
ROUTES_MAX: Final = 16_384
BROKERS_MAX: Final = 100_000
CIV_BYTES_MAX: Final = 128
# Cached headers of copies, outgoing and incoming: 0.5 KB each in an overlay of 1,000.
HEADERS_REMEMBERED_MAX: Final = 4096
# Publishers in one confirmation, and subscriptions in one CIB_SET; more go in several frames with the same meaning.
CONFIRMED_PER_FRAME_MAX: Final = 1024
LENT_PER_FRAME_MAX: Final = 1024
# Of subscriptions in one CIB_SET, if there is more than one: with the keys it fits beside what a client may send.
LENT_BYTES_MAX: Final = 512 * 1024
SUBSCRIPTIONS_PER_DELIVERY_MAX: Final = 1_000_000
# The longest deadline of a subscription: a year.
DEADLINE_MS_MAX: Final = 366 * 24 * 3600 * 1000

# The longest time in which brokers may confirm what a client flushes: a day.
FLUSH_MS_MAX: Final = 24 * 3600 * 1000

# An integer of the language's 8,192 bits and a sign.
INTEGER_BYTES_MAX: Final = 1025
SEQUENCE_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class WireLimits:
    """The limits of one side on input from the other. Both ends of a link between brokers must have the same."""

    frame_bytes_max: int = 1024 * 1024
    attributes_max: int = NOTIFICATION_ATTRIBUTES_MAX
    # The work that an untrusted filter may cause: it is tested against whole tables, at every broker of a cluster. At
    # these bounds one request takes 5 to 90 ms against all the patterns and advertisements that one other client may
    # have (`routing.Limits`).
    conjunctions_max: int = 256
    predicates_max: int = 1024
    patterns_max: int = 16
    # Parsing text takes up to 20 us a character. Our own clients send filters in structure, which are not parsed.
    filter_text_chars_max: int = 1024

    def __post_init__(self) -> None:
        for name, least, most in (
            ("frame_bytes_max", 1024, 256 * 1024 * 1024),
            ("attributes_max", 1, NOTIFICATION_ATTRIBUTES_MAX),
            ("conjunctions_max", 1, DISJUNCTS_MAX),
            ("predicates_max", 1, PREDICATES_MAX),
            ("patterns_max", 1, FILTER_TEXT_CHARS_MAX),
            ("filter_text_chars_max", 1, FILTER_TEXT_CHARS_MAX),
        ):
            given = getattr(self, name)
            if type(given) is not int or not least <= given <= most:
                raise InputError(f"{name} is {given!r}: a number from {least:,} to {most:,} is allowed")
