"""The privilege of holding publishers up: who loses it, when, and how it comes back. Time is moved by hand."""

from octopia.net.broker.privilege import CREDIT, BlockPrivilege

TICK_S = 1 / 32  # a binary fraction, so that sums are exact


class Subscriber:
    """A subscriber that is checked 32 times a second: 8 ticks of patience, 32 frames a tick at least."""

    def __init__(self) -> None:
        self.privilege = BlockPrivilege(block_s=0.25, frames_per_s_min=1024, again_s=10.0)
        self.frames = 0
        self.bytes = 0

    def tick(self, frames: int = 0, *, size: int = 100, holds_up: bool = True, is_empty: bool = False) -> bool:
        self.frames += frames
        self.bytes += frames * size
        return self.privilege.check(TICK_S, holds_up, (self.frames, self.bytes), is_empty)

    def has_lost(self) -> bool:
        return self.privilege.lost

    def ticks_until_lost(self, ticks_max: int, frames: int = 0, every: int = 1, size: int = 100) -> int | None:
        """Confirm this many frames every few ticks; returns the tick at which the privilege is lost, or None."""
        for number in range(1, ticks_max + 1):
            if self.tick(frames if number % every == 0 else 0, size=size):
                return number
        return None


def test_who_takes_nothing_holds_up_for_a_moment() -> None:
    subscriber = Subscriber()
    assert not subscriber.tick()
    assert subscriber.ticks_until_lost(100) == 8
    assert subscriber.has_lost()


def test_who_takes_one_in_a_second_hardly_holds_up_longer() -> None:
    subscriber = Subscriber()
    subscriber.tick()
    assert subscriber.ticks_until_lost(100, frames=1, every=32) == 8
    subscriber = Subscriber()
    subscriber.tick()
    assert subscriber.ticks_until_lost(100, frames=1) == 9


def test_who_takes_the_minimum_may_hold_up_for_ever() -> None:
    assert Subscriber().ticks_until_lost(10_000, frames=32) is None
    # In lumps, too, as a client confirms what one read brought.
    assert Subscriber().ticks_until_lost(10_000, frames=256, every=7) is None
    # A little less does not do, in the long run.
    assert Subscriber().ticks_until_lost(10_000, frames=31) is not None


def test_large_frames_count_by_their_size() -> None:
    assert Subscriber().ticks_until_lost(10_000, frames=1, every=4, size=128 * 1024) is None
    assert Subscriber().ticks_until_lost(10_000, frames=1, every=4, size=127 * 1024) is not None


def test_a_large_lump_lasts_for_so_long_and_no_longer() -> None:
    subscriber = Subscriber()
    subscriber.tick()
    subscriber.tick(100_000)
    assert subscriber.ticks_until_lost(1000) == CREDIT * 8


def test_nothing_is_earned_or_spent_while_nobody_is_held_up() -> None:
    subscriber = Subscriber()
    for _ in range(1000):
        assert not subscriber.tick(1000, holds_up=False)
    assert not subscriber.tick()
    for _ in range(7):
        assert not subscriber.tick()
    # Below its mark for a moment: it begins anew.
    assert not subscriber.tick(holds_up=False)
    assert not subscriber.tick()
    assert subscriber.ticks_until_lost(100) == 8


def test_it_comes_back_after_ten_seconds_if_all_was_taken_meanwhile() -> None:
    subscriber = Subscriber()
    subscriber.tick()
    assert subscriber.ticks_until_lost(100) == 8
    for _ in range(1000):
        subscriber.tick(holds_up=False)
    assert subscriber.has_lost(), "its queue was never empty"
    subscriber.tick(holds_up=False, is_empty=True)
    assert not subscriber.has_lost()
    subscriber.tick()
    assert subscriber.ticks_until_lost(100) == 8
    lost = 0
    while subscriber.has_lost():
        subscriber.tick(holds_up=False, is_empty=True)
        lost += 1
    assert lost == 320
