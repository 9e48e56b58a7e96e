"""A small overlay whose links and brokers the test breaks by hand: the stage of the recovery tests."""

from collections.abc import Mapping

from octopia.embedded import Hop
from octopia.language import parse_filter, parse_notification
from octopia.protocol import Key
from octopia.routing import Action, Deliver, Published
from octopia.topology import BrokerId, Scot, parse_tree
from tests.routing.breaking import BreakingNetwork

STOCK = parse_filter("class = 'STOCK'")
BOND = parse_filter("class = 'BOND'")
QUOTE = parse_notification({"class": "STOCK"})
A0, B0, C0 = (BrokerId(region, 0) for region in "abc")
A1, B1, C1 = (BrokerId(region, 1) for region in "abc")


class Scene(BreakingNetwork):
    """A breaking network that keeps deliveries, and hops other than those of a resync as `(sender, receiver, kind)`."""

    def __init__(
        self,
        tree: str = "path:3",
        clusters: int = 2,
        routing: str = "snr",
        keeps: bool = False,
        coverings: Mapping[BrokerId, str] | None = None,
    ) -> None:
        self.deliveries: list[tuple[str, str]] = []
        self.hops: list[tuple[BrokerId, BrokerId, str]] = []
        super().__init__(Scot(parse_tree(tree), clusters), routing, self._action, keeps, coverings)

    def _action(self, broker: BrokerId, action: Action, cause: Hop | None) -> None:
        if isinstance(action, Deliver):
            self.deliveries += [(recipient.client, action.id) for recipient in action.recipients]

    def _sent(self, hop: Hop) -> None:
        self.hops.append((hop.sender, hop.receiver, hop.message.kind))
        super()._sent(hop)

    def die(self, broker: BrokerId) -> None:
        self.restart(broker)
        for neighbour in self.overlay.neighbours(broker):
            self.notice((neighbour, broker))

    def come_back(self, broker: BrokerId) -> None:
        for neighbour in self.overlay.neighbours(broker):
            self.reconnect(broker, neighbour)
        self.run_until_quiet()

    def sent(self, kind: str) -> list[tuple[BrokerId, BrokerId]]:
        return [(sender, receiver) for sender, receiver, what in self.hops if what == kind]

    def subscribers(self, at: BrokerId) -> list[Key]:
        return sorted(entry.key for entry in self.brokers[at].state.prt)

    def civ(self, broker: BrokerId, client: str = "P", id: str = "a") -> int:
        state = self.brokers[broker].state
        civ: int = state.srt.get(state.advertisements.of(client)[id].key).civ
        return civ

    def publish(self, at: BrokerId, client: str = "P", id: str = "n") -> list[str]:
        """Who gets a notification, once the overlay is quiet."""
        self.deliveries.clear()
        self.do(at, Published(client, id, QUOTE))
        return sorted(name for name, _ in self.deliveries)
