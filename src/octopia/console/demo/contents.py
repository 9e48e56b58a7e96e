"""The contents of the demo overlay: brokers and their ports, publishers and subscribers."""

import socket
from dataclasses import dataclass
from typing import Final

from octopia.errors import InputError
from octopia.net import Address, ServeConfig
from octopia.routing import DEFAULT_ROUTING
from octopia.topology import Scot, parse_tree

HOST: Final = "127.0.0.1"
# The range in which to look for ports: below those that the system assigns.
_PORTS: Final = range(21_000, 32_000)
RATE_DEFAULT: Final = 300.0
RATE_MAX: Final = 5_000.0


@dataclass(frozen=True)
class Feed:
    """A publisher: the symbols it quotes, and where it is connected."""

    name: str
    broker: str
    symbols: tuple[str, ...]

    @property
    def advertisement(self) -> str:
        listed = ", ".join(f"'{symbol}'" for symbol in self.symbols)
        return f"symbol in ({listed}) and price > 0 and volume >= 0 and change is not null and exchange is not null"


@dataclass(frozen=True)
class Reader:
    """A subscriber. `pause_s` is its pause after each few notifications: a slow one has a queue."""

    name: str
    broker: str
    filter: str
    policy: str = "drop_oldest"
    pause_s: float = 0.0


FEEDS: Final = (
    Feed("nasdaq", "(a,0)", ("AAPL", "MSFT", "NVDA", "AMZN")),
    Feed("nyse", "(b,2)", ("IBM", "GE", "KO", "XOM")),
    Feed("xetra", "(c,1)", ("SAP", "SIE", "BAS", "ALV")),
    Feed("tokyo", "(a,1)", ("SONY", "TM", "NTDOY")),
)
READERS: Final = (
    Reader("desk-tech", "(c,0)", "symbol in ('AAPL', 'MSFT', 'NVDA') and price > 100"),
    Reader("desk-ibm", "(a,2)", "symbol = 'IBM'"),
    Reader("risk", "(b,0)", "change < -1.5 or change > 1.5"),
    Reader("archive", "(c,2)", "price > 0"),
    Reader("alerts", "(a,0)", "symbol = 'NVDA' and change > 2"),
    Reader("frankfurt", "(b,1)", "exchange = 'XETRA' and volume > 50000"),
    Reader("small-caps", "(c,1)", "price < 60"),
    Reader("dashboard", "(a,1)", "symbol in ('SAP', 'SONY', 'KO') and price > 20"),
    Reader("slow-report", "(b,2)", "volume > 40000", pause_s=0.4),
)


@dataclass(frozen=True)
class DemoPlan:
    """The overlay of the demo."""

    tree: str = "path:3"
    clusters: int = 3
    routing: str = DEFAULT_ROUTING
    rate_per_s: float = RATE_DEFAULT
    clients: bool = True  # False: brokers only


def demo_config(plan: DemoPlan) -> ServeConfig:
    """The overlay, with ports that are free at the moment."""
    scot = Scot(parse_tree(plan.tree), plan.clusters)
    ports = _free_ports(2 * scot.broker_count)
    brokers = scot.brokers
    return ServeConfig(
        "demo",
        scot,
        {broker: Address(HOST, port) for broker, port in zip(brokers, ports, strict=False)},
        {broker: Address(HOST, port) for broker, port in zip(brokers, ports[len(brokers) :], strict=True)},
        routing=plan.routing,
    )


def _free_ports(count: int) -> list[int]:
    found = []
    for port in _PORTS:
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                taken.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise InputError(f"{count} free ports are needed on {HOST}, there are {len(found)}")
