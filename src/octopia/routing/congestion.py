"""The link status table (LST): which output queues are overloaded, by Eq. 10 of the paper.

    Q_l · (1 + Q_in) / (1 + Q_out) > τ

Q_l is the queue's length, Q_in and Q_out what entered and left it in the last full window t_w; the fraction is the
congestion element CE. Rules of this file: the host tells totals whenever it likes and at least once per window; the
window is kept here, from the `now` of each sample, so there is no timer and no clock. Verdicts are worked out when a
sample comes in (rarely) and only looked up when a notification is routed (often). Until the first full window has
passed CE is 1. A link that is down counts as overloaded whatever its queue; when it comes up its status starts anew.

Two numbers say whether anything changed, so that what was decided by the table can be remembered: `queues_changed`
grows with every change of a queue, `verdicts_changed` with every change that can matter to who asks which links are
overloaded and compares queues only while some link is.

Links may differ in speed. How fast one is shows in what leaves in a window from a queue that held more than that when
the window began, and so was never empty: its pace, smoothed over some windows. `waits` compares queues by the time they
take instead of by their length; links whose paces differ by less than a half count as equally fast, so that where all
are alike waits are lengths.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from octopia.topology import BrokerId

TAU_DEFAULT = 10.0
WINDOW_DEFAULT_S = 0.05
# A pace moves by this share of what a window shows. A link on which nothing left in the first is not at a standstill.
_PACE_SHARE = 1 / 8
_PACE_MIN = 0.1


@dataclass(frozen=True, slots=True)
class CongestionParameters:
    """τ of Eq. 10 and the window t_w in seconds; the defaults are the paper's setting."""

    tau: float = TAU_DEFAULT
    window_s: float = WINDOW_DEFAULT_S

    def __post_init__(self) -> None:
        if not self.tau > 0:
            raise ValueError(f"tau must be a positive number, not {self.tau!r}")
        if not self.window_s > 0:
            raise ValueError(f"window_s must be a positive number of seconds, not {self.window_s!r}")


class _LinkStatus:
    __slots__ = (
        "element",
        "entered_before",
        "is_down",
        "left_before",
        "length_before",
        "overloaded",
        "pace",
        "window_start_s",
    )

    def __init__(self) -> None:
        self.element = 1.0
        self.window_start_s: float | None = None
        self.entered_before = 0
        self.left_before = 0
        self.length_before = 0
        self.is_down = False
        self.overloaded = False
        # messages a second while there were more to send; 0 where that was never seen
        self.pace = 0.0


class Lst:
    """Status of every output queue of one broker, to look at: Q_l of each in `queue_lengths`, how many hold any."""

    __slots__ = (
        "_links",
        "_overloaded",
        "_tau",
        "_window_s",
        "queue_lengths",
        "queues",
        "queues_changed",
        "verdicts_changed",
    )

    def __init__(self, neighbours: tuple[BrokerId, ...], parameters: CongestionParameters) -> None:
        self._tau = parameters.tau
        self._window_s = parameters.window_s
        self._links = {neighbour: _LinkStatus() for neighbour in neighbours}
        self.queue_lengths = dict.fromkeys(neighbours, 0)
        self.queues = 0
        self._overloaded = 0
        self.queues_changed = 0
        self.verdicts_changed = 0

    def sample(self, neighbour: BrokerId, queue_length: int, entered: int, left: int, now: float) -> None:
        """Take in a sample; `entered` and `left` are totals since the link was made, or last came up."""
        link = self._links[neighbour]
        start_s = link.window_start_s
        if start_s is None or now - start_s >= self._window_s:
            if start_s is not None:
                link.element = (1 + entered - link.entered_before) / (1 + left - link.left_before)
                if left - link.left_before < link.length_before:
                    _note_pace(link, (left - link.left_before) / (now - start_s))
            link.window_start_s = now
            link.entered_before = entered
            link.left_before = left
            link.length_before = queue_length
        lengths = self.queue_lengths
        before = lengths[neighbour]
        overloaded = link.is_down or queue_length * link.element > self._tau
        if queue_length != before:
            self.queues += (queue_length > 0) - (before > 0)
            lengths[neighbour] = queue_length
            self.queues_changed += 1
            if self._overloaded:
                self.verdicts_changed += 1
        if overloaded != link.overloaded:
            self._turn(link, overloaded)

    def went_down(self, neighbour: BrokerId) -> None:
        link = self._links[neighbour]
        link.is_down = True
        self._turn(link, True)

    def came_up(self, neighbour: BrokerId) -> None:
        """A fresh connection: its totals start at 0."""
        self._turn(self._links[neighbour], False)
        self._links[neighbour] = _LinkStatus()
        self.queues -= self.queue_lengths[neighbour] > 0
        self.queue_lengths[neighbour] = 0

    def _turn(self, link: _LinkStatus, overloaded: bool) -> None:
        self._overloaded += overloaded - link.overloaded
        link.overloaded = overloaded
        self.queues_changed += 1
        self.verdicts_changed += 1

    def overloaded(self, neighbour: BrokerId) -> bool:
        return self._links[neighbour].overloaded

    def queue_length(self, neighbour: BrokerId) -> int:
        return self.queue_lengths[neighbour]

    def waits(self) -> Mapping[BrokerId, int]:
        """By neighbour how long its queue takes, in messages of the fastest link."""
        fastest = max((link.pace for link in self._links.values()), default=0.0)
        if not fastest:
            return self.queue_lengths
        return {
            neighbour: length * max(1, round(fastest / pace)) if (pace := self._links[neighbour].pace) else length
            for neighbour, length in self.queue_lengths.items()
        }

    def least_loaded(self, neighbours: list[BrokerId]) -> BrokerId:
        """The one with the least Q_l; the first of them where several are equal, so that the choice is fixed."""
        return min(neighbours, key=self.queue_lengths.__getitem__)


def _note_pace(link: _LinkStatus, pace: float) -> None:
    moved = link.pace + (pace - link.pace) * _PACE_SHARE if link.pace else pace
    link.pace = max(moved, _PACE_MIN)
