"""When moves are worth their price: rent or buy.

To leave a cluster uneven costs a little every minute, to move costs once. A player that moves when
the one has come to the other pays at most twice what it would have paid knowing the future (ski
rental: Karlin, Manasse, Rudolph and Sleator 1988). Here what is still to come counts, too: what has
been uneven for so long is taken to stay so for as long again, beside the horizon.
"""

from typing import Final, NamedTuple

from counterpoise.decide.shedding.counterpoise.search import Found, Step

PATIENCE: Final = 2.0
"""How far the price of a move may fall by waiting: to half."""
PASSING: Final = 4.0
"""So many prices costs a move for a burst that makes the time after it less even.

It calls for another move then, and a burst may be over before it has paid.
"""
HOUR_MINUTES: Final = 60.0


class Bought(NamedTuple):
    """What a round moves, and what the rest would have won."""

    steps: tuple[Step, ...]
    best: int
    """How many steps win most over their price, bought or not."""
    gain: float
    """By how much those lower the objective."""
    needed: float
    """What they must win to be made."""
    price: float
    """What each of them must win."""


def price_of(move_price: float, brokers: int, horizon_min: float, waited_min: float) -> float:
    """What a move must win of the objective now, for the time over which it is taken to pay."""
    pays = min(horizon_min + waited_min, PATIENCE * horizon_min)
    return move_price / brokers * HOUR_MINUTES / pays


def price_for(step: Step, before: Found | Step, price: float) -> float:
    """What a step must win after the one ``before`` it."""
    return price * PASSING if step.lasting > before.lasting else price


def buy(found: Found, price: float, doubt: float) -> Bought:
    """The leading steps that win most over their price; none unless they also win the ``doubt``.

    The doubt is what forecasts may be wrong by: less than that is noise.
    """
    best, count, cost, worth = 0.0, 0, 0.0, price
    before: Found | Step = found
    for number, step in enumerate(found.steps, 1):
        cost += price_for(step, before, price)
        before = step
        over = found.objective - step.objective - cost
        if over > best:
            best, count, worth = over, number, cost
    gain = found.objective - found.steps[count - 1].objective if count else 0.0
    needed = worth + doubt
    bought = found.steps[:count] if gain > needed else ()
    return Bought(bought, count, gain, needed, price)
