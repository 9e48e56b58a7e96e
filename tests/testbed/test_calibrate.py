"""A model that is calibrated by a run must be the one that the run was made with: the simulator makes it."""

from pathlib import Path

import msgspec
import pytest

from octopia.errors import InputError
from octopia.sim import LiveFacts, LiveProcess, Model, RunSpec, load_model, save_run, simulate
from octopia.testbed import calibrated, model_toml
from octopia.workload import WorkloadSpec, make_workload, synthetic_quotes
from tests.testbed.worlds import OVERLAY

FACTS = LiveFacts((LiveProcess("here", 4, 0, 0), LiveProcess("here", 4, 0, 0)), 0, 0, 0, 0, 0, 0, 0, 0)
TRUE = msgspec.convert(
    {
        "processor": {"base_ns": 40_000, "matching": [[1, 1_000], [100, 10_900]]},
        "link": {"per_message_ns": 200, "delay_ns": 150_000},
        "client": {"delay_ns": 90_000},
    },
    Model,
)


def pretend_live(folder: Path, model: Model, *, notifications: int = 50) -> Path:
    """A simulated run that says it was made on live brokers."""
    spec = WorkloadSpec(publishers=4, subscribers=8, selectivity=0.2, notifications_per_publisher=notifications, seed=3)
    run = simulate(
        make_workload(spec, OVERLAY, synthetic_quotes(3, 20, 250)), OVERLAY, RunSpec(routing="snr", model=model), folder
    )
    save_run(msgspec.structs.replace(run, live=FACTS), folder)
    return folder


def before() -> Model:
    """What is known before: how long matching and writing take, and nothing else that is true."""
    live = load_model("live")
    values = msgspec.to_builtins(live)
    values["processor"] = {"base_ns": 1, "matching": [[1, 1_000], [100, 10_900]]}
    values["link"] = {"per_message_ns": 200, "delay_ns": 7}
    return msgspec.convert(values, Model)


def test_the_parameters_of_the_run_are_found_again(tmp_path: Path) -> None:
    found = calibrated(pretend_live(tmp_path, TRUE), before())
    # matching is taken from the mean size of a table, and its brokers have tables of several sizes
    assert found.processor.base_ns == pytest.approx(TRUE.processor.base_ns, abs=500)
    assert found.processor.matching == TRUE.processor.matching
    assert (found.link.per_message_ns, found.link.delay_ns, found.link.jitter_ns) == (200, 150_000, 0)
    assert found.client.delay_ns == pytest.approx(TRUE.client.delay_ns, abs=500)
    assert found.machines == msgspec.convert({"count": 2}, type(found.machines))


def test_a_jitter_is_found_by_its_mean(tmp_path: Path) -> None:
    values = msgspec.to_builtins(TRUE)
    values["link"]["jitter_ns"] = 100_000
    found = calibrated(pretend_live(tmp_path, msgspec.convert(values, Model)), before())
    mean = found.link.delay_ns + found.link.jitter_ns / 2
    assert mean == pytest.approx(200_000, abs=5_000)
    assert found.link.delay_ns == pytest.approx(155_000, abs=5_000)


def test_the_file_is_read_back_as_the_model(tmp_path: Path) -> None:
    found = calibrated(pretend_live(tmp_path / "run", TRUE), before())
    (tmp_path / "model.toml").write_text(model_toml(found), encoding="utf-8")
    assert load_model(str(tmp_path / "model.toml")) == found


def test_what_cannot_be_calibrated_by_is_named(tmp_path: Path) -> None:
    folder = pretend_live(tmp_path / "few", TRUE, notifications=1)
    with pytest.raises(InputError, match="too few to calibrate with"):
        calibrated(folder, before())
    with pytest.raises(InputError, match="one kind of link"):
        calibrated(folder, msgspec.convert({"a_link": {"delay_ns": 1}}, Model))
    workload = make_workload(WorkloadSpec(publishers=1, subscribers=1), OVERLAY, synthetic_quotes(3, 20, 250))
    simulate(workload, OVERLAY, RunSpec(), tmp_path / "simulated")
    with pytest.raises(InputError, match="holds a simulated run"):
        calibrated(tmp_path / "simulated", before())
