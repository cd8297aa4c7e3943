"""Limits of one topic: producers, consumers, unacknowledged messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.wire.errors import ServerError


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of one topic; 0 is no limit."""

    producers: int
    consumers: int
    consumers_of_subscription: int
    unacked_of_consumer: int
    unacked_of_subscription: int

    def admit_producer(self, attached: int) -> None:
        """Raise `BrokerError` (ProducerBusy) unless one more producer may come."""
        if 0 < self.producers <= attached:
            raise BrokerError(
                ServerError.ProducerBusy,
                f"Topic reached max producers limit: {self.producers} (maxProducersPerTopic)",
            )

    def admit_consumer(self, on_topic: int, on_subscription: int) -> None:
        """Raise `BrokerError` (ConsumerBusy) unless one more consumer may come."""
        if 0 < self.consumers <= on_topic:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"Topic reached max consumers limit: {self.consumers} (maxConsumersPerTopic)",
            )
        if 0 < self.consumers_of_subscription <= on_subscription:
            raise BrokerError(
                ServerError.ConsumerBusy,
                "Subscription reached max consumers limit: "
                f"{self.consumers_of_subscription} (maxConsumersPerSubscription)",
            )


def headcount_of(policies: Mapping[str, Any] | None, options: TopicOptions) -> TopicLimits:
    """The limits of a namespace's ``Policies``, and those of broker.conf where they have none."""

    def limit(name: str, default: int) -> int:
        said = (policies or {}).get(name)
        return said if isinstance(said, int) and said >= 0 else default

    return TopicLimits(
        limit("max_producers_per_topic", options.max_producers),
        limit("max_consumers_per_topic", options.max_consumers),
        limit("max_consumers_per_subscription", options.max_consumers_per_subscription),
        limit("max_unacked_messages_per_consumer", options.max_unacked_per_consumer),
        limit("max_unacked_messages_per_subscription", options.max_unacked_per_subscription),
    )
