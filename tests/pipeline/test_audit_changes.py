"""The audit where clients change their registrations, answered by DuckDB.

What it says is held against the simulator's judge (`octopia.sim.terms`), which shares no code with it.
"""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from octopia import metrics
from octopia.pipeline.stage_audit import INPUTS, audit_sql
from octopia.sim import LinkFault, RunSpec, compare_deliveries, first_numbers, load_model, simulate, terms_of
from octopia.topology import Scot, parse_tree
from octopia.workload import (
    ChurnSpec,
    Workload,
    WorkloadSpec,
    make_workload,
    synthetic_quotes,
    workload_tables,
)
from tests.workload.rows import truth_pairs

OVERLAY = Scot(parse_tree("path:3"), 2)
SPEC = WorkloadSpec(publishers=5, subscribers=15, selectivity=0.2, notifications_per_publisher=20, rate_per_minute=600)


def truth(workload: Workload) -> pa.Table:
    """As the stage makes it: what a change subscribes to is numbered on from the subscribers."""
    filters = {number: each.filter for number, each in enumerate(workload.subscriptions)}
    first = len(filters)
    changes = enumerate(workload.changes, first)
    filters |= {number: each.registration.filter for number, each in changes if each.kind == "subscribe"}
    pairs = truth_pairs(list(filters.values()), workload.notifications)
    numbers = pa.array(list(filters), pa.int32())
    return pa.table({"row": pairs.column("row"), "subscriber": numbers.take(pairs.column("filter"))})


def findings(workload: Workload, folder: Path, deliveries: pa.Table, changing: bool) -> set[tuple[str, int, str]]:
    tables = {**workload_tables(workload), "truth": truth(workload)}
    for name in set(INPUTS) - set(tables):
        trace = deliveries if name == "deliveries" else pq.read_table(folder / f"{name}.parquet")
        tables[name] = trace.add_column(0, "system", pa.array(["snr"] * trace.num_rows, pa.string()))
    found = metrics.ask(tables, audit_sql(changing=changing)).to_pylist()
    return {(row["finding"], row["request"], row["client"]) for row in found}


@pytest.mark.parametrize("seed", range(2))
def test_the_audit_says_what_the_judge_says(tmp_path: Path, seed: int) -> None:
    quotes = synthetic_quotes(seed, symbols=10, days=30)
    workload = make_workload(SPEC, OVERLAY, quotes, churn=ChurnSpec(3000, 0.3))
    # in one of the runs messages are lost, so that some changes are never settled
    faults = (LinkFault(("a", 0), ("b", 0), "loss", 0, 10**10, probability=0.1),) * seed
    simulate(workload, OVERLAY, RunSpec(model=load_model("paper"), faults=faults), tmp_path)
    played = pq.read_table(tmp_path / "deliveries.parquet")
    names = list(workload.clients())
    clients = {name: number for number, name in enumerate(names)}
    first = first_numbers(workload).publication
    # some deliveries are gone, and some are there that no routing would make
    draw = Random(seed)
    kept = played.filter(pa.array([draw.random() < 0.9 for _ in range(played.num_rows)]))
    there = set(zip(kept["request"].to_pylist(), kept["client"].to_pylist(), strict=True))
    like = kept.slice(0, 1).to_pylist()[0]
    more = [
        {**like, "request": first + n, "client": client, "delivered_ns": 0}
        for n in range(len(workload.publications))
        for client in clients.values()
        if draw.random() < 0.2 and (first + n, client) not in there
    ]
    deliveries = pa.concat_tables([kept, pa.Table.from_pylist(more, kept.schema)])
    folder = tmp_path / "changed"
    folder.mkdir()
    for file in tmp_path.glob("*.parquet"):
        table = deliveries if file.stem == "deliveries" else pq.read_table(file)
        pq.write_table(table, folder / file.name)
    got = [deliveries[name].to_numpy().astype(np.int64) for name in ("request", "client")]
    wrong = compare_deliveries(workload, clients, got[0] - first, got[1], terms_of(workload, folder))
    expected = {
        (finding, first + code // len(names), names[code % len(names)])
        for finding, codes in (("lost", wrong.missing), ("unwanted", wrong.unwanted))
        for code in codes.tolist()
    }
    assert len(expected) > 100
    assert findings(workload, folder, deliveries, changing=True) == expected


def test_without_changes_both_texts_say_the_same(tmp_path: Path) -> None:
    workload = make_workload(SPEC, OVERLAY, synthetic_quotes(3, symbols=10, days=30))
    simulate(workload, OVERLAY, RunSpec(model=load_model("paper")), tmp_path)
    played = pq.read_table(tmp_path / "deliveries.parquet")
    assert findings(workload, tmp_path, played, changing=True) == set()
    fewer = played.slice(7)
    found = findings(workload, tmp_path, fewer, changing=False)
    assert len(found) == 7
    assert findings(workload, tmp_path, fewer, changing=True) == found
