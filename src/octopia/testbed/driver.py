"""The clients of a run: they register and publish by the schedule of the workload.

Clients are those of the product (`octopia.net.Client`), one connection each, all in this process. Every request is made
at its due time or later, never earlier; the trace has the actual time, and lateness is measured. Before publishing, a
registration is made only when the previous one is in force, if the routing reports that, so that the result does not
depend on which of two is faster. During publishing, each client does one thing at a time, and a change is done when it
is in force. A publication counts as made when it is handed to the client; if that has to wait, because a broker asked
for a pause, the following ones are late. Subscriptions have the policy `block`, so a slow reader slows publishers down
and loses nothing.
"""

import asyncio
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from octopia.errors import RefusedError
from octopia.net import Client, Subscription, raise_files_limit
from octopia.sim import first_numbers
from octopia.topology import BrokerId
from octopia.trace import NO_REQUEST
from octopia.workload import Change, Registration, Wish, Workload

DELIVERY_COLUMNS: Final = ("client", "publisher", "sequence", "delivered_ns", "subscriptions")
SECOND_NS: Final = 1_000_000_000
MILLISECOND_NS: Final = 1_000_000
_CONNECTING_MAX: Final = 64
_NO_WISH: Final = Wish()
_CONNECT_S: Final = 60.0
Numbers = npt.NDArray[np.int64]
# Called with the phase, the requests made in it, and their total.
OnRequest = Callable[[str, int, int], None]


class _Item(NamedTuple):
    """An action of a client during publishing: a change, or the row of a publication."""

    due_ns: int
    number: int
    what: Change | int


class Driver:
    """All clients of a run, and their observations."""

    def __init__(self, workload: Workload, on_request: OnRequest | None = None) -> None:
        self._workload = workload
        self._on_request = on_request
        self._brokers = workload.clients()
        self.numbers = {client: number for number, client in enumerate(self._brokers)}
        self._clients: dict[str, Client] = {}
        self._readers: list[asyncio.Task[None]] = []
        self._first = first_numbers(workload)
        count = self._first.change + len(workload.changes)
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        # of each publication: its number among those of its client, 0 if the client refused it
        self.sequences = array("q", [0]) * len(workload.publications)
        self.due_ns = array("q", [0]) * count
        self.issued_ns = array("q", [0]) * count
        self.refused: dict[int, str] = {}
        self.requests = 0  # that brokers must have got
        self._published = 0
        self.received = 0
        self.deliveries = array("q")

    async def connect(self, addresses: Mapping[BrokerId, str]) -> None:
        """Connect all clients, each to its broker."""
        raise_files_limit()
        places = asyncio.Semaphore(_CONNECTING_MAX)

        async def connect(name: str) -> None:
            client = Client(f"octopia://{addresses[self._brokers[name]]}", name=name, connect_s=_CONNECT_S)
            async with places:
                await client.open()
            self._clients[name] = client

        await asyncio.gather(*map(connect, self.numbers))

    async def close(self) -> None:
        """Leave without a goodbye: the brokers end, too."""
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        await asyncio.gather(*(client.close(0) for client in self._clients.values()), return_exceptions=True)

    @property
    def is_connected(self) -> bool:
        """Whether all clients are connected and have made their registrations."""
        return all(client.is_connected for client in self._clients.values())

    @property
    def dropped(self) -> int:
        return sum(client.dropped for client in self._clients.values())

    # -- phases

    async def advertise(self, begin_ns: int, every_ns: int) -> None:
        await self._register("advertise", self._workload.advertisements, begin_ns, every_ns, 0)

    async def subscribe(self, begin_ns: int, every_ns: int) -> None:
        first = self._first.subscription
        await self._register("subscribe", self._workload.subscriptions, begin_ns, every_ns, first)

    async def publish(self, begin_ns: int) -> None:
        """All publications and changes; each client has its own task, so that a held client holds up no other."""
        publications, publishers = self._workload.publications, self._workload.advertisements
        rows = self._workload.notifications.to_pylist()
        by_client: dict[str, list[_Item]] = {}
        # changes come before other actions of the same moment
        for number, change in enumerate(self._workload.changes, self._first.change):
            mine = by_client.setdefault(change.registration.client, [])
            mine.append(_Item(begin_ns + change.at_ns, number, change))
        several = zip(
            publications.at_ns.tolist(), publications.publisher.tolist(), publications.row.tolist(), strict=True
        )
        for number, (at_ns, publisher, row) in enumerate(several, self._first.publication):
            by_client.setdefault(publishers[publisher].client, []).append(_Item(begin_ns + at_ns, number, row))
        async with asyncio.TaskGroup() as group:
            for name, items in by_client.items():
                items.sort(key=attrgetter("due_ns"))
                group.create_task(self._play(self._clients[name], items, rows))

    async def _register(
        self, phase: str, registrations: Sequence[Registration], begin_ns: int, every_ns: int, first: int
    ) -> None:
        for place, registration in enumerate(registrations):
            await self._until(first + place, begin_ns + place * every_ns)
            await self._ask(first + place, phase, registration)
            self._tell(phase, place + 1, len(registrations))

    async def _ask(self, number: int, kind: str, registration: Registration) -> None:
        """Make a request; returns when it is in force or was refused."""
        client, id = self._clients[registration.client], registration.id
        self.issued_ns[number] = time.monotonic_ns()
        self.requests += 1
        try:
            if kind == "advertise":
                await client.advertise(registration.filter, id=id)
            elif kind == "unadvertise":
                await client.unadvertise(id)
            elif kind == "subscribe":
                await self._subscribe(client, registration)
            else:
                # What is on its way was sent while the subscription was in force, and a judge asks for it.
                await self._subscriptions.pop((client.name, id)).close(drain=True)
        except RefusedError as error:
            self.refused[number] = str(error)

    async def _subscribe(self, client: Client, registration: Registration) -> None:
        wish = self._workload.wishes.get(client.name, _NO_WISH)
        subscription = client.subscribe(
            registration.filter,
            id=registration.id,
            policy="block",
            ordered=wish.ordered,
            priority=wish.priority,
            deadline_ms=-(-wish.deadline_ns // MILLISECOND_NS) or None,
        )
        self._subscriptions[client.name, registration.id] = subscription
        self._readers.append(asyncio.create_task(self._read(self.numbers[client.name], subscription)))
        await client.start_subscription(subscription)

    async def _play(self, client: Client, items: list["_Item"], rows: Sequence[dict[str, Any]]) -> None:
        for due_ns, number, what in items:
            await self._until(number, due_ns)
            if isinstance(what, Change):
                await self._ask(number, what.kind, what.registration)
            else:
                await self._publish(client, number, rows[what])
        await client.flush()

    async def _publish(self, client: Client, number: int, row: dict[str, Any]) -> None:
        values = {name: value for name, value in row.items() if value is not None}
        self.issued_ns[number] = time.monotonic_ns()
        try:
            self.sequences[number - self._first.publication] = int(await client.publish(values))
            self.requests += 1
        except RefusedError as error:
            self.refused[number] = str(error)
        self._published += 1
        self._tell("publish", self._published, len(self._workload.publications))

    async def _until(self, number: int, due_ns: int) -> None:
        self.due_ns[number] = due_ns
        left_ns = due_ns - time.monotonic_ns()
        if left_ns > 0:
            await asyncio.sleep(left_ns / SECOND_NS)

    async def _read(self, client: int, subscription: Subscription) -> None:
        extend = self.deliveries.extend
        numbers = self.numbers
        own = subscription.id
        async for batch in subscription.lists():
            now = time.monotonic_ns()
            for delivery in batch:
                ids = delivery.subscriptions
                # one row, however many subscriptions of the client match
                if ids[0] == own:
                    extend((client, numbers[delivery.publisher], int(delivery.id), now, len(ids)))
                    self.received += 1

    def _tell(self, phase: str, done: int, of: int) -> None:
        if self._on_request is not None:
            self._on_request(phase, done, of)

    # -- what they saw

    def late_ns(self) -> Numbers:
        """How late each request was made."""
        return np.frombuffer(self.issued_ns, dtype=np.int64) - np.frombuffer(self.due_ns, dtype=np.int64)

    def delivery_rows(self) -> Numbers:
        return np.frombuffer(self.deliveries, dtype=np.int64).reshape(-1, len(DELIVERY_COLUMNS))

    def published(self) -> dict[str, Numbers]:
        """For each publishing client, the request of its n-th publication, from 1; NO_REQUEST at index 0."""
        publishers = self._workload.advertisements
        found: dict[str, list[int]] = {}
        made = zip(self._workload.publications.publisher.tolist(), self.sequences, strict=True)
        for number, (publisher, sequence) in enumerate(made, self._first.publication):
            if sequence:
                # those of one client are in the order of their sequence numbers
                found.setdefault(publishers[publisher].client, [NO_REQUEST]).append(number)
        return {name: np.array(numbers, dtype=np.int64) for name, numbers in found.items()}
