"""The log of a test cluster's events, and what a test expects to find in it."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from counterpoise.faults import FaultEffect, Occurrence, Operation

EVENTS_MAX: Final = 10_000
"""How many events are kept; the newest stay."""
SHOWN_MAX: Final = 40
"""How many events the message of a failed assertion shows."""

Position = tuple[int, int]


class EventKind(StrEnum):
    """The kind of an event in a test cluster's log."""

    FAULT = "fault"
    MOVED = "moved"
    REDELIVERED = "redelivered"
    DISCONNECTED = "connection lost"
    BROKER = "broker"
    CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One logged event.

    Events are equal if kind, text and topic are: the logs of two runs of a test can be compared.
    """

    kind: EventKind
    text: str
    """What happened, without ports and times, which differ from run to run."""
    topic: str | None = None
    broker: str = field(default="", compare=False)
    """The broker's id."""
    client: tuple[str, ...] = field(default=(), compare=False)
    """Names of the client: address, version, and its producer's or consumer's name."""
    at_s: float = field(default=0.0, compare=False)
    """Seconds since the log began."""

    def __str__(self) -> str:
        return f"{self.at_s:8.3f} s  {self.kind}: {self.text}"


Expectation = Callable[[], str]
"""A condition that a test waits for.

It returns what is still missing, as a sentence; an empty text once the condition is met."""


class ClusterLog:
    """The log of a test cluster: events, and which messages brokers stored and delivered.

    Only to be used on the cluster's event loop.
    """

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._kept: deque[ClusterEvent] = deque(maxlen=EVENTS_MAX)
        self._serving: dict[str, str] = {}
        self._stored: dict[str, dict[Position, int]] = {}
        """By topic: the messages that were stored, each with its number from 1 on."""
        self._delivered: dict[tuple[str, str], set[Position]] = {}
        self._since: dict[tuple[str, str], int] = {}
        """By topic and subscription: how many messages were stored at its first SUBSCRIBE."""
        self._names: dict[str, str] = {}
        self._changed = asyncio.Event()

    @property
    def events(self) -> list[ClusterEvent]:
        """The newest events, oldest first."""
        return list(self._kept)

    def name(self, broker: str) -> str:
        """The name of a broker id in the log: ``broker 1`` for the first one asked for."""
        return self._names.setdefault(broker, f"broker {len(self._names) + 1}")

    def add(
        self,
        kind: EventKind,
        text: str,
        topic: str | None = None,
        broker: str = "",
        client: tuple[str, ...] = (),
    ) -> None:
        """Append an event to the log, and wake those that wait for one."""
        at_s = self._clock() - self._began
        self._kept.append(ClusterEvent(kind, text, topic, broker, client, at_s))
        self._notify()

    def struck(self, occurrence: Occurrence, effect: FaultEffect) -> None:
        """Log that a fault struck an operation, and its effect."""
        of = f" of {occurrence.topic}" if occurrence.topic is not None else ""
        text = f"{occurrence.operation.name}{of} {effect}"
        self.add(EventKind.FAULT, text, occurrence.topic, occurrence.broker, occurrence.client)

    def begun(self, occurrence: Occurrence, *, arrives: bool) -> None:
        """Note that a client's operation began, such as a SEND, and on which broker.

        ``arrives``: no fault prevents it, so its message is stored or delivered.
        """
        if occurrence.topic is None:
            return
        if occurrence.operation is Operation.SUBSCRIBE and occurrence.subscription is not None:
            many = len(self._stored.get(occurrence.topic, ()))
            self._since.setdefault((occurrence.topic, occurrence.subscription), many)
        elif occurrence.operation is Operation.RECEIPT and occurrence.position is not None:
            self.moved(occurrence.topic, occurrence.broker)
            stored = self._stored.setdefault(occurrence.topic, {})
            stored.setdefault(occurrence.position, len(stored) + 1)
            self._notify()
        elif occurrence.operation is Operation.MESSAGE and occurrence.position is not None:
            self.moved(occurrence.topic, occurrence.broker)
            if arrives:
                self._deliver(occurrence, occurrence.position)

    def _deliver(self, occurrence: Occurrence, position: Position) -> None:
        topic, subscription = occurrence.topic or "", occurrence.subscription or ""
        delivered = self._delivered.setdefault((topic, subscription), set())
        if occurrence.redeliveries or position in delivered:
            number = self._stored.get(topic, {}).get(position)
            which = f"message {number}" if number else "a message"
            text = f"{which} of {topic} again to subscription {subscription}"
            self.add(EventKind.REDELIVERED, text, topic, occurrence.broker, occurrence.client)
        delivered.add(position)
        self._notify()

    def moved(self, topic: str, broker: str) -> None:
        """Note that a broker serves a topic now; log a move if another one served it before."""
        before = self._serving.get(topic)
        self._serving[topic] = broker
        if before is not None and before != broker:
            text = f"{topic} from {self.name(before)} to {self.name(broker)}"
            self.add(EventKind.MOVED, text, topic, broker)

    def disconnected(self, broker: str, address: str) -> None:
        """Log that a broker lost the connection of the client at an address."""
        text = f"a client of {self.name(broker)}"
        self.add(EventKind.DISCONNECTED, text, broker=broker, client=(address,))

    def of(self, kind: EventKind, topic: str | None = None) -> list[ClusterEvent]:
        """Return the events of a kind, only those about ``topic`` if it is given."""
        return [each for each in self._kept if each.kind is kind and topic in (None, each.topic)]

    def undelivered(self, topic: str, subscription: str) -> list[int]:
        """Return the numbers of messages that were stored and never delivered to a subscription.

        Messages that were stored before the subscription's first SUBSCRIBE are omitted.
        """
        delivered = self._delivered.get((topic, subscription), set())
        since = self._since.get((topic, subscription), 0)
        stored = self._stored.get(topic, {})
        return [n for at, n in stored.items() if n > since and at not in delivered]

    def stored(self, topic: str) -> int:
        """Return how many messages of a topic were stored since the log began."""
        return len(self._stored.get(topic, ()))

    def missing_events(self, kind: EventKind, topic: str, times: int) -> str:
        """Say that fewer than ``times`` events of a kind about a topic happened; empty if not."""
        found = len(self.of(kind, topic))
        if found >= times:
            return ""
        return f"{topic} was {kind} {found} times, and {times} were expected"

    def missing_messages(self, topic: str, subscription: str) -> str:
        """Say which stored messages a subscription did not get; empty if it got all."""
        stored = self.stored(topic)
        if not stored:
            return f"no message of {topic} was stored while the cluster was watched"
        lost = self.undelivered(topic, subscription)
        if not lost:
            return ""
        which = ", ".join(map(str, lost[:SHOWN_MAX])) + (" …" if len(lost) > SHOWN_MAX else "")
        return (
            f"{len(lost)} of the {stored} messages of {topic} that were stored were never "
            f"delivered to subscription {subscription}: {which}"
        )

    async def expect(self, expectation: Expectation, within_s: float) -> None:
        """Wait until an expectation is met.

        If it is not met within ``within_s`` seconds, raises AssertionError, whose message lists
        what happened instead.
        """
        try:
            async with asyncio.timeout(within_s):
                while expectation():
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            raise AssertionError(story(expectation(), self._kept)) from None

    def _notify(self) -> None:
        self._changed.set()


def story(missing: str, happened: Iterable[ClusterEvent]) -> str:
    """The message of a failed expectation: what is missing, then the latest events."""
    events: Sequence[ClusterEvent] = list(happened)
    if not events:
        return f"{missing}. Nothing happened that is recorded."
    lines = [f"  {each}" for each in events[-SHOWN_MAX:]]
    left_out = len(events) - len(lines)
    head = f", but for the first {left_out} events" if left_out else ""
    return "\n".join([f"{missing}. What happened{head}:", *lines])
