"""Reads the HTTP reports of an overlay's brokers with asyncio. Read-only.

A broker that does not answer in time yields a reason instead of an answer, so a dead broker does not hide the others.
"""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from octopia.errors import OctopiaError, RefusedError, UnreachableError
from octopia.topology import BrokerId
from octopia.watch.fetch import ANSWER_S, get_json
from octopia.watch.overlays import Watched

# Tables are searched in small steps, which takes a while when they are long.
TABLE_S = 30.0
PAGE_ROWS = 500


class Reader:
    """Asks the brokers of one overlay."""

    def __init__(self, watched: Watched, answer_s: float = ANSWER_S) -> None:
        self.watched = watched
        self._answer_s = answer_s

    async def get(self, broker: BrokerId, path: str, within_s: float | None = None, **parameters: Any) -> Any:
        """A broker's answer; parameters that are None are left out."""
        place = self.watched.places.get(broker)
        if place is None or not place.http:
            raise UnreachableError(f"the HTTP address of {broker} is not known")
        given = urlencode({name: value for name, value in parameters.items() if value is not None})
        url = f"{place.http}{path}{f'?{given}' if given else ''}"
        return await get_json(url, self.watched.token, within_s or self._answer_s)

    async def get_all(
        self, path: str, within_s: float | None = None, parameters: Mapping[BrokerId, dict[str, Any]] | None = None
    ) -> dict[BrokerId, Any]:
        """The answers of all brokers, asked concurrently; an `OctopiaError` in place of a missing answer.

        With `parameters`, only the brokers named there are asked.
        """
        brokers = tuple(self.watched.scot.brokers if parameters is None else parameters)
        given = parameters or {}

        async def ask(broker: BrokerId) -> Any:
            try:
                return await self.get(broker, path, within_s, **given.get(broker, {}))
            except OctopiaError as error:
                return error

        return dict(zip(brokers, await asyncio.gather(*map(ask, brokers)), strict=True))

    async def states(self) -> dict[BrokerId, Any]:
        """`/state` of every broker, or the error in its place, for example if another broker answers.

        For a broker that requires a token we do not have, `/healthz`, which everyone may read.
        """
        answers = await self.get_all("/state")
        closed = [broker for broker, answer in answers.items() if isinstance(answer, RefusedError)]
        if closed:
            answers |= await self.get_all("/healthz", None, {broker: {} for broker in closed})
        return {broker: self._checked(broker, answer) for broker, answer in answers.items()}

    def _checked(self, broker: BrokerId, answer: Any) -> Any:
        if isinstance(answer, OctopiaError):
            return answer
        at = self.watched.places[broker].http.partition("://")[2]
        if not isinstance(answer, dict) or "broker" not in answer or not isinstance(answer.get("links"), list):
            return WrongBrokerError(f"what answers at {at} is not a broker")
        if answer.get("overlay") not in self.watched.digests:
            return WrongBrokerError(f"{answer['broker']} of another overlay answers at {at}")
        if answer["broker"] != str(broker):
            return WrongBrokerError(f"{answer['broker']} answers at {at}")
        return answer

    async def table(self, broker: BrokerId, table: str, **parameters: Any) -> dict[str, Any]:
        """A page of a table: `q`, `sort`, `client`, `offset`, `limit` as the broker takes them."""
        answer: dict[str, Any] = await self.get(broker, "/tables", TABLE_S, table=table, **parameters)
        return answer

    async def tables(self, table: str, **parameters: Any) -> dict[BrokerId, Any]:
        """The same page of this table of every broker, or the error in its place."""
        given = {"table": table, **parameters}
        return await self.get_all("/tables", TABLE_S, dict.fromkeys(self.watched.scot.brokers, given))

    async def rows(
        self, broker: BrokerId, table: str, most: int, **parameters: Any
    ) -> tuple[list[dict[str, Any]], bool]:
        """Rows of a table, page after page, up to a maximum; and whether these are all."""
        found: list[dict[str, Any]] = []
        while True:
            limit = min(PAGE_ROWS, most - len(found))
            page = await self.table(broker, table, offset=len(found), limit=limit, **parameters)
            found += page["rows"]
            if len(page["rows"]) < PAGE_ROWS or len(found) >= most:
                return found, page["complete"] and page["matched"] <= len(found)

    async def events(self, since: Mapping[BrokerId, int]) -> dict[BrokerId, Any]:
        """`/events` of these brokers, after these numbers."""
        return await self.get_all("/events", None, {broker: {"since": last} for broker, last in since.items()})

    async def traces(self, publisher: str, sequence: int) -> list[dict[str, Any]]:
        """The brokers' records of one traced notification, in the order of their clocks."""
        each = {"publisher": publisher, "sequence": sequence}
        answers = await self.get_all("/traces", None, dict.fromkeys(self.watched.scot.brokers, each))
        records = [record for answer in answers.values() if isinstance(answer, list) for record in answer]
        return sorted(records, key=lambda record: int(record["time_ns"]))


class WrongBrokerError(OctopiaError):
    """Something else answers in place of a broker."""
