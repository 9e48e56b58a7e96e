"""The hostile trial: brokers as processes, faults and attacks, an oracle outside the product. See `command`."""

from benchmarks.chaos.command import main

__all__ = ["main"]
