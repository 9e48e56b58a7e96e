"""Clients that leave much behind: it is withdrawn in slices, others are served meanwhile, then the name is free."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from octopia.net import Client
from octopia.routing import broker as core
from tests.net.live import Live, in_overlay, take, until


def test_others_are_served_while_a_client_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "DEPARTURE_SLICE_MAX", 1)
    later: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    async def scene(live: Live) -> None:
        host = live.host("a,0")
        left = host.broker.state.subscriptions.of
        publisher = await live.publisher("a,0", "n is not null")
        other = await live.subscriber("a,0", "n >= 0")
        big = await live.client("a,0", name="big")
        for n in range(5):
            await big.start_subscription(big.subscribe(f"n > {n}"))
        # turns of the event loop come when the test says so
        monkeypatch.setattr(host.sessions, "_soon", lambda call, *args: later.append((call, args)))
        await big.close()
        await until(lambda: "big" not in host.sessions)
        assert len(left("big")) == 4
        again = Client(live.url("a,0"), name="big")
        opening = asyncio.ensure_future(again.open())
        await until(lambda: len(host.sessions._leaving["big"]) == 1)
        await publisher.publish({"n": 9})
        assert [d.notification["n"] for d in await take(other, 1)] == [9]
        remaining = []
        while later:
            assert not opening.done()
            call, args = later.pop()
            call(*args)
            remaining.append(len(left("big")))
        assert remaining == [3, 2, 1, 0]
        await opening
        live.clients.append(again)
        subscription = again.subscribe("n > 5")
        await again.start_subscription(subscription)
        await publisher.publish({"n": 6})
        assert [d.notification["n"] for d in await take(subscription, 1)] == [6]
        assert len(left("big")) == 1

    in_overlay(scene)
