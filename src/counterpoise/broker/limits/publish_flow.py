"""The entries of one producer, under the publish limits of its topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from counterpoise.broker.limits.runner import LimitRunner
from counterpoise.names.topic import TopicName
from counterpoise.quota import PublishFlow, RateLimit

GoOn = Callable[[], None]
"""Publishes an entry that was throttled."""


class ThrottledConnection(Protocol):
    """A connection, as the limits see it that throttle its entries."""

    def held(self, entries: int, size: int) -> None:
        """So many entries more, of so many bytes, are throttled (fewer, if negative)."""


class ProducerOrigin(Protocol):
    """What a producer's request said."""

    @property
    def address(self) -> str:
        """Its client's host and port."""


class NamedTopic(Protocol):
    """A topic, as its producers know it."""

    @property
    def name(self) -> TopicName:
        """Its name."""


class LimitedProducer(Protocol):
    """A producer; ``flow`` is its place among the limits, None while none applies."""

    flow: ProducerFlow | None

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def request(self) -> ProducerOrigin:
        """What its request said."""

    @property
    def topic(self) -> NamedTopic:
        """Where it publishes."""

    @property
    def sink(self) -> ThrottledConnection:
        """Its connection."""


class ProducerFlow(PublishFlow):
    """The place of one producer among the limits, as long as any applies to it."""

    __slots__ = ("_runner", "producer")

    def __init__(
        self, runner: LimitRunner, producer: LimitedProducer, limits: tuple[RateLimit, ...]
    ) -> None:
        super().__init__(runner.throttle, limits)
        self._runner = runner
        self.producer = producer

    @property
    def label(self) -> str:
        """Which producer it is."""
        return f"producer {self.producer.name} on {self.producer.request.address}"

    def offer(self, messages: int, size: int, go_on: GoOn) -> bool:
        """Whether an entry may pass now; if not it is throttled until ``go_on`` is called."""
        if self.passes(messages, size) or self._runner.offer(self, messages, size, go_on):
            return True
        self.producer.sink.held(1, size)
        self._runner.throttled(self)
        return False

    def release(self, item: GoOn, size: int) -> None:
        """Publish an entry that was throttled."""
        self.producer.sink.held(-1, -size)
        item()
