"""Pairs brokers for AvgShedder, and counts in how many calls in a row each pair was uneven."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from counterpoise.decide.shedding.candidates import ascending
from counterpoise.decide.shedding.options import AvgOptions
from counterpoise.load.rates import Floats


class Pair(NamedTuple):
    """Two brokers (indices into the view), and the difference of their scores in points."""

    low: int
    high: int
    gap: float


@dataclass(slots=True)
class Hits:
    """AvgShedder's two hit counters of each broker, while one call updates them."""

    low: dict[str, int]
    high: dict[str, int]

    def count(self, names: tuple[str, ...], scores: Floats, options: AvgOptions) -> list[Pair]:
        """Count each uneven pair for both of its brokers, and return the pairs from the outside in.

        With an odd number of brokers the middle one is paired with itself. Its difference is 0,
        which resets its counters (if the low threshold is 0, it is counted twice instead).
        """
        order = ascending(scores)
        half = (len(order) + 1) // 2
        lows, highs = order[:half], order[::-1][:half]
        with np.errstate(all="ignore"):
            gaps = scores[highs] - scores[lows]
        uneven = ~(gaps < options.low_threshold)
        pairs = list(
            map(Pair, lows[uneven].tolist(), highs[uneven].tolist(), gaps[uneven].tolist())
        )
        if not pairs:
            self.low.clear()
            self.high.clear()
            return pairs
        if self.low or self.high:
            self._drop_even(names, lows[~uneven].tolist(), highs[~uneven].tolist())
        low, high, far = self.low, self.high, options.high_threshold
        for first, second, gap in pairs:
            one, other = names[first], names[second]
            low[one] = low.get(one, 0) + 1
            low[other] = low.get(other, 0) + 1
            if gap < far:
                high.pop(one, None)
                high.pop(other, None)
            else:
                high[one] = high.get(one, 0) + 1
                high[other] = high.get(other, 0) + 1
        return pairs

    def _drop_even(self, names: tuple[str, ...], lows: list[int], highs: list[int]) -> None:
        for index in (*lows, *highs):
            self.drop(names[index])

    def drop(self, name: str) -> None:
        """Set the counters of a broker back to 0."""
        self.low.pop(name, None)
        self.high.pop(name, None)

    def ripe(self, names: tuple[str, ...], pairs: list[Pair], options: AvgOptions) -> list[Pair]:
        """The pairs in which a broker has reached its hit count.

        The counters of both brokers are reset, whether or not anything moves.
        """
        low, high = self.low.get, self.high.get
        few, many = options.high_hits, options.low_hits
        found = []
        for pair in pairs:
            one, other = names[pair.low], names[pair.high]
            if (
                high(one, 0) >= few
                or high(other, 0) >= few
                or low(one, 0) >= many
                or low(other, 0) >= many
            ):
                found.append(pair)
                self.drop(one)
                self.drop(other)
        return found
