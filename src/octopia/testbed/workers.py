"""The processes of a run, as the experiment manages them: start, wait, ask, end.

Processes of this machine are started here; those of others by a command (`start`, such as `ssh {machine} octopia join
{experiment} --machine {machine}`) or, without one, by hand: `on_wait` is called with the command to run, and the run
waits for it without a limit. A process is identified by the secret of the run, which never appears on a command line
run here: children have it in their environment, commands read it from their standard input. Whatever happens, `end`
leaves none of our processes behind.
"""

import asyncio
import os
import secrets
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from msgspec import Struct

from octopia.errors import InputError, OctopiaError
from octopia.net import Address
from octopia.testbed.control import Answer, Failed, Hello, Question, Talk
from octopia.testbed.groups import HERE, Group

VARIABLE: Final = "OCTOPIA_EXPERIMENT"
# In place of a command: start nothing on machines that the overlay file names, even if they are this one.
BY_HAND: Final = "by-hand"
_LOOK_S: Final = 0.05
_END_S: Final = 5.0
_SAID_MAX: Final = 500
T = TypeVar("T")


class Testbed(Struct, frozen=True, kw_only=True):
    """How processes are started; nothing here affects the measurements."""

    listen: str = "127.0.0.1:0"  # where processes reach the experiment
    start: str = ""  # the command that starts one on a machine that the overlay file names, or BY_HAND
    on_wait: Callable[[Sequence[str]], None] | None = None  # called with the commands to run by hand
    start_s: float = 120.0  # timeout for processes to connect


class Worker:
    """One connected process."""

    def __init__(self, group: Group, hello: Hello, talk: Talk) -> None:
        self.group = group
        self.hello = hello
        self._talk = talk
        self._asking = asyncio.Lock()

    async def ask(self, question: Question, kind: type[T]) -> T:
        """Its answer, which has this type."""
        try:
            # faults are injected while we ask for progress
            async with self._asking:
                await self._talk.say(question)
                answer: Answer = await self._talk.hear_answer()
        except (EOFError, ConnectionError):
            raise OctopiaError(
                f"a process on {self.group.machine} (pid {self.hello.pid}) ended during the run"
            ) from None
        if isinstance(answer, Failed):
            raise OctopiaError(f"a process on {self.group.machine}: {answer.reason}")
        if not isinstance(answer, kind):
            raise OctopiaError(f"a process on {self.group.machine} answered {type(answer).__name__}")
        return answer

    def close(self) -> None:
        self._talk.close()


class Workers:
    """All processes of a run."""

    def __init__(self, groups: Sequence[Group], testbed: Testbed) -> None:
        self._groups = tuple(groups)
        self._testbed = testbed
        self._secret = secrets.token_urlsafe(24)
        self._waiting = list(groups)
        self._children: list[tuple[subprocess.Popen[Any], Any]] = []
        self._server: asyncio.Server | None = None
        self.workers: list[Worker] = []
        self._all_there = asyncio.Event()
        listen = Address.parse(testbed.listen)
        if listen.is_loopback and not all(group.is_here for group in groups):
            away = next(group.machine for group in groups if not group.is_here)
            raise InputError(
                f"machine {away} is another one: give the address at which it reaches this one, with --listen HOST:PORT"
            )
        self._listen = listen

    async def start(self) -> None:
        """Start what can be started, and wait until all are connected."""
        try:
            self._server = await asyncio.start_server(self._accept, self._listen.host, self._listen.port)
        except OSError as error:
            raise InputError(f"cannot listen at {self._listen}: {error.strerror or error}") from None
        port = self._server.sockets[0].getsockname()[1]
        experiment = str(Address(self._listen.host, port))
        by_hand = []
        for group in self._groups:
            elsewhere = group.machine != HERE
            if elsewhere and (self._testbed.start == BY_HAND or not (group.is_here or self._testbed.start)):
                by_hand.append(f"{VARIABLE}={self._secret} octopia join {experiment} --machine {group.machine}")
            elif elsewhere and self._testbed.start:
                self._spawn(_command(self._testbed.start, group.machine, experiment), None)
            else:
                own = [sys.executable, "-m", "octopia", "join", experiment, "--machine", group.machine]
                self._spawn(own, {**os.environ, VARIABLE: self._secret})
        if by_hand and self._testbed.on_wait is not None:
            self._testbed.on_wait(by_hand)
        await self._wait(None if by_hand else self._testbed.start_s)

    def _spawn(self, command: Sequence[str], environment: dict[str, str] | None) -> None:
        said = tempfile.TemporaryFile()  # noqa: SIM115  kept as long as the process
        try:
            child = subprocess.Popen(  # noqa: S603  our own interpreter, or what the user said
                command,
                env=environment,
                stdin=subprocess.PIPE if environment is None else subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                # Ctrl-C is for the experiment, which ends its processes
                start_new_session=True,
            )
        except OSError as error:
            said.close()
            raise InputError(f"cannot run {command[0]}: {error.strerror or error}") from None
        self._children.append((child, said))
        if child.stdin is not None:
            # one that ended before it read this is noticed soon
            with suppress(BrokenPipeError):
                child.stdin.write(f"{self._secret}\n".encode())
                child.stdin.flush()

    async def _wait(self, at_most_s: float | None) -> None:
        try:
            async with asyncio.timeout(at_most_s):
                while not self._all_there.is_set():
                    self._check_children()
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            missing = ", ".join(dict.fromkeys(group.machine for group in self._waiting))
            raise OctopiaError(f"no process came from {missing} within {at_most_s:g} s") from None

    def _check_children(self) -> None:
        for child, said in self._children:
            if child.poll() is not None:
                said.seek(0)
                words = said.read().decode(errors="replace").strip()[-_SAID_MAX:]
                raise OctopiaError(f"a process ended ({child.returncode}) before the run began: {words}")

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = Talk(reader, writer)
        try:
            hello = await talk.hear_answer()
        except (EOFError, OctopiaError):
            talk.close()
            return
        group = self._group_for(hello) if isinstance(hello, Hello) else None
        if group is None or not isinstance(hello, Hello):
            talk.close()
            return
        self._waiting.remove(group)
        self.workers.append(Worker(group, hello, talk))
        if not self._waiting:
            self._all_there.set()

    def _group_for(self, hello: Hello) -> Group | None:
        if not secrets.compare_digest(hello.secret.encode(), self._secret.encode()):
            return None
        return next((group for group in self._waiting if group.machine == hello.machine), None)

    async def ask(self, question: Question, kind: type[T]) -> list[T]:
        """The answers of all processes, in the order of `workers`."""
        return list(await asyncio.gather(*(worker.ask(question, kind) for worker in self.workers)))

    async def close(self) -> None:
        """Release all processes."""
        for worker in self.workers:
            worker.close()
        if self._server is not None:
            self._server.close()

    def end(self) -> None:
        """Wait until the processes that we started have ended; after a while, kill them."""
        for child, said in self._children:
            try:
                child.wait(_END_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdin is not None:
                with suppress(BrokenPipeError):
                    child.stdin.close()
            said.close()
        self._children.clear()


def _command(template: str, machine: str, experiment: str) -> list[str]:
    try:
        return [part.format(machine=machine, experiment=experiment) for part in shlex.split(template)]
    except (KeyError, IndexError, ValueError) as error:
        raise InputError(
            f"--start {template!r}: {error}; write {{machine}} and {{experiment}}, "
            "for example ssh {machine} octopia join {experiment} --machine {machine}"
        ) from None
