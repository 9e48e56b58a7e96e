"""What a simulated overlay is made of: processors, output queues, links; the parameters and where they come from.

A broker has one processor, which takes messages in the order of arrival and needs for each a base time and the time to
match it with a table of n entries. It has one output queue per link, which sends one message after the other, each for
a fixed time plus a time per byte, and optionally one limit on all its output together. A link then takes its delay,
plus a jitter that never lets messages of one link overtake each other.

Rules of this file: every parameter stands here, with its unit in its name, a default and a bound; a file may set some
of them (TOML, one table per part), and an unknown or impossible one is refused by name. The same parameters hold for
all routings: nothing here may depend on the algorithm.
"""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from octopia.errors import InputError
from octopia.hints import maybe_meant

Time = Annotated[int, Meta(ge=0, le=3_600_000_000_000)]
Size = Annotated[int, Meta(ge=0, le=1 << 30)]
MODELS: Final = ("paper", "live", "instant")


class Processor(Struct, frozen=True, forbid_unknown_fields=True):
    """Service time of one message: `base_ns` and the matching time.

    `matching` is the time to match with tables of some sizes, as pairs (entries, ns) by rising size; between two sizes
    it is interpolated, beyond the last it grows as between the last two. No pair: matching takes no time. One pair: a
    constant.
    """

    base_ns: Time = 0
    matching: tuple[tuple[Annotated[int, Meta(ge=0)], Time], ...] = ()

    def __post_init__(self) -> None:
        sizes = [entries for entries, _ in self.matching]
        if sizes != sorted(set(sizes)):
            raise ValueError("matching: the sizes must rise from pair to pair")

    def service_ns(self, entries: int) -> int:
        """Time of one message that is matched with a table of so many entries."""
        return self.base_ns + self.matching_ns(entries)

    def matching_ns(self, entries: int) -> int:
        curve = self.matching
        if not curve:
            return 0
        if len(curve) == 1 or entries <= curve[0][0]:
            return curve[0][1]
        upper = next((i for i, (size, _) in enumerate(curve) if size >= entries), len(curve) - 1)
        (size_0, ns_0), (size_1, ns_1) = curve[upper - 1], curve[upper]
        # whole numbers throughout: the same on every machine
        return max(0, ns_0 + (ns_1 - ns_0) * (entries - size_0) // (size_1 - size_0))


class Link(Struct, frozen=True, forbid_unknown_fields=True):
    """An output queue and the wire behind it."""

    per_message_ns: Time = 0
    per_byte_ns: Time = 0
    delay_ns: Time = 0
    jitter_ns: Time = 0  # uniform from 0


class Egress(Struct, frozen=True, forbid_unknown_fields=True):
    """A limit on everything that a broker sends, before its links; all 0: there is none."""

    per_message_ns: Time = 0
    per_byte_ns: Time = 0


class Client(Struct, frozen=True, forbid_unknown_fields=True):
    """The way between a client and its host broker."""

    delay_ns: Time = 0


class Sizes(Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes of a message on a link, by kind; a CIV or a tree id adds `routing_bytes` to a notification."""

    advertise_bytes: Size = 400
    subscribe_bytes: Size = 300
    withdraw_bytes: Size = 60
    cib_bytes: Size = 60
    notify_bytes: Size = 250
    routing_bytes: Size = 8


class Model(Struct, frozen=True, forbid_unknown_fields=True):
    """All parameters of a simulated overlay."""

    title: str = "instant: no time passes anywhere"
    processor: Processor = Processor()
    link: Link = Link()
    egress: Egress = Egress()
    client: Client = Client()
    sizes: Sizes = Sizes()


def load_model(name_or_path: str) -> Model:
    """A model by name (`paper`, `live`, `instant`) or from a TOML file."""
    if name_or_path in MODELS:
        text = (resources.files("octopia.sim") / "models" / f"{name_or_path}.toml").read_text(encoding="utf-8")
        return _parse(text, f"model {name_or_path}")
    path = Path(name_or_path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = maybe_meant(name_or_path, MODELS)
        raise InputError(f"no model and no file {name_or_path!r}{hint}; models are {', '.join(MODELS)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the model: {error}") from None
    return _parse(text, str(path))


def model_from(values: dict[str, Any], place: str) -> Model:
    """A model from plain values; an error names the place."""
    try:
        return msgspec.convert(values, Model)
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"{place}: {error}") from None


def _parse(text: str, place: str) -> Model:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{place}: not TOML: {error}") from None
    return model_from(values, place)
