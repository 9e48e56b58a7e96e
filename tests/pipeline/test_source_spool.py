"""The spool against a plain list: rows, counters, restarts, torn and damaged files, and its bound."""

import os
import random
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from octopia.errors import InputError, OctopiaError
from octopia.net import KeptSession
from octopia.pipeline.source import spool as module
from octopia.pipeline.source.spool import Position, Slice, Spool
from octopia.pipeline.source.spool_files import seal

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


def test_what_was_never_confirmed_was_never_there(tmp_path: Path) -> None:
    """A query that is killed while it writes a record, or before it has moved the mark."""
    spool = opened(tmp_path)
    spool.keep([b"a", b"b"], session(2), 0)
    kept = (tmp_path / "mark").read_bytes()
    spool.keep([b"c"], session(3), 0)
    spool.close()
    (file,) = tmp_path.glob("*.rows")
    whole = file.read_bytes()
    for cut in range(len(whole), len(whole) - 12, -1):
        file.write_bytes(whole[:cut])
        before = file.stat().st_ino
        (tmp_path / "mark").write_bytes(kept)
        spool = opened(tmp_path)
        assert (spool.end.rows, spool.session) == (2, session(2))
        assert file.stat().st_ino != before, "it goes on in a copy"
        spool.keep([b"d"], session(3), 0)
        spool.close()
        spool = opened(tmp_path)
        assert parcels_of(spool.slice(0, 3)) == [b"a", b"b", b"d"]
        spool.close()


def small_spool(folder: Path) -> dict[str, bytes]:
    """Three segments, a session record, a committed row: every file of it with its bytes."""
    spool = opened(folder, 10 * MIB)
    spool.session_began(session(0))
    for number in range(6):
        spool.keep([b"%d" % number, b"x" * 3], session(2 * number + 2), 0)
    spool.commit(3)
    spool.close()
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


@pytest.fixture
def tiny_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES_MAX", 130)
    monkeypatch.setattr(module, "INDEX_BYTES", 10)


def write_at(path: Path, data: bytes, at: int = 0) -> None:
    """In place: files that are truncated or replaced are flushed by some file systems, and there are thousands here."""
    file = os.open(path, os.O_WRONLY)
    os.pwrite(file, data, at)
    os.close(file)


def test_every_flipped_bit_is_found(tmp_path: Path, tiny_segments: None) -> None:
    """In every file, every bit: the spool does not open, and says which file is the reason."""
    files = small_spool(tmp_path)
    assert len([name for name in files if name.endswith(".rows")]) == 3
    assert set(files) > {"mark", "committed", "spool.json"}
    for name, data in files.items():
        for bit in range(8 * len(data)):
            at = bit // 8
            write_at(tmp_path / name, bytes([data[at] ^ 1 << bit % 8]), at)
            with pytest.raises(InputError, match=re.escape(name)):
                opened(tmp_path, 10 * MIB)
            write_at(tmp_path / name, data[at : at + 1], at)
    assert {name: (tmp_path / name).read_bytes() for name in files} == files, "nothing was cut off"
    again = opened(tmp_path, 10 * MIB)
    assert parcels_of(again.slice(3, 12)) == [b"xxx", *(p for n in range(2, 6) for p in (b"%d" % n, b"xxx"))]
    again.close()


def test_every_missing_end_is_found(tmp_path: Path, tiny_segments: None) -> None:
    """Every file cut at every byte, also between two records."""
    files = small_spool(tmp_path)
    for name, data in files.items():
        for length in reversed(range(len(data))):
            os.truncate(tmp_path / name, length)
            with pytest.raises(InputError, match=f"{re.escape(name)}|are missing: files were cut off"):
                opened(tmp_path, 10 * MIB)
        write_at(tmp_path / name, data)
    assert {name: (tmp_path / name).read_bytes() for name in files} == files


@pytest.mark.parametrize("place", range(6))
def test_a_file_that_was_deleted_is_missed(tmp_path: Path, tiny_segments: None, place: int) -> None:
    name = sorted(small_spool(tmp_path))[place]
    (tmp_path / name).unlink()
    if name == "committed":
        # Rows are read again, and none is lost.
        again = opened(tmp_path, 10 * MIB)
        assert (again.committed, again.end.rows) == (0, 12)
        again.close()
    else:
        with pytest.raises(InputError, match=r"missing|cut off"):
            opened(tmp_path, 10 * MIB)


def test_a_flipped_bit_under_a_running_query_is_found(tmp_path: Path) -> None:
    """Damage that comes after recovery has looked: the task that reads the rows fails, instead of having fewer."""
    spool = opened(tmp_path)
    spool.keep([b"a", b"b"], session(2), 0)
    spool.keep([b"c"], session(3), 0)
    (file,) = tmp_path.glob("*.rows")
    whole = file.read_bytes()
    for bit in range(8 * 16, 8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InputError):
            parcels_of(Slice(bytes(flipped), 0, 3))
    with pytest.raises(InputError, match="1 rows of a batch are missing"):
        parcels_of(Slice(whole, 0, 4))
    spool.close()


@pytest.mark.parametrize("sync", [False, True])
def test_a_crash_of_the_machine_is_a_gap_unless_it_was_synced(
    tmp_path: Path, sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is missing and the machine was started since: without sync it was lost, with sync somebody cut it off."""
    spool = Spool.open(tmp_path, "x > 0", MIB, sync=sync)
    spool.session_began(session(0))
    spool.keep([b"a"], session(1), 0)
    (file,) = tmp_path.glob("*.rows")
    kept = file.stat().st_size
    spool.keep([b"b"], session(2), 0)
    spool.close()
    whole = file.read_bytes()
    monkeypatch.setattr(module, "this_boot", lambda: "another")
    for end in (whole[:kept], whole[: kept + 5], whole[:kept] + bytes(len(whole) - kept)):
        file.write_bytes(end)
        if sync:
            with pytest.raises(InputError, match=r"damaged at byte|its end is cut off after row 1"):
                Spool.open(tmp_path, "x > 0", MIB, sync=sync)
            continue
        mark = (tmp_path / "mark").read_bytes()
        after = opened(tmp_path)
        assert (after.end, after.session) == (Position(1, 0, 0), None)
        after.session_began(session(0, b"new"))
        assert after.end == Position(1, 0, 1)
        after.close()
        (tmp_path / "mark").write_bytes(mark)
    file.write_bytes(whole)
    again = Spool.open(tmp_path, "x > 0", MIB, sync=sync)
    assert (again.end.rows, again.session) == (2, session(2))
    again.close()


def test_rows_that_spark_has_and_a_crash_took_are_not_counted_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = opened(tmp_path)
    for number in range(3):
        spool.keep([b"a"], session(number + 1), 0)
    spool.commit(3)
    spool.close()
    (file,) = tmp_path.glob("*.rows")
    os.truncate(file, 0)
    monkeypatch.setattr(module, "this_boot", lambda: "another")
    again = opened(tmp_path)
    again.session_began(session(0, b"new"))
    again.keep([b"b"], session(1, b"new"), 0)
    assert (again.end, again.committed) == (Position(4, 0, 1), 3)
    assert parcels_of(again.slice(3, 4)) == [b"b"]
    again.close()


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
    with pytest.raises(InputError, match=f"{files[1].name} is damaged at byte 0, after row 2"):
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
        (lambda folder: (folder / "spool.json").write_text("no"), "is not the head of a spool, or damaged"),
        (lambda folder: (folder / "spool.json").unlink(), "spool.json is missing; files were deleted"),
        (
            lambda folder: (folder / "spool.json").write_bytes(seal('{"format": 9, "spool": "", "subscribed_to": ""}')),
            "is of format 9, this version reads 2",
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


@pytest.mark.parametrize("failing", ["write", "fdatasync"])
def test_a_file_that_failed_once_is_not_written_to_again(
    tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were not stored are not confirmed; after a failed fsync the state of the disk is unknown."""
    spool = Spool.open(tmp_path, "x > 0", MIB, sync=True)
    spool.keep([b"a"], session(1), 0)
    (file,) = tmp_path.glob("*.rows")
    write = os.write

    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    if failing == "write":
        monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:20]))
    else:
        monkeypatch.setattr(os, "fdatasync", fail)
    reason = "the disk is full" if failing == "write" else "Input/output error"
    with pytest.raises(OctopiaError, match=f"{reason}; only stored rows are confirmed"):
        spool.keep([b"b"], session(2), 0)
    monkeypatch.undo()
    left, inode = file.read_bytes(), file.stat().st_ino
    with pytest.raises(OctopiaError, match=reason):
        spool.keep([b"c"], session(2), 0)
    assert (spool.end.rows, file.read_bytes()) == (1, left)
    spool.close()
    again = Spool.open(tmp_path, "x > 0", MIB, sync=True)
    assert again.session == session(1)
    assert file.stat().st_ino != inode
    again.keep([b"c"], session(2), 0)
    assert parcels_of(again.slice(0, 2)) == [b"a", b"c"]
    again.close()
