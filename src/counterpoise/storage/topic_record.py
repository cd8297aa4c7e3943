"""A persistent topic's metadata, and how a ledger store writes them into the topic's node."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from counterpoise.names.position import Position


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic's metadata; most topics have none, and an empty node."""

    properties: Mapping[str, str] = field(default_factory=dict)
    terminated: Position | None = None
    """The last position of a topic to which nothing more may ever be published."""


class TopicCodec(Protocol):
    """How a ledger store encodes topics' metadata in their metadata nodes."""

    def read(self, value: bytes) -> TopicRecord:
        """Parse a value that `write` made."""

    def write(self, record: TopicRecord, former: bytes = b"") -> bytes:
        """The node's value for this record, replacing the ``former`` value."""


_PLAIN = TopicRecord()


class JsonTopics:
    """The `TopicCodec` that writes JSON, for stores that keep nothing else in a topic's node."""

    def read(self, value: bytes) -> TopicRecord:
        """Parse a value that `write` made; an empty one only shows that the topic exists."""
        if not value:
            return _PLAIN
        fields = json.loads(value)
        ended = (
            Position(*fields.get("terminatedAt", (-1, -1))) if fields.get("terminated") else None
        )
        return TopicRecord(fields.get("properties") or {}, ended)

    def write(self, record: TopicRecord, former: bytes = b"") -> bytes:
        """The node's value for this record, replacing the ``former`` value."""
        if record == _PLAIN:
            return b""
        fields: dict[str, object] = {
            "properties": dict(record.properties),
            "terminated": record.terminated is not None,
        }
        if record.terminated is not None:
            fields["terminatedAt"] = list(record.terminated)
        return json.dumps(fields).encode()
