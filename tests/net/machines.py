"""Machines made of network namespaces, each joined to each by a cable of its own that can be cut or made slow.

Everything lies in namespaces named after this process, so nothing of the real network is touched; deleting them deletes
their cables. What a killed run left behind is deleted by the next. Needs root and a kernel with namespaces and veth.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

PREFIX = "octopia-test"
CLONE_NEWNET = 0x40000000


def ip(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


class Machine:
    """A namespace with an address on its loopback, reached through one cable per other machine."""

    def __init__(self, number: int) -> None:
        self.name = f"m{number}"
        self.namespace = f"{PREFIX}-{os.getpid()}-{self.name}"
        self.address = f"10.77.0.{number}"

    def ip(self, *arguments: str) -> str:
        return ip("-n", self.namespace, *arguments)

    def tc(self, *arguments: str) -> None:
        command = ["ip", "netns", "exec", self.namespace, "tc", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"tc {' '.join(arguments)}: {done.stderr.strip()}")

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """This thread, and threads that it starts meanwhile, are on this machine."""
        libc = ctypes.CDLL(None, use_errno=True)
        with (
            Path("/proc/thread-self/ns/net").open() as home,
            Path(f"/run/netns/{self.namespace}").open() as there,
        ):
            if libc.setns(there.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                libc.setns(home.fileno(), CLONE_NEWNET)


class Machines:
    """This many machines, all joined."""

    def __init__(self, count: int) -> None:
        self.all = [Machine(number) for number in range(1, count + 1)]
        self.named = {machine.name: machine for machine in self.all}

    def build(self) -> None:
        for machine in self.all:
            ip("netns", "add", machine.namespace)
            machine.ip("link", "set", "lo", "up")
            machine.ip("addr", "add", f"{machine.address}/32", "dev", "lo")
            with machine.inside():
                # Small buffers, so that what a slow cable does not take waits where brokers see it.
                Path("/proc/sys/net/ipv4/tcp_wmem").write_text("4096 32768 65536", encoding="ascii")
        for one, other in combinations(self.all, 2):
            far_end = ("peer", f"to-{one.name}", "netns", other.namespace)
            one.ip("link", "add", f"to-{other.name}", "type", "veth", *far_end)
            self.join(one, other)

    def join(self, one: Machine, other: Machine) -> None:
        """Connect the cable (again). The kernel forgets routes over a cable that is cut."""
        for here, there in ((one, other), (other, one)):
            here.ip("link", "set", f"to-{there.name}", "up")
        for here, there in ((one, other), (other, one)):
            here.ip("route", "replace", there.address, "dev", f"to-{there.name}", "src", here.address)

    def cut(self, one: Machine, other: Machine) -> None:
        one.ip("link", "set", f"to-{other.name}", "down")

    def close(self) -> None:
        for machine in self.all:
            ip("netns", "del", machine.namespace, check=False)


def remove_leftovers() -> None:
    """Namespaces of runs that are no more."""
    for line in ip("netns", "list").splitlines():
        name = line.split()[0]
        if name.startswith(PREFIX) and not Path(f"/proc/{name.split('-')[2]}").exists():
            ip("netns", "del", name, check=False)


@contextlib.contextmanager
def machines(count: int) -> Iterator[Machines]:
    """Machines for a test, or a skipped test and the reason."""
    if shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("ip and tc (iproute2) are not installed")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    made = Machines(count)
    try:
        try:
            remove_leftovers()
            made.build()
            with made.all[0].inside():
                pass
        except OSError as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield made
    finally:
        made.close()


__all__ = ["Machine", "Machines", "machines"]
