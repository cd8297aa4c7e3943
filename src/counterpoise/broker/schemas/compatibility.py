"""Whether a topic takes a schema beside those it has.

The strategies are ``SchemaCompatibilityStrategy``'s; a broker's default is FULL. Records (AVRO,
JSON) are compared by Avro's rules; of the other types each is compatible with itself alone.
"""

from __future__ import annotations

import json
from typing import Any, Final

from counterpoise.broker.schemas.avro import NotAvro, why_unreadable
from counterpoise.wire.proto.values_pb2 import Schema as RawSchema
from counterpoise.wire.values import Schema

_RECORDS: Final = frozenset((RawSchema.Json, RawSchema.Avro))


def why_incompatible(existing: Schema, new: Schema, *, consumer: bool = False) -> str | None:
    """Say why a topic that has ``existing`` does not take ``new``; None if it does.

    A producer's schema must be readable with the existing one and the reverse (FULL); a consumer's
    only has to read what the existing one wrote (BACKWARD).
    """
    if existing.type != new.type:
        return (
            f"Incompatible schema: exists schema type {_type_name(existing)}, "
            f"new schema type {_type_name(new)}"
        )
    if existing.data == new.data or existing.type not in _RECORDS:
        return None
    try:
        old_declaration, new_declaration = _declaration(existing), _declaration(new)
        problem = why_unreadable(new_declaration, old_declaration)
        if problem is None and not consumer:
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
