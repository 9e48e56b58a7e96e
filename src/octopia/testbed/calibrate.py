"""A model of this machine from a run on live brokers: measured times of brokers, links and clients.

The run publishes so few notifications that none waits long for another. It measures:

- `processor.base_ns`: a broker's time for a copy, from the end of the previous one in the same read, or from the read
  itself, until it is handled; less the matching time of the calibrated model, whose curve is kept.
- `link.delay_ns` and `jitter_ns`: from the queue to the reader at the other end, for messages that found the queue
  empty. The delay is the time that nineteen in twenty exceed, and the uniform jitter makes up the rest of the mean.
- `client.delay_ns`: the mean of both ways, from `publish` until the broker has read it, and from the end of the last
  broker's work until the subscriber has it.
- `machines`: brokers of one process share its event loop, like brokers of one machine with one core.

Only the trace is read. Every mean omits the slowest one in a hundred: those waited for the system to schedule the
process, and one of them would count as much as a hundred others. The comparison shows this omission as the difference
at the 99th percentile.
"""

from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import UNSET

from octopia.errors import InputError
from octopia.sim import Model, Run, load_run

Numbers = npt.NDArray[np.int64]
_KEPT: Final = 99  # percentile up to which values count
_LEAST: Final = 5  # percentile that is the delay without its jitter
_COPIES_MIN: Final = 20


def calibrated(folder: Path, before: Model) -> Model:
    """The model that this live run suggests in place of another."""
    run = load_run(folder)
    if run.live is None:
        raise InputError(f"{folder} holds a simulated run: a model is calibrated by a run on live brokers")
    if before.a_link is not UNSET or before.i_link is not UNSET or before.links is not UNSET:
        raise InputError("a model is calibrated with one kind of link; give one without a_link, i_link and links")
    hops = _copies(folder, run)
    if len(hops["queued_ns"]) < _COPIES_MIN:
        raise InputError(f"{len(hops['queued_ns'])} copies between brokers are too few to calibrate with; publish more")
    service_ns = _mean(_service(hops))
    matching_ns = before.processor.matching_ns(_table_size(folder))
    free = hops["queue"] == 0
    link = (hops["arrived_ns"] - hops["queued_ns"])[free]
    least_ns = round(float(np.percentile(link, _LEAST)))
    per_message_ns = min(before.link.per_message_ns, least_ns)
    values: dict[str, Any] = msgspec.to_builtins(before)
    values["title"] = "calibrated by a run on live brokers of this machine"
    values["processor"]["base_ns"] = max(0, round(service_ns - matching_ns))
    values["link"] = {
        "per_message_ns": per_message_ns,
        "delay_ns": least_ns - per_message_ns,
        "jitter_ns": max(0, round(2 * (_mean(link) - least_ns))),
    }
    values["client"] = {"delay_ns": max(0, round((_to_broker(folder, service_ns) + _to_client(folder, hops)) / 2))}
    values["machines"] = {"count": len(run.live.processes)}
    return msgspec.convert(values, Model)


def model_toml(model: Model) -> str:
    """A model as a file that `load_model` reads."""
    values: dict[str, Any] = msgspec.to_builtins(model)
    lines = [f"title = {_toml(values.pop('title'))}"]
    for part, inside in values.items():
        if isinstance(inside, dict):
            lines += ["", f"[{part}]", *(f"{name} = {_toml(value)}" for name, value in inside.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    # Text and numbers of JSON are those of TOML.
    return msgspec.json.encode(value).decode("utf-8")


def _copies(folder: Path, run: Run) -> dict[str, Numbers]:
    read = pq.read_table(folder / "hops.parquet")
    read = read.filter(pc.equal(read.column("kind").cast("string"), "notify"))
    names = ("request", "sender", "receiver", "queued_ns", "arrived_ns", "handled_ns", "queue")
    return {name: read.column(name).to_numpy().astype(np.int64) for name in names}


def _service(hops: dict[str, Numbers]) -> Any:
    """The time of each copy at its broker; copies handled together share the time evenly."""
    order = np.lexsort((hops["handled_ns"], hops["arrived_ns"], hops["sender"], hops["receiver"]))
    receiver, sender, arrived, handled = (
        hops[name][order] for name in ("receiver", "sender", "arrived_ns", "handled_ns")
    )
    same_read = (receiver[1:] == receiver[:-1]) & (sender[1:] == sender[:-1]) & (arrived[1:] == arrived[:-1])
    first = np.concatenate([[True], ~(same_read & (handled[1:] == handled[:-1]))])
    starts = np.flatnonzero(first)
    counts = np.diff(np.concatenate([starts, [len(handled)]]))
    goes_on = np.concatenate([[False], same_read])[starts]
    begun = np.where(goes_on, np.concatenate([[0], handled])[starts], arrived[starts])
    return np.repeat((handled[starts] - begun) / counts, counts)


def _to_broker(folder: Path, service_ns: float) -> float:
    read = pq.read_table(folder / "requests.parquet")
    read = read.filter(pc.equal(read.column("kind").cast("string"), "publish"))
    read = read.filter(read.column("handled_ns").is_valid())
    return _mean(read.column("handled_ns").to_numpy() - read.column("issued_ns").to_numpy()) - service_ns


def _to_client(folder: Path, hops: dict[str, Numbers]) -> float:
    """From when the broker was done, for the notification's first arrival there."""
    got = pq.read_table(folder / "deliveries.parquet")
    request, broker, at = (
        got.column(name).to_numpy().astype(np.int64) for name in ("request", "broker", "delivered_ns")
    )
    asked = pq.read_table(folder / "requests.parquet", columns=["request", "broker", "handled_ns"])
    asked = asked.filter(asked.column("handled_ns").is_valid())
    done = [column.to_numpy().astype(np.int64) for column in asked.columns]
    width = int(max(hops["receiver"].max(initial=0), broker.max(initial=0), done[1].max(initial=0))) + 1
    keys = np.concatenate([hops["request"] * width + hops["receiver"], done[0] * width + done[1]])
    moments = np.concatenate([hops["handled_ns"], done[2]])
    order = np.lexsort((moments, keys))
    keys, moments = keys[order], moments[order]
    wanted = request * width + broker
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found = keys[place] == wanted
    return _mean((at - moments[place])[found])


def _table_size(folder: Path) -> int:
    sizes = pq.read_table(folder / "table_sizes.parquet")
    sizes = sizes.filter(pc.equal(sizes.column("phase").cast("string"), "publish"))
    return round(float(np.mean(sizes.column("prt").to_numpy()))) if sizes.num_rows else 0


def _mean(values: Any) -> float:
    """Without the longest values."""
    if not len(values):
        return 0.0
    return float(np.mean(values[values <= np.percentile(values, _KEPT)]))
