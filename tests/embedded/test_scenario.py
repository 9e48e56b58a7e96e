"""Scenario files: what is wrong is told in one line with its place and, where there is one, the fix.

Expected lines are written out whole, by hand. What a wrong file must never do, raise another kind of error or take more
than one line, is checked for all of them where the line is caught.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from octopia import BrokerId, LanguageError, ScenarioError, parse_filter, parse_notification
from octopia.embedded import check_scenario, load_scenario, parse_scenario, replay
from octopia.routing import Advertised, ClientLeft, Published, Subscribed, Unadvertised, Unsubscribed

ADVERTISE = {"do": "advertise", "client": "P", "at": ["b", 2], "id": "a1", "filter": "x > 0"}
SUBSCRIBE = {"do": "subscribe", "client": "S", "at": ["c", 0], "id": "s1", "filter": "x > 3"}
PUBLISH = {"do": "publish", "client": "P", "id": "n1", "notification": {"x": 5}}
OVERLOAD = {"do": "overload", "link": [["b", 2], ["b", 0]], "queue": 50}
STEP_NAMES = "advertise, unadvertise, subscribe, unsubscribe, publish, overload, relieve, leave, cut, mend, crash"
NAME = "must be a name of 1 to 200 printable characters"
BROKER = 'must be a broker such as ["b", 2] or "b,2"'
QUEUE = "must be a queue length, a whole number from 0 to 1,000,000,000"
TAU = "must be a number over 0 and at most 1,000,000,000"
LINK = 'must be a link, two brokers such as [["b", 2], ["b", 0]]'


def scenario(*steps: Any, **fields: Any) -> dict[str, Any]:
    return {"tree": "path:3", "clusters": 3, "steps": list(steps)} | fields


def error_of(document: Any) -> str:
    """The one line that a document is refused with; the same whether it comes as values or as a file's text."""
    with pytest.raises(ScenarioError) as caught:
        check_scenario(document)
    line = str(caught.value)
    assert line.isprintable()
    return line


def text_error(text: str | bytes, *, toml: bool = False) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, toml=toml)
    line = str(caught.value)
    assert line.isprintable()
    return line


def file_error(path: Path) -> str:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    return str(caught.value)


# ---- what is right -------------------------------------------------------------------------------------------------


def test_every_field_and_every_step_as_checked_values() -> None:
    checked = check_scenario(
        scenario(
            ADVERTISE,
            SUBSCRIBE,
            OVERLOAD,
            {"do": "publish", "client": "P", "id": "n1", "notification": "[class,'STOCK'],[x,5]"},
            {"do": "relieve", "link": ["b,2", "(b,0)"]},
            {"do": "unsubscribe", "client": "S", "id": "s1"},
            {"do": "unadvertise", "client": "P", "id": "a1"},
            {"do": "leave", "client": "P"},
            routing="snr",
            title="a test",
            tau=3,
        )
    )
    b0, b2, c0 = BrokerId("b", 0), BrokerId("b", 2), BrokerId("c", 0)
    assert str(checked.scot) == "3 regions × 3 clusters"
    assert (checked.routing, checked.title, checked.congestion.tau) == ("snr", "a test", 3.0)
    assert checked.clients == {"P": b2, "S": c0}
    assert [(s.number, s.do, s.broker, s.event, s.neighbour, s.queue) for s in checked.steps] == [
        (0, "advertise", b2, Advertised("P", "a1", parse_filter("x > 0")), None, 0),
        (1, "subscribe", c0, Subscribed("S", "s1", parse_filter("x > 3")), None, 0),
        (2, "overload", b2, None, b0, 50),
        (3, "publish", b2, Published("P", "n1", parse_notification({"class": "STOCK", "x": 5})), None, 0),
        (4, "relieve", b2, None, b0, 0),
        (5, "unsubscribe", c0, Unsubscribed("S", "s1"), None, 0),
        (6, "unadvertise", b2, Unadvertised("P", "a1"), None, 0),
        (7, "leave", b2, ClientLeft("P"), None, 0),
    ]


def test_what_may_be_left_out() -> None:
    checked = check_scenario({"tree": [["a", "b"]], "steps": []})
    assert (checked.scot.clusters, checked.routing, checked.title, checked.congestion.tau) == (3, "idr", "", 10.0)
    assert check_scenario({"tree": "evaluation", "steps": []}).scot.clusters == 5


def test_toml_says_the_same_as_json() -> None:
    toml = """
        tree = [["a", "b"], ["b", "c"]]
        clusters = 3
        routing = "snr"

        [[steps]]
        do = "advertise"
        client = "P"
        at = ["b", 2]
        id = "a1"
        filter = "x > 0"

        [[steps]]
        do = "publish"
        client = "P"
        id = "n1"
        notification = { x = 5, symbol = "AAPL", open = true, price = 1.5 }

        [[steps]]
        do = "overload"
        link = [["b", 2], "b,0"]
        queue = 50
    """
    values = scenario(
        ADVERTISE,
        {**PUBLISH, "notification": {"x": 5, "symbol": "AAPL", "open": True, "price": 1.5}},
        OVERLOAD,
        tree=[["a", "b"], ["b", "c"]],
        routing="snr",
    )
    assert parse_scenario(toml, toml=True) == parse_scenario(json.dumps(values)) == check_scenario(values)


def test_a_file_is_toml_by_its_suffix_and_json_otherwise(tmp_path: Path) -> None:
    for name, text in [("s.toml", 'tree = "h"\nsteps = []'), ("s.TOML", 'tree = "h"\nsteps = []')]:
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert load_scenario(tmp_path / name).scot.clusters == 3
    (tmp_path / "s").write_text('{"tree": "h", "steps": []}', encoding="utf-8")
    assert load_scenario(tmp_path / "s") == load_scenario(tmp_path / "s.toml")


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_scenario(b'\xef\xbb\xbf{"tree": "h", "steps": []}').scot.clusters == 3


def test_names_of_any_script_are_fine() -> None:
    names = {"client": "Zoë 株", "id": "α→1"}
    checked = check_scenario(scenario({**ADVERTISE, **names}))
    assert checked.clients == {"Zoë 株": BrokerId("b", 2)}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"tree": "h", "steps": []}',))
    writer.start()
    assert load_scenario(pipe).scot.clusters == 3
    writer.join()


# ---- the shape -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (
            5,
            (
                'steps[0]: must be a step such as {"do": "publish", "client": "P", "id": "n1", '
                '"notification": {"x": 5}}, not 5'
            ),
        ),
        (
            {"client": "P"},
            (
                "steps[0].do: missing: say what to do, advertise, unadvertise, subscribe, unsubscribe, publish, "
                "overload, relieve, leave, cut, mend or crash"
            ),
        ),
        ({"do": 5}, f"steps[0].do: unknown step 5; steps are {STEP_NAMES}"),
        (
            {"do": "advertize"},
            f'steps[0].do: unknown step "advertize" (did you mean advertise?); steps are {STEP_NAMES}',
        ),
        ({"do": "Publish"}, f'steps[0].do: unknown step "Publish" (did you mean publish?); steps are {STEP_NAMES}'),
        ({"do": "dance"}, f'steps[0].do: unknown step "dance"; steps are {STEP_NAMES}'),
        ({"do": "x" * 1000}, f'steps[0].do: unknown step "{"x" * 59}…; steps are {STEP_NAMES}'),
        ({"do": ["advertise"]}, f'steps[0].do: unknown step ["advertise"]; steps are {STEP_NAMES}'),
        ({"do": "advertise"}, "steps[0].client: missing: advertise needs a name of 1 to 200 printable characters"),
        ({"do": "leave"}, "steps[0].client: missing: leave needs a name of 1 to 200 printable characters"),
        (
            {"do": "subscribe", "client": "S", "id": "s"},
            (
                "steps[0].filter: missing: subscribe needs a filter as text, such as "
                '"[class,eq,\'STOCK\'],[x,>,3]" or "x > 3"'
            ),
        ),
        (
            {"do": "publish", "client": "P", "id": "n"},
            (
                "steps[0].notification: missing: publish needs a notification such as "
                '"[class,\'STOCK\'],[x,5]" or {"x": 5}'
            ),
        ),
        (
            {"do": "overload", "link": [["b", 2], ["b", 0]]},
            ("steps[0].queue: missing: overload needs a queue length, a whole number from 0 to 1,000,000,000"),
        ),
        ({"do": "relieve"}, 'steps[0].link: missing: relieve needs a link, two brokers such as [["b", 2], ["b", 0]]'),
        (
            {**ADVERTISE, "fliter": "x > 0"},
            ("steps[0].fliter: unknown field (did you mean filter?); advertise has client, id, filter, at"),
        ),
        ({**OVERLOAD, "at": "b,2"}, "steps[0].at: unknown field; overload has link, queue, delay"),
        ({**ADVERTISE, "a\nb\x1b[31m": 1}, "steps[0].a b [31m: unknown field; advertise has client, id, filter, at"),
        ({**ADVERTISE, "client": ""}, f'steps[0].client: {NAME}, not ""'),
        ({**ADVERTISE, "client": 7}, f"steps[0].client: {NAME}, not 7"),
        ({**ADVERTISE, "client": None}, f"steps[0].client: {NAME}, not null"),
        ({**ADVERTISE, "client": "a\nb"}, f'steps[0].client: {NAME}, not "a\\nb"'),
        ({**ADVERTISE, "client": "\x1b[31m"}, f'steps[0].client: {NAME}, not "\\u001b[31m"'),
        ({**ADVERTISE, "client": "\ud800"}, f'steps[0].client: {NAME}, not " "'),
        ({**ADVERTISE, "id": ["a1"]}, f'steps[0].id: {NAME}, not ["a1"]'),
        ({**ADVERTISE, "id": "i" * 201}, f'steps[0].id: {NAME}, not "{"i" * 59}…'),
        (
            {**ADVERTISE, "filter": {"x": 1}},
            (
                "steps[0].filter: must be a filter as text, such as "
                '"[class,eq,\'STOCK\'],[x,>,3]" or "x > 3", not {"x": 1}'
            ),
        ),
        ({**ADVERTISE, "at": None}, f"steps[0].at: {BROKER}, not null"),
        ({**ADVERTISE, "at": ["b"]}, f'steps[0].at: {BROKER}, not ["b"]'),
        ({**ADVERTISE, "at": ["b", 2, 2]}, f'steps[0].at: {BROKER}, not ["b", 2, 2]'),
        ({**ADVERTISE, "at": ["b", "2"]}, f'steps[0].at: {BROKER}, not ["b", "2"]'),
        ({**ADVERTISE, "at": [2, "b"]}, f'steps[0].at: {BROKER}, not [2, "b"]'),
        ({**ADVERTISE, "at": ["b", True]}, f'steps[0].at: {BROKER}, not ["b", true]'),
        ({**ADVERTISE, "at": ["b", 2.0]}, f'steps[0].at: {BROKER}, not ["b", 2.0]'),
        ({**ADVERTISE, "at": ["b", 10**50]}, f'steps[0].at: {BROKER}, not ["b", {10**50}]'),
        ({**ADVERTISE, "at": {"b": 2}}, f'steps[0].at: {BROKER}, not {{"b": 2}}'),
        ({**OVERLOAD, "link": [["b", 2]]}, f'steps[0].link: {LINK}, not [["b", 2]]'),
        ({**OVERLOAD, "link": ["b", 2]}, f'steps[0].link: {LINK}, not ["b", 2]'),
        ({**OVERLOAD, "link": "b,2"}, f'steps[0].link: {LINK}, not "b,2"'),
        ({**OVERLOAD, "queue": -1}, f"steps[0].queue: {QUEUE}, not -1"),
        ({**OVERLOAD, "queue": 1.5}, f"steps[0].queue: {QUEUE}, not 1.5"),
        ({**OVERLOAD, "queue": "50"}, f'steps[0].queue: {QUEUE}, not "50"'),
        (
            {**OVERLOAD, "delay": -1},
            "steps[0].delay: must be a delay in links, a whole number from 0 to 1,000,000, not -1",
        ),
        ({**OVERLOAD, "queue": True}, f"steps[0].queue: {QUEUE}, not true"),
        ({**OVERLOAD, "queue": 10**400}, f"steps[0].queue: {QUEUE}, not 1{'0' * 59}…"),
        (
            {**PUBLISH, "notification": 5},
            ('steps[0].notification: must be a notification such as "[class,\'STOCK\'],[x,5]" or {"x": 5}, not 5'),
        ),
        (
            {**PUBLISH, "notification": ["x", 5]},
            (
                "steps[0].notification: must be a notification such as "
                '"[class,\'STOCK\'],[x,5]" or {"x": 5}, not ["x", 5]'
            ),
        ),
    ],
)
def test_a_step_of_the_wrong_shape(step: Any, line: str) -> None:
    assert error_of(scenario(step)) == line


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ([], "must be an object with a tree and steps, not []"),
        (5, "must be an object with a tree and steps, not 5"),
        (
            {"steps": []},
            (
                'tree: missing: a scenario needs a tree, a name such as "path:3" or edges such as [["a", "b"], '
                '["b", "c"]]'
            ),
        ),
        ({"tree": "h"}, "steps: missing: a scenario needs a list of steps"),
        (
            scenario(step=[]),
            (
                "step: unknown field (did you mean steps?); a scenario has tree, steps, clusters, routing, title, tau, "
                "covering"
            ),
        ),
        (scenario(steps={}), "steps: must be a list of steps, not {}"),
        (scenario(steps="advertise"), 'steps: must be a list of steps, not "advertise"'),
        (
            scenario(tree=5),
            'tree: must be a tree, a name such as "path:3" or edges such as [["a", "b"], ["b", "c"]], not 5',
        ),
        (scenario(tree=[["a", "b"], ["b"]]), 'tree[1]: must be an edge such as ["a", "b"], not ["b"]'),
        (scenario(tree=["ab"]), 'tree[0]: must be an edge such as ["a", "b"], not "ab"'),
        (scenario(tree=[["a", 1]]), 'tree[0]: must be an edge such as ["a", "b"], not ["a", 1]'),
        (scenario(tree=[]), "tree: the tree is empty: give at least one node"),
        (scenario(tree=[["a", "b"], ["b", "c"], ["c", "a"]]), "tree: the tree has a cycle: a-b-c-a"),
        (scenario(tree=[["a", "b"], ["c", "d"]]), "tree: the tree is not connected: no path from a to c, d"),
        (scenario(tree=[["a", "b"], ["b", "a"]]), "tree: edge b-a is given twice"),
        (scenario(tree=[["a,b", "c"]]), "tree: bad label 'a,b': ',' is a comma, and a label must not hold one"),
        (
            scenario(tree="pth:3"),
            (
                "tree: no tree is called 'pth:3' (did you mean path?); the names are path:N, star:N, "
                "balanced:R,H, h, evaluation, or give edges such as a-b,b-c"
            ),
        ),
        (scenario(tree="path:0"), "tree: path:0 is not a tree: at least 1 node is needed"),
        (scenario(tree="path:1000000000"), "tree: path:1000000000 is too large: a tree has at most 100,000 nodes"),
        (scenario(clusters=0), "clusters: 0 clusters: between 1 and 1,024 are allowed"),
        (scenario(clusters=-1), "clusters: -1 clusters: between 1 and 1,024 are allowed"),
        (scenario(clusters=1025), "clusters: 1025 clusters: between 1 and 1,024 are allowed"),
        (scenario(clusters=10**12), "clusters: must be a number of clusters, a whole number from 1, not 1000000000000"),
        (scenario(clusters="3"), 'clusters: must be a number of clusters, a whole number from 1, not "3"'),
        (scenario(clusters=2.5), "clusters: must be a number of clusters, a whole number from 1, not 2.5"),
        (scenario(clusters=None), "clusters: must be a number of clusters, a whole number from 1, not null"),
        (
            scenario(tree="path:60000", clusters=2),
            ("clusters: 60,000 regions × 2 clusters make 120,000 brokers, at most 100,000 are allowed"),
        ),
        (
            scenario(clusters=1024),
            ("clusters: 3 regions × 1024 clusters make 1,573,376 links, at most 1,000,000 fit into one process"),
        ),
        (
            scenario(routing="irs"),
            ("routing: unknown routing 'irs' (did you mean idr?); the routings are snr, idr, fdr, tid, tid-dynamic"),
        ),
        (
            scenario(routing="flood"),
            "routing: unknown routing 'flood'; the routings are snr, idr, fdr, tid, tid-dynamic",
        ),
        (scenario(routing=5), "routing: must be the name of a routing, not 5"),
        (scenario(title="a\nb"), 'title: must be one line of at most 200 printable characters, not "a\\nb"'),
        (scenario(title=5), "title: must be one line of at most 200 printable characters, not 5"),
        (scenario(tau=0), f"tau: {TAU}, not 0"),
        (scenario(tau=-1.5), f"tau: {TAU}, not -1.5"),
        (scenario(tau="x"), f'tau: {TAU}, not "x"'),
        (scenario(tau=True), f"tau: {TAU}, not true"),
        (scenario(tau=float("nan")), f"tau: {TAU}, not NaN"),
        (scenario(tau=float("inf")), f"tau: {TAU}, not Infinity"),
        (scenario(covering="links"), 'covering: must be true, false, "none", "host" or "link", not "links"'),
        (
            scenario(routing="fdr", covering="link"),
            (
                "covering: fdr routing cannot cover per link "
                "since its copies name their destinations; use none or host, or another routing"
            ),
        ),
    ],
)
def test_a_scenario_of_the_wrong_shape(document: Any, line: str) -> None:
    assert error_of(document) == line


def test_too_many_steps() -> None:
    step = {"do": "relieve", "link": ["a,0", "b,0"]}
    assert error_of(scenario(*[step] * 100_001)) == "steps: 100,001 steps, at most 100,000 are allowed"


# ---- names and order -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ([{**ADVERTISE, "at": ["z", 0]}], "steps[0].at: no broker (z,0): no region 'z'"),
        ([{**ADVERTISE, "at": ["B", 0]}], "steps[0].at: no broker (B,0): no region 'B' (did you mean b?)"),
        ([{**ADVERTISE, "at": ["b", 3]}], "steps[0].at: no broker (b,3): clusters are 0..2"),
        ([{**ADVERTISE, "at": ["b", -1]}], "steps[0].at: no broker (b,-1): clusters are 0..2"),
        (
            [{**ADVERTISE, "at": "b"}],
            "steps[0].at: 'b' is not a broker: write region,cluster, for example b,2 or (b,2)",
        ),
        (
            [{**ADVERTISE, "at": "2,b"}],
            (
                "steps[0].at: '2,b' is not a broker: the cluster after the comma must be a number from 0, "
                "not 'b' (the region comes first: b,2)"
            ),
        ),
        (
            [{"do": "advertise", "client": "P", "id": "a1", "filter": "x > 0"}],
            'steps[0].at: missing: say where P is connected, for example ["a", 0]',
        ),
        (
            [ADVERTISE, {**ADVERTISE, "id": "a2", "at": "b,1"}],
            "steps[1].at: P is connected to (b,2) already; it has to leave first",
        ),
        ([ADVERTISE, {**PUBLISH, "at": "b,1"}], "steps[1].at: P is connected to (b,2) already; it has to leave first"),
        ([{**OVERLOAD, "link": [["a", 0], ["c", 0]]}], "steps[0].link: there is no link from (a,0) to (c,0)"),
        ([{**OVERLOAD, "link": [["a", 0], ["b", 1]]}], "steps[0].link: there is no link from (a,0) to (b,1)"),
        ([{**OVERLOAD, "link": [["a", 0], ["a", 0]]}], "steps[0].link: there is no link from (a,0) to (a,0)"),
        ([{**OVERLOAD, "link": [["a", 0], ["z", 0]]}], "steps[0].link[1]: no broker (z,0): no region 'z'"),
        ([{"do": "relieve", "link": ["a,9", "a,0"]}], "steps[0].link[0]: no broker (a,9): clusters are 0..2"),
        ([{"do": "cut", "link": ["a,0", "c,0"]}], "steps[0].link: there is no link from (a,0) to (c,0)"),
        (
            [{"do": "cut", "link": ["a,0", "b,0"]}, {"do": "cut", "link": ["b,0", "a,0"]}],
            "steps[1].link: the link between (b,0) and (a,0) is down since steps[0]; mend it first",
        ),
        (
            [{"do": "cut", "link": ["b,0", "b,2"]}, OVERLOAD],
            "steps[1].link: the link between (b,2) and (b,0) is down since steps[0]; mend it first",
        ),
        (
            [{"do": "mend", "link": ["a,0", "b,0"]}],
            "steps[0].link: the link between (a,0) and (b,0) is up; cut it first",
        ),
        ([{"do": "crash", "broker": "z,0"}], "steps[0].broker: no broker (z,0): no region 'z'"),
        (
            [{"do": "crash", "broker": "a,0"}, {"do": "crash", "broker": ["a", 0]}],
            "steps[1].broker: (a,0) is dead since steps[0]",
        ),
        (
            [{"do": "crash", "broker": "a,0"}, {"do": "cut", "link": ["b,0", "a,0"]}],
            "steps[1].link: (a,0) is dead since steps[0]",
        ),
        (
            [ADVERTISE, {"do": "crash", "broker": "b,2"}, PUBLISH],
            "steps[2].client: P is at (b,2), dead since steps[1]",
        ),
        ([{"do": "crash", "broker": "b,2"}, ADVERTISE], "steps[1].client: P is at (b,2), dead since steps[0]"),
        ([ADVERTISE, {**PUBLISH, "client": "p"}], "steps[1].client: unknown client 'p' (did you mean P?)"),
        ([PUBLISH], "steps[0].client: unknown client 'P'; a client is known from its first advertise or subscribe on"),
        (
            [{"do": "leave", "client": "S"}],
            "steps[0].client: unknown client 'S'; a client is known from its first advertise or subscribe on",
        ),
        (
            [{**SUBSCRIBE, "client": "P"}, PUBLISH],
            "steps[1].client: P publishes but has no advertisement in force here; advertise first",
        ),
        (
            [ADVERTISE, {"do": "unadvertise", "client": "P", "id": "a1"}, PUBLISH],
            "steps[2].client: P publishes but has no advertisement in force here; advertise first",
        ),
        (
            [ADVERTISE, {"do": "leave", "client": "P"}, PUBLISH],
            "steps[2].client: P publishes but has no advertisement in force here; advertise first",
        ),
        ([ADVERTISE, ADVERTISE], "steps[1].id: advertisement id 'a1' is in force already, from P; ids are unique"),
        (
            [ADVERTISE, {**ADVERTISE, "client": "Q"}],
            "steps[1].id: advertisement id 'a1' is in force already, from P; ids are unique",
        ),
        (
            [SUBSCRIBE, {**SUBSCRIBE, "filter": "x > 9"}],
            "steps[1].id: subscription id 's1' is in force already, from S; ids are unique",
        ),
        (
            [SUBSCRIBE, {**SUBSCRIBE, "client": "T"}],
            "steps[1].id: subscription id 's1' is in force already, from S; ids are unique",
        ),
        ([ADVERTISE, PUBLISH, PUBLISH], "steps[2].id: notification id 'n1' is taken by steps[1]"),
        (
            [ADVERTISE, {**ADVERTISE, "client": "Q", "id": "a2"}, PUBLISH, {**PUBLISH, "client": "Q"}],
            "steps[3].id: notification id 'n1' is taken by steps[2]",
        ),
        (
            [SUBSCRIBE, {"do": "unsubscribe", "client": "S", "id": "S1"}],
            "steps[1].id: S has no subscription 'S1' in force here (did you mean s1?)",
        ),
        (
            [
                SUBSCRIBE,
                {"do": "unsubscribe", "client": "S", "id": "s1"},
                {"do": "unsubscribe", "client": "S", "id": "s1"},
            ],
            "steps[2].id: S has no subscription 's1' in force here",
        ),
        (
            [SUBSCRIBE, {**SUBSCRIBE, "client": "T", "id": "s2"}, {"do": "unsubscribe", "client": "T", "id": "s1"}],
            "steps[2].id: subscription 's1' is S's, and only S can withdraw it",
        ),
        (
            [ADVERTISE, {"do": "unadvertise", "client": "P", "id": "adv"}],
            "steps[1].id: P has no advertisement 'adv' in force here",
        ),
        (
            [ADVERTISE, SUBSCRIBE, {"do": "leave", "client": "S"}, {"do": "unsubscribe", "client": "S", "id": "s1"}],
            "steps[3].id: S has no subscription 's1' in force here",
        ),
    ],
)
def test_names_and_order(steps: list[Any], line: str) -> None:
    assert error_of(scenario(*steps)) == line


def test_an_id_is_free_again_once_withdrawn() -> None:
    unadvertise = {"do": "unadvertise", "client": "P", "id": "a1"}
    other = {**ADVERTISE, "client": "Q", "at": "a,0"}
    steps = [ADVERTISE, unadvertise, ADVERTISE, unadvertise, other]
    assert [step.do for step in check_scenario(scenario(*steps)).steps] == [
        "advertise",
        "unadvertise",
        "advertise",
        "unadvertise",
        "advertise",
    ]


def test_a_client_keeps_its_broker_and_may_come_back_elsewhere_after_it_left() -> None:
    again = {"do": "subscribe", "client": "S", "id": "s2", "filter": "x > 1"}
    leave = {"do": "leave", "client": "S", "at": "c,0"}
    stays = check_scenario(scenario(SUBSCRIBE, again, leave, again))
    assert [step.broker for step in stays.steps] == [BrokerId("c", 0)] * 4
    moves = check_scenario(scenario(SUBSCRIBE, leave, {**SUBSCRIBE, "at": "a,1"}, again))
    assert [step.broker for step in moves.steps] == [BrokerId("c", 0)] * 2 + [BrokerId("a", 1)] * 2
    assert moves.clients == {"S": BrokerId("a", 1)}


# ---- the language inside -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter", "parts"),
    [
        ("x >", ["'>'", "at position 3"]),
        ("[class,eq,'STOCK'],[x,=>,3]", ["'=>'", "at position 22", "(did you mean >=?)"]),
        ("", ["empty"]),
        ("x" * 70_000, ["70000 characters", "at most 65536"]),
    ],
)
def test_a_bad_filter_keeps_the_languages_words_position_and_hint(filter: str, parts: list[str]) -> None:
    with pytest.raises(LanguageError) as own:
        parse_filter(filter)
    line = error_of(scenario({**ADVERTISE, "filter": filter}))
    assert line == f"steps[0].filter: {own.value}"
    assert [part for part in parts if part not in line] == []


def test_a_bad_notification_text_keeps_the_languages_words_and_position() -> None:
    text = "[class,'STOCK'],[x,5"
    with pytest.raises(LanguageError) as own:
        parse_notification(text)
    assert own.value.position == 20
    assert error_of(scenario(ADVERTISE, {**PUBLISH, "notification": text})) == f"steps[1].notification: {own.value}"


@pytest.mark.parametrize(
    ("notification", "line"),
    [
        ({}, "steps[1].notification: the notification is empty; expected at least one attribute"),
        ({"": 1}, "steps[1].notification: attribute name is empty"),
        ({"x": None}, "steps[1].notification.x: must be text, a number, true or false, not null"),
        ({"x": 1, "y": [1, 2]}, "steps[1].notification.y: must be text, a number, true or false, not [1, 2]"),
        ({"x": {"y": 1}}, 'steps[1].notification.x: must be text, a number, true or false, not {"y": 1}'),
        ({"x": float("nan")}, "steps[1].notification: the value of 'x' is NaN; expected a number that can be compared"),
        ({"x": 2**9000}, "steps[1].notification: the value of 'x' is an integer of 9001 bits; expected at most 8192"),
        ({"x": "\ud800"}, "steps[1].notification: the value of 'x' has a lone surrogate at offset 0"),
    ],
)
def test_a_bad_notification(notification: Any, line: str) -> None:
    assert error_of(scenario(ADVERTISE, {**PUBLISH, "notification": notification})) == line


# ---- the text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "is empty: a scenario has at least a tree and steps"),
        (" \n\t\n", "is empty: a scenario has at least a tree and steps"),
        ('{"tree": "h",\n "steps": [}', "line 2, column 12: is not JSON: expecting value, found '}'"),
        ('{"tree": "h"\n "steps": []}', "line 2, column 2: is not JSON: expecting ',' delimiter, found '\"'"),
        ('{"tree": "h",\n "steps": [', "line 2, column 12: is not JSON: expecting value, the text ends"),
        (
            "{'tree': 'h'}",
            'line 1, column 2: is not JSON: expecting property name enclosed in double quotes, found "\'"',
        ),
        ('{"tree": "h\n', "line 1, column 12: is not JSON: invalid control character, found '\\n'"),
        ('{"tree": "h', "line 1, column 10: is not JSON: unterminated string, found '\"'"),
        ('{"tree": "h", "steps": []}\n}', "line 2, column 1: is not JSON: extra data, found '}'"),
        ("tree: h", "line 1, column 1: is not JSON: expecting value, found 't'"),
        ("\x00", "line 1, column 1: is not JSON: expecting value, found '\\x00'"),
        ('{"tree": "\x00"}', "line 1, column 11: is not JSON: invalid control character, found '\\x00'"),
        ("[" * 100_000, "is nested too deeply"),
        ('{"x":' * 100_000, "is nested too deeply"),
        (b'{"tree": "h",\n "steps": "\xff\xfe"}', "line 2: is not UTF-8 text"),
        ('{"tree": "h"}'.encode("utf-16"), "line 1: is not UTF-8 text"),
        ('{"tree": "h", "tree": "path:3", "steps": []}', "the key 'tree' is given twice"),
        (
            '{"tree": "h", "steps": [{}, {"do": "leave", "client": "P", "do": "x"}]}',
            "steps[1]: the key 'do' is given twice",
        ),
        (
            '{"tree": "h", "steps": [{"notification": {"x": 1, "y": 2, "x": 3}}]}',
            "steps[0].notification: the key 'x' is given twice",
        ),
        ('{"a": {"x": NaN, "x": 1}, "a": 2}', "the key 'a' is given twice"),
        (
            '{"steps": [{"notification": {"x": NaN}}]}',
            "steps[0].notification.x: NaN is not JSON: a number is written in digits",
        ),
        (
            '{"steps": [{"notification": {"x": -Infinity}}]}',
            "steps[0].notification.x: -Infinity is not JSON: a number is written in digits",
        ),
        ('{"steps": [{"notification": {"x": 1e999}}]}', "steps[0].notification.x: 1e999 is too large for a number"),
        (
            f'{{"steps": [{{"notification": {{"x": {"9" * 5000}}}}}]}}',
            "steps[0].notification.x: a number of 5,000 digits is too large",
        ),
        ('{"tree": NaN, "tree": 1e999}', "the key 'tree' is given twice"),
        ("NaN", "NaN is not JSON: a number is written in digits"),
    ],
)
def test_json_that_cannot_be_read(text: str | bytes, line: str) -> None:
    assert text_error(text) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "is empty: a scenario has at least a tree and steps"),
        ('tree = "h"\nsteps = [}\n', "line 2, column 10: is not TOML: invalid value"),
        ('tree = "h"\nsteps = [', "line 2: is not TOML: invalid value, and the text ends"),
        ('tree = "h"\ntree = "path:3"\nsteps = []\n', "line 2, column 16: is not TOML: cannot overwrite a value"),
        ("x = " + "[" * 100_000, "is nested too deeply"),
        (b"tree = 'h'\n\n# \xff", "line 3: is not UTF-8 text"),
        ("tree = 'h'\nsteps = 1979-05-27", 'steps: must be a list of steps, not "1979-05-27"'),
        ("tree = 'h'\nsteps = []\ntau = nan", f"tau: {TAU}, not NaN"),
        (
            "tree = 'h'\n[[steps]]\ndo = 'advertize'",
            f'steps[0].do: unknown step "advertize" (did you mean advertise?); steps are {STEP_NAMES}',
        ),
    ],
)
def test_toml_that_cannot_be_read(text: str | bytes, line: str) -> None:
    assert text_error(text, toml=True) == line


def test_toml_with_an_endless_number() -> None:
    assert text_error("tree = " + "9" * 5000, toml=True).startswith("is not TOML: exceeds the limit (4300 digits)")


# ---- the file ------------------------------------------------------------------------------------------------------


def test_the_line_begins_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(scenario({**ADVERTISE, "at": ["z", 0]})), encoding="utf-8")
    assert file_error(file) == f"{file}: steps[0].at: no broker (z,0): no region 'z'"
    file.write_text("[", encoding="utf-8")
    assert file_error(file) == f"{file}: line 1, column 2: is not JSON: expecting value, the text ends"
    file.write_text("", encoding="utf-8")
    assert file_error(file) == f"{file}: is empty: a scenario has at least a tree and steps"


def test_files_that_are_none(tmp_path: Path) -> None:
    assert file_error(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"
    assert file_error(tmp_path / "no.json") == f"{tmp_path / 'no.json'}: cannot be read: No such file or directory"
    assert file_error(tmp_path / "a\0b") == f"{tmp_path}/a\0b: cannot be read: embedded null byte"


def test_a_large_file_is_refused_before_it_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octopia.embedded.scenario.parse_text", lambda *_, **__: pytest.fail("parsed"))
    file = tmp_path / "junk.json"
    file.write_bytes(b"\xa5" * 10_000_000)
    assert file_error(file) == f"{file}: is too large: it may have at most 8,388,608 bytes"


@pytest.mark.skipif(sys.platform == "win32", reason="no endless file here")
def test_a_file_without_an_end_is_refused() -> None:
    assert file_error(Path("/dev/zero")) == "/dev/zero: is too large: it may have at most 8,388,608 bytes"


def test_a_scenario_that_loads_can_be_replayed_under_every_routing() -> None:
    checked = check_scenario(scenario(ADVERTISE, SUBSCRIBE, OVERLOAD, PUBLISH))
    for routing in ("snr", "idr", "tid", "tid-dynamic"):
        deliveries = replay(checked, routing).steps[3].deliveries
        assert [(d.client, d.subscriptions) for d in deliveries] == [("S", ("s1",))]
