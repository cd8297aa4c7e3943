"""What all topics of a broker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from counterpoise.broker.base.clock import WallClock
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.topic.dispatch.delivery_turns import DeliveryTurns
from counterpoise.broker.topic.meter import RateClock
from counterpoise.broker.topic.options import TopicOptions


@dataclass(frozen=True, slots=True)
class SharedByTopics:
    """Settings, the clock of rates, delivery turns, and limits; created once for each broker."""

    options: TopicOptions
    clock: RateClock
    turns: DeliveryTurns
    limits: PublishLimits
    new_producer_name: Callable[[], str]
    wall: WallClock
    """When messages expire, and delayed ones are due."""
