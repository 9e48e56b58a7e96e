"""The interface between a session and its table, which ends it and writes to the event log."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from octopia.language import Filter
from octopia.net.broker.counting import Done

if TYPE_CHECKING:
    from octopia.net.broker.sessions import Session


class SessionOwner(Protocol):
    """The table of a broker's sessions."""

    count: Callable[[Filter, Done], None]  # the advertisements that overlap a filter

    def forget(self, session: "Session") -> None:
        """Remove a session whose client is gone for good."""

    def end(self, session: "Session", code: str, reason: str) -> None:
        """End a session and tell the client why."""

    def publisher(self, name: str) -> "Session | None":
        """The session of a client of this broker."""

    def note_refused(self, session: "Session", request: str, reason: str) -> None:
        """Log that a request was refused."""

    def note_away(self, session: "Session", reason: str) -> None:
        """Log that the connection is gone and the session is kept."""
