"""Ctrl-C: at once where Python is at work, with Java's answer where py4j waits for one. Signals are raised by hand."""

import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator

import pytest

from octopia.pipeline.interrupts import Interrupts
from tests.patience import HANG_S

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


@pytest.fixture
def inside_py4j() -> Iterator[Callable[[Callable[[], None]], None]]:
    """A function in a module with py4j's name that calls its argument."""
    module = types.ModuleType("py4j.waiting")
    exec("def call(function):\n    function()\n", module.__dict__)  # noqa: S102
    yield module.__dict__["call"]
    sys.modules.pop("py4j.waiting", None)


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_python_code_is_interrupted_at_once() -> None:
    cancelled: list[int] = []
    interrupts = Interrupts(lambda: cancelled.append(1))
    with interrupts.installed(), pytest.raises(KeyboardInterrupt):
        ctrl_c()
    assert cancelled == []
    assert not interrupts.pending


def test_while_java_is_waited_for_jobs_are_cancelled_and_nothing_is_raised(
    inside_py4j: Callable[[Callable[[], None]], None],
) -> None:
    cancelled = threading.Event()
    interrupts = Interrupts(cancelled.set)
    with interrupts.installed():
        inside_py4j(ctrl_c)
        assert interrupts.pending
        assert cancelled.wait(HANG_S)
        assert interrupts.settle()
        assert not interrupts.settle()


def test_cancelling_goes_on_until_an_answer_comes(inside_py4j: Callable[[Callable[[], None]], None]) -> None:
    """A query that is being planned has no job yet: the first tries may find nothing, or fail."""
    tries: list[int] = []
    third = threading.Event()

    def cancel() -> None:
        tries.append(1)
        if len(tries) == 3:
            third.set()
        raise RuntimeError("no job yet")

    interrupts = Interrupts(cancel)
    with interrupts.installed():
        inside_py4j(ctrl_c)
        assert third.wait(HANG_S)
        interrupts.settle()


def test_the_second_time_raises_in_any_case(inside_py4j: Callable[[Callable[[], None]], None]) -> None:
    interrupts = Interrupts(lambda: None)
    with interrupts.installed():
        inside_py4j(ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            inside_py4j(ctrl_c)


def test_the_handler_from_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    interrupts = Interrupts(lambda: None)
    with interrupts.installed():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_process_that_ignores_interrupts_goes_on_ignoring_them() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interrupts(lambda: None).installed():
            ctrl_c()
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_change_no_handler() -> None:
    seen: list[object] = []

    def elsewhere() -> None:
        with Interrupts(lambda: None).installed():
            seen.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]
