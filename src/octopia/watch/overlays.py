"""The brokers of an overlay and their HTTP addresses, from an overlay file or from one broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from octopia.errors import InputError, OctopiaError, UnreachableError
from octopia.net import OverlayIdentity, ServeConfig, default_config, load_config
from octopia.topology import BrokerId, Scot, Tree
from octopia.watch.fetch import get_json


@dataclass(frozen=True)
class Place:
    """The addresses of one broker: `url` for clients, `http` for readers; empty if unknown."""

    url: str
    http: str


@dataclass(frozen=True)
class Watched:
    """An overlay that can be watched."""

    name: str
    scot: Scot
    routing: str
    digest: str
    places: Mapping[BrokerId, Place]
    token: str = field(default="", repr=False)  # for the brokers' HTTP

    @property
    def digests(self) -> frozenset[str]:
        """The digests that its brokers give, including those of the version before."""
        return frozenset((self.digest, OverlayIdentity(self.name, self.scot, self.routing).nameless_digest))

    @classmethod
    def of(cls, config: ServeConfig, token: str = "") -> "Watched":
        """The overlay of a configuration. `token` is for the HTTP ports; without it the configuration's is used."""
        if not config.http:
            raise InputError(f"{config.name} has no http_port in [brokers], which watching needs")
        scheme = "octopia" if config.tls is None else "octopias"
        places = {
            broker: Place(f"{scheme}://{config.addresses[broker]}", f"http://{config.http[broker]}")
            for broker in config.scot.brokers
        }
        bearer = token or config.http_bearer
        return cls(config.name, config.scot, config.routing, config.digest, places, bearer)


async def find(given: str | PathLike[str] | None = None, token: str = "") -> Watched:
    """The overlay of a file, or of the broker whose HTTP port is at this `http://…`; by default, that of `serve`."""
    if given is None:
        return Watched.of(default_config(), token)
    text = str(given)
    if text.startswith(("http://", "https://")):
        return await _ask(text.rstrip("/"), token)
    if "://" in text:
        raise InputError(f"{text!r} is not the address of a broker's HTTP port: write http://host:port")
    return Watched.of(load_config(text, secrets=False), token)


async def _ask(url: str, token: str) -> Watched:
    answer = await get_json(f"{url}/overlay", token)
    try:
        return _read(answer, token)
    except (KeyError, TypeError, ValueError, OctopiaError) as error:
        raise UnreachableError(f"what answers at {url} is not a broker: {error}") from None


def _read(answer: Any, token: str) -> Watched:
    tree = Tree.from_edges([(one, other) for one, other in answer["edges"]], answer["regions"])
    scot = Scot(tree, answer["clusters"])
    given = {BrokerId(each["region"], each["cluster"]): Place(each["url"], each["http"]) for each in answer["brokers"]}
    places = {broker: given[broker] for broker in scot.brokers}
    return Watched(answer["name"] or "octopia", scot, answer["routing"], answer["digest"], places, token)
