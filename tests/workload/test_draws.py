"""Random numbers by counter: known words, any part alone, and shapes that a count can show."""

import numpy as np
import pytest

from octopia.workload.draws import bell, below, permutation, sample, samples, stream, uniform, words

KEY = stream(7, "tests")


def test_words_are_those_of_splitmix64() -> None:
    """The first words of the published generator, started at 0 and at 1234567."""
    zero, other = np.zeros(1, dtype=np.uint64), np.array([1234567], dtype=np.uint64)
    assert words(zero, range(3)).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert words(other, range(2)).tolist() == [6457827717110365317, 3203168211198807973]


def test_any_part_of_a_stream_alone_is_the_same() -> None:
    whole = words(KEY, np.arange(1000))
    assert np.array_equal(words(KEY, np.arange(300, 500)), whole[300:500])
    assert words(KEY, 42).tolist() == [whole[42]]
    keys = words(KEY, np.arange(5))
    square = words(keys[:, None], np.arange(4)[None, :])
    assert square.shape == (5, 4)
    assert np.array_equal(words(keys[3:4], np.arange(4)), square[3])


def test_streams_differ_by_name_and_seed() -> None:
    keys = [int(stream(seed, name)[0]) for seed in (0, 1, -1, 10**30) for name in ("a", "b", "a/b", "")]
    assert len(set(keys)) == len(keys)


def test_the_same_for_ever() -> None:
    """Golden values: changing these changes every workload ever recorded."""
    assert int(stream(1, "symbols")[0]) == 0x80E5F987AB844509
    assert below(KEY, range(6), 1000).tolist() == [508, 37, 325, 58, 184, 712]
    assert permutation(KEY, 8).tolist() == [1, 6, 3, 4, 2, 0, 5, 7]
    assert bell(KEY, range(2)).tolist() == [-1.5457916259765625, -0.930755615234375]


def test_uniform_and_below_fill_their_range_evenly() -> None:
    drawn = uniform(KEY, np.arange(100_000))
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts = np.bincount(below(KEY, np.arange(100_000), 10), minlength=10)
    # five deviations of a binomial of 100,000 at one tenth
    assert np.abs(counts - 10_000).max() < 5 * 95
    assert len(counts) == 10
    assert below(KEY, np.arange(100), 1).tolist() == [0] * 100
    assert below(KEY, np.arange(1000), 2**53).max() < 2**53


def test_bell_has_mean_0_and_deviation_1() -> None:
    drawn = bell(KEY, np.arange(100_000))
    assert abs(drawn.mean()) < 5 / 100_000**0.5
    assert abs(drawn.std() - 1) < 0.01
    assert np.abs(drawn).max() <= 6
    # as many beyond two deviations as a normal distribution has, within a tenth
    assert abs((np.abs(drawn) > 2).mean() - 0.0455) < 0.0046


def test_permutations_and_samples() -> None:
    order = permutation(KEY, 100)
    assert sorted(order.tolist()) == list(range(100))
    assert order.tolist() != list(range(100))
    assert sample(KEY, 100, 7).tolist() == order[:7].tolist()
    keys = words(KEY, np.arange(2000))
    rows = samples(keys, 9, 3)
    assert all(len(set(row)) == 3 for row in rows.tolist())
    assert rows[11].tolist() == sample(keys[11:12], 9, 3).tolist()
    assert np.abs(np.bincount(rows.ravel(), minlength=9) - 2000 / 3).max() < 5 * 22
    assert samples(keys, 4, 0).shape == (2000, 0)


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="4 different integers below 3"):
        sample(KEY, 3, 4)
    with pytest.raises(ValueError, match="4 different integers below 3"):
        samples(KEY, 3, 4)
    for bound in (0, 2**53 + 1):
        with pytest.raises(ValueError, match="1 to 2\\*\\*53"):
            below(KEY, [0], bound)
