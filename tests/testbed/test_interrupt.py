"""An experiment that is interrupted leaves no process and no unfinished run behind, wherever it was."""

import os
import signal
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from octopia.testbed import run_live
from tests.commands import Command
from tests.testbed.worlds import OVERLAY, run_spec, workload


def children_of(pid: int) -> set[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        found |= {int(word) for word in (task / "children").read_text().split()}
    return found


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_an_interrupt_while_publishing_ends_all_processes(tmp_path: Path) -> None:
    before = children_of(os.getpid())
    started: set[int] = set()

    def interrupt(phase: str, done: int, of: int, hops: int) -> None:
        if phase == "publish" and done == 10:
            started.update(children_of(os.getpid()) - before)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_live(workload(), OVERLAY, run_spec(), tmp_path, processes=2, on_progress=interrupt)
    assert len(started) == 2
    assert [pid for pid in started if is_there(pid)] == []


def test_ctrl_c_ends_the_command_and_its_processes(tmp_path: Path) -> None:
    command = "simulate delivery --small --host live --processes 1 --points 10 --systems snr --seeds 1 --out"
    process = Command(*command.split(), tmp_path / "out", stdout=DEVNULL, stderr=PIPE)
    while not (started := children_of(process.pid)):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 130, told
    assert "Interrupted: 0 of 1 runs are finished" in told
    assert [pid for pid in started if is_there(pid)] == []
    assert list((tmp_path / "out" / "runs").iterdir()) == []
