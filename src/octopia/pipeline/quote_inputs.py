"""The table `inputs`: every file found, whether it was read, and the outcome.

    read      its rows are in `quotes` and `rejects`
    empty     nothing in it, or nothing below the line that names the columns
    skipped   left out of a folder: not CSV or Parquet, hidden, or text that is not about quotes
    rejected  it cannot be read as quotes; none of its rows is used

A rejected file does not stop the others unless `strict` is set. If no file is left, it is an error in any case.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

import pyarrow as pa

from octopia.errors import InputError
from octopia.workload import EMPTY_FILE, Skipped, told_skipped

INPUTS_SCHEMA: Final = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("bytes", pa.int64()),
        pa.field("state", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("quotes", pa.int64()),
        pa.field("rejects", pa.int64()),
    ]
)
HEADER_ONLY: Final = "no rows below the line that names the columns"
_SHOWN_MAX: Final = 3


@dataclass(frozen=True)
class Input:
    """A row of the table."""

    file: str
    bytes: int
    state: str
    reason: str | None = None
    rows: int = 0
    quotes: int = 0
    rejects: int = 0


@dataclass(frozen=True)
class Seen:
    """The findings of tasks about a file; `only_reason` is the reason of its reject if it has one row."""

    rows: int
    rejects: int
    problem: str | None
    only_reason: str | None = None


def make_inputs(
    sizes: Mapping[str, int], skipped: Sequence[Skipped], seen: Mapping[str, Seen], refused: Mapping[str, str]
) -> list[Input]:
    """The rows of the table, in the order of the files; repeats are not counted yet."""
    found = [Input(left.file, sizes.get(left.file, 0), "skipped", left.reason) for left in skipped]
    left_out = {left.file for left in skipped}
    found += [_judged(file, size, seen.get(file), refused.get(file)) for file, size in sizes.items()
              if file not in left_out]  # fmt: skip
    return sorted(found, key=lambda one: one.file)


def _judged(file: str, size: int, seen: Seen | None, refused: str | None) -> Input:
    problem = refused or (seen.problem if seen else None)
    if problem:
        return Input(file, size, "rejected", problem)
    if seen is None:
        return Input(file, size, "empty", HEADER_ONLY)
    if seen.rows == 1 and seen.only_reason == EMPTY_FILE:
        return Input(file, size, "empty", EMPTY_FILE, 1, 0, 1)
    return Input(file, size, "read", None, seen.rows, seen.rows - seen.rejects, seen.rejects)


def with_repeats(inputs: Sequence[Input], repeats: Mapping[str, int]) -> list[Input]:
    """Rows that repeat those of another file are rejects too."""
    return [
        replace(one, quotes=one.quotes - repeats[one.file], rejects=one.rejects + repeats[one.file])
        if one.file in repeats
        else one
        for one in inputs
    ]


def inputs_table(inputs: Sequence[Input]) -> pa.Table:
    return pa.Table.from_pylist([asdict(one) for one in inputs], INPUTS_SCHEMA)


def check_inputs(inputs: Sequence[Input], *, strict: bool) -> None:
    """Raise `InputError` if nothing can be read or, with `strict`, if any file cannot."""
    rejected = [one for one in inputs if one.state == "rejected"]
    if rejected and (strict or not any(one.state == "read" for one in inputs)):
        more = f" (and {len(rejected) - 1:,} more files cannot be read)" if len(rejected) > 1 else ""
        raise InputError(f"{rejected[0].file}: {rejected[0].reason}{more}")
    if not any(one.state == "read" for one in inputs):
        first = next(one for one in inputs if one.state == "empty")
        raise InputError(f"{first.file}: {first.reason}; there are no quotes to work with")


def told_inputs(inputs: Sequence[Input]) -> list[str]:
    """Messages for the user about skipped, rejected or empty files; none if all is well."""
    by_state: dict[str, list[Input]] = {}
    for one in inputs:
        by_state.setdefault(one.state, []).append(one)
    lines = []
    if skipped := by_state.get("skipped"):
        told = told_skipped([Skipped(one.file, one.reason or "") for one in skipped])
        lines.append(f"{len(skipped):,} of {len(inputs):,} files were skipped: {told}; see the table inputs")
    for state, verb in (("rejected", "could not be read"), ("empty", "hold no rows")):
        if found := by_state.get(state):
            told = "; ".join(f"{one.file}: {one.reason}" for one in found[:_SHOWN_MAX])
            more = "; …" if len(found) > _SHOWN_MAX else ""
            lines.append(f"{len(found):,} of {len(inputs):,} files {verb}: {told}{more}; see the table inputs")
    return lines
