"""Whether a topic accepts a schema in addition to its existing ones.

The strategies are those of ``SchemaCompatibilityStrategy``. Records (AVRO, JSON) are compared by
Avro's rules; a schema of any other type is compatible only with an equal one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from counterpoise.broker.schemas.avro import NotAvro, why_unreadable
from counterpoise.wire.proto.values_pb2 import Schema as RawSchema
from counterpoise.wire.values import Schema

_RECORDS: Final = frozenset((RawSchema.Json, RawSchema.Avro))


_OF_CONSUMERS: Final = frozenset(("BACKWARD", "FORWARD", "FORWARD_TRANSITIVE", "FULL"))
"""Strategies under which a consumer's schema has to read what the newest one wrote, and no more."""


def why_refused(
    versions: Sequence[Schema], new: Schema, strategy: str, *, consumer: bool = False
) -> str | None:
    """Why a topic with these schemas, the newest last, refuses ``new``; None if it accepts it.

    A transitive strategy compares with all of them, another with the newest
    (``SchemaRegistryServiceImpl``).
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
        return "Incompatible schema: the compatibility strategy is ALWAYS_INCOMPATIBLE"
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
        # JSON schemas of old Java clients are declared in another language: not comparable.
        return None if existing.type == RawSchema.Json else f"Not an Avro schema: {error}"
    return None if problem is None else f"Unable to read schema: {problem}"


def _declaration(schema: Schema) -> Any:
    try:
        return json.loads(schema.data)
    except (ValueError, RecursionError) as error:
        raise NotAvro(str(error)) from None


def _type_name(schema: Schema) -> str:
    try:
        return RawSchema.Type.Name(schema.type).upper()
    except ValueError:
        return str(schema.type)
