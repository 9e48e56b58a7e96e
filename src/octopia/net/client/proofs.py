"""What is known of a client's publications beyond its broker: `flush(hosts=True)`.

A broker that confirmed something may be lost before the host brokers of all subscribers have it, and then nobody can
ask it. So if the client's session ends or its broker restarts while something is not proved, that broker is named by
the next `flush(hosts=True)`.
"""

from octopia.errors import RefusedError, UnconfirmedError
from octopia.net.client.journal import Journal
from octopia.net.client.publishing import Publishing
from octopia.net.client.registry import Registry

# How much longer than the broker a client waits for the answer.
ANSWER_S = 2.0


class Proofs:
    """What is proved of the publications of one client."""

    def __init__(self, registry: Registry, publishing: Publishing, journal: Journal) -> None:
        self._registry = registry
        self._publishing = publishing
        self._journal = journal
        # the last publication, and the position of the journal after it
        self._proved = publishing.last_id
        self._proved_position = 0
        self._left: dict[str, None] = {}

    def left(self, broker: str) -> None:
        """A broker that may have had something to pass on cannot be asked any more."""
        has_some = self._publishing.last_id > self._proved and self._journal.confirmed > self._proved_position
        if broker and has_some:
            self._left[broker] = None

    async def prove(self, timeout_s: float) -> None:
        """Wait until everything that the broker has confirmed is at the hosts of its subscribers."""
        last, missing = self._publishing.last_id, dict[str, None]()
        # the request takes a place itself
        position = self._journal.position + 1
        try:
            await self._registry.flush(round(timeout_s * 1000))
        except UnconfirmedError as error:
            missing = dict.fromkeys(error.brokers)
        left, self._left = self._left, {}
        self._proved, self._proved_position = last, position
        if left or missing:
            raise UnconfirmedError((*left, *(broker for broker in missing if broker not in left)))

    def check_offered(self, broker: str, offered: bool) -> None:
        if not offered:
            raise RefusedError(f"{broker} does not answer flush(hosts=True): it is of an earlier version; upgrade it")
