"""When moves are worth their price: rent or buy.

To leave a cluster uneven costs a little every minute, to move costs once. Whoever waits until the
one has come to the other never pays more than twice what the best would have paid that knew the
future (ski rental: Karlin, Manasse, Rudolph and Sleator 1988).
"""

from typing import NamedTuple

from counterpoise.decide.shedding.counterpoise.search import Found, Step


class Bought(NamedTuple):
    """What a round moves."""

    steps: tuple[Step, ...]
    gain: float
    """By how much the fullest broker comes down, in parts of the mean."""
    price: float
    """What each move must win."""


def buy(found: Found, price: float) -> Bought:
    """The leading steps that win most over their price: none, if none does."""
    best, count = 0.0, 0
    for number, step in enumerate(found.steps, 1):
        won = found.objective - step.objective - price * number
        if won > best:
            best, count = won, number
    steps = found.steps[:count]
    gain = found.fullest - steps[-1].fullest if steps else 0.0
    return Bought(steps, gain, price)
