"""Values that several commands carry, as plain immutable Python.

Ledger and entry ids are signed, since -1 and 2**63-1 stand for "earliest" and "latest".
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple


class MessageId(NamedTuple):
    """A message's position in a topic.

    ``partition`` is -1 for a topic without partitions, ``batch_index`` for a message outside of a
    batch.
    """

    ledger_id: int
    entry_id: int
    partition: int = -1
    batch_index: int = -1


class TransactionId(NamedTuple):
    """A transaction's id: its coordinator, and its number there (``TxnID``'s most, least bits)."""

    coordinator: int
    number: int

    def __str__(self) -> str:
        return f"({self.coordinator},{self.number})"


class SubscriptionType(IntEnum):
    """How a subscription shares messages among its consumers."""

    Exclusive = 0
    Shared = 1
    Failover = 2
    Key_Shared = 3


class InitialPosition(IntEnum):
    """Where a new subscription begins: at the latest or the earliest message."""

    Latest = 0
    Earliest = 1


class AccessMode(IntEnum):
    """Whether a producer shares its topic with other producers (PIP-68)."""

    Shared = 0
    Exclusive = 1
    WaitForExclusive = 2
    ExclusiveWithFencing = 3


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as clients declare it; ``type`` is the number of `values.proto`'s Schema.Type."""

    name: str
    data: bytes
    type: int
    properties: tuple[tuple[str, str], ...] = ()
    registered_ms: int = field(default=0, compare=False)
    """When a broker registered it, in milliseconds since 1970; 0: it is not registered."""
