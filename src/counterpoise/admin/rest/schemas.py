"""``/admin/v2/schemas``: the versions of a topic's schema."""

import json
from http import HTTPStatus

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import RestError, not_found
from counterpoise.admin.request import answer, body_of, broker_of, number_of, topic_of
from counterpoise.admin.rest.namespaces import require_namespace
from counterpoise.admin.route import FORCE
from counterpoise.admin.shapes import InvalidBody, Json, Shape, map_of, object_of, read_json, text
from counterpoise.broker.face import SCHEMA_TYPES, Schema, find_version, why_invalid, why_refused
from counterpoise.names.topic import TopicName

BASE = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"

PAYLOAD = Shape(
    object_of(
        {"type": text(), "schema": text(), "properties": map_of(text())},
        required=("type", "schema"),
    )
)


routes = route.Routes()


@routes.get(f"{BASE}/schema", access.topic("GET_METADATA"))
async def latest(request: web.Request) -> web.Response:
    """The newest version of the schema."""
    versions = await _versions(request)
    return answer(_schema_json(len(versions) - 1, versions[-1]))


@routes.get(f"{BASE}/schema/{{version}}", access.topic("GET_METADATA"))
async def one(request: web.Request) -> web.Response:
    """One version of the schema; the first is 0."""
    versions, requested = await _versions(request), number_of(request, "version")
    if not 0 <= requested < len(versions):
        raise not_found("Schema not found")
    return answer(_schema_json(requested, versions[requested]))


@routes.get(f"{BASE}/schemas", access.topic("GET_METADATA"))
async def every(request: web.Request) -> web.Response:
    """All versions of the schema, the oldest first; none if the topic has no schema."""
    versions = await broker_of(request).schemas.versions(await _topic(request))
    return answer({"getSchemaResponses": [_schema_json(*each) for each in enumerate(versions)]})


@routes.post(f"{BASE}/schema", access.topic("PRODUCE"), PAYLOAD)
async def upload(request: web.Request) -> web.Response:
    """Register a schema as a producer does; 409 if it is incompatible with the newest version."""
    topic = await _topic(request)
    version = await broker_of(request).schemas.put(topic, _schema(request, topic))
    return answer({"version": {"version": int.from_bytes(version)}})


@routes.delete(f"{BASE}/schema", access.TENANT_ADMIN, query=FORCE)
async def delete(request: web.Request) -> web.Response:
    """Remove all versions of the schema."""
    topic = await _topic(request)
    versions = await broker_of(request).schemas.versions(topic)
    await broker_of(request).schemas.delete(topic)
    return answer({"version": len(versions)})


@routes.post(f"{BASE}/compatibility", access.TENANT_ADMIN, PAYLOAD)
async def compatibility(request: web.Request) -> web.Response:
    """Whether the topic's compatibility strategy would accept a schema as its next version."""
    topic = await _topic(request)
    versions = await broker_of(request).schemas.versions(topic)
    requested = _schema(request, topic)
    strategy = (await broker_of(request).schemas.rules(topic)).strategy
    problem = why_refused(versions, requested, strategy)
    if versions and versions[-1].type != requested.type and problem is not None:
        # Pulsar answers another type with 500, as it answers an error of its own.
        raise RestError(HTTPStatus.INTERNAL_SERVER_ERROR, problem)
    found = {"compatibility": problem is None, "schemaCompatibilityStrategy": strategy}
    return web.json_response(found, status=HTTPStatus.ACCEPTED)


@routes.post(f"{BASE}/version", access.topic("GET_METADATA"), PAYLOAD)
async def version_of(request: web.Request) -> web.Response:
    """The version number of a schema; -1 if it was never registered."""
    topic = await _topic(request)
    versions = await broker_of(request).schemas.versions(topic)
    found = find_version(versions, _schema(request, topic))
    return answer({"version": -1 if found is None else found})


def _named(request: web.Request) -> TopicName:
    topic = topic_of(request)
    return topic.partitioned_name if topic.partition_index >= 0 else topic


async def _topic(request: web.Request) -> TopicName:
    topic = _named(request)
    await require_namespace(request, topic.namespace_name)
    return topic


async def _versions(request: web.Request) -> list[Schema]:
    found = await broker_of(request).schemas.versions(_named(request))
    if not found:
        raise not_found("Schema not found")
    return found


def _schema(request: web.Request, topic: TopicName) -> Schema:
    body: Json = body_of(request)
    kind = None if body is None else {"BYTES": "NONE"}.get(body["type"], body["type"])
    if kind not in SCHEMA_TYPES:
        raise RestError(HTTPStatus.UNPROCESSABLE_ENTITY, f"type: one of {', '.join(SCHEMA_TYPES)}")
    found = Schema(
        name=topic.local_name,
        data=_packed(body["schema"]) if kind == "KEY_VALUE" else body["schema"].encode(),
        type=SCHEMA_TYPES.index(kind),
        properties=tuple((body.get("properties") or {}).items()),
    )
    invalid = why_invalid(found)
    if invalid is not None:
        raise RestError(HTTPStatus.UNPROCESSABLE_ENTITY, invalid)
    return found


def _packed(written: str) -> bytes:
    """Encode a KEY_VALUE schema as clients do: the schemas of key and value, each after its
    length.
    """
    try:
        pair = read_json(written.encode())
        parts = [pair["key"], pair["value"]]
    except (InvalidBody, KeyError, TypeError):
        why = "Invalid schema definition data for KEY_VALUE schema"
        raise RestError(HTTPStatus.UNPROCESSABLE_ENTITY, why) from None
    packed = [b"" if each == "" else _compact(each).encode() for each in parts]
    return b"".join(len(each).to_bytes(4) + each for each in packed)


def _unpacked(data: bytes) -> str:
    """Decode a KEY_VALUE schema into JSON; bytes that are no such pair are returned as text."""
    end = 4 + int.from_bytes(data[:4])
    try:
        parts = [json.loads(each) if each else "" for each in (data[4:end], data[end + 4 :])]
    except (ValueError, RecursionError):
        return data.decode(errors="replace")
    return _compact(dict(zip(("key", "value"), parts, strict=True)))


def _compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _schema_json(version: int, schema: Schema) -> Json:
    kind = SCHEMA_TYPES[schema.type] if 0 <= schema.type < len(SCHEMA_TYPES) else "NONE"
    data = _unpacked(schema.data) if kind == "KEY_VALUE" else schema.data.decode(errors="replace")
    return {
        "version": version,
        "type": kind,
        "timestamp": schema.registered_ms,
        "data": data,
        "properties": dict(schema.properties),
    }
