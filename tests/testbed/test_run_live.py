"""A run on live brokers, beside the simulator's run of the same workload: what happened must be the same, row by row.

Times differ, of course, and are compared with nothing but each other.
"""

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec import structs

from octopia.errors import InputError, OctopiaError
from octopia.metrics import facts_of
from octopia.sim import LinkFault, RunSpec, check_run, first_numbers, load_run, simulate
from octopia.testbed import Place, Testbed, places_of, run_live
from octopia.topology import Sites
from octopia.trace import TABLES
from octopia.workload import ChurnSpec, WishSpec
from tests.net.processes import own_host
from tests.testbed.worlds import OVERLAY, overlay_file, pairs, run_spec, wanted, workload

TIMES = ("at_ns", "queued_ns", "left_ns", "arrived_ns", "handled_ns", "issued_ns", "delivered_ns", "queue")


def rows_of(folder: Path, table: str) -> list[tuple[tuple[str, object], ...]]:
    """The content of a table, without times and order."""
    read = pq.read_table(folder / f"{table}.parquet")
    assert read.schema.names == TABLES[table].names
    kept = [name for name in read.column_names if name not in TIMES]
    return sorted((tuple(row.items()) for row in read.select(kept).to_pylist()), key=repr)


def test_live_brokers_do_what_simulated_ones_do_and_leave_the_same_trace(tmp_path: Path) -> None:
    played, spec = workload(wishes=WishSpec(urgent_share=0.5)), run_spec()
    assert played.wishes
    told: list[tuple[str, int, int, int]] = []
    simulate(played, OVERLAY, spec, tmp_path / "simulated")
    run = run_live(played, OVERLAY, spec, tmp_path / "live", processes=2, on_progress=lambda *words: told.append(words))
    assert [finding for finding in check_run(played, OVERLAY, tmp_path / "live") if finding.cases] == []
    for table in ("hops", "deliveries", "requests", "table_sizes", "civs", "brokers", "clients"):
        assert rows_of(tmp_path / "live", table) == rows_of(tmp_path / "simulated", table), table
    assert load_run(tmp_path / "live") == run
    assert [phase.name for phase in run.phases] == ["advertise", "subscribe", "publish"]
    live = run.live
    assert live is not None
    assert [(process.machine, process.brokers) for process in live.processes] == [("here", 2), ("here", 2)]
    assert live.unasked == 0
    assert 0 <= live.late_p50_ns <= live.late_p99_ns <= live.late_max_ns
    assert facts_of(run).client_delay_ns == live.client_delay_ns
    assert told[-1] == ("publish", 100, 100, 0)
    hops = pq.read_table(tmp_path / "live" / "hops.parquet").to_pylist()
    assert all(hop["queued_ns"] <= hop["left_ns"] <= hop["arrived_ns"] <= hop["handled_ns"] for hop in hops)


def test_machines_get_their_processes_by_the_command_that_was_given_and_sites_their_delays(tmp_path: Path) -> None:
    """A file's machines, its ports, and a command in place of ssh; clusters far apart, and clients that come and go."""
    file = overlay_file(tmp_path, f'machines = {{ m1 = "{own_host()}", m2 = "{own_host()}" }}')
    played = workload(ChurnSpec(changes_per_minute=24_000))
    assert len(played.changes) == 10
    command = f"{sys.executable} -m octopia join {{experiment}} --machine {{machine}}"
    spec = structs.replace(run_spec("idr"), sites=Sites.even(OVERLAY, "cluster", 2, delay_ms=2))
    places = places_of(str(file), OVERLAY)
    run = run_live(played, OVERLAY, spec, tmp_path / "live", places=places, testbed=Testbed(start=command))
    assert [finding.rule for finding in check_run(played, OVERLAY, tmp_path / "live") if not finding.passed] == []
    assert run.spec == spec
    assert run.live is not None
    assert sorted(process.machine for process in run.live.processes) == ["m1", "m2"]
    assert {(process.clock_offset_ns, process.clock_error_ns) for process in run.live.processes} == {(0, 0)}


def test_what_is_too_old_for_a_subscriber_is_named_in_the_trace(tmp_path: Path) -> None:
    """Clusters 60 ms apart and deadlines of 20 ms: what crosses is too old, whatever the machine is doing."""
    played = workload(wishes=WishSpec(deadline_share=0.5, deadline_s=0.02))
    spec = structs.replace(run_spec(), sites=Sites.even(OVERLAY, "cluster", 2, delay_ms=60))
    run_live(played, OVERLAY, spec, tmp_path, processes=2)
    assert [finding for finding in check_run(played, OVERLAY, tmp_path) if finding.cases] == []
    want, got, gone = wanted(played), pairs(played, tmp_path, "deliveries"), pairs(played, tmp_path, "expired")
    assert got + gone == want
    first, homes = first_numbers(played).publication, played.clients()
    publishers = [played.advertisements[each].broker for each in played.publications.publisher.tolist()]
    timed = {client for client, wish in played.wishes.items() if wish.deadline_ns}
    assert {client for _, client in gone} <= timed
    far = {pair for pair in want if publishers[pair[0] - first].cluster != homes[pair[1]].cluster and pair[1] in timed}
    assert far
    assert far <= set(gone)


def test_a_process_that_cannot_start_is_an_error_with_its_words(tmp_path: Path) -> None:
    places = tuple(Place(str(id), "m1", "127.0.0.1:0") for id in OVERLAY.brokers)
    for command, words in (
        ("sh -c 'echo no such luck >&2; exit 3'", "ended \\(3\\).*no such luck"),
        ("no-such-command", "cannot run no-such-command"),
        ("ssh {host}", "write \\{machine\\} and \\{experiment\\}"),
    ):
        with pytest.raises(OctopiaError, match=words):
            run_live(workload(), OVERLAY, run_spec(), tmp_path, places=places, testbed=Testbed(start=command))


def test_what_only_the_simulator_can_do_is_refused(tmp_path: Path) -> None:
    fault = LinkFault(sender=("a", 0), receiver=("b", 0), kind="down", from_ns=0, until_ns=1)
    for kind, both, words in (
        ("down", False, "connections of live brokers are down in both directions"),
        ("loss", True, "loss is for the simulator only, since TCP neither loses nor duplicates"),
        ("duplicate", True, "duplicate is for the simulator only"),
    ):
        wrong = structs.replace(fault, kind=kind, both=both)
        with pytest.raises(InputError, match=f"faults\\[0\\]: {words}"):
            run_live(workload(), OVERLAY, RunSpec(faults=(wrong,)), tmp_path)
