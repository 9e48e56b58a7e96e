"""The link status table (LST): which output queues are overloaded, by Eq. 10 of the paper.

    Q_l · (1 + Q_in) / (1 + Q_out) > τ

Q_l is the queue's length, Q_in and Q_out what entered and left it in the last full window t_w; the fraction is the
congestion element CE. Rules of this file: the host tells totals whenever it likes and at least once per window; the
window is kept here, from the `now` of each sample, so there is no timer and no clock. Verdicts are worked out when a
sample comes in (rarely) and only looked up when a notification is routed (often). Until the first full window has
passed CE is 1. A link that is down counts as overloaded whatever its queue; when it comes up its status starts anew.
"""

from dataclasses import dataclass

from octopia.topology import BrokerId

TAU_DEFAULT = 10.0
WINDOW_DEFAULT_S = 0.05


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
    __slots__ = ("element", "entered_before", "left_before", "queue_length", "window_start_s")

    def __init__(self) -> None:
        self.queue_length = 0
        self.element = 1.0
        self.window_start_s: float | None = None
        self.entered_before = 0
        self.left_before = 0


class Lst:
    """Status of every output queue of one broker."""

    __slots__ = ("_down", "_links", "_overloaded", "_parameters")

    def __init__(self, neighbours: tuple[BrokerId, ...], parameters: CongestionParameters) -> None:
        self._parameters = parameters
        self._links = {neighbour: _LinkStatus() for neighbour in neighbours}
        self._overloaded = dict.fromkeys(neighbours, False)
        self._down: set[BrokerId] = set()

    def sample(self, neighbour: BrokerId, queue_length: int, entered: int, left: int, now: float) -> None:
        """Take in a sample; `entered` and `left` are totals since the link was made, or last came up."""
        link = self._links[neighbour]
        if link.window_start_s is None:
            self._open_window(link, entered, left, now)
        elif now - link.window_start_s >= self._parameters.window_s:
            link.element = (1 + entered - link.entered_before) / (1 + left - link.left_before)
            self._open_window(link, entered, left, now)
        link.queue_length = queue_length
        if neighbour not in self._down:
            self._overloaded[neighbour] = queue_length * link.element > self._parameters.tau

    def went_down(self, neighbour: BrokerId) -> None:
        self._down.add(neighbour)
        self._overloaded[neighbour] = True

    def came_up(self, neighbour: BrokerId) -> None:
        """A fresh connection: its totals start at 0."""
        self._down.discard(neighbour)
        self._links[neighbour] = _LinkStatus()
        self._overloaded[neighbour] = False

    @staticmethod
    def _open_window(link: _LinkStatus, entered: int, left: int, now: float) -> None:
        link.window_start_s = now
        link.entered_before = entered
        link.left_before = left

    def overloaded(self, neighbour: BrokerId) -> bool:
        return self._overloaded[neighbour]

    def queue_length(self, neighbour: BrokerId) -> int:
        return self._links[neighbour].queue_length

    def least_loaded(self, neighbours: list[BrokerId]) -> BrokerId:
        """The one with the least Q_l; the first of them where several are equal, so that the choice is fixed."""
        return min(neighbours, key=self.queue_length)
