"""The live overlay under load: CPU per notification and rates of brokers over loopback sockets. See `suite`."""

from benchmarks.live.suite import run

__all__ = ["run"]
