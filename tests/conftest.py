"""What holds for all tests: which files come first, that Ctrl-C can be tested, and that brokers save nothing at home.

Files that take minutes come first, so that no worker is left with one at the end. A shell that starts a process in the
background has it ignore interrupts, and its children too; tests that interrupt would wait for ever.
"""

import os
import signal
import tempfile

import pytest

SLOW_FIRST = ("tests/pipeline/test_spark.py", "tests/pipeline/test_processes.py", "tests/cli/test_pipeline.py")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_STATE = tempfile.TemporaryDirectory(prefix="octopia-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {file: rank for rank, file in enumerate(SLOW_FIRST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))
