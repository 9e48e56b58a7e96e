"""`octopia pub [FILE|JSON]`: publish lines of JSON, or one notification given as it is.

Rules of this file: a line is an object of strings, numbers and booleans. What is to be published must be advertised:
by `--advertise`, or, without it, this command advertises the attribute names of each kind of line when it first comes.
A wrong line ends the command with its number; what came before it was published. What no broker has confirmed in the
end is an error with the number of notifications: closing the client says so.
"""

import sys
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from octopia.cli.console import err, say
from octopia.cli.live_options import (
    URL_DEFAULT,
    AuthoritiesOption,
    CertificateOption,
    KeyOption,
    NameOption,
    TokenOption,
    UrlOption,
)

if TYPE_CHECKING:
    from octopia.net import Client


def pub(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|JSON]", help="A file of lines of JSON, or one notification; default: standard input."
        ),
    ] = None,
    url: UrlOption = URL_DEFAULT,
    advertise: Annotated[
        list[str] | None,
        typer.Option("--advertise", "-a", metavar="FILTER", help="What will be published; repeatable."),
    ] = None,
    name: NameOption = "",
    token: TokenOption = "",
    ca: AuthoritiesOption = None,
    cert: CertificateOption = None,
    key: KeyOption = None,
) -> None:
    """Publish every line of JSON as a notification, e.g. {"symbol": "AAPL", "price": 120}."""
    import asyncio

    from octopia.cli.live_options import client
    from octopia.errors import InputError
    from octopia.language import parse_filter

    for filter in advertise or []:
        parse_filter(filter)
    lines: TextIO = sys.stdin
    if what is not None and what.lstrip().startswith("{"):
        given_object(what)
        lines = StringIO(what)
    elif what is not None:
        try:
            lines = Path(what).open(encoding="utf-8")  # noqa: SIM115  # closed by `_publish_all`
        except OSError as error:
            raise InputError(f"{what}: cannot be read: {error.strerror or error}") from None
    count = asyncio.run(_publish_all(client(url, name, token, ca, cert, key), lines, advertise or []))
    say(err(), f"{count} published.")


async def _publish_all(client: "Client", source: TextIO, filters: list[str]) -> int:
    import asyncio

    count = 0
    async with client:
        for filter in filters:
            await client.advertise(filter)
        seen: set[frozenset[str]] = set()
        with source as lines:
            while line := await asyncio.to_thread(lines.readline):
                count += 1
                await _publish(client, line, count, None if filters else seen)
    return count


async def _publish(client: "Client", line: str, number: int, seen: set[frozenset[str]] | None) -> None:
    from octopia.errors import InputError, OctopiaError

    try:
        attributes = parse_object(line)
        if seen is not None and (names := frozenset(attributes)) not in seen:
            from octopia.language import Filter, Operator, Predicate

            await client.advertise(Filter.of(*(Predicate(name, Operator.PRESENT) for name in sorted(names))))
            seen.add(names)
        await client.publish(attributes)
    except (OctopiaError, TypeError, ValueError) as error:
        raise InputError(f"line {number}: {error}") from None


def given_object(text: str) -> dict[str, Any]:
    """The notification of a command's argument; an error says that it is none."""
    from octopia.errors import InputError

    try:
        return parse_object(text)
    except ValueError as error:
        raise InputError(f"{text.strip()[:40]!r} is no notification: {error}") from None


def parse_object(line: str) -> dict[str, Any]:
    """A JSON object in which no name is there twice; ValueError for anything else."""
    import json

    def once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise ValueError(f"{name!r} is there twice")
            found[name] = value
        return found

    try:
        value = json.loads(line, object_pairs_hook=once)
    except RecursionError:
        raise ValueError("values are nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f'a notification is an object like {{"price": 120}}, not {line.strip()[:40]!r}')
    return value
