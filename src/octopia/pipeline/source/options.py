"""The options of the data source `octopia`: names, allowed values and defaults.

This module does not need Spark. An unknown or invalid option is an error that names it and the fix, before anything is
connected; Spark itself ignores options it does not know. Names are compared without case, as in Spark, and shown as
they are written here.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from octopia.errors import InputError, LanguageError
from octopia.hints import maybe_meant, shortened
from octopia.language import Filter, parse_filter
from octopia.net import Url, client_context

PERMISSIVE, DROP_MALFORMED, FAIL_FAST = "PERMISSIVE", "DROPMALFORMED", "FAILFAST"
POLICIES: Final = ("block", "drop_oldest", "drop_newest", "disconnect")
COUNT, FAIL = "count", "fail"
MIB: Final = 1024 * 1024

# Names that Kafka users expect: aliases of ours, or a clear answer.
_KAFKAS_READ: Final = ("maxOffsetsPerTrigger", "failOnDataLoss", "startingOffsets", "minPartitions")
_SHARED: Final = ("url", "name", "token", "tlsAuthorities", "tlsCertificate", "tlsKey", "mode")
_READ: Final = (
    *_SHARED, "filter", "advertisement", "spool", "spoolBytesMax", "spoolSync", "policy", "ordered",
    "sessionSeconds", "maxRowsPerTrigger", "numPartitions", "onLoss", *_KAFKAS_READ,
)  # fmt: skip
_WRITE: Final = (*_SHARED, "advertise", "writeId", "receipts")
# Options that Spark adds.
_SPARKS: Final = ("checkpointlocation", "queryname", "path", "outputmode")


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """Connection settings of a client."""

    url: str
    name: str
    token: str
    tls_authorities: str
    tls_certificate: str
    tls_key: str

    def client(self) -> dict[str, Any]:
        """The arguments of a client of `octopia.net`, except its name. TLS files are read here, in its process."""
        given: dict[str, Any] = {"token": self.token}
        if self.tls_authorities or self.tls_certificate:
            given["tls"] = client_context(
                self.tls_authorities or None, self.tls_certificate or None, self.tls_key or None
            )
        return given


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of `readStream`."""

    connect: ConnectOptions
    filter: Filter
    advertisement: Filter | None
    spool: Path | None
    spool_bytes_max: int
    spool_sync: bool
    policy: str
    ordered: bool
    session_s: float
    rows_max: int
    partitions: int
    mode: str
    fails_on_loss: bool


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of `write` and `writeStream`."""

    connect: ConnectOptions
    advertise: Filter | None
    write_id: str
    mode: str
    receipts: Path | None


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Check the options of a reader."""
    options = _Given(given, _READ, "reading")
    folder = options.text("spool")
    _check_starting(options.text("startingOffsets"))
    return ReadOptions(
        connect=_connect(options),
        filter=options.filter("filter", needed="what to subscribe to, for example \"symbol = 'AAPL' and close > 100\""),
        advertisement=options.filter("advertisement") if options.text("advertisement") else None,
        spool=_local_folder(folder) if folder else None,
        spool_bytes_max=options.number("spoolBytesMax", 1024 * MIB, 1 * MIB, 1024 * 1024 * MIB),
        spool_sync=options.flag("spoolSync", False),
        policy=options.one_of("policy", POLICIES),
        ordered=options.flag("ordered", True),
        session_s=options.number("sessionSeconds", 300, 0, 86_400),
        rows_max=options.number(options.either("maxRowsPerTrigger", "maxOffsetsPerTrigger"), 200_000, 1, 100_000_000),
        partitions=options.number(options.either("numPartitions", "minPartitions"), 1, 1, 1000),
        mode=options.one_of("mode", (PERMISSIVE, DROP_MALFORMED, FAIL_FAST)),
        fails_on_loss=_fails_on_loss(options),
    )


def _fails_on_loss(options: "_Given") -> bool:
    if options.either("onLoss", "failOnDataLoss") == "failOnDataLoss":
        return options.flag("failOnDataLoss", False)
    return options.one_of("onLoss", (COUNT, FAIL)) == FAIL


def _check_starting(text: str) -> None:
    """Reading starts when the subscription is made: earlier notifications cannot be read."""
    if text and text.lower() != "latest":
        raise InputError(
            f"option 'startingOffsets' is {shortened(text)!r}: brokers keep no history; a new query starts with "
            "notifications published from then on ('latest', the default); with a spool, a stopped query resumes "
            "where it was"
        )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Check the options of a writer."""
    options = _Given(given, _WRITE, "writing")
    receipts = options.text("receipts")
    return WriteOptions(
        connect=_connect(options),
        advertise=options.filter("advertise") if options.text("advertise") else None,
        write_id=options.text("writeId"),
        mode=options.one_of("mode", (FAIL_FAST, DROP_MALFORMED)),
        receipts=Path(receipts) if receipts else None,
    )


def _connect(options: "_Given") -> ConnectOptions:
    url = options.text("url", needed="where a broker listens, for example octopia://127.0.0.1:7400")
    try:
        for one in url.split(","):
            Url.parse(one.strip())
    except InputError as error:
        raise InputError(f"option 'url': {error}") from None
    if options.text("tlsKey") and not options.text("tlsCertificate"):
        raise InputError("option 'tlsKey' is given without 'tlsCertificate'")
    return ConnectOptions(
        url,
        options.text("name"),
        options.text("token"),
        options.text("tlsAuthorities"),
        options.text("tlsCertificate"),
        options.text("tlsKey"),
    )


def _local_folder(text: str) -> Path:
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "file":
        raise InputError(f"option 'spool' is {shortened(text)!r}: a folder of the driver's machine is needed")
    return Path(rest if separator else text)


class _Given:
    """The given options, looked up by the names in this file."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], doing: str) -> None:
        names = {name.lower() for name in known}
        for name in given:
            if name.lower() not in names and name.lower() not in _SPARKS:
                raise InputError(f"unknown option {shortened(name)!r} for {doing}{maybe_meant(name, known)}")
        self._given = {name.lower(): value for name, value in given.items()}

    def text(self, name: str, *, needed: str = "") -> str:
        value = self._given.get(name.lower(), "")
        if needed and not value:
            raise InputError(f"option {name!r} is missing: {needed}")
        return value

    def either(self, ours: str, other: str) -> str:
        """The one of two names for the same option that was used; ours if neither was."""
        if self.text(ours) and self.text(other):
            raise InputError(f"options {ours!r} and {other!r} are the same option: give one of them")
        return other if self.text(other) else ours

    def filter(self, name: str, *, needed: str = "") -> Filter:
        try:
            return parse_filter(self.text(name, needed=needed))
        except LanguageError as error:
            raise LanguageError(
                f"option {name!r}: {error.problem}",
                text=error.text,
                position=error.position,
                expected=error.expected,
                hint=error.hint,
            ) from None

    def flag(self, name: str, default: bool) -> bool:
        return self.one_of(name, ("true", "false") if default else ("false", "true")) == "true"

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of these words, compared without case; the first if none was given."""
        value = self.text(name)
        if not value:
            return allowed[0]
        for choice in allowed:
            if choice.lower() == value.lower():
                return choice
        hint = maybe_meant(value, allowed)
        raise InputError(f"option {name!r} is {shortened(value)!r}: {' or '.join(allowed)} is needed{hint}")

    def number(self, name: str, default: int, least: int, most: int) -> int:
        value = self.text(name)
        if not value:
            return default
        with suppress(ValueError):
            if least <= int(value) <= most:
                return int(value)
        raise InputError(
            f"option {name!r} is {shortened(value)!r}: a whole number from {least:,} to {most:,} is needed"
        )
