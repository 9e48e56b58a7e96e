"""The commands around a live overlay, as a user runs them: processes, pipes, exit codes."""

import io
import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from subprocess import PIPE

import pytest

from octopia.cli import live_options, main
from octopia.net import connect_sync
from tests.commands import Command
from tests.net.processes import Processes, octopia
from tests.net.test_http_and_sync import serving
from tests.net.test_http_and_sync import url as url_of

Said = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    made = Processes(tmp_path_factory.mktemp("live"), together=True)
    try:
        made.start()
        made.wait_for_links()
        yield made
    finally:
        made.close()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """A command's standard error and exit code; run in this process, since there are many."""

    def run(*arguments: object, stdin: str = "") -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["octopia", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as done:
            main()
        return int(done.value.code or 0), capsys.readouterr().err

    return run


def started(*arguments: object) -> Command:
    return Command(*arguments, stdout=PIPE)


def test_pub_and_sub_in_a_pipe(overlay: Processes) -> None:
    subscriber = started("sub", "price > 100", "--url", overlay.url("b,1"), "--count", "2", "--meta")
    while overlay.state("a,1")["subscriptions"] == 0:
        time.sleep(0.02)
    lines = '{"symbol": "A", "price": 120}\n{"symbol": "B", "price": 90}\n{"symbol": "ü", "price": 100.5}\n'
    done = octopia("pub", "--url", overlay.url("a,0"), "--name", "feed", stdin=lines)
    assert (done.stdout, done.stderr) == ("", "3 published.\n")
    out, _ = subscriber.communicate()
    assert [json.loads(line) for line in out.splitlines()] == [
        {"publisher": "feed", "id": "1", "notification": {"symbol": "A", "price": 120}},
        {"publisher": "feed", "id": "3", "notification": {"symbol": "ü", "price": 100.5}},
    ]
    assert subscriber.returncode == 0


def test_sub_says_that_nobody_publishes_for_it_and_when_somebody_does(overlay: Processes) -> None:
    arguments = ("sub", "unheard > 1", "--url", overlay.url("b,1"), "--count", "1")
    subscriber = Command(*arguments, stdout=PIPE, stderr=PIPE)
    assert subscriber.stderr is not None
    nobody = "octopia: in force at (b,1); no publisher advertises anything that matches yet (Ctrl-C ends)\n"
    assert subscriber.stderr.readline() == nobody
    with connect_sync(overlay.url("a,0")) as publisher:
        publisher.advertise("unheard > 0")
        assert publisher.overlapping("unheard > 1") == 1
        said = "octopia: a publisher now advertises notifications that may match\n"
        assert subscriber.stderr.readline() == said
        publisher.publish({"unheard": 2})
    assert subscriber.communicate() == ('{"unheard": 2}\n', "")


def test_pub_of_one_notification(overlay: Processes) -> None:
    subscriber = started("sub", "one = 1", "--url", overlay.url("b,0"), "--count", "1")
    while overlay.state("a,0")["subscriptions"] == 0:
        time.sleep(0.02)
    assert octopia("pub", "[class,STOCK],[one,1]", "--url", overlay.url("a,1")).stderr == "1 published.\n"
    out, _ = subscriber.communicate()
    assert json.loads(out) == {"class": "STOCK", "one": 1}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["sub", "price >"], "price >"),
        (["adv", "price > 1", "price >"], "price >"),
        (["pub", "--advertise", "price >"], "price >"),
        (["pub", "{"], "'{' is not a notification"),
        (["pub", "[class,STOCK],[price"], "unexpected end"),
        (["trace", '{"x": 1, "x": 2}'], "is not a notification: 'x' is there twice"),
        (["pub", "nowhere.jsonl"], "nowhere.jsonl: cannot be read: No such file or directory"),
    ],
)
def test_what_is_wrong_in_the_arguments_is_said_before_a_broker_is_asked(
    said: Said, arguments: list[str], expected: str
) -> None:
    code, error = said(*arguments, "--url", "octopia://127.0.0.1:1")
    assert (code, "cannot be reached" in error) == (2, False)
    assert expected in error


@pytest.mark.parametrize(
    ("arguments", "stdin", "expected"),
    [
        (["pub"], '{"x": 1}\n{"x": [1]}\n', "line 2: the value of 'x' must be str, int, float or bool"),
        (["pub"], '{"x": 1, "x": 2}\n', "line 1: 'x' is there twice"),
        (["pub"], "{x: 1}\n", "line 1: neither JSON (expecting property name enclosed in double quotes at column 2)"),
        (["pub"], '{"x": 1}\n\n{"x": 2}\n7\n', "line 4: a notification is an object"),
        (["pub"], '{"x": 1}\n\n{"x": 2}\n7\n', "(2 published before it)"),
        (["pub", "--advertise", "x > 5"], '{"x": 1}\n', "line 1: feed did not advertise this"),
        (["sub", "price >"], "", "price >"),
        (["sub", "price > 1", "--policy", "blok"], "", "block"),
        (["adv", "price >"], "", "price >"),
        (["trace", "[a 1]"], "", "[a 1]"),
    ],
)
def test_a_wrong_line_or_filter_ends_the_command_with_the_reason(
    overlay: Processes, said: Said, arguments: list[str], stdin: str, expected: str
) -> None:
    more = ["--overlay", overlay.file] if arguments[0] == "trace" else ["--name", "feed"]
    code, error = said(*arguments, "--url", overlay.url("a,0"), *more, stdin=stdin)
    assert expected in error
    assert code == 2


def test_nobody_there(tmp_path: Path, overlay: Processes, said: Said) -> None:
    file = tmp_path / "overlay.toml"
    file.write_text(overlay.file.read_text().replace("port = 9400", "port = 9930"), encoding="utf-8")
    done = octopia("status", file, "--json", code=1)
    assert [(row["broker"], row["status"]) for row in json.loads(done.stdout)] == [
        (f"({broker})", "down") for broker in overlay.brokers
    ]
    url = f"octopia://{overlay.host}:7999"
    hint = "is a broker running there? Start one with: octopia serve"
    assert said("sub", "x > 1", "--url", url) == (1, f"octopia: {url} cannot be reached: Connection refused; {hint}\n")


def test_adv_is_in_force_until_it_is_interrupted(overlay: Processes) -> None:
    advertiser = started("adv", "made > 0", "kept > 0", "--url", overlay.url("b,0"))
    assert advertiser.stdout is not None
    try:
        assert [advertiser.stdout.readline() for _ in range(2)] == [
            "a1 in force at (b,0): made > 0\n",
            "a2 in force at (b,0): kept > 0\n",
        ]
        assert overlay.state("b,1")["advertisements"] == 2
    finally:
        advertiser.send_signal(signal.SIGKILL)
        advertiser.communicate()
    # A connection that just ends leaves its session alive for a while: its registrations are still there.
    assert overlay.state("b,1")["advertisements"] == 2


def test_trace_shows_every_hop(overlay: Processes) -> None:
    with connect_sync(overlay.url("b,1"), name="far") as reader, reader.subscribe("price > 100") as quotes:
        done = octopia(
            "trace", '{"price": 120}', "--overlay", overlay.file, "-u", overlay.url("a,0"), "--name", "me", "--json"
        )
        path = json.loads(done.stdout)
        assert (path["publisher"], path["broker"], path["probe"]) == ("me", "(a,0)", True)
        assert [(hop["sender"], hop["receiver"], hop["up"], hop["civ"]) for hop in path["hops"]] == [
            ("(a,0)", "(a,1)", True, ""),
            ("(a,1)", "(b,1)", True, ""),
        ]
        assert [(each["client"], each["broker"]) for each in path["gets"]] == [("far", "(b,1)")]
        # the address of one broker is enough to find the others
        at = ("--overlay", overlay.http("b,0"), "-u", overlay.url("a,0"))
        shown = octopia("trace", '{"price": 120}', *at).stdout
        assert [broker for broker in ("(a,0)", "(a,1)", "(b,1)") if broker in shown] == ["(a,0)", "(a,1)", "(b,1)"]
        assert "far would get it (s1)" in shown
        assert "2 messages between brokers, would be delivered to 1 client." in shown
        assert "No subscription matches it." in octopia("trace", '{"zzz": 1}', *at).stdout
        assert quotes.next_batch(timeout_s=0.01) == [], "nobody gets a probe"
        published = octopia("trace", '{"price": 120}', *at, "--deliver").stdout
        assert "2 messages between brokers, delivered to 1 client." in published
        assert [each.notification["price"] for each in quotes.next_batch(timeout_s=100)] == [120]


def test_why_says_what_stops_it(overlay: Processes) -> None:
    at = ("--url", overlay.http("a,0"))
    with connect_sync(overlay.url("b,1"), name="far") as reader, connect_sync(overlay.url("a,0"), name="feed") as feed:
        feed.advertise("price > 0")
        with reader.subscribe("price > 100", id="dear"):
            found = octopia("why", "far", '{"price": 120}', *at).stdout
            assert found.startswith("far gets [price,120] of feed\n  matches subscription dear\n")
            assert "(a,0) → (a,1) by iLink" in found
            missed = octopia("why", "far", '{"price": 1}', "--overlay", overlay.file, "--json", code=1).stdout
            answer = json.loads(missed)
            assert (answer["delivered"], answer["cause"], answer["reasons"]) == (
                False,
                "predicate",
                ["subscription dear does not match: price > 100 failed: price is 1"],
            )
            shown = octopia("why", "nobody", '{"price": 1}', *at, "--no-probe", code=1).stdout
            assert "no broker that answers knows a client named nobody" in shown
            assert (
                "no broker has a record of notification 1 of feed"
                in octopia("why", "far", "--id", "feed:1", *at, code=1).stdout
            )


def test_status_top_and_bench(overlay: Processes) -> None:
    rows = json.loads(octopia("status", overlay.file, "--json").stdout)
    assert [(row["broker"], row["status"]) for row in rows] == [(f"({b})", "ok") for b in overlay.brokers]
    assert all(len(row["links"]) == 2 and all(link["up"] for link in row["links"]) for row in rows)
    for shown in (octopia("status", overlay.file).stdout, octopia("top", overlay.file, "-n", "1").stdout):
        assert all(f"({broker})" in shown for broker in overlay.brokers)
    by_url = octopia("status", "--url", overlay.http("a,1"), "--links").stdout
    assert "(a,0) → (a,1)" in by_url
    lines = octopia("top", overlay.http("a,1"), "-n", "2", "--every", "0.1", "--json").stdout.splitlines()
    looks = [json.loads(line) for line in lines]
    assert [len(look["brokers"]) for look in looks] == [4, 4]
    assert (looks[0]["totals"]["published_rate"], looks[1]["totals"]["published_rate"]) == (None, 0.0)
    urls = ("-u", overlay.url("a,0"), "-u", overlay.url("b,1"))
    figures = json.loads(octopia("bench", *urls, "-s", "2", "-r", "500", "-t", "0.5", "--json").stdout)
    assert (figures["published"], figures["delivered"], figures["missing"]) == (250, 500, 0)
    assert 0 < figures["latency_us"]["p50"] <= figures["latency_us"]["p99"] <= figures["latency_us"]["p100"]
    assert "delivered  100 " in octopia("bench", *urls, "-r", "500", "-t", "0.2").stdout


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("", ["--broker", "z,9"], "there is no broker (z,9)"),
        ("", ["--machine", "m1"], "names no machines"),
        ("", ["--broker", "a,0", "--machine", "m1"], "not both"),
        ("", ["--log", "loud"], "unknown log level"),
        ("[routing]\nname = 'idt'\n", [], "line 12: routing.name"),
        ("[tls]\nkey = 'x'\n", [], "line 13: tls: certificate is missing"),
    ],
)
def test_serve_says_what_is_wrong(
    tmp_path: Path, overlay: Processes, said: Said, text: str, options: list[str], expected: str
) -> None:
    file = tmp_path / "overlay.toml"
    given = overlay.file.read_text()
    if text.startswith("[routing]"):
        given = given.replace('[routing]\nname = "idr"\n', "")
    file.write_text(given + text, encoding="utf-8")
    code, error = said("serve", file, *options)
    assert code == 2
    assert expected in error


def test_serve_says_that_the_port_is_taken(overlay: Processes, said: Said) -> None:
    code, error = said("serve", overlay.file)
    assert code == 2
    assert f"cannot listen: {overlay.host}:7400: Address already in use" in error


def test_units_are_written_where_one_says(tmp_path: Path, overlay: Processes) -> None:
    done = octopia("units", overlay.file, "--out", tmp_path / "units")
    names = [f"octopia-{broker.replace(',', '-')}.service" for broker in overlay.brokers]
    assert done.stdout.split() == [str(tmp_path / "units" / name) for name in names]
    assert sorted(path.name for path in (tmp_path / "units").iterdir()) == sorted(names)


def test_pub_says_how_much_it_could_not_deliver(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is gone for good while lines still come."""
    monkeypatch.setattr(live_options, "client", partial(live_options.client, close_s=0.1))
    with ExitStack() as stack:
        url = url_of(stack.enter_context(serving("path:1", 1)), "a,0")

        class Lines(io.StringIO):
            """The broker stops after the first line."""

            def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
                if self.tell():
                    stack.close()
                return super().readline()

        monkeypatch.setattr(io, "StringIO", Lines)
        code, text = said("pub", "--url", url, "-a", "n > 0", stdin='{"n": 1}\n' * 5)
    assert code == 1
    assert re.search(r"[45] published notifications were not delivered to a broker", text)
