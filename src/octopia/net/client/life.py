"""The state of a client: not yet connected, open, failed for good or closed; and refusals not yet reported."""

from octopia.errors import InputError, OctopiaError, RefusedError


class Life:
    """The state that all parts of a client share. `fine` is True when `check` would not raise."""

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
        """Fail for good. The first reason counts."""
        self.failure = self.failure or error
        self._note()

    def refuse(self, refusal: RefusedError) -> None:
        """Note a refusal that arrived after its call had returned: the next call raises it."""
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
        """Raise the reason why the client cannot be used, or a refusal not reported yet."""
        if self.closed:
            raise InputError("the client is closed; connect a new one")
        if self.failure is not None:
            raise self.failure
        if not self._opened:
            raise InputError("the client is not connected; use `async with`, or `open` it first")
        if (refusal := self.take_refusal()) is not None:
            raise refusal

    def take_refusal(self) -> RefusedError | None:
        """Return the unreported refusal, if any; it now counts as reported."""
        refusal, self._refusal = self._refusal, None
        self._note()
        return refusal

    def _note(self) -> None:
        self.fine = self._opened and not self.is_over and self._refusal is None
