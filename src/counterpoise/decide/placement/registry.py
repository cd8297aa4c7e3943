"""The placement strategies by name; a new one is registered here."""

from typing import Any, Final

from counterpoise.decide.placement.least_message_rate import LeastLongTermMessageRate
from counterpoise.decide.placement.least_resource_usage import LeastResourceUsageWithWeight
from counterpoise.decide.placement.least_usage import LeastUsage
from counterpoise.decide.placement.options import PLACEMENT_PACKAGE
from counterpoise.decide.placement.planned import AvgShedderPlacement
from counterpoise.decide.placement.round_robin import RoundRobinBrokerSelector
from counterpoise.decide.placement.strategy import PlacementStrategy
from counterpoise.decide.registry import Registry

PLACEMENTS: Final[Registry[PlacementStrategy[Any, Any]]] = Registry(
    "loadBalancerLoadPlacementStrategy",
    PlacementStrategy,
    {
        PLACEMENT_PACKAGE + "LeastLongTermMessageRate": LeastLongTermMessageRate(),
        PLACEMENT_PACKAGE + "LeastResourceUsageWithWeight": LeastResourceUsageWithWeight(),
        PLACEMENT_PACKAGE + "RoundRobinBrokerSelector": RoundRobinBrokerSelector(),
        PLACEMENT_PACKAGE + "AvgShedder": AvgShedderPlacement(),
        LeastUsage.name: LeastUsage(),
    },
)
