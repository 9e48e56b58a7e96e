"""Streams of full dynamic routing: order, confirmation and repetition, from a publisher's host to each destination.

sending.py     at the publisher's host: stamps, and the log of what is not confirmed
receiving.py   at a destination: what is released now, what waits, what is a repeat
confirming.py  at a destination: what is to be confirmed to which host, and when
streams.py     the three together, links that go down, brokers that cannot be reached
"""

from octopia.routing.fdr.streams.streams import DestStreams, make, receive_confirm

__all__ = ["DestStreams", "make", "receive_confirm"]
