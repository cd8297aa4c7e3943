"""What all topics of a broker share."""

from collections.abc import Callable
from dataclasses import dataclass

from counterpoise.broker.base.clock import WallClock
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.topic.dispatch.delivery_turns import DeliveryTurns
from counterpoise.broker.topic.meter import RateClock
from counterpoise.broker.topic.options import TopicOptions


@dataclass(slots=True)
class PublishLatency:
    """How many entries a broker has stored since it started, and the seconds they took in sum."""

    entries: int = 0
    seconds: float = 0.0
    """The time from when each entry may be stored until it is, added up."""

    def count(self, entries: int, took_s: float) -> None:
        """Count entries that were stored together, each in ``took_s`` seconds."""
        self.entries += entries
        self.seconds += entries * took_s


@dataclass(frozen=True, slots=True)
class SharedByTopics:
    """What all topics of a broker share: settings, clocks, delivery turns and limits."""

    options: TopicOptions
    clock: RateClock
    turns: DeliveryTurns
    limits: PublishLimits
    new_producer_name: Callable[[], str]
    wall: WallClock
    """When messages expire, and delayed ones are due."""
    publish_latency: PublishLatency
