# ruff: noqa: S105
"""What a file says is what runs; what is wrong in it is named by file, line, key and fix."""

import hashlib
from pathlib import Path

import pytest

from octopia.errors import InputError
from octopia.language import parse_filter
from octopia.net import Address, Server, default_config, load_config
from octopia.net.broker.qos import ORDINARY, Granted
from octopia.net.secret import is_same
from octopia.routing import CongestionParameters
from octopia.topology import BrokerId
from octopia.wire import POLICIES

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
covering = "link"
[brokers]
host = "127.0.0.2"
port = 8000
http_port = 9000
http_token = "token of who measures"
machines = { m2 = "127.0.0.3" }
addresses = { "b,1" = "localhost:8888" }
[limits]
frame_bytes_max = 4096
stall_s = 3
subscriptions_per_client_max = 7
[links]
token = "between us brokers"
[[clients]]
name = "feed"
token = "token of the feed"
advertise = "class = 'STOCK' and price > 0"
clusters = [1]
[[clients]]
name = "reader"
certificate = "reader.example"
subscribe = "true"
block = true
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
    assert config.http_token == "token of who measures"
    assert config.wire_limits.frame_bytes_max == 4096
    assert config.net_limits.stall_s == 3
    assert config.limits.subscriptions_per_client_max == 7
    assert config.authority.link_token == "between us brokers"
    feed, reader = config.authority.clients
    assert (feed.rights.name, feed.token, feed.rights.clusters) == ("feed", "token of the feed", (1,))
    assert feed.rights.advertise == parse_filter("class = 'STOCK' and price > 0")
    assert feed.rights.subscribe is None
    assert (feed.rights.block, reader.rights.block) == (False, True)
    assert (reader.certificate, reader.rights.subscribe) == ("reader.example", parse_filter("true"))


def test_quality_of_service_per_cluster(tmp_path: Path) -> None:
    text = """
[qos]
policy = "drop_newest"
priority_max = 2
deadline_ms = 900
client_queue_frames_max = 50
tau = 4
[[qos.clusters]]
clusters = [2]
policies = ["block", "drop_oldest"]
policy = "block"
priority = 1
priority_max = 3
deadline_ms = 0
client_queue_bytes_max = 7000
window_ms = 25
"""
    config = load_config(written(tmp_path, OVERLAY + text))
    first, second, third = config.qos
    assert first == second
    assert (first.default, first.priority_max, first.policies) == (Granted("drop_newest", 0, 900), 2, POLICIES)
    assert third.default == Granted("block", 1, 0)
    assert (third.priority_max, third.policies) == (3, ("block", "drop_oldest"))
    assert first.is_timed
    assert third.is_timed
    limits, own = first.net_limits(config.net_limits), third.net_limits(config.net_limits)
    assert (limits.client_queue_frames_max, limits.client_queue_bytes_max) == (50, 16 * 1024 * 1024)
    assert (own.client_queue_frames_max, own.client_queue_bytes_max) == (50, 7000)
    assert first.congestion(config.congestion) == CongestionParameters(4.0, 0.05)
    assert third.congestion(config.congestion) == CongestionParameters(4.0, 0.025)
    plain = load_config(written(tmp_path, OVERLAY))
    assert plain.qos == (ORDINARY,) * 3
    assert not ORDINARY.is_timed
    assert plain.digest == config.digest, "brokers need not agree on it to be neighbours"


def test_the_smallest_file_and_no_file(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, '[overlay]\nname = "octopia"\ntree = "path:3"\nclusters = 3\n'))
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
    with pytest.raises(InputError, match="the machines are m1, m2"):
        config.brokers_of(machine="m3")


LONG = "a token of the tests"
OVERLAY = '[overlay]\ntree = "path:3"\nclusters = 3\n'
WRONG = [
    ("", "the table [overlay] is missing"),
    ("[overlay", "is not TOML"),
    ("links = 3\n" + OVERLAY, "line 1: links: must be a table: write [links]"),
    ("\nport = 3\n" + OVERLAY, "line 2: port: unknown; known are overlay"),
    (OVERLAY.replace("path:3", "paht:3"), "line 2: overlay.tree: "),
    (OVERLAY.replace("clusters = 3", 'clusters = "3"'), "line 3: overlay.clusters: the number of clusters must be"),
    ("qos = 3\n" + OVERLAY, "line 1: qos: must be a table: write [qos]"),
]
# Behind the tables above.
WRONG_AFTER_IT = [
    ("[rooting]\n", "line 4: rooting: unknown (did you mean routing?)"),
    ('[routing]\n\nname = "ird"\n', "line 6: routing.name: unknown routing 'ird'"),
    ("[routing]\ntau = -1\n", "line 5: routing.tau: tau must be a positive number"),
    ('[routing]\ntau = "ten"\n', "line 5: routing.tau: must be a number, not 'ten'"),
    ('[routing]\ncovering = "hosts"\n', "line 5: routing.covering: unknown covering 'hosts' (did you mean"),
    ('[routing]\nname = "fdr"\ncovering = "link"\n', "line 6: routing.covering: fdr routing cannot cover"),
    ("[routing]\nwindow = 3\n", "line 5: routing.window: unknown key (did you mean window_ms?)"),
    ("[brokers]\nport = 65535\n", "line 5: brokers.port: 65535 leaves no room for 9 brokers"),
    ("[brokers]\nport = true\n", "line 5: brokers.port: must be a port number, not True"),
    ('[brokers]\naddresses = { "z,1" = "x:1" }\n', "line 5: brokers.addresses: there is no broker (z,1)"),
    ('[brokers]\naddresses = { "a,1" = "x:y" }\n', "line 5: brokers.addresses: 'x:y' is not an address"),
    ('[brokers]\nmachines = { m1 = "x" }\n', "line 5: brokers.machines: there is no machine 'm1'"),
    ("[limits]\nframe_bytes_max = 3\n", "line 5: limits.frame_bytes_max: frame_bytes_max is 3"),
    ("[limits]\nstall = 3\n", "line 5: limits.stall: unknown key (did you mean stall_s?)"),
    ("[limits]\nstall_s = 0\n", "line 5: limits.stall_s: must be a number above 0, not 0"),
    ('[tls]\ncertificate = "x"\n', "line 4: tls: key is missing"),
    ('[[clients]]\ntoken = "x"\n', "line 4: clients: name is missing"),
    (f'[[clients]]\nname = "x"\ntoken = "{LONG}"\nblock = "yes"\n', "line 7: clients.block: must be true or false"),
    ('[[clients]]\nname = "x"\n', "line 4: clients: x needs a token or a certificate"),
    (
        f'[[clients]]\nname = "x"\ntoken = "{LONG}"\n',
        "line 4: clients: clients are named, and anyone could call itself a broker",
    ),
    ('[[clients]]\nname = "x"\ntoken = "1"\n', "line 6: clients.token: a token has at least 16 characters"),
    ('[links]\ntoken = "short"\n', "line 5: links.token: a token has at least 16 characters, not 5"),
    ('[brokers]\nhttp_token = "x"\n', "line 5: brokers.http_token: a token has at least 16 characters"),
    (f'[links]\ntoken = "{"x" * 5000}"\n', "line 5: links.token: a token has at most 4096 characters"),
    ('[links]\ntoken = "sha256:0123456789"\n', "line 5: links.token: a token must not begin with sha256:"),
    (f'[links]\ntoken = "{LONG}"\ntoken_env = "X"\n', "line 6: links.token_env: give token or token_env, not both"),
    ('[links]\ntoken_file = "none"\n', "line 5: links.token_file: {folder}/none cannot be read: No such file"),
    ('[links]\ntoken_file = "."\n', "line 5: links.token_file: {folder} cannot be read: Is a directory"),
    ('[links]\ntoken_env = "NO_SUCH"\n', "line 5: links.token_env: the environment variable 'NO_SUCH' is not"),
    (f'[links]\ntoken_sha256 = "{"0" * 64}"\n', "line 5: links.token_sha256: a broker must know the token"),
    (
        '[[clients]]\nname = "x"\ntoken_sha256 = "0123"\n',
        "line 6: clients.token_sha256: must be the 64 hex digits of a SHA-256",
    ),
    (
        '[brokers]\nhost = "0.0.0.0"\n',
        "line 4: brokers: everyone who reaches 0.0.0.0:7400 could publish and subscribe; add tables [tls] and",
    ),
    ('[brokers]\nopen = "yes"\n', "line 5: brokers.open: must be true or false, not 'yes'"),
    (
        '[brokers]\naddresses = { "b,1" = "10.0.0.1:7400" }\n',
        "line 4: brokers: everyone who reaches 10.0.0.1:7400 could",
    ),
    (
        (
            '[[clients]]\nname = "x"\ntoken = "0123456789abcdef"\n'
            '[[clients]]\nname = "y"\ncertificate = "2"\nsubscribe = "p >"\n'
        ),
        "line 10: clients.subscribe: ",
    ),
    (
        f'[[clients]]\nname = "x"\ntoken = "{LONG}"\n[[clients]]\nname = "y"\ntoken = "{LONG}"\n',
        "line 9: clients.token: y and x have the same token",
    ),
    (
        f'[[clients]]\nname = "x"\ntoken = "{LONG}"\nclusters = [0, 3]\n',
        "line 7: clients.clusters: there is no cluster 3; the clusters are 0 to 2",
    ),
    (
        (
            f'[[clients]]\nname = "x"\ntoken = "{LONG}"\nclusters = [0]\n'
            f'[[clients]]\nname = "x"\ntoken = "{LONG}"\nclusters = [1, 0]\n'
        ),
        "line 10: clients.token: two entries of x hold in one cluster",
    ),
    (
        '[brokers]\nhost = "10.0.0.1"\n[links]\ntoken = "0123456789abcdef"\n',
        "line 4: brokers: tokens and notifications would travel in the clear to 10.0.0.1:7400",
    ),
    ("clients = 3\n", "unknown key"),
    ("qos = 3\n", "unknown key"),
    ("[qos]\npriorities = 3\n", "line 5: qos.priorities: unknown key (did you mean priority?)"),
    ("[qos]\npriority = 4\n", "line 5: qos.priority: must be a whole number from 0 to 3, not 4"),
    ("[qos]\npriority_max = 1.5\n", "line 5: qos.priority_max: must be a whole number from 0 to 3, not 1.5"),
    (
        "[qos]\npriority_max = 1\npriority = 2\n",
        "line 6: qos.priority: the default priority, 2, is above priority_max, 1",
    ),
    (
        "[qos]\npriority = 2\n[[qos.clusters]]\nclusters = [1]\npriority_max = 1\n",
        "line 8: qos.clusters.priority_max: the default priority, 2, is above priority_max, 1",
    ),
    ('[qos]\npolicy = "drop"\n', "line 5: qos.policy: 'drop' is not among the policies allowed here: drop_old"),
    ('[qos]\npolicies = ["wait"]\n', "line 5: qos.policies: must be a list of some of drop_oldest, drop_newest"),
    ('[qos]\npolicies = ["block"]\n', "line 5: qos.policies: the default, drop_oldest, is not among them"),
    ("[qos]\ndeadline_ms = -1\n", "line 5: qos.deadline_ms: must be a whole number from 0 to 31,622,400,000"),
    ("[qos]\nclient_queue_frames_max = 0\n", "line 5: qos.client_queue_frames_max: must be a whole number above"),
    ('[qos]\ntau = "ten"\n', "line 5: qos.tau: must be a number, not 'ten'"),
    ("[qos]\nwindow_ms = 0\n", "line 5: qos.window_ms: window_s must be a positive number of seconds"),
    ("[qos]\nclusters = [1]\n", "line 5: qos.clusters: must be tables: write [[qos.clusters]]"),
    ("[[qos.clusters]]\npriority = 1\n", "line 4: qos.clusters: clusters must be a list of cluster numbers"),
    (
        "[[qos.clusters]]\nclusters = [0]\n[[qos.clusters]]\nclusters = [3]\n",
        "line 7: qos.clusters.clusters: there is no cluster 3; the clusters are 0 to 2",
    ),
    (
        "[[qos.clusters]]\nclusters = [0]\n[[qos.clusters]]\nclusters = [1, 0]\ntau = 3\n",
        "line 7: qos.clusters.clusters: cluster 0 is named twice",
    ),
]


@pytest.mark.parametrize(("text", "said"), [*WRONG, *((OVERLAY + text, said) for text, said in WRONG_AFTER_IT)])
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_config(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert said.format(folder=tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
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


@pytest.mark.parametrize(
    "more", ["open = true\n", '[tls]\ncertificate = "c.pem"\nkey = "k.pem"\nauthorities = "a.pem"\n']
)
def test_other_machines_are_let_in_where_the_file_says_so(tmp_path: Path, more: str) -> None:
    config = load_config(written(tmp_path, f'{OVERLAY}[brokers]\nhost = "0.0.0.0"\n{more}'))
    assert {address.host for address in config.addresses.values()} == {"0.0.0.0"}  # noqa: S104


def test_tokens_may_be_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "feed.token").write_text(f"{LONG} in a file\nand more\n", encoding="utf-8")
    monkeypatch.setenv("READER_TOKEN", f"{LONG} in the environment")
    monkeypatch.setenv("LINK_TOKEN", f"{LONG} between brokers")
    digest = hashlib.sha256(f"{LONG} unseen".encode()).hexdigest()
    text = f"""{OVERLAY}[brokers]
http_token_sha256 = "{digest.upper()}"
[links]
token_env = "LINK_TOKEN"
[[clients]]
name = "feed"
token_file = "feed.token"
[[clients]]
name = "reader"
token_env = "READER_TOKEN"
[[clients]]
name = "third"
token_sha256 = "{digest}"
"""
    file = written(tmp_path, text)
    config = load_config(file)
    assert config.authority.link_token == f"{LONG} between brokers"
    feed, reader, third = config.authority.clients
    assert (feed.token, reader.token) == (f"{LONG} in a file", f"{LONG} in the environment")
    assert is_same(third.token, f"{LONG} unseen")
    assert is_same(config.http_token, f"{LONG} unseen")
    assert not any(is_same(third.token, given) for given in (third.token, digest, "", LONG))
    assert config.http_bearer == ""
    # Commands that run no broker do not need them.
    monkeypatch.delenv("READER_TOKEN")
    (tmp_path / "feed.token").unlink()
    with pytest.raises(InputError, match=r"line 10: clients\.token_file"):
        load_config(file)
    unread = load_config(file, secrets=False)
    assert unread.addresses == config.addresses
    assert not any(is_same(entry.token, LONG) for entry in unread.authority.clients)


def test_one_token_given_in_two_ways_is_one_token(tmp_path: Path) -> None:
    digest = hashlib.sha256(LONG.encode()).hexdigest()
    clients = f'[[clients]]\nname = "x"\ntoken = "{LONG}"\n[[clients]]\nname = "y"\ntoken_sha256 = "{digest}"\n'
    with pytest.raises(InputError, match="y and x have the same token"):
        load_config(written(tmp_path, OVERLAY + clients))
