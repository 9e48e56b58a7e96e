"""The advertisements that overlap a filter, or the reason why none does: shown by Listen while a filter is typed.

The advertisements of all brokers' own clients are fetched from time to time and cached, at most `KEPT_MAX` of them, so
that typing causes no requests. The answer says how many were left out.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final

from octopia.console.meter import MARK
from octopia.errors import LanguageError, OctopiaError
from octopia.language import Filter, overlaps, parse_filter, why_not_overlaps
from octopia.watch import Reader

KEPT_MAX: Final = 5_000
PER_BROKER_MAX: Final = 1_000
AGE_S: Final = 3.0
SHOWN_MAX: Final = 20


@dataclass(frozen=True)
class Advertised:
    """An advertisement of a client of this broker."""

    client: str
    broker: str
    text: str
    filter: Filter

    def to_jsonable(self) -> dict[str, str]:
        return {"client": self.client, "broker": self.broker, "filter": self.text}


class Advertisements:
    """Those of the whole overlay, as of a moment ago."""

    def __init__(self) -> None:
        self._kept: list[Advertised] = []
        self._complete = True
        self._read_s = float("-inf")
        self._reading = asyncio.Lock()

    async def overlapping(self, reader: Reader, wanted: Filter) -> dict[str, Any]:
        """The number that overlap the filter, the first of them, and the nearest reason if none does."""
        await self._renew(reader)
        found = [each for each in self._kept if overlaps(each.filter, wanted)]
        answer: dict[str, Any] = {
            "count": len(found),
            "of": len(self._kept),
            "complete": self._complete,
            "first": [each.to_jsonable() for each in found[:SHOWN_MAX]],
        }
        if not found:
            answer["why_none"] = self._why_none(wanted)
        return answer

    def _why_none(self, wanted: Filter) -> str:
        if not self._kept:
            return "nobody advertises anything"
        # Which one comes nearest is a matter of taste; the shortest reason has the fewest things wrong.
        reasons = [(why_not_overlaps(each.filter, wanted) or "", each) for each in self._kept[:200]]
        reason, nearest = min(reasons, key=lambda pair: _distance(pair[0]))
        return f"{nearest.client} at {nearest.broker} advertises {nearest.text}: {reason}"

    async def _renew(self, reader: Reader) -> None:
        async with self._reading:
            if time.monotonic() - self._read_s < AGE_S:
                return
            kept: list[Advertised] = []
            complete = True

            async def read(broker: Any) -> None:
                nonlocal complete
                try:
                    rows, whole = await reader.rows(broker, "advertisements", PER_BROKER_MAX)
                except OctopiaError:
                    # a broker that is down has no clients now
                    return
                complete = complete and whole
                kept.extend(_own(rows, str(broker)))

            await asyncio.gather(*(read(broker) for broker in reader.watched.scot.brokers))
            kept.sort(key=lambda each: (each.broker, each.client, each.text))
            self._complete = complete and len(kept) <= KEPT_MAX
            self._kept = kept[:KEPT_MAX]
            self._read_s = time.monotonic()


def _distance(reason: str) -> tuple[bool, bool, int]:
    """How far from overlapping a reason is: one thing wrong, then a name that was nearly right, then a short one."""
    return " more)" in reason, "does not name" in reason and "mean" not in reason, len(reason)


def _own(rows: list[dict[str, Any]], broker: str) -> list[Advertised]:
    found = []
    for row in rows:
        # those of the meter are the console's own
        if row["client"] and MARK not in row["filter"]:
            try:
                found.append(Advertised(row["client"], broker, row["filter"], parse_filter(row["filter"])))
            except LanguageError:
                # cut short, since it is very long
                continue
    return found
