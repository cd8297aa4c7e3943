"""The settings of Counterpoise: the price of a move, and limits."""

from dataclasses import dataclass

from counterpoise.decide.weights import DEFAULT_WEIGHTS, ResourceWeights
from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class CounterpoiseOptions:
    """The settings that Counterpoise reads."""

    move_price: float = option(
        0.24, "counterpoiseMovePrice", "imbalance hours of one broker", low=0.0, dynamic=True
    )
    """The price of a move: what it must gain, in units of one broker at twice the mean load for an
    hour. If brokers are nearly even, a move costs up to four times as much."""
    horizon_minutes: int = option(60, "counterpoiseHorizonMinutes", "minutes", low=1, dynamic=True)
    """How far ahead load is forecast: the time in which a move has to pay off."""
    max_moves: int = option(1000, "counterpoiseMaxMovesPerRound", "bundles", low=0, dynamic=True)
    """The most bundles that one round moves."""
    grace_minutes: int = option(
        30, "loadBalancerSheddingGracePeriodMinutes", "minutes", low=0, dynamic=True
    )
    """How long a bundle that was moved is not moved again."""
    weights: ResourceWeights = DEFAULT_WEIGHTS
