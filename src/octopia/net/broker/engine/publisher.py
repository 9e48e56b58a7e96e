"""A client as a publisher: what an engine knows of it from read to read."""

from typing import Any

from octopia.net.broker.permits import Permit
from octopia.net.broker.rights import Rights


class Publisher:
    """One publishing client. `permit` checks each of its notifications; None: it may publish anything it advertises.

    `last_sequence` is the number of its last notification, `published` how many there were.
    """

    __slots__ = ("last_sequence", "name", "permit", "published", "rights", "terms")

    def __init__(self, name: str, permit: Permit | None, rights: Rights) -> None:
        self.name = name
        self.permit = permit
        self.rights = rights
        self.last_sequence = -1
        self.published = 0
        # belongs to the compiled engine
        self.terms: Any = None
