"""The tables of a trace and their columns: the single definition of what a row means.

All times are nanoseconds of the run's own clock, which starts at 0 (column names end in `_ns`). Brokers, clients and
requests are numbers, explained by the small tables `brokers`, `clients` and `requests`; names would cost more than all
other columns together. A column without a value in a row is null. Tables hold facts only: anything derived from them
(delays, counts, percentages) is computed by readers.

One table per kind of fact instead of one for all: a hop and a delivery share few columns, and queries rarely need both.
"""

from typing import Final

import pyarrow as pa

_TEXT: Final = pa.dictionary(pa.int8(), pa.string())

# The outcome of a message: handled by the receiver, or lost on the way and why.
FATES: Final = ("handled", "lost", "link down", "broker down")

# For a message without a request: a link or broker came up, and tables are resynchronised.
NO_REQUEST: Final = -1

# One row per message on one link, in the order in which the receivers handled them.
HOPS: Final = pa.schema(
    [
        pa.field("kind", _TEXT, nullable=False),  # advertise, subscribe, notify, ... as in `octopia replay --json`
        pa.field("request", pa.int32(), nullable=False),  # the client's request that led to it, or NO_REQUEST
        pa.field("sender", pa.int32(), nullable=False),
        pa.field("receiver", pa.int32(), nullable=False),
        pa.field("hop", pa.int16(), nullable=False),  # 1 for the first link after the client's host broker
        pa.field("queued_ns", pa.int64(), nullable=False),  # entered the sender's output queue
        pa.field("left_ns", pa.int64(), nullable=False),  # its last byte left that queue
        pa.field("arrived_ns", pa.int64(), nullable=False),  # reached the receiver
        pa.field("handled_ns", pa.int64()),  # the receiver finished with it; null if it was lost
        pa.field("queue", pa.int32(), nullable=False),  # messages it found in that output queue
        pa.field("civ", pa.dictionary(pa.int32(), pa.string())),  # bit string of a notification that carries one
        pa.field("fate", _TEXT, nullable=False),
        # for a notification: the sender's routing case (`Policy.cases`), if any
        pa.field("routing_case", _TEXT),
    ]
)

# One row per notification and client that received it.
DELIVERIES: Final = pa.schema(
    [
        pa.field("request", pa.int32(), nullable=False),  # the request that published it
        pa.field("client", pa.int32(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),
        pa.field("hop", pa.int16(), nullable=False),  # links it took; 0 where publisher and subscriber share a broker
        pa.field("delivered_ns", pa.int64(), nullable=False),  # receipt by the client
        pa.field("subscriptions", pa.int16(), nullable=False),  # how many of the client's subscriptions match
    ]
)

# One row per notification and client that missed it because its deadline had passed.
EXPIRED: Final = pa.schema(
    [
        pa.field("request", pa.int32(), nullable=False),  # the request that published it
        pa.field("client", pa.int32(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),
        pa.field("hop", pa.int16(), nullable=False),
        pa.field("at_ns", pa.int64(), nullable=False),  # the broker would have sent it to the client
    ]
)

# One row per request of a client: advertise, subscribe, publish and their withdrawals, numbered from 0.
REQUESTS: Final = pa.schema(
    [
        pa.field("request", pa.int32(), nullable=False),
        pa.field("kind", _TEXT, nullable=False),
        pa.field("client", pa.int32(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),
        pa.field("issued_ns", pa.int64(), nullable=False),  # sent by the client
        pa.field("handled_ns", pa.int64()),  # its host broker finished with it; null if it was lost
        pa.field("row", pa.int32()),  # of the notifications table; for publish only
        pa.field("refused", pa.string()),  # the reason, if the broker refused it
    ]
)

# Output queues at regular intervals; rows are omitted for links whose queue stayed empty throughout.
QUEUES: Final = pa.schema(
    [
        pa.field("at_ns", pa.int64(), nullable=False),
        pa.field("sender", pa.int32(), nullable=False),
        pa.field("receiver", pa.int32(), nullable=False),
        pa.field("queue", pa.int32(), nullable=False),  # Q_l
        pa.field("entered", pa.int64(), nullable=False),  # messages since the start of the run
        pa.field("left", pa.int64(), nullable=False),
    ]
)

# Table sizes of every broker at the end of every phase of a run.
TABLE_SIZES: Final = pa.schema(
    [
        pa.field("phase", _TEXT, nullable=False),
        pa.field("at_ns", pa.int64(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),
        pa.field("srt", pa.int32(), nullable=False),
        pa.field("prt", pa.int32(), nullable=False),
    ]
)

# The bits of every advertisement at the end of a run, at its host broker; SCOT routing only.
CIVS: Final = pa.schema(
    [
        pa.field("request", pa.int32(), nullable=False),  # the request that advertised
        pa.field("broker", pa.int32(), nullable=False),
        pa.field("civ", pa.string(), nullable=False),  # bit string; the host cluster's own bit is always ON
        pa.field("interest", pa.int32(), nullable=False),  # overlapping subscriptions of the host cluster
    ]
)

BROKERS: Final = pa.schema(
    [
        pa.field("broker", pa.int32(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        pa.field("cluster", pa.int32(), nullable=False),
        pa.field("inner", pa.bool_(), nullable=False),
        pa.field("site", pa.string()),  # null without sites
    ]
)

CLIENTS: Final = pa.schema(
    [
        pa.field("client", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),
    ]
)

# Tables that only some runs have; otherwise the file is absent.
OPTIONAL_TABLES: Final = {"expired": EXPIRED}

TABLES: Final = {
    "hops": HOPS,
    "deliveries": DELIVERIES,
    "requests": REQUESTS,
    "queues": QUEUES,
    "table_sizes": TABLE_SIZES,
    "civs": CIVS,
    "brokers": BROKERS,
    "clients": CLIENTS,
}
