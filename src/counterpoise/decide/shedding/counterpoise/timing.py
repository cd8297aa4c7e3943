"""Decides when moves are worth their price: the rent-or-buy rule.

An uneven cluster costs a little every minute, and a move costs once. A strategy that moves when the
first sum has reached the second pays at most twice what it would pay if it knew the future (ski
rental: Karlin, Manasse, Rudolph and Sleator 1988). Here the expected future counts as well: an
imbalance that has lasted for some time is assumed to last as long again, after the
time for which loads are forecast.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from counterpoise.decide.shedding.counterpoise.columns import LoadColumns
from counterpoise.decide.shedding.counterpoise.search import (
    LEAST,
    Found,
    Prices,
    Step,
    carry,
    objective,
)
from counterpoise.load.rates import Floats

PATIENCE: Final = 2.0
"""While a cluster stays uneven, the price of a move falls, at most to 1 ÷ this."""
SLIGHT: Final = 0.08
"""If the fullest of ten brokers is this part above the mean, a move has to gain twice its price.

Clients feel less of a small excess, because queues grow faster than load does. With a hundred
brokers the fullest may be twice as far above the mean: the more brokers, the more is chance.
"""
FEW: Final = 10
"""Up to this many brokers the price of a move falls in proportion to their number, since each is a
smaller part of the whole. With more it hardly falls, since a move interrupts as many clients."""
DEARER_MAX: Final = 3.0
"""The most that evenness (`SLIGHT`) adds to a price, as a multiple of it: a broker that joins has
to be filled, however even the others are."""
PASSING: Final = 0.16
"""What a move for a burst must gain at least, as a part of ``counterpoiseMovePrice``.

Such a move leaves the time after the burst less even, so that another move follows, and the burst
may be over before the move has paid. It helps the fullest broker alone, and with more brokers the
next fullest is nearer to it: in a larger cluster the move costs more. Waiting makes it no cheaper,
since a burst lasts no longer when the cluster has been uneven for long.
"""
HOUR_MINUTES: Final = 60.0


class Bought(NamedTuple):
    """The moves that a round makes, and what the best moves would gain and cost."""

    steps: tuple[Step, ...]
    best: int
    """How many leading steps together gain most over their price, whether they are made or not."""
    gain: float
    """By how much the first `best` steps lower the objective."""
    sure: float
    """By how much the first `best` steps lower the objective even if the forecasts are wrong."""
    needed: float
    """The price of the first `best` steps, which they must gain to be made."""
    prices: Prices


def prices_of(
    move_price: float, brokers: int, horizon_min: float, waited_min: float, excess: float
) -> Prices:
    """By how much a move has to lower the objective now.

    It depends on the time in which a move is assumed to pay off, and on how far the fullest broker
    is above the mean (``excess``).
    """
    pays = min(horizon_min + waited_min, PATIENCE * horizon_min)
    hourly = move_price * HOUR_MINUTES
    slight = SLIGHT * math.log10(max(brokers, 1))
    dearer = 1.0 + min((slight / max(excess, LEAST)) ** 2, DEARER_MAX)
    larger = max(brokers / FEW, 1.0)
    divisor = min(brokers, FEW) * larger**0.1
    lasting = dearer * hourly / pays / divisor
    passing = hourly / horizon_min * PASSING * math.sqrt(larger)
    return Prices(lasting, max(passing, lasting), move_price / divisor)


def buy(cluster: LoadColumns, found: Found, prices: Prices, doubt: Floats) -> Bought:
    """Choose the leading steps whose gain exceeds their price most, even if the forecasts are
    wrong.

    ``doubt`` is how wrong each broker's forecast may be: brokers that give are assumed to carry so
    much less, and those that receive so much more.
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
        sure = float(
            (
                objective(first + err, weight, cluster.least)
                - objective(top + err, weight, cluster.least)
            ).sum()
        )
        made = Bought(found.steps[:number], number, gain, sure, cost, prices)
        if gain - cost > best.gain - best.needed:
            best = made
        if sure - cost > bought.sure - bought.needed:
            bought = made
    return bought if bought.steps else best._replace(steps=())
