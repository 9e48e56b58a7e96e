"""The configuration of `octopia serve`: an overlay file with addresses, limits, TLS and rights.

    [overlay]                           # as in every overlay file
    tree = "path:3"
    clusters = 3
    [placement]                         # as in every overlay file
    machines = ["m1", "m2"]
    [routing]
    name = "fdr"                        # the default
    tau = 10.0
    window_ms = 50
    covering = "none"                   # or "host", "link": covered subscriptions are not forwarded
    [brokers]
    host = "127.0.0.1"                  # default address for brokers without one
    open = true                         # required for brokers that other machines can reach without TLS
    port = 7400                         # the first broker's port; the next ones count up
    http_port = 9400                    # the first broker's /metrics and /healthz; 0: none
    http_host = "same"                  # host of the HTTP ports: the broker's, or any other; default: loopback
    http_token = "…"                    # token required for /metrics and /traces
    alias_token = "…"                   # subscribers see aliases made with this secret instead of publishers' names
    state = "state"                     # directory for the state saved at a restart, beside this file; "": none
    addresses = { "b,2" = "10.0.0.5:7400" }
    machines = { m1 = "10.0.0.1" }      # host of the brokers of a machine
    [limits]                            # any bound of NetLimits, WireLimits or routing.Limits
    [qos]                               # priorities, deadlines and queues, for all clusters or some: see qos.py
    [tls]
    certificate = "{broker}.pem"        # `{broker}` becomes b-2
    key = "{broker}.key"
    authorities = "ca.pem"
    [links]
    token = "…"                         # instead of TLS: the secret that brokers share
    [[clients]]                         # if present, only listed clients are accepted
    name = "feed"
    token = "…"                         # or certificate = "common name"
    advertise = "class = 'STOCK' and price is not null"
    subscribe = "true"                  # default: no subscriptions allowed
    block = true                        # allow policy block, which slows publishers; default: not allowed
    clusters = [0, 1]                   # default: all; another entry may give other rights in other clusters

Each token may instead be in a file (`token_file`), in an environment variable (`token_env`), or given as a digest
(`token_sha256`), which is enough to recognise it.

Everything is checked while reading, and unknown keys are errors; an error names the file, the line, the key and the
fix. Missing values have defaults that work on one machine. A setting that would admit strangers is an error unless the
file says that it is intended.
"""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any

from octopia.errors import InputError
from octopia.language import Filter, parse_filter
from octopia.net.addresses import PORT_DEFAULT, Address
from octopia.net.broker.identity import OverlayIdentity
from octopia.net.broker.qos import Qos, read_qos
from octopia.net.broker.rights import Authority, ClientEntry, Rights
from octopia.net.broker.tokens import AccessTokens, token_keys
from octopia.net.limits import NetLimits
from octopia.net.secret import digest_of, spoken
from octopia.net.tls import client_context, server_context
from octopia.routing import DEFAULT_ROUTING, CongestionParameters, Limits, check_covering, why_not_live
from octopia.topology import BrokerId, Placement, Scot, Sites, TomlText, parse_tree, read_overlay
from octopia.wire import WireLimits

HOST_DEFAULT = "127.0.0.1"
HTTP_PORT_DEFAULT = 9400
HTTP_SAME = "same"
_BROKERS_KEYS = (
    "host",
    "open",
    "port",
    "http_port",
    "http_host",
    *token_keys("http_token"),
    *token_keys("alias_token"),
    "addresses",
    "machines",
    "state",
)
_CLIENT_KEYS = ("name", *token_keys("token"), "certificate", "advertise", "subscribe", "block", "probe", "clusters")
_LIMIT_FIELDS: dict[str, type[Any]] = {
    limit.name: kind for kind in (NetLimits, WireLimits, Limits) for limit in fields(kind)
}


@dataclass(frozen=True)
class TlsFiles:
    """The certificate files of a broker; `{broker}` in a name becomes region-cluster."""

    certificate: str
    key: str
    authorities: str
    base: Path = field(default_factory=Path)

    def contexts(self, broker: BrokerId) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """For listening and for dialling neighbours."""
        name = f"{broker.region}-{broker.cluster}"
        certificate, key, authorities = (
            str(self.base / file.replace("{broker}", name)) for file in (self.certificate, self.key, self.authorities)
        )
        return server_context(certificate, key, authorities), client_context(authorities, certificate, key)


@dataclass(frozen=True)
class ServeConfig:
    """A whole overlay, ready to run."""

    name: str
    scot: Scot
    addresses: dict[BrokerId, Address]
    http: dict[BrokerId, Address]
    placement: Placement | None = None
    routing: str = DEFAULT_ROUTING
    congestion: CongestionParameters = field(default_factory=CongestionParameters)
    limits: Limits = field(default_factory=Limits)
    wire_limits: WireLimits = field(default_factory=WireLimits)
    net_limits: NetLimits = field(default_factory=NetLimits)
    authority: Authority = field(default_factory=Authority)
    tls: TlsFiles | None = None
    http_token: str = ""
    state: Path | None = None  # directory for saved state; None: not set
    saves: bool = True  # False: a restart saves nothing
    qos: tuple[Qos, ...] = ()  # of each cluster
    alias_token: str = ""  # the secret of aliases; empty: subscribers see publishers' names
    covering: str = "none"
    sites: Sites | None = None

    @property
    def digest(self) -> str:
        """A digest of the overlay's name, its shape and its routing; brokers with another one are not neighbours."""
        return OverlayIdentity(self.name, self.scot, self.routing).digest

    @property
    def http_bearer(self) -> str:
        """The token for the brokers' HTTP ports; empty if none is needed or only its digest is known."""
        return spoken(self.http_token)

    def brokers_of(self, *, broker: str | None = None, machine: str | None = None) -> tuple[BrokerId, ...]:
        """All brokers, one of them, or those of a machine."""
        if broker is not None:
            wanted = BrokerId.parse(broker)
            if wanted not in self.scot:
                raise InputError(f"there is no broker {wanted} in {self.name}")
            return (wanted,)
        if machine is not None:
            if self.placement is None:
                raise InputError(f"{self.name} names no machines; add a table [placement], or machines to [sites]")
            if machine not in self.placement.machines:
                machines = ", ".join(self.placement.machines)
                raise InputError(f"there is no machine {machine!r}; the machines are {machines}")
            return self.placement.brokers[machine]
        return self.scot.brokers


def default_config() -> ServeConfig:
    """The overlay of `octopia serve` without a file: path:3 × 3 on loopback."""
    scot = Scot(parse_tree("path:3"), 3)
    return ServeConfig("octopia", scot, *_consecutive(scot, HOST_DEFAULT, PORT_DEFAULT, HTTP_PORT_DEFAULT))


def load_config(path: str | PathLike[str], *, secrets: bool = True) -> ServeConfig:
    """Read a file; an error is one line that begins with the file's name.

    Without `secrets`, tokens stored elsewhere may be missing: for commands that do not run brokers.
    """
    text = TomlText(path)
    tokens = AccessTokens(text, secrets)
    overlay = read_overlay(text)
    scot, placement = overlay.scot, overlay.placement
    routing, congestion, covering = _routing(text)
    addresses, http = _addresses(text, scot, placement)
    bounds = _limits(text)
    tls = _tls(text)
    authority = _authority(text, scot, tls is not None, tokens)
    brokers = text.table("brokers", _BROKERS_KEYS)
    http_token = tokens.read("brokers", brokers, "http_token")
    if tls is None:
        _check_exposure(text, addresses, authority)
    state = text.typed("brokers", brokers, "state", str, "a directory", "") if "state" in brokers else None
    return ServeConfig(
        overlay.name,
        scot,
        addresses,
        http,
        placement,
        routing,
        congestion,
        Limits(**bounds[Limits]),
        WireLimits(**bounds[WireLimits]),
        NetLimits(**bounds[NetLimits]),
        authority,
        tls,
        http_token,
        state=text.file.parent / state if state else None,
        saves=state != "",
        qos=read_qos(text, scot),
        alias_token=tokens.read("brokers", brokers, "alias_token"),
        covering=covering,
        sites=overlay.sites,
    )


def _check_exposure(text: TomlText, addresses: dict[BrokerId, Address], authority: Authority) -> None:
    """Without TLS, other machines may reach a broker only if the file says so."""
    opened = text.typed("brokers", text.table("brokers", _BROKERS_KEYS), "open", bool, "true or false", False)
    exposed = next((address for address in addresses.values() if not address.is_loopback), None)
    if exposed is None:
        return
    if authority.clients or authority.link_token:
        raise text.error(
            "brokers",
            None,
            f"tokens and notifications would travel in the clear to {exposed}; add a table [tls], or use loopback",
        )
    if not opened:
        raise text.error(
            "brokers",
            None,
            f"everyone who reaches {exposed} could publish and subscribe; add tables [tls] and [[clients]], listen on "
            "loopback, or write open = true if that is meant",
        )


def _routing(text: TomlText) -> tuple[str, CongestionParameters, str]:
    table = text.table("routing", ("name", "tau", "window_ms", "covering"))
    name = text.typed("routing", table, "name", str, "text", DEFAULT_ROUTING)
    try:
        reason = why_not_live(name)
    except InputError as error:
        reason = str(error)
    if reason is not None:
        raise text.error("routing", "name", reason)
    covering = text.typed("routing", table, "covering", str, "none, host or link", "none")
    try:
        check_covering(name, covering)
    except InputError as error:
        raise text.error("routing", "covering", str(error)) from None
    tau = text.typed("routing", table, "tau", float, "a number", 10.0)
    window_ms = text.typed("routing", table, "window_ms", float, "a number of milliseconds", 50.0)
    try:
        return name, CongestionParameters(tau, window_ms / 1000), covering
    except ValueError as error:
        raise text.error("routing", "tau" if not tau > 0 else "window_ms", str(error)) from None


def _consecutive(
    scot: Scot, host: str, port: int, http_port: int
) -> tuple[dict[BrokerId, Address], dict[BrokerId, Address]]:
    return (
        {b: Address(host, port + n if port else 0) for n, b in enumerate(scot.brokers)},
        {b: Address(host, http_port + n) for n, b in enumerate(scot.brokers)} if http_port else {},
    )


def _addresses(
    text: TomlText, scot: Scot, placement: Placement | None
) -> tuple[dict[BrokerId, Address], dict[BrokerId, Address]]:
    table = text.table("brokers", _BROKERS_KEYS)
    host = text.typed("brokers", table, "host", str, "text", HOST_DEFAULT)
    port = text.typed("brokers", table, "port", int, "a port number", PORT_DEFAULT)
    http_port = text.typed("brokers", table, "http_port", int, "a port number", HTTP_PORT_DEFAULT)
    for key, given in (("port", port), ("http_port", http_port)):
        if not 0 <= given <= 65_535 - len(scot.brokers):
            raise text.error("brokers", key, f"{given} leaves no room for {len(scot.brokers)} brokers below 65,536")
    addresses, http = _consecutive(scot, host, port, http_port)
    machines = text.typed("brokers", table, "machines", dict, "a table of machine = host", {})
    for machine, at in machines.items():
        if placement is None or machine not in placement.machines:
            raise text.error("brokers", "machines", f"there is no machine {machine!r} in [placement] or sites.machines")
        for broker in placement.brokers[machine]:
            addresses[broker] = Address(str(at), addresses[broker].port)
    for name, at in text.typed("brokers", table, "addresses", dict, "a table of broker = address", {}).items():
        try:
            broker = BrokerId.parse(name)
            if broker not in scot:
                raise InputError(f"there is no broker {broker} in this overlay")
            addresses[broker] = Address.parse(str(at), addresses[broker].port)
        except InputError as error:
            raise text.error("brokers", "addresses", str(error)) from None
    http_host = text.typed("brokers", table, "http_host", str, "a host, or same", "")
    return addresses, {broker: _http_address(addresses[broker], http_host, at) for broker, at in http.items()}


def _http_address(own: Address, http_host: str, http: Address) -> Address:
    """The HTTP address of a broker; by default only for its own machine, since it answers everyone."""
    if not http_host:
        return Address(own.host if own.is_loopback else HOST_DEFAULT, http.port)
    return Address(own.host if http_host == HTTP_SAME else http_host, http.port)


def _limits(text: TomlText) -> dict[type[Any], dict[str, Any]]:
    table = text.table("limits", tuple(_LIMIT_FIELDS))
    bounds: dict[type[Any], dict[str, Any]] = {NetLimits: {}, WireLimits: {}, Limits: {}}
    for key, value in table.items():
        kind = _LIMIT_FIELDS[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise text.error("limits", key, f"must be a number above 0, not {value!r}")
        try:
            kind(**{key: value})
        except InputError as error:
            raise text.error("limits", key, str(error)) from None
        bounds[kind][key] = value
    return bounds


def _tls(text: TomlText) -> TlsFiles | None:
    if "tls" not in text.document:
        return None
    table = text.table("tls", ("certificate", "key", "authorities"))
    for key in ("certificate", "key", "authorities"):
        if key not in table:
            raise text.error("tls", None, f"{key} is missing: give the name of a PEM file")
    certificate, key, authorities = (
        text.typed("tls", table, key, str, "a file name", "") for key in ("certificate", "key", "authorities")
    )
    return TlsFiles(certificate, key, authorities, text.file.parent)


def _authority(text: TomlText, scot: Scot, tls: bool, tokens: AccessTokens) -> Authority:
    link_token = tokens.read("links", text.table("links", token_keys("token")), "token", spoken=True)
    given = text.document.get("clients", [])
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        raise InputError(f"{text.file}: clients must be tables: write [[clients]]")
    entries = tuple(_client(text, scot, entry, number, tokens) for number, entry in enumerate(given))
    _check_distinct(text, entries)
    with text.at("clients", None):
        return Authority(entries, link_token, tls)


def _client(text: TomlText, scot: Scot, entry: dict[str, Any], number: int, tokens: AccessTokens) -> ClientEntry:
    text.check_keys("clients", entry, _CLIENT_KEYS, number)

    def words(key: str) -> str:
        return text.typed("clients", entry, key, str, "text", "", number)

    name = words("name")
    if not name:
        raise text.error("clients", None, "name is missing", number)
    token = tokens.read("clients", entry, "token", number)
    if not token and not words("certificate"):
        raise text.error("clients", None, f"{name} needs a token or a certificate's common name", number)
    clusters = entry.get("clusters")
    if clusters is not None and (not isinstance(clusters, list) or any(type(c) is not int for c in clusters)):
        raise text.error("clients", "clusters", "must be a list of cluster numbers", number)
    unknown = [cluster for cluster in clusters or () if not 0 <= cluster < scot.clusters]
    if unknown:
        raise text.error(
            "clients",
            "clusters",
            f"there is no cluster {unknown[0]}; the clusters are 0 to {scot.clusters - 1}",
            number,
        )
    rights = Rights(
        name,
        _right(text, entry, "advertise", number),
        _right(text, entry, "subscribe", number),
        None if clusters is None else tuple(clusters),
        text.typed("clients", entry, "block", bool, "true or false", False, number),
        text.typed("clients", entry, "probe", bool, "true or false", False, number),
    )
    return ClientEntry(rights, token, words("certificate"))


def _right(text: TomlText, entry: dict[str, Any], key: str, number: int) -> Filter | None:
    if key not in entry:
        return None
    given = text.typed("clients", entry, key, str, "a filter", "", number)
    with text.at("clients", key, number):
        return parse_filter(given)


def _check_distinct(text: TomlText, entries: Iterable[ClientEntry]) -> None:
    """A token or certificate belongs to one client, which has at most one entry per cluster."""
    seen: dict[tuple[str, str], list[Rights]] = {}
    for number, entry in enumerate(entries):
        rights = entry.rights
        token = digest_of(entry.token) if entry.token else ""
        for kind, value in (("token", token), ("certificate", entry.certificate)):
            before = seen.setdefault((kind, value), []) if value else []
            for other in before:
                if other.name != rights.name:
                    raise text.error("clients", kind, f"{rights.name} and {other.name} have the same {kind}", number)
                if _share_a_cluster(rights, other):
                    raise text.error("clients", kind, f"two entries of {rights.name} hold in one cluster", number)
            before.append(rights)


def _share_a_cluster(one: Rights, other: Rights) -> bool:
    if one.clusters is None or other.clusters is None:
        return True
    return any(cluster in other.clusters for cluster in one.clusters)
