"""The entry point to `wire.arrow`: the clients' use of Arrow, loaded on first use."""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from octopia.extras import missing
from octopia.wire.arrow.kernels import kernels
from octopia.wire.arrow.terms import PublishTerms, Slab

if TYPE_CHECKING:
    import pyarrow as pa

    from octopia.wire.arrow.receive import BatchMaker, Seen


class ParcelColumn(Protocol):
    """One attribute of many notifications."""

    def array(self, kind: "pa.DataType") -> "pa.Array | None":
        """An array of this type, if every value has its kind; None if one does not or is out of range."""

    def to_list(self) -> list[Any]:
        """The values; None for an absent attribute."""


class PublishRows(Protocol):
    """The rows of one record batch, to be written as frames."""

    def __len__(self) -> int: ...

    def slab(self, start: int, publisher: str, sequence: int, terms: PublishTerms) -> Slab:
        """Frames for a bounded number of rows from `start` on, the first of which gets this number."""


def _need_arrow() -> None:
    if find_spec("pyarrow") is None:
        raise missing("pyarrow", "record batches")


def arrow_rows(data: object) -> Iterator[PublishRows]:
    """The rows of an Arrow record batch or table, to be published; `InputError` for an unsupported column."""
    _need_arrow()
    from octopia.wire.arrow.publish import BatchRows, batches_of

    before = 0
    for batch in batches_of(data):
        yield BatchRows(batch, before)
        before += len(batch)


def batch_maker(schema: "pa.Schema | None", *, metadata: bool, unfit: str) -> "BatchMaker":
    """A maker of record batches from deliveries; `InputError` if no notification can fit the schema."""
    _need_arrow()
    from octopia.wire.arrow.receive import BatchMaker

    return BatchMaker(schema, metadata=metadata, unfit=unfit)


def parcel_columns(parcels: Sequence[bytes], names: Sequence[str]) -> "Seen | None":
    """These attributes of delivered parcels, column by column; None if no kernels are loaded."""
    if kernels("read") is None:
        return None
    from octopia.wire.arrow.receive import cells_of_parcels

    return cells_of_parcels(parcels, names)


def fit_of_type(kind: "pa.DataType") -> "Callable[[Any], Any] | None":
    """A function that converts a value to this Arrow type, or returns `NO_FIT`; None: no value ever fits."""
    from octopia.wire.arrow.fitting import fit_of

    return fit_of(kind)
