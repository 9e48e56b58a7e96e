"""What must be delivered, by brute force: own filters, own books, nothing of the product.

A `Wish` says what a subscriber wants, as data; it writes the filter text for the product and decides by itself. The
`Ledger` notes what was published, confirmed and delivered, and when. A notification is promised to a subscriber if its
publisher's `flush` returned after it was published, the subscription was in force before and until then, and the
subscriber wants its content. Every notification carries its publisher (`by`) and number (`n`, from 1), so deliveries
are recognised by content alone.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

Value = str | int | float | bool
Content = Mapping[str, Value]
Term = tuple[str, str, Value]

_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,  # type: ignore[operator]  # kinds agree, see _holds
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
    "prefix": lambda a, b: str(a).startswith(str(b)),
    "contains": lambda a, b: str(b) in str(a),
}
_LIKE = {"prefix": "{}%", "contains": "%{}%"}


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _holds(content: Content, term: Term) -> bool:
    attribute, operator, wanted = term
    value = content.get(attribute)
    if value is None or _kind(value) != _kind(wanted):
        return False
    return _COMPARE[operator](value, wanted)


def _text(term: Term) -> str:
    attribute, operator, wanted = term
    if operator in _LIKE:
        return f"{attribute} like '{_LIKE[operator].format(wanted)}'"
    return f"{attribute} {operator} {wanted!r}"


@dataclass(frozen=True)
class Wish:
    """A subscriber's interest: all terms of one of the conjunctions."""

    conjunctions: tuple[tuple[Term, ...], ...]

    @classmethod
    def of(cls, *terms: Term) -> "Wish":
        return cls((terms,))

    def wants(self, content: Content) -> bool:
        return any(all(_holds(content, term) for term in terms) for terms in self.conjunctions)

    def text(self) -> str:
        return " or ".join(" and ".join(map(_text, terms)) for terms in self.conjunctions)


@dataclass(slots=True)
class Publication:
    content: Content
    due: float  # when it should have been published; delays count from here
    put: float  # when `publish` was called
    confirmed: bool = False


@dataclass(slots=True)
class Reader:
    """A subscription and its deliveries."""

    wish: Wish
    bystander: bool
    since: float | None = None
    until: float | None = None
    excused: list[tuple[float, float]] = field(default_factory=list)
    got: list[tuple[float, Content]] = field(default_factory=list)

    def in_force(self, at: float) -> bool:
        if self.since is None or at < self.since or (self.until is not None and at >= self.until):
            return False
        return not any(start <= at < end for start, end in self.excused)


@dataclass(frozen=True)
class Tally:
    """The books, closed."""

    promised: int = 0
    lost: int = 0
    repeated: int = 0
    unwanted: int = 0
    out_of_order: int = 0
    lost_by: Mapping[str, int] = field(default_factory=dict)


class Ledger:
    """All that happened in one scenario. Times come from `clock`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.publications: dict[str, list[Publication]] = {}
        self.readers: dict[str, Reader] = {}
        self.delivered = 0

    # -- what happened

    def subscribe(self, name: str, wish: Wish, *, bystander: bool = False) -> None:
        self.readers[name] = Reader(wish, bystander)

    def in_force(self, name: str) -> None:
        self.readers[name].since = self.clock()

    def ended(self, name: str) -> None:
        reader = self.readers[name]
        if reader.until is None:
            reader.until = self.clock()

    def excuse(self, name: str, start: float, end: float = float("inf")) -> None:
        """Nothing published in this time is promised to the subscriber: the guarantees exclude it."""
        self.readers[name].excused.append((start, end))

    def publish(self, publisher: str, content: Content, due: float | None = None) -> None:
        now = self.clock()
        self.publications.setdefault(publisher, []).append(Publication(content, now if due is None else due, now))

    def count(self, publisher: str) -> int:
        return len(self.publications.get(publisher, ()))

    def confirm(self, publisher: str, count: int) -> None:
        """The first `count` are confirmed."""
        for publication in reversed(self.publications.get(publisher, [])[:count]):
            if publication.confirmed:
                break
            publication.confirmed = True

    def deliver(self, name: str, content: Content) -> None:
        self.delivered += 1
        self.readers[name].got.append((self.clock(), content))

    # -- what it means

    def _of(self, content: Content) -> Publication | None:
        """The publication with this content, or None if there is none."""
        number, publications = content.get("n"), self.publications.get(str(content.get("by")), [])
        if not isinstance(number, int) or not 0 < number <= len(publications):
            return None
        found = publications[number - 1]
        return found if dict(found.content) == dict(content) else None

    def promised(self, name: str) -> list[Publication]:
        reader = self.readers[name]
        return [
            publication
            for publications in self.publications.values()
            for publication in publications
            if publication.confirmed and reader.in_force(publication.put) and reader.wish.wants(publication.content)
        ]

    def tally(self, names: Iterable[str] | None = None) -> Tally:
        promised = lost = repeated = unwanted = out_of_order = 0
        lost_by: dict[str, int] = {}
        for name in self.readers if names is None else names:
            reader = self.readers[name]
            times = Counter((str(content.get("by")), content.get("n")) for _, content in reader.got)
            wanted = self.promised(name)
            missing = sum((str(p.content["by"]), p.content["n"]) not in times for p in wanted)
            promised += len(wanted)
            lost += missing
            if missing:
                lost_by[name] = missing
            repeated += sum(times.values()) - len(times)
            unwanted += sum(
                self._of(content) is None or not reader.wish.wants(content) for content in _first_of_each(reader.got)
            )
            out_of_order += _out_of_order(reader.got)
        return Tally(promised, lost, repeated, unwanted, out_of_order, lost_by)

    def is_served(self, name: str) -> bool:
        """Whether a subscriber has all that was published while it was in force, confirmed by now or not."""
        reader = self.readers[name]
        got = {(content.get("by"), content.get("n")) for _, content in reader.got}
        return all(
            (publication.content["by"], publication.content["n"]) in got
            for publications in self.publications.values()
            for publication in publications
            if reader.in_force(publication.put) and reader.wish.wants(publication.content)
        )

    def missing(self) -> int:
        return self.tally().lost

    def bystanders(self) -> list[str]:
        return [name for name, reader in self.readers.items() if reader.bystander]

    def rate(self, start: float, end: float) -> float:
        """Deliveries to bystanders a second, in this time."""
        count = sum(start <= at < end for name in self.bystanders() for at, _ in self.readers[name].got)
        return count / (end - start) if end > start else 0.0

    def worst_delay(self, start: float, end: float) -> float:
        """The longest wait of a bystander for a notification due in this time; missing ones count as still waiting."""
        now, worst = self.clock(), 0.0
        for name in self.bystanders():
            reader = self.readers[name]
            came: dict[tuple[str, Value | None], float] = {}
            for at, content in reader.got:
                came.setdefault((str(content.get("by")), content.get("n")), at)
            for publisher, publications in self.publications.items():
                for number, p in enumerate(publications, 1):
                    if start <= p.due < end and reader.wish.wants(p.content) and reader.in_force(p.due):
                        worst = max(worst, came.get((publisher, number), now) - p.due)
        return worst

    def recovery(self, fault: float, names: Iterable[str], publishers: Iterable[str]) -> float | None:
        """Time from the fault until every one of these had got something that each publisher published after it.

        None if one of them never did.
        """
        longest = 0.0
        for name in names:
            for publisher in publishers:
                at = self._first_after(fault, name, publisher)
                if at is None:
                    return None
                longest = max(longest, at - fault)
        return longest

    def worst_gap(self, start: float, end: float) -> float:
        """The longest time between two notifications of one publisher at one subscriber, as far as it lies in here."""
        worst = 0.0
        for reader in self.readers.values():
            last: dict[str, float] = {}
            for at, content in reader.got:
                by = str(content.get("by"))
                if by in last:
                    worst = max(worst, min(at, end) - max(last[by], start))
                last[by] = at
            worst = max([worst, *(end - max(at, start) for at in last.values() if at < end)])
        return worst

    def _first_after(self, fault: float, name: str, publisher: str) -> float | None:
        for at, content in self.readers[name].got:
            if content.get("by") == publisher:
                published = self._of(content)
                if published is not None and published.put >= fault:
                    return at
        return None


def _first_of_each(got: Iterable[tuple[float, Content]]) -> list[Content]:
    seen: set[tuple[Value | None, Value | None]] = set()
    first = []
    for _, content in got:
        key = (content.get("by"), content.get("n"))
        if key not in seen:
            seen.add(key)
            first.append(content)
    return first


def _out_of_order(got: Iterable[tuple[float, Content]]) -> int:
    """Deliveries after a later one of the same publisher; a repeat is counted as such, not here."""
    last: dict[Value | None, int] = {}
    count = 0
    for content in _first_of_each(got):
        number, publisher = content.get("n"), content.get("by")
        if isinstance(number, int):
            count += number < last.get(publisher, 0)
            last[publisher] = max(number, last.get(publisher, 0))
    return count
