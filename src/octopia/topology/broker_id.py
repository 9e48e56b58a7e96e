"""The name of a broker: its region and its cluster.

The type enforces the label order property: the first part comes from the acyclic factor, the second, a number, from the
connectivity factor. A `BrokerId` equals and hashes like the plain pair, so either works as a key.
"""

import re
from typing import NamedTuple

from octopia.errors import TopologyError
from octopia.topology.labels import check_label
from octopia.topology.limits import CLUSTERS_MAX

_FORM = re.compile(r"\s*(?:\((?P<inside>[^()]*)\)|(?P<bare>[^()]*))\s*")
_INDEX = re.compile(r"[0-9]{1,9}", re.ASCII)


class BrokerId(NamedTuple):
    """One broker of a SCOT: `BrokerId("b", 2)`, written `(b,2)`."""

    region: str
    cluster: int

    def __str__(self) -> str:
        return f"({self.region},{self.cluster})"

    @classmethod
    def parse(cls, text: str) -> "BrokerId":
        """Read `b,2` or `(b,2)`; blanks around the parts are ignored."""
        form = _FORM.fullmatch(text)
        inside = "" if form is None else form["bare"] if form["inside"] is None else form["inside"]
        region, comma, index = (part.strip() for part in inside.rpartition(","))
        if not comma:
            raise TopologyError(f"{text!r} is not a broker: write region,cluster, for example b,2 or (b,2)")
        if not _INDEX.fullmatch(index):
            raise TopologyError(_bad_index(text, region, index))
        if int(index) >= CLUSTERS_MAX:
            raise TopologyError(f"{text!r} is not a broker: cluster {index} is too large, at most {CLUSTERS_MAX - 1}")
        try:
            return cls(check_label(region), int(index))
        except TopologyError as error:
            raise TopologyError(f"{text!r} is not a broker: {error}") from None


def _bad_index(text: str, region: str, index: str) -> str:
    line = f"{text!r} is not a broker: the cluster after the comma must be a number from 0, not {index!r}"
    swapped = _INDEX.fullmatch(region) is not None and index != ""
    return f"{line} (the region comes first: {index},{region})" if swapped else line
