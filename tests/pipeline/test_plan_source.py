"""What a plan reads: recordings of live brokers, against facts written by hand, and runs of simulate. No Spark."""

from pathlib import Path
from typing import Any

import pytest

from octopia.errors import InputError
from octopia.experiments import EXPERIMENTS, changed, make_cells, run_cell, workload_of
from octopia.pipeline import plan_recorded
from octopia.pipeline.plan_recorded import notifications_table, read_recorded
from octopia.pipeline.plan_source import read_source
from octopia.pipeline.storage import LocalStore
from octopia.topology import BrokerId
from octopia.trace import RecordedOverlay, write_overlay
from octopia.workload import workload_from_tables, workload_tables
from tests.pipeline.recorded import Recorded, story

OVERLAY = RecordedOverlay("two", ("a", "b"), (("a", "b"),), 1, "snr", "host", 7.0, 0.25)


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    made = Recorded(tmp_path)
    write_overlay(tmp_path, OVERLAY)
    made.registered(("b,0", "x", "s1", "n >= 2"), ("a,0", "y", "s1", "kind = 'k' and n < 100"))
    made.registered(("a,0", "p", "a1", "n >= 0"), log="advertised")
    return made


def test_a_recording_is_a_trace_and_the_workload_that_makes_it(recorded: Recorded) -> None:
    """Sent twice with equal contents: one row. What no filter asks for is left out; the rest keeps its type."""
    recorded.write(*story(1, 5.0, got=("y",), kind="k", text="left out"), *story(9, 6.0, publisher="gone"))
    recorded.write(*story(2, 7.5, kind="j"), *story(3, 8.0, got=("z", "x")))
    tables, workload, overlay, run = read_recorded(recorded.folder)
    assert workload.clients() == {"p": BrokerId("a", 0), "x": BrokerId("b", 0), "y": BrokerId("a", 0)}
    assert [(each.client, each.id, str(each.filter)) for each in workload.subscriptions] == [
        ("y", "y/s1", "kind = 'k' and n < 100"),
        ("x", "x/s1", "n >= 2"),
    ]
    published = workload.publications
    rows = workload.notifications.to_pylist()
    assert [rows[row] for row in published.row] == [
        {"kind": "k", "n": 1},
        {"kind": "j", "n": 2},
        {"kind": None, "n": 3},
    ]
    assert published.at_ns.tolist() == [0, 2_500_000_000, 3_000_000_000]
    # of a publisher without an advertisement, and for a client without a subscription, nothing
    names = {row["client"]: row["name"] for row in tables["clients"].to_pylist()}
    assert sorted(names.values()) == ["p", "x", "y"]
    assert [names[row["client"]] for row in tables["requests"].to_pylist()] == ["p"] * 3
    assert sorted(names[row["client"]] for row in tables["deliveries"].to_pylist()) == ["x", "x", "y", "y"]
    assert tables["hops"].num_rows == 3
    assert (overlay.brokers, run.routing, run.covering) == ((BrokerId("a", 0), BrokerId("b", 0)), "snr", "host")
    assert (run.tau, run.window_s) == (7.0, 0.25)
    stored = workload_tables(workload)
    assert workload_from_tables(stored, workload.notifications.schema).equals(workload)


def test_the_newest_facts_are_used(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notification that began in a file which is left out is left out, too."""
    recorded.write(*story(1, 5.0))
    recorded.write(*story(2, 6.0), *story(3, 7.0))
    recorded.write(*story(4, 7.05, hop_s=0.01))
    monkeypatch.setattr(plan_recorded, "WINDOW_FACTS_MAX", 15)
    workload = read_recorded(recorded.folder).workload
    assert sorted(workload.notifications["n"].to_pylist()) == [2, 3, 4]


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, None, 2], "int64"), ([1, 0.5], "double"), (["a", "b"], "string"), ([True, False], "bool")],
)
def test_an_attribute_keeps_its_type(values: list[Any], kind: str) -> None:
    table = notifications_table([{} if value is None else {"v": value} for value in values])
    assert (str(table.schema.field("v").type), table["v"].to_pylist()) == (kind, values)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"v": 1}, {"v": "1"}], r"attribute 'v' has values of several types \(int, str\)"),
        ([{"v": 1 << 60}, {"v": 0.5}], "several types"),
        ([{"v": 1 << 64}], "integers beyond 64 bits"),
        ([{"row": 1}], "'row' cannot be planned with"),
    ],
)
def test_attributes_that_no_table_can_hold_are_refused(rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        notifications_table(rows)


def test_a_recording_that_cannot_be_planned_for_says_why(recorded: Recorded) -> None:
    with pytest.raises(InputError, match="nothing was published while it was recorded"):
        read_recorded(recorded.folder)
    recorded.write(*story(1, 5.0, publisher="gone"))
    with pytest.raises(InputError, match="no publisher has an advertisement there"):
        read_recorded(recorded.folder)
    recorded.write({"fact": "alive", "broker": "c,0", "since": 9, "till": 9})
    with pytest.raises(InputError, match=r"has facts of broker \(c,0\), which is not in its overlay\.json"):
        read_recorded(recorded.folder)
    (recorded.folder / "overlay.json").write_text("{}")
    with pytest.raises(InputError, match=r"overlay\.json: cannot be read: Object missing required field"):
        read_recorded(recorded.folder)
    (recorded.folder / "overlay.json").unlink()
    with pytest.raises(InputError, match=r"does not say which overlay was recorded: overlay\.json is missing"):
        read_recorded(recorded.folder)


def test_a_run_of_simulate_is_a_source(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["delivery"]
    given: dict[str, Any] = {"overlay": "path:2", "clusters": 2, "publishers": 3, "points": [12], "seeds": 1}
    given |= {"systems": ["snr"], "notifications_per_publisher": 4, "selectivity": 0.3}
    (cell,) = make_cells(experiment, changed(experiment.settings, given, "test"))
    run_cell(cell, tmp_path / "runs" / "one", keep_trace=True)

    def scratch() -> LocalStore:
        raise AssertionError("its trace is there already")

    with pytest.raises(InputError, match="has several runs: name one of them"):
        read_source(LocalStore(tmp_path), None, scratch)
    source = read_source(LocalStore(tmp_path / "runs" / "one"), "snr", scratch)
    assert source.workload.equals(workload_of(cell))
    assert (source.overlay, source.run.routing, source.other_routings) == (cell.overlay, "snr", ())
    assert all(Path(url).is_file() for url in source.urls.values())
