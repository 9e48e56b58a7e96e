"""Streams of full dynamic routing: order, confirmation and repetition, from a publisher's host to each destination.

sending.py     at the publisher's host: stamps, and the log of unconfirmed notifications
receiving.py   at a destination: releases, holds and drops copies
confirming.py  at a destination: what to confirm to which host, and when
streams.py     the three together, and what happens when links go down or brokers cannot be reached
"""

from octopia.routing.fdr.streams.streams import DestStreams, make, receive_ask_confirm, receive_confirm

__all__ = ["DestStreams", "make", "receive_ask_confirm", "receive_confirm"]
