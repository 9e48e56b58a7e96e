"""The link status table (LST): which output queues are overloaded, by Eq. 10 of the paper.

    Q_l · (1 + Q_in) / (1 + Q_out) > τ

Q_l is the queue's length, Q_in and Q_out the messages that entered and left it in the last full window t_w; the
fraction is the congestion element CE. The host reports totals at any time, at least once per window. The window is
tracked here from the `now` of each sample, without a timer or clock. Verdicts are computed when a sample comes in
(rarely) and only looked up when a notification is routed (often). CE is 1 until the first full window has passed. A
link that is down counts as overloaded whatever its queue; when it comes up, its status is reset.

Two counters tell whether anything changed, so that decisions based on the table can be cached: `queues_changed` grows
with every change of a queue, `verdicts_changed` with every change that matters to a routing that reads verdicts, and
compares queues only while some link is overloaded.
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
    __slots__ = ("element", "entered_before", "is_down", "left_before", "overloaded", "window_start_s")

    def __init__(self) -> None:
        self.element = 1.0
        self.window_start_s: float | None = None
        self.entered_before = 0
        self.left_before = 0
        self.is_down = False
        self.overloaded = False


class Lst:
    """Status of every output queue of one broker, read-only: Q_l of each in `queue_lengths`, and how many hold any."""

    __slots__ = (
        "_links",
        "_overloaded",
        "_tau",
        "queue_lengths",
        "queues",
        "queues_changed",
        "verdicts_changed",
        "window_s",
    )

    def __init__(self, neighbours: tuple[BrokerId, ...], parameters: CongestionParameters) -> None:
        self._tau = parameters.tau
        self.window_s = parameters.window_s
        self._links = {neighbour: _LinkStatus() for neighbour in neighbours}
        self.queue_lengths = dict.fromkeys(neighbours, 0)
        self.queues = 0
        self._overloaded = 0
        self.queues_changed = 0
        self.verdicts_changed = 0

    def sample(self, neighbour: BrokerId, queue_length: int, entered: int, left: int, now: float) -> None:
        """Process a sample; `entered` and `left` are totals since the link was made, or last came up."""
        link = self._links[neighbour]
        start_s = link.window_start_s
        if start_s is None or now - start_s >= self.window_s:
            if start_s is not None:
                link.element = (1 + entered - link.entered_before) / (1 + left - link.left_before)
            link.window_start_s = now
            link.entered_before = entered
            link.left_before = left
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

    def element(self, neighbour: BrokerId) -> float:
        """CE of the last full window."""
        return self._links[neighbour].element

    def least_loaded(self, neighbours: list[BrokerId]) -> BrokerId:
        """The one with the least Q_l; of several equal ones the first, so that the choice is deterministic."""
        return min(neighbours, key=self.queue_lengths.__getitem__)
