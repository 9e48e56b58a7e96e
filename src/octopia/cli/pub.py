"""`octopia pub [FILE|NOTIFICATION]`: publish lines of JSON or PADRES text, or one notification.

A line is an object of strings, numbers and booleans, or PADRES text; empty lines are skipped. Notifications must be
advertised: with `--advertise`, or else this command advertises the attribute names of each kind of line at its first
occurrence. An invalid line ends the command with its line number and the number of notifications published before it.
Closing the client raises an error if a broker has not confirmed everything.
"""

import sys
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from octopia.cli import live_options
from octopia.cli.terminal import err, say

if TYPE_CHECKING:
    from octopia.net import Client


def pub(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE|NOTIFICATION]",
            help="A file with a notification on each line, or one notification: JSON or PADRES text. Default: standard"
            " input.",
        ),
    ] = None,
    url: live_options.UrlOption = live_options.URL_DEFAULT,
    nearest: live_options.NearestOption = False,
    advertise: Annotated[
        list[str] | None,
        typer.Option("--advertise", "-a", metavar="FILTER", help="Notifications that will be published; repeatable."),
    ] = None,
    name: live_options.NameOption = "",
    token: live_options.TokenOption = "",
    ca: live_options.AuthoritiesOption = None,
    cert: live_options.CertificateOption = None,
    key: live_options.KeyOption = None,
) -> None:
    """Publish notifications, one per line, e.g. {"symbol": "AAPL", "price": 120}."""
    import asyncio

    from octopia.errors import InputError
    from octopia.language import parse_filter

    for filter in advertise or []:
        parse_filter(filter)
    lines: TextIO = sys.stdin
    if what is not None and what.lstrip().startswith(("{", "[")):
        given_object(what)
        lines = StringIO(what)
    elif what is not None:
        try:
            lines = Path(what).open(encoding="utf-8")  # noqa: SIM115  # closed by `_publish_all`
        except OSError as error:
            raise InputError(f"{what}: cannot be read: {error.strerror or error}") from None
    elif sys.stdin.isatty():
        say(err(), 'octopia: type a notification on each line, such as {"price": 120}; Ctrl-D ends')
    count = asyncio.run(
        _publish_all(live_options.client(url, name, token, ca, cert, key, nearest=nearest), lines, advertise or [])
    )
    say(err(), f"{count} published.")


async def _publish_all(client: "Client", source: TextIO, filters: list[str]) -> int:
    import asyncio

    from octopia.errors import InputError, OctopiaError

    count = number = 0
    async with client:
        for filter in filters:
            await client.advertise(filter)
        seen: set[frozenset[str]] = set()
        with source as lines:
            while line := await asyncio.to_thread(lines.readline):
                number += 1
                if not line.strip():
                    continue
                try:
                    await _publish(client, line, None if filters else seen)
                except (OctopiaError, TypeError, ValueError) as error:
                    raise InputError(f"line {number}: {error} ({count} published before it)") from None
                count += 1
    return count


async def _publish(client: "Client", line: str, seen: set[frozenset[str]] | None) -> None:
    attributes = parse_object(line)
    if seen is not None and (names := frozenset(attributes)) not in seen:
        from octopia.language import Filter, Operator, Predicate

        await client.advertise(Filter.of(*(Predicate(name, Operator.PRESENT) for name in sorted(names))))
        seen.add(names)
    await client.publish(attributes)


def given_object(text: str) -> dict[str, Any]:
    """The notification in a command's argument: JSON or PADRES text."""
    from octopia.errors import InputError

    try:
        return parse_object(text)
    except ValueError as error:
        raise InputError(f"{text.strip()[:40]!r} is not a notification: {error}") from None


def parse_object(line: str) -> dict[str, Any]:
    """A notification from a JSON object without a repeated name, or from PADRES text; ValueError for anything else."""
    import json

    if line.lstrip().startswith("["):
        from octopia.language import parse_notification

        return parse_notification(line.strip()).to_dict()

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
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:]} at column {error.colno}"
        raise ValueError(f"neither JSON ({reason}) nor PADRES text") from None
    if not isinstance(value, dict):
        raise ValueError(f'a notification is an object like {{"price": 120}}, not {line.strip()[:40]!r}')
    return value
