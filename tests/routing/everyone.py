"""An overlay under `fdr` with a client at every broker, of which links and brokers can be taken away."""

from collections.abc import Iterable
from itertools import chain, combinations
from random import Random

from octopia.embedded import Hop
from octopia.language import parse_filter, parse_notification
from octopia.routing import Action, Advertised, Deliver, Published, Subscribed
from octopia.topology import BrokerId, Scot
from tests.routing.breaking import BreakingNetwork

STOCK = parse_filter("x is not null")
QUOTE = parse_notification({"x": 1})


class Everyone(BreakingNetwork):
    """A client at every broker, which subscribed and advertised while all was well."""

    def __init__(self, scot: Scot) -> None:
        super().__init__(scot, "fdr", self._act, keeps=False)
        self.got: list[BrokerId] = []
        for broker in scot.brokers:
            self.tell(broker, Subscribed("c", "s", STOCK))
            self.tell(broker, Advertised("c", "a", STOCK))
        self.run_until_quiet()

    def _act(self, broker: BrokerId, action: Action, cause: Hop | None) -> None:
        if isinstance(action, Deliver):
            self.got += [broker for _ in action.recipients]

    def publish(self, home: BrokerId) -> None:
        self.tell(home, Published("c", "n", QUOTE))

    def who_gets_it(self, home: BrokerId) -> list[BrokerId]:
        self.got = []
        self.publish(home)
        self.run_until_quiet()
        return sorted(self.got)

    def load(self, draw: Random) -> None:
        """Any queues: every tree is chosen by some host broker."""
        for sender, receiver in self.ends:
            self.hold_queue(sender, receiver, draw.choice((0, 0, 2, 9, 60)))


def sets_of(brokers: tuple[BrokerId, ...], most: int) -> Iterable[tuple[BrokerId, ...]]:
    return chain.from_iterable(combinations(brokers, count) for count in range(most + 1))
