"""The mark of a link's queue follows the traffic of the link. Time is moved by hand."""

from octopia.net.broker.marks import (
    BYTES_PER_S_FIRST,
    FRAMES_PER_S_FIRST,
    MARK_BYTES_MIN,
    MARK_FRAMES_MIN,
    MARK_S,
    Marks,
)

TICK_S = 1 / 40
FIRST = (int(FRAMES_PER_S_FIRST * MARK_S), int(BYTES_PER_S_FIRST * MARK_S))


def link() -> Marks:
    return Marks(50_000, 64 * 1024 * 1024)


def after(marks: Marks, per_s: int, size: int, ticks: int, start: int = 0, busy: bool = True) -> Marks:
    """The link after this many ticks at this rate."""
    for tick in range(start, start + ticks + 1):
        frames = per_s * tick // 40
        marks.check(frames, frames * size, tick * TICK_S, busy)
    return marks


def test_a_link_that_nothing_waits_for_is_taken_for_a_quick_one() -> None:
    marks = link()
    assert (marks.frames, marks.bytes) == FIRST
    after(marks, 100, 100, 200, busy=False)
    assert (marks.frames, marks.bytes) == FIRST


def test_the_mark_is_a_tenth_of_a_second_of_what_the_link_carries() -> None:
    marks = after(link(), 80_000, 200, 200)
    assert abs(marks.frames - 8_000) <= 1
    assert abs(marks.bytes - 1_600_000) <= 200
    # At rest it stays, and falls when the link turns out to be slower.
    after(marks, 0, 200, 400, start=201, busy=False)
    assert abs(marks.frames - 8_000) <= 1
    after(marks, 0, 200, 400, start=602)
    assert (marks.frames, marks.bytes) == (MARK_FRAMES_MIN, MARK_BYTES_MIN)


def test_the_mark_is_never_above_half_of_the_bound() -> None:
    assert after(link(), 2_000_000, 1000, 200).frames == 25_000
    assert after(link(), 2_000_000, 1000, 200).bytes == 32 * 1024 * 1024
    small = Marks(200, 1000)
    assert (small.frames, small.bytes) == (100, 500)
    assert Marks(1, 1).frames == 1


def test_a_link_that_starts_anew_counts_from_nothing_again() -> None:
    marks = after(link(), 80_000, 200, 200)
    marks.check(0, 0, 201 * TICK_S, True)
    assert MARK_FRAMES_MIN <= marks.frames < 8_000
    marks.check(0, 0, 201 * TICK_S, True)  # no time has passed
    marks.check(2_000, 400_000, 202 * TICK_S, True)
    assert MARK_FRAMES_MIN <= marks.frames < 8_000
