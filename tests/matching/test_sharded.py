"""A dict in parts does what a dict does, whatever its size, and wherever its keys have other hashes."""

import pickle
import random

import pytest

from octopia.matching import Matcher, sharded
from octopia.matching.sharded import ShardedDict

SALT = {"now": 0}


class Text(str):
    """A key whose hash differs from process to process, as that of a string does."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash((str(self), SALT["now"]))


@pytest.fixture
def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded, "SPLIT_ENTRIES", 50)


@pytest.mark.usefixtures("_early")
@pytest.mark.parametrize("seed", range(4))
def test_it_is_a_dict(seed: int) -> None:
    draw = random.Random(seed)
    model: dict[str, int] = {}
    ours: ShardedDict[str, int] = ShardedDict()
    for number in range(600):
        key = str(draw.randrange(120 if seed % 2 else 40))
        if draw.random() < 0.3 and key in model:
            assert ours.part(key).pop(key) == model.pop(key)
        else:
            model[key] = ours.part(key)[key] = number
            ours.split_if_large()
        assert (key in ours.part(key)) == (key in model)
        assert ours.get(key, -1) == ours.lookup(key, -1) == model.get(key, -1)
    assert dict(ours.items()) == model
    assert len(ours) == len(model)
    assert sorted(ours) == sorted(model)
    assert all(ours[key] == value for key, value in model.items())
    with pytest.raises(KeyError):
        ours["none"]


@pytest.mark.usefixtures("_early")
@pytest.mark.parametrize("count", [10, 200])
def test_a_copy_finds_its_keys_where_they_have_other_hashes(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {Text(number): number for number in range(count)}
    packed = pickle.dumps(ShardedDict(dict(entries)))
    monkeypatch.setitem(SALT, "now", 1)
    copied = pickle.loads(packed)  # noqa: S301
    assert [copied.get(Text(number)) for number in range(count)] == list(range(count))


@pytest.mark.usefixtures("_early")
def test_a_matcher_finds_strings_before_and_after_there_are_many() -> None:
    """What places a notification looks codes up in the way that was best when it was made."""
    matcher: Matcher[int] = Matcher()
    for number in range(200):
        matcher.add(number, f"symbol = 'S{number}'")
        assert matcher.match({"symbol": f"S{number}"}) == [number]
        assert matcher.match_many([{"symbol": f"S{number}"}, {"symbol": "S0"}]) == [[number], [0]]
    assert sorted(matcher) == list(range(200))
    for number in range(200):
        matcher.remove(number)
        assert matcher.match({"symbol": f"S{number}"}) == []
    assert not len(matcher)
