"""The spool against a plain list: rows, counters, restarts, torn and damaged files, and its bound."""

import json
import os
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from octopia.errors import InputError, OctopiaError
from octopia.net import KeptSession
from octopia.pipeline.source import spool as module
from octopia.pipeline.source.spool import Position, Slice, Spool

MIB = 1024 * 1024


def session(received: int = 0, secret: bytes = b"s") -> KeptSession:
    return KeptSession("octopia://here:1", secret, "reader", received)


def parcels_of(part: Slice) -> list[bytes]:
    return [parcel for _, parcels in part.chunks() for parcel in parcels]


def opened(folder: Path, bytes_max: int = MIB, subscribed_to: str = "x > 0") -> Spool:
    return Spool.open(folder, subscribed_to, bytes_max)


@pytest.mark.parametrize("seed", range(4))
def test_a_spool_is_a_list_that_survives(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random appends, slices, commits and restarts; the list is the oracle."""
    monkeypatch.setattr(module, "INDEX_BYTES", 300)
    monkeypatch.setattr(module, "SEGMENT_BYTES_MAX", 2_000)
    draw = random.Random(seed)
    rows: list[bytes] = []
    received = dropped = 0
    begun = False
    spool = opened(tmp_path)
    id = spool.id
    for step in range(400):
        match draw.randrange(5):
            case 0 | 1:
                new = [draw.randbytes(draw.randrange(1, 60)) for _ in range(draw.randrange(0, 12))]
                lost = draw.choice([0, 0, 0, 3])
                received += len(new) + (lost > 0)
                dropped += lost
                spool.keep(new, session(received), lost)
                rows += new
                begun = True
            case 2:
                start = draw.randrange(spool.committed, len(rows) + 1)
                end = draw.randrange(start, len(rows) + 1)
                assert parcels_of(spool.slice(start, end)) == rows[start:end]
                reach = spool.reach(start, end - start, MIB)
                assert reach.rows == end
                assert reach.dropped <= dropped
            case 3:
                spool.commit(draw.randrange(spool.committed, len(rows) + 1))
            case _ if step % 3 == 0:
                committed = spool.committed
                spool.close()
                spool = opened(tmp_path)
                assert (spool.id, spool.committed) == (id, committed)
        assert spool.end == Position(len(rows), dropped, 0)
        assert spool.session == (session(received) if begun else None)
        assert spool.holds(spool.committed, len(rows))
    files = sorted(tmp_path.glob("*.rows"))
    assert len(files) < 200
    assert int(files[0].stem) <= spool.committed
    assert len(files) == 1 or int(files[1].stem) > spool.committed
    spool.close()


def test_a_batch_has_at_most_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INDEX_BYTES", 1000)
    spool = opened(tmp_path)
    for number in range(500):
        spool.keep([b"x" * 100], session(number + 1), 0)
    ends = [0]
    while ends[-1] < 500:
        ends.append(spool.reach(ends[-1], 500, 5_000).rows)
    sizes = [100 * (b - a) for a, b in pairwise(ends)]
    assert len(sizes) > 5
    assert all(1_000 <= size <= 6_500 for size in sizes[:-1])
    spool.close()


def test_what_was_torn_off_was_never_there(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.keep([b"a", b"b"], session(2), 0)
    spool.keep([b"c"], session(3), 0)
    spool.close()
    (file,) = tmp_path.glob("*.rows")
    whole = file.read_bytes()
    for cut in range(len(whole) - 1, len(whole) - 12, -1):
        file.write_bytes(whole[:cut])
        spool = opened(tmp_path)
        assert (spool.end.rows, spool.session) == (2, session(2))
        spool.keep([b"d"], session(3), 0)
        spool.close()
        spool = opened(tmp_path)
        assert parcels_of(spool.slice(0, 3)) == [b"a", b"b", b"d"]
        spool.close()


def test_damage_in_the_middle_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES_MAX", 100)
    monkeypatch.setattr(module, "INDEX_BYTES", 10)
    spool = opened(tmp_path, 10 * MIB)
    for number in range(20):
        spool.keep([b"x" * 40], session(number + 1), 0)
    spool.close()
    files = sorted(tmp_path.glob("*.rows"))
    assert len(files) > 3
    data = bytearray(files[1].read_bytes())
    data[30] ^= 1
    files[1].write_bytes(data)
    with pytest.raises(InputError, match=f"{files[1].name} is damaged at byte 0"):
        opened(tmp_path)
    files[1].unlink()
    with pytest.raises(InputError, match="rows 2 to 4 are missing"):
        opened(tmp_path)


def test_sessions_and_gaps(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.session_began(session(0, b"first"))
    assert spool.end == Position(0, 0, 0)
    spool.keep([b"a"], session(1, b"first"), 0)
    spool.session_began(session(0, b"second"))
    spool.keep([b"b"], session(1, b"second"), 7)
    assert spool.end == Position(2, 7, 1)
    spool.close()
    again = opened(tmp_path)
    assert again.end == Position(2, 7, 1)
    assert again.session == session(1, b"second")
    again.close()
    other = opened(tmp_path, subscribed_to="y > 0")
    assert other.session is None, "a session for another filter is not taken up"
    assert other.end == Position(2, 7, 1)
    other.close()


def test_at_its_bound_it_is_full_until_half_is_committed(tmp_path: Path) -> None:
    told: list[str] = []
    spool = opened(tmp_path, MIB)
    spool.when_room = lambda: told.append("room")
    rows = 0
    while not spool.is_full:
        spool.keep([b"x" * 1000] * 10, session(rows + 10), 0)
        rows += 10
    size = sum(file.stat().st_size for file in tmp_path.glob("*.rows"))
    assert MIB <= size < MIB + 11_000
    fills = []
    for row in (rows // 4, rows):
        spool.commit(row)
        fills.append((spool.is_full, list(told)))
    assert fills == [(True, []), (False, ["room"])]
    assert sum(file.stat().st_size for file in tmp_path.glob("*.rows")) <= MIB // 4
    spool.close()


def test_one_query_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_WAIT_S", 0.0)
    spool = opened(tmp_path)
    with pytest.raises(InputError, match="in use by another query: give each query a folder of its own"):
        opened(tmp_path)
    spool.close()
    opened(tmp_path).close()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "spool.json").write_text("no"), "is not the head of a spool: use an empty folder"),
        (lambda folder: (folder / "spool.json").unlink(), "spool.json is missing; files were deleted"),
        (
            lambda folder: (folder / "spool.json").write_text(
                json.dumps({"format": 9, "spool": "a", "subscribed_to": "b"})
            ),
            "is of format 9, this version reads 1",
        ),
    ],
)
def test_a_folder_that_is_no_spool_is_refused(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    spool = opened(tmp_path)
    spool.keep([b"a"], session(1), 0)
    spool.close()
    spoil(tmp_path)
    with pytest.raises(InputError, match=message):
        opened(tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=f"spool {tmp_path}/file: File exists"):
        opened(tmp_path / "file")


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = opened(tmp_path)
    spool.keep([b"a"], session(1), 0)
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:20]))
    with pytest.raises(OctopiaError, match="the disk is full; nothing that was not kept is confirmed"):
        spool.keep([b"b"], session(2), 0)
    monkeypatch.undo()
    assert spool.end.rows == 1
    spool.keep([b"c"], session(2), 0)
    spool.close()
    again = opened(tmp_path)
    assert parcels_of(again.slice(0, 2)) == [b"a", b"c"]
    again.close()
