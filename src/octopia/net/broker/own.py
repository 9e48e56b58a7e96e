"""Select the notifications of a batch that are the client's own, and new."""

from octopia.wire import Parcels


def own_and_new(batch: Parcels, name: str, last: int) -> tuple[Parcels, str | None, int]:
    """The notifications with this publisher above `last`, up to the first with another publisher; that name, if any.

    Also returns how many were skipped as repeats, which a client sends after a broken connection.
    """
    count, sequences = len(batch), batch.sequences
    if batch.publishers.count(name) == count:
        first = sequences[0] if sequences else 0
        if first > last and (count == 1 or sequences == list(range(first, first + count))):
            return batch, None, 0
    chosen: list[int] = []
    repeated = 0
    for at, (publisher, sequence) in enumerate(zip(batch.publishers, sequences, strict=True)):
        if publisher != name:
            return batch.chosen(chosen), publisher, repeated
        if sequence > last:
            chosen.append(at)
            last = sequence
        else:
            repeated += 1
    return batch.chosen(chosen), None, repeated
