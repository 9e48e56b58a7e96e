"""What `snr`, `idr` and TID routing decide depends on a broker's own links alone, not on the rest of the overlay."""

from collections.abc import Iterable

import pytest

from octopia.embedded import parse_scenario
from octopia.embedded.network import Network
from octopia.routing import Action, Broker, CongestionParameters, Event, Limits
from octopia.scenes import scene_text
from octopia.topology import BrokerId, Scot, parse_tree

ME = BrokerId("b", 1)
# The neighbours of region b are the same; the rest is not.
OTHER = Scot(parse_tree("a-b,b-c,a-x,x-y,c-z,z-w"), 3)


class Listening(Broker):
    """A broker that records its events and orders."""

    heard: list[tuple[Event, float, list[Action]]]

    def handle(self, event: Event, now: float) -> list[Action]:
        actions = super().handle(event, now)
        self.heard.append((event, now, list(actions)))
        return actions


def heard_in(scene: str, routing: str) -> Iterable[tuple[Event, float, list[Action]]]:
    scenario = parse_scenario(scene_text(scene))
    network = Network(scenario.scot, routing, congestion=scenario.congestion)
    me = Listening(ME, scenario.scot, routing, congestion=scenario.congestion, limits=Limits())
    me.heard = []
    network.brokers[ME] = me
    for step in scenario.steps:
        if step.event is not None:
            network.tell(step.broker, step.event)
        elif step.neighbour is not None:
            network.hold_queue(step.broker, step.neighbour, step.queue)
        network.run_until_quiet()
    return me.heard


@pytest.mark.parametrize("scene", ["fig7a", "fig7b", "fig7c", "fig7d"])
@pytest.mark.parametrize("routing", ["snr", "idr", "tid", "tid-dynamic"])
def test_the_same_decisions_in_another_overlay(routing: str, scene: str) -> None:
    heard = list(heard_in(scene, routing))
    elsewhere = Broker(ME, OTHER, routing, congestion=CongestionParameters(), limits=Limits())
    assert [elsewhere.handle(event, now) for event, now, _ in heard] == [actions for _, _, actions in heard]
    assert any(actions for _, _, actions in heard), "it had something to decide"
