"""The live overlay: brokers over TCP, and clients for asyncio and for blocking code."""

from octopia.errors import UndeliveredError, UnreachableError
from octopia.net.addresses import PORT_DEFAULT, Address, Url
from octopia.net.broker.config import ServeConfig, default_config, load_config
from octopia.net.broker.host import BrokerHost
from octopia.net.broker.operations.log import log_to_stderr
from octopia.net.broker.rights import Authority, ClientEntry, Rights
from octopia.net.broker.serve import run, serve, state_directory
from octopia.net.broker.server import Server
from octopia.net.client import (
    BenchPlan,
    BenchResult,
    Client,
    KeptClient,
    KeptSession,
    NumberedClient,
    Subscription,
    SyncClient,
    SyncSubscription,
    bench,
    connect,
    connect_sync,
    parse_urls,
)
from octopia.net.limits import NetLimits
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
    "UndeliveredError",
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
    "state_directory",
]
