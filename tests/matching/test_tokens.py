"""Notifications read as tokens match the filters whose conditions hold, while filters of all shapes come and go."""

import random
from typing import Any

import numpy as np
import pytest

from octopia.language import parse_filter, parse_notification
from octopia.matching import Arena, Matcher, kernels_in_use
from octopia.wire import Kind, WireLimits, encode_parcel, notification_frame
from tests.by_hand import Condition, Words
from tests.effort import cases
from tests.wire.test_scan import Readers

needs_numba = pytest.mark.skipif(kernels_in_use() != "numba", reason="numba is not installed")


def readable(words: Words) -> dict[str, Any]:
    """Values that compiled code reads: no integers of more than 64 bits."""
    while True:
        values = words.values()
        if all(type(each) is not int or -(2**63) <= each < 2**64 for each in values.values()):
            return values


@needs_numba
@pytest.mark.parametrize("seed", range(cases(36)))
def test_tokens_match_what_conditions_say_while_filters_come_and_go(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data cached for a combination of names must not outlive the filters that it was computed from."""
    draw = random.Random(seed)
    if draw.random() < 0.7:
        # otherwise filters are tested one by one until there are many notifications
        monkeypatch.setattr("octopia.matching.kernels_numba.RUN_COSTS_TESTS", 1)
    words = Words(draw, more=draw.choice((0, 0, 4, 80)), rare=draw.random() < 0.5)
    readers = Readers(WireLimits())
    matcher: Matcher[int] = Matcher()
    stored: dict[int, Condition] = {}
    added = 0
    for _ in range(40):
        for _ in range(draw.choice((1, 1, 1, 30))):
            if stored and draw.random() < 0.5:
                # the latest mostly: old ones keep tables as they are
                gone = draw.choice((max(stored), max(stored), draw.choice(sorted(stored))))
                matcher.remove(gone)
                del stored[gone]
            else:
                added += 1
                stored[added] = words.of_all_kinds() if added == 1 else words.subscription()
                matcher.add(added, parse_filter(stored[added].text))
        if draw.random() < 0.1:
            matcher.settle()
        seen = [readable(words) for _ in range(draw.choice((1, 4, 30)))]
        parcels = [encode_parcel(parse_notification(each), "p", n) for n, each in enumerate(seen)]
        data = b"".join(notification_frame(Kind.NOTIFY, b"", parcel) for parcel in parcels)
        found = readers.matched(data, matcher)
        got = [sorted(matcher.ids_at(np.array(rows, dtype=np.int32))) for rows in found]
        assert got == [[id for id, condition in stored.items() if condition.holds(each)] for each in seen]
        assert [sorted(each) for each in matcher.match_many(seen)] == got


def test_an_arena_keeps_its_pieces_and_uses_places_again() -> None:
    draw = random.Random(1)
    arena = Arena()
    kept: dict[int, bytes] = {}
    most = 0
    for _ in range(3000):
        if kept and draw.random() < 0.5:
            at = draw.choice(list(kept))
            arena.give_back(at, len(kept.pop(at)))
        else:
            piece = draw.randbytes(draw.choice((0, 1, 7, 8, 9, 40, 300)))
            at = arena.put(piece)
            assert at not in kept
            kept[at] = piece
            most = max(most, sum(map(len, kept.values())))
    assert {at: arena.data[at : at + len(piece)].tobytes() for at, piece in kept.items()} == kept
    assert len(arena.data) <= 4 * most
