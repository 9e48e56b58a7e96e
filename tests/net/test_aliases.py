"""Subscribers of an overlay with `alias_token` see aliases, and no byte that comes to them tells a publisher's name."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from octopia import Overlay
from octopia.errors import InputError
from octopia.language import Notification
from octopia.net import Qos
from octopia.net.broker.aliases import REMEMBERED_MAX, Aliases
from octopia.net.broker.config import load_config
from octopia.wire import deliver_frame, encode_parcel, timed, with_publisher
from tests.net.live import Live, channel_of, in_overlay, overlay, take

TOKEN = "aliases-of-this-overlay"  # noqa: S105
NAME = "the-secret-feed"


def digest(token: str) -> str:
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def test_an_alias_depends_on_name_and_secret_alone() -> None:
    aliases, again, other = Aliases(TOKEN), Aliases(digest(TOKEN)), Aliases("another-secret-of-16")
    alias = aliases.of(NAME)
    assert (alias[0], len(alias), aliases.of(NAME), again.of(NAME)) == ("~", 17, alias, alias)
    assert len({alias, aliases.of("other-feed"), other.of(NAME)}) == 3


def test_what_is_remembered_is_bounded() -> None:
    aliases = Aliases(TOKEN)
    first = aliases.of("p0")
    for number in range(REMEMBERED_MAX + 5):
        aliases.of(f"p{number}")
    assert len(aliases._known) <= REMEMBERED_MAX
    assert aliases.of("p0") == first


@pytest.mark.parametrize(
    "values", [{"x": 1}, {"s": "é" * 300, "big": 2**200, "inf": float("inf")}, {f"a{n}": n for n in range(40)}]
)
def test_only_the_name_in_a_delivery_changes(values: dict[str, object]) -> None:
    seen = Notification.of(values)  # type: ignore[arg-type]
    name, alias = (encode_parcel(seen, each, 70_000) for each in (NAME, NAME.upper()))
    for before, after in ((name, alias), (timed(name, 1_700_000_000_000), timed(alias, 1_700_000_000_000))):
        assert with_publisher(deliver_frame(("s1", "s2"), before), str.upper) == deliver_frame(("s1", "s2"), after)


@pytest.mark.parametrize(
    ("routing", "options"), [("idr", {}), ("fdr", {}), ("snr", {"qos": (Qos(is_timed=True),) * 3})]
)
def test_subscribers_see_the_same_alias_everywhere_and_never_the_name(routing: str, options: dict[str, Any]) -> None:
    async def scene(live: Live) -> None:
        feed = await live.publisher("b,2", "x >= 0", name=NAME)
        subscribers = [await live.subscriber(broker, "x >= 0") for broker in ("a,0", "c,1", "b,2")]
        for x in range(20):
            await feed.publish({"x": x})
        for subscription in subscribers:
            got = await take(subscription, 20)
            assert [delivery.notification["x"] for delivery in got] == list(range(20))
            assert [delivery.publisher for delivery in got] == [Aliases(TOKEN).of(NAME)] * 20
            # the bytes as they came
            assert not any(NAME.encode() in delivery.notification.parcel for delivery in got)

    in_overlay(scene, routing=routing, alias_token=TOKEN, **options)


@overlay(alias_token=TOKEN)
async def test_what_is_sent_again_on_another_connection_has_the_same_alias(live: Live) -> None:
    feed = await live.publisher("b,2", "x >= 0", name=NAME)
    subscription = await live.subscriber("a,0", "x >= 0")
    for x in range(50):
        await feed.publish({"x": x})
        if x % 10 == 5:
            channel_of(live.clients[-1]).transport.abort()
    got = await take(subscription, 50)
    assert [delivery.notification["x"] for delivery in got] == list(range(50))
    assert {delivery.publisher for delivery in got} == {Aliases(TOKEN).of(NAME)}


@overlay()
async def test_without_the_token_subscribers_see_the_name(live: Live) -> None:
    feed = await live.publisher("b,2", "x >= 0", name=NAME)
    subscription = await live.subscriber("a,0", "x >= 0")
    await feed.publish({"x": 1})
    assert (await take(subscription, 1))[0].publisher == NAME


def test_the_token_is_read_as_any_other(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(f'[overlay]\ntree = "path:2"\nclusters = 2\n[brokers]\nalias_token = "{TOKEN}"\n', encoding="utf-8")
    assert load_config(file).alias_token == TOKEN
    file.write_text('[overlay]\ntree = "path:2"\nclusters = 2\n[brokers]\nalias_token = "short"\n', encoding="utf-8")
    with pytest.raises(InputError, match="alias_token"):
        load_config(file)


def test_an_overlay_in_one_process_has_aliases_too() -> None:
    overlay = Overlay("path:3", clusters=2, anonymous=True)
    subscriber = overlay.subscriber(("a", 0), "x >= 0")
    feeds = [overlay.publisher(("c", 1), "x >= 0", name=name) for name in (NAME, "other")]
    for feed in (*feeds, feeds[0]):
        feed.publish({"x": 1})
    assert [delivery.publisher for delivery in subscriber.deliveries()] == ["~1", "~2", "~1"]
