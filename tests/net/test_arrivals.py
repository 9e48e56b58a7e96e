"""The pool of connections that have not identified themselves, against a list."""

import random

import pytest

from octopia.net.broker.arrivals import Arrivals

# The same customer twice: one /64.
ADDRESSES = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::ffff", "127.0.0.1", "::1"]


def customer(address: str) -> str | None:
    if address in ("127.0.0.1", "::1"):
        return None
    return "one" if address.startswith("2001") else address


@pytest.mark.parametrize("seed", range(30))
def test_the_oldest_makes_room(seed: int) -> None:
    source = random.Random(seed)
    count_max, per_address_max = source.randrange(1, 12), source.randrange(1, 5)
    pool: Arrivals[int] = Arrivals(count_max, per_address_max)
    naive: list[tuple[int, str | None]] = []
    for key in range(300):
        if naive and source.random() < 0.3:
            gone = source.choice(naive)
            naive.remove(gone)
            pool.remove(gone[0])
            pool.remove(gone[0])
        address = source.choice(ADDRESSES)
        whose = customer(address)
        same = [each for each in naive if each[1] is not None and each[1] == whose]
        out = None
        if len(same) == per_address_max:
            out = same[0]
        elif len(naive) == count_max:
            out = naive[0]
        if out is not None:
            naive.remove(out)
        naive.append((key, whose))
        assert pool.add(key, address) == (None if out is None else out[0])
        assert len(pool) == len(naive) <= count_max
        assert [each for each in range(key + 1) if each in pool] == sorted(each for each, _ in naive)
