"""Relations of filters against `octopia.covers` for all pairs, and merges against matching by hand."""

from itertools import permutations

from octopia import covers, parse_filter
from octopia.planning import Pair, merged, numbers_by_client, relations_of
from octopia.topology import BrokerId
from octopia.workload import Registration

TEXTS = ["a > 1", "a > 2", "a > 1 and b = 'x'", "a > 2", "b = 'y'", "a > 1.5"]
HELD = [
    Registration(f"c{number}", BrokerId("a", 0), f"s{number}", parse_filter(text), 0.0)
    for number, text in enumerate(TEXTS)
]


def test_equal_filters_are_one_and_covers_are_those_of_all_pairs() -> None:
    found = relations_of(HELD)
    assert found.repeated == 1
    assert dict(zip(found.filters, found.holders, strict=True))[str(parse_filter("a > 2"))] == ("s1", "s3")
    pairs = {(found.filters[each.wide], found.filters[narrow]) for each in found.covered for narrow in each.narrow}
    assert pairs == {(one, other) for one, other in permutations(found.filters, 2) if covers(one, other)}
    assert found.below == len({other for _, other in pairs})


def test_the_likest_pairs_are_merged_each_filter_once() -> None:
    found = relations_of(HELD)
    number = {text: number for number, text in enumerate(found.filters)}
    wide, narrow, apart = (number[str(parse_filter(text))] for text in ("a > 1", "a > 1.5", "a > 2"))
    low, high = sorted((narrow, apart))
    near, far = sorted((wide, narrow))
    pairs = [Pair(low, high, 10, 9), Pair(near, far, 100, 99), Pair(0, 4, 10, 1)]
    changed = merged(found, pairs, 0.9)
    assert sorted(changed) == ["s0", "s5"]
    assert len(set(changed.values())) == 1
    union = parse_filter(changed["s0"])
    assert covers(union, "a > 1")
    assert covers(union, "a > 1.5")
    assert merged(found, pairs, 0.995) == {}


def test_a_client_with_two_subscriptions_is_not_compared() -> None:
    twice = [*HELD, Registration("c0", BrokerId("a", 0), "s9", parse_filter("b = 'y'"), 0.0)]
    assert sorted(numbers_by_client(relations_of(twice), twice)) == ["c1", "c2", "c3", "c4", "c5"]
