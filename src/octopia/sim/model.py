"""The cost model of a simulated overlay: processors, output queues and links, with their parameters and sources.

A broker has one processor, which takes messages in the order of arrival and needs for each a base time and the time to
match it with a table of n entries. It has one output queue per link, which sends one message after the other, each for
a fixed time plus a time per byte, and optionally one limit on all its output together. A link then takes its delay,
plus a jitter that never lets messages of one link overtake each other.

Optional parts, none of them in the paper's model: links of one kind or a single link that differ (`a_link`, `i_link`,
`links`), machines whose brokers share cores and a network card, and receivers with a bounded input. A run with machines
or bounded inputs cannot be computed message by message at arrival; `sim/stepwise.py` plays it.

Every parameter is defined here, with its unit in its name, a default and a bound. A file may set some of them (TOML,
one table per part); an unknown or impossible one is refused by name. The same parameters apply to all routings: nothing
here may depend on the algorithm.
"""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from octopia.errors import InputError, PlacementError
from octopia.hints import maybe_meant, shortened
from octopia.toml_file import decoded, parse_toml, read_bounded
from octopia.topology import BrokerId, Scot, Sites, place

Time = Annotated[int, Meta(ge=0, le=3_600_000_000_000)]
Size = Annotated[int, Meta(ge=0, le=1 << 30)]
Cores = Annotated[int, Meta(ge=1, le=1_024)]
MODELS: Final = ("paper", "paper-machines", "live", "instant")
LINKS_MAX: Final = 100_000
# Room for a line of parameters for each of that many links.
FILE_BYTES_MAX: Final = 32 << 20
_BITS_PER_BYTE: Final = 8
# A card of one Mbit/s takes this many ns for a bit.
_NS_PER_MBIT: Final = 1_000


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
        """Time of one message that is matched with a table of `entries` entries."""
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


class LinkModel(Struct, frozen=True, forbid_unknown_fields=True):
    """An output queue and the wire behind it."""

    per_message_ns: Time = 0
    per_byte_ns: Time = 0
    delay_ns: Time = 0
    jitter_ns: Time = 0  # uniform from 0


class OtherLink(Struct, frozen=True, forbid_unknown_fields=True):
    """Overrides of `[link]` for some links; other values are inherited."""

    per_message_ns: Time | UnsetType = UNSET
    per_byte_ns: Time | UnsetType = UNSET
    delay_ns: Time | UnsetType = UNSET
    jitter_ns: Time | UnsetType = UNSET

    def on(self, link: LinkModel) -> LinkModel:
        """The link with the overrides applied."""
        given = {name: getattr(self, name) for name in structs.asdict(link)}
        return structs.replace(link, **{name: value for name, value in given.items() if value is not UNSET})


class OneLink(OtherLink, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the link between two neighbours, in both directions, differs from others of its kind."""

    between: tuple[str, str]


class Machines(Struct, frozen=True, forbid_unknown_fields=True):
    """Machines that run several brokers each, placed as `octopia topology --machines` places them.

    A message waits until a core of its broker's machine is free; a broker uses one core at a time, and brokers take
    turns. Everything that leaves a machine goes through its network card; both card values 0: no limit.
    """

    count: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType = UNSET
    names: tuple[str, ...] | UnsetType = UNSET
    cores: Cores = 1
    card_mbit_per_s: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    card_per_message_ns: Time = 0

    def __post_init__(self) -> None:
        if (self.count is UNSET) == (self.names is UNSET):
            raise ValueError("machines: give either count (a number) or names (a list), as in count = 6")

    def card_ns(self, size: int) -> int:
        """How long the card is busy with a message of this size."""
        if not self.card_mbit_per_s:
            return self.card_per_message_ns
        return self.card_per_message_ns + -(-size * _BITS_PER_BYTE * _NS_PER_MBIT // self.card_mbit_per_s)


class Receiver(Struct, frozen=True, forbid_unknown_fields=True):
    """A bounded input: this many messages of each link, on the wire or not yet taken by the broker.

    When it is full, the sender's output queue stops, so that a slow broker shows in Q_l of its neighbours.
    """

    frames: Annotated[int, Meta(ge=1, le=1_000_000)]


class Egress(Struct, frozen=True, forbid_unknown_fields=True):
    """A limit on all output of a broker, before its links; all values 0: no limit."""

    per_message_ns: Time = 0
    per_byte_ns: Time = 0


class ClientModel(Struct, frozen=True, forbid_unknown_fields=True):
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
    link: LinkModel = LinkModel()
    egress: Egress = Egress()
    client: ClientModel = ClientModel()
    sizes: Sizes = Sizes()
    # Omitted from files and traces if not given.
    a_link: OtherLink | UnsetType = UNSET
    i_link: OtherLink | UnsetType = UNSET
    links: Annotated[tuple[OneLink, ...], Meta(max_length=LINKS_MAX)] | UnsetType = UNSET
    machines: Machines | UnsetType = UNSET
    receiver: Receiver | UnsetType = UNSET

    @property
    def by_steps(self) -> bool:
        """Whether the fate of a message depends on later events, so that a run must go step by step."""
        return self.machines is not UNSET or self.receiver is not UNSET


# The parts of a model file that are tables.
MODEL_PARTS: Final = tuple(field.name for field in structs.fields(Model) if field.name not in ("title", "links"))


def links_of(model: Model, overlay: Scot, sites: Sites | None = None) -> Mapping[tuple[BrokerId, BrokerId], LinkModel]:
    """The parameters of every link of an overlay, by sender and receiver; `InputError` for an unknown link."""
    a_link = model.link if model.a_link is UNSET else model.a_link.on(model.link)
    i_link = model.link if model.i_link is UNSET else model.i_link.on(model.link)
    links: dict[tuple[BrokerId, BrokerId], LinkModel] = {}
    for broker in overlay.brokers:
        links.update(((broker, neighbour), a_link) for neighbour in overlay.a_links(broker))
        links.update(((broker, neighbour), i_link) for neighbour in overlay.i_links(broker))
    given: dict[tuple[BrokerId, BrokerId], int] = {}
    for number, other in enumerate(() if model.links is UNSET else model.links):
        where = f"model: links[{number}].between"
        one, two = (_broker(text, overlay, where) for text in other.between)
        if (one, two) not in links:
            near = ", ".join(_written(neighbour) for neighbour in overlay.neighbours(one))
            raise InputError(
                f"{where}: {_written(one)} and {_written(two)} are not neighbours; {other.between[0]} "
                f"has {near or 'none'}"
            )
        earlier = given.setdefault((one, two), given.setdefault((two, one), number))
        if earlier != number:
            raise InputError(f"{where}: the link was given already, as links[{earlier}]; remove one of them")
        links[one, two] = links[two, one] = other.on(links[one, two])
    if sites is None:
        return links
    return {ends: structs.replace(link, delay_ns=link.delay_ns + sites.delay_ns(*ends)) for ends, link in links.items()}


def machines_of(model: Model, overlay: Scot) -> tuple[int, ...]:
    """For every broker of an overlay, the number of its machine; without `[machines]`, each has its own."""
    machines = model.machines
    if machines is UNSET:
        return tuple(range(len(overlay.brokers)))
    given: list[str] | Any = machines.count if machines.names is UNSET else list(machines.names)
    try:
        return place(overlay, given).places
    except PlacementError as error:
        raise InputError(f"model: machines: {error}") from None


def check_model(model: Model, overlay: Scot) -> None:
    """Raise `InputError` if a model mentions something that the overlay does not have."""
    links_of(model, overlay)
    machines_of(model, overlay)


def _broker(text: str, overlay: Scot, where: str) -> BrokerId:
    region, dot, cluster = text.rpartition(".")
    if not dot or not cluster.isdecimal():
        raise InputError(f"{where}: {shortened(text)!r} is not a broker; write region.cluster, for example a.0")
    id = BrokerId(region, int(cluster))
    if id not in overlay:
        known = [_written(broker) for broker in overlay.brokers]
        raise InputError(f"{where}: no broker {shortened(text)} in the overlay{maybe_meant(text, known)}")
    return id


def _written(broker: BrokerId) -> str:
    return f"{broker.region}.{broker.cluster}"


def load_model(name_or_path: str) -> Model:
    """A model by name (one of `MODELS`) or from a TOML file."""
    if name_or_path in MODELS:
        text = (resources.files("octopia.sim") / "models" / f"{name_or_path}.toml").read_text(encoding="utf-8")
        return _parse(text, f"model {name_or_path}")
    path = Path(name_or_path)
    if not path.exists():
        hint = maybe_meant(name_or_path, MODELS)
        raise InputError(f"no model and no file {name_or_path!r}{hint}; models are {', '.join(MODELS)}")
    try:
        text = decoded(read_bounded(path, FILE_BYTES_MAX))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return _parse(text, str(path))


def model_from(values: dict[str, Any], place: str) -> Model:
    """A model from plain values; an error names the place."""
    try:
        return msgspec.convert(values, Model)
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"{place}: {error}") from None


def _parse(text: str, place: str) -> Model:
    try:
        values = parse_toml(text)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    return model_from(values, place)
