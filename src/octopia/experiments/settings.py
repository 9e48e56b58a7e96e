"""The settings of an experiment, from a TOML file or one by one, and their checks.

Every setting has a name, a type and the paper's value as default; an experiment overrides a few. An unknown or
impossible setting is refused by name, before anything runs. A setting is addressed by its name, and a parameter of the
model as `model.PART.NAME`, for example `model.link.per_message_ns`.

`vary` names the setting that an experiment varies, and `points` its values: each experiment of the paper varies one,
and any other may be varied instead.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, structs

from octopia.errors import InputError
from octopia.hints import maybe_meant, shortened
from octopia.sim import Fault
from octopia.testbed import Processes
from octopia.toml_file import decoded, parse_toml, read_bounded

Point: TypeAlias = int | float | str
Count = Annotated[int, Meta(ge=1, le=50_000_000)]
Seconds = Annotated[float, Meta(gt=0, le=1e6)]
MODEL_PREFIX: Final = "model."
POINTS_MAX: Final = 1000
FILE_BYTES_MAX: Final = 1 << 20


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of an experiment, with the paper's values."""

    # systems to compare, and the number of runs
    systems: Annotated[tuple[str, ...], Meta(min_length=1)] = ("snr", "idr", "fdr", "tid", "tid-dynamic")
    vary: str = ""
    points: Annotated[tuple[Point, ...], Meta(max_length=POINTS_MAX)] = ()
    seeds: Annotated[int, Meta(ge=1, le=10_000)] = 5
    first_seed: int = 0
    scale: Annotated[float, Meta(gt=0, le=1)] = 1.0
    # the overlay: a tree as for `octopia topology`, or an overlay file
    overlay: str = "evaluation"
    clusters: Annotated[int, Meta(ge=1)] | None = None
    # sites of clusters or of regions (`none`, `cluster`, `region`; default: those of the overlay file), their number
    # (default: as many as clusters), and the one-way delay between any two of them
    sites: str = ""
    site_count: Annotated[int, Meta(ge=1, le=256)] | None = None
    site_delay_ms: Annotated[float, Meta(ge=0, le=60_000)] = 20.0
    # clients and their notifications
    publishers: Count = 100
    subscribers: Annotated[int, Meta(ge=0, le=1_000_000)] = 2000
    selectivity: float = 0.02
    shape: str = "symbols"
    placement: str = "random"
    notifications_per_publisher: Count = 2000
    rate_per_minute: float = 60
    burst_rate_per_minute: float = 100_000
    burst_notifications: Count = 100_000
    burst_interested_share: float = 0.02
    burst_start_s: float = 0.0
    # several bursts at once: their number, the rate of each as a share of burst_rate_per_minute (shares are repeated if
    # there are fewer than bursts), and the time between their starts
    bursts: Annotated[int, Meta(ge=1, le=1000)] = 1
    burst_rate_shares: Annotated[tuple[Annotated[float, Meta(gt=0, le=1000)], ...], Meta(min_length=1)] = (1.0,)
    burst_stagger_s: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    # withdrawals and registrations during publishing, and the share of advertisements among them
    changes_per_minute: float = 0.0
    changes_of_advertisements: float = 0.2
    # urgent subscribers and those with a deadline: their share, and their options
    urgent_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    urgent_priority: Annotated[int, Meta(ge=0, le=3)] = 3
    deadline_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    deadline_s: Annotated[float, Meta(gt=0, le=86_400)] = 1.0
    # quotes: made from the seed, or read from files
    symbols: Count = 500
    quotes: tuple[str, ...] = ()
    # subscriptions that brokers need not send: none, or those covered by others per host or per link
    covering: str = "none"
    # congestion control, Eq. 10
    tau: float = 10.0
    window_s: float = 0.05
    # the host of the brokers: the simulator, or a number of processes (0: one per core; `octopia.testbed`)
    host: Literal["simulated", "live"] = "simulated"
    processes: Processes = 0
    # the simulated machines and links: a model by name or file, and overrides of its parameters
    model: str = "paper"
    model_parameters: dict[str, dict[str, Any]] = {}
    faults: tuple[Fault, ...] = ()
    # k-1 brokers die at a place, or one does (`trouble.py`); when and for how long, in lengths of the burst or, without
    # one, of publishing
    crash: str = ""
    failure: str = ""
    crash_at: Annotated[float, Meta(ge=0, le=1000)] = 0.5
    crash_for: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    # a link is this many times as slow
    slow_link: str = ""
    slow_factor: Annotated[int, Meta(ge=1, le=1_000_000)] = 10
    # pace of registrations, samples of queues
    advertise_every_s: Seconds = 0.2
    subscribe_every_s: Seconds = 0.1
    queue_sample_s: Seconds = 1.0
    # of the metrics
    delay_bound_s: Seconds = 1.0
    block_notifications: Count = 1000


# A small overlay with few clients: every experiment takes seconds. It shows the effects, not the paper's numbers.
SMALL: Final[Mapping[str, Any]] = {
    "overlay": "path:3",
    "clusters": 3,
    "publishers": 10,
    "subscribers": 60,
    "selectivity": 0.1,
    "notifications_per_publisher": 20,
    "burst_notifications": 400,
    "burst_interested_share": 0.2,
    "symbols": 30,
    "seeds": 1,
}
_SMALL_POINTS: Final = {
    "publishers": (5, 10),
    "subscribers": (30, 60),
    "burst_rate_per_minute": (100_000,),
    "bursts": (1, 3),
}

NAMES: Final = tuple(field.name for field in structs.fields(Settings))


def check_name(name: str, place: str) -> None:
    """Raise `InputError` unless a setting has this name."""
    if name.startswith(MODEL_PREFIX):
        if name.count(".") != 2:
            raise InputError(
                f"{place}: a parameter of the model is written model.PART.NAME, for example model.link.delay_ns"
            )
    elif name not in NAMES:
        raise InputError(f"{place}: no setting is called {shortened(name)!r}{maybe_meant(name, NAMES)}")


def changed(settings: Settings, changes: Mapping[str, Any], place: str) -> Settings:
    """The settings with some of them changed; errors start with the origin of the changes."""
    values: dict[str, Any] = {name: getattr(settings, name) for name in NAMES}
    values["faults"] = msgspec.to_builtins(settings.faults)
    values["model_parameters"] = {part: dict(inside) for part, inside in settings.model_parameters.items()}
    for name, value in changes.items():
        check_name(name, place)
        if name.startswith(MODEL_PREFIX):
            _, part, parameter = name.split(".")
            values["model_parameters"].setdefault(part, {})[parameter] = value
        else:
            values[name] = value
    try:
        return msgspec.convert(values, Settings, strict=True)
    except msgspec.ValidationError as error:
        # An option has the name of its setting, which need not be said twice.
        problem = _readable(error).removeprefix(f"{place.removeprefix('--')}: ")
        raise InputError(f"{place}: {problem}") from None


def small(settings: Settings) -> Settings:
    """The small version of an experiment's own settings."""
    points = _SMALL_POINTS.get(settings.vary, settings.points)
    kept = {"subscribers": settings.subscribers} if settings.subscribers == 0 else {}
    return changed(settings, {**SMALL, **kept, "points": points}, "small")


def point_text(point: Point) -> str:
    """A point as text; a number without needless digits."""
    return point if isinstance(point, str) else f"{point:.12g}"


def value_of(settings: Settings, name: str) -> Any:
    """The value of a setting by name; None for a parameter that comes from the model's own file."""
    if name.startswith(MODEL_PREFIX):
        _, part, parameter = name.split(".")
        return settings.model_parameters.get(part, {}).get(parameter)
    return getattr(settings, name)


def read_settings(file: Path) -> dict[str, Any]:
    """The settings in a TOML file, not checked yet."""
    try:
        return parse_toml(decoded(read_bounded(file, FILE_BYTES_MAX)))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def parse_value(text: str) -> Any:
    """A value from a command line: parsed as TOML, or plain text if it is not TOML (`paper`, `path:5`)."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except InputError:
        return text


def settings_toml(settings: Settings) -> str:
    """The settings as a TOML file that `read_settings` reads back; None values are omitted."""
    values = msgspec.to_builtins(settings)
    parameters, faults = values.pop("model_parameters"), values.pop("faults")
    lines = [f"{name} = {_toml(value)}" for name, value in values.items() if value is not None]
    for part, inside in parameters.items():
        lines += ["", f"[model_parameters.{part}]", *(f"{name} = {_toml(value)}" for name, value in inside.items())]
    for fault in faults:
        lines += ["", "[[faults]]", *(f"{name} = {_toml(value)}" for name, value in fault.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(part) for part in value)}]"
    # Text and numbers are written the same in JSON and TOML.
    return msgspec.json.encode(value).decode("utf-8")


def _readable(error: msgspec.ValidationError) -> str:
    problem, _, path = str(error).partition(" - at `$")
    name = path.rstrip("`").lstrip(".")
    return f"{name}: {problem[:1].lower()}{problem[1:]}" if name else problem
