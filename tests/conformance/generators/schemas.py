"""Schemas that follow one another on a topic, each much like one before it."""

import json
from base64 import b64encode
from random import Random
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

STRATEGIES = (
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
)
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DEFAULTS = {"null": None, "boolean": True, "string": "d", "bytes": "d"}
PLAIN = ("STRING", "INT8", "INT64", "DOUBLE", "BOOLEAN", "DATE", "LOCAL_DATE_TIME")
"""Types of schemas that have no declaration."""


OF_OLD_CLIENTS = b'{"type": "object", "id": "x"}'
"""Old Java clients declare JSON schemas so. Pulsar means to accept it as another version of a JSON
schema, and fails."""
ODD = (
    b"",
    b"{",
    b"5",
    b"[]",
    b"{}",
    b'"int"',
    b'["null", "int"]',
    b'{"id": "x"}',
    b'{"type": "strange"}',
    OF_OLD_CLIENTS,
    b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Z"}]}',
    b'{"type": "record", "name": "R", "fields": [{"name": "a"}]}',
    b'{"type": "record", "fields": []}',
    b'{"type": "enum", "name": "E"}',
)
"""Declarations that are none, or not of every type of schema."""


def schemas_case(rng: Random) -> dict[str, Any]:
    kind = rng.choices(
        ("AVRO", "JSON", "PROTOBUF", "PROTOBUF_NATIVE", "KEY_VALUE", "PLAIN"), (6, 3, 1, 1, 2, 1)
    )[0]
    strategy = rng.choice(STRATEGIES)
    declared = [_record(rng, 0)]
    lines = []
    for _ in range(rng.randint(2, 6)):
        if rng.random() < 0.15:
            strategy = rng.choice(STRATEGIES)
        of = kind if rng.random() < 0.93 else rng.choice(("AVRO", "JSON", "STRING", "KEY_VALUE"))
        declared.append(_changed(rng, rng.choice(declared[-3:])))
        line = {
            **_schema(rng, of, declared[-1], rng.choice(declared)),
            "strategy": strategy,
            "consumer": rng.random() < 0.25,
        }
        if line["consumer"] or line["type"] != "JSON" or line["data"] != OF_OLD_CLIENTS.hex():
            lines.append(line)
    return {"op": "schemas", "lines": lines}


def _schema(rng: Random, kind: str, declared: Any, other: Any) -> dict[str, Any]:
    properties: dict[str, str] = {}
    if kind == "PLAIN":
        kind = rng.choice(PLAIN)
    if kind in PLAIN:
        data = rng.choice((*[b""] * 8, b"x", b"null"))
    elif kind == "KEY_VALUE":
        data, properties = _pair(rng, declared, other)
    elif kind == "PROTOBUF_NATIVE":
        data = _message(rng)
    else:
        data = _text(rng, declared)
    return {"type": kind, "data": data.hex(), "properties": properties}


def _text(rng: Random, declared: Any) -> bytes:
    if rng.random() < 0.04:
        return rng.choice(ODD)
    return json.dumps(declared, indent=rng.choice((None, None, 1))).encode()


def _message(rng: Random) -> bytes:
    """A message of Protocol Buffers, declared as Pulsar's clients do."""
    name = rng.choice("MN")
    file = FileDescriptorProto(name="f.proto", package=rng.choice("pq"), syntax="proto3")
    file.message_type.add(name="M")
    file.message_type.add(name="N")
    declared = {
        "fileDescriptorSet": b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode(),
        "rootMessageTypeName": f"{file.package}.{name}",
        "rootFileDescriptorName": "f.proto",
    }
    return json.dumps(declared).encode()


def _pair(rng: Random, declared: Any, other: Any) -> tuple[bytes, dict[str, str]]:
    """A key/value schema: the lengths of both parts before them, their types in properties."""
    parts, properties = [], {"kv.encoding.type": "INLINE"}
    for part, each in (("key", other), ("value", declared)):
        kind = rng.choices(("AVRO", "JSON", "STRING", "INT32"), (6, 2, 2, 1))[0]
        data = _text(rng, each) if kind in ("AVRO", "JSON") else b""
        properties |= {
            f"{part}.schema.name": part,
            f"{part}.schema.type": kind,
            f"{part}.schema.properties": "{}",
        }
        parts.append(len(data).to_bytes(4) + data)
    return b"".join(parts), properties


def _record(rng: Random, depth: int) -> dict[str, Any]:
    fields = [_field(rng, name, depth) for name in rng.sample("abcdef", rng.randint(0, 3))]
    made = {"type": "record", "name": rng.choice(("R", "S", "n.R")) + str(depth), "fields": fields}
    if rng.random() < 0.1:
        made["aliases"] = [rng.choice(("R", "S", "n.S")) + str(depth)]
    if rng.random() < 0.1:
        made["doc"] = rng.choice(("one", "two"))
    return made


def _field(rng: Random, name: str, depth: int) -> dict[str, Any]:
    kind = _type(rng, depth + 1, name)
    made = {"name": name, "type": kind}
    if rng.random() < 0.4 and _default(kind) is not NotImplemented:
        made["default"] = _default(kind)
    if rng.random() < 0.1:
        made["aliases"] = [rng.choice("uvwxyz")]
    if rng.random() < 0.05:
        made["doc"] = rng.choice(("one", "two"))
    return made


def _default(kind: Any) -> Any:
    if isinstance(kind, list):
        return _default(kind[0]) if kind else NotImplemented
    if isinstance(kind, dict):
        known = {"array": [], "map": {}, "enum": (kind.get("symbols") or [""])[0]}
        return known.get(kind["type"], NotImplemented)
    return DEFAULTS.get(kind, 1)


def _type(rng: Random, depth: int, name: str) -> Any:
    """A type in a field; named types have names of their own place, so that none is declared
    twice.
    """
    what = rng.random()
    if what < 0.6 or depth > 2:
        return rng.choice(PRIMITIVES)
    if what < 0.72:
        return rng.sample(PRIMITIVES, rng.randint(1, 3))
    if what < 0.8:
        return {"type": "array", "items": rng.choice(PRIMITIVES)}
    if what < 0.86:
        return {"type": "map", "values": rng.choice(PRIMITIVES)}
    if what < 0.91:
        symbols = rng.sample("ABC", rng.randint(1, 3))
        return {"type": "enum", "name": f"E{depth}{name}", "symbols": symbols}
    if what < 0.95:
        return {"type": "fixed", "name": f"F{depth}{name}", "size": rng.choice((4, 8))}
    inner = _record(rng, depth)
    return {**inner, "name": f"{inner['name']}{name}"}


def _changed(rng: Random, declared: dict[str, Any]) -> dict[str, Any]:
    """The declaration with a few changes: fields more, less, of other types, and other names."""
    made = json.loads(json.dumps(declared))
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        fields = made["fields"]
        free = sorted({*"abcdef"} - {each["name"] for each in fields})
        what = rng.random()
        if what < 0.35 and free:
            fields.insert(rng.randint(0, len(fields)), _field(rng, rng.choice(free), 0))
        elif what < 0.55 and fields:
            fields.pop(rng.randrange(len(fields)))
        elif what < 0.8 and fields:
            at = rng.randrange(len(fields))
            fields[at] = _field(rng, fields[at]["name"], 0)
        elif what < 0.9 and fields and free:
            each = rng.choice(fields)
            each["aliases"], each["name"] = [each["name"]], rng.choice(free)
        else:
            made["name"] = rng.choice(("R0", "S0", "n.R0"))
    return made
