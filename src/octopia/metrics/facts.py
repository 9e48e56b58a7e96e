"""What metrics must know of a run beside its trace: the one row of the table `facts`.

Rules of this file: values only. A trace of live brokers, which has no `run.json`, gives its own facts.
"""

from typing import Annotated, Any

import pyarrow as pa
from msgspec import Meta, Struct, structs

from octopia.sim import Run

Time = Annotated[int, Meta(ge=0)]


class Facts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When publishing began and when nothing moved any more, two parameters of the model, and two of the metrics."""

    publish_from_ns: Time = 0
    publish_until_ns: Time = 0
    processor_base_ns: Time = 0
    client_delay_ns: Time = 0
    block_notifications: Annotated[int, Meta(ge=1)] = 1000
    delay_bound_ns: Annotated[int, Meta(ge=1)] = 1_000_000_000

    def values(self) -> dict[str, int]:
        """The columns of the table `facts` and their values."""
        return structs.asdict(self)

    def table(self) -> Any:
        return pa.table({name: pa.array([value], pa.int64()) for name, value in self.values().items()})


def facts_of(run: Run, *, block_notifications: int = 1000, delay_bound_ns: int = 1_000_000_000) -> Facts:
    """The facts of a simulated run. Where it was interrupted before publishing began, publishing has no length."""
    published = next((phase for phase in run.phases if phase.name == "publish"), None)
    last = max((phase.until_ns for phase in run.phases), default=0)
    return Facts(
        publish_from_ns=last if published is None else published.from_ns,
        publish_until_ns=last if published is None else published.until_ns,
        processor_base_ns=run.spec.model.processor.base_ns,
        client_delay_ns=run.spec.model.client.delay_ns,
        block_notifications=block_notifications,
        delay_bound_ns=delay_bound_ns,
    )
