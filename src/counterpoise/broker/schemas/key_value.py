"""Types of schemas by Pulsar's names, and schemas of pairs: a key's and a value's in one."""

from typing import Final

from counterpoise.wire.values import Schema

SCHEMA_TYPES: Final = (
    "NONE",
    "STRING",
    "JSON",
    "PROTOBUF",
    "AVRO",
    "BOOLEAN",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "KEY_VALUE",
    "INSTANT",
    "LOCAL_DATE",
    "LOCAL_TIME",
    "LOCAL_DATE_TIME",
    "PROTOBUF_NATIVE",
)
"""The names of ``SchemaType``, in the order of their numbers in the protocol."""

_LENGTH_BYTES: Final = 4


class NotAPair(ValueError):
    """A KEY_VALUE schema does not have the schemas of a key and a value."""


def key_and_value(pair: Schema) -> tuple[Schema, Schema]:
    """The two schemas in a KEY_VALUE schema; raises `NotAPair`.

    Its data has each of them after its length, and its properties have their types
    (``KeyValueSchemaInfo``).
    """
    properties = dict(pair.properties)
    key, rest = _part("key", pair.data, properties)
    value, rest = _part("value", rest, properties)
    return key, value


def _part(part: str, data: bytes, properties: dict[str, str]) -> tuple[Schema, bytes]:
    length = int.from_bytes(data[:_LENGTH_BYTES])
    end = _LENGTH_BYTES + length
    kind = properties.get(f"{part}.schema.type", "BYTES")
    kind = "NONE" if kind == "BYTES" else kind
    if len(data) < max(end, _LENGTH_BYTES) or kind not in SCHEMA_TYPES:
        raise NotAPair(f"the schema of the {part} is cut off, or {kind} is no type of schemas")
    name = properties.get(f"{part}.schema.name", "")
    return Schema(name, data[_LENGTH_BYTES:end], SCHEMA_TYPES.index(kind)), data[end:]
