"""Compiled code for running brokers: loaded or compiled beside them, so that they listen at once.

Brokers start with the reference engine. A thread loads the compiled one, which takes a second. Where it was never
compiled on this machine, another process compiles it first, once per installation, which takes half a minute or more.
Then the brokers of this process change over, between two reads. If anything fails, they stay with the reference engine
and say why.

After a restart, compiled code is loaded before the broker listens: what waited for it comes all at once, and with half
of a busy processor and the slower engine, it would be silent for so long that its neighbours took it for dead.
"""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec

from octopia.net.broker.operations.log import Log

_WARM_UP = "octopia.net.broker.engine.warm_up"
# Whether this process has loaded all compiled code, and why it cannot; one thread at a time does it.
_loaded = False
_failed = ""
_lock = threading.Lock()


def is_compiled() -> bool:
    """Whether all compiled code is loaded, so that a broker can use it from the start."""
    return _loaded


def load() -> str:
    """Load all compiled code, or compile it here; returns why that failed, or nothing."""
    return _load(lambda: None)


def load_what_was_compiled() -> None:
    """Load all compiled code if nothing is to be compiled for it; if that fails, `Compiling` says why."""
    if find_spec("numba") is not None:
        from octopia.native import was_compiled

        if was_compiled():
            load()


def _load(compile_first: Callable[[], None]) -> str:
    global _loaded, _failed
    with _lock:
        if _loaded or _failed:
            return _failed
        try:
            compile_first()
            from octopia.net.broker.engine.warm_up import warm_up

            _loaded = warm_up() == "numba"
            _failed = "" if _loaded else "numba is not in use"
        except InterruptedError:
            return "stopped"
        except Exception as error:  # noqa: BLE001  whatever it is, brokers go on without
            _failed = f"{type(error).__name__}: {error}"
        return _failed


class Compiling:
    """Brings compiled code to the brokers of one process, while they run."""

    def __init__(self, use: Callable[[], None]) -> None:
        """`use`: called in the event loop when all code is loaded."""
        self._use = use
        self._log = Log("compiled code")
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin, if numba is installed."""
        if find_spec("numba") is None:
            self._log.info("not installed", engine="reference", faster="pip install 'octopia[fast]'")
            return
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, args=(loop,), name="compiled code", daemon=True).start()

    def stop(self) -> None:
        """The brokers stop: do not compile for them any longer."""
        self._stopped = True
        if self._process is not None:
            self._process.terminate()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        begin = time.monotonic()
        failed = _load(self._compile_if_new)
        # the brokers may be gone, and their loop with them
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._done, failed, time.monotonic() - begin)

    def _done(self, failed: str, took_s: float) -> None:
        if self._stopped:
            return
        if failed:
            self._log.warning("not in use", engine="reference", reason=failed)
        else:
            self._use()
            self._log.info("in use", engine="compiled", after_s=round(took_s, 1))

    def _compile_if_new(self) -> None:
        """Compile in another process what was never compiled on this machine."""
        from octopia.native import was_compiled

        if was_compiled():
            return
        self._log.info("compiling, once per installation; brokers are slower meanwhile", engine="reference")
        command = [sys.executable, "-m", _WARM_UP]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)  # noqa: S603  our own
        if self._stopped:
            self._process.terminate()
        _, said = self._process.communicate()
        if self._stopped:
            # not a failure: brokers that start later in this process try again
            raise InterruptedError
        if self._process.returncode:
            last = said.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {self._process.returncode}"]
            raise RuntimeError(last[0])


def warm_up() -> str:
    """Load or compile all compiled code in this process; returns the name of the kernels in use."""
    return "numpy" if load() else "numba"
