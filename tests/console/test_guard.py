"""Access control, judged by a table of requests written by hand."""

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from octopia.console.guard import COOKIE, POLICY, Access, Guard, host_name
from octopia.console.settings import ConsoleSettings
from octopia.errors import InputError

TOKEN = "a-token-of-32-characters-or-more"  # noqa: S105


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"in"})
    else:
        await send({"type": "websocket.accept"})


def answered(kind: str, path: str = "/", access: Access | None = None, **headers: str) -> list[Message]:
    """The guard's answer to a request."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    given = {"host": "127.0.0.1:8400"} | {name.replace("_", "-"): value for name, value in headers.items()}
    scope: dict[str, Any] = {
        "type": kind,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    guard = Guard(inside, names=["127.0.0.1", "localhost"], origins=["https://app.example"], access=access or Access())
    asyncio.run(guard(scope, receive, send))
    return sent


def status(kind: str, path: str = "/", access: Access | None = None, **headers: str) -> int:
    first = answered(kind, path, access, **headers)[0]
    if first["type"] == "websocket.accept":
        return 101
    return int(first["code"] if first["type"] == "websocket.close" else first["status"])


@pytest.mark.parametrize(
    ("kind", "headers", "expected"),
    [
        ("http", {}, 200),
        ("http", {"host": "localhost:8400"}, 200),
        ("http", {"host": "evil.example:8400"}, 421),
        ("http", {"host": ""}, 421),
        ("http", {"host": "[::1"}, 421),
        ("http", {"origin": "http://127.0.0.1:8400"}, 200),
        ("http", {"origin": "http://127.0.0.1:9999"}, 403),
        ("http", {"origin": "http://evil.example"}, 403),
        ("http", {"origin": "null"}, 403),
        ("http", {"origin": "https://app.example"}, 403),
        ("http", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403),
        ("http", {"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"}, 403),
        ("http", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 200),
        ("http", {"sec_fetch_site": "same-origin"}, 200),
        ("websocket", {}, 101),
        ("websocket", {"origin": "http://127.0.0.1:8400"}, 101),
        ("websocket", {"origin": "https://app.example"}, 101),
        ("websocket", {"origin": "http://evil.example"}, 1008),
        ("websocket", {"origin": "null"}, 1008),
        ("websocket", {"host": "rebound.example:8400"}, 1008),
        ("websocket", {"host": "rebound.example:8400", "origin": "http://rebound.example:8400"}, 1008),
    ],
)
def test_requests_are_let_in_by_their_host_and_origin(kind: str, headers: dict[str, Any], expected: int) -> None:
    assert status(kind, **headers) == expected


def test_every_answer_forbids_scripts_and_styles_that_are_not_files_of_ours() -> None:
    for answer in (answered("http"), answered("http", host="evil.example")):
        given = dict(answer[0]["headers"])
        policy = given[b"content-security-policy"].decode()
        assert policy == POLICY
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert given[b"x-content-type-options"] == b"nosniff"
        assert given[b"cache-control"] == b"no-store"
        assert given[b"referrer-policy"] == b"no-referrer"


def test_with_an_access_token_only_who_knows_it_gets_in() -> None:
    access = Access(TOKEN)
    cookie = access.cookie_for(TOKEN)
    assert cookie is not None
    assert TOKEN not in cookie
    assert access.cookie_for("wrong") is None
    assert status("http", "/api/stream", access) == 401
    assert status("websocket", "/ws", access) == 1008
    assert status("http", "/login.html", access) == 200
    assert status("http", "/api/stream", access, authorization=f"Bearer {TOKEN}") == 200
    assert status("http", "/api/stream", access, authorization="Bearer wrong") == 401
    assert status("http", f"/api/stream?token={TOKEN}", access) == 401
    assert status("websocket", "/ws", access, cookie=f"{COOKIE}={cookie}") == 101
    # the cookie of one console is worth nothing at another, even with the same token
    assert status("http", "/", Access(TOKEN), cookie=f"{COOKIE}={cookie}") == 401


def test_names_are_read_off_host_headers() -> None:
    assert [host_name(text) for text in ("a.b:80", "[::1]:80", "A.B", "", "x:y:z")][:4] == ["a.b", "::1", "a.b", ""]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"host": "0.0.0.0"}, "everyone who reaches 0.0.0.0"),  # noqa: S104
        ({"host": "10.1.2.3", "access_token": TOKEN}, "in the clear"),
        ({"certificate": "a.pem"}, "together"),
        ({"port": 70000}, "port 70000"),
        ({"every_s": 0.0}, "every 0 s"),
    ],
)
def test_settings_that_would_let_strangers_in_are_errors(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ConsoleSettings(**given)


def test_settings_that_are_meant_are_taken_and_secrets_are_not_shown() -> None:
    settings = ConsoleSettings(host="10.1.2.3", access_token=TOKEN, behind_proxy=True, client_token="also-secret")  # noqa: S106
    assert TOKEN not in repr(settings)
    assert "also-secret" not in repr(settings)
    assert ConsoleSettings().link(8400) == "http://127.0.0.1:8400/"
