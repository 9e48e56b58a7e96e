"""What holds for all tests: which files come first, on how many workers, that Ctrl-C can be tested, and that brokers
save nothing at home.

A file runs on one worker (`--dist loadfile`), and the next goes to whoever is done. Files that take long come first, so
that no worker is left with one at the end; `--no-loadscope-reorder` keeps that order, where xdist would put those with
the most tests first. Tests of live brokers and of processes often wait, so there are two workers more than there are
cores. A shell that starts a process in the background has it ignore interrupts, and its children too; tests that
interrupt would wait for ever.
"""

import atexit
import gc
import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.effort import LONG

# None of the others takes more than a hundredth of the whole.
SLOW_FIRST = (
    "tests/pipeline/test_spark.py",
    "tests/net/test_fdr.py",
    "tests/pipeline/test_processes.py",
    "tests/routing/test_overlay_properties.py",
    "tests/cli/test_commands.py",
    "tests/docs/test_docs.py",
    "tests/net/test_moving.py",
    "tests/cli/test_pipeline.py",
    "tests/experiments/test_sweep.py",
    "tests/experiments/test_run_cell.py",
    "tests/net/test_end_to_end.py",
    "tests/net/test_qos.py",
    "tests/experiments/test_outcome.py",
    "tests/console/test_page.py",
    "tests/net/test_equal_engines.py",
    "tests/matching/test_matcher.py",
    "tests/pipeline/test_connect.py",
    "tests/routing/test_covering_properties.py",
    "tests/routing/test_fdr_detours.py",
    "tests/net/test_restart_in_process.py",
    "tests/test_architecture.py",
    "tests/net/test_slow.py",
    "tests/cli/test_simulate.py",
    "tests/sim/test_against_naive.py",
    "tests/console/test_page_large.py",
    "tests/sim/test_runs.py",
)

# How long an example takes says nothing on a busy machine. Only a long run looks for new examples: an ordinary one
# must not fail for what the change under test has not touched.
settings.register_profile("octopia", deadline=None, derandomize=not LONG)
settings.load_profile("octopia")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_STATE = tempfile.TemporaryDirectory(prefix="octopia-state-")
atexit.register(_STATE.cleanup)
os.environ["XDG_STATE_HOME"] = _STATE.name


def pytest_xdist_auto_num_workers() -> int:
    return len(os.sched_getaffinity(0)) + 2 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 2


def pytest_collection_finish() -> None:
    """Garbage collections, one of which begins every simulation, skip modules and thousands of tests from now on."""
    gc.collect()
    gc.freeze()
    # In the end modules are freed, and duckdb would complain about what is left of it.
    atexit.register(gc.unfreeze)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {file: rank for rank, file in enumerate(SLOW_FIRST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


@pytest.fixture(params=["numba", "numpy"])
def kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    """A test that asks for it runs twice: with compiled kernels, loaded wherever they pay, and with numpy."""
    from octopia.matching import use_kernels
    from octopia.wire import load_kernels, loading_pays

    name: str = request.param
    if name == "numba":
        pytest.importorskip("numba")
    use_kernels(name)
    if loading_pays(1):
        load_kernels()
    yield name
    use_kernels(None)
