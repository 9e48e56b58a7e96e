"""The client protocol for browsers, over real sockets to a console in front of live brokers.

What a WebSocket client gets is compared with what its filter says of what was published, worked out here in plain
Python; rights are those of an overlay whose clients are named.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from octopia.language import parse_filter
from octopia.net import Authority, ClientEntry, Rights
from tests.console.served import Served
from tests.patience import HANG_S

OPS, FEED, CONSOLE = "token-of-ops-0123456789", "token-of-feed-0123456789", "token-of-console-0123456789"
AUTHORITY = Authority(
    (
        ClientEntry(Rights("ops", subscribe=parse_filter("price > 0"), advertise=None), OPS),
        ClientEntry(Rights("feed", subscribe=None, advertise=parse_filter("price > 0 and symbol is not null")), FEED),
        ClientEntry(Rights("console", subscribe=parse_filter("price > 100"), advertise=None), CONSOLE),
    ),
    link_token="the-token-of-the-links",  # noqa: S106
)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("path:2", 2, options={"authority": AUTHORITY}, allow_publish=True, client_token=CONSOLE) as running:
        yield running


@pytest.fixture(scope="module")
def read_only() -> Iterator[Served]:
    with Served("path:1", 1, at=1) as running:
        yield running


class Talk:
    """One WebSocket; answers and notifications are told apart."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.notifications: list[dict[str, Any]] = []
        self.skipped = 0
        self.frames: list[dict[str, Any]] = []
        self._number = 0

    def send(self, frame: dict[str, Any]) -> None:
        self.socket.send(json.dumps(frame))

    def next(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(self.socket.recv(HANG_S))
        self.frames.append(frame)
        if frame["type"] == "notifications":
            self.notifications += [item["notification"] for item in frame["items"]]
            self.skipped += frame.get("skipped", 0)
        return frame

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        self._number += 1
        id = str(self._number)
        self.send({"type": kind, "id": id, **fields})
        while True:
            frame = self.next()
            if frame.get("id") == id:
                return frame

    def until(self, count: int) -> list[dict[str, Any]]:
        while len(self.notifications) < count:
            self.next()
        return self.notifications


@contextmanager
def talk(served: Served, **hello: Any) -> Iterator[Talk]:
    with connect(served.url.replace("http", "ws", 1) + "ws", max_size=None) as socket:
        talking = Talk(socket)
        if hello.pop("greets", True):
            welcome = talking.ask("hello", **hello)
            assert welcome["type"] == "welcome", welcome
        yield talking


def test_a_browser_subscribes_another_publishes_and_exactly_what_matches_comes(served: Served) -> None:
    sent = [{"symbol": "A", "price": n, "note": "x" * n} for n in range(1, 40)]
    with talk(served, token=OPS) as reader, talk(served, token=FEED) as feed:
        answer = reader.ask("subscribe", filter="price > 5 and price < 30 and symbol = 'A'", credit=1000)
        assert answer["type"] == "ok"
        assert feed.ask("advertise", filter="price > 0 and symbol is not null and note is not null")["type"] == "ok"
        for each in sent:
            assert feed.ask("publish", notification=each)["type"] == "ok"
        assert feed.ask("flush")["type"] == "ok"
        expected = sent[5:29]
        assert reader.until(len(expected)) == expected


def test_no_more_is_sent_than_there_is_credit_for_and_the_rest_waits(served: Served) -> None:
    with talk(served, token=OPS) as reader, talk(served, token=FEED) as feed:
        subscription = reader.ask("subscribe", filter="price > 0 and symbol = 'B'", credit=3)["subscription"]
        feed.ask("advertise", filter="price > 0 and symbol = 'B'")
        for n in range(1, 11):
            feed.ask("publish", notification={"symbol": "B", "price": n})
        feed.ask("flush")
        assert [each["price"] for each in reader.until(3)] == [1, 2, 3]
        # what is asked now is answered before anything else comes, so nothing was sent without credit
        assert reader.ask("flush")["type"] == "ok"
        assert len(reader.notifications) == 3
        reader.send({"type": "credit", "subscription": subscription, "add": 100})
        assert [each["price"] for each in reader.until(10)] == list(range(1, 11))


def test_what_exceeds_the_rate_is_skipped_and_counted(served: Served) -> None:
    with talk(served, token=OPS) as reader, talk(served, token=FEED) as feed:
        subscription = reader.ask("subscribe", filter="price > 0 and symbol = 'C'", rate_max=0)["subscription"]
        feed.ask("advertise", filter="price > 0 and symbol = 'C'")
        for n in range(1, 21):
            feed.ask("publish", notification={"symbol": "C", "price": n})
        feed.ask("flush")
        while reader.skipped < 20:
            reader.next()
        assert (reader.notifications, reader.skipped) == ([], 20)
        reader.send({"type": "rate", "subscription": subscription, "rate_max": None})
        assert reader.ask("flush")["type"] == "ok"
        feed.ask("publish", notification={"symbol": "C", "price": 99})
        assert reader.until(1) == [{"symbol": "C", "price": 99}]


def test_rights_are_those_of_the_token_and_without_one_those_of_the_console(served: Served) -> None:
    with talk(served, token=OPS) as ops, talk(served) as visitor, talk(served, token=FEED) as feed:
        assert ops.ask("advertise", filter="price > 5")["code"] == "refused"
        assert ops.ask("subscribe", filter="price < 5")["code"] == "refused"
        assert feed.ask("subscribe", filter="price > 500")["code"] == "refused"
        refused = visitor.ask("subscribe", filter="price > 50")
        assert (refused["code"], "it may subscribe to" in refused["message"]) == ("refused", True)
        assert visitor.ask("subscribe", filter="price > 150")["type"] == "ok"
        feed.ask("advertise", filter="price > 0 and symbol = 'D'")
        assert feed.ask("publish", notification={"symbol": "D", "price": -1})["type"] == "error"


def test_a_wrong_token_is_refused_with_the_brokers_reason(served: Served) -> None:
    with talk(served, greets=False) as stranger:
        answer = stranger.ask("hello", token="not-a-token-of-anyone")  # noqa: S106
        assert (answer["type"], answer["code"]) == ("error", "refused")
        with pytest.raises(ConnectionClosed) as closed:
            stranger.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4403


def test_a_filter_that_is_wrong_says_where(served: Served) -> None:
    with talk(served, token=OPS) as reader:
        answer = reader.ask("subscribe", filter="price >> 5")
        assert (answer["type"], answer["code"], answer["position"]) == ("error", "language", 6)
        assert reader.ask("subscribe", filter="price > 5")["type"] == "ok"


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", '{"type": "open"}', '{"type": "hello", "wish": 1}', '{"type": "hello", "version": 2}']
    + ['{"type": "flush", "id": "1"}', '{"type":"hello"' + "[" * 100_000],
)  # fmt: skip
def test_what_is_no_hello_ends_the_connection_with_a_reason(served: Served, text: str) -> None:
    with talk(served, greets=False) as stranger:
        stranger.socket.send(text)
        assert stranger.next()["code"] == "bad_frame"
        with pytest.raises(ConnectionClosed) as closed:
            stranger.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4400


def test_requests_about_what_is_not_there_are_errors_and_change_nothing(served: Served) -> None:
    with talk(served, token=OPS) as reader:
        assert reader.ask("unsubscribe", subscription="s99")["code"] == "input"
        assert reader.ask("unadvertise", advertisement="a99")["code"] == "input"
        assert reader.ask("subscribe", filter="price > 1", policy="whatever")["code"] == "input"
        subscription = reader.ask("subscribe", filter="price > 1")["subscription"]
        assert reader.ask("unsubscribe", subscription=subscription)["type"] == "ok"


def test_a_read_only_console_lets_nobody_advertise_or_publish(read_only: Served) -> None:
    with talk(read_only) as visitor:
        asked: list[tuple[str, dict[str, Any]]] = [
            ("advertise", {"filter": "x > 1"}),
            ("publish", {"notification": {"x": 2}}),
        ]
        for kind, fields in asked:
            answer = visitor.ask(kind, **fields)
            assert (answer["type"], answer["code"]) == ("error", "read_only")
        assert visitor.ask("subscribe", filter="x > 1")["type"] == "ok"


def test_a_page_of_another_origin_gets_no_socket(served: Served) -> None:
    address = served.url.replace("http", "ws", 1) + "ws"
    with pytest.raises(Exception, match="403"):
        connect(address, additional_headers={"Origin": "http://evil.example"}).close()
