"""The share of a stream that is shown, against a plain count."""

from octopia.console.sampling import Sampler


def test_without_a_rate_nothing_is_skipped_and_credit_bounds_what_is_sent() -> None:
    sampler = Sampler(5, None, 0.0)
    assert not sampler.skips
    assert [sampler.take(3, 0.0), sampler.take(3, 0.0), sampler.take(3, 0.0)] == [3, 2, 0]
    assert sampler.take_skipped() == 0


def test_with_a_rate_what_exceeds_it_is_skipped_and_counted_once() -> None:
    sampler = Sampler(1000, 10.0, 0.0)
    assert sampler.take(25, 0.0) == 10
    assert sampler.take_skipped() == 15
    assert sampler.take_skipped() == 0
    # half a second gives five more
    assert sampler.take(25, 0.5) == 5
    # however long it was quiet, no more than a second's worth gathers
    assert sampler.take(100, 1000.0) == 10
    assert sampler.take_skipped() == 20 + 90


def test_a_rate_below_one_lets_one_through_now_and_then() -> None:
    sampler = Sampler(1000, 0.5, 0.0)
    assert sum(sampler.take(1, second) for second in range(20)) in (10, 11)


def test_a_rate_of_nought_is_a_pause_and_a_higher_rate_ends_it() -> None:
    sampler = Sampler(1000, 10.0, 0.0)
    sampler.set_rate(0.0, 0.0)
    assert [sampler.take(7, 1.0), sampler.take(7, 100.0)] == [0, 0]
    sampler.set_rate(10.0, 100.0)
    assert sampler.take(7, 101.0) == 7
    assert sampler.take_skipped() == 14


def test_with_a_rate_credit_bounds_too() -> None:
    sampler = Sampler(3, 100.0, 0.0)
    assert sampler.take(50, 0.0) == 3
    assert sampler.take_skipped() == 47
