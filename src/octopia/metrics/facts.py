"""The facts about a run that metrics need in addition to its trace: the one row of the table `facts`.

Values only. A trace without a `run.json` gives its own facts.
"""

from typing import Annotated, Any

import pyarrow as pa
from msgspec import Meta, Struct, structs

from octopia.sim import Run

Time = Annotated[int, Meta(ge=0)]


class Facts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When publishing began and the overlay became quiet, two parameters of the model, two of the metrics, and t_w."""

    publish_from_ns: Time = 0
    publish_until_ns: Time = 0
    processor_base_ns: Time = 0
    client_delay_ns: Time = 0
    block_notifications: Annotated[int, Meta(ge=1)] = 1000
    delay_bound_ns: Annotated[int, Meta(ge=1)] = 1_000_000_000
    window_ns: Annotated[int, Meta(ge=1)] = 50_000_000

    def values(self) -> dict[str, int]:
        """The columns of the table `facts` and their values."""
        return structs.asdict(self)

    def table(self) -> Any:
        return pa.table({name: pa.array([value], pa.int64()) for name, value in self.values().items()})


def facts_of(run: Run, *, block_notifications: int = 1000, delay_bound_ns: int = 1_000_000_000) -> Facts:
    """The facts of a run. If it was interrupted before publishing began, publishing has length 0.

    Live brokers do not have a model: the way to the client was measured, and all of a broker's work counts as matching.
    """
    published = next((phase for phase in run.phases if phase.name == "publish"), None)
    live = run.live
    last = max((phase.until_ns for phase in run.phases), default=0)
    return Facts(
        publish_from_ns=last if published is None else published.from_ns,
        publish_until_ns=last if published is None else published.until_ns,
        processor_base_ns=run.spec.model.processor.base_ns if live is None else 0,
        client_delay_ns=run.spec.model.client.delay_ns if live is None else live.client_delay_ns,
        block_notifications=block_notifications,
        delay_bound_ns=delay_bound_ns,
        window_ns=max(1, round(run.spec.window_s * 1e9)),
    )
