"""Random draws that depend on a seed and a record's number, and on nothing else. Pure.

The generator is SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). Python's own
would be slower to seed for each record, and may draw otherwise in another version of Python.
"""

import math

_BITS = 64
_MASK = (1 << _BITS) - 1
_GAMMA = 0x9E3779B97F4A7C15
_UNIT = 2.0**-53


def _mixed(bits: int) -> int:
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


class Draws:
    """The draws for one record after the other."""

    __slots__ = ("_seed", "_state")

    def __init__(self, seed: int) -> None:
        self._seed = _mixed(seed & _MASK)
        self._state = 0

    def begin(self, number: int) -> None:
        """Begin the draws for a record."""
        self._state = _mixed(self._seed ^ (number * _GAMMA & _MASK))

    def bits(self) -> int:
        """Return a number of 64 random bits."""
        state = self._state = (self._state + _GAMMA) & _MASK
        bits = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
        return bits ^ (bits >> 31)

    def below(self, count: int) -> int:
        """Return a whole number from 0 to `count` - 1, all equally likely."""
        return self.bits() * count >> _BITS

    def unit(self) -> float:
        """Return a number from 0 to 1, without 1."""
        return (self.bits() >> 11) * _UNIT

    def normal(self) -> float:
        """Return a number of the standard normal distribution (Box and Muller)."""
        return math.sqrt(-2.0 * math.log(1.0 - self.unit())) * math.cos(2.0 * math.pi * self.unit())
