"""Whole runs: equal inputs give equal traces, whatever finds the matches, and the files of a run are complete."""

import hashlib
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from octopia.errors import InputError
from octopia.routing import POLICIES, MatcherIndex
from octopia.sim import MODELS, BrokerFault, LinkFault, RunSpec, draw_faults, load_model, load_run, simulate
from octopia.sim.known import KnownMatches
from octopia.sim.model import LinkModel, Machines, Model, OtherLink, Processor, Receiver
from octopia.topology import Scot, Sites, parse_tree
from octopia.trace import TABLES
from tests.sim.worlds import drawn, rows

OVERLAY = Scot(parse_tree("path:3"), 3)
WORLD = drawn(OVERLAY, 3, publishers=5, subscribers=20, notifications=500, span_ns=1_000_000_000)
MODEL = Model(
    processor=Processor(base_ns=200_000, matching=((0, 1000), (10, 30_000))),
    link=LinkModel(per_message_ns=9_000_000, per_byte_ns=100, delay_ns=100_000, jitter_ns=50_000),
)
FAULTS = (
    LinkFault(("a", 0), ("a", 1), "loss", 0, 10**9, probability=0.3),
    LinkFault(("b", 0), ("b", 1), "duplicate", 0, 10**9, probability=0.3),
    BrokerFault(("c", 2), 10**8, 2 * 10**8),
)


# Columns that came after the digests below were worked out: what was there before must stay the same.
LATER = {"routing_case", "site"}


def digest(folder: Path) -> str:
    """Of the contents of all tables, so that it does not depend on how a version of Arrow lays out a file."""
    seen = hashlib.sha256()
    for table in TABLES:
        for row in rows(folder, table):
            seen.update(repr([value for name, value in row.items() if name not in LATER]).encode())
    return seen.hexdigest()[:16]


@pytest.mark.parametrize("routing", POLICIES)
def test_same_seed_same_bytes_other_seed_other_run(tmp_path: Path, routing: str) -> None:
    contents = []
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        simulate(WORLD, OVERLAY, RunSpec(routing=routing, model=MODEL, seed=seed, faults=FAULTS), tmp_path / name)
        contents.append({file.name: file.read_bytes() for file in sorted((tmp_path / name).iterdir())})
    assert sorted(contents[0]) == sorted([*(f"{table}.parquet" for table in TABLES), "run.json"])
    assert contents[0] == contents[1]
    assert contents[0] != contents[2]


# Worked out once; equal on every version of Python and of the libraries that we support.
@pytest.mark.parametrize(
    ("routing", "expected"),
    [
        ("snr", "9e638da09bb7ea10"),
        ("idr", "89c3e16a1a6592e4"),
        ("tid", "4ca9b3da40c0b8cf"),
        ("tid-dynamic", "faacb3a9dc36bd47"),
    ],
)
def test_a_run_is_the_same_everywhere(tmp_path: Path, routing: str, expected: str) -> None:
    simulate(WORLD, OVERLAY, RunSpec(routing=routing, model=MODEL, seed=1, faults=FAULTS), tmp_path)
    assert digest(tmp_path) == expected


@pytest.mark.parametrize("routing", POLICIES)
def test_matches_known_beforehand_are_those_the_index_finds(
    tmp_path: Path, routing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = RunSpec(routing=routing, model=MODEL, faults=FAULTS)
    simulate(WORLD, OVERLAY, spec, tmp_path / "known")
    monkeypatch.setattr(KnownMatches, "make_index", lambda self: MatcherIndex())
    simulate(WORLD, OVERLAY, spec, tmp_path / "found")
    assert digest(tmp_path / "known") == digest(tmp_path / "found")


def test_a_run_says_what_was_run(tmp_path: Path) -> None:
    spec = RunSpec(routing="idr", model=MODEL, seed=4, faults=FAULTS, tau=5.0)
    run = simulate(WORLD, OVERLAY, spec, tmp_path)
    assert load_run(tmp_path) == run
    assert run.spec == spec
    assert (run.tree, run.clusters, run.complete) == ((("a", "b"), ("b", "c")), 3, True)
    assert [phase.name for phase in run.phases] == ["advertise", "subscribe", "publish"]
    assert run.rows == {table: pq.read_metadata(tmp_path / f"{table}.parquet").num_rows for table in TABLES}
    assert run.rows["requests"] == 5 + 20 + 500


def test_an_interrupt_leaves_complete_files(tmp_path: Path) -> None:
    def interrupt(phase: str, done: int, of: int, hops: int) -> None:
        if phase == "publish" and done > of // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(WORLD, OVERLAY, RunSpec(routing="snr", model=MODEL), tmp_path, interrupt)
    whole = tmp_path / "whole"
    simulate(WORLD, OVERLAY, RunSpec(routing="snr", model=MODEL), whole)
    for table in TABLES:
        part = rows(tmp_path, table)
        assert part == rows(whole, table)[: len(part)] or table in ("table_sizes", "queues")
    assert 0 < len(rows(tmp_path, "deliveries")) < len(rows(whole, "deliveries"))
    assert not list(tmp_path.glob("*.partial"))
    assert not load_run(tmp_path).complete


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    simulate(
        WORLD, OVERLAY, RunSpec(routing="snr"), tmp_path, lambda phase, done, of, hops: told.append((phase, done, of))
    )
    assert told[0] == ("advertise", 0, 5)
    assert told[-1] == ("publish", 500, 500)
    assert ("subscribe", 20, 20) in told


def test_batches_of_any_size_give_the_same_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = RunSpec(routing="idr", model=MODEL, faults=FAULTS)
    simulate(WORLD, OVERLAY, spec, tmp_path / "one")
    monkeypatch.setattr("octopia.sim.recorder.ROWS_PER_BATCH", 7)
    monkeypatch.setattr("octopia.sim.recorder._RECIPIENT_SETS_MAX", 2)
    simulate(WORLD, OVERLAY, spec, tmp_path / "many")
    assert digest(tmp_path / "one") == digest(tmp_path / "many")


# ---- input


@pytest.mark.parametrize("name", MODELS)
def test_models_that_come_with_it(name: str) -> None:
    assert load_model(name).title.startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[link]\nper_mesage_ns = 3", "unknown field `per_mesage_ns` - at `$.link`"),
        ("[link]\ndelay_ns = -1", "Expected `int` >= 0 - at `$.link.delay_ns`"),
        ("[processor]\nmatching = [[5, 1], [5, 2]]", "matching: the sizes must rise from pair to pair"),
        ("[link\n", "not TOML"),
        ("link = 3", "Expected `object`, got `int` - at `$.link`"),
        ("lnk = 3", "unknown field `lnk`"),
        ("[a_link]\nframes = 3", "unknown field `frames` - at `$.a_link`"),
        ("[[links]]\ndelay_ns = 3", "missing required field `between` - at `$.links[0]`"),
        ("[receiver]\nframes = 0", "Expected `int` >= 1 - at `$.receiver.frames`"),
        ("[machines]\ncores = 2", "machines: give either count (a number) or names (a list), as in count = 6"),
        ('[machines]\ncount = 2\nnames = ["m"]', "machines: give either count (a number) or names (a list)"),
    ],
)
def test_a_model_file_with_a_mistake(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "model.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_model(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[[links]]\nbetween = ["a0", "b.0"]', "links[0].between: 'a0' is not a broker; write region.cluster, for"),
        ('[[links]]\nbetween = ["a.0", "d.0"]', "links[0].between: no broker d.0 in the overlay"),
        (
            '[[links]]\nbetween = ["a.0", "c.0"]',
            "links[0].between: a.0 and c.0 are not neighbours; a.0 has b.0, a.1, a.2",
        ),
        (
            '[[links]]\nbetween = ["a.0", "b.0"]\n[[links]]\nbetween = ["b.0", "a.0"]',
            "links[1].between: the link was given already, as links[0]; remove one of them",
        ),
        ('[machines]\nnames = ["m", "m"]', "machines: machine m is given twice"),
    ],
)
def test_a_model_that_does_not_fit_the_overlay(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "model.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        simulate(WORLD, OVERLAY, RunSpec(model=load_model(str(path))), tmp_path / "run")
    assert str(caught.value).startswith(f"model: {complaint}")
    assert not (tmp_path / "run").exists()


def test_what_a_model_leaves_out_is_left_out_of_files() -> None:
    """So that runs of models without the optional parts stay the same, byte for byte."""
    for name in ("paper", "live", "instant"):
        spec = RunSpec(model=load_model(name))
        assert list(msgspec.to_builtins(spec.model)) == ["title", "processor", "link", "egress", "client", "sizes"]
        assert "sites" not in msgspec.to_builtins(spec)
    whole = Model(machines=Machines(count=2), receiver=Receiver(3), i_link=OtherLink(delay_ns=4))
    spec = RunSpec(model=whole, sites=Sites.even(OVERLAY, "region", 2, delay_ms=1))
    assert msgspec.json.decode(msgspec.json.encode(spec), type=RunSpec) == spec


def test_an_unknown_model() -> None:
    with pytest.raises(
        InputError,
        match=r"no model and no file 'papr' \(did you mean paper\?\); models are paper, paper-machines, live",
    ):
        load_model("papr")


def test_matching_time_follows_the_curve() -> None:
    curve = Processor(base_ns=5, matching=((10, 100), (20, 200), (40, 220)))
    assert [curve.service_ns(size) for size in (0, 10, 15, 20, 30, 40, 60)] == [105, 105, 155, 205, 215, 225, 245]
    assert Processor(base_ns=5, matching=((0, 7),)).service_ns(10**6) == 12
    assert Processor(base_ns=5).service_ns(10**6) == 5


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (LinkFault(("a", 0), ("c", 0), "down", 0, 1), r"faults\[0\]: there is no link between \(a,0\) and \(c,0\)"),
        (LinkFault(("a", 0), ("x", 0), "down", 0, 1), r"faults\[0\]: \(x,0\) is not a broker of"),
        (BrokerFault(("a", 3), 0, 1), r"faults\[0\]: \(a,3\) is not a broker of"),
        (BrokerFault(("a", 2), 5, 5), r"faults\[0\]: until_ns 5 must be after from_ns 5"),
    ],
)
def test_a_fault_that_cannot_be(tmp_path: Path, fault: LinkFault | BrokerFault, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        simulate(WORLD, OVERLAY, RunSpec(faults=(fault,)), tmp_path)


def test_faults_drawn_from_a_seed() -> None:
    drawn_faults = draw_faults(OVERLAY, 1, links_down=3, brokers_down=2, span_ns=10**9, length_ns=10**6)
    assert drawn_faults == draw_faults(OVERLAY, 1, links_down=3, brokers_down=2, span_ns=10**9, length_ns=10**6)
    assert drawn_faults != draw_faults(OVERLAY, 2, links_down=3, brokers_down=2, span_ns=10**9, length_ns=10**6)
    assert [type(fault).__name__ for fault in drawn_faults] == ["LinkFault"] * 3 + ["BrokerFault"] * 2
    assert all(0 <= fault.from_ns < 10**9 and fault.until_ns == fault.from_ns + 10**6 for fault in drawn_faults)


def test_a_spec_survives_a_file() -> None:
    spec = RunSpec(routing="idr", model=MODEL, faults=FAULTS)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=RunSpec) == spec


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not hold a run: there is no run\.json in it"):
        load_run(tmp_path)
