"""What covering can save, counted: against covers tried one by one, on a small overlay of known answers."""

from benchmarks.gain import coverable, kept, measure, messages

from octopia.language import Filter, covers, parse_filter
from octopia.topology import Scot, parse_tree
from octopia.workload import WorkloadSpec, synthetic_quotes

IN_ORDER = [
    "symbol = 'A'",
    "symbol = 'B' and price > 5",
    "symbol = 'A' and price > 5",
    "symbol in ('A', 'B') and price > 9",
    "symbol = 'B'",
    "symbol = 'A'",
]


def numbered(texts: list[str]) -> dict[int, Filter]:
    return {number: parse_filter(text) for number, text in enumerate(texts)}


def test_what_is_covered_by_one_or_by_several_is_left_out() -> None:
    # The wider filter on B comes late and takes the place of the narrower one.
    assert list(kept(numbered(IN_ORDER), together=False)) == [0, 3, 4]
    assert list(kept(numbered(IN_ORDER), together=True)) == [0, 4]


def test_the_bound_counts_all_that_others_cover_sent_or_not() -> None:
    # all but one of the equal ones, and the wider filter on B
    assert coverable(numbered(IN_ORDER)) == 4
    # each covers the parts of the others, so all count, though not all can be left out
    assert coverable(numbered(["s in ('A', 'B')", "s in ('B', 'C')", "s in ('A', 'C')"])) == 3


def test_messages_on_links_are_those_of_brokers_that_leave_out_what_is_covered() -> None:
    scot = Scot(parse_tree("path:3"), 1)
    first, _, last = scot.cluster(0)
    hosted = {broker: numbered([]) for broker in scot.cluster(0)}
    hosted[first] = numbered(["x > 1", "x > 2"])
    hosted[last] = {7: parse_filter("x > 3")}

    def one(filters: dict[int, Filter]) -> dict[int, Filter]:
        return kept(filters, together=False)

    assert messages(scot, hosted, dict, dict) == 2 * 2 + 1 * 2
    assert messages(scot, hosted, one, dict) == 1 * 2 + 1 * 2
    assert messages(scot, hosted, dict, one) == 1 * 2 + 1 * 2


def test_shares_of_a_workload() -> None:
    quotes = synthetic_quotes(1, 30, 30)
    spec = WorkloadSpec(publishers=20, subscribers=300, selectivity=0.1, notifications_per_publisher=20)
    found = measure(spec, quotes)
    assert found["host_one"] <= found["link_one"] <= found["link_several"] <= found["link_at_most"] < 1
    assert found["link_several"] > 0.5, "pairs of 20 symbols are soon covered by two others"


def test_nothing_is_left_out_that_is_not_covered() -> None:
    filters = numbered(IN_ORDER)
    left = kept(filters, together=False)
    for number, filter in filters.items():
        assert number in left or any(covers(other, filter) for other in left.values())
