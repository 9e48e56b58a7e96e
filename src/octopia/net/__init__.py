"""The live overlay: brokers over TCP, and clients for asyncio and for blocking code."""

from octopia.errors import UnreachableError
from octopia.net.addresses import PORT_DEFAULT, Address, Url
from octopia.net.bench import BenchPlan, BenchResult, bench
from octopia.net.broker.config import ServeConfig, default_config, load_config
from octopia.net.broker.host import BrokerHost
from octopia.net.broker.operations.log import log_to_stderr
from octopia.net.broker.rights import Authority, ClientEntry, Rights
from octopia.net.broker.serve import run, serve
from octopia.net.broker.server import Server
from octopia.net.client import Client, connect
from octopia.net.client_sync import SyncClient, SyncSubscription, connect_sync
from octopia.net.durable import KeptClient, KeptSession, NumberedClient
from octopia.net.limits import NetLimits
from octopia.net.reconnect import parse_urls
from octopia.net.subscription import Subscription
from octopia.net.tls import client_context, server_context

__all__ = [
    "PORT_DEFAULT",
    "Address",
    "Authority",
    "BenchPlan",
    "BenchResult",
    "BrokerHost",
    "Client",
    "ClientEntry",
    "KeptClient",
    "KeptSession",
    "NetLimits",
    "NumberedClient",
    "Rights",
    "ServeConfig",
    "Server",
    "Subscription",
    "SyncClient",
    "SyncSubscription",
    "UnreachableError",
    "Url",
    "bench",
    "client_context",
    "connect",
    "connect_sync",
    "default_config",
    "load_config",
    "log_to_stderr",
    "parse_urls",
    "run",
    "serve",
    "server_context",
]
