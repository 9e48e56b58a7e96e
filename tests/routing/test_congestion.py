"""Eq. 10 by hand: Q_l · (1 + Q_in) / (1 + Q_out) > τ, over the last full window."""

import pytest

from octopia.routing import CongestionParameters
from octopia.routing.congestion import Lst
from octopia.topology import BrokerId

A, B = BrokerId("a", 0), BrokerId("b", 0)


def lst(tau: float = 10.0, window_s: float = 0.05) -> Lst:
    return Lst((A, B), CongestionParameters(tau=tau, window_s=window_s))


def test_an_unsampled_link_is_free_and_empty() -> None:
    table = lst()
    assert (table.overloaded(A), table.queue_lengths[A]) == (False, 0)


@pytest.mark.parametrize(("length", "overloaded"), [(0, False), (10, False), (11, True), (50, True)])
def test_before_the_first_full_window_the_length_alone_counts(length: int, overloaded: bool) -> None:
    table = lst()
    table.sample(A, length, entered=1000, left=0, now=0.0)
    assert table.overloaded(A) is overloaded
    assert table.overloaded(B) is False, "per directed link"


def test_a_growing_queue_is_overloaded_earlier_and_a_shrinking_one_later() -> None:
    table = lst()
    table.sample(A, 0, entered=100, left=100, now=1.0)
    # 5 entered more than the 1 that left: 6 · (1+8)/(1+2) = 18 > 10
    table.sample(A, 6, entered=108, left=102, now=1.05)
    assert table.overloaded(A)
    # 30 left, 5 entered: 20 · (1+5)/(1+30) = 3.87, free although longer than τ
    table.sample(A, 20, entered=113, left=132, now=1.10)
    assert not table.overloaded(A)


def test_within_a_window_the_length_is_renewed_and_the_congestion_element_is_kept() -> None:
    table = lst()
    table.sample(A, 0, entered=0, left=0, now=0.0)
    table.sample(A, 4, entered=5, left=1, now=0.05)  # CE = 6/2 = 3: 12 > 10
    assert table.overloaded(A)
    table.sample(A, 3, entered=500, left=1, now=0.09)  # same window: CE stays 3, and 9 is not over 10
    assert not table.overloaded(A)
    table.sample(A, 3, entered=500, left=1, now=0.10)  # 0.05 s have passed: CE = 496/1
    assert table.overloaded(A)


def test_tau_is_a_bound_that_must_be_exceeded() -> None:
    table = lst(tau=3.5)
    table.sample(A, 3, 0, 0, 0.0)
    table.sample(B, 4, 0, 0, 0.0)
    assert (table.overloaded(A), table.overloaded(B)) == (False, True)


def test_least_loaded_takes_the_first_of_equals() -> None:
    table = lst()
    assert table.least_loaded([B, A]) == B
    table.sample(B, 2, 0, 0, 0.0)
    assert table.least_loaded([B, A]) == A


@pytest.mark.parametrize("parameters", [{"tau": 0.0}, {"tau": float("nan")}, {"window_s": 0.0}, {"window_s": -1.0}])
def test_senseless_parameters_are_refused(parameters: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be a positive number"):
        CongestionParameters(**parameters)


def test_how_many_queues_hold_anything() -> None:
    table = lst()
    counts = [table.queues]
    for neighbour, length in ((A, 2), (A, 3), (B, 1), (A, 0), (A, 0), (A, 4)):
        table.sample(neighbour, length, 0, 0, 0.0)
        counts.append(table.queues)
    table.came_up(A)
    counts.append(table.queues)
    table.came_up(A)
    counts.append(table.queues)
    assert counts == [0, 1, 1, 2, 1, 1, 2, 1, 1]
