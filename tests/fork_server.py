"""The server behind `tests.commands`: it imports the product once, then forks a process for each job.

`python -m tests.fork_server FD` reads jobs from a socket, each in one packet with four open files: the three standard
streams of the process, and a pipe for its exit status. The answer is the number of the process. The server ends when
the other end of the socket is closed; processes that still run then stay.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import random
import select
import signal
import socket
import sys
import threading
import traceback
import types
import warnings
from typing import Final, NamedTuple

JOB_BYTES_MAX: Final = 128 * 1024
# Imported by functions of the product, or by these packages themselves when they are first used.
LATE: Final = (
    "duckdb",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "pyarrow.dataset",
    "rich.console",
    "rich.live",
    "rich.progress",
    "rich.table",
    "typer.rich_utils",
    "uvloop",
)


class Job(NamedTuple):
    """A script to run, with its arguments, in a folder and an environment."""

    script: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    new_session: bool


def main() -> None:
    jobs = socket.socket(fileno=int(sys.argv[1]))
    preload()
    job = serve(jobs)
    if job is not None:
        code = run(job)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        # Python would take a second to free everything that was imported.
        os._exit(code)


def run(job: Job) -> int:
    """Run a script as `python -c` would; returns the exit code."""
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    try:
        exec(compile(job.script, "<string>", "exec"), module.__dict__)  # noqa: S102
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        return 1
    return 0


def preload() -> None:
    import octopia

    for module in pkgutil.walk_packages(octopia.__path__, "octopia."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    octopia.net.warm_up()
    # What is here now is never garbage, and a collection would copy all of it into the memory of each process.
    gc.freeze()


def serve(jobs: socket.socket) -> Job | None:
    """Fork for every job. Returns it in the new process, and None in this one when there are no more."""
    ends: dict[int, int] = {}
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    while True:
        ready, _, _ = select.select([jobs.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            report(ends)
        if jobs.fileno() not in ready:
            continue
        packet, files, _, _ = socket.recv_fds(jobs, JOB_BYTES_MAX, 4)
        if not packet:
            return None
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            jobs.close()
            for file in (woken, wake, *ends.values()):
                os.close(file)
            job = Job(*json.loads(packet))
            become(job, files)
            return job
        ends[pid] = files.pop()
        for file in files:
            os.close(file)
        jobs.send(str(pid).encode())


def report(ends: dict[int, int]) -> None:
    """Write the status of every process that has ended into its pipe."""
    for pid in list(ends):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with open(ends.pop(pid), "w") as pipe, contextlib.suppress(BrokenPipeError):
                pipe.write(str(status))


def become(job: Job, files: list[int]) -> None:
    """Make this process look as if it had been started for this job."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if job.new_session:
        os.setsid()
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    os.chdir(job.folder)
    os.environ.clear()
    os.environ.update(job.environment)
    # As for `python -c`: modules of the folder, then those of the environment.
    sys.path[0:1] = ["", *filter(None, job.environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = job.arguments
    if job.environment.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    random.seed()


if __name__ == "__main__":
    main()
