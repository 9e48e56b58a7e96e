"""The map of large overlays in a real browser: 70 live brokers, and 700 that are made up."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from octopia.console import Console, ConsoleSettings, Service, bind
from octopia.topology import BrokerId, Scot, parse_tree
from octopia.watch import BrokerView, LinkView, OverlayView, Place, Totals, Watched, Watcher
from tests.console.browsing import Visitor, chromium, visiting
from tests.console.served import CONSOLE_PORT, Loop, Served
from tests.net.processes import own_host

DEAD = BrokerId("aa", 3)
# Where brokers, by name, and bands are on the screen.
PLACES = """() => {
  const place = (element) => element.getBoundingClientRect().toJSON();
  const brokers = [...document.querySelectorAll("[data-broker]")];
  return [
    Object.fromEntries(brokers.map((each) => [each.dataset.broker, place(each.querySelector(".broker"))])),
    [...document.querySelectorAll(".band")].map(place),
  ];
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from chromium()


def test_70_live_brokers_are_shown_by_name_each_in_its_band_and_column(browser: Any) -> None:
    with Served("evaluation", 5, every_s=1.0) as served, visiting(browser, served.url) as visitor:
        visitor.open("map")
        visitor.until("document.querySelectorAll('.broker-group.is-ok rect.broker').length === 70")
        visitor.until("document.querySelectorAll('.scene .link.is-up').length === 410")
        boxes, bands = visitor.page.evaluate(PLACES)
        assert sorted(boxes) == sorted(map(str, served.scot.brokers))
        for broker in served.scot.brokers:
            box, band = boxes[str(broker)], bands[broker.cluster]
            assert band["y"] - 1 <= box["y"] + box["height"] / 2 <= band["y"] + band["height"] + 1
            first = boxes[str(BrokerId(broker.region, 0))]
            assert abs(box["x"] - first["x"]) < 1
        # No name hides another.
        assert not [pair for pair in pairs(list(boxes.values())) if overlap(*pair)]


def pairs(boxes: list[Any]) -> list[tuple[Any, Any]]:
    return [(one, other) for at, one in enumerate(boxes) for other in boxes[at + 1 :]]


def overlap(one: Any, other: Any) -> bool:
    across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
    down = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"])
    return bool(across > 1 and down > 1)


class MadeUp(Watcher):
    """All brokers are well but one."""

    async def look(self) -> OverlayView:
        scot = self.watched.scot
        brokers = {
            id: BrokerView(id, "down", "no answer")
            if id == DEAD
            else BrokerView(
                id, "ok", clients=1, delivered_rate=9.0, links=tuple(_link(id, n) for n in scot.neighbours(id))
            )
            for id in scot.brokers
        }
        links = sum(len(broker.links) for broker in brokers.values())
        totals = Totals(700, 699, 699, 0, 0, 0, 1.0, 9.0, 1.0, 0.0, 0.0, links, links, 0)
        self.view = OverlayView(1_000_000.0, brokers, totals)
        return self.view


def _link(sender: BrokerId, receiver: BrokerId) -> LinkView:
    up = receiver != DEAD
    return LinkView(sender, receiver, up, up, 0, 1.0, 0.0, not up, not up, 0, 0, 50.0 if up else 0.0)


@pytest.fixture(scope="module")
def many(browser: Any) -> Iterator[str]:
    """The address of a console in front of 700 brokers that do not exist."""
    scot = Scot(parse_tree("path:70"), 10)
    nowhere = Place("octopia://127.0.0.1:1", "http://127.0.0.1:1")
    watched = Watched("many", scot, "idr", "", dict.fromkeys(scot.brokers, nowhere))
    settings = ConsoleSettings(host=own_host(), port=CONSOLE_PORT + 9000, measure_delays=False)
    loop = Loop()
    ready = asyncio.Event()

    async def start() -> Console:
        service = Service(settings, watched)
        service.hub.watcher = MadeUp(watched)
        return Console(service, bind(settings), lambda link: ready.set())

    console = loop.run(start())
    serving = loop.start(console.serve())
    loop.run(ready.wait())
    yield settings.link(settings.port)
    console.stop()
    serving.result()
    loop.close()


def scale(visitor: Visitor) -> float:
    given = visitor.page.locator(".scene").get_attribute("transform")
    return float(given.partition("scale(")[2].rstrip(")"))


def test_700_brokers_are_dots_that_can_be_found_and_zoomed_into(browser: Any, many: str) -> None:
    with visiting(browser, many) as visitor:
        visitor.open("map")
        visitor.page.locator(f'[data-broker="{DEAD}"].is-down').wait_for()
        assert visitor.page.locator("circle.broker").count() == 700
        assert scale(visitor) == 1.0
        visitor.see(".map-filter").fill(str(DEAD))
        visitor.wait(lambda: scale(visitor) > 2)
        visitor.until("document.querySelectorAll('.broker-group.faded').length === 699")
        visitor.page.locator(f'[data-broker="{DEAD}"] .dot-name').wait_for()
        visitor.see('[aria-label="Show all"]').click()
        visitor.wait(lambda: scale(visitor) == 1.0)
        visitor.see('[aria-label="Zoom in"]').click()
        visitor.wait(lambda: scale(visitor) == 1.5)
        # nobody is there to be asked for tables
        visitor.expected = ("502",)
        visitor.page.locator(f'[data-broker="{DEAD}"]').dispatch_event("click")
        visitor.see("h2", f"Broker {DEAD}")
