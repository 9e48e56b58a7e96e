"""From what a program publishes to an entry of the journal.

A notification that is not in the language, was not advertised or is too long is refused here, before it has a number.
One that gets a number is in the journal with the same call, so numbers and entries have one order, however many tasks
publish.
"""

from octopia.errors import InputError, RefusedError
from octopia.language import Notification, NotificationLike, parse_notification, why_not_conforms
from octopia.net.client.journal import Journal
from octopia.net.client.life import Life
from octopia.net.client.registry import Registry
from octopia.wire import check_parcel, encode_parcel, publish_frame

# What a frame has around the parcel, at most.
_AROUND_BYTES = 16


class Publishing:
    """The publications of one client."""

    def __init__(self, journal: Journal, registry: Registry, life: Life, first_id: int) -> None:
        self.name = ""
        self.last_id = first_id - 1
        self._journal = journal
        self._box = journal.box
        self._promises = registry.promises
        self._registry = registry
        self._life = life

    async def wait_until_ready(self) -> None:
        """Wait for room in the journal. Raises why nothing can be published, or what was refused before."""
        while True:
            self._life.check()
            if self._journal.has_room:
                return
            await self._journal.wait_for_room()

    def put(self, notification: NotificationLike, traced: bool) -> None:
        """Number it and put it into the journal. Only when ready; `note_full` must follow, or once after many."""
        id = self.last_id + 1
        seen: Notification
        if type(notification) is dict:
            parcel, seen = check_parcel(notification, self.name, id)
        else:
            seen = parse_notification(notification)
            parcel = encode_parcel(seen, self.name, id)
        for promise in self._promises.values():
            if promise.holds(seen):
                break
        else:
            raise RefusedError(self._why_not(seen))
        journal = self._journal
        if len(parcel) + _AROUND_BYTES > journal.frame_bytes_max:
            most = journal.frame_bytes_max - _AROUND_BYTES
            raise InputError(f"the notification is {len(parcel):,} bytes, at most {most:,} travel")
        self.last_id = id
        journal.put(publish_frame(parcel, traced=traced))

    def note_full(self) -> None:
        """See whether the journal is full now."""
        if self._box.is_full:
            self._box.block(self._journal)

    def _why_not(self, notification: Notification) -> str:
        if not self._registry.advertisements:
            return f"{self.name} has no advertisement; advertise before you publish"
        id, filter = next(iter(self._registry.advertisements.items()))
        return f"{self.name} did not advertise this: advertisement {id!r}: {why_not_conforms(notification, filter)}"
