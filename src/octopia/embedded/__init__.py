"""An overlay in one process: `Overlay` for programs, `Network` for tests, scenarios for people."""

from octopia.embedded.explain import Answer, dead_brokers, explain, overloaded_links
from octopia.embedded.network import Hop, Network
from octopia.embedded.overlay import Delivery, Overlay, Publisher, Subscriber
from octopia.embedded.replay import (
    AdvertisementState,
    DeliveryRecord,
    Replay,
    StepRecord,
    TableSizes,
    civ_string,
    replay,
    to_jsonable,
)
from octopia.embedded.scenario import Scenario, Step, check_scenario, load_scenario, parse_scenario
from octopia.embedded.ways import Way, named, order_of

__all__ = [
    "AdvertisementState",
    "Answer",
    "Delivery",
    "DeliveryRecord",
    "Hop",
    "Network",
    "Overlay",
    "Publisher",
    "Replay",
    "Scenario",
    "Step",
    "StepRecord",
    "Subscriber",
    "TableSizes",
    "Way",
    "check_scenario",
    "civ_string",
    "dead_brokers",
    "explain",
    "load_scenario",
    "named",
    "order_of",
    "overloaded_links",
    "parse_scenario",
    "replay",
    "to_jsonable",
]
