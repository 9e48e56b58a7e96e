"""Random numbers for single messages: the streams of `octopia.workload.draws`, one number at a time."""

from octopia.workload import draws

_MASK = (1 << 64) - 1


class Chance:
    """A stream of random words, reached by counter."""

    __slots__ = ("_key",)

    def __init__(self, seed: int, name: str) -> None:
        self._key = int(draws.stream(seed, name)[0])

    def word(self, counter: int) -> int:
        mixed = (self._key + (counter + 1) * 0x9E3779B97F4A7C15) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, counter: int, bound: int) -> int:
        """A whole number in [0, bound)."""
        return self.word(counter) * bound >> 64

    def happens(self, counter: int, probability: float) -> bool:
        return (self.word(counter) >> 11) * 2.0**-53 < probability
