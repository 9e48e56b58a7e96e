"""What a broker decides about a notification: who of its clients gets it, and which neighbours get a copy.

A decision leaves the notification out. It depends on a notification only through the set of subscriptions it matches
(and, where it was published, the advertisements it satisfies), and such sets are few, so that many notifications share
one decision. `decide.py` says where decisions are remembered and for how long.

Copies are in a fixed order, those on aLinks in tree order first, then those on iLinks by cluster, so that equal inputs
give equal outputs.
"""

from collections.abc import Hashable
from typing import Any, ClassVar

from octopia.language import Notification
from octopia.routing.actions import Action, Deliver, Recipient, Refused, Send
from octopia.routing.messages import Header, Notify, Stamp
from octopia.topology import BrokerId

# A neighbour, and what the copy for it carries.
Copy = tuple[BrokerId, Header]


class Decision:
    """Recipients here and copies onward. It is never changed; what is decided anew is another object.

    `by_links`: the status of links had a say in it; a decision without holds however the links look. `memo` is the
    host's: what this decision means for its queues. It goes with the decision.

    Of a routing that has streams (`streams.py`): `dests` are, of a publication, the brokers it is sent to, as bits,
    `missed` those it should be sent to that cannot be reached, and `tree` names the way it takes; `here`: of a copy,
    this broker is among its destinations.
    """

    __slots__ = ("by_links", "copies", "dests", "here", "links", "memo", "missed", "recipients", "tree")

    def __init__(
        self,
        recipients: tuple[Recipient, ...] = (),
        copies: tuple[Copy, ...] = (),
        by_links: bool = False,
        *,
        dests: int = 0,
        missed: int = 0,
        tree: int = 0,
        here: bool = False,
    ) -> None:
        self.recipients = recipients
        self.copies = copies
        self.by_links = by_links
        self.dests = dests
        self.missed = missed
        self.tree = tree
        self.here = here
        self.links: Hashable = None  # how they looked, for `decide.py`; None where they had no say
        self.memo: Any = None

    def actions(self, publisher: str, id: str, notification: Notification, stamp: Stamp | None = None) -> list[Action]:
        """The decision for a notification that was published here as orders, for hosts that carry out one by one."""
        return self.actions_for(Notify(publisher, id, notification, stamp=stamp))

    def actions_for(self, message: Notify) -> list[Action]:
        """The decision for a copy that came as orders, for hosts that carry out one by one."""
        out: list[Action] = []
        if self.recipients:
            out.append(Deliver(message.publisher, message.id, message.notification, self.recipients))
        for to, header in self.copies:
            if header is not message.header:
                message = Notify(message.publisher, message.id, message.notification, header, message.stamp)
            out.append(Send(to, message))
        return out


class Refusal:
    """A notification that is not routed at all, and why: one line for the person behind the client."""

    __slots__ = ("reason",)
    memo: ClassVar[None] = None
    here: ClassVar[bool] = False
    recipients: ClassVar[tuple[Recipient, ...]] = ()
    copies: ClassVar[tuple[Copy, ...]] = ()

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def actions(self, publisher: str, id: str, notification: Notification, stamp: Stamp | None = None) -> list[Action]:
        return [Refused(publisher, "publish", id, self.reason)]
