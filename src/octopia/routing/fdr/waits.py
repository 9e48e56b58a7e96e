"""How long a message would wait in an output queue: Q_l times the time its link takes per message.

Q_l alone does not compare a slow link with a fast one. The pace of a link is measured while its queue is not empty, so
that the link is busy: elapsed time divided by messages sent. An empty queue shows only that the link is not slower than
what left since the sample before; without that, a link that stood still once would count as slow for ever. Measuring
uses the samples of the LST and their `now`, without a timer. A link that was never measured counts as being as fast as
the one measured last.
"""

from octopia.routing.congestion import CongestionParameters, Lst
from octopia.topology import BrokerId

# Messages per measurement; while fewer have left, only a pace slower than the previous one counts.
MEASURED_OVER = 8
# The pace while no link was measured: any value works, since all are equal.
FIRST_PACE_S = 0.001


class _Pace:
    __slots__ = ("left", "sampled_s", "seconds", "since_s")

    def __init__(self) -> None:
        self.seconds: float | None = None
        self.sampled_s: float | None = None
        self.since_s: float | None = None
        self.left = 0

    @property
    def is_slow(self) -> bool:
        return self.seconds is not None and self.seconds > FIRST_PACE_S


class WaitingLst(Lst):
    """The LST of full dynamic routing: by neighbour, `waits` has the seconds that a message would wait.

    `left` has how many messages left since the link came up. `is_fast`: every link that was measured takes at most
    `FIRST_PACE_S`, so that what is published between two samples does not wait for long.
    """

    __slots__ = ("_paces", "_slow", "_usual_s", "left", "waits")

    def __init__(self, neighbours: tuple[BrokerId, ...], parameters: CongestionParameters) -> None:
        super().__init__(neighbours, parameters)
        self._paces = {neighbour: _Pace() for neighbour in neighbours}
        self._slow = 0
        self._usual_s = FIRST_PACE_S
        self.waits = dict.fromkeys(neighbours, 0.0)
        self.left = dict.fromkeys(neighbours, 0)

    @property
    def is_fast(self) -> bool:
        return not self._slow

    def sample(self, neighbour: BrokerId, queue_length: int, entered: int, left: int, now: float) -> None:
        super().sample(neighbour, queue_length, entered, left, now)
        gone, self.left[neighbour] = left - self.left[neighbour], left
        pace = self._paces[neighbour]
        before, pace.sampled_s = pace.sampled_s, now
        if not queue_length:
            pace.since_s = None
            self.waits[neighbour] = 0.0
            if gone > 1 and before is not None and before < now <= before + 1.5 * self.window_s:
                # It is at least so fast; the first may have been on its way already. Not after samples that the host
                # left out, since the queue was empty.
                at_most = (now - before) / (gone - 1)
                if pace.seconds is not None and at_most < pace.seconds:
                    self._measured(pace, at_most)
            return
        if pace.since_s is None:
            pace.since_s, pace.left = now, left
        else:
            gone = left - pace.left
            if gone >= MEASURED_OVER:
                self._usual_s = (now - pace.since_s) / gone
                self._measured(pace, self._usual_s)
                pace.since_s, pace.left = now, left
            elif now - pace.since_s > (pace.seconds or self._usual_s) * (gone + 1):
                self._measured(pace, (now - pace.since_s) / (gone + 1))
        self.waits[neighbour] = queue_length * (pace.seconds or self._usual_s)

    def _measured(self, pace: _Pace, seconds: float) -> None:
        self._slow -= pace.is_slow
        pace.seconds = seconds
        self._slow += pace.is_slow

    def came_up(self, neighbour: BrokerId) -> None:
        super().came_up(neighbour)
        self._slow -= self._paces[neighbour].is_slow
        self._paces[neighbour] = _Pace()
        self.waits[neighbour] = 0.0
        self.left[neighbour] = 0

    def measured_pace(self, neighbour: BrokerId) -> float | None:
        return self._paces[neighbour].seconds

    def pace(self, neighbour: BrokerId) -> float:
        """The seconds that the link takes per message."""
        return self._paces[neighbour].seconds or self._usual_s
