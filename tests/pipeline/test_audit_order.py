"""Findings are listed by gravity, so that the first few of many are the worst."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from octopia import metrics
from octopia.experiments import broken_promises, make_cells, run_cell
from octopia.pipeline.stage_audit import INPUTS, KINDS, audit_sql
from octopia.sim import Finding, RunSpec, load_model, simulate
from octopia.workload import make_workload, synthetic_quotes, workload_tables
from tests.experiments.cells import small
from tests.pipeline.test_audit_changes import OVERLAY, SPEC, truth


def test_rows_of_the_audit_come_the_worst_first(tmp_path: Path) -> None:
    workload = make_workload(SPEC, OVERLAY, synthetic_quotes(0, symbols=10, days=30))
    simulate(workload, OVERLAY, RunSpec(model=load_model("paper")), tmp_path)
    right = pq.read_table(tmp_path / "deliveries.parquet")
    # ten are lost, ten come twice, ten come to a publisher; nearly all are late
    publisher = list(workload.clients()).index(workload.advertisements[0].client)
    rows = right.slice(10, 10).to_pylist()
    strange = pa.Table.from_pylist([{**row, "client": publisher} for row in rows], right.schema)
    wrong = pa.concat_tables([right.slice(10), right.slice(20, 10), strange])
    tables = {**workload_tables(workload), "truth": truth(workload)}
    for name in set(INPUTS) - set(tables):
        trace = wrong if name == "deliveries" else pq.read_table(tmp_path / f"{name}.parquet")
        both = [trace.add_column(0, "system", pa.array([system] * trace.num_rows)) for system in ("snr", "idr")]
        tables[name] = pa.concat_tables(both)
    found = metrics.ask(tables, audit_sql(0.001)).to_pylist()
    order = [(KINDS.index(row["finding"]), row["system"], row["request"], row["client"]) for row in found]
    assert order == sorted(order)
    assert {row["finding"] for row in found} == set(KINDS)


def test_broken_promises_of_runs_come_the_worst_first(tmp_path: Path) -> None:
    experiment, settings = small("subscribers", systems=["snr"])
    runs = [run_cell(cell, tmp_path / cell.name) for cell in make_cells(experiment, settings)]
    rules = ("nothing is lost", "in order", "few hops")
    one, two = (
        structs.replace(run, findings=tuple(Finding(rule, int(rule in broken), True) for rule in rules))
        for run, broken in zip(runs, (("in order", "few hops"), ("nothing is lost", "few hops")), strict=True)
    )
    assert [(run, finding.rule) for run, finding in broken_promises([one, two])] == [
        (two, "nothing is lost"),
        (one, "in order"),
        (one, "few hops"),
        (two, "few hops"),
    ]
