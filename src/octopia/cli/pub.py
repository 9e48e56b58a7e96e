"""`octopia pub [FILE]`: publish lines of JSON.

Rules of this file: a line is an object of strings, numbers and booleans. What is to be published must be advertised:
by `--advertise`, or, without it, this command advertises the attribute names of each kind of line when it first comes.
A wrong line ends the command with its number; what came before it was published.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Lines of JSON; without a file, standard input.")
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

    if file is not None and not file.is_file():
        raise InputError(f"{file}: no such file")
    count = asyncio.run(_publish_all(client(url, name, token, ca, cert, key), file, advertise or []))
    say(err(), f"{count} published.")


async def _publish_all(client: "Client", file: Path | None, filters: list[str]) -> int:
    import asyncio

    count = 0
    async with client:
        for filter in filters:
            await client.advertise(filter)
        seen: set[frozenset[str]] = set()
        with sys.stdin if file is None else file.open(encoding="utf-8") as lines:
            while line := await asyncio.to_thread(lines.readline):
                count += 1
                await _publish(client, line, count, None if filters else seen)
        await client.flush()
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
