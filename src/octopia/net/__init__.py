"""The live overlay: brokers over TCP, and clients for asyncio and for blocking code."""

from typing import TYPE_CHECKING

from octopia.lazy import lazily

if TYPE_CHECKING:
    from octopia.errors import UnconfirmedError, UndeliveredError, UnreachableError
    from octopia.net.addresses import PORT_DEFAULT, Address, Url
    from octopia.net.broker.certificates import make_certificates
    from octopia.net.broker.compiling import warm_up
    from octopia.net.broker.config import ServeConfig, default_config, load_config
    from octopia.net.broker.descriptors import raise_files_limit
    from octopia.net.broker.failures import Failures
    from octopia.net.broker.host import BrokerHost
    from octopia.net.broker.identity import OverlayIdentity
    from octopia.net.broker.live_recording import RecordOptions
    from octopia.net.broker.operations.log import log_to_stderr
    from octopia.net.broker.qos import Qos
    from octopia.net.broker.recording import (
        EVENT_COLUMNS,
        EXPIRED_COLUMNS,
        SENT_COLUMNS,
        Recording,
        Weather,
    )
    from octopia.net.broker.rights import Authority, ClientEntry, Rights
    from octopia.net.broker.serve import collect_garbage_rarely, run, run_loop, serve, state_directory
    from octopia.net.broker.server import Server
    from octopia.net.client import (
        BenchPlan,
        BenchResult,
        Client,
        KeptClient,
        KeptSession,
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
    "EVENT_COLUMNS",
    "EXPIRED_COLUMNS",
    "PORT_DEFAULT",
    "SENT_COLUMNS",
    "Address",
    "Authority",
    "BenchPlan",
    "BenchResult",
    "BrokerHost",
    "Client",
    "ClientEntry",
    "Failures",
    "KeptClient",
    "KeptSession",
    "NetLimits",
    "OverlayIdentity",
    "Qos",
    "RecordOptions",
    "Recording",
    "Rights",
    "ServeConfig",
    "Server",
    "Subscription",
    "SyncClient",
    "SyncSubscription",
    "UnconfirmedError",
    "UndeliveredError",
    "UnreachableError",
    "Url",
    "Weather",
    "bench",
    "client_context",
    "collect_garbage_rarely",
    "connect",
    "connect_sync",
    "default_config",
    "load_config",
    "log_to_stderr",
    "make_certificates",
    "parse_urls",
    "raise_files_limit",
    "run",
    "run_loop",
    "serve",
    "server_context",
    "state_directory",
    "warm_up",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "octopia.errors": "UnconfirmedError UndeliveredError UnreachableError",
        "octopia.net.addresses": "PORT_DEFAULT Address Url",
        "octopia.net.broker.certificates": "make_certificates",
        "octopia.net.broker.config": "ServeConfig default_config load_config",
        "octopia.net.broker.descriptors": "raise_files_limit",
        "octopia.net.broker.failures": "Failures",
        "octopia.net.broker.host": "BrokerHost",
        "octopia.net.broker.identity": "OverlayIdentity",
        "octopia.net.broker.live_recording": "RecordOptions",
        "octopia.net.broker.operations.log": "log_to_stderr",
        "octopia.net.broker.qos": "Qos",
        "octopia.net.broker.recording": "EVENT_COLUMNS EXPIRED_COLUMNS SENT_COLUMNS Recording Weather",
        "octopia.net.broker.rights": "Authority ClientEntry Rights",
        "octopia.net.broker.serve": "collect_garbage_rarely run run_loop serve state_directory",
        "octopia.net.broker.server": "Server",
        "octopia.net.broker.compiling": "warm_up",
        "octopia.net.client": (
            "BenchPlan BenchResult Client KeptClient KeptSession Subscription SyncClient SyncSubscription "
            "bench connect connect_sync parse_urls"
        ),
        "octopia.net.limits": "NetLimits",
        "octopia.net.tls": "client_context server_context",
    },
)
