"""The shapes of request bodies: small JSON Schemas, checked before a handler gets the value.

The OpenAPI document describes bodies by the same schemas. Members that a shape does not name are
accepted, as in Pulsar; those that it names have the declared type or are null.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

Json = Any
"""A value as `json` parses it. It has no closer type, because Pulsar's JSON differs from resource
to resource."""
Schema = Mapping[str, Any]

DEPTH_MAX: Final = 32
"""How deeply a body may be nested at most. Pulsar's deepest has five levels."""
INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)


class InvalidBody(ValueError):
    """A request body of another shape than the route declares; the message says where and why."""


_BARE_WORD: Final = re.compile(rb"[\w=:.-]+")


class Shape:
    """What a request body must look like, by which it is checked and described in OpenAPI."""

    def __init__(self, schema: Schema) -> None:
        self.schema: Final = schema

    def check(self, value: Json) -> Json:
        """Return the value, with defaults filled in; raises `InvalidBody` naming the member that is
        wrong.
        """
        # Imported late: most brokers of a test never see a body.
        from fastjsonschema import JsonSchemaValueException

        try:
            self._validate(value)
        except JsonSchemaValueException as error:
            raise InvalidBody(error.message.replace("data", "the body", 1)) from None
        _put_zeros(self.schema, value)
        return value

    def read(self, data: bytes) -> Json:
        """Parse a body of this shape; raises `InvalidBody`.

        Where the shape is a text, quotes may be missing: ``pulsar-admin`` sends some texts without.
        """
        try:
            return self.check(read_json(data))
        except InvalidBody:
            if not self._is_text or not _BARE_WORD.fullmatch(data.strip()):
                raise
            return self.check(data.strip().decode())

    @property
    def _is_text(self) -> bool:
        kinds = self.schema.get("type", ())
        return "string" in ((kinds,) if isinstance(kinds, str) else kinds)

    @cached_property
    def _validate(self) -> Callable[[Json], Json]:
        import fastjsonschema

        compiled: Callable[[Json], Json] = fastjsonschema.compile(dict(self.schema))
        return compiled


def text(*choices: str) -> Schema:
    """The shape of a string, or of one of the choices."""
    return {"type": "string", "enum": list(choices)} if choices else {"type": "string"}


def whole(bounds: tuple[int, int] = INT32) -> Schema:
    """The shape of a whole number; by default one that fits Java's int."""
    return {"type": "integer", "minimum": bounds[0], "maximum": bounds[1]}


def defaulting(each: Schema, value: Json) -> Schema:
    """The shape of a member that has a default, as Jackson reads Java's primitive types.

    It is read as ``value`` where an object lacks it, and as 0 or false where it is null.
    """
    return {**each, "default": value}


NUMBER: Final[Schema] = {"type": "number"}
FLAG: Final[Schema] = {"type": "boolean"}
ANYTHING: Final[Schema] = {}


def list_of(each: Schema) -> Schema:
    """The shape of a list whose items have one shape."""
    return {"type": "array", "items": each}


def map_of(each: Schema) -> Schema:
    """The shape of an object with any keys, whose values all have one shape."""
    return {"type": "object", "additionalProperties": each}


def object_of(members: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """The shape of an object; members that are not required may be null or missing."""
    return {
        "type": "object",
        "properties": {
            name: each if name in required else nullable(each) for name, each in members.items()
        },
        "required": list(required),
    }


def nullable(each: Schema) -> Schema:
    """The shape of a value that has this shape, or is null."""
    if not each:
        return each
    if isinstance(each["type"], list):
        return each
    nullable = {**each, "type": [each["type"], "null"]}
    return {**nullable, "enum": [*each["enum"], None]} if "enum" in each else nullable


def _put_zeros(schema: Schema, value: Json) -> None:
    if not isinstance(value, dict):
        return
    for name, each in schema.get("properties", {}).items():
        if name in value:
            if value[name] is None and "default" in each:
                value[name] = type(each["default"])()
            _put_zeros(each, value[name])


def read_json(data: bytes) -> Json:
    """Parse a body as JSON; None if it is empty; raises `InvalidBody`."""
    if not data.strip():
        return None
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise InvalidBody("the body is not text in UTF-8") from None
    except RecursionError:
        raise InvalidBody(f"the body is nested deeper than {DEPTH_MAX} levels") from None
    except ValueError as error:
        # Beside malformed JSON: a number of more digits than Python reads.
        raise InvalidBody(f"the body is not JSON: {error}") from None
    for depth, each in _walk(value):
        if depth > DEPTH_MAX:
            raise InvalidBody(f"the body is nested deeper than {DEPTH_MAX} levels")
        if isinstance(each, str) and not _is_text(each):
            raise InvalidBody("the body has half of a surrogate pair, which is no text")
    return value


def _walk(value: Json) -> Iterator[tuple[int, Json]]:
    """Every value and name inside a value, with its depth."""
    pending = [(1, value)]
    while pending:
        depth, each = pending.pop()
        yield depth, each
        if isinstance(each, dict):
            pending.extend((depth + 1, name) for name in each)
            pending.extend((depth + 1, inner) for inner in each.values())
        elif isinstance(each, list):
            pending.extend((depth + 1, inner) for inner in each)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON number")
