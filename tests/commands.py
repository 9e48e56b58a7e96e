"""Commands as processes of their own, without the second or two that each would take to import the product.

A server (`tests.fork_server`) imports everything once and forks for each command. So a command has its own memory,
streams, signals, environment and folder, as if it had been started. Tests of starting itself (what is imported, Ctrl-C
while importing, missing packages, encodings) start Python instead.
"""

import atexit
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, CompletedProcess
from typing import IO, Final, TypeAlias

from tests.fork_server import Job

ROOT: Final = Path(__file__).parent.parent
OCTOPIA: Final = "from octopia_command import main\nmain()"

Stream: TypeAlias = IO[str] | int | None


class Command:
    """`octopia` with these arguments, or another script. As much of a `Popen` as tests use, with text streams."""

    def __init__(
        self,
        *arguments: object,
        script: str = OCTOPIA,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        start_new_session: bool = False,
    ) -> None:
        self.args: Final = ["octopia", *map(str, arguments)]
        self.returncode: int | None = None
        ours, theirs = os.pipe()
        self._status: Final = os.fdopen(ours, "rb")
        passed = [theirs]
        self.stdin, given = _stream(stdin, 0, passed)
        self.stdout, got = _stream(stdout, 1, passed)
        self.stderr, told = (None, got) if stderr == STDOUT else _stream(stderr, 2, passed)
        folder, environment = str((cwd or Path()).absolute()), dict(os.environ if env is None else env)
        job = Job(script, self.args, folder, environment, start_new_session)
        self.pid: Final = _forked(job, [given, got, told, theirs])
        for number in passed:
            os.close(number)

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        self.communicate()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            with self._status:
                self.returncode = os.waitstatus_to_exitcode(int(self._status.read()))
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """What is still to be read of its streams, once it has ended."""
        if self.stdin is not None:
            self.stdin.close()
        with ThreadPoolExecutor(1) as reader:
            told = reader.submit(_rest, self.stderr)
            out = _rest(self.stdout)
        self.wait()
        return out, told.result()


def run(
    *arguments: object,
    script: str = OCTOPIA,
    stdin: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> CompletedProcess[str]:
    """A command to its end, with this text as its standard input."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as given:
        given.write(stdin)
        given.seek(0)
        command = Command(*arguments, script=script, stdin=given, stdout=PIPE, stderr=PIPE, cwd=cwd, env=env)
    out, told = command.communicate()
    return CompletedProcess(command.args, command.wait(), out, told)


def typed(line: str, *, cwd: Path, env: Mapping[str, str], stdin: Stream = DEVNULL, stderr: Stream = STDOUT) -> Command:
    """A line as typed in a shell, which runs it unless it is a plain `octopia` command."""
    environment = {**env, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    words = ["bash", "-c", f"set -o pipefail; {line}"]
    script = f"import os\nos.execvp('bash', {words!r})"
    # Quotes stay, so that an operator of the shell differs from one of a filter.
    tokens = list(shlex.shlex(line, punctuation_chars="|&;<>"))
    if tokens[0] == "octopia" and "$" not in line and not any(set(token) <= set("|&;<>") for token in tokens):
        words, script = shlex.split(line), OCTOPIA
    return Command(*words[1:], script=script, stdin=stdin, stdout=PIPE, stderr=stderr, cwd=cwd, env=environment)


def _stream(asked: Stream, number: int, passed: list[int]) -> tuple[IO[str] | None, int]:
    """Our end of a stream, if it is a pipe, and theirs, to be closed here if it is in `passed`."""
    if asked is None:
        return None, number
    if asked == DEVNULL:
        passed.append(os.open(os.devnull, os.O_RDWR))
        return None, passed[-1]
    if asked != PIPE:
        return None, asked if isinstance(asked, int) else asked.fileno()
    ends = os.pipe()
    ours, theirs = ends if number else reversed(ends)
    passed.append(theirs)
    return open(ours, "r" if number else "w", encoding="utf-8"), theirs


def _rest(stream: IO[str] | None) -> str:
    if stream is None:
        return ""
    with stream:
        return stream.read()


def _forked(job: Job, files: list[int]) -> int:
    server = _server()
    socket.send_fds(server, [json.dumps(job).encode()], files)
    return int(server.recv(100))


@cache
def _server() -> socket.socket:
    """The socket of this test process's server, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
        server = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], start_new_session=True)
    atexit.register(server.wait)
    atexit.register(ours.close)
    return ours
