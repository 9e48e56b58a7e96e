"""The proof of a proposal: its workload is replayed in the simulator, checked like every run, and measured.

A replay maps plain values to plain values, so it can run as a Spark task. The metrics are those of every report.
"""

import tempfile
from pathlib import Path
from typing import Final

from msgspec import UNSET, Struct, structs

from octopia import metrics
from octopia.planning.proposal import Proposal, proposed_workload
from octopia.sim import RunSpec, check_run, simulate
from octopia.workload import Workload

_METRICS: Final = (
    "notification_delay",
    "messages_caused",
    "publishing_messages",
    "delivery_hops",
    "deliveries",
    "prt_entries",
    "matching_delay",
)


class Measured(Struct, frozen=True):
    """The result of a replay.

    `broken` are the rules that did not hold: exactly once, and the other promises of the routing. `copies` are
    notifications on links, `subscribe_messages` all messages caused by subscribing.
    """

    name: str
    routing: str
    copies: int
    subscribe_messages: int
    deliveries: int
    delay_mean_s: float | None
    delay_p99_s: float | None
    hops_mean: float | None
    matching_mean_s: float | None
    prt_mean: float | None
    broken: tuple[str, ...] = ()


def replay(workload: Workload, proposal: Proposal, run: RunSpec) -> Measured:
    """Play the proposal; `run` has the routing and the simulated machines."""
    placed = proposed_workload(workload, proposal)
    spec = structs.replace(run, covering=UNSET if proposal.covering == "none" else proposal.covering)
    overlay = proposal.overlay
    with tempfile.TemporaryDirectory(prefix="octopia-plan-") as scratch:
        folder = Path(scratch)
        done = simulate(placed, overlay, spec, folder)
        findings = check_run(placed, overlay, folder)
        tables = metrics.run(folder, list(_METRICS), facts=metrics.facts_of(done))
    values = {(metric, part): value for metric, part, value in metrics.values_of(tables)}
    return Measured(
        proposal.name,
        run.routing,
        int(values["publishing_messages", "copies"] or 0),
        int(values.get(("messages_caused", "subscribe")) or 0),
        int(values["deliveries", "number"] or 0),
        values["notification_delay", "mean"],
        values["notification_delay", "p99"],
        values["delivery_hops", "mean"],
        values.get(("matching_delay", "mean")),
        values["prt_entries", "mean"],
        tuple(f"{finding.rule}: {finding.cases}" for finding in findings if not finding.passed),
    )
