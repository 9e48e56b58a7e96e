"""The overlay whose brokers recorded facts: a small file beside them, so that a folder explains itself.

Brokers write it when they start, and every process of an overlay writes the same.
"""

import os
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from octopia.errors import InputError
from octopia.topology import Scot, Sites, Tree

OVERLAY_FILE: Final = "overlay.json"


class RecordedOverlay(Struct, frozen=True):
    """The shape of an overlay, and how its brokers route."""

    name: str
    regions: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    clusters: int
    routing: str
    covering: str
    tau: float
    window_s: float
    sites: Sites | None = None

    @property
    def scot(self) -> Scot:
        return Scot(Tree.from_edges(self.edges, self.regions), self.clusters)


def write_overlay(folder: Path, overlay: RecordedOverlay) -> None:
    """Write the file in one step, since others may read it or write it at the same time."""
    partial = folder / f".{OVERLAY_FILE}.{os.getpid()}"
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(overlay), indent=1))
    partial.replace(folder / OVERLAY_FILE)


def read_overlay(folder: Path) -> RecordedOverlay:
    """The overlay of a recording; raises `InputError` if the file is missing or not what it should be."""
    file = folder / OVERLAY_FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=RecordedOverlay)
    except FileNotFoundError:
        raise InputError(
            f"{folder} does not say which overlay was recorded: {OVERLAY_FILE} is missing; copy it from a folder of "
            "the same overlay, or record again with octopia serve --record"
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None
