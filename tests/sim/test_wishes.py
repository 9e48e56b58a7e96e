"""Priorities and deadlines in a run: against the second simulator, and invariants that always hold."""

from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.errors import InputError
from octopia.routing import POLICIES
from octopia.sim import RunSpec, check_run, simulate
from octopia.sim.disciplines import WEIGHTS, Lanes
from octopia.sim.model import ClientModel, LinkModel, Machines, Model, Processor, Receiver
from octopia.topology import Scot, parse_tree
from octopia.trace import TraceWriter
from octopia.workload import Wish, WishSpec, Workload, WorkloadSpec, make_workload, synthetic_quotes, workload_tables
from tests.effort import cases
from tests.sim.compared import same_as_naive
from tests.sim.worlds import drawn

OVERLAY = Scot(parse_tree("path:3"), 3)
BUSY_LINKS = Model(
    processor=Processor(base_ns=211_003),
    link=LinkModel(per_message_ns=9_000_017, delay_ns=70_001),
    client=ClientModel(delay_ns=13),
)
SHARED = Model(
    processor=Processor(base_ns=900_007),
    link=LinkModel(per_message_ns=4_000_037, delay_ns=70_001),
    machines=Machines(count=4, cores=2),
    receiver=Receiver(3),
)
SECOND = 1_000_000_000


def wishful(seed: int, notifications: int = 300) -> Workload:
    """Four priorities, some with deadlines; the busy links make all of them matter."""
    span_ns = 4_000_003 * notifications
    world = drawn(OVERLAY, seed, publishers=4, subscribers=12, notifications=notifications, span_ns=span_ns)
    wishes = {
        f"s{n}": Wish(priority=n % 4, deadline_ns=(0, 25_000_007)[n % 3 == 0], ordered=n % 4 == 0) for n in range(10)
    }
    return replace(world, wishes=wishes)


@pytest.mark.parametrize("routing", POLICIES)
@pytest.mark.parametrize("model", [BUSY_LINKS, SHARED], ids=["links", "machines"])
def test_same_moments_as_the_second_simulator(tmp_path: Path, routing: str, model: Model) -> None:
    world = wishful(1)
    _, expired = same_as_naive(tmp_path, world, OVERLAY, routing, model)
    assert expired, "links were busy enough to make something late"
    assert judged(tmp_path, world) == set()


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        simulate(wishful(2), OVERLAY, RunSpec(routing="idr", model=BUSY_LINKS), tmp_path / name)
        contents.append({file.name: file.read_bytes() for file in sorted((tmp_path / name).iterdir())})
    assert contents[0] == contents[1]


def test_a_run_without_deadlines_has_no_table_for_what_expired(tmp_path: Path) -> None:
    world = replace(wishful(3), wishes={"s1": Wish(priority=2)})
    run = simulate(world, OVERLAY, RunSpec(routing="snr", model=BUSY_LINKS), tmp_path)
    assert not (tmp_path / "expired.parquet").exists()
    assert "expired" not in run.rows


# ---- judges


def judged(folder: Path, world: Workload) -> set[str]:
    return {finding.rule for finding in check_run(world, OVERLAY, folder) if not finding.passed}


def test_judges_know_what_is_too_old(tmp_path: Path) -> None:
    world = wishful(4)
    simulate(world, OVERLAY, RunSpec(routing="snr", model=BUSY_LINKS), tmp_path)
    assert judged(tmp_path, world) == set()
    patient = replace(world, wishes={name: replace(wish, deadline_ns=10**12) for name, wish in world.wishes.items()})
    assert judged(tmp_path, patient) == {"nothing is dropped before its deadline"}
    hasty = replace(world, wishes={name: replace(wish, deadline_ns=1000) for name, wish in world.wishes.items()})
    assert judged(tmp_path, hasty) == {"nothing is delivered after its deadline"}
    # what was dropped and is not in the table is missing
    with TraceWriter(tmp_path / "empty", ("expired",)):
        pass
    (tmp_path / "empty" / "expired.parquet").replace(tmp_path / "expired.parquet")
    assert judged(tmp_path, world) == {"every notification reaches every interested client"}


# ---- lanes

Pushes = st.lists(st.one_of(st.integers(0, 3), st.just(-1), st.none()), max_size=120)


@settings(max_examples=cases(300), deadline=None)
@given(Pushes)
def test_lanes_against_a_plain_rule(steps: list[int | None]) -> None:
    """Steps: a priority enters that lane, -1 enters a fence, None takes one out. The rule looks at one list."""
    lanes: Lanes[int] = Lanes()
    waiting: list[tuple[int, int]] = []
    used = dict.fromkeys(range(4), 0)
    for number, step in enumerate([*steps, *[None] * len(steps)]):
        if step is not None:
            lanes.push(number, None if step < 0 else step)
            waiting.append((step, number))
            continue
        assert len(lanes) == len(waiting)
        if not waiting:
            with pytest.raises(IndexError):
                lanes.pop()
            continue
        fence = next((place for place, (lane, _) in enumerate(waiting) if lane < 0), len(waiting))
        place = 0
        if fence:
            open_lanes = {lane for lane, _ in waiting[:fence]}
            if all(used[lane] == WEIGHTS[lane] for lane in open_lanes):
                used = dict.fromkeys(range(4), 0)
            best = max(lane for lane in open_lanes if used[lane] < WEIGHTS[lane])
            used[best] += 1
            place = next(place for place, (lane, _) in enumerate(waiting) if lane == best)
        assert lanes.pop() == waiting.pop(place)[1]


def test_nobody_starves() -> None:
    """Every lane has as much as it can send: of 85 in a row each gets its weight, and none waits longer than that."""
    lanes: Lanes[int] = Lanes()
    for priority in range(4):
        for _ in range(300):
            lanes.push(priority, priority)
    sent = deque(lanes.pop() for _ in range(255))
    for start in range(0, 255, 85):
        assert [list(sent)[start : start + 85].count(priority) for priority in range(4)] == [1, 4, 16, 64]


# ---- workload


def test_who_asks_for_what_follows_from_the_seed() -> None:
    quotes = synthetic_quotes(seed=1, symbols=30, days=50)
    spec = WorkloadSpec(publishers=5, subscribers=200, selectivity=0.1, notifications_per_publisher=5)
    asked = WishSpec(urgent_share=0.2, priority=2, deadline_share=0.3, deadline_s=0.5)
    world = make_workload(spec, OVERLAY, quotes, wishes=asked)
    assert world.equals(make_workload(spec, OVERLAY, quotes, wishes=asked))
    assert not world.equals(make_workload(spec, OVERLAY, quotes))
    urgent = [client for client, wish in world.wishes.items() if wish.priority]
    timed = [client for client, wish in world.wishes.items() if wish.deadline_ns]
    assert (20 <= len(urgent) <= 60, 35 <= len(timed) <= 85) == (True, True)
    assert {world.wishes[client].priority for client in urgent} == {2}
    assert {world.wishes[client].deadline_ns for client in timed} == {SECOND // 2}
    fewer = make_workload(replace(spec, subscribers=100), OVERLAY, quotes, wishes=asked).wishes
    assert fewer == {client: wish for client, wish in world.wishes.items() if int(client[1:]) < 100}


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"urgent_share": 2.0}, "urgent_share is 2.0: give a share from 0 to 1, for example 0.1"),
        ({"priority": 4}, r"priority is 4: give 0 \(ordinary\) to 3 \(most urgent\)"),
        ({"deadline_s": 0.0}, "deadline_s is 0.0: give seconds above 0 and up to 86,400"),
    ],
)
def test_wishes_that_cannot_be(wrong: dict[str, float], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        WishSpec(**wrong)  # type: ignore[arg-type]  # that is the point


def test_wishes_are_not_stored() -> None:
    with pytest.raises(InputError, match="cannot be stored"):
        workload_tables(wishful(1))
