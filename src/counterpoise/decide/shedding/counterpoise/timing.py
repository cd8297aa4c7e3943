"""When moves are worth their price: rent or buy.

To leave a cluster uneven costs a little every minute, to move costs once. A player that moves when
the one has come to the other pays at most twice what it would have paid knowing the future (ski
rental: Karlin, Manasse, Rudolph and Sleator 1988). Here what is still to come counts, too: what has
been uneven for so long is taken to stay so for as long again, beside the horizon.
"""

from typing import Final, NamedTuple

import numpy as np

from counterpoise.decide.shedding.counterpoise.columns import LoadColumns
from counterpoise.decide.shedding.counterpoise.search import Found, Prices, Step, carry, objective
from counterpoise.load.rates import Floats

PATIENCE: Final = 2.0
"""How far the price of a move may fall by waiting: to half."""
PASSING: Final = 0.4
"""What a move for a burst must win at least, as a part of a broker's imbalance hours.

It leaves the time after the burst less even, so that another move follows, and a burst may be over
before it has paid. It helps the fullest broker alone, so a larger cluster makes it no cheaper.
"""
HOUR_MINUTES: Final = 60.0


class Bought(NamedTuple):
    """What a round moves, and what the rest would have won."""

    steps: tuple[Step, ...]
    best: int
    """How many steps win most over their price, bought or not."""
    gain: float
    """By how much those lower the objective."""
    sure: float
    """By how much at least, as far as the forecasts can be relied on."""
    needed: float
    """What they must win to be made."""
    prices: Prices


def prices_of(move_price: float, brokers: int, horizon_min: float, waited_min: float) -> Prices:
    """What moves must win of the objective now, for the time over which they are taken to pay."""
    pays = min(horizon_min + waited_min, PATIENCE * horizon_min)
    whole = move_price * HOUR_MINUTES / pays
    return Prices(whole / brokers, whole * max(PASSING, 1.0 / brokers))


def buy(cluster: LoadColumns, found: Found, prices: Prices, doubt: Floats) -> Bought:
    """The leading steps that win most over their price, though forecasts err against them.

    ``doubt`` is what each broker's forecast may be wrong by: those that give carry so much less and
    those that receive so much more. What is won by chance is not won then.
    """
    weight, use = cluster.weight, cluster.use.copy()
    first = use.max(axis=0, initial=0.0)
    top = first.copy()
    best, bought = Bought((), 0, 0.0, 0.0, prices.lasting, prices), Bought((), 0, 0, 0, 0, prices)
    before: Found | Step = found
    cost = 0.0
    for number, step in enumerate(found.steps, 1):
        cost += prices.of(step, before)
        before = step
        carry(cluster, use, top, step[:3])
        gain = found.objective - step.objective
        if gain <= cost:
            continue
        err = doubt * np.sign((top - first).round(9))
        sure = float((objective(first + err, weight, cluster.least)
                      - objective(top + err, weight, cluster.least)).sum())  # fmt: skip
        made = Bought(found.steps[:number], number, gain, sure, cost, prices)
        if gain - cost > best.gain - best.needed:
            best = made
        if sure - cost > bought.sure - bought.needed:
            bought = made
    return bought if bought.steps else best._replace(steps=())
