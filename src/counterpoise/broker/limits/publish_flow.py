"""The entries of one producer, under the publish limits of its topic."""

from collections.abc import Callable
from typing import Protocol

from counterpoise.broker.limits.runner import LimitRunner
from counterpoise.names.topic import TopicName
from counterpoise.quota import PublishFlow, RateLimit

GoOn = Callable[[], None]
"""Publishes one entry that was throttled."""


class ThrottledConnection(Protocol):
    """What publish limits call on a producer's connection."""

    def count_throttled(self, entries: int, size: int) -> None:
        """Count throttled entries and their bytes; negative: that many wait no longer."""


class ProducerOrigin(Protocol):
    """What limits need of the PRODUCER command that opened a producer: the client's address."""

    @property
    def address(self) -> str:
        """Host and port of the producer's client."""


class NamedTopic(Protocol):
    """What publish limits need of a producer's topic."""

    @property
    def name(self) -> TopicName:
        """The topic's name."""


class LimitedProducer(Protocol):
    """What publish limits need of a producer; ``flow`` is None while no limit applies to it."""

    flow: "ProducerFlow | None"

    @property
    def name(self) -> str:
        """The producer's name."""

    @property
    def request(self) -> ProducerOrigin:
        """The command that created the producer."""

    @property
    def topic(self) -> NamedTopic:
        """The topic that the producer publishes to."""

    @property
    def sink(self) -> ThrottledConnection:
        """The connection of the producer, which takes its receipts."""


class ProducerFlow(PublishFlow):
    """One producer's entries under publish limits, while any applies."""

    __slots__ = ("_runner", "producer")

    def __init__(
        self, runner: LimitRunner, producer: LimitedProducer, limits: tuple[RateLimit, ...]
    ) -> None:
        super().__init__(runner.throttle, limits)
        self._runner = runner
        self.producer = producer

    @property
    def label(self) -> str:
        """The producer's name for logs."""
        return f"producer {self.producer.name} on {self.producer.request.address}"

    def offer(self, messages: int, size: int, go_on: GoOn) -> bool:
        """Whether an entry may pass now; if not, it is throttled, and ``go_on`` publishes it later.

        ``messages`` and ``size`` (bytes) are those of the entry.
        """
        if self.passes(messages, size) or self._runner.offer(self, messages, size, go_on):
            return True
        self.producer.sink.count_throttled(1, size)
        self._runner.throttled(self)
        return False

    def release(self, item: GoOn, size: int) -> None:
        """Publish an entry that was throttled, by calling ``item``."""
        self.producer.sink.count_throttled(-1, -size)
        item()
