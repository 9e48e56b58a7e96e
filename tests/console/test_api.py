"""The page's HTTP requests, answered from live brokers, and the stream of state, assembled as the page does."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from octopia.console.app import page_files
from octopia.console.overlay_json import rounded
from octopia.topology import BrokerId
from tests.console.served import Served
from tests.patience import HANG_S

HTTP_TOKEN = "the-token-of-the-brokers-http"  # noqa: S105


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("path:2", 2, options={"http_token": HTTP_TOKEN}) as running:
        running.publisher("a,0", "feed", "x > 0 and kind = 'a'")
        for number in range(60):
            running.subscriber(f"{'ab'[number % 2]},{number % 4 // 2}", f"s{number:02}", f"x > {number}")
        yield running


def events_of(served: Served) -> Iterator[tuple[str, Any]]:
    """Server-sent events, as they come."""
    with urllib.request.urlopen(f"{served.url}api/stream", timeout=HANG_S) as stream:  # noqa: S310
        kind = ""
        while True:
            line = stream.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield kind, json.loads(line.removeprefix("data: "))


def test_the_stream_begins_with_the_plan_and_the_whole_state_and_goes_on_with_changes(served: Served) -> None:
    events = events_of(served)
    (first, plan), (second, state) = next(events), next(events)
    assert (first, second) == ("overlay", "full")
    assert [broker["id"] for broker in plan["brokers"]] == [str(broker) for broker in served.scot.brokers]
    assert (plan["may_publish"], plan["demo"], plan["clusters"]) == (False, False, 2)
    while state["totals"]["clients"] < 61:
        kind, delta = next(events)
        assert (kind, set(delta)) == ("delta", {"time", "totals", "brokers", "links"})
        state["totals"] = delta["totals"]
        for part in ("brokers", "links"):
            for place, row in delta[part].items():
                state[part][int(place)] = row
    events.close()  # type: ignore[attr-defined]
    assert [row[0] for row in state["brokers"]] == [0, 0, 0, 0]
    # clients as they were placed here: feed, and every fourth subscriber
    clients = {str(broker): 15 for broker in served.scot.brokers} | {"(a,0)": 16}
    assert {plan["brokers"][n]["id"]: row[3] for n, row in enumerate(state["brokers"])} == clients
    assert len(state["links"]) == 2 * len(plan["links"])
    assert all(row[3] == 3 for row in state["links"])


def test_tables_are_searched_sorted_and_paged_over_one_broker_and_over_all(served: Served) -> None:
    _, page = served.get("/api/tables?broker=(a,0)&table=clients&sort=-client&limit=3")
    names = sorted([f"s{number:02}" for number in range(0, 60, 4)] + ["feed"], reverse=True)
    assert ([row["client"] for row in page["rows"]], page["total"]) == (names[:3], 16)
    _, page = served.get("/api/tables?table=clients&sort=client&offset=10&limit=20")
    every = sorted([f"s{number:02}" for number in range(60)] + ["feed"])
    assert [row["client"] for row in page["rows"]] == every[10:30]
    assert (page["total"], page["matched"], page["complete"]) == (61, 61, True)
    _, page = served.get("/api/tables?table=clients&q=s1&limit=50")
    assert sorted(row["client"] for row in page["rows"]) == [f"s{number}" for number in range(10, 20)]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/api/tables?table=secrets", "there is no table 'secrets'"),
        ("/api/tables?table=clients&limit=100000", "1 to 200 at a time"),
        ("/api/tables?table=clients&offset=x", "offset must be a whole number"),
        ("/api/tables?table=clients&offset=4000&limit=50", "only the first 500 rows"),
        ("/api/tables?table=clients&broker=(z,9)", "there is no broker (z,9)"),
        ("/api/broker?id=nonsense", "is not a broker"),
    ],
)
def test_a_question_that_makes_no_sense_is_told_in_one_line(served: Served, path: str, said: str) -> None:
    status, answer = served.get(path)
    assert status == 400
    assert said in answer["message"]
    assert "\n" not in answer["message"]


def test_a_filter_says_which_advertisements_it_overlaps(served: Served) -> None:
    _, answer = served.post("/api/parse", {"filter": "x < 5", "overlaps": True})
    assert answer["overlaps"]["first"] == [{"client": "feed", "broker": "(a,0)", "filter": "kind = 'a' and x > 0"}]
    assert (answer["overlaps"]["count"], answer["overlaps"]["of"]) == (1, 1)
    _, answer = served.post("/api/parse", {"filter": "x < -5", "overlaps": True})
    assert answer["overlaps"]["count"] == 0
    assert "feed at (a,0) advertises" in answer["overlaps"]["why_none"]
    _, answer = served.post("/api/parse", {"filter": "x >"})
    assert answer["ok"] is False
    assert answer["pointer"].splitlines()[0] == "x >"
    _, answer = served.post("/api/parse", {"notification": {"x": [1]}})
    assert answer["ok"] is False


def test_posts_must_be_json_objects_of_our_own_pages(served: Served) -> None:
    assert served.post("/api/parse", [1])[0] == 400
    assert served.post("/api/parse", {"filter": 3})[0] == 400
    assert served.post("/api/parse", {"filter": "x > 1"}, content_type="text/plain")[0] == 400
    assert served.post("/api/parse", {"filter": "x > 1"}, origin="http://evil.example")[0] == 403
    assert served.post("/api/parse", {"filter": "x" * 300_000})[0] == 400
    assert served.post("/api/play", {"do": "kill", "broker": "(a,0)"})[0] == 400
    assert served.get("/api/broker?id=(a,0)", host="evil.example")[0] == 421
    assert served.get("/api/broker?id=(a,0)")[1]["status"] == "ok"


def test_history_and_events_come_from_the_watcher(served: Served) -> None:
    def points() -> list[Any]:
        _, answer = served.get("/api/history?name=queue&name=(a,0)%20queue&name=nothing&seconds=600")
        assert answer["series"]["nothing"] == []
        return list(answer["series"]["queue"])

    while len(points()) < 2:
        pass
    times = [time for time, _ in points()]
    assert times == sorted(times)
    _, answer = served.get("/api/events?q=client+connected&seconds=3600")
    assert answer["matched"] == 61
    _, answer = served.get("/api/trouble")
    assert (answer["refused"], answer["brokers_down"]) == ([], [])


def test_the_broker_of_a_client_is_probed_in_its_name(served: Served) -> None:
    status, path = served.post("/api/probe", {"notification": {"x": 3, "kind": "a"}, "publisher": "feed"})
    assert status == 200
    # subscriptions x > 0, 1 and 2 match; they are s00 to s02
    assert sorted(each["client"] for each in path["would_deliver"]) == ["s00", "s01", "s02"]
    assert path["broker"] == "(a,0)"
    assert served.post("/api/probe", {"notification": {"x": 3}, "publisher": "nobody"})[0] == 400


def test_rates_have_three_digits() -> None:
    given = [None, 0.0, 0.456, 9.87, 12.34, 99.94, 123.4, 98_765.4, float("inf")]
    assert [rounded(value) for value in given] == [None, 0.0, 0.46, 9.87, 12.3, 99.9, 123.0, 98_800.0, None]


def test_the_page_names_no_other_host_and_holds_no_inline_script_or_style() -> None:
    for name, content in page_files().items():
        text = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text.replace("ws://127.0.0.1", ""), name
        assert "https://" not in text, name
        if name.endswith(".html"):
            assert "style=" not in text, name
            assert "<script>" not in text, name
            assert " onclick" not in text, name
        if name.endswith(".js"):
            assert "innerHTML" not in text, name
            assert "eval(" not in text, name


def test_a_client_is_found_where_it_is(served: Served) -> None:
    assert served.loop.run(served.service._broker_of("s01")) == BrokerId("b", 0)
