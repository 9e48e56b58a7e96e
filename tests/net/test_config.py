# ruff: noqa: S105
"""What a file says is what runs; what is wrong in it is named by file, line, key and fix."""

from pathlib import Path

import pytest

from octopia.errors import InputError
from octopia.language import parse_filter
from octopia.net import Address, Server, default_config, load_config
from octopia.topology import BrokerId

FULL = """
[overlay]
name = "exchange"
tree = "path:3"
clusters = 2
[placement]
machines = ["m1", "m2"]
[routing]
name = "snr"
tau = 5
window_ms = 20
[brokers]
host = "127.0.0.2"
port = 8000
http_port = 9000
http_token = "of who measures"
machines = { m2 = "127.0.0.3" }
addresses = { "b,1" = "localhost:8888" }
[limits]
frame_bytes_max = 4096
stall_s = 3
subscriptions_per_client_max = 7
[links]
token = "between us"
[[clients]]
name = "feed"
token = "t1"
advertise = "class = 'STOCK' and price > 0"
clusters = [1]
[[clients]]
name = "reader"
certificate = "reader.example"
subscribe = "true"
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "overlay.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_everything_that_a_file_can_say(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, FULL))
    assert (config.name, config.routing) == ("exchange", "snr")
    assert (config.congestion.tau, config.congestion.window_s) == (5.0, 0.02)
    assert config.placement is not None
    on_m2 = config.placement.brokers["m2"]
    for number, broker in enumerate(config.scot.brokers):
        if broker == BrokerId("b", 1):
            assert config.addresses[broker] == Address("localhost", 8888)
        else:
            host = "127.0.0.3" if broker in on_m2 else "127.0.0.2"
            assert config.addresses[broker] == Address(host, 8000 + number)
            assert config.http[broker] == Address(host, 9000 + number)
    assert config.http_token == "of who measures"
    assert config.wire_limits.frame_bytes_max == 4096
    assert config.net_limits.stall_s == 3
    assert config.limits.subscriptions_per_client_max == 7
    assert config.authority.link_token == "between us"
    feed, reader = config.authority.clients
    assert (feed.rights.name, feed.token, feed.rights.clusters) == ("feed", "t1", (1,))
    assert feed.rights.advertise == parse_filter("class = 'STOCK' and price > 0")
    assert feed.rights.subscribe is None
    assert (reader.certificate, reader.rights.subscribe) == ("reader.example", parse_filter("true"))


def test_the_smallest_file_and_no_file(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, '[overlay]\ntree = "path:3"\nclusters = 3\n'))
    default = default_config()
    assert config.scot == default.scot
    assert config.addresses == default.addresses
    assert default.addresses[BrokerId("a", 0)] == Address("127.0.0.1", 7400)
    assert config.digest == default.digest
    assert isinstance(Server.of(config), Server)


def test_which_brokers(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, FULL))
    assert config.brokers_of(broker="b,1") == (BrokerId("b", 1),)
    assert set(config.brokers_of(machine="m1")) | set(config.brokers_of(machine="m2")) == set(config.scot.brokers)
    assert config.brokers_of() == config.scot.brokers
    with pytest.raises(InputError, match="no broker"):
        config.brokers_of(broker="z,1")
    with pytest.raises(InputError, match="there are m1, m2"):
        config.brokers_of(machine="m3")


OVERLAY = '[overlay]\ntree = "path:3"\nclusters = 3\n'
WRONG = [
    ("", "the table [overlay] is missing"),
    ("[overlay", "no TOML"),
    (OVERLAY + "[rooting]\n", "line 4: rooting: unknown (did you mean routing?)"),
    ("links = 3\n" + OVERLAY, "line 1: links: must be a table: write [links]"),
    ("\nport = 3\n" + OVERLAY, "line 2: port: unknown; known are overlay"),
    (OVERLAY.replace("path:3", "paht:3"), "line 2: overlay.tree: "),
    (OVERLAY + '[routing]\n\nname = "ird"\n', "line 6: routing.name: unknown routing 'ird'"),
    (OVERLAY + "[routing]\ntau = -1\n", "line 5: routing.tau: tau must be a positive number"),
    (OVERLAY + '[routing]\ntau = "ten"\n', "line 5: routing.tau: must be a number, not 'ten'"),
    (OVERLAY + "[routing]\nwindow = 3\n", "line 5: routing.window: unknown key (did you mean window_ms?)"),
    (OVERLAY + "[brokers]\nport = 65535\n", "line 5: brokers.port: 65535 leaves no room for 9 brokers"),
    (OVERLAY + "[brokers]\nport = true\n", "line 5: brokers.port: must be a port number, not True"),
    (OVERLAY + '[brokers]\naddresses = { "z,1" = "x:1" }\n', "line 5: brokers.addresses: there is no broker (z,1)"),
    (OVERLAY + '[brokers]\naddresses = { "a,1" = "x:y" }\n', "line 5: brokers.addresses: 'x:y' is no address"),
    (OVERLAY + '[brokers]\nmachines = { m1 = "x" }\n', "line 5: brokers.machines: there is no machine 'm1'"),
    (OVERLAY + "[limits]\nframe_bytes_max = 3\n", "line 5: limits.frame_bytes_max: frame_bytes_max is 3"),
    (OVERLAY + "[limits]\nstall = 3\n", "line 5: limits.stall: unknown key (did you mean stall_s?)"),
    (OVERLAY + "[limits]\nstall_s = 0\n", "line 5: limits.stall_s: must be a number above 0, not 0"),
    (OVERLAY + '[tls]\ncertificate = "x"\n', "line 4: tls: key is missing"),
    (OVERLAY + '[[clients]]\ntoken = "x"\n', "line 4: clients: name is missing"),
    (OVERLAY + '[[clients]]\nname = "x"\n', "line 4: clients: x needs a token or a certificate"),
    (
        OVERLAY + '[[clients]]\nname = "x"\ntoken = "1"\n[[clients]]\nname = "y"\ntoken = "2"\nsubscribe = "p >"\n',
        "line 10: clients.subscribe: ",
    ),
    (
        OVERLAY + '[[clients]]\nname = "x"\ntoken = "1"\n[[clients]]\nname = "y"\ntoken = "1"\n',
        "line 9: clients.token: y and x have the same token",
    ),
    (
        OVERLAY + '[[clients]]\nname = "x"\ntoken = "1"\nclusters = [0, 3]\n',
        "line 7: clients.clusters: there is no cluster 3; there are 0 to 2",
    ),
    (
        OVERLAY
        + '[[clients]]\nname = "x"\ntoken = "1"\nclusters = [0]\n'
        + '[[clients]]\nname = "x"\ntoken = "1"\nclusters = [1, 0]\n',
        "line 10: clients.token: two entries of x hold in one cluster",
    ),
    (
        OVERLAY + '[brokers]\nhost = "10.0.0.1"\n[links]\ntoken = "x"\n',
        "line 4: brokers: tokens would travel in the clear to 10.0.0.1:7400",
    ),
    (OVERLAY + "clients = 3\n", "unknown key"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_config(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_config(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("host", "http_host", "expected"),
    [
        ("10.0.0.1", "", "127.0.0.1"),
        ("0.0.0.0", "", "127.0.0.1"),  # noqa: S104
        ("127.0.0.7", "", "127.0.0.7"),
        ("10.0.0.1", "same", "10.0.0.1"),
        ("10.0.0.1", "10.9.9.9", "10.9.9.9"),
    ],
)
def test_http_is_for_the_own_machine_unless_the_file_says_otherwise(
    tmp_path: Path, host: str, http_host: str, expected: str
) -> None:
    said = f'http_host = "{http_host}"' if http_host else ""
    tls = '[tls]\ncertificate = "c.pem"\nkey = "k.pem"\nauthorities = "a.pem"\n'
    text = f'[overlay]\ntree = "path:1"\nclusters = 1\n[brokers]\nhost = "{host}"\n{said}\n{tls}'
    assert set(load_config(written(tmp_path, text)).http.values()) == {Address(expected, 9400)}
