"""The settings of the placement strategies."""

from dataclasses import dataclass

from counterpoise.decide.weights import DEFAULT_WEIGHTS, ResourceWeights
from counterpoise.names.options import option

PLACEMENT_PACKAGE = "org.apache.pulsar.broker.loadbalance.impl."


@dataclass(frozen=True, slots=True)
class PlacementOptions:
    """Every setting that `counterpoise.decide.placement` reads."""

    strategy: str = option(
        PLACEMENT_PACKAGE + "LeastLongTermMessageRate", "loadBalancerLoadPlacementStrategy"
    )
    """The strategy that chooses a bundle's broker; the extensible manager ignores it."""
    overloaded_threshold_percentage: int = option(
        85, "loadBalancerBrokerOverloadedThresholdPercentage", "percent", low=0, dynamic=True
    )
    """A busier broker is given a bundle only when every other is as busy."""
    average_difference_percentage: int = option(
        10,
        "loadBalancerAverageResourceUsageDifferenceThresholdPercentage",
        "percentage points",
        low=0,
        dynamic=True,
    )
    """How far below the average a broker must be to be preferred."""
    history_percentage: float = option(
        0.9, "loadBalancerHistoryResourcePercentage", "fraction", low=0.0, high=1.0, dynamic=True
    )
    """The part of the remembered usage that stays when new usage is averaged in."""
    weights: ResourceWeights = DEFAULT_WEIGHTS
