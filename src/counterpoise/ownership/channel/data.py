"""The record of one bundle on the channel (``ServiceUnitState``, ``ServiceUnitStateData``)."""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from counterpoise.ownership.records import InvalidRecord

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1


class ServiceUnitState(enum.Enum):
    """The state of a bundle in its record, by Pulsar's names; a missing record means `INIT`."""

    INIT = "Init"
    FREE = "Free"
    OWNED = "Owned"
    ASSIGNING = "Assigning"
    RELEASING = "Releasing"
    SPLITTING = "Splitting"
    DELETED = "Deleted"

    @property
    def in_flight(self) -> bool:
        """Whether a bundle in this state waits for some broker to act, such as to take it."""
        return self in (
            ServiceUnitState.ASSIGNING,
            ServiceUnitState.RELEASING,
            ServiceUnitState.SPLITTING,
        )

    @property
    def active(self) -> bool:
        """Whether a bundle in this state has, had or is about to get an owner."""
        return self is ServiceUnitState.OWNED or self.in_flight


@dataclass(frozen=True, slots=True)
class ServiceUnitStateData:
    """A bundle's record in the state channel (PIP-192). Except in `FREE` it names a broker."""

    state: ServiceUnitState
    destination: str | None = None
    """``dstBroker``: the broker that owns the bundle, or is to own it."""
    source: str | None = None
    """``sourceBroker``: the broker that owned it before."""
    children: Mapping[str, str | None] = field(default_factory=dict)
    """``splitServiceUnitToDestBroker``: the ranges that a splitting bundle is cut into."""
    force: bool = False
    """Whether the record repairs what a dead broker left; it may follow a record of any state."""
    timestamp_ms: int = 0
    version: int = 0
    """``versionId``: one more than that of the record before; the first is 1."""

    def __post_init__(self) -> None:
        if (
            self.state is not ServiceUnitState.FREE
            and blank(self.destination)
            and blank(self.source)
        ):
            raise ValueError(f"a record of state {self.state.value} names no broker")

    def to_json(self) -> bytes:
        """The record as JSON, in Pulsar's field order, without nulls."""
        fields: dict[str, Any] = {
            "state": self.state.value,
            "dstBroker": self.destination,
            "sourceBroker": self.source,
            "splitServiceUnitToDestBroker": dict(self.children) or None,
            "force": self.force,
            "timestamp": self.timestamp_ms,
            "versionId": self.version,
        }
        present = {name: value for name, value in fields.items() if value is not None}
        return json.dumps(present, separators=(",", ":")).encode()

    @staticmethod
    def from_json(value: bytes) -> "ServiceUnitStateData":
        """Parse a record from JSON; raises `InvalidRecord`."""
        try:
            read = json.loads(value)
            children = read.get("splitServiceUnitToDestBroker") or {}
            version, timestamp = read.get("versionId", 0), read.get("timestamp", 0)
            if not all(_is_int64(number) for number in (version, timestamp)):
                raise TypeError("a number is not a whole one of 64 bits")
            return ServiceUnitStateData(
                ServiceUnitState(read["state"]),
                _text(read.get("dstBroker")),
                _text(read.get("sourceBroker")),
                {str(name): _text(broker) for name, broker in children.items()},
                bool(read.get("force", False)),
                timestamp,
                version,
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise InvalidRecord("ServiceUnitStateData", value) from None


def _is_int64(value: Any) -> bool:
    return isinstance(value, int) and INT64_MIN <= value <= INT64_MAX


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("a broker's id is not text")
    return value


def blank(broker: str | None) -> bool:
    """Whether a record's broker name is None or white space, which means no broker in Pulsar."""
    return broker is None or not broker.strip()


def state_of(record: ServiceUnitStateData | None) -> ServiceUnitState:
    """The state of a record; a missing record is `INIT`."""
    return ServiceUnitState.INIT if record is None else record.state


def next_version(record: ServiceUnitStateData | None) -> int:
    """The version of the record that follows this one. It wraps as a Java long does."""
    if record is None:
        return 1
    return INT64_MIN if record.version == INT64_MAX else record.version + 1
