"""Pauses between attempts: they double up to a bound, start over, and leave the program's own random numbers alone."""

import random

from octopia.net.pauses import Pauses


def test_pauses_double_up_to_five_seconds() -> None:
    pauses = Pauses()
    for longest_s in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0):
        assert longest_s / 2 <= pauses.next_s() <= longest_s
    pauses.reset()
    assert 0.025 <= pauses.next_s() <= 0.05


def test_pauses_stay_short_as_long_as_they_must_and_grow_from_there() -> None:
    pauses = Pauses()
    for longest_s in (0.05, 0.1, 0.2, 0.25, 0.25, 0.25):
        assert longest_s / 2 <= pauses.next_s(0.25) <= longest_s
    for longest_s in (0.5, 1.0, 2.0, 2.0):
        assert longest_s / 2 <= pauses.next_s(2.0) <= longest_s


def test_random_numbers_of_the_program_are_not_used() -> None:
    state = random.getstate()
    Pauses().next_s()
    assert random.getstate() == state


def test_two_who_wait_do_not_wait_the_same() -> None:
    assert len({Pauses().next_s() for _ in range(20)}) > 1
