"""The one error tree of OctopiA.

    OctopiaError
    ├── InputError            invalid user input: a filter, an overlay, a scenario
    │   ├── LanguageError     filter or notification text, with position and hint
    │   ├── TopologyError     not a SCOT overlay: a cycle, a missing node, a bad label
    │   ├── PlacementError    brokers cannot be placed on these machines
    │   └── ScenarioError     a scenario file, with the place in it
    ├── RefusedError          a broker refused a client's request, and says why
    ├── UnreachableError      no broker answers, or the connection is gone for good
    │   └── UndeliveredError  a client was closed before brokers had confirmed everything it published
    ├── UnconfirmedError      brokers have not confirmed that everything a client published has arrived there
    ├── StateError            brokers stopped for a restart, and could not save everything that it needs
    ├── PipelineError         Spark, the machine or the storage could not do the work
    └── ProtocolError
        ├── LocalProtocolError    our own host or broker broke the protocol: a bug on this side
        └── RemoteProtocolError   a peer broke the protocol: its connection is at fault, not ours

Every error that leaves the package is one of these; the message is one line that names the place and, if possible, the
fix. Hosts catch `RemoteProtocolError` and drop the peer; `LocalProtocolError` is never caught.
"""


class OctopiaError(Exception):
    """Base class of all errors that OctopiA raises."""


class InputError(OctopiaError):
    """Invalid user input."""


class LanguageError(InputError):
    """Text of a filter or a notification that is not in the language.

    `position` is the 0-based offset into `text` where the error starts, `expected` describes a valid continuation, and
    `hint` guesses the intention. Each may be None.
    """

    def __init__(
        self,
        problem: str,
        *,
        text: str | None = None,
        position: int | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.problem = problem
        self.text = text
        self.position = position
        self.expected = expected
        self.hint = hint
        super().__init__(self._one_line())

    def _one_line(self) -> str:
        line = self.problem
        if self.position is not None:
            line += f" at position {self.position}"
        if self.expected:
            line += f"; expected {self.expected}"
        if self.hint:
            line += f" ({self.hint})"
        return line

    def placed(self, text: str, position: int | None) -> "LanguageError":
        """This error, found at `position` of `text`."""
        return LanguageError(self.problem, text=text, position=position, expected=self.expected, hint=self.hint)

    def pointer(self) -> str | None:
        """The text with a caret under the position, for a terminal; None without a position."""
        if self.text is None or self.position is None or "\n" in self.text:
            return None
        return f"{self.text}\n{' ' * self.position}^"


class TopologyError(InputError):
    """The given tree and clusters do not make a SCOT overlay."""


class PlacementError(InputError):
    """The brokers cannot be placed on the given machines."""


class ScenarioError(InputError):
    """A scenario file that cannot be replayed. `place` says where in the file, e.g. `steps[3].at`."""

    def __init__(self, place: str, problem: str) -> None:
        self.place = place
        self.problem = problem
        super().__init__(f"{place}: {problem}" if place else problem)


class RefusedError(OctopiaError):
    """A broker refused a client's request. The message is the broker's reason."""


class UnreachableError(OctopiaError):
    """No broker answers, or the connection is lost for good."""


class UndeliveredError(UnreachableError):
    """A client was closed, and no broker has confirmed `count` of the notifications that it published."""

    def __init__(self, count: int, why: str) -> None:
        self.count = count
        self.why = why
        noun = "notification was" if count == 1 else "notifications were"
        super().__init__(f"{count:,} published {noun} not delivered to a broker: {why}")


class UnconfirmedError(OctopiaError):
    """What a client published may not have arrived: `brokers` did not confirm it, or were lost with it."""

    def __init__(self, brokers: tuple[str, ...]) -> None:
        self.brokers = brokers
        super().__init__(f"what was published may not have arrived: no confirmation from {', '.join(brokers)}")


class StateError(OctopiaError):
    """Brokers stopped for a restart, and not all sessions could be saved: those clients miss what waited for them."""


class PipelineError(OctopiaError):
    """Spark, the machine or the storage could not do the work. The message says how to fix it."""


class ProtocolError(OctopiaError):
    """A violation of the protocol between brokers, or between a broker and its host."""


class LocalProtocolError(ProtocolError):
    """Our own violation: a bug in this process."""


class RemoteProtocolError(ProtocolError):
    """The peer's violation: it sent an invalid message."""
