"""The page in a real browser, in front of live brokers.

What the page shows is compared with what was set up here: who publishes, who subscribes, and what the language says of
it. Every test ends with a look at what went wrong in the browser: errors, dialogs, requests to anyone else.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from octopia.errors import LanguageError
from octopia.language import parse_filter
from octopia.net import Authority, ClientEntry, Rights
from octopia.topology import BrokerId
from tests.console.browsing import Visitor, chromium, visiting
from tests.console.served import Served

QUOTE = {"symbol": "IBM", "price": 140, "exchange": "NYSE"}
PAGE_BYTES_MAX = 200_000
Publish = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from chromium()


@pytest.fixture(scope="module")
def served(browser: Any) -> Iterator[Served]:
    with Served("path:3", 3, allow_publish=True) as running:
        yield running


@pytest.fixture(scope="module")
def publish(served: Served) -> Publish:
    return served.publisher("b,2", "nyse", "symbol is not null and price > 0 and exchange = 'NYSE'")


@pytest.fixture(scope="module")
def received(served: Served) -> dict[str, list[dict[str, Any]]]:
    return {
        "desk": served.subscriber("c,0", "desk", "symbol = 'IBM' and price > 100"),
        "cheap": served.subscriber("a,1", "cheap", "price < 100"),
        "elsewhere": served.subscriber("a,2", "elsewhere", "exchange = 'XETRA'"),
    }


@pytest.fixture
def visitor(browser: Any, served: Served, publish: Publish, received: Any) -> Iterator[Visitor]:
    with visiting(browser, served.url) as page:
        yield page


def is_shown(visitor: Visitor, broker: str, status: str) -> None:
    visitor.page.locator(f'[data-broker="{broker}"].is-{status}').first.wait_for()


def test_the_map_shows_every_broker_and_both_directions_of_every_link(visitor: Visitor, served: Served) -> None:
    visitor.open("map")
    for broker in served.scot.brokers:
        is_shown(visitor, str(broker), "ok")
    visitor.until("document.querySelectorAll('.scene .link.is-up').length === 30")
    assert visitor.page.locator(".broker-group").count() == 9
    assert visitor.page.locator(".band").count() == 3
    names = visitor.page.locator(".column-name").all_text_contents()
    assert names == ["region a", "region b", "region c"]
    assert "9/9" in visitor.texts(".totals")[0]


def test_a_broker_that_is_killed_is_seen_by_the_next_look_and_recovers(visitor: Visitor, served: Served) -> None:
    visitor.open("map")
    is_shown(visitor, "(c,1)", "ok")

    # The look that was under way may have asked before; with one look a second that makes two seconds at most.
    assert served.loop.run(served.looks_until_down(BrokerId("c", 1))) <= 2
    is_shown(visitor, "(c,1)", "down")
    visitor.until("document.querySelectorAll('.scene .link.is-down').length >= 4")
    assert "8/9" in visitor.texts(".totals")[0]
    visitor.open("why", client="nobody", n=json.dumps(QUOTE))
    visitor.see('.verdict[data-cause="link"]', "no broker that answers knows a client named nobody")
    visitor.see(".reasons", "(c,1) may, and does not answer")
    visitor.open("map")
    is_shown(visitor, "(c,1)", "down")
    served.loop.run(served.brokers.revive(BrokerId("c", 1)))
    is_shown(visitor, "(c,1)", "ok")
    visitor.until("document.querySelectorAll('.scene .link.is-up').length === 30")


def test_a_filter_is_read_while_it_is_typed_with_the_products_own_message_and_caret(visitor: Visitor) -> None:
    wrong, right = "symbol = 'IBM' and prize >> 100", "symbol = 'IBM' and price > 100"
    with pytest.raises(LanguageError) as error:
        parse_filter(wrong)
    visitor.open("listen")
    area = visitor.see("textarea")
    area.press_sequentially(wrong)
    visitor.see(".said .problem", str(error.value))
    assert visitor.page.locator(".pointer").text_content() == error.value.pointer()
    assert visitor.see("button", "Listen").first.is_disabled()
    area.fill(right)
    visitor.see(".overlaps", "1 advertisement overlaps this of 1")
    visitor.see(".overlaps summary").click()
    visitor.see(".overlaps li", "nyse at (b,2)")
    area.fill("prise > 3")
    visitor.see(".none-overlap", "No advertisement overlaps this")
    assert "did you mean" in visitor.texts(".none-overlap")[0]
    assert visitor.page.url.endswith(f"filter={'prise+%3E+3'}")


def test_listening_shows_what_matches_counts_what_is_skipped_and_pauses(visitor: Visitor, publish: Publish) -> None:
    visitor.open("listen", filter="symbol = 'MSFT' and price > 10", on="1", cap="1000")
    visitor.see("button", "Stop")
    for price in (5, 20, 30):
        publish({"symbol": "MSFT", "price": price, "exchange": "NYSE"})
    publish({"symbol": "AAPL", "price": 50, "exchange": "NYSE"})
    visitor.until("document.querySelectorAll('.notes li').length === 2")
    shown = ["".join(text.split()) for text in visitor.texts(".notes .note")]
    assert shown == ["symbol'MSFT'price30exchange'NYSE'", "symbol'MSFT'price20exchange'NYSE'"]
    visitor.see("button", "Pause").first.click()
    visitor.see("button", "Resume")
    for price in range(40, 45):
        publish({"symbol": "MSFT", "price": price, "exchange": "NYSE"})
    visitor.see(".panel-head", "2 shown, 5 skipped")
    visitor.see("button", "Resume").first.click()
    visitor.see("button", "Pause")
    publish({"symbol": "MSFT", "price": 99, "exchange": "NYSE"})
    visitor.see(".notes li", "99")


def test_a_probe_shows_the_way_and_nobody_gets_it(
    visitor: Visitor, received: dict[str, list[dict[str, Any]]], publish: Publish
) -> None:
    before = {name: len(got) for name, got in received.items()}
    visitor.open("publish", n=json.dumps(QUOTE), publisher="nyse")
    assert visitor.see("#silent").is_checked()
    visitor.see("button.primary", "Probe").click()
    visitor.see(".verdict.yes", "1 client would get it")
    # To cluster 0 by an iLink, then along the tree to (c,0), where desk is. Cluster 1 has a subscription that overlaps
    # the advertisement, so it gets a copy, which nobody there wants; cluster 2 has none.
    assert visitor.page.locator(".hop").count() == 3
    assert sorted(visitor.texts(".sent")) == ["→ (b,0)", "→ (b,1)", "→ (c,0)", "● desk"]
    # a notification that is published afterwards overtakes nothing: had the probe been delivered, it would be there
    publish({"symbol": "IBM", "price": 101, "exchange": "NYSE"})
    visitor.wait(lambda: len(received["desk"]) > before["desk"])
    assert received["desk"][before["desk"] :] == [{"symbol": "IBM", "price": 101, "exchange": "NYSE"}]


@pytest.mark.parametrize(
    ("client", "notification", "cause", "said"),
    [
        ("desk", QUOTE, "delivered", "matches subscription"),
        ("desk", QUOTE | {"price": 90}, "predicate", "price > 100 failed: price is 90"),
        ("cheap", QUOTE | {"price": -3}, "advertisement", "nobody has advertised it"),
        ("elsewhere", QUOTE, "predicate", "exchange = 'XETRA' failed"),
        ("nobody", QUOTE, "client", "no broker that answers knows a client named nobody"),
    ],
)
def test_why_says_what_stopped_a_notification(
    visitor: Visitor, client: str, notification: dict[str, Any], cause: str, said: str
) -> None:
    visitor.open("why", client=client, n=json.dumps(notification))
    visitor.see(f'.verdict[data-cause="{cause}"]', said)


def test_the_broker_panel_searches_and_sorts_on_the_server_and_is_linkable(visitor: Visitor) -> None:
    visitor.open("broker/(c,0)", table="subscriptions", q="ibm")
    visitor.see("td", "desk")
    assert visitor.page.locator(".table-box tbody tr").count() == 1
    visitor.see("[role=tab]", "clients").click()
    visitor.see("th button", "queue").click()
    visitor.until("location.hash.includes('sort=-queue')")
    visitor.see(".facts dt", "version")
    assert visitor.page.locator("table.links tbody tr").count() == 3


def test_everything_is_reached_by_keyboard(visitor: Visitor) -> None:
    visitor.open("map")
    is_shown(visitor, "(a,0)", "ok")
    visitor.page.keyboard.press("/")
    visitor.page.keyboard.type("desk")
    visitor.see("#found a", "client at (c,0)")
    visitor.page.keyboard.press("Enter")
    visitor.see("h2", "Broker (c,0)")
    for key, heading in (("t", "Trouble"), ("y", "Why?"), ("c", "Charts"), ("l", "Listen"), ("p", "Publish and probe")):
        visitor.page.keyboard.press(key)
        visitor.see("h2", heading)
    visitor.page.keyboard.press("m")
    visitor.page.locator('[data-broker="(b,1)"]').focus()
    visitor.page.keyboard.press("Enter")
    visitor.see("h2", "Broker (b,1)")


HOSTILE = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>\'"&lt;\u202e'


def test_hostile_names_and_values_are_shown_as_they_are_and_do_nothing(visitor: Visitor, served: Served) -> None:
    publish = served.publisher("a,0", f"n{HOSTILE}"[:60], "kind = 'hostile'")
    served.subscriber("a,0", f"s{HOSTILE}"[:60], "kind = 'hostile'")
    del publish
    client = served.client("a,0", "writer")
    name = f'"{HOSTILE.replace(chr(34), chr(34) * 2)}"'
    served.loop.run(client.advertise(f"{name} is not null and kind = 'hostile'"))
    visitor.open("listen", filter="kind = 'hostile'", on="1")
    visitor.see("button", "Stop")

    async def send() -> None:
        await client.publish({HOSTILE: HOSTILE, "kind": "hostile"})
        await client.flush()

    served.loop.run(send())
    visitor.see(".notes li", HOSTILE)
    visitor.open("broker/(a,0)", table="clients")
    visitor.see("td", f"s{HOSTILE}"[:60])
    visitor.open("broker/(a,0)", table="advertisements")
    visitor.see("td", "onerror")
    for view, given in (
        ("listen", {"filter": HOSTILE}),
        ("why", {"client": HOSTILE, "n": json.dumps({HOSTILE: HOSTILE})}),
        ("publish", {"n": HOSTILE, "publisher": HOSTILE}),
        ("trouble", {"q": HOSTILE}),
        (f"broker/{HOSTILE}", {}),
    ):
        visitor.open(view, **given)
        visitor.see("h2")
        visitor.until("document.querySelectorAll('main img, main script').length === 0")
    visitor.open("map", q=HOSTILE)
    visitor.see(".map-filter")
    assert visitor.page.evaluate("window.hacked") is None


def test_the_page_is_small_and_asks_nobody_else(visitor: Visitor) -> None:
    sizes: dict[str, int] = {}
    visitor.page.on("requestfinished", lambda request: sizes.update({request.url: request.sizes()["responseBodySize"]}))
    visitor.open("map")
    is_shown(visitor, "(a,0)", "ok")
    files = {url: size for url, size in sizes.items() if "/api/" not in url and url.startswith(visitor.url)}
    assert len(files) > 10
    assert sum(files.values()) < PAGE_BYTES_MAX


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Any, served: Served) -> None:
    with visiting(browser, served.url, viewport={"width": 375, "height": 720}, color_scheme="dark") as phone:
        for view in ("map", "listen", "publish", "why", "trouble", "charts", "broker/(b,2)"):
            phone.open(view)
            phone.see("main > *")
            phone.until("document.documentElement.scrollWidth <= 375")


def test_rights_of_the_console_hold_for_its_visitors(browser: Any) -> None:
    token = "the-token-of-the-console"  # noqa: S105
    rights = Rights("ops", subscribe=parse_filter("price > 100"), advertise=None)
    authority = Authority((ClientEntry(rights, token),), link_token="the-token-of-the-links")  # noqa: S106
    with (
        Served("path:1", 1, at=1, options={"authority": authority}, client_token=token) as narrow,
        visiting(browser, narrow.url) as page,
    ):
        page.open("listen", filter="price > 5")
        page.see("button.primary", "Listen").click()
        page.see("[role=alert]", "ops may not subscribe to price > 5; it may subscribe to: price > 100")
        page.see("textarea").fill("price > 500")
        page.see(".none-overlap", "nobody advertises anything")
        page.see("button.primary", "Listen").click()
        page.see("button", "Stop")
        page.open("publish", n='{"price": 3}')
        page.see(".side", "This console is read-only")
        assert page.see("#silent").is_disabled()
        page.see("button.primary", "Probe").click()
        page.see(".result", "ops may not advertise anything")
        page.expected = ("400",)


def test_a_visitor_without_the_access_token_sees_the_login_and_with_it_the_map(browser: Any) -> None:
    token = "the-access-token-of-the-console"  # noqa: S105
    with Served("path:1", 1, at=2, access_token=token) as closed, visiting(browser, closed.url) as page:
        page.expected = ("401", "403", "EventSource")
        page.page.goto(f"{closed.url}login.html")
        page.see("#token").fill("wrong-token-of-16-chars")
        page.see("button").click()
        page.see(".problem", "that is not the access token")
        page.see("#token").fill(token)
        page.see("button").click()
        is_shown(page, "(a,0)", "ok")
        assert token not in page.page.url
