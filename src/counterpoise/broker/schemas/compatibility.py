"""Whether a topic accepts a schema in addition to its existing ones.

The strategies are those of ``SchemaCompatibilityStrategy``. Schemas of different types are never
compatible. Records (AVRO, JSON) are compared by Avro's rules, pairs (KEY_VALUE) by their keys'
schemas and their values', and PROTOBUF_NATIVE schemas by the names of their messages; two schemas
of any other type are compatible, unless the strategy is ALWAYS_INCOMPATIBLE and they differ.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from counterpoise.broker.schemas.avro import NotAvro, require_avro, why_unreadable
from counterpoise.broker.schemas.key_value import SCHEMA_TYPES, NotAPair, key_and_value
from counterpoise.wire.proto.values_pb2 import Schema as RawSchema
from counterpoise.wire.values import Schema

_RECORDS: Final = frozenset((RawSchema.Json, RawSchema.Avro))
_DECLARED: Final = _RECORDS | {RawSchema.Protobuf}
"""The types whose declarations Pulsar reads as Avro."""


_PRIMITIVE: Final = frozenset(range(RawSchema.Bool, RawSchema.ProtobufNative)) - {
    RawSchema.KeyValue
}
"""The types that have no declaration, besides STRING."""
_NO_STRING: Final = (b"", b"null")
"""What the data of a STRING schema may be: Pulsar's client for Python sends the second."""
_AVRO: Final = "avro"
_JACKSON: Final = "jackson"
_OF_JACKSON: Final = frozenset(
    ("any", "array", "boolean", "integer", "null", "number", "object", "string")
)
"""The types in JSON schemas as old Java clients declare them."""
_OF_CONSUMERS: Final = frozenset(("BACKWARD", "FORWARD", "FORWARD_TRANSITIVE", "FULL"))
"""Strategies under which a consumer's schema only has to read what the newest schema wrote."""


def why_invalid(schema: Schema) -> str | None:
    """Return why Pulsar refuses a schema for every topic; None if it is valid.

    Source: ``SchemaDataValidator``.
    """
    try:
        if schema.type == RawSchema.KeyValue:
            problems = map(why_invalid, key_and_value(schema))
            return next((each for each in problems if each is not None), None)
        if schema.type == RawSchema.ProtobufNative:
            _message(schema)
        elif schema.type in _DECLARED:
            return _why_no_record(schema)
    except (NotAPair, NotAvro):
        return f"Invalid schema definition data for {_type_name(schema)} schema"
    if schema.type == RawSchema.String and schema.data not in _NO_STRING:
        return f"Invalid schema definition data for string schema : {schema.data[:80]!r}"
    if schema.type in _PRIMITIVE and schema.data:
        return (
            "Invalid schema definition data for primitive schemas: the length of schema data "
            f"should be zero, but {len(schema.data)} bytes is found"
        )
    return None


def _why_no_record(schema: Schema) -> str | None:
    """Why a schema is refused whose declaration is to be Avro; None if it is not.

    Raises `NotAvro` if the declaration is not.
    """
    if schema.type == RawSchema.Json:
        if _kind_of_json(schema) is None:
            raise NotAvro("it is no known declaration")
        return None
    declared = _declaration(schema)
    require_avro(declared)
    if schema.type == RawSchema.Avro and isinstance(declared, list):
        return "Avro schema typed [UNION] is not supported"
    return None


def find_version(versions: Sequence[Schema], new: Schema) -> int | None:
    """The index of the first schema that is the same as ``new``; None if there is none.

    Names and properties do not count, and for records nor do white space, documentation and
    aliases.
    """
    candidates = [(at, each) for at, each in enumerate(versions) if each.type == new.type]
    for at, each in candidates:
        if each.data == new.data:
            return at
    if new.type in _DECLARED:
        with suppress(NotAvro, RecursionError):
            wanted = _essence(new)
            for at, each in candidates:
                if _essence(each) == wanted:
                    return at
    return None


def why_refused(
    versions: Sequence[Schema], new: Schema, strategy: str, *, consumer: bool = False
) -> str | None:
    """Why a topic with these schemas, the newest last, refuses ``new``; None if it accepts it.

    A transitive strategy compares with all of them, another with the newest
    (``SchemaRegistryServiceImpl``). ``consumer``: ``new`` is a consumer's schema, not a producer's.
    """
    against = versions if strategy.endswith("_TRANSITIVE") else versions[-1:]
    if consumer and versions and strategy == "ALWAYS_INCOMPATIBLE":
        return _unreadable(strategy, "the strategy allows no consumer with a schema")
    if consumer and strategy in _OF_CONSUMERS:
        strategy, against = "BACKWARD", versions[-1:]
    problems = (why_incompatible(each, new, strategy) for each in reversed(against))
    return next((each for each in problems if each is not None), None)


def why_incompatible(existing: Schema, new: Schema, strategy: str = "FULL") -> str | None:
    """Why ``new`` is incompatible with ``existing``; None if it is not.

    Under BACKWARD the new one must read what the existing one wrote, under FORWARD the reverse,
    under FULL both.
    """
    if strategy == "ALWAYS_COMPATIBLE":
        return None
    if existing.type != new.type:
        return (
            f"Incompatible schema: exists schema type {_type_name(existing)}, "
            f"new schema type {_type_name(new)}"
        )
    if existing.data == new.data and not strategy.endswith("_TRANSITIVE"):
        return None
    return _why_different(existing, new, strategy)


def _why_different(existing: Schema, new: Schema, strategy: str) -> str | None:
    """Why ``new`` is incompatible with another schema of its type; None if it is not."""
    if existing.type == RawSchema.KeyValue:
        return _why_other_pair(existing, new, strategy)
    if strategy == "ALWAYS_INCOMPATIBLE":
        return _unreadable(strategy, "the strategy allows no other schema")
    if existing.type == RawSchema.ProtobufNative:
        return _why_other_message(existing, new, strategy)
    if existing.type not in _RECORDS:
        return None
    if existing.type == RawSchema.Json and not strategy.endswith("_TRANSITIVE"):
        kinds = _kind_of_json(existing), _kind_of_json(new)
        if kinds != (_AVRO, _AVRO):
            return _why_other_json(existing, new, kinds)
    problem = None
    try:
        old_declaration, new_declaration = _declaration(existing), _declaration(new)
        if not strategy.startswith("FORWARD"):
            problem = why_unreadable(new_declaration, old_declaration)
        if problem is None and not strategy.startswith("BACKWARD"):
            problem = why_unreadable(old_declaration, new_declaration)
    except NotAvro as error:
        return f"Not an Avro schema: {error}"
    return None if problem is None else _unreadable(strategy, problem)


def _kind_of_json(schema: Schema) -> str | None:
    """How a JSON schema is declared: as Avro, or as old Java clients do (``JsonSchema`` of
    Jackson); None if it is neither.
    """
    try:
        declared = _declaration(schema)
    except NotAvro:
        return None
    try:
        require_avro(declared)
    except NotAvro:
        is_old = isinstance(declared, dict) and declared.get("type") in _OF_JACKSON
        return _JACKSON if is_old else None
    return _AVRO


def _why_other_json(
    existing: Schema, new: Schema, kinds: tuple[str | None, str | None]
) -> str | None:
    """Compare two JSON schemas of which at least one is not Avro.

    Schemas declared in different ways are not compared, and one that is declared in no known way
    may be replaced by any (``JsonSchemaCompatibilityCheck``).
    """
    if kinds[0] is None:
        return None
    if kinds[1] is None:
        return "Unknown schema format"
    if kinds == (_JACKSON, _JACKSON) and _declaration(existing).get("id") != _declaration(new).get(
        "id"
    ):
        return "Incompatible JSON schemas: their ids differ"
    return None


def _why_other_message(existing: Schema, new: Schema, strategy: str) -> str | None:
    try:
        names = [_message(each) for each in (existing, new)]
    except NotAvro as error:
        return f"Not a PROTOBUF_NATIVE schema: {error}"
    if names[0] != names[1]:
        return _unreadable(strategy, f"the message was {names[0]}, and is {names[1]}")
    return None


def _why_other_pair(existing: Schema, new: Schema, strategy: str) -> str | None:
    try:
        pairs = [*zip(key_and_value(existing), key_and_value(new), strict=True)]
    except NotAPair as error:
        return f"Not a KEY_VALUE schema: {error}"
    if any(old.type != given.type for old, given in pairs):
        kinds = ", ".join(f"{_type_name(old)} became {_type_name(given)}" for old, given in pairs)
        return f"Key schemas or Value schemas are different schema type: {kinds}"
    problems = (_why_different(old, given, strategy) for old, given in pairs)
    return next((each for each in problems if each is not None), None)


def _unreadable(strategy: str, problem: str) -> str:
    """Return Pulsar's message, with the Java exception that Pulsar's own tests look for."""
    return (
        f"Error during schema compatibility check with strategy {strategy}: "
        f"org.apache.avro.SchemaValidationException: Unable to read schema: {problem}"
    )


def _essence(schema: Schema) -> Any:
    """A record's declaration without what Avro does not compare."""
    return _declaration(
        schema, lambda it: {key: it[key] for key in it if key not in ("doc", "aliases")}
    )


def _declaration(schema: Schema, hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    try:
        return json.loads(schema.data, object_hook=hook)
    except (ValueError, RecursionError) as error:
        raise NotAvro(str(error)) from None


def _message(schema: Schema) -> str:
    """The full name of the message that a PROTOBUF_NATIVE schema declares; raises `NotAvro`."""
    declared = _declaration(schema)
    name = declared.get("rootMessageTypeName") if isinstance(declared, dict) else None
    if not isinstance(name, str):
        raise NotAvro("it names no message")
    return name


def _type_name(schema: Schema) -> str:
    return SCHEMA_TYPES[schema.type] if 0 <= schema.type < len(SCHEMA_TYPES) else str(schema.type)
