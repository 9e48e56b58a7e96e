"""The identity of clients, and their rights as filters.

A right is a filter. A client may advertise or subscribe to exactly what its right provably covers (`octopia.covers`);
undecidable cases are refused. Each notification it publishes must match its right to advertise (`permits.py`). Every
delivery matches a subscription, and so the right to subscribe. If the configuration names no client, everyone may do
everything, which suits experiments on one machine; once one is named, nobody else is accepted. Each client may probe
what it may publish; probing in the name of others is a separate right. A client may be named several times for
different clusters: it has the rights of the cluster it connects to. Policy `block` slows others down, so it is a
separate right, which must be given to a named client. If clients are named, neighbours must prove their identity, too:
a client that could pose as a broker would have every right.
"""

from dataclasses import dataclass, field

from octopia.errors import InputError, RefusedError
from octopia.language import Conjunction, Filter, covers
from octopia.net.broker.permits import Permit
from octopia.net.secret import is_same
from octopia.topology import BrokerId
from octopia.wire import Hello

# as SQL, which takes long to load, this is true
EVERYTHING = Filter([Conjunction([])])


class UnknownPeerError(RefusedError):
    """A peer that did not prove its identity; the answer may be delayed."""


@dataclass(frozen=True)
class Rights:
    """The rights of one client in these clusters; None for any."""

    name: str = ""
    advertise: Filter | None = EVERYTHING
    subscribe: Filter | None = EVERYTHING
    clusters: tuple[int, ...] | None = None
    block: bool = True
    probe: bool = True

    def check_advertise(self, wanted: Filter) -> None:
        self._check("advertise", self.advertise, wanted)

    def check_subscribe(self, wanted: Filter) -> None:
        self._check("subscribe to", self.subscribe, wanted)

    def check_policy(self, policy: str) -> None:
        if policy == "block" and not self.block:
            raise RefusedError(
                f"{self.name} may not subscribe with policy block: set block = true in its entry of [[clients]], or use"
                " drop_oldest"
            )

    def permit(self) -> Permit | None:
        """The check of its publications; None if they need none."""
        # Without a right nothing can be advertised, so nothing can be published.
        if self.advertise is None or self.advertise == EVERYTHING:
            return None
        return Permit(self.name, self.advertise)

    def holds_in(self, cluster: int) -> bool:
        return self.clusters is None or cluster in self.clusters

    def _check(self, what: str, allowed: Filter | None, wanted: Filter) -> None:
        if allowed == EVERYTHING:
            return
        if allowed is None:
            raise RefusedError(f"{self.name} may not {what} anything")
        if not covers(allowed, wanted):
            raise RefusedError(f"{self.name} may not {what} {wanted}; it may {what}: {allowed}")

    def check_name(self, wanted: str) -> None:
        """A client may take its own name, or one below it: `feed` and `feed/2`."""
        if self.name and wanted != self.name and not wanted.startswith(f"{self.name}/"):
            raise RefusedError(
                f"{self.name} may not call itself {wanted!r}; {self.name} and {self.name}/… are its names"
            )


@dataclass(frozen=True)
class ClientEntry:
    """A client in the configuration, identified by a token (see `secret.py`) or the common name of its certificate."""

    rights: Rights
    token: str = ""
    certificate: str = ""


@dataclass(frozen=True)
class Authority:
    """Identifies peers."""

    clients: tuple[ClientEntry, ...] = ()
    link_token: str = ""
    tls: bool = False
    _anyone: Rights = field(default_factory=Rights)

    def __post_init__(self) -> None:
        if self.clients and not self.tls and not self.link_token:
            raise InputError(
                "clients are named, and anyone could call itself a broker: give neighbours a table [tls], or [links] "
                "with a token"
            )

    def client(self, hello: Hello, certificate_name: str, broker: BrokerId) -> Rights:
        """The rights of a client at this broker, or `RefusedError`."""
        if not self.clients:
            return self._anyone
        found: list[Rights] = []
        for entry in self.clients:
            by_token = is_same(entry.token, hello.token)
            by_certificate = entry.certificate and entry.certificate == certificate_name
            if by_token or by_certificate:
                found.append(entry.rights)
        if not found:
            raise UnknownPeerError("this broker knows no client with that token or certificate")
        for rights in found:
            if rights.holds_in(broker.cluster):
                return rights
        listed = ", ".join(str(cluster) for rights in found for cluster in rights.clusters or ()) or "none"
        raise RefusedError(f"{found[0].name} may not connect to cluster {broker.cluster}; its clusters are: {listed}")

    def rights_of(self, name: str, broker: BrokerId) -> Rights | None:
        """The rights at this broker of a client that proved its name earlier; None if it has none."""
        if not self.clients:
            return None if name else self._anyone
        named = (entry.rights for entry in self.clients if entry.rights.name == name)
        return next((rights for rights in named if rights.holds_in(broker.cluster)), None)

    def check_name(self, rights: Rights, wanted: str) -> None:
        """A client may take its own name, or one below it: `feed` and `feed/2`, unless that is another client's."""
        rights.check_name(wanted)
        for entry in self.clients:
            other = entry.rights.name
            if len(other) > len(rights.name) and (wanted == other or wanted.startswith(f"{other}/")):
                raise RefusedError(f"{rights.name} may not call itself {wanted!r}: {other} is another client")

    @property
    def wants_proof(self) -> bool:
        """Whether neighbours prove their identity by the link token (`link_proof.py`)."""
        return bool(self.link_token) and not self.tls

    def check_broker(self, neighbour: BrokerId, certificate_name: str, is_loopback: bool) -> None:
        """Raise `RefusedError` unless the peer may be this neighbour; a link token is checked later.

        With TLS, its certificate names it. Without TLS and link token, it must be on this machine.
        """
        if self.tls:
            if certificate_name != str(neighbour):
                raise UnknownPeerError(
                    f"its certificate is for {certificate_name or 'nobody'!r}, not for broker {neighbour}"
                )
        elif not self.link_token and not is_loopback:
            raise RefusedError("links from other machines need TLS or a link token")
