"""A folder as live brokers leave it, written by hand: facts with times of our own, and logs of registrations."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from octopia.trace import FACTS, REGISTERED
from octopia.wire import check_parcel

SECOND_NS = 1_000_000_000
START = datetime(2024, 1, 2, 10, 0, tzinfo=UTC)
START_NS = int(START.timestamp()) * SECOND_NS


class Recorded:
    """Files as brokers write them, with times of our own: seconds since `START`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = 0
        for name in ("facts", "registered", "advertised"):
            (folder / name).mkdir(parents=True)

    def write(self, *facts: dict[str, Any]) -> None:
        rows = []
        for fact in facts:
            since, till = (START_NS + round(fact[name] * SECOND_NS) for name in ("since", "till"))
            plain = {**dict.fromkeys(("peer", "publisher", "text", "content")), "share": 1.0}
            plain |= dict.fromkeys(("sequence", "serial", "queue"), 0)
            timed = {"at_time": datetime.fromtimestamp(till / SECOND_NS, UTC), "from_ns": since, "until_ns": till}
            rows.append(plain | timed | {key: value for key, value in fact.items() if key not in ("since", "till")})
        self._files += 1
        table = pa.Table.from_pylist(rows, FACTS)
        pq.write_table(table, self.folder / "facts" / f"{self._files:08d}.parquet")

    def registered(self, *registrations: tuple[str, str, str, str], log: str = "registered") -> None:
        names = ("broker", "client", "id", "filter")
        rows = [dict(zip(names, one, strict=True)) | {"from_ns": 0, "until_ns": None} for one in registrations]
        pq.write_table(pa.Table.from_pylist(rows, REGISTERED), self.folder / log / "00000001.parquet")


def story(
    number: int,
    at: float,
    *,
    hop_s: float = 0.1,
    got: tuple[str, ...] = ("x", "y"),
    lost: bool = False,
    publisher: str = "p",
    **content: Any,
) -> list[dict[str, Any]]:
    """A notification from a,0 over b,0: `x` is a client there, `y` at a,0."""
    who = {"publisher": publisher, "sequence": number}
    parcel = check_parcel({"n": number, **content}, publisher, number)[0]
    facts = [
        {"fact": "publish", "broker": "a,0", "since": at, "till": at, "content": parcel, **who},
        {"fact": "sent", "broker": "a,0", "peer": "b,0", "since": at, "till": at, "serial": number, "queue": 3, **who},
    ]
    if not lost:
        came = at + hop_s
        facts.append({"fact": "received", "broker": "b,0", "peer": "a,0", "since": came, "till": came, **who})
    for copy, client in enumerate(got):
        broker, till = ("b,0", at + hop_s) if client == "x" else ("a,0", at)
        text, serial = json.dumps([f"of {client}"]), 1000 * (copy + 1) + number
        given = {"fact": "delivered", "broker": broker, "peer": client, "serial": serial, "text": text}
        facts.append({**given, "since": till, "till": till, **who})
    return facts
