"""A broker's decision about a notification: which of its clients receive it, and which neighbours get a copy.

A decision does not contain the notification. It depends only on the set of subscriptions that the notification matches
(and, where it was published, the advertisements it satisfies). Such sets are few, so many notifications share one
decision. `decide.py` describes how decisions are cached.

Copies are in a fixed order, those on aLinks in tree order first, then those on iLinks by cluster, so that equal inputs
give equal outputs.
"""

from collections.abc import Hashable
from itertools import repeat
from typing import ClassVar

from octopia.language import Notification
from octopia.protocol import Header, Notify, Stamp
from octopia.routing.actions import Action, Deliver, Recipient, Refuse, Send
from octopia.topology import BrokerId

# A neighbour, and the header of the copy for it.
Copy = tuple[BrokerId, Header]


class Decision:
    """Local recipients and onward copies. Never modified; a new decision is a new object.

    `priorities` has the priority of each copy, in their order; None: all are 0 (`priorities.py`).

    `by_links`: the decision depends on the status of links; otherwise it holds whatever their status. `case`: which of
    the routing's cases it was (`Policy.cases`, counted from 1), for statistics; 0 if none applies. `delivers`: local
    matches are recipients; a host that works out recipients itself (`by_ways.py`) asks for it.

    Of a routing that has streams (`streams.py`): `dests` are, of a publication, the brokers it is sent to, as bits,
    `missed` those it should be sent to that cannot be reached, and `tree` names the way it takes; `here`: of a copy,
    this broker is among its destinations.
    """

    __slots__ = (
        "by_links",
        "case",
        "copies",
        "delivers",
        "dests",
        "here",
        "links",
        "missed",
        "priorities",
        "recipients",
        "tree",
    )

    def __init__(
        self,
        recipients: tuple[Recipient, ...] = (),
        copies: tuple[Copy, ...] = (),
        by_links: bool = False,
        *,
        case: int = 0,
        dests: int = 0,
        missed: int = 0,
        tree: int = 0,
        here: bool = False,
        delivers: bool = True,
        priorities: tuple[int, ...] | None = None,
    ) -> None:
        self.recipients = recipients
        self.copies = copies
        self.priorities = priorities
        self.by_links = by_links
        self.case = case
        self.dests = dests
        self.missed = missed
        self.tree = tree
        self.here = here
        self.links: Hashable = None  # their state when it was decided, for `decide.py`; None if they did not matter
        self.delivers = delivers

    def actions(self, publisher: str, id: str, notification: Notification, stamp: Stamp | None = None) -> list[Action]:
        """The decision for a notification published here, as actions, for hosts that carry them out one by one."""
        return self.actions_for(Notify(publisher, id, notification, stamp=stamp))

    def actions_for(self, message: Notify) -> list[Action]:
        """The decision for a received copy, as actions, for hosts that carry them out one by one."""
        out: list[Action] = []
        if self.recipients:
            out.append(Deliver(message.publisher, message.id, message.notification, self.recipients))
        priorities = self.priorities or _NO_PRIORITIES
        for (to, header), priority in zip(self.copies, priorities, strict=False):
            if header is not message.header:
                message = Notify(message.publisher, message.id, message.notification, header, message.stamp)
            out.append(Send(to, message, priority))
        return out


_NO_PRIORITIES = repeat(0)


class Refusal:
    """A notification that is not routed, and why: one line for the user."""

    __slots__ = ("reason",)
    case: ClassVar[int] = 0
    here: ClassVar[bool] = False
    recipients: ClassVar[tuple[Recipient, ...]] = ()
    copies: ClassVar[tuple[Copy, ...]] = ()

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def actions(self, publisher: str, id: str, notification: Notification, stamp: Stamp | None = None) -> list[Action]:
        return [Refuse(publisher, "publish", id, self.reason)]
