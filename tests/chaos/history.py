"""What was seen during a run: the only thing that judges look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple


class Message(NamedTuple):
    """One message: a producer numbers its own from 0, in the order in which it sends them."""

    producer: str
    number: int
    key: str

    def encode(self) -> bytes:
        """As a payload."""
        return f"{self.producer} {self.number} {self.key}".encode()

    @staticmethod
    def decode(payload: bytes) -> "Message":
        """Back from a payload."""
        producer, number, key = payload.decode().split(" ")
        return Message(producer, int(number), key)


@dataclass(slots=True)
class TopicHistory:
    """What happened to the messages of one topic."""

    acknowledged: list[Message] = field(default_factory=list)
    """In the order of their receipts."""
    receipts_at: list[float] = field(default_factory=list)
    """When the producer that always publishes had each of its receipts, in seconds."""
    stored: list[Message] = field(default_factory=list)
    """As a reader found them in the end, from the first on."""
    delivered: list[Message] = field(default_factory=list)
    """As the subscription's consumer received them."""

    def silent_s(self, begin: float, end: float) -> float:
        """The longest time within a span in which the attached producer had no receipt."""
        times = [begin, *(at for at in self.receipts_at if begin < at < end), end]
        return max(later - earlier for earlier, later in pairwise(times))


@dataclass(frozen=True, slots=True)
class Seen:
    """A fault, and what it did to writers."""

    kind: str
    detail: str
    writable_s: Mapping[str, float | None]
    """Seconds until a new client had a receipt from each topic; None: it never had."""
    failed: str = ""
    """Why the fault could not be brought about, if so."""
    silent_s: Mapping[str, float] = field(default_factory=dict)
    """The longest time without a receipt of the client that was attached when a broker froze."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle in the end."""

    name: str
    owner: str | None
    """By the metadata's word."""
    changing: bool
    held_by: Sequence[str]
    """The brokers that say they own it."""


@dataclass(slots=True)
class History:
    """Everything that was seen."""

    topics: dict[str, TopicHistory] = field(default_factory=dict)
    faults: list[Seen] = field(default_factory=list)
    bundles: list[Bundle] = field(default_factory=list)
    brokers: list[str] = field(default_factory=list)
    """The ids of the brokers whose processes ran in the end."""
    active: list[str] = field(default_factory=list)
    """The ids of the brokers that were registered in the end."""
    logs: dict[str, str] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)
    """Processes that outlived the cluster."""
