"""Whole overlays that differ only in their engine, compiled or in Python: everyone is sent the same bytes."""

import pytest

from octopia.matching import kernels_in_use
from octopia.net import warm_up
from octopia.net.broker.engine.order import Ways
from octopia.protocol import Notify
from octopia.topology import BrokerId
from octopia.wire import CopyHeader
from tests.effort import cases
from tests.net.stories import SECRETS, OverloadedStory, tell

pytestmark = pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Compiling may take longer than a test's time limit."""
    warm_up()


@pytest.fixture(autouse=True)
def _same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octopia.net.broker.identity.secrets", SECRETS)
    monkeypatch.setattr("octopia.net.broker.link_proof.secrets", SECRETS)
    # How many pieces a read has depends on the engine: what is routed together is one.
    monkeypatch.setattr("octopia.net.broker.channels.SLICE_MAX", 0)
    # Keys begin at the clock: all brokers must make the same.
    monkeypatch.setattr("octopia.net.broker.host.time.time_ns", lambda: 10**18)


@pytest.mark.parametrize("part", range(4))
def test_compiled_and_python_brokers_send_the_same(part: int) -> None:
    for seed in range(part, cases(360), 4):
        tell(seed)


def test_they_do_so_while_copies_take_detours(monkeypatch: pytest.MonkeyPatch) -> None:
    detours = 0
    header = Ways.header

    def counted(self: Ways, to: BrokerId, message: Notify, now: float) -> CopyHeader:
        nonlocal detours
        detours += bool(message.header.civ)
        return header(self, to, message, now)

    monkeypatch.setattr(Ways, "header", counted)
    for seed in range(cases(120)):
        tell(seed, OverloadedStory)
    assert detours > 100
