"""The settings of a pipeline: refusals, and the settings that tables on disk were made with. No Spark."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from octopia.errors import InputError
from octopia.pipeline.manifest import FORMAT, RECORD
from octopia.pipeline.spec import (
    PipelineSpec,
    QuotesSpec,
    cells_on_disk,
    made_with,
    pipeline_settings,
    run_parameters_of,
    workload_parameters_of,
)
from octopia.pipeline.storage import LocalStore

QUOTES = QuotesSpec(symbols=5, days=10)
SMALL: dict[str, Any] = {"overlay": "path:3", "clusters": 3, "publishers": 4, "subscribers": 50, "first_seed": 7}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"urgent_share": 0.5}, "urgent_share: the pipeline does not have this setting"),
        ({"host": "live"}, "host: the pipeline does not have this setting"),
        ({"systems": ["snr", "xyz"]}, "systems: unknown routing 'xyz'"),
        ({"shape": "round"}, "shape is 'round'"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        PipelineSpec(QUOTES, pipeline_settings(**changes))


def test_there_is_a_run_for_every_system_on_one_workload() -> None:
    cells = PipelineSpec(QUOTES, pipeline_settings(**SMALL, systems=["snr", "tid"])).cells
    assert [(cell.system, cell.run.routing, cell.run.seed, cell.point) for cell in cells] == [
        ("snr", "snr", 7, 50),
        ("tid", "tid", 7, 50),
    ]
    assert cells[0].workload == cells[1].workload
    assert cells[0].bursts == ()


def test_a_stage_that_runs_alone_goes_by_the_tables_on_disk(tmp_path: Path) -> None:
    made = PipelineSpec(
        QUOTES, pipeline_settings(**SMALL, burst_notifications=9, burst_interested_share=0.2), burst=True
    )
    store = LocalStore(tmp_path)
    for table, parameters in (("publishers", workload_parameters_of(made)), ("runs", run_parameters_of(made))):
        record = {"format": FORMAT, "parameters": parameters}
        store.write_json(f"{table}/{RECORD}", msgspec.json.decode(msgspec.json.encode(record)))
    other = PipelineSpec(QUOTES, pipeline_settings(overlay="path:2", clusters=2, systems=["fdr"], tau=3))
    assert made_with(store, other, "publishers", "runs") == made
    (cell,) = cells_on_disk(store, other)
    assert (cell.system, cell.run.tau) == ("fdr", 3)
    same = ("nodes", "edges", "clusters", "workload", "bursts", "churn", "point", "seed")
    assert [getattr(cell, name) for name in same] == [getattr(made.cell, name) for name in same]
