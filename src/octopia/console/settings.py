"""The checked settings of a console: its address, access rules and permissions."""

import ssl
from dataclasses import dataclass, field

from octopia.errors import InputError
from octopia.net import Address

PORT_DEFAULT = 8400
HOST_DEFAULT = "127.0.0.1"


@dataclass(frozen=True)
class ConsoleSettings:
    """The settings of one console. Secrets stay out of its repr."""

    host: str = HOST_DEFAULT
    port: int = PORT_DEFAULT
    names: tuple[str, ...] = ()  # further names under which it may be addressed, for example by a proxy
    origins: tuple[str, ...] = ()  # other pages that may use the WebSocket
    access_token: str = field(default="", repr=False)
    certificate: str = ""
    key: str = ""
    behind_proxy: bool = False  # a proxy handles TLS
    allow_publish: bool = False
    measure_delays: bool = True
    every_s: float = 1.0
    # The console's own client of the overlay.
    client_name: str = ""
    client_token: str = field(default="", repr=False)
    client_tls: ssl.SSLContext | None = None
    url: str = ""  # of the broker it connects to; empty: any of the overlay

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise InputError(f"port {self.port}: 0 to 65535 are possible")
        if bool(self.certificate) != bool(self.key):
            raise InputError("give --tls-cert and --tls-key together")
        if not 0.1 <= self.every_s <= 60:
            raise InputError(f"every {self.every_s:g} s: 0.1 to 60 are possible")
        if self.is_loopback:
            return
        if not self.access_token:
            raise InputError(
                f"everyone who reaches {self.host} could open the console; set an access token (--access-token-file), "
                "or listen on loopback"
            )
        if not self.is_tls and not self.behind_proxy:
            raise InputError(
                f"the access token would travel in the clear to {self.host}; give --tls-cert and --tls-key, or "
                "--behind-proxy if a proxy handles TLS"
            )

    @property
    def is_loopback(self) -> bool:
        return Address(self.host, self.port).is_loopback

    @property
    def is_tls(self) -> bool:
        return bool(self.certificate)

    def link(self, port: int) -> str:
        """The URL for visitors."""
        host = self.names[0] if self.names and not self.is_loopback else self.host
        return f"http{'s' if self.is_tls else ''}://{Address(host, port)}/"
