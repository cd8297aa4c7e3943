"""The allowed values of commands' fields, as a table; a command with any other is a violation.

Protobuf's types are wider than what Pulsar means by them, and its parser for Python returns invalid
UTF-8 as bytes. Numbers that Java reads as ``int`` and checks are checked here; numbers without
invalid values (an id, a time, a sequence id) are not in the table.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor

from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.proto.values_pb2 import KeyValue

Type = BaseCommand.Type
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1
COMMAND_SIZE_MAX: Final = 1 << 20
"""The most bytes of a command, without the entry behind it; the largest that clients send has a
schema."""
TEXT_SIZE_MAX: Final = 1 << 16
"""The most characters of one text in a command: a name, a key or a value of a property."""
LIST_MAX: Final = 10_000
"""The most properties, or hash ranges, of one command. Positions have no such limit: their lists
are decoded in pieces."""


class FieldLimit(NamedTuple):
    """The allowed range of a numeric field of a command, both ends included."""

    field: str
    low: int
    high: int


LIMITS: Final[dict[int, tuple[FieldLimit, ...]]] = {
    # ``Consumer.flowPermits`` of Pulsar refuses 0, and numbers that are negative as Java's ``int``.
    Type.FLOW: (FieldLimit("message_permits", 1, _INT32_MAX),),
    # A ``long`` of Java. The next exclusive producer gets this value plus one.
    Type.PRODUCER: (FieldLimit("topic_epoch", 0, _INT64_MAX),),
}
"""The allowed ranges of numeric fields, by type of command."""


_WITHOUT_TEXT: Final = frozenset(
    (Type.SEND, Type.FLOW, Type.ACK, Type.REDELIVER_UNACKNOWLEDGED_MESSAGES, Type.PING, Type.PONG)
)
"""Frequent or long commands, whose texts nothing reads, so that they are not checked."""


def what_is_wrong(kind: int, request: Any) -> str | None:
    """Describe what is wrong in a command whose type is ``kind``; None if nothing is."""
    for field, low, high in LIMITS.get(kind, ()):
        value = getattr(request, field)
        if not low <= value <= high:
            return f"its {field} is {value}, not {low} to {high}"
    return None if kind in _WITHOUT_TEXT else next(_wrong_texts(request), None)


def _wrong_texts(message: Any) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            for text in value if field.is_repeated else (value,):
                if not isinstance(text, str):
                    yield f"its {field.name} is not UTF-8"
                elif len(text) > TEXT_SIZE_MAX:
                    yield f"its {field.name} has {len(text)} characters, at most {TEXT_SIZE_MAX}"
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            if field.is_repeated and len(value) > LIST_MAX:
                yield f"its {field.name} are {len(value)}, at most {LIST_MAX}"
                return
            for inner in value if field.is_repeated else (value,):
                # Properties may be many, and mostly they are valid: a quick check comes first.
                if type(inner) is not KeyValue or not (_is_text(inner.key, inner.value)):
                    yield from _wrong_texts(inner)


def _is_text(key: object, value: object) -> bool:
    return (
        isinstance(key, str)
        and isinstance(value, str)
        and len(key) <= TEXT_SIZE_MAX
        and len(value) <= TEXT_SIZE_MAX
    )
