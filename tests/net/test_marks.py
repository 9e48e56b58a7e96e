"""The mark of a link's queue follows what the link carries. Time is moved by hand."""

from octopia.net.broker.marks import MARK_BYTES_MIN, MARK_FRAMES_MIN, Marks

TICK_S = 1 / 40


def after(marks: Marks, per_s: int, size: int, ticks: int, start: int = 0) -> Marks:
    """As the link stands after so many ticks at this rate."""
    for tick in range(start, start + ticks + 1):
        frames = per_s * tick // 40
        marks.check(frames, frames * size, tick * TICK_S)
    return marks


def test_a_link_at_rest_has_the_least_mark() -> None:
    marks = Marks(50_000, 64 * 1024 * 1024)
    assert (marks.frames, marks.bytes) == (MARK_FRAMES_MIN, MARK_BYTES_MIN)
    after(marks, 1000, 100, 200)
    assert (marks.frames, marks.bytes) == (MARK_FRAMES_MIN, MARK_BYTES_MIN)


def test_the_mark_is_a_tenth_of_a_second_of_what_the_link_carries() -> None:
    marks = after(Marks(50_000, 64 * 1024 * 1024), 80_000, 200, 200)
    assert abs(marks.frames - 8_000) <= 1
    assert abs(marks.bytes - 1_600_000) <= 200
    # And falls again when it carries less.
    after(marks, 0, 200, 400, start=201)
    assert (marks.frames, marks.bytes) == (MARK_FRAMES_MIN, MARK_BYTES_MIN)


def test_the_mark_is_never_above_half_of_the_bound() -> None:
    assert after(Marks(50_000, 64 * 1024 * 1024), 2_000_000, 1000, 200).frames == 25_000
    assert after(Marks(50_000, 64 * 1024 * 1024), 2_000_000, 1000, 200).bytes == 32 * 1024 * 1024
    small = Marks(200, 1000)
    assert (small.frames, small.bytes) == (100, 500)
    assert Marks(1, 1).frames == 1


def test_a_link_that_starts_anew_counts_from_nothing_again() -> None:
    marks = after(Marks(50_000, 64 * 1024 * 1024), 80_000, 200, 200)
    marks.check(0, 0, 201 * TICK_S)
    assert MARK_FRAMES_MIN <= marks.frames < 8_000
    marks.check(0, 0, 201 * TICK_S)  # no time has passed
    marks.check(2_000, 400_000, 202 * TICK_S)
    assert MARK_FRAMES_MIN <= marks.frames < 8_000
