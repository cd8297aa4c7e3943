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
PASSING: Final = 0.4
"""What a move for a burst must win at least, as a part of a broker's imbalance hours.

It leaves the time after the burst less even, so that another move follows, and a burst may be over
before it has paid. It helps the fullest broker alone, so a larger cluster makes it no cheaper.
"""
HOUR_MINUTES: Final = 60.0


class Prices(NamedTuple):
    """What a move must win of the objective."""

    lasting: float
    passing: float
    """Of one that leaves more to be moved later."""

    def of(self, step: Step, before: Found | Step) -> float:
        """What this step must win after the one ``before`` it."""
        return self.passing if step.lasting > before.lasting else self.lasting


class Bought(NamedTuple):
    """What a round moves, and what the rest would have won."""

    steps: tuple[Step, ...]
    best: int
    """How many steps win most over their price, bought or not."""
    gain: float
    """By how much those lower the objective."""
    needed: float
    """What they must win to be made."""
    prices: Prices


def prices_of(move_price: float, brokers: int, horizon_min: float, waited_min: float) -> Prices:
    """What moves must win of the objective now, for the time over which they are taken to pay."""
    pays = min(horizon_min + waited_min, PATIENCE * horizon_min)
    whole = move_price * HOUR_MINUTES / pays
    return Prices(whole / brokers, whole * max(PASSING, 1.0 / brokers))


def buy(found: Found, prices: Prices, doubt: float) -> Bought:
    """The leading steps that win most over their price; none unless they also win the ``doubt``.

    The doubt is what forecasts may be wrong by: less than that is noise.
    """
    best, count, cost, worth = 0.0, 0, 0.0, prices.lasting
    before: Found | Step = found
    for number, step in enumerate(found.steps, 1):
        cost += prices.of(step, before)
        before = step
        over = found.objective - step.objective - cost
        if over > best:
            best, count, worth = over, number, cost
    gain = found.objective - found.steps[count - 1].objective if count else 0.0
    needed = worth + doubt
    bought = found.steps[:count] if gain > needed else ()
    return Bought(bought, count, gain, needed, prices)
