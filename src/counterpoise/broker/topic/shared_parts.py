"""Parts of a broker that all its topics share."""

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
    """Settings, the clock of rates, turns of delivery, and limits; one of each for a broker."""

    options: TopicOptions
    clock: RateClock
    turns: DeliveryTurns
    limits: PublishLimits
    new_producer_name: Callable[[], str]
    wall: WallClock
    """When messages expire, and delayed ones are due."""
