"""Columns of a trace as arrays, for programs that judge or measure a run."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq


def read_columns(folder: Path, table: str, *names: str) -> list[Any]:
    """These columns of a table."""
    read = pq.read_table(folder / f"{table}.parquet", columns=list(names))
    return [read.column(name).to_numpy() for name in names]


def moments_of_requests(folder: Path, name: str) -> Any:
    """By number of a request, its `issued_ns` or `handled_ns`."""
    numbers, moments = read_columns(folder, "requests", "request", name)
    found = np.zeros(int(numbers.max(initial=0)) + 1, dtype=moments.dtype)
    found[numbers] = moments
    return found
