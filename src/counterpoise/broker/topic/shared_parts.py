"""Settings, clocks and limits that all topics of a broker share."""

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
    """The sum over all entries, each from the begin of its group commit until it is stored."""

    def count(self, entries: int, took_s: float) -> None:
        """Count entries that were stored together, each in ``took_s`` seconds."""
        self.entries += entries
        self.seconds += entries * took_s


@dataclass(frozen=True, slots=True)
class SharedByTopics:
    """The settings, clocks, delivery turns and limits that all topics of a broker share."""

    options: TopicOptions
    clock: RateClock
    turns: DeliveryTurns
    limits: PublishLimits
    new_producer_name: Callable[[], str]
    wall: WallClock
    """The clock by which messages expire and delayed messages are due."""
    publish_latency: PublishLatency
