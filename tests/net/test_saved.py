"""The state file of a restarting broker: read back exactly, once, by no other user, and not at all when damaged."""

import os
import stat
import time
from hashlib import blake2b
from pathlib import Path
from random import Random

import msgspec
import pytest

from octopia.errors import InputError
from octopia.net import Address, OverlayIdentity
from octopia.net.broker import saved
from octopia.net.broker.saved import Place, Room, SavedLink, SavedSent, SavedSession, SavedState, SavedStreams, take
from octopia.topology import BrokerId, Scot, parse_tree

NOW_S = time.time()


def place(
    folder: Path, name: str = "d1", broker: str = "b,2", port: int = 7400, tree: str = "path:3", routing: str = "idr"
) -> Place:
    overlay = OverlayIdentity(name, Scot(parse_tree(tree), 3), routing)
    return Place(folder, overlay, BrokerId.parse(broker), Address("127.0.0.1", port))


def save(
    place: Place,
    sessions: list[SavedSession],
    links: list[SavedLink],
    now_s: float,
    streams: tuple[list[SavedStreams], list[SavedSent]] = ([], []),
) -> list[str]:
    return Room(place, 0).save(SavedState(sessions, links, *streams), now_s)


def session(name: str = "c", frames: int = 3, frame_bytes: int = 10) -> SavedSession:
    draws = Random(name)
    unconfirmed = [draws.randbytes(frame_bytes) for _ in range(frames)]
    waiting = [draws.randbytes(frame_bytes) for _ in range(frames)]
    return SavedSession(
        name, "owner", b"secret", 30.0, 7, -1, 5, 11, unconfirmed, waiting, 2, 9, [b"adv", b"sub"], [("subscribe", "s")]
    )


LINKS = [SavedLink("(a,2)", [b"one", b"two"]), SavedLink("(b,0)", [])]
STREAMS = [SavedStreams(0, {"p": 7, "ünï": (1 << 63) - 1}), SavedStreams(8, {})], [SavedSent(5, b"\x81", 2, b"parcel")]


def test_what_was_saved_is_read_back_once(tmp_path: Path) -> None:
    sessions = [session("x"), session("ünï/1", frames=0), session("y", frames=1000)]
    assert save(place(tmp_path), sessions, LINKS, NOW_S, STREAMS) == []
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    back = take(place(tmp_path), NOW_S + 299.0, 300.0)
    assert back is not None
    assert (back.sessions, back.links, (back.streams, back.sent)) == (sessions, LINKS, STREAMS)
    assert list(tmp_path.iterdir()) == []
    assert take(place(tmp_path), NOW_S, 300.0) is None


def test_a_file_of_the_version_before_is_read(tmp_path: Path) -> None:
    """It ends with the routing: nothing was saved of streams."""
    here = place(tmp_path, routing="fdr")
    save(here, [session()], LINKS, NOW_S, STREAMS)
    start, body = here.path.read_bytes()[:8], here.path.read_bytes()[40:]
    shorter = msgspec.msgpack.encode(msgspec.msgpack.decode(body)[:5])
    here.path.write_bytes(start + blake2b(shorter, digest_size=32).digest() + shorter)
    back = take(here, NOW_S, 300.0)
    assert back is not None
    assert (back.sessions, back.links, back.routing, back.streams, back.sent) == ([session()], LINKS, "fdr", [], [])


def test_a_second_stop_replaces_the_first_and_what_a_crash_left(tmp_path: Path) -> None:
    here = place(tmp_path / "deep" / "er")
    save(here, [session("x")], [], NOW_S)
    here.path.with_suffix(".new").write_bytes(b"half")
    save(here, [session("y")], [], NOW_S)
    back = take(here, NOW_S, 1.0)
    assert back is not None
    assert [kept.name for kept in back.sessions] == ["y"]


def test_damage_of_any_byte_is_found_and_the_file_is_gone(tmp_path: Path) -> None:
    here = place(tmp_path)
    save(here, [session()], LINKS, NOW_S)
    whole = here.path.read_bytes()
    for at in range(len(whole)):
        for damaged in (whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :], whole[:at]):
            here.path.write_bytes(damaged)
            with pytest.raises(InputError, match=r"damaged|version"):
                take(here, NOW_S, 300.0)
            assert not here.path.exists()
    here.path.write_bytes(whole + b"\x00")
    with pytest.raises(InputError, match="damaged"):
        take(here, NOW_S, 300.0)


@pytest.mark.parametrize(
    "other",
    [{"name": "d2"}, {"tree": "path:4"}, {"broker": "b,1"}, {"port": 7401}],
    ids=["overlay", "shape", "broker", "address"],
)
def test_brokers_beside_each_other_do_not_mix(tmp_path: Path, other: dict[str, str]) -> None:
    here, there = place(tmp_path), place(tmp_path, **other)  # type: ignore[arg-type]
    save(here, [session()], [], NOW_S)
    assert take(there, NOW_S, 300.0) is None
    # Not even where someone renames files.
    here.path.rename(there.path)
    with pytest.raises(InputError, match="another overlay, broker or address"):
        take(there, NOW_S, 300.0)


@pytest.mark.parametrize("passed_s", [300.5, -300.5, float("nan")])
def test_a_file_whose_sessions_would_be_over_is_of_no_use(tmp_path: Path, passed_s: float) -> None:
    save(place(tmp_path), [session()], [], NOW_S)
    with pytest.raises(InputError, match="sessions last 300 s"):
        take(place(tmp_path), NOW_S + passed_s, 300.0)


def test_what_nobody_came_back_for_is_removed_after_a_day(tmp_path: Path) -> None:
    for name, age_s in (("old", 90_000.0), ("young", 80_000.0)):
        left = place(tmp_path, name)
        save(left, [session()], [], NOW_S)
        left.temporary.touch()
        for file in (left.path, left.temporary):
            os.utime(file, (NOW_S - age_s, NOW_S - age_s))
    (tmp_path / "something.else").touch()
    os.utime(tmp_path / "something.else", (0.0, 0.0))
    assert take(place(tmp_path), NOW_S, 300.0) is None
    young = place(tmp_path, "young")
    assert sorted(tmp_path.iterdir()) == sorted([young.path, young.temporary, tmp_path / "something.else"])


def test_another_users_file_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(place(tmp_path), [session()], [], NOW_S)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(InputError, match="belongs to another user"):
        take(place(tmp_path), NOW_S, 300.0)


def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path) -> None:
    save(place(tmp_path), [session()], [], NOW_S)
    here = place(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    here.path.rename(elsewhere)
    here.path.symlink_to(elsewhere)
    with pytest.raises(InputError, match="cannot be read"):
        take(here, NOW_S, 300.0)


def test_beyond_the_bound_the_longest_queues_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = [session(f"c{n}", frames=n, frame_bytes=100) for n in (5, 1, 9, 2, 7)]
    monkeypatch.setattr(saved, "BYTES_MAX", sum(kept.size for kept in sessions if kept.name in ("c5", "c1", "c2")) + 6)
    assert save(place(tmp_path), sessions, LINKS, NOW_S) == ["c9", "c7"]
    back = take(place(tmp_path), NOW_S, 300.0)
    assert back is not None
    assert [kept.name for kept in back.sessions] == ["c5", "c1", "c2"]
    assert back.links == LINKS
