"""Whether a client can be used: not yet connected, open, failed for good, closed; and refusals nobody was told of."""

from octopia.errors import InputError, OctopiaError, RefusedError


class Life:
    """The state of a client that all its parts share. `fine` is True where `check` would raise nothing."""

    __slots__ = ("_opened", "_refusal", "closed", "failure", "fine")

    def __init__(self) -> None:
        self.fine = False
        self.closed = False
        self.failure: OctopiaError | None = None
        self._opened = False
        self._refusal: RefusedError | None = None

    def open(self) -> None:
        self._opened = True
        self._note()

    def fail(self, error: OctopiaError) -> None:
        """There is no way back. The first reason counts."""
        self.failure = self.failure or error
        self._note()

    def refuse(self, refusal: RefusedError) -> None:
        """A broker refused something after its call had returned: the next call raises it."""
        self._refusal = self._refusal or refusal
        self._note()

    def close(self) -> None:
        self.closed = True
        self._note()

    @property
    def is_over(self) -> bool:
        """Closed, or failed for good."""
        return self.closed or self.failure is not None

    def check(self) -> None:
        """Raise why the client cannot be used, or a refusal that nobody was told of yet."""
        if self.closed:
            raise InputError("the client is closed; connect a new one")
        if self.failure is not None:
            raise self.failure
        if not self._opened:
            raise InputError("the client is not connected; use `async with`, or `open` it first")
        if (refusal := self.take_refusal()) is not None:
            raise refusal

    def take_refusal(self) -> RefusedError | None:
        """What was refused and nobody was told of; told now."""
        refusal, self._refusal = self._refusal, None
        self._note()
        return refusal

    def _note(self) -> None:
        self.fine = self._opened and not self.is_over and self._refusal is None
