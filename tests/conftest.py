"""What holds for all tests: which files come first, and that Ctrl-C can be tested.

Files that take minutes come first, so that no worker is left with one at the end. A shell that starts a process in the
background has it ignore interrupts, and its children too; tests that interrupt would wait for ever.
"""

import signal

import pytest

SLOW_FIRST = ("tests/pipeline/test_spark.py", "tests/pipeline/test_processes.py", "tests/cli/test_pipeline.py")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {file: rank for rank, file in enumerate(SLOW_FIRST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))
