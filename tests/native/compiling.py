"""A program: warm up as a broker does, then do all that brokers do, and print which kernels were compiled only then.

python -m tests.native.compiling STORIES
"""

import json
import sys
from random import Random

from numba.core.dispatcher import Dispatcher

from octopia.language import parse_filter
from octopia.matching import CoverIndex, Matcher
from octopia.net.broker.engine.warm_up import warm_up
from tests.by_hand import Words
from tests.native.stories import ROUTINGS, Story

FILTERS = 6_000


def signatures() -> dict[str, list[str]]:
    """The types of arguments that each kernel was compiled for."""
    found: dict[str, list[str]] = {}
    for name, module in sorted(sys.modules.items()):
        if name.startswith("octopia."):
            for value in vars(module).values():
                if isinstance(value, Dispatcher):
                    found[value.py_func.__module__ + "." + value.py_func.__qualname__] = sorted(
                        map(str, value.signatures)
                    )
    return found


def use_a_large_index() -> None:
    """Filters of all kinds come and go in such numbers that runs are built, merged and rebuilt."""
    draw = Random(1)
    words = Words(draw, more=4, rare=True)
    matcher: Matcher[int] = Matcher()
    filters = [parse_filter(words.subscription().text) for _ in range(300)]
    for number in range(FILTERS):
        matcher.add(number, filters[number % len(filters)], group=number % 70)
        if number % 500 == 0:
            matcher.match(words.values())
            matcher.match_groups_many([words.values() for _ in range(9)])
            matcher.overlapping(filters[draw.randrange(len(filters))])
            matcher.overlapped_by(filters[draw.randrange(len(filters))])
    for number in range(0, FILTERS, 2):
        matcher.remove(number)
        if number % 500 == 0:
            matcher.match_many([words.values() for _ in range(50)])
    matcher.settle()
    matcher.match(words.values())
    covers: CoverIndex[int] = CoverIndex()
    for number, filter in enumerate(filters):
        covers.add(number, filter)
        covers.covering(filter)
        covers.covered_by(filter)


def main() -> None:
    warm_up()
    before = signatures()
    for routing in ROUTINGS:
        for seed in range(int(sys.argv[1])):
            # timed and observed ones are among them
            Story(routing, Random(f"{routing} {seed}")).play(60)
    use_a_large_index()
    new = {name: [each for each in of if each not in before.get(name, [])] for name, of in signatures().items()}
    sys.stdout.write(json.dumps({"kernels": len(before), "new": {name: of for name, of in new.items() if of}}))


if __name__ == "__main__":
    main()
