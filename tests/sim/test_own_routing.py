"""A user's own routing, named `module:NAME`: it runs like ours, and its faults are reported."""

from pathlib import Path

import pytest

from octopia.errors import InputError, LocalProtocolError
from octopia.routing import check_routings, policy_named
from octopia.sim import RunSpec, check_run, load_model, simulate
from octopia.topology import Scot, parse_tree
from tests.sim.worlds import drawn, rows

OVERLAY = Scot(parse_tree("path:3"), 3)
WORLD = drawn(OVERLAY, 3, publishers=5, subscribers=20, notifications=200, span_ns=1_000_000_000)
IDEAS = """
from dataclasses import replace
from octopia.routing import Decision, policy_named

SNR = policy_named("snr")


def _far_first(state, matched, header, came_by):
    decision = SNR.route(state, matched, header, came_by)
    copies = sorted(decision.copies, key=lambda copy: copy[0].cluster == state.id.cluster)
    return Decision(decision.recipients, tuple(copies))


def _send_back(state, matched, header, came_by):
    return SNR.route(state, matched, header, None) if came_by is None else Decision((), ((came_by, header),))


FAR_FIRST = replace(SNR, name="far-first", title="other clusters first", route=_far_first)
PING_PONG = replace(SNR, name="ping-pong", title="back and forth", route=_send_back)
NUMBER = 7
"""


@pytest.fixture
def ideas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module of this name can be imported: another for each test, since modules stay."""
    name = f"ideas_{request.node.name}"
    (tmp_path / f"{name}.py").write_text(IDEAS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_it_runs_and_is_judged(tmp_path: Path, ideas: str) -> None:
    hops = {}
    deliveries = {}
    for name in ("snr", f"{ideas}:FAR_FIRST"):
        folder = tmp_path / name.replace(":", "-")
        run = simulate(WORLD, OVERLAY, RunSpec(routing=name, model=load_model("paper"), seed=1), folder)
        assert run.spec.routing == name
        findings = check_run(WORLD, OVERLAY, folder)
        assert all(finding.passed for finding in findings)
        assert "every bit of every CIV is exact at the end" in [finding.rule for finding in findings]
        hops[name] = sorted((row["request"], row["sender"], row["receiver"]) for row in rows(folder, "hops"))
        deliveries[name] = sorted((row["request"], row["client"]) for row in rows(folder, "deliveries"))
    theirs, mine = hops
    assert hops[theirs] == hops[mine], "the same copies on the same links"
    assert deliveries[theirs] == deliveries[mine] != []


def test_one_that_goes_in_circles_is_stopped(tmp_path: Path, ideas: str) -> None:
    with pytest.raises(LocalProtocolError, match=rf"'{ideas}:PING_PONG' goes in circles: .* hops among 9 brokers"):
        simulate(WORLD, OVERLAY, RunSpec(routing=f"{ideas}:PING_PONG", model=load_model("paper")), tmp_path / "run")


def test_what_cannot_be_found_is_said(tmp_path: Path, ideas: str) -> None:
    (tmp_path / "broken_ideas.py").write_text("1 / 0\n", encoding="utf-8")
    for name, problem in (
        ("none_such:X", "module 'none_such' cannot be imported (ModuleNotFoundError: No module named 'none_such')"),
        ("broken_ideas:X", "module 'broken_ideas' cannot be imported (ZeroDivisionError: division by zero)"),
        (":X", "module '' cannot be imported (ValueError: Empty module name)"),
        (f"{ideas}:FAR_FRIST", f"module '{ideas}' has no such name; write it as MODULE:NAME"),
        (f"{ideas}:NUMBER", f"module '{ideas}' has no Policy there, but a value of type int; write it as MODULE:NAME"),
    ):
        with pytest.raises(InputError) as caught:
            policy_named(name)
        assert str(caught.value) == f"routing {name!r}: {problem}"


def test_several_are_named_once_each_and_not_everywhere(ideas: str) -> None:
    check_routings(("snr", f"{ideas}:FAR_FIRST"), own=True)
    for names, own, problem in (
        ((), True, "none is named; the routings are snr, idr, fdr, tid, tid-dynamic, or MODULE:NAME of your own"),
        (("snr", "idr", "snr"), True, "snr is named twice"),
        (
            (f"{ideas}:FAR_FIRST",),
            False,
            f"unknown routing '{ideas}:FAR_FIRST'; the routings are snr, idr, fdr, ",
        ),
    ):
        with pytest.raises(InputError) as caught:
            check_routings(names, own=own)
        assert str(caught.value).startswith(problem)
