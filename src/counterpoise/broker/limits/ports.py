"""Topics, producers and connections, as far as limits know them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Sized
from typing import Protocol

from counterpoise.names.topic import TopicName
from counterpoise.quota import Bucket, Flow


class Holding(Protocol):
    """A connection, as the one who holds its entries back sees it."""

    def held(self, entries: int, size: int) -> None:
        """So many entries more, of so many bytes, wait for a limit (fewer, if negative)."""


class Origin(Protocol):
    """What a producer said of itself."""

    @property
    def address(self) -> str:
        """Its client's host and port."""


class Named(Protocol):
    """A topic, as its producers know it."""

    @property
    def name(self) -> TopicName:
        """Its name."""


class LimitedProducer(Protocol):
    """A producer; ``flow`` is its place among the limits, None while none applies."""

    flow: Flow | None

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def closed(self) -> bool:
        """Whether it is gone."""

    @property
    def request(self) -> Origin:
        """What it said of itself."""

    @property
    def topic(self) -> Named:
        """Where it publishes."""

    @property
    def sink(self) -> Holding:
        """Its connection."""


class Published(Protocol):
    """How fast something is published."""

    @property
    def rate(self) -> float:
        """Messages a second."""

    @property
    def byte_rate(self) -> float:
        """Bytes a second."""


class Waiter(Hashable, Protocol):
    """A subscription that waits at a dispatch limit."""

    throttled_since: int | None
    """Since when it has waited, at this limit or another."""

    @property
    def topic(self) -> str:
        """Its topic's name."""

    @property
    def subscription(self) -> str:
        """Its own name."""

    @property
    def behind(self) -> int:
        """Entries that it has not delivered yet."""

    @property
    def times(self) -> int:
        """How often it had to wait."""

    def turn(self) -> None:
        """Let it deliver what it may."""


class LimitedTopic(Protocol):
    """A topic."""

    @property
    def meter_in(self) -> Published:
        """What it takes."""

    @property
    def name(self) -> TopicName:
        """Its name."""

    def attached_producers(self) -> Sequence[LimitedProducer]:
        """Its producers."""


class Reached(Hashable, Protocol):
    """A limit, of publishing or of delivery, as those see it who tell of it."""

    @property
    def level(self) -> str:
        """Where it holds."""

    @property
    def subject(self) -> str:
        """What it limits."""

    @property
    def messages(self) -> Bucket | None:
        """What is left in messages; None where they are not limited."""

    @property
    def bytes(self) -> Bucket | None:
        """What is left in bytes; None where they are not limited."""

    @property
    def waiting(self) -> Sized:
        """Those who wait at it."""

    @property
    def passed_messages(self) -> int:
        """Messages that have passed it."""

    @property
    def passed_bytes(self) -> int:
        """Bytes that have passed it."""

    @property
    def throttled_count(self) -> int:
        """How often somebody began to wait while nobody did."""

    @property
    def throttled_ns(self) -> int:
        """For how long somebody waited, altogether."""

    @property
    def throttled_since(self) -> int | None:
        """Since when somebody waits."""
