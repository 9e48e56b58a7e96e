"""Ctrl-C while Spark works.

py4j prints a stack trace when it is interrupted in the middle of an answer, and loses the connection. So the first
Ctrl-C that comes while py4j waits for Java does not raise: it cancels all jobs from another thread, and the answer that
then comes (a cancelled job) becomes the KeyboardInterrupt. Anywhere else it raises at once, as always.

A second Ctrl-C, or an answer that does not come within `PATIENCE_S`, raises at once, whatever that prints. Only the
main thread is affected; the previous handler is restored at the end.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

PATIENCE_S: Final = 10.0
_AGAIN_S: Final = 0.3


class Interrupts:
    """The handler of one session; `cancel` stops its jobs."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        # a Ctrl-C waits for Java's answer
        self.pending = False
        self._wanted = False
        self._settled = threading.Event()
        self._patience: threading.Timer | None = None

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Handle Ctrl-C inside; outside the main thread, nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)
        # Ignored from the start (a job in the background) means ignored to the end.
        self._wanted = before is not signal.SIG_IGN
        self.take_over()
        try:
            yield
        finally:
            self.settle()
            self._wanted = False
            signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)

    def take_over(self) -> None:
        """Install the handler, again if necessary: a new SparkContext replaces it with its own."""
        if self._wanted:
            signal.signal(signal.SIGINT, self._handle)

    def settle(self) -> bool:
        """An answer arrived, or all is over: clear a pending Ctrl-C and return whether there was one."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        was, self.pending = self.pending, False
        self._settled.set()
        return was

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.pending or not _waits_for_java(frame):
            self.settle()
            raise KeyboardInterrupt
        self.pending = True
        self._settled.clear()
        threading.Thread(target=self._keep_cancelling, daemon=True).start()
        # The main thread may wait for an answer that cancelling does not bring, e.g. from a storage that does not
        # respond.
        self._patience = threading.Timer(PATIENCE_S, signal.raise_signal, (signal.SIGINT,))
        self._patience.daemon = True
        self._patience.start()

    def _keep_cancelling(self) -> None:
        """Repeatedly: a query that is still being planned has no job to cancel yet."""
        while self.pending:
            with contextlib.suppress(Exception):
                self._cancel()
            self._settled.wait(_AGAIN_S)


def _waits_for_java(frame: Any) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("py4j."):
            return True
        frame = frame.f_back
    return False
