"""Stage 3, workload: who publishes what and when, who subscribes to what, and where they are.

Rules of this file: the workload is made by `octopia.workload.make_workload` alone, on the driver: it is what one
simulation holds in memory, so it fits there. Only the quotes of the published symbols come to the driver, and they are
the notifications of stage 2, so that these and the workload cannot be apart.
"""

from typing import Final

import pyarrow as pa

from octopia.errors import InputError
from octopia.pipeline.manifest import Parameters
from octopia.pipeline.spec import PipelineSpec, burst_fields, overlay_fields
from octopia.pipeline.stage_notifications import symbols_of
from octopia.pipeline.stages import Outputs, Sessions, Stage, Work
from octopia.workload import QUOTES_SCHEMA, make_workload, spec_fields, workload_tables

# About 120 bytes each while the workload is made; PUBLICATIONS_MAX of the workload allows as many.
NOTIFICATIONS_MAX: Final = 50_000_000

_TABLES: Final = ("publishers", "subscribers", "publications")


def make_workload_tables(work: Work[PipelineSpec]) -> Outputs:
    """The tables `publishers`, `subscribers` and `publications`."""
    spec = work.spec
    notifications = work.tables["notifications"]
    published = notifications.select(*QUOTES_SCHEMA.names).limit(NOTIFICATIONS_MAX + 1).toArrow()
    if published.num_rows > NOTIFICATIONS_MAX:
        raise InputError(f"there are more than {NOTIFICATIONS_MAX:,} notifications: lower notifications_per_publisher")
    quotes = published.set_column(0, "date", published["date"].cast(pa.date32()))
    symbols = symbols_of(work.tables["quotes"])
    workload = make_workload(spec.workload, spec.overlay, quotes, spec.burst, symbols)
    wanted, found = spec.workload.selectivity, workload.summary().subscriptions
    work.notes.append(
        f"selectivity of the subscriptions: {found.mean:.2%} on average, {found.least:.2%} to {found.most:.2%}, "
        f"wanted {wanted:.2%}"
    )
    tables = workload_tables(workload)
    return {name: tables[name] for name in _TABLES}


def workload_parameters(spec: PipelineSpec, sessions: Sessions) -> Parameters:
    """All settings of the clients, and the overlay they are placed on."""
    return {**spec_fields(spec.workload), "burst": burst_fields(spec.burst), "overlay": overlay_fields(spec.overlay)}


WORKLOAD: Final = Stage(
    name="workload",
    about="publishers, subscribers and their filters, placed on the overlay",
    inputs=("quotes", "notifications"),
    outputs=_TABLES,
    make=make_workload_tables,
    parameters=workload_parameters,
    code=("octopia.workload", "octopia.language", "octopia.topology", "octopia.pipeline.stage_workload"),
)
