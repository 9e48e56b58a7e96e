"""Probes: notifications that are not delivered. Brokers route them as usual and record who would receive them.

A copy of a probe is marked in its header, waits in the same queues and takes the same links. It has no stamp and takes
no part in streams or ordering. Deliveries and cases are not counted.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from octopia.net.broker.operations.traces import Traces
from octopia.routing import Decision, Notify, Recipient, Refusal
from octopia.topology import BrokerId
from octopia.wire import PROBE, Parcels, WireNotification, link_frames

if TYPE_CHECKING:
    from octopia.net.broker.links import Link
    from octopia.net.broker.sessions import Session


def why_not_probe(
    prober: "Session", seen: WireNotification, session_of: "Callable[[str], Session | None]", broker: BrokerId
) -> str | None:
    """Why a probe is refused, by its publisher's rights or by the right to probe for others; None if it is not."""
    publisher = prober
    if seen.publisher != prober.name:
        if not prober.rights.probe:
            return (
                f"{prober.rights.name} may not probe in the name of {seen.publisher}: set probe = true in its entry of "
                "[[clients]]"
            )
        other = session_of(seen.publisher)
        if other is None:
            return f"no client named {seen.publisher!r} is connected to {broker}"
        publisher = other
    permit = publisher.permit
    return None if permit is None or permit.allows(seen) else permit.reason(seen)


def fate(session: "Session | None", subscriptions: tuple[str, ...]) -> tuple[int, str]:
    """The length of a client's queue, and what would happen to a delivery now; empty if it would be queued as usual."""
    if session is None or session.ended:
        return 0, "dropped: the client is leaving"
    box = session.box
    # a full queue drops at once, so it holds one less than its bound
    if not box.reaches(box.frames_max - 1, box.bytes_max):
        return box.waits, ""
    full = f"its queue is full ({box.waits:,} frames)"
    told = {
        "drop_newest": f"dropped: {full}, and the policy is drop_newest",
        "drop_oldest": f"the oldest would be dropped for it: {full}, and the policy is drop_oldest",
        "disconnect": f"the client would be disconnected: {full}, and the policy is disconnect",
    }
    return box.waits, told.get(session.policy_now(subscriptions), "")


class Probing:
    """Carries out the decisions of one broker's core about probes."""

    def __init__(
        self,
        links: "Mapping[BrokerId, Link]",
        traces: Traces,
        recipients: Callable[[WireNotification], tuple[Recipient, ...]],
    ) -> None:
        """`recipients`: the clients here that a notification is for, if the routing does not match copies."""
        self._links = links
        self._traces = traces
        self._recipients = recipients

    def carry_out(self, batch: Parcels, decisions: Sequence[Decision | Refusal], came_from: str) -> str | None:
        """Record each decision and send copies on; returns why the last was refused, if it was."""
        reason: str | None = None
        if len(decisions) < len(batch):
            # copies with the same header from the same neighbour share a decision
            decisions = list(decisions) * len(batch)
        for at, decision in enumerate(decisions):
            seen = batch.notification(at)
            if isinstance(decision, Refusal):
                reason = decision.reason
                self._traces.note(came_from, seen, decision)
                continue
            recipients = self._recipients(seen) if decision.here else decision.recipients
            self._traces.note(came_from, seen, decision, recipients)
            id = str(seen.sequence)
            for (to, header), priority in zip(decision.copies, decision.priorities or repeat(0), strict=False):
                message = Notify(seen.publisher, id, seen, header)
                self._links[to].send(message, link_frames(message, PROBE), priority)
        return reason
