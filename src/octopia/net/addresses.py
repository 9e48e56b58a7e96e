"""Addresses of brokers, and the urls that clients connect to.

    octopia://host:port        plain TCP
    octopias://host:port       TLS 1.3

Values and their text form; nothing is resolved here.
"""

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from octopia.errors import InputError

PORT_DEFAULT = 7400
SCHEME_PLAIN = "octopia"
SCHEME_TLS = "octopias"


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    @classmethod
    def parse(cls, text: str, port: int = PORT_DEFAULT) -> "Address":
        """Read `host`, `host:port` or `[ipv6]:port`."""
        try:
            parts = urlsplit(f"//{text}")
            host, given = parts.hostname, parts.port
        except ValueError:
            host, given = None, None
        if not host or parts.path or parts.query or parts.username:
            raise InputError(f"{text!r} is not an address: write host:port, for example 127.0.0.1:{PORT_DEFAULT}")
        return cls(host, port if given is None else given)


@dataclass(frozen=True, slots=True)
class Url:
    """The url of a broker."""

    address: Address
    tls: bool

    def __str__(self) -> str:
        return f"{SCHEME_TLS if self.tls else SCHEME_PLAIN}://{self.address}"

    @classmethod
    def parse(cls, text: str) -> "Url":
        """Read a url, or a bare `host:port`, which is plain TCP."""
        scheme, separator, rest = text.partition("://")
        if not separator:
            return cls(Address.parse(text), False)
        if scheme not in (SCHEME_PLAIN, SCHEME_TLS):
            raise InputError(f"{text!r} is not a broker URL: write {SCHEME_PLAIN}:// or {SCHEME_TLS}://")
        return cls(Address.parse(rest.rstrip("/")), scheme == SCHEME_TLS)


def is_loopback(host: str) -> bool:
    """Whether this is an address of the machine itself."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
