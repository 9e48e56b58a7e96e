"""Spark settings: the only place for masters, memory and configuration.

It starts nothing. The user's `conf` overrides the values here. Files that Spark writes on its own (warehouse,
metastore, shuffle files, logs) must not land in the working directory: all of them go to the session's scratch folder.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from octopia.errors import InputError
from octopia.hints import did_you_mean, shortened

MASTER_DEFAULT: Final = "local[*]"
# A failed task is tried again, as on a cluster; plain `local[2]` gives up at the first.
LOCAL_TASK_FAILURES: Final = 3
SHUFFLE_PARTITIONS_MIN: Final = 8
_GIB: Final = 1 << 30
_DRIVER_MEMORY_MIN: Final = _GIB
_DRIVER_MEMORY_MAX: Final = 8 * _GIB

_LOCAL: Final = re.compile(r"local(?:\[(\*|[1-9]\d*)(?:,\s*([1-9]\d*))?\])?")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*([1-9]\d*)\s*,\s*([1-9]\d*)\s*,\s*([1-9]\d*)\s*\]")
_STANDALONE: Final = re.compile(r"spark://([^\s,/]+:\d+)(,[^\s,/]+:\d+)*")
_OTHER: Final = re.compile(r"yarn|k8s://\S+")
_FORMS: Final = "local[*], local[4], local-cluster[2,1,1024], spark://host:7077, yarn or k8s://https://host:port"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The start settings of a session. `conf` is any Spark configuration and overrides everything else."""

    master: str = MASTER_DEFAULT
    conf: Mapping[str, str] = field(default_factory=dict)
    app_name: str = "octopia"
    # The folder of the JVM's log; None: the scratch folder, which is removed with the session.
    log_path: Path | None = None
    # How long a cluster may take to provide the first executor; a busy one queues applications silently.
    executor_wait_s: float = 60.0

    def __post_init__(self) -> None:
        check_master(self.master)
        for key, value in self.conf.items():
            check_conf(key, value)
        # Frozen for good: a session must not change under its stages.
        object.__setattr__(self, "conf", MappingProxyType(dict(self.conf)))

    @property
    def is_local(self) -> bool:
        """Whether everything runs in this process's own JVM."""
        return _LOCAL.fullmatch(self.master) is not None

    @property
    def is_local_cluster(self) -> bool:
        return _LOCAL_CLUSTER.fullmatch(self.master) is not None

    @property
    def master_addresses(self) -> list[tuple[str, int]]:
        """Host and port of each standalone master; none for other kinds."""
        if not _STANDALONE.fullmatch(self.master):
            return []
        pairs = (part.rpartition(":") for part in self.master.removeprefix("spark://").split(","))
        return [(host.strip("[]"), int(port)) for host, _, port in pairs]

    @property
    def waits_for_executors(self) -> bool:
        """Whether executors start before the first job; otherwise, or with dynamic allocation, a job requests them."""
        dynamic = self.conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true"
        return (self.is_local_cluster or bool(self.master_addresses)) and not dynamic

    @property
    def on_loopback(self) -> bool:
        """Whether driver and executors can all talk over 127.0.0.1, whatever this machine's name resolves to."""
        addresses = self.master_addresses
        alone = self.is_local or self.is_local_cluster
        return alone or (bool(addresses) and all(host in ("127.0.0.1", "localhost") for host, _ in addresses))

    def spark_conf(self, scratch: Path) -> dict[str, str]:
        """The complete Spark configuration, given the session's own folder."""
        conf = {
            "spark.app.name": self.app_name,
            "spark.master": self._effective_master(),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.submit.deployMode": "client",
            "spark.local.dir": str(scratch / "local"),
            "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.parquet.compression.codec": "zstd",
            # Readable by everything else that reads Parquet; Spark's own INT96 is not.
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            # The last line of a failing function is ours; the frames of the worker's loop are noise.
            "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
            "spark.python.worker.reuse": "true",
        }
        if self.is_local or self.is_local_cluster:
            conf["spark.sql.shuffle.partitions"] = str(max(SHUFFLE_PARTITIONS_MIN, 4 * self._cores()))
        if self.on_loopback:
            conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        return conf | dict(self.conf)

    def driver_memory(self) -> str:
        """The heap of the driver's JVM: a quarter of the machine, from 1 to 8 GiB, since Python workers need theirs."""
        if given := self.conf.get("spark.driver.memory"):
            return given
        quarter = _machine_bytes() // 4
        return f"{max(_DRIVER_MEMORY_MIN, min(_DRIVER_MEMORY_MAX, quarter)) >> 20}m"

    def _effective_master(self) -> str:
        found = _LOCAL.fullmatch(self.master)
        if found is None:
            return self.master
        return f"local[{found[1] or 1},{found[2] or LOCAL_TASK_FAILURES}]"

    def _cores(self) -> int:
        if found := _LOCAL_CLUSTER.fullmatch(self.master):
            return int(found[1]) * int(found[2])
        found = _LOCAL.fullmatch(self.master)
        threads = (found and found[1]) or "1"
        return (os.cpu_count() or 1) if threads == "*" else int(threads)


def check_master(master: str) -> None:
    """Refuse masters that Spark does not support, before a JVM is started."""
    if any(form.fullmatch(master) for form in (_LOCAL, _LOCAL_CLUSTER, _STANDALONE, _OTHER)):
        return
    hint = did_you_mean(re.split(r"[\[:]", master)[0], ["local", "local-cluster", "spark", "yarn", "k8s"])
    raise InputError(
        f"master {shortened(master)!r} is not a Spark master: use {_FORMS}" + (f" ({hint})" if hint else "")
    )


def check_conf(key: str, value: object) -> None:
    """Refuse configuration that Spark would silently ignore."""
    if not key.startswith("spark.") or not key.removeprefix("spark."):
        raise InputError(f"configuration {shortened(key)!r}: Spark reads only keys that start with 'spark.'")
    if key == "spark.master":
        raise InputError("configuration 'spark.master': give the master as --master")
    if not isinstance(value, str):
        raise InputError(f"configuration {key!r} is {value!r}: give it as text")


def parse_conf(pairs: Iterable[str]) -> dict[str, str]:
    """`["spark.executor.memory=2g"]` as a mapping, as `--conf` gives them."""
    conf: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"configuration {shortened(pair)!r} has no '=': write spark.executor.memory=2g")
        check_conf(key.strip(), value)
        conf[key.strip()] = value.strip()
    return conf


def _machine_bytes() -> int:
    """The memory of this machine, or of its container."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 4 * _GIB
    try:
        return min(physical, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    except (OSError, ValueError):
        return physical
