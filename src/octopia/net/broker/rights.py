"""Who a client is, and what it may do: rights as filters.

Rules of this file: a right is a filter. A client may advertise, or subscribe to, exactly what its right provably
covers (`octopia.covers`), so that what cannot be decided is refused. Without any client named in the configuration
everyone may do everything, which is right for trying things on one machine; once one is named, nobody else gets in.
A client may be named several times, each time for other clusters: it has the rights of the cluster it connects to, so
what it may advertise or subscribe to can differ from cluster to cluster. Policy `block` slows others, so it is a right
of its own, which a client that is named must be given. Secrets are compared in constant time.
"""

import hmac
from dataclasses import dataclass, field

from octopia.errors import RefusedError
from octopia.language import Filter, covers, parse_filter
from octopia.topology import BrokerId
from octopia.wire import Hello

EVERYTHING = parse_filter("true")


@dataclass(frozen=True)
class Rights:
    """What one client may do in these clusters; None for any."""

    name: str = ""
    advertise: Filter | None = EVERYTHING
    subscribe: Filter | None = EVERYTHING
    clusters: tuple[int, ...] | None = None
    block: bool = True

    def check_advertise(self, wanted: Filter, broker: BrokerId) -> None:
        self._check("advertise", self.advertise, wanted)

    def check_subscribe(self, wanted: Filter, broker: BrokerId) -> None:
        self._check("subscribe to", self.subscribe, wanted)

    def check_policy(self, policy: str) -> None:
        if policy == "block" and not self.block:
            raise RefusedError(
                f"{self.name} may not subscribe with policy block: set block = true in its entry of [[clients]], or use"
                " drop_oldest"
            )

    def holds_in(self, cluster: int) -> bool:
        return self.clusters is None or cluster in self.clusters

    def _check(self, what: str, allowed: Filter | None, wanted: Filter) -> None:
        if allowed is EVERYTHING:
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
    """A client of the configuration: known by a token, or by the common name of its certificate."""

    rights: Rights
    token: str = ""
    certificate: str = ""


@dataclass(frozen=True)
class Authority:
    """Says who a peer is."""

    clients: tuple[ClientEntry, ...] = ()
    link_token: str = ""
    tls: bool = False
    _anyone: Rights = field(default_factory=Rights)

    def client(self, hello: Hello, certificate_name: str, broker: BrokerId) -> Rights:
        """The rights of a client at this broker, or `RefusedError`."""
        if not self.clients:
            return self._anyone
        found: list[Rights] = []
        for entry in self.clients:
            by_token = entry.token and hello.token and _same(entry.token, hello.token)
            by_certificate = entry.certificate and entry.certificate == certificate_name
            if by_token or by_certificate:
                found.append(entry.rights)
        if not found:
            raise RefusedError("this broker knows no client with that token or certificate")
        for rights in found:
            if rights.holds_in(broker.cluster):
                return rights
        listed = ", ".join(str(cluster) for rights in found for cluster in rights.clusters or ()) or "none"
        raise RefusedError(f"{found[0].name} may not connect to cluster {broker.cluster}; its clusters are: {listed}")

    def check_broker(self, hello: Hello, neighbour: BrokerId, certificate_name: str, is_loopback: bool) -> None:
        """Raise `RefusedError` unless the peer is proved to be this neighbour.

        With TLS its certificate names it; without, it must know the overlay's link token, or, where there is none,
        sit on this machine.
        """
        if self.tls:
            if certificate_name != str(neighbour):
                raise RefusedError(
                    f"its certificate is for {certificate_name or 'nobody'!r}, not for broker {neighbour}"
                )
        elif self.link_token:
            if not _same(self.link_token, hello.token):
                raise RefusedError("the link token is wrong")
        elif not is_loopback:
            raise RefusedError("links from other machines need TLS or a link token")


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
