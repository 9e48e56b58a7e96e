"""Call every kernel once with arguments of the types that are used, so that it is compiled, or loaded from disk."""

from types import ModuleType

import numpy as np


def use_all(kernels: dict[str, ModuleType]) -> None:
    """Call all of them with one row, or with none."""
    check, read, write = kernels["check"], kernels["read"], kernels["write"]
    ints = np.zeros(1, dtype=np.int64)
    row, frozen = np.zeros((1, 1), dtype=np.int64), np.frombuffer(bytes(16), dtype=np.uint8)
    edges, out = np.zeros(2, dtype=np.int64), np.zeros(64, dtype=np.uint8)
    lengths, tags = np.zeros((1, 1), dtype=np.int32), np.zeros((1, 1), dtype=np.uint8)
    check.split_deliveries(frozen, 0, 1, 1, ints, ints, np.zeros(1, dtype=np.int32), np.zeros((1, 2), dtype=np.int64))
    read.collect_names(frozen, ints[:0], ints[:0], out, edges)
    read.read_columns(frozen, ints[:0], ints[:0], out, ints, tags, row, lengths, ints[:0])
    read.gather_texts(frozen, tags[0], row[0], lengths[0], edges, out)
    columns = np.zeros((0, 7), dtype=np.int64)
    write.place_rows(columns, 0, 1, 1, ints[:0], edges)
    write.write_rows(columns, 0, 1, frozen[:1], ints[:0], edges[:1], out)
