"""Whether a topic accepts a schema in addition to its existing ones.

The strategies are those of ``SchemaCompatibilityStrategy``. Schemas of different types are never
compatible. Records (AVRO, JSON) are compared by Avro's rules; two schemas of any other type are
compatible, unless the strategy is ALWAYS_INCOMPATIBLE and they differ.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from counterpoise.broker.schemas.avro import NotAvro, why_unreadable
from counterpoise.wire.proto.values_pb2 import Schema as RawSchema
from counterpoise.wire.values import Schema

_RECORDS: Final = frozenset((RawSchema.Json, RawSchema.Avro))
_DECLARED: Final = _RECORDS | {RawSchema.Protobuf}
"""The types whose declarations Pulsar reads as Avro."""


_OF_CONSUMERS: Final = frozenset(("BACKWARD", "FORWARD", "FORWARD_TRANSITIVE", "FULL"))
"""Strategies under which a consumer's schema only has to read what the newest schema wrote."""


def why_invalid(schema: Schema) -> str | None:
    """Return why Pulsar refuses a schema for every topic; None if it is valid."""
    if schema.type in _DECLARED:
        try:
            declared = _declaration(schema)
        except NotAvro:
            return f"Invalid schema definition data for {_type_name(schema)} schema"
        if schema.type == RawSchema.Avro and isinstance(declared, list):
            return "Avro schema typed [UNION] is not supported"
    return None


def find_version(versions: Sequence[Schema], new: Schema) -> int | None:
    """The index of the first schema that is the same as ``new``; None if there is none.

    Names and properties do not count, and for records nor do white space and documentation.
    """
    candidates = [(at, each) for at, each in enumerate(versions) if each.type == new.type]
    for at, each in candidates:
        if each.data == new.data:
            return at
    if new.type in _DECLARED:
        with suppress(NotAvro, RecursionError):
            wanted = _undocumented(new)
            for at, each in candidates:
                if _undocumented(each) == wanted:
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
    if existing.data == new.data:
        return None
    if strategy == "ALWAYS_INCOMPATIBLE":
        return _unreadable(strategy, "the strategy allows no other schema")
    if existing.type not in _RECORDS:
        return None
    problem = None
    try:
        old_declaration, new_declaration = _declaration(existing), _declaration(new)
        if not strategy.startswith("FORWARD"):
            problem = why_unreadable(new_declaration, old_declaration)
        if problem is None and not strategy.startswith("BACKWARD"):
            problem = why_unreadable(old_declaration, new_declaration)
    except NotAvro as error:
        # Old Java clients declare JSON schemas in another format, which is not comparable.
        return None if existing.type == RawSchema.Json else f"Not an Avro schema: {error}"
    return None if problem is None else _unreadable(strategy, problem)


def _unreadable(strategy: str, problem: str) -> str:
    """Return Pulsar's message, with the Java exception that Pulsar's own tests look for."""
    return (
        f"Error during schema compatibility check with strategy {strategy}: "
        f"org.apache.avro.SchemaValidationException: Unable to read schema: {problem}"
    )


def _undocumented(schema: Schema) -> Any:
    return _declaration(schema, lambda it: {key: it[key] for key in it if key != "doc"})


def _declaration(schema: Schema, hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    try:
        return json.loads(schema.data, object_hook=hook)
    except (ValueError, RecursionError) as error:
        raise NotAvro(str(error)) from None


def _type_name(schema: Schema) -> str:
    try:
        return RawSchema.Type.Name(schema.type).upper()
    except ValueError:
        return str(schema.type)
