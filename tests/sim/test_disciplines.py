"""Lines and queues: the order of service, compared with plain rules."""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.sim.disciplines import Servers
from tests.effort import cases


@settings(max_examples=cases(150), deadline=None)
@given(st.integers(1, 4), st.lists(st.booleans(), max_size=60))
def test_nobody_waits_while_a_server_is_free_and_first_come_is_first_served(count: int, steps: list[bool]) -> None:
    """The rule: the first `count` of those that came and were not yet done are being served."""
    servers: Servers[int] = Servers(count)
    present: deque[int] = deque()
    for number, comes in enumerate(steps):
        before = list(present)[:count]
        if comes:
            present.append(number)
            begun = servers.join(number)
        elif present:
            done = before[number % len(before)]
            present.remove(done)
            begun = servers.leave()
        else:
            continue
        fresh = [each for each in list(present)[:count] if each not in before]
        assert ([] if begun is None else [begun]) == fresh


def test_one_that_goes_away_is_not_served() -> None:
    servers: Servers[str] = Servers(1)
    assert [servers.join(name) for name in "abc"] == ["a", None, None]
    servers.forget("b")
    servers.forget("z")
    assert [servers.leave(), servers.leave()] == ["c", None]
